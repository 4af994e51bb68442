"""save_pretrained: the reverse of from_pretrained."""

from __future__ import annotations

from albert_tf import keras
from albert_tf.export.conversion import check_no_model, save
from albert_tf.text.tokenization import FullTokenizer
from albert_tf.weights.vocabulary_files import VocabularyFiles


def save_pretrained(model: keras.Model, folder: str, tokenizer: FullTokenizer | None = None, to: str = "ours",
                    dtype: str = "float32") -> None:
    """Writes a model with its config, and the vocabulary of a tokenizer, to a folder that from_pretrained can read.

    Args:
      model: any model of albert_tf.modeling.
      folder: folder of the files, which is made if it does not exist.
      tokenizer: the model's tokenizer; None for no vocabulary.
      to: "ours", "hugging_face", "tf1" (the release's checkpoint), "tf1_bert" (that of google-research/bert) or
        "tf_hub".
      dtype: data type of the weights: "float32", or with "hugging_face" also "float16" or "bfloat16".

    Raises:
      ValueError: the folder already has a model, the format is unknown, or the format does not support the model or the
        dtype.

    Example::

      albert_tf.save_pretrained(model, "my_albert", tokenizer, to="hugging_face")
    """
    check_no_model(folder, to)
    vocabulary = VocabularyFiles() if tokenizer is None else VocabularyFiles.from_tokenizer(tokenizer)
    save(model, folder, to, vocabulary, dtype=dtype)
