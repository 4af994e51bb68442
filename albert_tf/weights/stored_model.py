"""StoredModel: a stored model in any format: weights with the release's names, config, vocabulary, settings.

`open_source` opens the weights at a path::

    "albert_tiny_en"              the folder of a model that comes with the package
    hf://org/name                 hugging_face.hub, then like the folder in it
    a URL                         archive.downloaded, then like an archive
    .tar.gz, .tgz, .tar           archive, then like the folder in it
    a folder                      by its files, see _FORMATS
    anything else                 tf1, which also reads checkpoints of runs, BERT and albert_zh

The module of a format has a function `read` from a path to a StoredModel, and is imported when a path has this format.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import functools
import importlib
import os
import pathlib
from typing import Any, Callable, Iterator, Mapping, Sequence

import tensorflow as tf
from absl import logging

from albert_tf.config import AlbertConfig
from albert_tf.modeling.encoder import block_scope, block_variable
from albert_tf.modeling.layers import check_finite_weights
from albert_tf.utils.bounds import Bounds
from albert_tf.utils.files import NoSuchFile, errors_naming_origin, names_in
from albert_tf.weights.heads import HEAD_NAMES, head_named, head_of_variables
from albert_tf.weights.hugging_face import ADAPTER, CONFIG, INDEX, MODULES, PICKLES, SCHEME, WEIGHTS
from albert_tf.weights.settings import SETTINGS, Settings, VocabularyFiles

# The models that come with the package.
_SHIPPED = pathlib.Path(__file__).parents[1] / "models"
_SAVED_MODEL = "saved_model.pb"
# The module of a format by a file that its folders have, in the order in which they are looked for. The last one of
# Hugging Face is that of sentence-transformers; for a pickle, the reader says what to do.
_FORMATS = {
    _SAVED_MODEL: "tf_hub",
    "model.weights.h5": "keras_hub",
    "*.index": "tf1",
    **dict.fromkeys((CONFIG, WEIGHTS, INDEX, "pytorch_model.bin", MODULES, ADAPTER), "hugging_face.reading"),
}
# Names of files of weights, and the ending of ONNX models, which may be in a subfolder named onnx.
_WEIGHTS = (_SAVED_MODEL, "*.h5", "*.index", "*.safetensors", INDEX, "*.bin")
_ONNX = ".onnx"
# The first bytes of pickles, and those of zip files, the format of newer PyTorch files.
_STARTS = (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")
_ZIP = b"PK\x03\x04"


@dataclasses.dataclass(frozen=True)
class StoredModel:
    """A stored model, in the same form for every file format. Values are read only when they are needed.

    Args:
      shapes: the shape of each value, by the release's name.
      read: function that returns the value with a release name.
      read_step: function that returns the step at which a run of this package saved the weights; 0 for other weights.
    """

    path: str
    shapes: Mapping[str, Sequence[int]]
    read: Callable[[str], tf.Tensor]
    read_config: Callable[[], AlbertConfig]
    vocabulary: VocabularyFiles = VocabularyFiles()
    settings: Settings = Settings()
    read_step: Callable[[], int] = lambda: 0

    def value(self, name: str) -> tf.Tensor:
        """The value with a release name. Raises ValueError if it cannot be read, or is not finite."""
        value = self.read(name)
        check_finite_weights(name, value, self.path)
        return value

    def num_labels(self, *heads: str) -> int | None:
        """The number of labels of the classifier, if it is one of these heads (default: any); None otherwise."""
        for name in (head_named(head).label_weights for head in heads or HEAD_NAMES):
            shape = self.shapes.get(name or "")
            if shape is not None and len(shape) != 2:
                raise ValueError(f"{self.path}: {name} must be [labels, hidden_size]. Received shape: {list(shape)}")
            if shape is not None:
                return shape[0]
        return None

    @property
    def config(self) -> AlbertConfig:
        """The model's config. Raises ValueError if there is none, or if it is wrong."""
        return self.read_config()

    def renamed(self, keys: Mapping[str, str], **changes: Any) -> StoredModel:
        """The source of the values with the names keys[name], which have the name `name` there, and other changes."""
        return dataclasses.replace(self, shapes={name: self.shapes[key] for name, key in keys.items()},
                                   read=lambda name: self.read(keys[name]), **changes)


def open_source(path: str) -> StoredModel:
    """Opens the weights at a path, with the config and the vocabulary that come with them.

    The format is determined by reading files. No code of a SavedModel runs here.

    Args:
      path: as for from_pretrained, or the directory of several runs (the best of them).

    Raises:
      ValueError: there is nothing in a known format, or it cannot be read.
    """
    folder = shipped_model(path)
    return dataclasses.replace(_open(folder), path=path) if folder else _open(path)


def _open(path: str) -> StoredModel:
    if path.startswith(SCHEME):
        from albert_tf.weights.hugging_face import hub

        return _copy_in(hub.snapshot(path).folder, path)
    archive = path
    if is_url(path):
        from albert_tf.weights.archive import downloaded

        archive = downloaded(path)
    if tf.io.gfile.exists(archive) and not tf.io.gfile.isdir(archive):  # a checkpoint's prefix is no file's name
        from albert_tf.weights.archive import is_archive, unpacked

        if is_archive(archive):
            with errors_naming_origin(path, archive):
                directory = unpacked(archive)
            return _copy_in(directory, path)
        refuse_pickle(path)
    return _read(path)


def _copy_in(directory: str, name: str) -> StoredModel:
    """The copy of a model in a directory. All error messages, also those of later reads, have the original's name."""
    named = errors_naming_origin(name, directory)
    source = named(_read)(directory)
    made_from = source.vocabulary.made_from and source.vocabulary.made_from.replace(directory, name)
    return dataclasses.replace(source, path=name, read=named(source.read), read_config=named(source.read_config),
                               vocabulary=dataclasses.replace(source.vocabulary, archive=name, made_from=made_from))


def _read(path: str) -> StoredModel:
    """The stored model in a folder, or of a checkpoint."""
    names = names_in(path) if tf.io.gfile.isdir(path) else []
    has_weights = any(fnmatch.filter(names, pattern) for pattern in _WEIGHTS)
    if path.endswith(_ONNX) or not has_weights and ("onnx" in names or fnmatch.filter(names, f"*{_ONNX}")):
        raise ValueError(f"{path} has an ONNX model and no weights: open it with from_onnx, or serve --onnx_model")
    module = next((module for marker, module in _FORMATS.items() if fnmatch.filter(names, marker)), "tf1")
    return importlib.import_module(f"albert_tf.weights.{module}").read(path)


def refuse_pickle(path: str) -> None:
    """Raises ValueError if the file at the path is a pickle or a zip file by its name or its first bytes."""
    if not tf.io.gfile.exists(path) or tf.io.gfile.isdir(path):
        return
    if path.endswith(".keras"):
        raise ValueError(f"{path} is a file that Keras reads: use keras.models.load_model. save_pretrained writes a "
                         "folder with weights, config and vocabulary, which from_pretrained reads")
    with tf.io.gfile.GFile(path, "rb") as file:
        start = file.read(4)
    kind = "a zip file, as PyTorch's weights are" if start == _ZIP else None
    if start.startswith(_STARTS) or path.endswith(PICKLES):
        kind = "a pickle"
    if kind:
        raise ValueError(f"{path} is {kind}, which can run any code when it is read: save the model as safetensors "
                         "(Hugging Face's save_pretrained does), and use that folder")


def is_url(path: str) -> bool:
    """Whether a path is a URL or one on the Hugging Face Hub, so that it has to be downloaded."""
    return path.startswith(("https://", "http://", SCHEME))


def is_hub_module(path: str) -> bool:
    """Whether a folder is a SavedModel, the format of TF-Hub modules."""
    return tf.io.gfile.exists(os.path.join(path, _SAVED_MODEL))


def shipped_models() -> list[str]:
    """The names of the models that come with the package, in albert_tf/models/."""
    return sorted(model.name for model in _SHIPPED.iterdir() if model.is_dir())


def shipped_model(path: str) -> str | None:
    """The folder of a model that comes with the package, if `path` is its name and there is no such file or folder."""
    if not path.isidentifier() or pathlib.Path(path).exists():
        return None
    return str(_SHIPPED / path) if (_SHIPPED / path).is_dir() else None


def heads_of_source(source: StoredModel) -> set[str]:
    """The names of the heads that stored weights may have been trained with; empty without a head, or if nothing tells.

    Without settings, the names of the variables tell. Regression and multiple choice have the same ones.
    """
    if source.settings.head:
        return {source.settings.head} - {"encoder"}
    head = head_of_variables(source.shapes).name
    if head == "classifier" and source.num_labels("classifier") == 1:
        return {"classifier", "multiple_choice"}
    return set() if head == "encoder" else {head}


def head_of_source(source: StoredModel) -> str:
    """The name of the head of stored weights: "encoder" if they have none."""
    heads = heads_of_source(source) or {"encoder"}
    if len(heads) > 1:
        raise ValueError(f"{source.path} can be a regression or a multiple-choice model: set the model to "
                         f"{' or '.join(sorted(heads))}")
    return heads.pop()


def config_of(source: StoredModel) -> AlbertConfig | None:
    """The config of a stored model; None if it has none. Raises ValueError if it is wrong."""
    try:
        return source.config
    except NoSuchFile:
        return None


def unshared_config(config: AlbertConfig) -> AlbertConfig:
    """The config of a model with the same layers, none of which share weights."""
    return config.replace(cross_layer_sharing="none", num_hidden_groups=1)


def unshared(source: StoredModel) -> StoredModel:
    """The source of a model with the same outputs in which each layer has its own weights.

    A source without sharing is returned unchanged.
    """
    config = source.config
    if config.in_groups() == unshared_config(config).in_groups():
        return source
    names = {new: name for name in source.shapes for new in _copies(name, config)}
    return source.renamed(names, read_config=lambda: unshared_config(config))


def _copies(name: str, config: AlbertConfig) -> Iterator[str]:
    """The names of a variable's copies, one for each layer that uses it."""
    in_block = block_variable(name)
    if not in_block:
        yield name
        return
    group, inner, variable = in_block
    blocks = config.attention_blocks if in_block.is_of_attention else config.ffn_blocks
    for layer, used in enumerate(blocks):
        if group * config.inner_group_num + inner in used:
            yield f"{block_scope(layer, inner)}/{variable}"


def first_layers(source: StoredModel, num_layers: int | None) -> StoredModel:
    """The source of a model of the first layers of another one.

    It warns unless the weights were trained for this number of layers.

    Args:
      num_layers: the number of layers; None for the unchanged source.
    """
    if num_layers is None:
        return source
    config, depths = source.config, source.settings.distillation_depths or ()
    Bounds(1, config.num_hidden_layers).check("num_layers", num_layers)
    if num_layers == config.num_hidden_layers:
        return source
    if num_layers not in depths:
        folder, name = os.path.split(source.path)
        _warn_of_depth(folder if name.startswith("model.ckpt") else source.path, config.num_hidden_layers, num_layers)
    groups = config.num_hidden_groups if config.cross_layer_sharing != "all" else (
        config.attention_blocks[num_layers - 1][0] // config.inner_group_num + 1)
    cut = config.replace(num_hidden_layers=num_layers, num_hidden_groups=groups)
    if cut.attention_blocks != config.attention_blocks[:num_layers]:  # it ends within a group
        source, cut = unshared(source), unshared_config(cut)
    blocks = {name: block_variable(name) for name in source.shapes}
    used = {True: cut.num_attention_blocks, False: cut.num_ffn_blocks}
    names = {name: name for name, block in blocks.items() if (
        block is None or block.group * cut.inner_group_num + block.inner < used[block.is_of_attention])}
    settings = source.settings
    if depths:
        settings = settings.replaced(distillation_depths=tuple(depth for depth in depths if depth < num_layers))
    return source.renamed(names, read_config=lambda: cut, settings=settings)


@functools.cache  # a command opens the weights of a run several times
def _warn_of_depth(path: str, trained: int, num_layers: int) -> None:
    logging.warning("%s was trained with %d layers and is cut to the first %d, for which it may need further training",
                    path, trained, num_layers)


def merged(source: StoredModel) -> StoredModel:
    """The source of a model whose low-rank adapters are added to its kernels; without adapters, it is the same source.

    If layers have adapters of their own, they do not share weights any more.
    """
    # By the name of a variable, the scope of its kernel and the number of its layer, if it belongs to one.
    if not any("/lora_" in name for name in source.shapes):
        return source
    from albert_tf.modeling.adapters import ADAPTER_NAME

    adapters = {name: match.groups() for name in source.shapes if (match := ADAPTER_NAME.fullmatch(name))}
    alpha = source.settings.lora_alpha
    if alpha is None:
        raise ValueError(f"{source.path} has low-rank adapters, and no {SETTINGS} with lora_alpha is beside it: copy "
                         "it from the run's directory")
    config = source.config
    products: dict[str, tuple[str, str, float]] = {}  # by a kernel's name, the names of A and B, and their factor
    for scope, layer in adapters.values():
        a, b = (f"{scope}/lora_{matrix}" + ("" if layer is None else f"_{layer}") for matrix in "ab")
        products[f"{_unshared_scope(scope, layer, config)}/kernel"] = a, b, alpha / source.shapes[a][1]
    base = dataclasses.replace(source, settings=source.settings.replaced(lora_alpha=None), shapes={
        name: shape for name, shape in source.shapes.items() if name not in adapters})
    base = unshared(base) if any(layer is not None for _, layer in adapters.values()) else base

    def read(name: str) -> tf.Tensor:
        value = base.read(name)
        if name not in products:
            return value
        a, b, factor = products[name]
        return value + factor * tf.matmul(source.read(a), source.read(b))

    return dataclasses.replace(base, read=read)


def _unshared_scope(scope: str, layer: str | None, config: AlbertConfig) -> str:
    """The scope of a layer without sharing, for that of its block; the same for None, which is what layers share."""
    block = block_variable(scope)
    if layer is None or block is None:
        return scope
    return f"{block_scope(*divmod(int(layer), config.inner_group_num))}/{block.name}"
