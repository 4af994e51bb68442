"""Exports a multiple-choice model as a SavedModel that takes questions and options as raw text."""

from __future__ import annotations

import tensorflow as tf

from albert_tf.export.saved_model import export_model, sequence_features
from albert_tf.modeling.multiple_choice import AlbertMultipleChoice
from albert_tf.tasks.multiple_choice.graph import pack_choices
from albert_tf.text.tokenization import FullTokenizer


def export_multiple_choice(
    export_dir: str, model: AlbertMultipleChoice, tokenizer: FullTokenizer, max_seq_length: int, max_qa_length: int
) -> None:
    """Writes a SavedModel that chooses an option (see export_model for the signatures).

    The inputs as raw text are `context` and `question`, string [batch], and `options`, string [batch, choices], "" for
    an option that a question does not have. The outputs are probabilities, float32 [batch, choices], and predictions,
    int32 [batch], the index of the chosen option.

    Args:
      export_dir: folder of the SavedModel.
      model: the model. Its num_choices is the number of options.
      tokenizer: the model's tokenizer.
      max_seq_length: the largest number of tokens of a choice's row. The passage is truncated.
      max_qa_length: the largest number of tokens of question and option. Only the last ones are kept.

    Raises:
      ValueError: there is something at export_dir that is not an earlier export.
    """
    text_inputs: dict[str, list[int | None]] = dict(context=[None], question=[None], options=[None, model.num_choices])

    def outputs(model_outputs: dict) -> dict:
        logits = model_outputs["logits"]
        return dict(probabilities=tf.nn.softmax(logits), predictions=tf.argmax(logits, -1, output_type=tf.int32))

    def pack(graph_tokenizer, **texts) -> dict:
        return pack_choices(graph_tokenizer, max_seq_length, max_qa_length, **texts)

    features = sequence_features(model.num_choices * max_seq_length)  # all choices of a question in one row
    export_model(export_dir, model, tokenizer, features, outputs, text_inputs, pack)
