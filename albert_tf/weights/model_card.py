"""Writes model cards: README.md next to weights, with the YAML header of Hugging Face's model hub.

A card lists what the weights were made from and their scores. The user adds the license. The header has all of these
facts as data, under the key albert_tf; the text below it is made of them and never read.
"""

from __future__ import annotations

import dataclasses
import functools
import html
import json
import math
import os
import platform
import re
from typing import Any, Collection, Mapping

import tensorflow as tf
from absl import logging

import albert_tf
from albert_tf import keras
from albert_tf.config import AlbertConfig
from albert_tf.modeling.settings import ClassifierSettings, LabelSettings
from albert_tf.training.checkpoints import best_or_latest, saved_step
from albert_tf.training.config import FineTuningTraining, Schedule, Training
from albert_tf.training.evaluation import logged_names
from albert_tf.utils.outputs import write_text
from albert_tf.weights.heads import Head, head_named, head_of
from albert_tf.weights.hugging_face import hub
from albert_tf.weights.stored_model import is_url, shipped_model

CARD = "README.md"
# A card without this line is the user's and is not replaced.
_MARK = "<!-- Written by albert_tf, which replaces this file. Remove this line to keep your changes. -->"
# Fields of the header that a user may fill in. They are kept when the card is written again.
_USER_FIELDS = ("license", "language")
# Fields that describe the weights in every format.
_WEIGHT_FIELDS = ("license", "language", "datasets", "metrics", "model-index")
# A line of Python that uses a model and its tokenizer, by the name of the head.
_USE = dict(pretrainer='albert_tf.fill_masks(model, tokenizer, "A text with a [MASK].")',
            classifier='albert_tf.classify_texts(model, tokenizer, ["A text."])')
# A regression has a score and no labels. It often reads pairs of texts, such as STS-B's.
_USE_OF_REGRESSION = 'model(tokenizer(["A text."]))["logits"]  # scores, [texts, 1]; of pairs: tokenizer(texts, others)'
# The library that loads folders with ONNX models, by the name of the pipeline: the head's task.
TRANSFORMERS_JS = "transformers.js"
_OF_SENTENCE_TRANSFORMERS = ("SentenceTransformer", "CrossEncoder")
# The key of the header with the card's facts.
_FACTS = "albert_tf"
# The row with the commit of base_model on the Hugging Face Hub.
_REVISION = "revision of the weights"
_LEFT_TO_THE_USER = dict(license="# license: to be chosen by you",
                         language="# language: that of the text, for example en")
_TEMPLATE = os.path.join(os.path.dirname(__file__), "model_card.md.jinja")


@dataclasses.dataclass(frozen=True)
class ModelCard:
    """The content of a model card.

    Args:
      base_model: path of the weights that training started from or that were converted; None if there are none.
      is_conversion: whether the weights are base_model's, in another format.
      facts: rows of the table "Made from", such as the recipe and the seed. None and "" are left out.
      datasets: what each file of training and evaluation data was made from, by the file's name: its manifest's
        "made_from", or {}.
      scores: the scores by name. They may include global_step.
      evaluated_on: the names of the files with the scores' data; "" for all of datasets.
      loaded_by: the class of transformers or sentence-transformers that loads the weights; None if no other library
        does.
      num_labels: the number of labels of a classifier, 1 for a regression; None for other heads.
    """

    head: Head
    config: AlbertConfig
    base_model: str | None = None
    is_conversion: bool = False
    facts: Mapping[str, object] = dataclasses.field(default_factory=dict)
    datasets: Mapping[str, dict] = dataclasses.field(default_factory=dict)
    command: str | None = None
    scores: Mapping[str, float] = dataclasses.field(default_factory=dict)
    evaluated_on: str = ""
    loaded_by: str | None = None
    num_labels: int | None = None

    @classmethod
    def of(cls, model: keras.Model, base_model: str | None = None, **fields) -> ModelCard:
        """The card of a model of albert_tf.modeling. `fields` are arguments of the constructor."""
        return cls(head_of(model), model.config, base_model, num_labels=getattr(model, "num_labels", None), **fields)

    def text(self, name: str, fields: Mapping[str, Any] | None = None, base: Mapping[str, Any] | None = None) -> str:
        """The card as Markdown.

        Args:
          fields: fields of the header, which replace the card's.
          base: the facts of the card of the weights that were converted; None for none.
        """
        scores = {metric: value for metric, value in sorted(self.scores.items()) if math.isfinite(value)}
        facts = {**self._facts(), "scores": {metric: value if isinstance(value, int) else float(value)
                                             for metric, value in scores.items()},
                 "base": {**base, "name": model_name(str(self.base_model))} if base else None}
        scores.pop("global_step", None)
        return _text(name, {**self._fields(name, scores), **(fields or {})},
                     {key: value for key, value in facts.items() if value})

    def _fields(self, name: str, scores: Mapping[str, float]) -> dict[str, Any]:
        """The fields of the header, as arguments of ModelCardData."""
        from huggingface_hub import EvalResult

        task, dataset = self.head.pipeline_tag, self.evaluated_on or ", ".join(self.datasets) or "unknown"
        results = [EvalResult(task, "file", dataset, metric, float(value), metric_name=metric)
                   for metric, value in scores.items()]
        library = "transformers" if self.loaded_by else "albert_tf"
        if self.loaded_by in _OF_SENTENCE_TRANSFORMERS:
            library = "sentence-transformers"
        elif self.loaded_by == TRANSFORMERS_JS:
            library = TRANSFORMERS_JS
        fields = dict(library_name=library, pipeline_tag=task,
                      tags=["albert", "tensorflow"], base_model=self.base_model and _public_name(self.base_model),
                      datasets=list(self.datasets), metrics=list(scores), model_name=results and name,
                      eval_results=results)
        return {field: value for field, value in fields.items() if value}

    def _facts(self) -> dict[str, Any]:
        """What the text is made of, as data for the header."""
        config = self.config
        versions = f"albert_tf {albert_tf.__version__}, TensorFlow {tf.__version__}, Python {platform.python_version()}"
        rows = dict(weights=model_name(self.base_model) if self.base_model else None, data=", ".join(self.datasets),
                    **self.facts, versions=versions)
        return dict(
            description=f"{'A BERT' if config.is_bert else 'An ALBERT'} with {config.num_hidden_layers} layers, hidden "
                        f"size {config.hidden_size}, embedding size {config.embedding_size} and a vocabulary of "
                        f"{config.vocab_size:,} pieces.",
            head=self.head.name, num_labels=self.num_labels, loaded_by=self.loaded_by, command=self.command,
            made_from={name: " ".join(str(value).split()) for name, value in rows.items() if value not in (None, "")},
            manifests={dataset: made_from for dataset, made_from in self.datasets.items() if made_from})


def write_model_card(directory: str, card: ModelCard) -> None:
    """Writes README.md to a directory of weights, unless there is a README.md that albert_tf did not write.

    A card that is replaced keeps its license and language. A new card has the language of the base model's card, and
    after a conversion also the other fields that describe the weights and their origin. Its header never names local
    weights: base_model then comes from the card of these weights.
    """
    path = os.path.join(directory, CARD)
    present = _read(path)
    if present and _MARK not in present:
        logging.info("%s is not a card of albert_tf and is not replaced", path)
        return
    base = _card_of(card.base_model) if card.base_model else ""
    if card.base_model and card.base_model.startswith(hub.SCHEME):
        # A run that is continued does not open its initial weights again.
        revision = hub.revision_of(card.base_model) or _facts_of(present).get("made_from", {}).get(_REVISION)
        card = dataclasses.replace(card, facts={_REVISION: revision, **card.facts})
    inherited = list(_WEIGHT_FIELDS) if card.is_conversion else ["language"]
    if card.base_model and not _public_name(card.base_model):
        inherited.append("base_model")
    fields = {**_fields_of(base, inherited), **_fields_of(present, _USER_FIELDS)}
    if "model-index" not in fields and card.is_conversion:
        fields.pop("metrics", None)  # names without values
    write_text(path, card.text(_title(directory), fields, _facts_of(base) if card.is_conversion else None))


def write_calibration(directory: str, results: Mapping[str, float]) -> None:
    """Replaces the results of a calibration in the card of a directory.

    Nothing is written if there is no card, or one that albert_tf did not write.
    """
    path = os.path.join(directory, CARD)
    card = _read(path)
    facts = _facts_of(card)
    if _MARK in card and facts:
        values = {name: float(value) for name, value in results.items()}
        write_text(path, _text(_title(directory), _fields_of(card), {**facts, "calibration": values}))


def _title(directory: str) -> str:
    return os.path.basename(os.path.abspath(directory))


def _text(name: str, fields: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    """The Markdown of a card, with the header's other fields and the facts of this package."""
    from huggingface_hub import ModelCard as HubCard, ModelCardData

    data = ModelCardData(**{**fields, _FACTS: facts}, ignore_metadata_errors=True)
    use = _USE_OF_REGRESSION if facts.get("num_labels") == 1 else _USE.get(facts["head"])
    tag = head_named(facts["head"]).pipeline_tag
    card = str(HubCard.from_template(
        data, template_path=_TEMPLATE, name=name, mark=_MARK, facts=facts, use=use, cell=_cell,
        quoted=functools.partial(json.dumps, ensure_ascii=False),
        manifest=functools.partial(json.dumps, indent=2, sort_keys=True, ensure_ascii=False),
        pipeline="feature-extraction" if tag == "sentence-similarity" else tag))
    header = [line for field, line in _LEFT_TO_THE_USER.items() if field not in fields]  # comments, which data drops
    return "\n".join(["---", *header, card.removeprefix("---\n")])


def model_name(path: str) -> str:
    """The name of weights in a card: org/name, a URL, or the name of a directory, an archive or a checkpoint."""
    if path.startswith(hub.SCHEME):
        return hub.parse(path).name
    if is_url(path):
        return path
    if not _is_checkpoint(path):
        return os.path.basename(os.path.abspath(path))
    directory, checkpoint = os.path.split(os.path.abspath(path))
    return os.path.join(os.path.basename(directory), checkpoint)


def _public_name(path: str) -> str | None:
    """The name of weights on the hub or in the package, or their URL; None for local ones."""
    return model_name(path) if is_url(path) or shipped_model(path) else None


def _card_of(weights: str) -> str:
    """The text of the card of weights; "" if there is none, or if it describes another checkpoint in the directory."""
    if is_url(weights):
        return ""
    if not _is_checkpoint(weights):
        return _read(os.path.join(shipped_model(weights) or weights, CARD))
    directory = os.path.dirname(weights)
    return _read(os.path.join(directory, CARD)) if best_or_latest(directory) in (weights, None) else ""


def _is_checkpoint(path: str) -> bool:
    """Whether a path is the prefix of a checkpoint."""
    return tf.io.gfile.exists(f"{path}.index")


def _fields_of(card: str, names: Collection[str] | None = None) -> dict[str, Any]:
    """Some fields of a card's header, by name, or all; none if the card has no header that can be read."""
    import yaml
    from huggingface_hub import ModelCard as HubCard

    if not card.startswith("---\n"):
        return {}
    try:
        fields = HubCard(card, ignore_metadata_errors=True).data.to_dict()
    except (yaml.YAMLError, ValueError, TypeError) as error:
        logging.warning("the header of a model card cannot be read: %s", str(error).splitlines()[0])
        return {}
    return {name: fields[name] for name in (fields if names is None else names) if fields.get(name)}


def _facts_of(card: str) -> dict[str, Any]:
    """The facts of a card that albert_tf wrote; empty for other cards."""
    facts = _fields_of(card, [_FACTS]).get(_FACTS)
    return facts if isinstance(facts, dict) else {}


def _read(path: str) -> str:
    """The text of a card; "" if there is none."""
    if not tf.io.gfile.exists(path) or tf.io.gfile.isdir(path):
        return ""
    with tf.io.gfile.GFile(path, "rb") as file:
        return file.read().decode("utf-8", "replace").replace("\r\n", "\n")


def _cell(value: object) -> str:
    """A value in a cell of a table, as Markdown and HTML show it. Underscores within words stay."""
    text = " ".join((f"{value:.4f}" if isinstance(value, float) else str(value)).split())
    return re.sub(r"([\\`*~|\[\]]|(?<![^\W_])_|_(?![^\W_]))", r"\\\1", html.escape(text, quote=False))


def write_run_card(
    model: keras.Model, directory: str, schedule: Schedule, training: Training, command: str,
    init_checkpoint: str | None = None, datasets: Mapping[str, dict] | None = None,
    scores: Mapping[str, float] | None = None, evaluated_on: str = "", recipe: str | None = None, trained: bool = True,
) -> None:
    """Writes the model card of a run to its directory.

    Args:
      scores: the scores of the run's best checkpoint; None if it was not evaluated.
      evaluated_on: the names of the files with the scores' data.
      trained: whether the command took steps. If not, a card that exists is kept: it has the command of the training.
    """
    if not trained and tf.io.gfile.exists(os.path.join(directory, CARD)):
        return
    tuning = training if isinstance(training, FineTuningTraining) else None
    facts = {
        "labels": ", ".join(model.settings.of_class(LabelSettings).label_names or ()),
        "labels of a text": "any number" if model.settings.of_class(ClassifierSettings).multi_label else None,
        "initial weights": None if init_checkpoint else "random", "recipe": recipe, "seed": training.random_seed,
        "step of the weights": saved_step(directory), "training steps": schedule.num_train_steps,
        "warm-up steps": schedule.num_warmup_steps, "batch size": training.train_batch_size,
        "trained weights": tuning and tuning.trainable,
        "optimizer": training.optimizer, "learning rate": training.learning_rate,
        "precision": keras.mixed_precision.global_policy().name,
    }
    shown = {name: scores[name] for name in (*logged_names(scores), "global_step") if name in scores} if scores else {}
    write_model_card(directory, ModelCard.of(model, init_checkpoint, facts=facts, datasets=datasets or {},
                                                  command=command, scores=shown, evaluated_on=evaluated_on))
