"""The SavedModel of a multiple-choice model: it chooses among options in raw text."""

from __future__ import annotations

import tensorflow as tf

from albert_tf.data.graph_choices import pack_choices
from albert_tf.interchange.serving import export_model, sequence_features
from albert_tf.modeling.multiple_choice import AlbertMultipleChoice
from albert_tf.text.tokenization import FullTokenizer


def export_multiple_choice(
    export_dir: str, model: AlbertMultipleChoice, tokenizer: FullTokenizer, max_seq_length: int, max_qa_length: int
) -> None:
    """Writes a SavedModel that chooses; see export_model for its signatures.

    Raw text is `context` and `question`, string [batch], and `options`, string [batch, choices], "" for one that a
    question does not have. The outputs are probabilities, float32 [batch, choices], and predictions, int32 [batch], the
    choice from 0.

    Args:
      export_dir: where it goes.
      model: its num_choices is the number of options.
      tokenizer: of its vocabulary.
      max_seq_length: tokens of a choice's row; the passage is cut.
      max_qa_length: tokens of question and option that are kept, the last ones.

    Raises:
      ValueError: there is something at export_dir that is not an earlier export.
    """
    text_inputs: dict[str, list[int | None]] = dict(context=[None], question=[None], options=[None, model.num_choices])

    def outputs(found: dict) -> dict:
        logits = found["logits"]
        return dict(probabilities=tf.nn.softmax(logits), predictions=tf.argmax(logits, -1, output_type=tf.int32))

    def pack(graph_tokenizer, **texts) -> dict:
        return pack_choices(graph_tokenizer, max_seq_length, max_qa_length, **texts)

    features = sequence_features(model.num_choices * max_seq_length)  # the choices side by side
    export_model(export_dir, model, tokenizer, features, outputs, text_inputs, pack)
