"""The SavedModel of a model that was fine-tuned on SQuAD: it answers questions about texts."""

from __future__ import annotations

import tensorflow as tf

from albert_tf import keras
from albert_tf.data.squad.features import FeatureOptions
from albert_tf.data.squad.graph_windows import MODEL_INPUTS, pack_windows
from albert_tf.interchange.batched_model import BatchedModel
from albert_tf.interchange.serving import export_model
from albert_tf.tasks.squad_answers import AnswerOptions
from albert_tf.tasks.squad_graph_answers import best_answers
from albert_tf.text.tokenization import FullTokenizer

# What of the model's outputs is served for ids.
_SERVED = {
    "1.1": dict(start_logits=tf.float32, end_logits=tf.float32),
    "2.0": dict(start_top_log_probs=tf.float32, start_top_index=tf.int32, end_top_log_probs=tf.float32,
                end_top_index=tf.int32, cls_logits=tf.float32),
}
# Windows that go through the model together; of a megabyte of context there are thousands.
_BATCH = 16


def export_question_answering(
    export_dir: str, model: keras.Model, tokenizer: FullTokenizer, features: FeatureOptions, options: AnswerOptions,
    shortest: int = 1,
) -> None:
    """Writes a SavedModel that finds answers; see export_model for its signatures.

    Raw text is `question` and `context`, string [batch]; a context of any length is read through windows, some at a
    time. The outputs are those of tasks/squad_graph_answers.py: answer, start, end, score, and in SQuAD 2.0
    no_answer_score. start and end count characters as Python's str does, not bytes: context[start:end] is the answer.
    For ids the outputs are the model's logits, or its beam.

    Args:
      export_dir: where it goes.
      model: AlbertSpan or AlbertConditionalSpan, by the version in `options`.
      tokenizer: of its vocabulary.
      features: how contexts are cut.
      options: how answers are chosen.
      shortest: the least length of a row; the beam of SQuAD 2.0 must fit in.
    """
    version = options.squad_version
    names = [name for name in MODEL_INPUTS if version == "2.0" or name != "p_mask"]

    def pack(graph_tokenizer, question, context) -> dict:
        return pack_windows(graph_tokenizer, features, question, context, shortest)

    def answer(texts: dict, windows: dict, found: dict) -> dict:
        return best_answers(texts["context"], windows, found, options)

    export_model(export_dir, BatchedModel(model, _SERVED[version], _BATCH), tokenizer,
                 {name: tf.io.FixedLenFeature([features.max_seq_length], tf.int64) for name in names},
                 dict, dict(question=[None], context=[None]), pack, answer)
