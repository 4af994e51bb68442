"""Labels of raw texts, in Python and in exported models, and the files of predictions on a test set.

The GLUE server takes a zip file in which the answers have other names: CoLA.tsv, SST-2.tsv, MRPC.tsv, STS-B.tsv,
QQP.tsv, MNLI-m.tsv (mnli), MNLI-mm.tsv (mismnli), QNLI.tsv, RTE.tsv, WNLI.tsv, AX.tsv.
"""

from __future__ import annotations

import os
from typing import Any, Mapping, NamedTuple, Sequence

import numpy as np
import tensorflow as tf

from albert_tf.export.saved_model import TextSignature, best_label, export_model, sequence_features
from albert_tf.modeling.classifier import AlbertClassifier
from albert_tf.modeling.settings import ClassifierSettings, PredictingModel
from albert_tf.tasks.classification.data import InputExample
from albert_tf.tasks.classification.metrics import above
from albert_tf.tasks.classification.table_format import TableFormat
from albert_tf.text.graph.packing import pack_text_windows, pack_texts
from albert_tf.text.graph.tokenization import GraphTokenizer
from albert_tf.text.packing import PairPacker, WindowOptions, WindowPacker
from albert_tf.text.tokenization import FullTokenizer, list_of_strings
from albert_tf.utils.charts import write_confusion_matrix
from albert_tf.utils.outputs import write_csv, write_text
from albert_tf.weights.heads import checked_settings

_BATCH = 32


class Label(NamedTuple):
    """A label of a text.

    Attributes:
      name: as in label_names of the model's settings; "0", "1", ... without names.
      probability: from 0 to 1.
    """

    name: str
    probability: float


def classify_texts(
    model: PredictingModel, tokenizer: FullTokenizer, texts: Sequence[str], text_pairs: Sequence[str] | None = None,
    max_seq_length: int | None = None,
) -> list[list[Label]]:
    """All labels of each text, most probable first. If a text can have several, probabilities do not add up to 1.

    Args:
      model: a fine-tuned AlbertClassifier, or an exported one (from_onnx). Labels without names are named "0", "1", ...
      tokenizer: the model's tokenizer.
      texts: raw texts.
      text_pairs: the second text of each, for tasks on pairs; "" or None if there is none.
      max_seq_length: the largest number of tokens of a row. Longer texts are truncated, or split into windows if the
        model was fine-tuned so (--long_texts). None for the model's max_seq_length, or if it has none, its
        max_position_embeddings.

    Raises:
      ValueError: the model is not a classifier, or is one for regression, which has a score and no labels; the
        tokenizer is not the model's; texts or text_pairs is not a list of strings; their numbers differ; or the model
        was trained on single texts, and there is a second one.

    Example::

      model = albert_tf.from_pretrained("reviews", model="classifier")
      tokenizer = albert_tf.tokenizer_from_pretrained("reviews")
      albert_tf.classify_texts(model, tokenizer, ["A quiet day."])[0][0].name
    """
    settings = checked_settings(model, tokenizer, ClassifierSettings)
    if model.num_labels == 1:
        raise ValueError('the model is for regression: its score is model(tokenizer(texts))["logits"]')
    texts = list_of_strings("texts", texts)
    text_pairs = None if text_pairs is None else list_of_strings("text_pairs", text_pairs)
    if text_pairs is not None and len(text_pairs) != len(texts):
        raise ValueError(f"there are {len(texts)} texts and {len(text_pairs)} text_pairs")
    names = settings.label_names or tuple(map(str, range(model.num_labels)))
    probabilities = settings.probabilities(text_logits(model, tokenizer, texts, text_pairs, max_seq_length)).numpy()
    return [[Label(names[i], float(row[i])) for i in np.argsort(-row, kind="stable")] for row in probabilities]


def text_logits(
    model: PredictingModel, tokenizer: FullTokenizer, texts: Sequence[str], text_pairs: Sequence[str] | None = None,
    max_seq_length: int | None = None,
) -> np.ndarray:
    """The logits of the labels of each text, float32 [texts, labels]; of a regression the score, [texts, 1]."""
    settings = checked_settings(model, tokenizer, ClassifierSettings)
    if settings.single_texts and any(text_pairs or ()):
        raise ValueError("the model was trained on single texts and cannot read a second one: leave out text_pairs, or "
                         "use a model of pairs")
    length, windows = max_seq_length or model.row_length, WindowOptions(settings.max_windows, settings.doc_stride)

    logits = [np.zeros([0, model.num_labels], np.float32)]
    for start in range(0, len(texts), _BATCH):
        rows = slice(start, start + _BATCH)
        pairs = None if text_pairs is None else text_pairs[rows]
        outputs = model(_inputs(tokenizer, texts[rows], pairs, length, windows))
        logits.append(tf.cast(outputs["logits"], tf.float32).numpy())
    return np.concatenate(logits)


def _inputs(
    tokenizer: FullTokenizer, texts: Sequence[str], pairs: Sequence[str] | None, max_seq_length: int,
    windows: WindowOptions,
) -> Mapping[str, np.ndarray]:
    """The model's inputs, int32 [texts, seq], or for texts that are split [texts, windows, seq]."""
    if windows.max_windows == 1:
        return tokenizer(texts, pairs, max_seq_length=max_seq_length)
    packer = WindowPacker(PairPacker(tokenizer, max_seq_length), windows)
    encoded = zip(tokenizer.encode_batch(list(texts)), tokenizer.encode_batch(list(pairs or [""] * len(texts))))
    rows = [packer.pack(ids_a.tolist(), ids_b.tolist()) for ids_a, ids_b in encoded]
    inputs = {name: np.array([row[name] for row in rows], np.int32) for name in rows[0]}
    is_window = inputs["input_mask"].any(axis=(0, 2))  # others are padding in all texts
    return {name: values[:, is_window] for name, values in inputs.items()}


def write_answers(
    directory: str, format: TableFormat, guids: Sequence[str], probabilities: np.ndarray, suffix: str = "",
    split: str = "test", thresholds: Sequence[float] | None = None,
) -> None:
    """Writes SPLIT_results.tsv (a row of probabilities, or the score), and for "test" submit_results.tsv, too.

    The latter has index and prediction; scores are clipped to the task's range, as the GLUE server demands.
    `probabilities` are [examples, labels], or for regression the scores, [examples, 1].
    """
    rows = "".join("\t".join(map(str, row)) + "\n" for row in probabilities.tolist())
    write_text(os.path.join(directory, f"{split}_results{suffix}.tsv"), rows)
    if split != "test":
        return
    if format.labels is None:
        scores = probabilities[:, 0]
        answers = (np.clip(scores, *format.score_range) if format.score_range else scores).tolist()
    else:
        answers = predicted_labels(format, probabilities, thresholds)
    lines = "".join(f"{guid}\t{answer}\n" for guid, answer in zip(guids, answers))
    write_text(os.path.join(directory, f"submit_results{suffix}.tsv"), "index\tprediction\n" + lines)


def predicted_labels(
    format: TableFormat, probabilities: np.ndarray, thresholds: Sequence[float] | None = None
) -> list[str]:
    """The predicted label of each example, or its labels (above the thresholds; None: 0.5) with separators."""
    names = format.labels or ()
    if format.multi_label:
        return [format.label_separator.join(name for name, is_there in zip(names, row) if is_there)
                for row in above(probabilities, thresholds)]
    return [names[i] for i in probabilities.argmax(axis=1)]


def write_predictions(
    directory: str, format: TableFormat, examples: Sequence[InputExample], probabilities: np.ndarray, suffix: str = "",
    split: str = "test", thresholds: Sequence[float] | None = None, excel_separator: str | None = None,
) -> str:
    """Writes SPLIT_predictions.csv, with the texts next to their predictions, and returns its path.

    The columns are index, text_a, text_b (if the task has pairs), prediction (labels, or a score), and for
    classification the probability of each label, which has its name. For excel_separator see write_csv.
    """
    has_pairs = any(example.text_b is not None for example in examples)
    rows: list[list[Any]] = [["index", "text_a", *["text_b"] * has_pairs, "prediction", *(format.labels or ())]]
    answers = [] if format.labels is None else predicted_labels(format, probabilities, thresholds)
    for number, (example, row) in enumerate(zip(examples, probabilities.tolist())):
        texts = [example.text_a, *[example.text_b] * has_pairs]
        prediction = row if format.labels is None else [answers[number], *row]
        rows.append([example.guid, *texts, *prediction])
    path = os.path.join(directory, f"{split}_predictions{suffix}.csv")
    write_csv(path, rows, excel_separator)
    return path


def write_confusion(
    directory: str, counts: np.ndarray, names: Sequence[str], suffix: str = "", split: str = "test"
) -> None:
    """Writes counts [labels, labels] by correct label (row) and predicted label as SPLIT_confusion_matrix.txt, .svg."""
    path = os.path.join(directory, f"{split}_confusion_matrix{suffix}")
    rows = [["correct \\ predicted", *names], *([name, *map(str, row)] for name, row in zip(names, counts.tolist()))]
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows]
    write_text(f"{path}.txt", "".join(line + "\n" for line in lines))
    write_confusion_matrix(f"{path}.svg", counts, names)


def export_classification(
    export_dir: str, model: AlbertClassifier, tokenizer: FullTokenizer, max_seq_length: int, has_pairs: bool,
    is_regression: bool = False, threshold: float | None = None, windows: WindowOptions = WindowOptions(),
) -> None:
    """Writes a SavedModel that labels texts (see export_model for the signatures).

    The inputs as raw text are `text_a` and, if has_pairs, `text_b`, string [batch]; "" means no second text. The
    outputs are probabilities, float32 [batch, labels], predictions [batch], the index of the most probable label, and,
    if labels have names, labels, string [batch], and label_names, string [batch, labels]. If a text can have several
    labels, predictions are int32 [batch, labels] of 0 and 1, and labels are string [batch, labels], "" for the others.
    For regression, probabilities and predictions are the score. A threshold is another output, float32 [batch]. With
    windows, raw text is split, and a tf.Example has max_windows rows; ids are rows of a single window.
    """
    def outputs(model_outputs: dict) -> dict:
        logits = model_outputs["logits"]
        if model.settings.activation_fn:  # of a model that ranks
            logits = model.settings.score_of(logits)
        served = dict(probabilities=logits, predictions=logits[:, 0]) if is_regression else (
            _labels(model.settings, logits))
        if threshold is not None:
            served["threshold"] = tf.fill(tf.shape(logits)[:1], threshold)  # [batch]
        return served

    def pack(graph_tokenizer: GraphTokenizer, **texts: tf.Tensor) -> dict:
        if windows.max_windows > 1:
            return pack_text_windows(graph_tokenizer, max_seq_length, windows, **texts)
        return pack_texts(graph_tokenizer, max_seq_length, **texts)

    features = sequence_features(max_seq_length, windows.max_windows)
    text_inputs = dict(text_a=[None], text_b=[None]) if has_pairs else dict(text_a=[None])
    export_model(export_dir, model, tokenizer, features, outputs, TextSignature(text_inputs, pack),
                 label_names=None if is_regression else model.settings.label_names)


def _labels(settings: ClassifierSettings, logits: tf.Tensor) -> dict[str, tf.Tensor]:
    probabilities = settings.probabilities(logits)
    is_predicted = settings.predicted_labels(probabilities) if settings.multi_label else None
    served = best_label(logits) if is_predicted is None else dict(predictions=tf.cast(is_predicted, tf.int32))
    if settings.label_names:
        names = tf.constant(settings.label_names)
        served["labels"] = (tf.gather(names, served["predictions"]) if is_predicted is None
                            else tf.where(is_predicted, names[None], ""))
        served["label_names"] = tf.tile(names[None], [tf.shape(logits)[0], 1])
    return dict(served, probabilities=probabilities)
