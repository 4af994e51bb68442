"""Exports a model that was fine-tuned to tag words as a SavedModel that takes raw text or words."""

from __future__ import annotations

import tensorflow as tf

from albert_tf.export.batched_model import BatchedModel
from albert_tf.export.saved_model import TextSignature, export_model, sequence_features
from albert_tf.modeling.token_classifier import AlbertTokenClassifier
from albert_tf.tasks.tagging.features import TaggingFeatureOptions
from albert_tf.tasks.tagging.graph import pack_words, split_into_words
from albert_tf.text.graph.tokenization import GraphTokenizer
from albert_tf.text.tokenization import FullTokenizer

WORDS = "words"
# The number of windows of a batch.
_BATCH = 16


def export_tagging(
    export_dir: str, model: AlbertTokenClassifier, tokenizer: FullTokenizer, options: TaggingFeatureOptions
) -> None:
    """Writes a SavedModel that tags words.

    Its signatures, besides ids and examples (see export_model)::

      serving_default   Input: text, string [batch], which is split into words: runs of letters, digits and "_", and
                        single other characters. Outputs: words, tags, scores, and the start and end of each word in
                        its text, which count characters as Python's str does: text[start:end] is the word.
      words             Input: words, string [batch, words], padded with "". Outputs: tags and scores.

    Words, tags and scores are [batch, words], padded with "" and 0; start and end are padded with -1. A score is the
    probability of the tag. A text can have any length: it is divided into windows. For ids the output is probabilities
    [batch, seq, labels].

    Args:
      export_dir: folder of the SavedModel.
      model: the model. Its label_names are the tags.
      tokenizer: the model's tokenizer.
      options: how texts are divided into windows.

    Raises:
      ValueError: there is something at export_dir that is not an earlier export.
    """
    def pack(graph_tokenizer: GraphTokenizer, words: tf.Tensor) -> dict:
        rows = tf.RaggedTensor.from_tensor(words, padding="")
        return dict(pack_words(graph_tokenizer, options, rows), words=rows)

    def pack_text(graph_tokenizer: GraphTokenizer, text: tf.Tensor) -> dict:
        words, starts, ends = split_into_words(text)
        return dict(pack_words(graph_tokenizer, options, words), words=words, start=starts, end=ends)

    def answer(texts: dict, inputs: dict, outputs: dict) -> dict:
        tags, scores = _best_tags(inputs, outputs["probabilities"], model.label_names)
        return dict(tags=tags.to_tensor(""), scores=scores.to_tensor(0.0))

    def answer_text(texts: dict, inputs: dict, outputs: dict) -> dict:
        offsets = {name: inputs[name].to_tensor(-1) for name in ("start", "end")}
        return dict(answer(texts, inputs, outputs), words=inputs["words"].to_tensor(""), **offsets)

    export_model(export_dir, BatchedModel(model, dict(logits=tf.float32), _BATCH), tokenizer,
                 sequence_features(options.max_seq_length),
                 lambda outputs: dict(probabilities=tf.nn.softmax(outputs["logits"])),
                 dict(text=[None]), pack_text, answer_text,
                 {WORDS: TextSignature(dict(words=[None, None]), pack, answer)}, model.label_names)


def _best_tags(inputs: dict, probabilities: tf.Tensor, label_names) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
    """The most probable tag of each word, and its probability (the mean over the word's pieces): [batch, (words)]."""
    words, counts = inputs["words"], inputs["word"] >= 0
    of_words = tf.math.unsorted_segment_mean(tf.boolean_mask(probabilities, counts),
                                             tf.boolean_mask(inputs["word"], counts), tf.size(words.values, tf.int64))
    tags = tf.gather(tf.constant(label_names), tf.argmax(of_words, axis=1))
    return words.with_values(tags), words.with_values(tf.reduce_max(of_words, axis=1))
