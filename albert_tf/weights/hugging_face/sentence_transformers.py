"""Reads and writes the pooling in the files of sentence-transformers, next to weights in any format.

    modules.json                the steps: Transformer, Pooling, Normalize
    1_Pooling/config.json       the pooling
    sentence_bert_config.json   the largest number of tokens of a text
    config_sentence_transformers.json   truncate_dim, the number of dimensions of vectors; read and written if it is set
"""

from __future__ import annotations

import json
import os
import reprlib
from typing import Any

import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.modeling.vectors import POOLINGS
from albert_tf.utils import bounds
from albert_tf.utils.files import check_name, read_json_list, read_json_object
from albert_tf.utils.outputs import write_or_remove, write_text
from albert_tf.weights.hugging_face import LENGTH_CONFIG, MODULES

_CONFIG = "config_sentence_transformers.json"
_POOLING_FOLDER, _NORMALIZE_FOLDER = "1_Pooling", "2_Normalize"
_TYPES = ("Transformer", "Pooling", "Normalize")
_THEIRS = ("mean", "max", "cls")
# The keys of sentence-transformers. The key of the pooler is this package's own.
_KEYS = {"cls": "pooling_mode_cls_token", "mean": "pooling_mode_mean_tokens", "max": "pooling_mode_max_tokens",
         "pooler": "pooling_mode_pooler"}


def pooling_in(folder: str) -> dict[str, Any]:
    """The arguments of AlbertSentenceEncoder in a folder that has a modules.json, without the length of rows."""
    modules = _modules(folder)
    names = [module["type"] for module in modules]
    return dict(pooling=_pooling(os.path.join(folder, modules[1]["path"], "config.json")),
                normalize="Normalize" in names, truncate_dim=_truncate_dim(os.path.join(folder, _CONFIG)))


def transformer_folder(folder: str) -> str:
    """The folder of the weights in a folder of sentence-transformers: that folder itself, or a subfolder."""
    path = _modules(folder)[0]["path"]
    return os.path.join(folder, path) if path else folder


def check_pooling_of_sentence_transformers(pooling: str) -> None:
    """Raises ValueError if sentence-transformers has no such pooling."""
    if pooling not in _THEIRS:
        raise ValueError("sentence-transformers has no pooling by ALBERT's pooler: choose mean, max or cls")


def write_pooling(settings: Any, config: AlbertConfig, folder: str) -> None:
    """Writes the files of a pooling."""
    types = _TYPES if settings.normalize else _TYPES[:-1]
    paths = ("", _POOLING_FOLDER, _NORMALIZE_FOLDER)
    modules = [dict(idx=number, name=str(number), path=path, type=f"sentence_transformers.models.{name}")
               for number, (path, name) in enumerate(zip(paths, types))]
    modes = {key: name == settings.pooling for name, key in _KEYS.items() if name in (*_THEIRS, settings.pooling)}
    _write_json(dict(word_embedding_dimension=config.hidden_size, **modes),
                os.path.join(folder, _POOLING_FOLDER, "config.json"))
    # null is all positions. sentence-transformers 6 does not compare a number with the positions.
    length = settings.max_seq_length and min(settings.max_seq_length, config.max_position_embeddings)
    _write_json(dict(max_seq_length=length, do_lower_case=False), os.path.join(folder, LENGTH_CONFIG))
    config_values = dict(model_type="SentenceTransformer", truncate_dim=settings.truncate_dim)
    write_or_remove(os.path.join(folder, _CONFIG),
                    json.dumps(config_values, indent=2) + "\n" if settings.truncate_dim else None)
    _write_json(modules, os.path.join(folder, MODULES))


def _write_json(values: Any, path: str) -> None:
    write_text(path, json.dumps(values, indent=2) + "\n")


def _modules(folder: str) -> list[dict[str, str]]:
    """The steps of modules.json as path and type (the name of the class); the first two are Transformer and Pooling."""
    file = os.path.join(folder, MODULES)
    modules = []
    for module in read_json_list(file):
        path, kind = module.get("path"), str(module.get("type")).rpartition(".")[2]
        if not isinstance(path, str) or kind not in _TYPES:
            raise ValueError(f"{file}: only {', '.join(_TYPES)} are supported. Received: {reprlib.repr(module)}")
        if path:
            check_name(path, f"{file}: path")
        modules.append(dict(path=path, type=kind))
    if [module["type"] for module in modules] not in (list(_TYPES[:2]), list(_TYPES)):
        raise ValueError(f"{file}: the steps must be {', '.join(_TYPES[:2])} and, if vectors are normalized, Normalize")
    return modules


def _truncate_dim(path: str) -> int | None:
    """The number of dimensions of vectors in config_sentence_transformers.json; None for all."""
    if not tf.io.gfile.exists(path):
        return None
    size = read_json_object(path).get("truncate_dim")
    if size is not None:
        bounds.WIDTH.check(f"{path}: truncate_dim", size)
    return size


def _pooling(path: str) -> str:
    """The pooling of 1_Pooling/config.json of any version of sentence-transformers."""
    values = read_json_object(path)
    modes = values.get("pooling_mode", [key for key, is_used in values.items()
                                        if key.startswith("pooling_mode_") and is_used is True])
    modes = [modes] if isinstance(modes, str) else modes
    names = {key: name for name, key in _KEYS.items()}
    known = [names.get(mode, mode) for mode in modes] if isinstance(modes, list) else []
    if len(known) != 1 or known[0] not in POOLINGS:
        raise ValueError(f"{path}: the pooling must be one of {', '.join(POOLINGS)}. Received: {reprlib.repr(modes)}")
    return known[0]
