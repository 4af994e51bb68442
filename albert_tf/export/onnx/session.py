"""OnnxModel: an exported ONNX model in ONNX Runtime, which is called like the Keras model that it was made from.

from_onnx opens a folder of export_to_onnx: .onnx files (in the layout of Hugging Face, in the subfolder onnx), the
vocabulary, and the settings.
"""

from __future__ import annotations

import os
import reprlib
from typing import Any, Mapping, Sequence

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError, Message

from albert_tf.config import AlbertConfig
from albert_tf.devices import available_cores
from albert_tf.export.onnx.graph import import_package
from albert_tf.export.onnx.hugging_face import FOLDER, INPUTS, OUTPUTS
from albert_tf.modeling.albert_model import ENCODER_INPUTS
from albert_tf.modeling.settings import (
    ClassifierSettings,
    LabelSettings,
    MultipleChoiceSettings,
    Settings,
)
from albert_tf.modeling.vectors import mean_or_max
from albert_tf.text.tokenization import FullTokenizer
from albert_tf.utils.files import errors_at, is_remote, parse_json_object, read_bytes
from albert_tf.weights.heads import HEAD_NAMES, Head, head_named, settings_class
from albert_tf.weights.hugging_face import CONFIG
from albert_tf.weights.settings import SETTINGS, settings_in
from albert_tf.weights.vocabulary import VocabularyFiles, vocabulary_in

ENDING, USUAL_NAME = ".onnx", "model.onnx"
# Outputs of heads that an export may lack: of a random pooler, and of training alone.
_OPTIONAL = {"pooled_output", "start_log_probs", "end_log_probs"}
# The largest number of rows that run at once, so that memory does not grow with the number of windows.
_ROWS = 32


class OnnxModel:
    """An ONNX model in ONNX Runtime, with the attributes of the Keras model that it was exported from.

    Call it with the model's inputs, int32 arrays by name. It returns the outputs of the head, arrays by name. Like
    AlbertClassifier, a classifier also takes windows, [batch, windows, seq]. Like AlbertMultipleChoice, multiple choice
    takes [batch, choices, seq] or [batch, choices * seq].

    Attributes:
      path: path of the file; "" for content that is not in a file.
      head, config, settings, vocabulary: of the model that was exported.
      num_labels: of a classifier or a tagger.
      beam_width: of a conditional span, the smallest number of tokens of a row.

    Raises:
      ValueError: ONNX Runtime is not installed or cannot read the file, export_to_onnx of this version did not write
        it, or the settings belong to another model.
    """

    def __init__(self, content: bytes | str, settings: Settings | None = None,
                 vocabulary: VocabularyFiles | None = None, threads: int | None = None):
        self.path = content if isinstance(content, str) else ""
        self._name = self.path or "the ONNX model"
        content = read_bytes(content, "ONNX model") if isinstance(content, str) else content
        session, metadata, self._errors = _session(content, self._name, threads or available_cores())
        self.head, self.config = _described_by(metadata, self._name)
        self.settings = settings if settings and settings.head else settings_class(self.head.name)()
        self.vocabulary = vocabulary or VocabularyFiles()
        self._session = NamesOfSession(session, self.head.name)
        self._inputs, self._outputs = self._session.inputs, self._session.outputs
        self.input_names = tuple(self._inputs)
        self.row_length = self.settings.row_length(self.config)
        of_head = [name for name in getattr(self.head.model, "HEAD_OUTPUTS", ()) if name in self._outputs]
        self.output_names = tuple(of_head or self._outputs)
        wanted = {*ENCODER_INPUTS, *getattr(self.head.model, "HEAD_OUTPUTS", ())}
        missing = sorted(wanted - _OPTIONAL - {*self._inputs, *self._outputs})
        if missing:
            raise ValueError(f"{self._name} lacks {', '.join(missing)}, which a model with the head {self.head.name} "
                             "has: export the model again")
        self._read_shapes()

    @property
    def tokenizer(self) -> FullTokenizer:
        """A tokenizer of the vocabulary beside the file, for rows of at most row_length tokens."""
        tokenizer = self.vocabulary.tokenizer(self.config)
        tokenizer.max_seq_length = self.row_length
        return tokenizer

    def output_shape(self, name: str) -> tuple[int | None, ...]:
        """The shape of an output; None for any size."""
        return tuple(size if isinstance(size, int) else None for size in self._outputs[name])

    def output_dtype(self, name: str) -> str:
        """The data type of an output, by NumPy's name."""
        dtype = self._session.types[name].removeprefix("tensor(").removesuffix(")")
        return "float32" if dtype == "float" else dtype

    def __call__(self, inputs: Mapping[str, Any], training: bool = False) -> dict[str, np.ndarray]:
        """The outputs of the head, NumPy arrays by name, for int32 inputs by name, [batch, seq] each."""
        missing = [name for name in self._inputs if name not in inputs]
        if missing:
            raise ValueError(f"missing input: {', '.join(missing)}. Received: {', '.join(inputs)}")
        arrays = {name: np.asarray(inputs[name], np.int32) for name in self._inputs}
        if isinstance(self.settings, MultipleChoiceSettings):
            choices = self.settings.num_choices
            arrays = {name: array.reshape([len(array), choices, -1]) for name, array in arrays.items()}
        elif isinstance(self.settings, ClassifierSettings) and arrays["input_ids"].ndim == 3:
            return dict(logits=self._logits_of_windows(arrays, self.settings.window_pooling))
        return self._run(arrays)

    def _logits_of_windows(self, inputs: Mapping[str, np.ndarray], pooling: str) -> np.ndarray:
        """The mean or largest logits over the windows [batch, windows, seq] of each text. Padding does not run."""
        is_there = inputs["input_mask"].any(axis=2)  # [batch, windows]
        rows = {name: array[is_there] for name, array in inputs.items()}
        logits = np.zeros([*is_there.shape, self.num_labels], np.float32)
        logits[is_there] = np.concatenate([
            self._run({name: array[first : first + _ROWS] for name, array in rows.items()})["logits"]
            for first in range(0, len(rows["input_ids"]), _ROWS)])
        return np.asarray(mean_or_max(tf.constant(logits), tf.constant(is_there, tf.int32), pooling))

    def _run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        try:
            return self._session.run(inputs, self.output_names)
        except self._errors as error:
            raise ValueError(  # without the folder: clients of a server read it
                f"{os.path.basename(self._name)} refuses its inputs: {_one_line(error)}") from error

    def _size(self, shapes: Mapping[str, Any], name: str, axis: int) -> int:
        """The size of an axis of an input or output, which must be fixed."""
        size = shapes[name][axis] if len(shapes[name]) > max(axis, 0) else None
        if not isinstance(size, int) or size < 1:
            raise ValueError(f"{self._name}: {name} must have a fixed size of axis {axis}. "
                             f"Received shape: {shapes[name]}")
        return size

    def _read_shapes(self) -> None:
        """Sets what shapes tell. Raises ValueError if the settings belong to another head, or have other labels."""
        file = os.path.join(os.path.dirname(self.path), SETTINGS)
        if self.settings.head != self.head.name:
            raise ValueError(f"{file} belongs to a model with the head {self.settings.head}, and {self.path} has the "
                             f"head {self.head.name}: export each model to a separate directory")
        if isinstance(self.settings, MultipleChoiceSettings):
            self.settings = self.settings.replaced(num_choices=self._size(self._inputs, "input_ids", 1))
        if self.head.name == "conditional_span":
            starts, ends = (self._size(self._outputs, f"{name}_top_index", 1) for name in ("start", "end"))
            self.beam_width = max(starts, ends // starts)
        if "logits" in self._outputs:
            self.num_labels = self._size(self._outputs, "logits", -1)
        names = self.settings.of_class(LabelSettings).label_names
        if names and len(names) != self.num_labels:
            raise ValueError(f"{file} has {len(names)} names for the {self.num_labels} labels of "
                             f"{self.path}: export the model again")


class NamesOfSession:
    """The inputs and outputs of a session of ONNX Runtime by the names of our models, in either layout.

    Attributes: inputs, outputs (the shape of each) and types (the type of each output), by name.
    """

    def __init__(self, session: Any, head: str):
        self._session = session
        inputs = {each.name: each.shape for each in session.get_inputs()}
        self._is_ours = INPUTS["input_mask"] not in inputs
        if self._is_ours:
            self.inputs, ours = inputs, {}
        else:
            self.inputs = {name: inputs[theirs] for name, theirs in INPUTS.items() if theirs in inputs}
            ours = {theirs: name for name, theirs in OUTPUTS.items() if theirs != "logits" or head == "pretrainer"}
            if head == "pretrainer":
                self.inputs["masked_lm_positions"] = ["batch", "masked_lm_positions_1"]
        outputs = {ours.get(each.name, each.name): each for each in session.get_outputs()}
        self._name_of = {name: each.name for name, each in outputs.items()}
        self.outputs = {name: each.shape for name, each in outputs.items()}
        self.types = {name: each.type for name, each in outputs.items()}

    def run(self, inputs: Mapping[str, np.ndarray], names: Sequence[str]) -> dict[str, np.ndarray]:
        """The outputs with these names."""
        fed = dict(inputs) if self._is_ours else {name: np.asarray(inputs[ours], np.int64)
                                                  for ours, name in INPUTS.items()}
        outputs = dict(zip(names, self._session.run([self._name_of[name] for name in names], fed)))
        if not self._is_ours and "mlm_logits" in outputs:  # [batch, seq, vocab]
            positions = np.asarray(inputs["masked_lm_positions"])[..., None]
            outputs["mlm_logits"] = np.take_along_axis(outputs["mlm_logits"], positions, axis=1)
        return outputs


def from_onnx(path: str, threads: int | None = None) -> OnnxModel:
    """Opens an exported ONNX model, for classify_texts, fill_masks, answer_questions and other functions of texts.

    Args:
      path: path of a .onnx file that export_to_onnx has written, or of a folder with one.
      threads: number of threads of a prediction; None for one for each processor that this process may use.

    Raises:
      ValueError: there is no such file, the folder has none or several, or see OnnxModel.

    Example::

      model = albert_tf.from_onnx("onnx")
      albert_tf.classify_texts(model, model.tokenizer, ["A quiet day."])[0][0].name
    """
    file = _file_at(path)
    folder = os.path.dirname(file)
    parent, name = os.path.split(os.path.abspath(folder) if not is_remote(folder) else folder)
    if name == FOLDER and tf.io.gfile.exists(os.path.join(parent, CONFIG)):
        folder = parent
    return OnnxModel(file, settings_in(folder), vocabulary_in(folder), threads)


def _file_at(path: str) -> str:
    """The .onnx file at a path: the path itself, or in a folder or its subfolder onnx model.onnx or the only one."""
    if not tf.io.gfile.exists(path):
        raise ValueError(f"{path} does not exist")
    if not tf.io.gfile.isdir(path):
        if not path.endswith(ENDING):
            raise ValueError(f"{path} is no {ENDING} file: set the path of one, or of the folder that has it")
        return path
    names = sorted(tf.io.gfile.listdir(path))
    files = [name for name in names if name.endswith(ENDING)]
    if USUAL_NAME in files:
        return os.path.join(path, USUAL_NAME)
    if len(files) > 1:
        raise ValueError(f"{path} has several {ENDING} files: choose "
                         f"{' or '.join(os.path.join(path, name) for name in files)}")
    if not files and FOLDER in (name.rstrip("/") for name in names):
        return _file_at(os.path.join(path, FOLDER))
    if not files:
        raise ValueError(f"{path} has no {ENDING} file: make one of weights with export_to_onnx")
    return os.path.join(path, files[0])


def _session(
    content: bytes, name: str, threads: int
) -> tuple[Any, dict[str, str], tuple[type[Exception], ...]]:
    """A session of ONNX Runtime, the model's metadata, and the exceptions that the session raises for wrong inputs.

    ONNX Runtime reads external data from anywhere on the machine, even for a model that it gets as bytes.
    """
    _check_self_contained(content, name)
    onnxruntime = import_package("onnxruntime")
    state = onnxruntime.capi.onnxruntime_pybind11_state
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    # Threads that wait for work would otherwise take the processors from those that read requests and tokenize.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # Else content with the mark of ONNX Runtime's other format, which was not checked, would be read as that.
    options.add_session_config_entry("session.load_model_format", "ONNX")
    options.log_severity_level = 4  # fatal: errors are raised
    try:
        session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        metadata = session.get_modelmeta().custom_metadata_map
    except (state.Fail, state.InvalidProtobuf, state.InvalidArgument, state.InvalidGraph, state.NotImplemented,
            state.RuntimeException, UnicodeDecodeError) as error:
        raise ValueError(f"{name} cannot be read by ONNX Runtime: {_one_line(error)}") from error
    return session, metadata, (state.InvalidArgument, state.RuntimeException, state.Fail)


def _check_self_contained(content: bytes, name: str) -> None:
    """Raises ValueError if content is not an ONNX model, or if a tensor anywhere in it is in another file."""
    onnx = import_package("onnx")
    try:
        waiting = [onnx.ModelProto.FromString(content)]
    except DecodeError as error:
        raise ValueError(f"{name} is not an ONNX model: {error}") from error
    while waiting:
        message = waiting.pop()
        if isinstance(message, onnx.TensorProto):
            if message.external_data or message.data_location == onnx.TensorProto.EXTERNAL:
                raise ValueError(f"{name} has the tensor {message.name!r} in another file, which is not read: save the "
                                 "model as one file")
            continue
        for field, value in message.ListFields():
            if field.message_type:
                waiting.extend([value] if isinstance(value, Message) else value)


def _described_by(metadata: Mapping[str, str], name: str) -> tuple[Head, AlbertConfig]:
    """The head and the config in the metadata of a file."""
    if metadata.get("head") not in HEAD_NAMES or "config" not in metadata:
        raise ValueError(f"{name} was not written by export_to_onnx of this version: its metadata has the head "
                         f"{reprlib.repr(metadata.get('head'))}. Export the model again")
    with errors_at(f"{name}: the config in its metadata"):
        return head_named(metadata["head"]), AlbertConfig.from_dict(parse_json_object(metadata["config"], "config"))


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]
