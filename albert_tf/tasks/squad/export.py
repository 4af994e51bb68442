"""Exports a model that was fine-tuned on SQuAD as a SavedModel that answers questions about texts."""

from __future__ import annotations

import tensorflow as tf

from albert_tf import keras
from albert_tf.export.batched_model import BatchedModel
from albert_tf.export.saved_model import export_model
from albert_tf.tasks.squad.answers import AnswerOptions
from albert_tf.tasks.squad.features import FeatureOptions
from albert_tf.tasks.squad.graph_answers import best_answers
from albert_tf.tasks.squad.graph_windows import MODEL_INPUTS, pack_windows
from albert_tf.text.tokenization import FullTokenizer

# The model's outputs that are served for ids.
_SERVED = {
    "1.1": dict(start_logits=tf.float32, end_logits=tf.float32),
    "2.0": dict(start_top_log_probs=tf.float32, start_top_index=tf.int32, end_top_log_probs=tf.float32,
                end_top_index=tf.int32, cls_logits=tf.float32),
}
# The number of windows of a batch. A megabyte of context has thousands of windows.
_BATCH = 16


def export_question_answering(
    export_dir: str, model: keras.Model, tokenizer: FullTokenizer, features: FeatureOptions, options: AnswerOptions,
) -> None:
    """Writes a SavedModel that finds answers (see export_model for the signatures).

    The inputs as raw text are `question` and `context`, string [batch]. A context can have any length: it is divided
    into windows, which are computed in batches. The outputs are those of tasks/squad_graph_answers.py: answer, start,
    end, score, and for SQuAD 2.0 no_answer_score. start and end count characters as Python's str does, not bytes:
    context[start:end] is the answer. For ids the outputs are the model's logits (1.1) or beam (2.0).

    Args:
      export_dir: folder of the SavedModel.
      model: AlbertSpan (1.1) or AlbertConditionalSpan (2.0).
      tokenizer: the model's tokenizer.
      features: how contexts are divided into windows.
      options: how answers are chosen.
    """
    version = options.squad_version
    shortest = getattr(model, "beam_width", 1)
    names = [name for name in MODEL_INPUTS if version == "2.0" or name != "p_mask"]

    def pack(graph_tokenizer, question, context) -> dict:
        return pack_windows(graph_tokenizer, features, question, context, shortest)

    def answer(texts: dict, windows: dict, outputs: dict) -> dict:
        return best_answers(texts["context"], windows, outputs, options)

    export_model(export_dir, BatchedModel(model, _SERVED[version], _BATCH), tokenizer,
                 {name: tf.io.FixedLenFeature([features.max_seq_length], tf.int64) for name in names},
                 dict, dict(question=[None], context=[None]), pack, answer)
