"""Exports that are scored: their flags, what a model loses in a precision, and whether that is too much."""

from __future__ import annotations

from typing import Callable, Iterable

from absl import flags

from albert_tf.commands import vector_flags
from albert_tf.commands.flag_fields import define_float, group
from albert_tf.modeling.predicting_model import PredictingModel
from albert_tf.tasks.classification.glue import find_task
from albert_tf.tasks.classification.task_config import load_task_config
from albert_tf.tasks.scores import Scorer, scorer
from albert_tf.weights.resolved_model import ResolvedModel

FLAGS = flags.FLAGS
flags.disclaim_key_flags()  # a flag belongs to the command that calls these functions

_ROUNDING = 1e-6  # of float32: the same outputs in another order of additions


@group("Export")
def define_score_flags() -> None:
    """Defines the flags of a dev file on which an export is scored."""
    flags.DEFINE_string("score_data", None, "Path of a dev file of the model's task, on which the model is scored "
                        "before and after the export: SQuAD's JSON, CoNLL for tags, JSON lines for multiple choice; "
                        "for texts and sentence vectors a file with the columns of --task_name or --task_config. "
                        "Default: nothing is scored.")
    define_float("max_score_drop", None, "Largest part of the score that an export of --score_data may lose: 0.005 "
                 "allows half a per cent. If one loses more, nothing is written. Default: any.", 0.0)
    flags.DEFINE_string("task_name", None, "Name of the GLUE task of --score_data, such as sst-2.")
    flags.DEFINE_string("task_config", None, "Path of a JSON file that describes a task of your own, instead of "
                        "--task_name (docs/fine_tuning.md shows one).")


def scorer_from_flags(model: ResolvedModel, head: str) -> Scorer | None:
    """The function that scores a model on --score_data; None if the flag is not set.

    Args:
      model: the result of `resolve_model`, which has the vocabulary.
      head: the name of the model's head.

    Raises:
      ValueError: another flag of scores is set without --score_data, or see scores.scorer.
    """
    if not FLAGS.score_data:
        for name in ("max_score_drop", "task_name", "task_config"):
            if FLAGS[name].value is not None:
                raise ValueError(f"--{name} needs --score_data, the file on which the export is scored")
        return None
    if FLAGS.task_name and FLAGS.task_config:
        raise ValueError("set either --task_name or --task_config")
    task = load_task_config(FLAGS.task_config) if FLAGS.task_config else None
    return scorer(head, FLAGS.score_data, model.vocabulary.tokenizer(model.config),
                  find_task(FLAGS.task_name) if FLAGS.task_name else task, vector_flags.vector_precision())


def check_scores(
    score: Scorer, model: PredictingModel, exports: Iterable[tuple[str, Callable[[], PredictingModel]]],
    max_score_drop: float | None,
) -> None:
    """Prints the score of a model and that of each export.

    Args:
      score: the result of scores.scorer.
      model: the model that is exported.
      exports: the name of each precision, and a function that opens the export.
      max_score_drop: the largest loss that is allowed, as a share of the model's score; None for any.

    Raises:
      ValueError: an export loses more.
    """
    before = score(model)
    print(f"{before.name} of the model: {before.value:.4f}", flush=True)
    for precision, opened in exports:
        after = score(opened())
        drop = before.drop_to(after)
        print(f"{after.name} in {precision}: {after.value:.4f} ({round(-drop, 4) + 0.0:+.2%})", flush=True)
        if max_score_drop is not None and drop > max_score_drop + _ROUNDING:
            raise ValueError(f"in {precision}, {after.name} is {after.value:.4f}, {drop:.2%} below the model's "
                             f"{before.value:.4f}, and --max_score_drop={max_score_drop:g} allows "
                             f"{max_score_drop:.2%}: nothing is written. Export without this precision, or allow more")
