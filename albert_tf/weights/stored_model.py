"""StoredModel: a stored model in any format: weights with the release's names, config, vocabulary, settings.

`open_model` opens the weights at a path::

    "albert_tiny_en"              the folder of a model that comes with the package
    hf://org/name                 hugging_face.hub, then like the folder in it
    a URL                         archive.downloaded, then like an archive
    .tar.gz, .tgz, .tar           archive, then like the folder in it
    a folder                      by its files, see _FORMATS
    a file of torch.save          hugging_face.reading, with the config beside it
    anything else                 tf1, which also reads checkpoints of runs, BERT and albert_zh

The module of a format has a function `read` from a path to a StoredModel, and is imported when a path has this format.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import importlib
import os
import pathlib
from typing import Callable, Mapping, NamedTuple, Sequence

import tensorflow as tf

from albert_tf.config import CONFIG_NAME, AlbertConfig
from albert_tf.modeling.settings import Settings
from albert_tf.utils import bounds
from albert_tf.utils.files import check_is_file, errors_naming_origin, names_in
from albert_tf.weights import BERT_CONFIG
from albert_tf.weights.heads import HEAD_NAMES, head_named, head_of_variables
from albert_tf.weights.hugging_face import (
    ADAPTER,
    CONFIG,
    INDEX,
    MODULES,
    PICKLES,
    PL_BERT_CONFIG,
    SCHEME,
    TORCH_INDEX,
    TORCH_WEIGHTS,
    WEIGHTS,
)
from albert_tf.weights.vocabulary import VocabularyFiles

# The models that come with the package.
_SHIPPED = pathlib.Path(__file__).parents[1] / "models"
_SAVED_MODEL = "saved_model.pb"
_MOST_TENSORS = 20 * bounds.LAYERS.upper  # a layer of BERT has 16; each costs some 0.1 ms, whatever its size
_TF1 = "*.data-?????-of-?????"  # an index of faiss has the ending of a checkpoint's index
# The module of a format by a file that its folders have, in the order in which they are looked for. For an adapter, the
# reader says what to do. A folder without any of them is the output of several runs, or an error of tf1.
_FORMATS = {
    _SAVED_MODEL: "tf_hub",
    "model.weights.h5": "keras_hub",
    _TF1: "tf1",
    **dict.fromkeys((CONFIG, WEIGHTS, INDEX, TORCH_WEIGHTS, TORCH_INDEX, MODULES, ADAPTER, PL_BERT_CONFIG),
                    "hugging_face.reading"),
}
# Names of files of weights, and the ending of ONNX models, which may be in a subfolder named onnx.
_WEIGHTS = (_SAVED_MODEL, "*.h5", _TF1, "*.safetensors", INDEX, *(f"*{ending}" for ending in PICKLES))
_ONNX = ".onnx"


class StoredTensor(NamedTuple):
    """The shape of a stored value, and a function that reads it as float32."""

    shape: Sequence[int]
    read: Callable[[], tf.Tensor]


def check_count(path: str, count: int) -> None:
    """Raises ValueError if a file has more tensors than a model can have."""
    if count > _MOST_TENSORS:
        raise ValueError(f"{path} has {count:,} tensors, and a model has at most {_MOST_TENSORS:,}")


@dataclasses.dataclass(frozen=True)
class StoredModel:
    """A stored model, in the same form for every file format. Values are read only when they are needed."""

    path: str
    tensors: Mapping[str, StoredTensor]  # by the release's names of their variables
    optional_config: AlbertConfig | None = None  # None if none is stored
    vocabulary: VocabularyFiles = VocabularyFiles()
    settings: Settings = Settings()
    step: int = 0  # at which a run of this package saved the weights; 0 for other weights

    @property
    def config(self) -> AlbertConfig:
        """The model's config. Raises ValueError if none is stored."""
        if self.optional_config is None:
            raise ValueError(f"{self.path} has no {CONFIG_NAME} (of a BERT: {BERT_CONFIG}): copy it beside the "
                             "weights, or set --albert_config_file to the model's config")
        return self.optional_config

    @property
    def heads(self) -> set[str]:
        """The names of the heads that the weights may have been trained with; empty without one, or if nothing tells.

        Without settings, the names of the variables tell. Regression and multiple choice have the same ones.
        """
        if self.settings.head:
            return {self.settings.head} - {"encoder"}
        head = head_of_variables(self.tensors).name
        if head == "classifier" and self.num_labels("classifier") == 1:
            return {"classifier", "multiple_choice"}
        return set() if head == "encoder" else {head}

    @property
    def head(self) -> str:
        """The name of the head: "encoder" if there is none. Raises ValueError if it can be one of several."""
        heads = self.heads or {"encoder"}
        if len(heads) > 1:
            raise ValueError(f"{self.path} can be a regression or a multiple-choice model: set the model to "
                             f"{' or '.join(sorted(heads))}")
        return heads.pop()

    def value(self, name: str) -> tf.Tensor:
        """The value with a release name. Raises ValueError if it cannot be read, or is not finite."""
        value = self.tensors[name].read()
        check_finite_weights(name, value, self.path)
        return value

    def num_labels(self, *heads: str) -> int | None:
        """The number of labels of the classifier, if it is one of these heads (default: any); None otherwise."""
        for name in filter(None, (head_named(head).label_weights for head in heads or HEAD_NAMES)):
            if name in self.tensors:
                shape = self.tensors[name].shape
                if len(shape) != 2:
                    raise ValueError(f"{self.path}: {name} must be [labels, hidden_size]. "
                                     f"Received shape: {list(shape)}")
                return shape[0]
        return None


def open_model(path: str) -> StoredModel:
    """Opens the weights at a path (see from_pretrained), with the config and the vocabulary that come with them.

    A directory of several runs means the best of them. No code of a SavedModel runs here.
    """
    if folder := shipped_model(path):
        return dataclasses.replace(open_model(folder), path=path)
    folder = _folder(path)
    if folder == path:
        return _read(path)
    named = errors_naming_origin(path, folder)  # all error messages, also from later reads, have the original's name
    model = named(_read)(folder)
    made_from = model.vocabulary.made_from and model.vocabulary.made_from.replace(folder, path)
    return dataclasses.replace(
        model, path=path, vocabulary=dataclasses.replace(model.vocabulary, archive=path, made_from=made_from),
        tensors={key: StoredTensor(tensor.shape, named(tensor.read)) for key, tensor in model.tensors.items()})


def _folder(path: str) -> str:
    """The folder of the copy of a model that is downloaded or unpacked; the path itself for any other model."""
    if path.startswith(SCHEME):
        from albert_tf.weights.hugging_face import hub

        return hub.downloaded(path)
    from albert_tf.weights.archive import ENDINGS, downloaded, unpacked

    file = downloaded(path) if is_url(path) else path
    if tf.io.gfile.exists(file) and not tf.io.gfile.isdir(file):  # a checkpoint's prefix is no file's name
        check_is_file(file)  # and no pipe
        if file.endswith(ENDINGS):
            with errors_naming_origin(path, file):
                return unpacked(file)
    return path


def _read(path: str) -> StoredModel:
    """The stored model in a folder, or of a checkpoint."""
    if _is_of_torch(path):
        return importlib.import_module("albert_tf.weights.hugging_face.reading").read(path)
    names = names_in(path)
    has_weights = any(fnmatch.filter(names, pattern) for pattern in _WEIGHTS)
    if path.endswith(_ONNX) or not has_weights and ("onnx" in names or fnmatch.filter(names, f"*{_ONNX}")):
        raise ValueError(f"{path} has an ONNX model and no weights: open it with from_onnx, or serve --onnx_model")
    module = next((module for marker, module in _FORMATS.items() if fnmatch.filter(names, marker)), "tf1")
    return importlib.import_module(f"albert_tf.weights.{module}").read(path)


def _is_of_torch(path: str) -> bool:
    """Whether there is a file with the ending or the first bytes of one of torch.save, a zip file or a pickle."""
    if not tf.io.gfile.exists(path) or tf.io.gfile.isdir(path):
        return False
    with tf.io.gfile.GFile(path, "rb") as file:
        return path.endswith(PICKLES) or file.read(2) in (b"PK", b"\x80\x02")


def check_finite_weights(name: str, values: tf.Tensor | tf.Variable, path: str) -> None:
    """Raises a ValueError that names file and variable if a value is NaN or infinite. Integers are always accepted."""
    values = tf.convert_to_tensor(values)
    if not values.dtype.is_floating:
        return
    is_finite = tf.math.is_finite(values)
    if not tf.reduce_all(is_finite):
        size = int(tf.size(values))
        count = size - int(tf.math.count_nonzero(is_finite))
        raise ValueError(f"{path} cannot be used: {count:,} of the {size:,} values of {name} are NaN or infinite")


def is_url(path: str) -> bool:
    """Whether a path is a URL or one on the Hugging Face Hub, so that it has to be downloaded."""
    return path.startswith(("https://", "http://", SCHEME))


def config_in(folder: str, name: str = CONFIG_NAME, is_bert: bool = False) -> AlbertConfig | None:
    """The config in a folder; None without its file."""
    path = os.path.join(folder, name)
    return AlbertConfig.from_json_file(path, is_bert) if tf.io.gfile.exists(path) else None


def shipped_models() -> list[str]:
    """The names of the models that come with the package, in albert_tf/models/."""
    return sorted(model.name for model in _SHIPPED.iterdir() if model.is_dir())


def shipped_model(path: str) -> str | None:
    """The folder of a model that comes with the package, if `path` is its name and there is no such file or folder."""
    if not path.isidentifier() or pathlib.Path(path).exists():
        return None
    return str(_SHIPPED / path) if (_SHIPPED / path).is_dir() else None
