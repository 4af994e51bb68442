"""Fine-tunes ALBERT on SQuAD 1.1 or 2.0; scores, predicts, answers questions, exports.

    python run_squad.py --train_file=train-v2.0.json --predict_file=dev-v2.0.json --init_checkpoint=albert_base_v2 \\
        --output_dir=squad --recipe=squad_v2 --do_train --do_predict

    python run_squad.py --output_dir=squad --ask --context_file=text.txt

If it is started again with the same flags, training continues from the latest checkpoint. The script accepts the flags
of the release's run_squad_v1.py and run_squad_v2.py.
"""

from __future__ import annotations

import dataclasses
import functools
import os

from absl import flags, logging

from albert_tf import keras
from albert_tf.commands import finetuning_flags as tuning, shared_flags as shared
from albert_tf.data.feature_cache import FeatureCache
from albert_tf.data.feature_table import FeatureTable
from albert_tf.modeling.conditional_span import AlbertConditionalSpan
from albert_tf.modeling.span import AlbertSpan
from albert_tf.tasks.squad import metrics as squad_metrics
from albert_tf.tasks.squad.answers import AnswerOptions, QuestionAnswerer, answers, describe
from albert_tf.tasks.squad.cache import prediction_table, training_table
from albert_tf.tasks.squad.export import export_question_answering
from albert_tf.tasks.squad.features import FeatureOptions, default_doc_stride
from albert_tf.tasks.squad.metrics import Results
from albert_tf.tasks.squad.reading import MISPLACED_ANSWERS, VERSIONS, SquadFile, read_squad_file
from albert_tf.tasks.squad.task import ConditionalSpanTask, SpanTask
from albert_tf.text.lines import read_lines, read_standard_input
from albert_tf.training.evaluation import shown, write_results
from albert_tf.training.finetuning import FineTuningOptions, Predictions
from albert_tf.training.strategy import chief_first, is_chief
from albert_tf.utils import bounds
from albert_tf.utils.progress import count_of
from albert_tf.utils.writing import check_export
from albert_tf.weights.resolved_model import ResolvedModel

FLAGS = flags.FLAGS
VERSION_OF_HEAD = {"span": "1.1", "conditional_span": "2.0"}


def define_flags() -> None:
    """Defines the flags of this command."""
    shared.define_model_flags()
    shared.define_vocabulary_flags()
    shared.define_training_flags(optimizer="adamw", learning_rate=5e-5, train_batch_size=32,
                                 save_checkpoints_steps=1000)
    tuning.define_finetuning_flags(max_seq_length=384)
    shared.define_device_flags()
    flags.DEFINE_string("train_file", None, "Path of the SQuAD JSON file to train on.")
    flags.DEFINE_string("predict_file", None, "Path of the SQuAD JSON file that --do_predict and --do_eval predict. It "
                        "is scored if it has answers.")
    flags.DEFINE_enum("squad_version", None, VERSIONS, "SQuAD version, which sets the head, the loss and the scores. "
                      "Default: the version of the files, or for --ask and --export_dir that of the weights.")
    flags.DEFINE_string("train_feature_file", None, "Path of the cached training features. Default: a file in "
                        "--cached_dir.")
    flags.DEFINE_string("predict_feature_file", None, "Path of the cached features of --predict_file. Default: a file "
                        "in --cached_dir.")
    flags.DEFINE_string("predict_feature_left_file", None, "Has no effect: the text offsets of the tokens are made "
                        "from --predict_file. Scripts for the release can set it.")
    shared.define_integer("doc_stride", None, "Number of pieces from the start of one window of a paragraph to the "
                          "start of the next. Default: that of the run in --output_dir, or 128, or the pieces of a "
                          "window if they are fewer.", *bounds.SEQ_LENGTH)
    shared.define_integer("max_query_length", 64, "Largest number of pieces of a question; longer questions are "
                          "truncated. If the flag is not set, a run in --output_dir keeps its own.", *bounds.SEQ_LENGTH)
    flags.DEFINE_enum("misplaced_answers", "find", MISPLACED_ANSWERS, "Handling of training questions whose answer is "
                      "not at its answer_start. find: use its nearest occurrence. leave_out: leave the question out.")
    shared.define_float("num_train_epochs", 3.0, "Number of training epochs. The number of steps is this number times "
                        "questions divided by --train_batch_size.", lower_bound=0.0)
    shared.define_float("warmup_proportion", 0.1, "Share of the training steps, from 0 to 1, in which the learning "
                        "rate increases from 0 to its peak.", 0.0, 1.0)
    shared.define_integer("train_step", None, "Number of training steps, instead of --num_train_epochs.", *bounds.STEPS)
    shared.define_integer("warmup_step", None, "Number of warm-up steps, instead of --warmup_proportion.",
                          *bounds.STEPS.at_least(0))
    shared.define_integer("n_best_size", 20, "Number of answers per question in nbest_predictions.json.",
                          *bounds.CANDIDATES)
    shared.define_integer("max_answer_length", 30, "Largest number of pieces of an answer.", *bounds.SEQ_LENGTH)
    shared.define_integer("start_n_top", 5, "SQuAD 2.0: number of answer starts in the beam.", *bounds.CANDIDATES)
    shared.define_integer("end_n_top", 5, "SQuAD 2.0: number of answer ends for each start in the beam.",
                          *bounds.CANDIDATES)
    shared.define_float("dropout_prob", 0.1, "SQuAD 2.0: dropout rate, from 0 to 1, of the answerability head in "
                        "training.", 0.0, 1.0)
    shared.define_float("null_score_diff_threshold", None, "SQuAD 2.0: a question is answered unless its null score is "
                        "above this threshold. Default: the threshold with the best F1 on --predict_file, or 0 if that "
                        "has no answers.")
    flags.DEFINE_bool("release_compatible", False, "Whether to do as the release: questions are left out if their "
                      "paragraph cannot be aligned, a question whose null score equals the best threshold is not "
                      "answered, and scores count a question whose null score is above 1 as not answered.")
    flags.DEFINE_bool("ask", False, "Whether to answer questions about --context_file that are read from standard "
                      "input, one per line.")
    flags.DEFINE_string("context_file", None, "Path of the text file about which --ask answers questions.")
    shared.define_export_flags("question and context as text, ids, or serialized tf.Examples")
    flags.DEFINE_bool("use_einsum", True, "Has no effect. Scripts for the release can set it.")
    shared.define_integer("num_workers", max(1, min(8, os.cpu_count() or 1)), "Number of processes that make features.",
                          *bounds.WORKERS)


@dataclasses.dataclass(frozen=True)
class Options:
    """The flags with the same names; `model`, `features` and `finetuning` have groups of flags.

    `complete` fills in the values that depend on the files.
    """

    model: ResolvedModel
    squad_version: str | None
    features: FeatureOptions
    finetuning: FineTuningOptions
    train_file: str | None
    predict_file: str | None
    train_feature_file: str | None
    predict_feature_file: str | None
    num_workers: int
    cached_dir: str
    output_dir: str
    num_train_epochs: float
    train_step: int | None
    warmup_proportion: float
    warmup_step: int | None
    n_best_size: int
    max_answer_length: int
    start_n_top: int
    end_n_top: int
    dropout_prob: float
    null_score_diff_threshold: float | None
    release_compatible: bool
    do_train: bool
    do_eval: bool
    do_predict: bool
    ask: bool
    context_file: str | None


def options_from_flags() -> Options:
    model = tuning.set_defaults("span", "conditional_span")
    check_export(FLAGS.export_dir)
    tuning.check_purpose("ask")
    max_query_length = model.setting("max_query_length", tuning.requested("max_query_length")) or FLAGS.max_query_length
    doc_stride = (model.setting("doc_stride", tuning.requested("doc_stride"))
                  or default_doc_stride(FLAGS.max_seq_length, max_query_length))
    train_step = tuning.in_place_of(["num_train_epochs"], "train_step")
    # A recipe's number of warm-up steps belongs to its number of training steps.
    warmup_step = tuning.in_place_of(["warmup_proportion", "num_train_epochs", "train_step"], "warmup_step")
    return shared.from_flags(
        Options, model=model, train_step=train_step, warmup_step=warmup_step, cached_dir=tuning.cached_dir(),
        features=shared.from_flags(FeatureOptions, doc_stride=doc_stride,
                                   max_query_length=max_query_length),
        finetuning=tuning.finetuning_options(num_train_steps=1, num_warmup_steps=0))  # complete() sets both to train


def main() -> None:
    """Runs the command."""
    options = options_from_flags()
    files = read_files(options)
    options = complete(options, files)
    strategy = shared.set_up()
    tokenizer = options.model.vocabulary.tokenizer(options.model.config)

    def new_task(config):
        if options.squad_version == "1.1":
            return task_of(options, AlbertSpan(config))
        return task_of(options, AlbertConditionalSpan(config, options.start_n_top, options.end_n_top,
                                                      options.dropout_prob))

    finetuning = tuning.new_finetuning(options.finetuning, strategy, options.model, new_task, squad_metrics.BEST_METRIC)
    with chief_first(strategy):
        prediction = Prediction(options, files["predict_file"], tokenizer) if "predict_file" in files else None
    is_scored = prediction is not None and prediction.dataset and (options.do_train or options.do_eval)
    evaluate = prediction.evaluate if is_scored else None
    training = functools.partial(training_features, options, files, tokenizer) if options.do_train else None
    used = [options.train_file] * options.do_train + [options.predict_file] * options.do_eval
    features = options.features
    tuning.train_and_evaluate(
        finetuning, options.model.vocabulary, training, evaluate, [*map(os.path.basename, used)],
        dict(doc_stride=features.doc_stride, max_query_length=features.max_query_length))
    if options.do_predict:
        result_sets = prediction.result_sets(finetuning.predict)
        if is_chief(strategy):
            prediction.write(result_sets, finetuning.serving_step())
    if options.ask:
        model = finetuning.best_model()
        if is_chief(strategy):
            ask(options, model, tokenizer)
    tuning.export(finetuning, lambda export_dir, model: export_question_answering(
        export_dir, model, tokenizer, options.features, answer_options(options)))


def read_files(options: Options) -> dict[str, SquadFile]:
    """The files to use, by the names of their flags."""
    wanted = dict(train_file=options.do_train, predict_file=options.do_eval or options.do_predict)
    paths = {name: getattr(options, name) for name, is_wanted in wanted.items() if is_wanted}
    for name in (name for name, path in paths.items() if not path):
        raise ValueError(f"--{name} is missing")
    if options.ask and not options.context_file:
        raise ValueError("--ask needs --context_file, the text to ask about")
    if options.ask and not any(map(str.strip, read_lines(options.context_file))):
        raise ValueError(f"{options.context_file} is empty: there is nothing to ask about")
    files = {name: read_squad_file(path) for name, path in paths.items()}
    if options.do_eval and not files["predict_file"].summary.has_answers:
        raise ValueError(f"{options.predict_file} has no answers to score with: --do_predict writes predictions")
    return files


def complete(options: Options, files: dict[str, SquadFile]) -> Options:
    """The options, completed with what depends on the files: version, number of steps, shortest batch."""
    options = dataclasses.replace(options, squad_version=squad_version(options, files))
    finetuning, shortest = options.finetuning, beam_width(options)
    if options.do_train:
        num_train_steps = train_steps(options, files["train_file"].summary.questions)
        num_warmup_steps = options.warmup_step
        if num_warmup_steps is None:
            num_warmup_steps = int(num_train_steps * options.warmup_proportion)
        finetuning = dataclasses.replace(
            finetuning, run=dataclasses.replace(finetuning.run, num_train_steps=num_train_steps),
            trainer=dataclasses.replace(finetuning.trainer, num_warmup_steps=num_warmup_steps))
    buckets = tuple(length for length in finetuning.buckets if length >= shortest)
    return dataclasses.replace(options, finetuning=dataclasses.replace(finetuning, buckets=buckets))


def squad_version(options: Options, files: dict[str, SquadFile]) -> str:
    """The value of --squad_version, or the version of the files, or without files that of the weights' head."""
    said = sorted({file.summary.version for file in files.values()})
    if not options.squad_version and len(said) > 1:
        raise ValueError(f"the files are those of SQuAD {' and '.join(said)}: set --squad_version")
    version = options.squad_version or (said[0] if said else VERSION_OF_HEAD.get(options.model.head or ""))
    if not version:
        raise ValueError("--squad_version is missing, and neither a file nor a fine-tuned checkpoint tells it")
    options.model.check_head([head for head, of_head in VERSION_OF_HEAD.items() if of_head == version])
    logging.info("SQuAD %s", version)
    return version


def train_steps(options: Options, questions: int) -> int:
    """--train_step, or as in the release questions / batch size * epochs."""
    batch_size = options.finetuning.run.train_batch_size
    steps = options.train_step
    if steps is None:
        steps = int(questions / batch_size * options.num_train_epochs)
    if not steps:
        raise ValueError(f"{questions} questions are not enough for a step of {batch_size}: decrease "
                         "--train_batch_size, or increase --num_train_epochs")
    logging.info("%s, %s of %d", count_of(questions, "question"), count_of(steps, "step"), batch_size)
    return steps


def training_features(options: Options, files: dict[str, SquadFile], tokenizer) -> FeatureTable:
    # It is taken out, so that it is not in memory while the model is trained.
    table = training_table(FeatureCache(tokenizer, options.cached_dir), files.pop("train_file"), options.features,
                           options.num_workers, options.train_feature_file)
    run = options.finetuning.run
    logging.info("%s an epoch, %.1f epochs of them", count_of(len(table), "feature"),
                 run.num_train_steps * run.train_batch_size / len(table))
    return table


def beam_width(options: Options) -> int:
    """The smallest number of tokens of a row. Raises ValueError if --max_seq_length is smaller."""
    width = max(options.start_n_top, options.end_n_top) if options.squad_version == "2.0" else 1
    if width > options.features.max_seq_length:
        raise ValueError("--start_n_top and --end_n_top must not be above "
                         f"--max_seq_length={options.features.max_seq_length}. "
                         f"Received: {options.start_n_top}, {options.end_n_top}")
    return width


def task_of(options: Options, model: keras.Model) -> SpanTask | ConditionalSpanTask:
    return SpanTask(model, options.n_best_size) if options.squad_version == "1.1" else ConditionalSpanTask(model)


def answer_options(options: Options) -> AnswerOptions:
    return AnswerOptions(options.squad_version, options.n_best_size, options.max_answer_length)


class Prediction:
    """Predicts and scores --predict_file."""

    def __init__(self, options: Options, file: SquadFile, tokenizer):
        self._options = options
        self._table, self._questions = prediction_table(
            FeatureCache(tokenizer, options.cached_dir), file, options.features, options.num_workers,
            options.predict_feature_file)
        self.dataset = file.articles if file.summary.has_answers else None

    def evaluate(self, predict) -> dict[str, float]:
        """The `evaluate` function of FineTuning: the results, from a function that predicts a table."""
        results = self._results(self._answers(self.result_sets(predict)))
        return results.scores(self.dataset, self._options.null_score_diff_threshold)

    def result_sets(self, predict) -> Predictions:
        """The model's predictions for each feature, from a function that predicts a table."""
        return predict(self._table) if self._table else [{}]

    def write(self, result_sets: Predictions, step: int) -> None:
        """Writes the files of predictions and, if there are answers, the scores with the checkpoint's step."""
        output_dir, threshold = self._options.output_dir, self._options.null_score_diff_threshold
        results = self._results(squad_metrics.write_n_best(output_dir, self._answers(result_sets)))
        if self.dataset:
            scores = results.scores(self.dataset, threshold)
            logging.info("%s", shown(scores))
            if not (self._options.do_train or self._options.do_eval):
                write_results(output_dir, dict(scores, global_step=step))
            threshold = scores.get("null_score_diff_threshold")
        squad_metrics.write_predictions(output_dir, results, 0.0 if threshold is None else threshold)
        logging.info("predictions are in %s", output_dir)

    def _answers(self, result_sets):
        return answers(self._questions, result_sets, answer_options(self._options))

    def _results(self, chosen) -> Results:
        results = Results(self._options.squad_version, self._options.release_compatible)
        for answer in chosen:
            results.add(answer)
        return results


def ask(options: Options, model: keras.Model, tokenizer) -> None:
    """Reads questions from standard input and prints the answers, until an empty line or the end."""
    text = "\n".join(read_lines(options.context_file))
    answerer = QuestionAnswerer(task_of(options, model), tokenizer, options.features, answer_options(options))
    print(f"Questions about {options.context_file}, one per line; an empty line ends.", flush=True)
    for question in read_standard_input():
        if not question.strip():
            break
        print(describe(answerer.ask(question.strip(), text)), flush=True)
