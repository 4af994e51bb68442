"""Converts models to other formats: checkpoints of the release or this package, Hugging Face and TF-Hub."""

from __future__ import annotations

import contextlib
import os
import types
from typing import Any, Collection, Iterator, Mapping

import tensorflow as tf
from absl import logging

from albert_tf import keras
from albert_tf.config import CONFIG_NAME, LAYER_NORM_EPS, AlbertConfig
from albert_tf.export import FORMATS
from albert_tf.export.tf_hub import export_encoder
from albert_tf.modeling.albert_model import AlbertModel, copy_of
from albert_tf.modeling.pretrainer import AlbertPretrainer
from albert_tf.modeling.sentence_encoder import AlbertSentenceEncoder
from albert_tf.text.tokenization import FullTokenizer
from albert_tf.utils.bounds import check_one_of
from albert_tf.utils.files import absolute, check_no_wildcard
from albert_tf.utils.manifests import EXPORT, is_replaceable, model_files
from albert_tf.utils.outputs import output_checkpoint, used_alone, write_text
from albert_tf.weights import BERT_PREFIX
from albert_tf.weights.from_pretrained import build
from albert_tf.weights.heads import head_named
from albert_tf.weights.hugging_face.writing import class_of_hugging_face, save_hugging_face, save_pl_bert
from albert_tf.weights.model_card import write_model_card
from albert_tf.weights.runs import BEST, check_no_run
from albert_tf.weights.settings import remove_damaged_settings, settings_in, write_settings
from albert_tf.weights.stored_model import StoredModel, is_url
from albert_tf.weights.tf1 import bert_name_of, save_tf1_checkpoint, write_bert_config
from albert_tf.weights.vocabulary import VocabularyFiles


def convert(
    source: StoredModel,
    output_dir: str,
    to: str,
    model: str | None = None,
    config: AlbertConfig | None = None,
    vocabulary: VocabularyFiles | None = None,
    dtype: str = "float32",
    **arguments: Any,
) -> None:
    """Writes a model in another format, with config and vocabulary, but without optimizer slots and steps.

    `model` is its kind (see from_pretrained); None: the stored kind, or else the kind that the names of the variables
    tell. Config, vocabulary and arguments of the constructor come from the source by default. For `to` and `dtype` see
    save_pretrained.
    """
    path = source.path  # the best or the latest step in a folder may change
    if not is_url(path):
        path = absolute(os.path.dirname(path) if tf.io.gfile.exists(f"{path}.index") else path)
    made_from = dict(source=path, config=config and config.to_json_string(), model=model,
                     dtype=dtype, arguments=str(arguments))
    with _new_model(output_dir, to, made_from, source.path):
        kind = model or source.head
        built, report = build(source, kind, config, **arguments)
        if report.not_restored:
            logging.warning("%s lacks variables of the %s: %s. They are left out if the format allows it, or else "
                            "written with initial values", source.path, kind, ", ".join(report.not_restored))
        _check_keeps_settings(built, output_dir)
        save(built, output_dir, to, source.vocabulary if vocabulary is None else vocabulary, report.not_restored,
             dtype, source.path, made_from)
    logging.info("%s (%s) written to %s", to, kind, output_dir)


def save_random(
    config: AlbertConfig, output_dir: str, to: str, model: str = "pretrainer",
    vocabulary: VocabularyFiles | None = None, dtype: str = "float32", seed: int = 12345, **arguments: Any,
) -> None:
    """Writes a model with random weights, to try a size or a format. The arguments are as in `convert`."""
    head = head_named(model)
    if head.label_weights:
        raise ValueError(f"without weights, nothing tells the number of labels of a {model}: set --init_checkpoint, or "
                         "the model to one without labels, such as pretrainer")
    made_from = dict(seed=seed, config=config.to_json_string(), model=model, dtype=dtype, arguments=str(arguments))
    with _new_model(output_dir, to, made_from):
        keras.utils.set_random_seed(seed)
        built = head.model(config, **arguments)
        logging.warning("the weights are random: the model has learned nothing")
        save(built, output_dir, to, vocabulary or VocabularyFiles(), dtype=dtype, made_from=made_from)
    logging.info("%s (%s) written to %s", to, model, output_dir)


@contextlib.contextmanager
def _new_model(output_dir: str, to: str, made_from: dict[str, Any], path: str | None = None) -> Iterator[None]:
    """A block in which no other command writes a model into a directory, which is checked first.

    A model that was made from the same, or not completed, is replaced. `path` is the path of the converted weights;
    their other formats may be beside them. None for new weights.
    """
    check_one_of("the format", to, FORMATS)
    check_no_wildcard(output_dir)
    with used_alone(output_dir, "export"):
        check_no_run(output_dir)
        own = () if path is None else map(os.path.normpath, (path, os.path.dirname(path)))
        formats = [FORMATS[to]] if os.path.normpath(output_dir) in own else FORMATS.values()
        names = {each.last_file for each in formats}
        if is_replaceable(output_dir, EXPORT if to == "tf_hub" else to, made_from):
            remove_damaged_settings(output_dir)
            names.remove(FORMATS[to].last_file)
        for name in names:
            file = os.path.join(output_dir, name)
            if tf.io.gfile.exists(file):
                raise ValueError(f"there is already a model in {os.path.dirname(file)}: choose another directory, or "
                                 f"remove {file}")
        yield


def _check_keeps_settings(model: keras.Model, output_dir: str) -> None:
    """Raises ValueError if settings that are stored in the directory differ from the model's."""
    stored, new = settings_in(output_dir).content(), model.settings.content()
    lost = [name for name, value in stored.items() if new.get(name) != value]
    if lost:
        raise ValueError(f"{output_dir} stores another {', '.join(lost)} than that of the model: choose another "
                         "directory")


def save(
    model: keras.Model, output_dir: str, to: str, vocabulary: VocabularyFiles = VocabularyFiles(),
    never_trained: Collection[str] = (), dtype: str = "float32", base_model: str | None = None,
    made_from: Mapping[str, Any] = types.MappingProxyType({}),
) -> None:
    """Writes a model: config and vocabulary, then the weights, then the model card.

    `never_trained` has the release names of variables with initial values, which TF1 formats and "tf_hub" leave out.
    `base_model` is the path of the weights that are converted, if any; `made_from` is for the manifest.
    """
    if dtype != "float32" and to != "hugging_face":
        raise ValueError(f"only hugging_face supports weights of type {dtype}. Received: {to}")
    is_module = to == "tf_hub"  # a set of files
    last = [FORMATS[to].last_file]
    with contextlib.nullcontext() if is_module else model_files(output_dir, to, dict(made_from), last):
        if is_module:
            _save_module(model, output_dir, vocabulary, never_trained, dict(made_from))
        elif to == "hugging_face":
            save_hugging_face(model, output_dir, vocabulary, dtype)
        elif to == "pl_bert":
            save_pl_bert(model, output_dir, vocabulary)
        else:
            _save_checkpoint(model, output_dir, to, vocabulary, never_trained)
        write_conversion_card(model, output_dir, to, base_model, dtype, never_trained)


def write_conversion_card(
    model: keras.Model, output_dir: str, to: str, base_model: str | None, dtype: str = "float32",
    never_trained: Collection[str] = (),
) -> None:
    """Writes the model card of weights in another format. The arguments are as in `save`."""
    rows = {"format": to, "type": dtype, "not trained": ", ".join(never_trained)}
    loaded_by = class_of_hugging_face(model) if to == "hugging_face" else None
    write_model_card(output_dir, model, base_model, is_conversion=base_model is not None, rows=rows,
                     loaded_by=loaded_by)


def _save_module(
    model: keras.Model, output_dir: str, vocabulary: VocabularyFiles, never_trained: Collection[str],
    made_from: dict[str, Any]
) -> None:
    if not isinstance(model, (AlbertModel, AlbertPretrainer, AlbertSentenceEncoder)):
        raise ValueError("a TF-Hub module can have no other head than the pre-training heads and a pooling. "
                         f"Received: {type(model).__name__}")
    without_heads = isinstance(model, AlbertPretrainer) and never_trained
    export_encoder(output_dir, model.albert if without_heads else model, vocabulary.tokenizer(), made_from)


def _save_checkpoint(
    model: keras.Model, output_dir: str, to: str, vocabulary: VocabularyFiles, never_trained: Collection[str]
) -> None:
    if to != "ours" and model.config.layer_norm_eps != LAYER_NORM_EPS:
        raise ValueError(f"the release computes LayerNorm with {LAYER_NORM_EPS}, and the model has layer_norm_eps "
                         f"{model.config.layer_norm_eps}: choose another format than {to}")
    if to == "tf1_bert":
        write_bert_config(model.config, output_dir)
    else:
        config, grouped = model.config, model.config.in_groups()
        if to == "tf1" and grouped.attention_blocks == config.attention_blocks:
            config = grouped  # the same model in the release's terms
        write_text(os.path.join(output_dir, CONFIG_NAME), config.to_json_string())
    write_settings(model.settings, model.config, output_dir, vocabulary)
    prefix = os.path.join(output_dir, BEST)
    if to == "tf1":
        save_tf1_checkpoint(model, prefix, left_out=never_trained)
    elif to == "tf1_bert":
        save_tf1_checkpoint(model, os.path.join(output_dir, BERT_PREFIX), left_out=never_trained,
                            name_of=bert_name_of)
    else:
        with output_checkpoint(prefix) as temporary:
            # A checkpoint of a compiled model has the optimizer too: its moments are twice the size of the weights.
            tf.train.Checkpoint(model=copy_of(model) if getattr(model, "optimizer", None) else model).write(temporary)


def save_pretrained(model: keras.Model, folder: str, tokenizer: FullTokenizer | None = None, to: str = "ours",
                    dtype: str = "float32") -> None:
    """Writes a model with its config, and the vocabulary of a tokenizer, to a folder that from_pretrained can read.

    Args:
      model: any model of albert_tf.modeling.
      folder: folder of the files, which is made if it does not exist.
      tokenizer: the model's tokenizer; None for no vocabulary.
      to: the format, a key of albert_tf.export.FORMATS, such as "hugging_face".
      dtype: data type of the weights: "float32", or with "hugging_face" also "float16" or "bfloat16".

    Raises:
      ValueError: the folder already has a model or a training run, the format is unknown, it does not support the
        model or the dtype.

    Example::

      albert_tf.save_pretrained(model, "my_albert", tokenizer, to="hugging_face")
    """
    vocabulary = VocabularyFiles() if tokenizer is None else VocabularyFiles.from_tokenizer(tokenizer)
    with _new_model(folder, to, {}):
        save(model, folder, to, vocabulary, dtype=dtype)
