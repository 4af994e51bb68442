"""Fine-tunes ALBERT on SQuAD 1.1 or 2.0; scores, predicts, answers questions, exports.

    python -m albert_tf run_squad --train_file=train-v2.0.json --predict_file=dev-v2.0.json \\
        --init_checkpoint=albert_base_v2 --output_dir=squad --recipe=squad_v2 --do_train --do_predict

    python -m albert_tf run_squad --output_dir=squad --ask --context_file=text.txt

If it is started again with the same flags, training continues from the latest checkpoint. The script accepts the flags
of the release's run_squad_v1.py and run_squad_v2.py.
"""

from __future__ import annotations

import dataclasses
import functools
import os

from absl import flags, logging

from albert_tf import keras
from albert_tf.commands import (
    finetuning as tuning,
    finetuning_flags as tuning_flags,
    flag_fields as fields,
)
from albert_tf.commands.distillation import DistillationOptions, Teacher
from albert_tf.data.feature_table import FeatureTable
from albert_tf.modeling.span import AlbertConditionalSpan, AlbertSpan
from albert_tf.tasks.squad.answers import VERSION_OF_HEAD, AnswerOptions, QuestionAnswerer, answers, describe
from albert_tf.tasks.squad.export import export_question_answering
from albert_tf.tasks.squad.features import (
    FeatureOptions,
    QuestionWindows,
    default_doc_stride,
    prediction_table,
    training_table,
)
from albert_tf.tasks.squad.metrics import BEST_METRIC, Results, write_n_best, write_predictions
from albert_tf.tasks.squad.reading import MISPLACED_ANSWERS, VERSIONS, SquadFile, read_squad_file
from albert_tf.tasks.squad.task import ConditionalSpanTask, SpanTask
from albert_tf.text.lines import read_lines, read_standard_input
from albert_tf.training.evaluation import Predictions, shown, write_results
from albert_tf.training.strategy import is_chief
from albert_tf.utils import bounds

MAX_QUERY_LENGTH = 64  # the release's


@dataclasses.dataclass(frozen=True)
class Options(DistillationOptions, tuning_flags.Options):
    """The flags of this command."""

    train_file: str | None = fields.string(None, "Path of the SQuAD JSON file to train on.")
    predict_file: str | None = fields.string(
        None, "Path of the SQuAD JSON file that --do_predict and --do_eval predict. It is scored if it has answers.")
    squad_version: str | None = fields.choice(
        None, VERSIONS, "SQuAD version, which sets the head, the loss and the scores. Default: the version of the "
        "files, or for --ask and --export_dir that of the weights.")
    train_feature_file: str | None = fields.string(
        None, "Path of the cached training features. Default: a file in --cached_dir.")
    n_best_size: int = fields.integer(
        20, "Number of answers per question in nbest_predictions.json.", bounds.CANDIDATES)
    max_answer_length: int = fields.integer(30, "Largest number of pieces of an answer.", bounds.SEQ_LENGTH)
    start_n_top: int = fields.integer(5, "SQuAD 2.0: number of answer starts in the beam.", bounds.CANDIDATES)
    end_n_top: int = fields.integer(
        5, "SQuAD 2.0: number of answer ends for each start in the beam.", bounds.CANDIDATES)
    dropout_prob: float = fields.number(
        0.1, "SQuAD 2.0: dropout rate, from 0 to 1, of the answerability head in training.", 0.0, 1.0)
    null_score_diff_threshold: float | None = fields.number(
        None, "SQuAD 2.0: a question is answered unless its null score is above this threshold. Default: the threshold "
        "with the best F1 on --predict_file, or 0 if that has no answers.")
    release_compatible: bool = fields.boolean(
        False, "Whether to do as the release: questions are left out if their paragraph cannot be aligned, a question "
        "whose null score equals the best threshold is not answered, and scores count a question whose null score is "
        "above 1 as not answered.")
    ask: bool = fields.boolean(
        False, "Whether to answer questions about --context_file that are read from standard input, one per line.")
    context_file: str | None = fields.string(None, "Path of the text file about which --ask answers questions.")
    doc_stride: int | None = fields.integer(
        None, "Number of pieces from the start of one window of a paragraph to the start of the next. Default: that of "
        "the run in --output_dir, or 128, or the pieces of a window if they are fewer.", bounds.SEQ_LENGTH)
    max_query_length: int | None = fields.integer(
        None, "Largest number of pieces of a question; longer questions are truncated. Default: that of the run in "
        "--output_dir, or 64.", bounds.SEQ_LENGTH)
    misplaced_answers: str = fields.choice(
        "find", MISPLACED_ANSWERS, "Handling of training questions whose answer is not at its answer_start. find: use "
        "its nearest occurrence. leave_out: leave the question out.")
    num_workers: int = fields.integer(
        max(1, min(8, os.cpu_count() or 1)), "Number of processes that make features.", bounds.WORKERS)

    @property
    def readers(self):
        return dict(train_file=["do_train"], predict_file=["do_eval", "do_predict"], context_file=["ask"])


def define_flags() -> None:
    tuning_flags.define_flags(Options, max_seq_length=384)
    for name in ("predict_feature_file", "predict_feature_left_file"):
        flags.DEFINE_string(name, None, "Has no effect: the features of --predict_file are made anew, in memory. "
                            "Scripts for the release can set it.")
    flags.DEFINE_bool("use_einsum", True, "Has no effect. Scripts for the release can set it.")


def options_from_flags() -> Options:
    return tuning_flags.options_from_flags(Options, tuning_flags.set_defaults("span", "conditional_span"), ["ask"])


def main() -> None:
    QuestionAnswering(options_from_flags()).run()


def read_files(options: Options) -> dict[str, SquadFile]:
    """The files to use, by the names of their flags."""
    wanted = dict(train_file=options.do_train, predict_file=options.do_eval or options.do_predict)
    paths = {name: getattr(options, name) for name, is_wanted in wanted.items() if is_wanted}
    if options.ask and not any(map(str.strip, read_lines(options.context_file))):
        raise ValueError(f"{options.context_file} is empty: there is nothing to ask about")
    files = {name: read_squad_file(path) for name, path in paths.items()}
    if options.do_eval and not files["predict_file"].summary.has_answers:
        raise ValueError(f"{options.predict_file} has no answers to score with: --do_predict writes predictions")
    return files


def feature_options(options: Options) -> FeatureOptions:
    """How features are made: as the flags say, or else as in the run in --output_dir."""
    max_query_length = options.model.setting("max_query_length", options.max_query_length) or MAX_QUERY_LENGTH
    doc_stride = options.model.setting("doc_stride", options.doc_stride) or default_doc_stride(
        options.max_seq_length, max_query_length)
    return FeatureOptions(options.max_seq_length, doc_stride, max_query_length,
                          release_compatible=options.release_compatible, misplaced_answers=options.misplaced_answers)


def squad_version(options: Options, files: dict[str, SquadFile]) -> str:
    """The value of --squad_version, or the version of the files, or without files that of the weights' head."""
    said = sorted({file.summary.version for file in files.values()})
    if not options.squad_version and len(said) > 1:
        raise ValueError(f"the files are those of SQuAD {' and '.join(said)}: set --squad_version")
    said = said or [VERSION_OF_HEAD[head] for head in options.model.heads if head in VERSION_OF_HEAD]
    version = options.squad_version or (said[0] if said else None)
    if not version:
        raise ValueError("--squad_version is missing, and neither a file nor a fine-tuned checkpoint tells it")
    options.model.check_head([head for head, head_version in VERSION_OF_HEAD.items() if head_version == version])
    logging.info("SQuAD %s", version)
    return version


def beam_width(options: Options, version: str) -> int:
    """The smallest number of tokens of a row. Raises ValueError if --max_seq_length is smaller."""
    width = max(options.start_n_top, options.end_n_top) if version == "2.0" else 1
    if width > options.max_seq_length:
        raise ValueError(f"--start_n_top and --end_n_top must not be above --max_seq_length={options.max_seq_length}. "
                         f"Received: {options.start_n_top}, {options.end_n_top}")
    return width


class QuestionAnswering(tuning.FineTuning):
    """Questions whose answers are spans of a text.

    The training file is taken out of `files` when its features have been made, so that it is not in memory while the
    model is trained.
    """

    options: Options
    best_metric, unit = BEST_METRIC, "question"

    def __init__(self, options: Options):
        self.features, self.files = feature_options(options), read_files(options)
        self.version = squad_version(options, self.files)
        self.shortest_row = beam_width(options, self.version)
        super().__init__(options)
        used = [options.train_file] * options.do_train + [options.predict_file] * options.do_eval
        self.data_files = [*map(os.path.basename, used)]
        self.reading = dict(doc_stride=self.features.doc_stride, max_query_length=self.features.max_query_length)
        self.answer_options = AnswerOptions(self.version, options.n_best_size, options.max_answer_length)
        file = self.files.get("predict_file")
        self.dataset = file.articles if file and file.summary.has_answers else None
        task = SpanTask if self.version == "1.1" else ConditionalSpanTask
        head, = (head for head, version in VERSION_OF_HEAD.items() if version == self.version)
        if options.do_train and options.teacher_checkpoint:
            self.teacher = Teacher.of(options, head, task.TEACHER_OUTPUTS)
            self.teacher.check_tokens(self.tokenizer, self.config, options.max_seq_length)

    def new_task(self, config):
        options = self.options
        if self.version == "1.1":
            return self._task_of(AlbertSpan(config))
        return self._task_of(AlbertConditionalSpan(config, options.start_n_top, options.end_n_top,
                                                   options.dropout_prob))

    def training_table(self):
        file = self.files.pop("train_file")
        self.questions = file.summary.questions
        return training_table(self.cache, file, self.features, self.options.num_workers,
                              self.options.train_feature_file)

    def texts(self, split):
        for article in self.files["train_file" if split == "train" else "predict_file"].articles:
            for paragraph in article["paragraphs"]:
                yield paragraph["context"]

    def num_examples(self, table):
        return self.questions  # as in the release, although a question can have several rows

    @property
    def is_evaluated(self):
        return self.dataset is not None and (self.options.do_train or self.options.do_eval)

    def evaluation(self):
        table, questions = self._to_predict

        def evaluate(predict) -> dict[str, float]:
            chosen = answers(questions, predict(table) if table else [{}], self.answer_options)
            return self._results(chosen).scores(self.dataset, self.options.null_score_diff_threshold)

        return evaluate

    def predictions(self):
        table, questions = self._to_predict
        yield table, functools.partial(self._write, questions)

    def use(self) -> None:
        if self.options.ask:
            model = self.best_model()
            if is_chief(self.strategy):
                self._ask(model)

    def export(self, directory, model):
        export_question_answering(directory, model, self.tokenizer, self.features, self.answer_options)

    @functools.cached_property
    def _to_predict(self) -> tuple[FeatureTable | None, list[QuestionWindows]]:
        """The features of --predict_file, and all its questions."""
        return prediction_table(self.tokenizer, self.files["predict_file"], self.features,
                                self.options.num_workers)

    def _task_of(self, model: keras.Model) -> SpanTask | ConditionalSpanTask:
        if self.version == "1.1":
            return SpanTask(model, self.options.n_best_size)
        return ConditionalSpanTask(model)

    def _results(self, chosen) -> Results:
        results = Results(self.version, self.options.release_compatible)
        for answer in chosen:
            results.add(answer)
        return results

    def _write(self, questions: list[QuestionWindows], predictions: Predictions, step: int) -> None:
        """Writes the files of predictions and, if there are answers, the scores with the checkpoint's step."""
        options, threshold = self.options, self.options.null_score_diff_threshold
        chosen = answers(questions, predictions, self.answer_options)
        results = self._results(write_n_best(options.output_dir, chosen))
        if self.dataset:
            scores = results.scores(self.dataset, threshold)
            logging.info("%s", shown(scores))
            if not (options.do_train or options.do_eval):
                write_results(options.output_dir, dict(scores, global_step=step))
            threshold = scores.get("null_score_diff_threshold")
        write_predictions(options.output_dir, results, 0.0 if threshold is None else threshold)
        logging.info("predictions are in %s", options.output_dir)

    def _ask(self, model: keras.Model) -> None:
        """Reads questions from standard input and prints the answers, until an empty line or the end."""
        path = self.options.context_file
        text = "\n".join(read_lines(path))
        answerer = QuestionAnswerer(self._task_of(model), self.tokenizer, self.features, self.answer_options)
        print(f"Questions about {path}, one per line; an empty line ends.", flush=True)
        for question in read_standard_input():
            if not question.strip():
                break
            print(describe(answerer.ask(question.strip(), text)), flush=True)
