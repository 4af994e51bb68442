"""Writes model cards: README.md next to weights, with the YAML header of Hugging Face's model hub.

A card lists what the weights were made from and their scores. The user adds the license. The header has all of these
facts as data, under the key albert_tf; the text below it, made from them by model_card.md.jinja, is never read.

A card never ends a command: the weights are complete without it, so an error is a warning.
"""

from __future__ import annotations

import contextlib
import html
import json
import math
import os
import platform
import re
import types
from typing import Any, Iterable, Iterator, Mapping

import jinja2
import tensorflow as tf
import yaml
from absl import logging

import albert_tf
from albert_tf import keras
from albert_tf.utils.files import parse_yaml_object
from albert_tf.utils.outputs import write_text
from albert_tf.weights.heads import head_named, head_of
from albert_tf.weights.hugging_face import hub
from albert_tf.weights.runs import best_or_latest
from albert_tf.weights.stored_model import is_url, shipped_model

CARD = "README.md"
# A card without this line is the user's and is not replaced.
_MARK = "<!-- Written by albert_tf, which replaces this file. Remove this line to keep your changes. -->"
# Fields of the header that a user may fill in. They are kept when the card is written again.
_USER_FIELDS = dict(license="# license: to be chosen by you",
                    language="# language: that of the text, for example en")
# The library that loads a folder, by the class that loads the weights. For other classes it is transformers.
TRANSFORMERS_JS = "transformers.js"
_LIBRARIES = {None: "albert_tf", TRANSFORMERS_JS: TRANSFORMERS_JS, "SentenceTransformer": "sentence-transformers",
              "CrossEncoder": "sentence-transformers"}
# The key of the header with the card's facts, and those of them that are tables.
_FACTS, _TABLES = "albert_tf", ("made_from", "manifests", "scores", "calibration")
# The row with the commit of base_model on the Hugging Face Hub.
_REVISION = "revision of the weights"
_MAX_CARD = 1 << 20  # bytes of a card that are read
_NOTHING: Mapping[str, Any] = types.MappingProxyType({})


def write_model_card(
    directory: str, model: keras.Model, base_model: str | None = None, is_conversion: bool = False, *,
    rows: Mapping[str, object] = _NOTHING, datasets: Mapping[str, dict] = _NOTHING, command: str | None = None,
    scores: Mapping[str, float] = _NOTHING, evaluated_on: str = "", loaded_by: str | None = None,
) -> None:
    """Writes README.md to a directory of weights, unless there is a README.md that albert_tf did not write.

    A card that is replaced keeps its license and language. A new card has the language of the base model's card, and
    after a conversion also the other fields that describe the weights, and the facts. Its header never names local
    weights: base_model then comes from the card of these weights.

    Args:
      base_model: path of the weights that training started from or that were converted; None if there are none.
      is_conversion: whether the weights are base_model's, in another format.
      rows: rows of the table "Made from", such as the recipe and the seed. None and "" are left out.
      datasets: what each file of training and evaluation data was made from, by the file's name: its manifest's
        "made_from", or {}.
      scores: the scores by name. They may include global_step.
      evaluated_on: the names of the files with the scores' data; "" for all of datasets.
      loaded_by: the class of transformers or sentence-transformers that loads the weights, or TRANSFORMERS_JS; None if
        no other library does.
    """
    with _errors_are_warnings(directory):
        path, base_name = os.path.join(directory, CARD), base_model and _public_name(base_model)
        card = _read(path)
        if card and _MARK not in card:
            logging.info("%s is not a card of albert_tf and is not replaced", path)
            return
        present, base = _header(path, card), _header_of(base_model) if base_model else {}
        if base_model and base_model.startswith(hub.SCHEME):
            # A run that is continued does not open its initial weights again.
            revision = hub.revision_of(base_model) or _facts_of(present).get("made_from", {}).get(_REVISION)
            rows = {_REVISION: revision, **rows}
        scores = {name: value if isinstance(value, int) else float(value)
                  for name, value in sorted(scores.items()) if math.isfinite(value)}
        facts = _facts(model, base_model, _facts_of(base) if is_conversion else None,
                       dict(data=", ".join(datasets), **rows), loaded_by=loaded_by, command=command, scores=scores,
                       manifests=_selected(datasets))
        metrics = [dict(type=name, value=float(value), name=name)
                   for name, value in scores.items() if name != "global_step"]
        result = dict(task=dict(type=head_of(model).pipeline_tag), metrics=metrics,
                      dataset=dict(type="file", name=evaluated_on or ", ".join(datasets) or "unknown"))
        own = {"base_model": base_name, "datasets": list(datasets), "metrics": [metric["name"] for metric in metrics],
               "model-index": [dict(name=_title(directory), results=[result])] if metrics else None}
        inherited = _selected(base, (*_USER_FIELDS, *own) if is_conversion else ("language", "base_model"))
        fields = {**inherited, **_selected(own), **_selected(present, _USER_FIELDS)}
        write_text(path, _text(directory, fields, facts))


def write_calibration(directory: str, results: Mapping[str, float]) -> None:
    """Replaces the results of a calibration in the card of a directory, if there is one that albert_tf wrote."""
    with _errors_are_warnings(directory):
        path = os.path.join(directory, CARD)
        card = _read(path)
        header = _header(path, card)
        if _MARK in card and _facts_of(header):
            values = {name: float(value) for name, value in results.items()}
            write_text(path, _text(directory, header, {**_facts_of(header), "calibration": values}))


@contextlib.contextmanager
def _errors_are_warnings(directory: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        logging.warning("%s cannot be written: %s", os.path.join(directory, CARD), _one_line(error))


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


def _facts(
    model: keras.Model, base_model: str | None, converted: Mapping[str, Any] | None, rows: Mapping[str, object],
    **others: object,
) -> dict[str, Any]:
    """What a card says, as data. `converted`: the facts of the weights that were converted; None after a training."""
    config, weights = model.config, model_name(base_model) if base_model else None
    old_rows = (converted or {}).get("made_from", {})
    if old_rows.get("weights"):
        weights = f"{weights}, from {old_rows['weights']}"
    software = f"albert_tf {albert_tf.__version__}, TensorFlow {tf.__version__}, Python {platform.python_version()}"
    rows = {"weights": weights, **rows, "versions" if converted is None else "converted with": software}
    facts = dict(
        description=f"{'A BERT' if config.is_bert else 'An ALBERT'} with {config.num_hidden_layers} layers, hidden "
                    f"size {config.hidden_size}, embedding size {config.embedding_size} and a vocabulary of "
                    f"{config.vocab_size:,} pieces.",
        head=head_of(model).name, num_labels=getattr(model, "num_labels", None), **others,
        made_from={**old_rows, **{name: " ".join(str(value).split()) for name, value in rows.items()
                                  if value not in (None, "")}})
    return {**_selected(converted or {}, ("command", *_TABLES)), **_selected(facts)}


def _selected(values: Mapping[str, Any], names: Iterable[str] | None = None) -> dict[str, Any]:
    """The values by these names, or all, without empty ones."""
    return {name: values[name] for name in (values if names is None else names) if values.get(name)}


def _title(directory: str) -> str:
    return os.path.basename(os.path.abspath(directory))


def _text(directory: str, fields: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    """The Markdown of a card. `fields`: those of the header that facts do not decide; empty ones are left out."""
    folder = jinja2.FileSystemLoader(os.path.dirname(__file__))
    environment = jinja2.Environment(loader=folder, trim_blocks=True, lstrip_blocks=True)
    environment.filters["cell"] = _cell
    header = dict(_selected(fields), tags=["albert", "tensorflow"], **{_FACTS: facts},
                  library_name=_LIBRARIES.get(facts.get("loaded_by"), "transformers"),
                  pipeline_tag=head_named(facts["head"]).pipeline_tag)
    comments = "".join(f"{comment}\n" for name, comment in _USER_FIELDS.items() if name not in header)
    return environment.get_template("model_card.md.jinja").render(
        header, name=_title(directory), facts=facts, mark=_MARK,
        header=comments + yaml.safe_dump(header, sort_keys=False, allow_unicode=True))


def model_name(path: str) -> str:
    """The name of weights in a card: org/name, a URL, or the name of a directory, an archive or a checkpoint."""
    if path.startswith(hub.SCHEME):
        return hub.parse(path).name
    if is_url(path):
        return path
    names = os.path.abspath(path).split(os.sep)
    return os.path.join(*names[-2:] if _is_checkpoint(path) else names[-1:])


def _public_name(path: str) -> str | None:
    """The name of weights on the hub or in the package, or their URL; None for local ones."""
    return model_name(path) if is_url(path) or shipped_model(path) else None


def _is_checkpoint(path: str) -> bool:
    """Whether a path is the prefix of a checkpoint."""
    return tf.io.gfile.exists(f"{path}.index")


def _header_of(weights: str) -> dict[str, Any]:
    """The header of the card of weights; {} if there is none, or if it describes another checkpoint there."""
    if is_url(weights):
        return {}
    directory = os.path.dirname(weights) if _is_checkpoint(weights) else shipped_model(weights) or weights
    path = os.path.join(directory, CARD)
    is_of_others = _is_checkpoint(weights) and best_or_latest(directory) not in (weights, None)
    return {} if is_of_others else _header(path, _read(path))


def _header(path: str, card: str) -> dict[str, Any]:
    """The header of a card as JSON values; {} if there is none that can be read."""
    match = re.match(r"---\n(.*?)^---$", card, re.DOTALL | re.MULTILINE)
    if not match:
        return {}
    try:
        return json.loads(json.dumps(parse_yaml_object(match[1], "the header"), default=str))
    except (TypeError, ValueError) as error:  # TypeError: a key that JSON does not have, such as a date
        logging.warning("the header of %s is ignored: %s", path, _one_line(error))
        return {}


def _facts_of(header: Mapping[str, Any]) -> dict[str, Any]:
    """The facts of a card that albert_tf wrote; {} for other cards."""
    facts = header.get(_FACTS)
    if not isinstance(facts, dict) or not all(isinstance(facts.get(name, {}), dict) for name in _TABLES):
        return {}
    return facts


def _read(path: str) -> str:
    """The text of a card, or the beginning of a long one; "" if there is none."""
    if not tf.io.gfile.exists(path) or tf.io.gfile.isdir(path):
        return ""
    with tf.io.gfile.GFile(path, "rb") as file:
        return file.read(_MAX_CARD).decode("utf-8", "replace").replace("\r\n", "\n")


def _cell(value: object) -> str:
    """A value in a cell of a table, as Markdown and HTML show it. Underscores within words stay."""
    text = " ".join((f"{value:.4f}" if isinstance(value, float) else str(value)).split())
    return re.sub(r"([\\`*~|\[\]]|(?<![^\W_])_|_(?![^\W_]))", r"\\\1", html.escape(text, quote=False))
