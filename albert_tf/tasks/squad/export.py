"""Exports a model that was fine-tuned on SQuAD as a SavedModel that answers questions about texts.

pack_windows and best_answers do with TensorFlow ops what features.py and answers.py do.
"""

from __future__ import annotations

import tensorflow as tf

from albert_tf import keras
from albert_tf.export.saved_model import BatchedModel, TextSignature, export_model
from albert_tf.tasks.squad.answers import AnswerOptions, candidates
from albert_tf.tasks.squad.features import FeatureOptions
from albert_tf.text.graph.packing import cut, is_max_context, slices, windows_of, with_special_tokens
from albert_tf.text.graph.tokenization import GraphTokenizer
from albert_tf.text.packing import SPECIAL_TOKENS
from albert_tf.text.tokenization import FullTokenizer

MODEL_INPUTS = ("input_ids", "input_mask", "segment_ids", "p_mask")
# The model's outputs that are served for ids.
_SERVED = {
    "1.1": dict(start_logits=tf.float32, end_logits=tf.float32),
    "2.0": dict(start_top_log_probs=tf.float32, start_top_index=tf.int32, end_top_log_probs=tf.float32,
                end_top_index=tf.int32, cls_logits=tf.float32),
}
_BATCH = 16  # windows; a megabyte of context has thousands


def export_question_answering(
    export_dir: str, model: keras.Model, tokenizer: FullTokenizer, features: FeatureOptions, options: AnswerOptions,
) -> None:
    """Writes a SavedModel that finds answers (see export_model for the signatures).

    The inputs as raw text are `question` and `context`, string [batch], of any length. The outputs are those of
    best_answers. For ids the outputs are the model's logits (1.1) or beam (2.0).
    """
    version = options.squad_version
    shortest = getattr(model, "beam_width", 1)
    names = [name for name in MODEL_INPUTS if version == "2.0" or name != "p_mask"]

    def pack(graph_tokenizer: GraphTokenizer, question: tf.Tensor, context: tf.Tensor) -> dict:
        return pack_windows(graph_tokenizer, features, question, context, shortest)

    def answer(texts: dict, windows: dict, outputs: dict) -> dict:
        return best_answers(texts["context"], windows, outputs, options)

    export_model(export_dir, BatchedModel(model, _SERVED[version], _BATCH), tokenizer,
                 {name: tf.io.FixedLenFeature([features.max_seq_length], tf.int64) for name in names},
                 dict, TextSignature(dict(question=[None], context=[None]), pack, answer))


def pack_windows(
    tokenizer: GraphTokenizer, options: FeatureOptions, question: tf.Tensor, context: tf.Tensor, shortest: int = 1
) -> dict[str, tf.Tensor]:
    """Packs each pair of question and context into windows. The windows of a pair are consecutive; it has at least one.

    Question and context are string [pairs]. Rows are padded at least to `shortest`.

    Returns:
      input_ids, input_mask, segment_ids, p_mask: int32 [windows, seq], padded to the longest row.
      pair: int64 [windows], the index of each window's pair.
      starts, ends: int64 [windows, seq], the first byte of a context token, and one past its last; -1 for other tokens.
      is_max_context: bool [windows, seq], whether a context token has more context in this window than in others.
    """
    queries = tokenizer.tokenize(question)
    query_length = tf.minimum(queries.row_lengths(), options.max_query_length)  # [pairs]
    pieces, starts, ends = tokenizer.tokenize_with_offsets(context)
    window_length = options.max_seq_length - SPECIAL_TOKENS - query_length  # [pairs]
    windows = windows_of(pieces.row_lengths(), window_length, options.doc_stride)
    begin = tf.gather(pieces.row_starts(), windows.text) + windows.first  # among the pieces of all contexts
    rows, _ = with_special_tokens(tokenizer, tf.gather(cut(queries, query_length), windows.text),
                                  slices(pieces.values, begin, windows.length), has_b=tf.ones_like(begin))
    seq = tf.maximum(rows.bounding_shape(1), shortest)
    input_ids = rows.to_tensor(tokenizer.pad_id, shape=tf.stack([-1, seq]))  # [windows, seq]

    doc_offset, length = tf.gather(query_length, windows.text)[:, None] + 2, windows.length[:, None]
    position = tf.range(seq)[None] - doc_offset  # in the window
    in_window = (position >= 0) & (position < length)
    is_token = position <= length
    masks = dict(input_mask=is_token, segment_ids=is_token & (position >= 0),
                 p_mask=~in_window & (position + doc_offset > 0))
    num_pieces = tf.size(pieces.values, tf.int64)
    piece = tf.where(in_window, begin[:, None] + position, num_pieces)
    return dict(
        {name: tf.cast(mask, tf.int32) for name, mask in masks.items()}, input_ids=input_ids, pair=windows.text,
        starts=tf.gather(tf.pad(starts.values, [[0, 1]], constant_values=-1), piece),
        ends=tf.gather(tf.pad(ends.values, [[0, 1]], constant_values=-1), piece),
        is_max_context=is_max_context(position, length, in_window, piece, num_pieces))


def best_answers(
    context: tf.Tensor, windows: dict[str, tf.Tensor], outputs: dict[str, tf.Tensor], options: AnswerOptions
) -> dict[str, tf.Tensor]:
    """The best answer of each pair of question and context.

    Next to a character that is normalised to several ("½"), an answer can differ from answers.py's by one
    character, since that follows the release's alignment.

    Contexts are string [pairs], outputs start_logits and end_logits [windows, seq] (1.1), or the beam (2.0).

    Returns:
      answer: string [pairs]; "" if there is no span, or if no_answer_score is above options.threshold.
      start, end: int32 [pairs], the answer's first character in the context and one past its last, as str counts them.
      score: float32 [pairs], the sum of the scores of start and end.
      no_answer_score: float32 [pairs], the logit that there is no answer (2.0 only).
    """
    start, end, score = _best_spans(windows, outputs, options)  # [windows]
    pair, num_pairs = windows["pair"], tf.size(context, tf.int64)
    best, number = tf.math.unsorted_segment_max(score, pair, num_pairs), tf.range(tf.size(pair, tf.int64))
    is_best = score == tf.gather(best, pair)  # [windows]; on a tie, the first one is chosen
    chosen = tf.math.unsorted_segment_min(tf.where(is_best, number, number.dtype.max), pair, num_pairs)  # [pairs]
    score = tf.gather(score, chosen)
    first, stop = (tf.cast(tf.gather(tf.gather(windows[name], position, batch_dims=1), chosen), tf.int32)
                   for name, position in (("starts", start), ("ends", end)))  # bytes
    has_span = score > score.dtype.min
    first, stop = tf.where(has_span, first, 0), tf.where(has_span, stop, 0)
    marks = tf.strings.regex_replace(
        tf.strings.substr(context, stop, tf.strings.length(context) - stop), r"(?s)^(\pM*).*", r"\1")
    stop += tf.where(has_span, tf.strings.length(marks), 0)  # with the marks of the last character
    answer = tf.strings.substr(context, first, stop - first)
    characters = tf.strings.length(tf.strings.substr(context, tf.zeros_like(first), first), "UTF8_CHAR")
    served = dict(answer=answer, start=characters, end=characters + tf.strings.length(answer, "UTF8_CHAR"), score=score)
    if options.squad_version == "2.0":
        served["no_answer_score"] = no_answer_score = tf.math.unsorted_segment_min(
            outputs["cls_logits"], pair, num_pairs)
        if options.threshold is not None:
            is_declined = tf.cast(no_answer_score, tf.float64) > options.threshold
            for name, nothing in (("answer", ""), ("start", 0), ("end", 0)):
                served[name] = tf.where(is_declined, nothing, served[name])
    return served


def _best_spans(windows: dict, outputs: dict, options: AnswerOptions) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """First and last token of each window's best span, and its score (the smallest float if there is no span)."""
    found = candidates(outputs, options)
    starts, start_scores = found["start_top_index"], found["start_top_log_probs"]  # [windows, starts]
    ends, end_scores = found["end_top_index"], found["end_top_log_probs"]
    num_windows, num_starts = tf.unstack(tf.shape(starts))
    if options.squad_version == "1.1":  # all starts have the same ends
        ends, end_scores = (tf.broadcast_to(values[:, None], [num_windows, num_starts, num_starts])
                            for values in (ends, end_scores))
    ends, end_scores = (tf.reshape(values, [num_windows, num_starts, -1]) for values in (ends, end_scores))
    in_window = windows["starts"] >= 0  # [windows, seq]
    begins = tf.gather(in_window & windows["is_max_context"], starts, batch_dims=1)  # [windows, starts]
    fits = tf.gather(in_window, ends, batch_dims=1)  # [windows, starts, ends]
    lengths = ends - starts[:, :, None] + 1
    fits &= begins[:, :, None] & (lengths >= 1) & (lengths <= options.max_answer_length)
    scores = tf.where(fits, start_scores[:, :, None] + end_scores, start_scores.dtype.min)
    scores = tf.reshape(scores, [num_windows, -1])  # [windows, starts * ends]
    best = tf.argmax(scores, axis=1, output_type=tf.int32)  # [windows]
    start = tf.gather(starts, best // tf.shape(ends)[2], batch_dims=1)
    return start, tf.gather(tf.reshape(ends, tf.shape(scores)), best, batch_dims=1), tf.reduce_max(scores, axis=1)
