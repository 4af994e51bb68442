"""Models for the server: ONNX models, and weights in any format, which are converted to ONNX when the server starts.

Texts are tokenized by FullTokenizer in this process, and the functions of albert_tf/tasks that predict from text do the
rest. The signatures match the SavedModel that the head's script exports.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import itertools
import os
import re
import types
from typing import Any, Callable, Iterable, Mapping, NamedTuple, Sequence, Union

import numpy as np
import tensorflow as tf

from albert_tf import keras
from albert_tf.export.onnx.session import OnnxModel
from albert_tf.export.onnx.writing import in_onnx_runtime
from albert_tf.export.saved_model import (
    EXAMPLES,
    IDS,
    RAW_TEXT,
    exported_outputs,
    graph,
    sequence_features,
)
from albert_tf.modeling.settings import (
    ClassifierSettings,
    LabelSettings,
    MultipleChoiceSettings,
    SentenceEncoderSettings,
    Settings,
)
from albert_tf.server.protocols import CLASSIFIER, EMBEDDING, RERANKER
from albert_tf.server.signatures import (
    SENTENCE_ORDER,
    TEXT,
    Columns,
    EndpointModel,
    ServedModel,
    Signature,
    Spec,
    description_of,
)
from albert_tf.tasks.classification.answers import text_logits
from albert_tf.tasks.masked_lm import Filling, best_pieces, fill_texts, softmax
from albert_tf.tasks.multiple_choice.answers import choose_options
from albert_tf.tasks.sentence_vectors.vectors import prompted, text_vectors
from albert_tf.tasks.squad.answers import answer_questions, feature_options as squad_options
from albert_tf.tasks.tagging.text_tags import (
    WORDS,
    feature_options as tagging_options,
    split_words,
    tag_names,
    tag_words,
)
from albert_tf.text.packing import padded_rows
from albert_tf.text.tokenization import FullTokenizer
from albert_tf.weights.from_pretrained import build, warn_of_random_parts
from albert_tf.weights.heads import head_of
from albert_tf.weights.stored_model import StoredModel

Outputs = dict[str, np.ndarray]
# Variables of the heads of a pre-trained model.
_MASKED_LM, _SENTENCE_ORDER = re.compile("cls/predictions/"), re.compile("cls/seq_relationship/")
_LONG_TEXT = 1000  # characters
_MAX_PREDICTIONS = 20  # masked_lm_positions of a tf.Example, as in export_mask_filling


def model_of_source(
    name: str, source: StoredModel, model: str | None = None, top_k: int = 5, truncate_dim: int | None = None,
    prompt_name: str | None = None,
) -> ServedModel:
    """A model of weights, in ONNX Runtime, or where it or onnx is not installed in TensorFlow.

    `model` is its kind (see from_pretrained); None: the one that is stored with the source, or that the names of its
    variables tell. truncate_dim and prompt_name replace a sentence encoder's size of vectors and default prompt.
    """
    tokenizer = source.vocabulary.tokenizer()
    kind = model or source.head
    is_truncated = truncate_dim is not None and kind == "sentence_encoder"
    arguments: dict[str, Any] = dict(truncate_dim=truncate_dim) if is_truncated else {}
    built, report = build(source, kind, **arguments)
    warn_of_random_parts(kind, report, source.path)
    runtime = in_onnx_runtime(built) or _KerasModel(built)
    served = served_model(name, runtime, tokenizer, top_k, prompt_name)
    random = [*([RAW_TEXT, IDS, EXAMPLES] if any(map(_MASKED_LM.match, report.not_restored)) else []),
              *([SENTENCE_ORDER] if any(map(_SENTENCE_ORDER.match, report.not_restored)) else [])]
    signatures = {key: each for key, each in served.signatures.items() if key not in random}
    return dataclasses.replace(served, signatures=signatures)


def served_model(
    name: str, model: _Model, tokenizer: FullTokenizer, top_k: int = 5, prompt_name: str | None = None,
) -> ServedModel:
    """A model with the signatures of the SavedModel that the head's script exports.

    A pre-trained model also predicts whether two texts are in order. An encoder takes ids only. prompt_name names a
    prompt of a sentence encoder; None: its default.
    """
    head = head_of(model).name
    if head not in _HEADS:
        raise ValueError(f"the head {head} cannot be served: albert_tf/server/models.py has no signatures of it")
    counting = _Counting(model)
    if prompt_name is not None and isinstance(model.settings, SentenceEncoderSettings):
        counting.settings = model.settings.replaced(default_prompt_name=prompt_name)
    parts = _HEADS[head](counting, tokenizer, top_k)
    labels = model.settings.of_class(LabelSettings).label_names or ()
    ids = {name: Spec("int32", (None, None)) for name in model.input_names}
    signatures = {**parts.texts, IDS: _signature(ids, parts.ids, parts.outputs),
                  EXAMPLES: _signature(dict(examples=TEXT), functools.partial(_of_examples, parts), parts.outputs)}
    signatures = {key: dataclasses.replace(each, labels=labels) for key, each in signatures.items()}
    endpoint: dict[str, Any] = dict(dict(kind=head, tokenizer=tokenizer, row_length=model.row_length), **parts.endpoint)
    return ServedModel(name, description_of(head, name, model.config), signatures, EndpointModel(name, **endpoint),
                       counting.take_tokens)


def names_of(paths: Iterable[str]) -> list[str]:
    """The last part of each path, without characters that URLs escape, and with a number if two names are equal.

    In TensorFlow Serving's layout (NAME/1), it is the part before the version.
    """
    names: list[str] = []
    for path in paths:
        parent, last = os.path.split(path.rstrip("/"))
        if last.isdigit() and parent:
            last = os.path.basename(parent)
        base = re.sub(r"[^\w.-]+", "_", last) or "model"
        numbered = itertools.chain([base], (f"{base}-{number}" for number in itertools.count(2)))
        names.append(next(name for name in numbered if name not in names))
    return names


class _KerasModel:
    """A Keras model that is called like an OnnxModel, and has the same attributes."""

    def __init__(self, model: keras.Model):
        self.config, self.settings, self.row_length = model.config, model.settings, model.row_length
        self._model = model
        self._run = tf.function(functools.partial(exported_outputs, model), autograph=False, reduce_retracing=True)
        specs = model.input_specs()
        self.input_names = tuple(specs)
        outputs = graph(lambda **inputs: exported_outputs(model, inputs), **specs).structured_outputs
        self._outputs = {name: outputs[name] for name in type(model).HEAD_OUTPUTS if name in outputs} or outputs
        self.output_names = tuple(self._outputs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def output_shape(self, name: str) -> tuple[int | None, ...]:
        return tuple(self._outputs[name].shape.as_list())

    def output_dtype(self, name: str) -> str:
        return self._outputs[name].dtype.name

    def __call__(self, inputs: Mapping[str, Any], training: bool = False) -> Outputs:
        try:
            outputs = self._run({name: tf.constant(inputs[name], tf.int32) for name in self.input_names})
        except tf.errors.InvalidArgumentError as error:
            raise ValueError(f"the model refuses its inputs: {error.message.splitlines()[0]}") from error
        return {name: outputs[name].numpy() for name in self.output_names}


_Model = Union[OnnxModel, _KerasModel]


def _remembering_ids(tokenizer: FullTokenizer) -> FullTokenizer:
    """A copy that remembers the ids of long texts: each row of a request to /rerank has the same query."""
    ids_of = functools.lru_cache(maxsize=8)(lambda text: tokenizer.encode_batch([text])[0])

    def encode_batch(texts: list[str]) -> list[np.ndarray]:
        others = iter(tokenizer.encode_batch([text for text in texts if len(text) < _LONG_TEXT]))
        return [next(others) if len(text) < _LONG_TEXT else ids_of(text) for text in texts]

    remembering = copy.copy(tokenizer)
    vars(remembering).update(encode_batch=encode_batch)
    return remembering


class _Counting:
    """A model that counts the tokens that it computes, without padding."""

    def __init__(self, model: _Model):
        self.config, self.row_length, self._model = model.config, model.row_length, model
        self.settings: Settings = model.settings
        self.lengths: list[np.ndarray] = []  # of the rows of each call since take_tokens

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def __call__(self, inputs: Mapping[str, Any], training: bool = False) -> Outputs:
        self.lengths.append(np.sum(inputs["input_mask"], axis=-1))
        return self._model(inputs)

    def take_tokens(self) -> int:
        """The number of tokens since the last call."""
        count = sum(int(np.sum(lengths)) for lengths in self.lengths)
        self.lengths.clear()
        return count


class _Parts(NamedTuple):
    """The signatures of a head, and arguments of its EndpointModel."""

    texts: Mapping[str, Signature]
    ids: Callable[[Columns], Outputs]
    outputs: Mapping[str, Spec]
    features: Mapping[str, tf.io.FixedLenFeature]
    endpoint: Mapping[str, Any] = types.MappingProxyType({})


def _encoder(model: _Counting, tokenizer: FullTokenizer, top_k: int) -> _Parts:
    return _Parts({}, model, _output_specs(model), sequence_features(model.row_length))


def _classifier(model: _Counting, tokenizer: FullTokenizer, top_k: int) -> _Parts:
    settings, num_labels = model.settings.of_class(ClassifierSettings), model.num_labels
    tokenizer = _remembering_ids(tokenizer)
    is_regression = num_labels == 1 and not settings.multi_label
    predicted = (None, num_labels) if settings.multi_label else (None,)
    specs = dict(probabilities=Spec("float32", (None, num_labels)),
                 predictions=Spec("float32" if is_regression else "int32", predicted))
    names = _bytes(settings.label_names or ())
    if not is_regression and len(names):
        specs.update(labels=Spec("string", predicted), label_names=Spec("string", (None, num_labels)))

    def answers(logits: np.ndarray) -> Outputs:
        if is_regression:
            if settings.activation_fn:  # of a model that ranks
                logits = np.asarray(settings.score_of(logits))
            return dict(probabilities=logits, predictions=logits[:, 0])
        probabilities = settings.probabilities(logits).numpy()
        if settings.multi_label:
            predictions = settings.predicted_labels(probabilities).numpy().astype(np.int32)
        else:
            predictions = logits.argmax(axis=1).astype(np.int32)
        answer = dict(probabilities=probabilities, predictions=predictions)
        if len(names):
            labels = np.where(predictions, names[None], b"") if settings.multi_label else names[predictions]
            answer.update(labels=labels, label_names=np.tile(names, [len(logits), 1]))
        return answer

    inputs = dict(text_a=TEXT) if settings.single_texts else dict(text_a=TEXT, text_b=TEXT._replace(default=""))

    def logits_of(columns: Columns) -> np.ndarray:
        pairs = _texts(columns["text_b"]) if "text_b" in inputs else None
        return text_logits(model, tokenizer, _texts(columns["text_a"]), pairs)

    def scores(columns: Columns) -> Outputs:
        logits = logits_of(columns)
        return dict(logits=logits, scores=np.asarray(
            tf.sigmoid(logits) if num_labels == 1 else settings.probabilities(logits)))

    endpoint = dict(kind=CLASSIFIER if num_labels > 1 or settings.single_texts else RERANKER,
                  signature=Signature(inputs, scores),
                  label_names=settings.label_names or tuple(f"LABEL_{number}" for number in range(num_labels)))
    return _Parts({RAW_TEXT: _signature(inputs, lambda columns: answers(logits_of(columns)), specs, "classify")},
                  lambda columns: answers(model(columns)["logits"]), specs,
                  sequence_features(model.row_length, settings.max_windows), endpoint)


def _pretrainer(model: _Counting, tokenizer: FullTokenizer, top_k: int) -> _Parts:
    count = min(top_k, tokenizer.vocab_size)
    specs = dict(pieces=Spec("string", (None, None, count)),
                 probabilities=Spec("float32", (None, None, count)))

    def fillings(columns: Columns) -> Outputs:
        return _filling_arrays(fill_texts(model, tokenizer, _texts(columns["text"]), top_k), count)

    def of_ids(columns: Columns) -> Outputs:
        logits = model(columns)["mlm_logits"]  # [batch, masks, vocab]
        return _filling_arrays([[best_pieces(mask, tokenizer, top_k) for mask in row] for row in logits], count)

    def order(columns: Columns) -> Outputs:
        inputs = tokenizer(_texts(columns["text_a"]), _texts(columns["text_b"]),
                           max_seq_length=model.config.max_position_embeddings)
        positions = np.zeros([len(inputs["input_ids"]), 1], np.int32)
        return dict(probabilities=softmax(model(dict(inputs, masked_lm_positions=positions))["sop_logits"]))

    order_specs = dict(probabilities=Spec("float32", (None, 2)))
    texts = {RAW_TEXT: _signature(dict(text=TEXT), fillings, specs, "fill_masks", "pieces"),
             SENTENCE_ORDER: _signature(dict(text_a=TEXT, text_b=TEXT), order, order_specs, SENTENCE_ORDER)}
    positions = tf.io.FixedLenFeature([_MAX_PREDICTIONS], tf.int64)
    features = dict(sequence_features(model.config.max_position_embeddings), masked_lm_positions=positions)
    return _Parts(texts, of_ids, specs, features)


def _answers(model: _Counting, tokenizer: FullTokenizer, top_k: int) -> _Parts:
    specs = dict(answer=Spec("string", (None,)), start=Spec("int32", (None,)),
                 end=Spec("int32", (None,)), score=Spec("float32", (None,)))
    if head_of(model).name == "conditional_span":
        specs["no_answer_score"] = Spec("float32", (None,))

    def texts(columns: Columns) -> Outputs:
        found = answer_questions(model, tokenizer, _texts(columns["question"]), _texts(columns["context"]))
        values = {name: [getattr(answer, name) for answer in found] for name in specs}
        return {name: _bytes(values[name]) if spec.dtype == "string" else np.array(values[name], spec.dtype)
                for name, spec in specs.items()}

    length = squad_options(model).max_seq_length
    return _Parts({RAW_TEXT: _signature(dict(context=TEXT, question=TEXT), texts, specs, "answer")}, model,
                  _output_specs(model), {name: tf.io.FixedLenFeature([length], tf.int64) for name in model.input_names})


def _multiple_choice(model: _Counting, tokenizer: FullTokenizer, top_k: int) -> _Parts:
    num_choices = model.settings.of_class(MultipleChoiceSettings).num_choices
    specs = dict(probabilities=Spec("float32", (None, num_choices)),
                 predictions=Spec("int32", (None,)))

    def with_predictions(outputs: Outputs) -> Outputs:
        return dict(outputs, predictions=outputs["probabilities"].argmax(axis=1).astype(np.int32))

    def texts(columns: Columns) -> Outputs:
        options = [_texts(row) for row in columns["options"]]
        return with_predictions(dict(probabilities=choose_options(
            model, tokenizer, _texts(columns["context"]), _texts(columns["question"]), options)))

    inputs = dict(context=TEXT, options=Spec("string", (None, num_choices)), question=TEXT)
    return _Parts({RAW_TEXT: _signature(inputs, texts, specs, "choose")},
                  lambda columns: with_predictions(_probabilities(model(columns))), specs,
                  sequence_features(num_choices * model.row_length))


def _token_classifier(model: _Counting, tokenizer: FullTokenizer, top_k: int) -> _Parts:
    names = _bytes(tag_names(model))
    specs = dict(tags=Spec("string", (None, None)), scores=Spec("float32", (None, None)))
    text_specs = dict(words=Spec("string", (None, None)), **specs, start=Spec("int32", (None, None)),
                      end=Spec("int32", (None, None)))

    def tags(sentences: Sequence[Sequence[str]]) -> Outputs:
        probabilities = tag_words(model, tokenizer, sentences)
        return dict(tags=padded_rows([names[each.argmax(axis=1)] for each in probabilities], b"", object),
                    scores=padded_rows([each.max(axis=1) for each in probabilities], 0, np.float32))

    def words(columns: Columns) -> Outputs:
        rows = [_texts(row) for row in columns[WORDS]]
        counts = [max((number for number, word in enumerate(row, start=1) if word), default=0) for row in rows]
        return tags([row[:count] for row, count in zip(rows, counts)])  # without trailing ""

    def texts(columns: Columns) -> Outputs:
        split = [split_words(text) for text in _texts(columns["text"])]
        offsets = {name: padded_rows([[getattr(word, name) for word in row] for row in split], -1)
                   for name in ("start", "end")}
        return dict(tags([[word.word for word in row] for row in split]), **offsets,
                    words=padded_rows([_bytes([word.word for word in row]) for row in split], b"", object))

    signatures = {RAW_TEXT: _signature(dict(text=TEXT), texts, text_specs, "tag", "words"),
                  WORDS: _signature(dict(words=Spec("string", (None, None))), words, specs, padded="tags")}
    return _Parts(signatures, lambda columns: _probabilities(model(columns)),
                  dict(probabilities=Spec("float32", (None, None, model.num_labels))),
                  sequence_features(tagging_options(model).max_seq_length))


def _sentence_encoder(model: _Counting, tokenizer: FullTokenizer, top_k: int) -> _Parts:
    specs, settings = _output_specs(model), model.settings.of_class(SentenceEncoderSettings)
    prompted(settings, [])  # raises if there is no such prompt

    def texts(columns: Columns, prompt_name: str | None = None) -> Outputs:
        return dict(sentence_embedding=text_vectors(model, tokenizer, _texts(columns["text"]), prompt_name=prompt_name))

    def without_prompt(columns: Columns) -> Outputs:
        first = len(model.lengths)
        return dict(texts(columns, prompt_name=""), num_tokens=np.concatenate(model.lengths[first:]))

    # The other endpoints add prompts themselves.
    counting = _signature(dict(text=TEXT), without_prompt, dict(specs, num_tokens=Spec("int32", (None,))))
    endpoint = dict(kind=EMBEDDING, signature=counting, pooling=settings.pooling,
                    prompted=functools.partial(prompted, settings))
    return _Parts({RAW_TEXT: _signature(dict(text=TEXT), texts, specs, "compare")}, model, specs,
                  sequence_features(model.row_length), endpoint)


_HEADS: Mapping[str, Callable[[_Counting, FullTokenizer, int], _Parts]] = dict(
    encoder=_encoder, classifier=_classifier, pretrainer=_pretrainer, span=_answers, conditional_span=_answers,
    multiple_choice=_multiple_choice, token_classifier=_token_classifier, sentence_encoder=_sentence_encoder)


# --- parts of signatures ---------------------------------------------------------------------------------------------


def _signature(
    inputs: Mapping[str, Spec], run: Callable[[Columns], Outputs], outputs: Mapping[str, Spec],
    view: str = "json", padded: str = "",
) -> Signature:
    outputs = dict(sorted(outputs.items()))  # the order of a SavedModel's

    def in_order(columns: Columns) -> Outputs:
        served = run(columns)
        return {name: served[name] for name in outputs}

    return Signature(inputs, in_order, view, padded, (), outputs)


def _probabilities(outputs: Outputs) -> Outputs:
    return dict(probabilities=softmax(outputs["logits"]))


def _output_specs(model: _Counting) -> dict[str, Spec]:
    return {name: Spec("int32" if name.endswith("_index") else model.output_dtype(name), model.output_shape(name))
            for name in model.output_names}


def _of_examples(parts: _Parts, columns: Columns) -> Outputs:
    try:
        parsed = tf.io.parse_example(tf.constant(columns["examples"], tf.string), dict(parts.features))
    except tf.errors.InvalidArgumentError as error:
        raise ValueError(error.message) from error
    return parts.ids({name: tensor.numpy().astype(np.int32) for name, tensor in parsed.items()})


def _filling_arrays(texts: Sequence[Sequence[Sequence[Filling]]], count: int) -> Outputs:
    """Pieces and probabilities of texts, [texts, masks, count], padded with "" and 0."""
    shape = len(texts), max(map(len, texts), default=0), count
    pieces, probabilities = np.full(shape, b"", object), np.zeros(shape, np.float32)
    for text, masks in enumerate(texts):
        for mask, fillings in enumerate(masks):
            pieces[text, mask] = _bytes([filling.piece for filling in fillings])
            probabilities[text, mask] = [filling.probability for filling in fillings]
    return dict(pieces=pieces, probabilities=probabilities)


def _texts(column: np.ndarray) -> list[str]:
    return [text.decode("utf-8", "replace") for text in column]


def _bytes(texts: Sequence[str]) -> np.ndarray:
    encoded = np.empty(len(texts), object)
    encoded[:] = [text.encode("utf-8", "replace") for text in texts]
    return encoded
