"""Chooses the best span of each question with TensorFlow ops: squad_answers.py for SavedModels."""

from __future__ import annotations

import tensorflow as tf

from albert_tf.tasks.squad.answers import AnswerOptions


def best_answers(
    context: tf.Tensor, windows: dict[str, tf.Tensor], outputs: dict[str, tf.Tensor], options: AnswerOptions
) -> dict[str, tf.Tensor]:
    """The best answer of each pair of question and context.

    Next to a character that is normalised to several ("½"), an answer can differ from squad_answers.py's by one
    character, since that follows the release's alignment.

    Args:
      context: string [pairs].
      windows: the result of data/squad/graph_windows.py.
      outputs: the model's outputs for the windows: start_logits and end_logits [windows, seq] (1.1), or the beam (2.0).
      options: how answers are chosen.

    Returns:
      answer: string [pairs]; "" if there is no span.
      start, end: int32 [pairs], the answer's first character in the context and one past its last, as str counts them.
      score: float32 [pairs], the sum of the scores of start and end.
      no_answer_score: float32 [pairs], the logit that there is no answer (2.0 only).
    """
    start, end, score = _best_spans(windows, outputs, options)  # [windows]
    pair, num_pairs = windows["pair"], tf.size(context, tf.int64)
    chosen = _best_window(score, pair, num_pairs)  # [pairs]
    score = tf.gather(score, chosen)
    first, stop = (tf.cast(tf.gather(tf.gather(windows[name], place, batch_dims=1), chosen), tf.int32)
                   for name, place in (("starts", start), ("ends", end)))  # bytes
    has_span = score > score.dtype.min
    first, stop = tf.where(has_span, first, 0), tf.where(has_span, stop, 0)
    answer = tf.strings.substr(context, first, stop - first)
    characters = tf.strings.length(tf.strings.substr(context, tf.zeros_like(first), first), "UTF8_CHAR")
    served = dict(answer=answer, start=characters, end=characters + tf.strings.length(answer, "UTF8_CHAR"), score=score)
    if options.squad_version == "2.0":
        served["no_answer_score"] = tf.math.unsorted_segment_min(outputs["cls_logits"], pair, num_pairs)
    return served


def _best_spans(windows: dict, outputs: dict, options: AnswerOptions) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """First and last token of each window's best span, and its score (the smallest float if there is no span)."""
    starts, start_scores, ends, end_scores = _candidates(outputs, options)
    in_window = windows["starts"] >= 0  # [windows, seq]
    begins = tf.gather(in_window & windows["is_max_context"], starts, batch_dims=1)  # [windows, starts]
    fits = tf.gather(in_window, ends, batch_dims=1)  # [windows, starts, ends]
    lengths = ends - starts[:, :, None] + 1
    fits &= begins[:, :, None] & (lengths >= 1) & (lengths <= options.max_answer_length)
    scores = tf.where(fits, start_scores[:, :, None] + end_scores, start_scores.dtype.min)
    scores = tf.reshape(scores, [tf.shape(starts)[0], -1])  # [windows, starts * ends]
    best = tf.argmax(scores, axis=1, output_type=tf.int32)  # [windows]
    start = tf.gather(starts, best // tf.shape(ends)[2], batch_dims=1)
    return start, tf.gather(tf.reshape(ends, tf.shape(scores)), best, batch_dims=1), tf.reduce_max(scores, axis=1)


def _candidates(outputs: dict, options: AnswerOptions) -> tuple:
    """Starts and their scores [windows, starts], ends and their scores [windows, starts, ends]."""
    if options.squad_version == "2.0":
        starts, start_scores = outputs["start_top_index"], outputs["start_top_log_probs"]
        shape = [tf.shape(starts)[0], tf.shape(starts)[1], -1]
        return (starts, start_scores, tf.reshape(outputs["end_top_index"], shape),
                tf.reshape(outputs["end_top_log_probs"], shape))
    count = tf.minimum(options.n_best_size, tf.shape(outputs["start_logits"])[1])
    (start_scores, starts), (end_scores, ends) = (tf.math.top_k(outputs[name], count)
                                                  for name in ("start_logits", "end_logits"))
    shape = [tf.shape(starts)[0], count, count]
    return starts, start_scores, *(tf.broadcast_to(values[:, None], shape) for values in (ends, end_scores))


def _best_window(score: tf.Tensor, pair: tf.Tensor, num_pairs: tf.Tensor) -> tf.Tensor:
    """The window with the highest score of each pair (on a tie, the first one), int64 [pairs]."""
    best = tf.gather(tf.math.unsorted_segment_max(score, pair, num_pairs), pair)
    number = tf.range(tf.size(pair, tf.int64))
    return tf.math.unsorted_segment_min(tf.where(score == best, number, number.dtype.max), pair, num_pairs)
