"""Writes TF-Hub modules: the encoder as a TF2 reusable SavedModel, and a preprocessing model that makes its inputs.

They have the inputs, outputs and methods of the published modules (albert_en_base and albert_en_preprocess), and the
encoder also has the signatures of the release's TF1 modules.
"""

from __future__ import annotations

import functools
import os
from typing import Any, Callable

import tensorflow as tf

from albert_tf import keras
from albert_tf.config import CONFIG_NAME
from albert_tf.export.saved_model import graph
from albert_tf.modeling.albert_model import ENCODER_INPUTS, AlbertModel
from albert_tf.modeling.operations import Dropouts
from albert_tf.modeling.pretrainer import AlbertPretrainer
from albert_tf.modeling.sentence_encoder import AlbertSentenceEncoder
from albert_tf.text.graph.packing import pack_ids
from albert_tf.text.graph.tokenization import GraphTokenizer
from albert_tf.text.tokenization import FullTokenizer
from albert_tf.utils.manifests import output_folder
from albert_tf.utils.outputs import write_text
from albert_tf.weights.settings import write_settings
from albert_tf.weights.tf_hub import EXTRA_ASSETS
from albert_tf.weights.vocabulary import VocabularyFiles

PUBLISHED_SEQ_LENGTH = 128  # of the published preprocessing
_HUB_INPUTS = dict(zip(("input_word_ids", "input_mask", "input_type_ids"), ENCODER_INPUTS))
_in_graph = functools.partial(tf.function, autograph=False)  # see saved_model.graph
_PIECES = tf.RaggedTensorSpec([None, None], tf.int32)


def export_encoder(
    export_path: str, model: AlbertModel | AlbertPretrainer | AlbertSentenceEncoder, tokenizer: FullTokenizer,
    made_from: dict[str, Any] | None = None
) -> None:
    """Writes a SavedModel for hub.load and hub.KerasLayer(trainable=True).

    Its inputs are input_word_ids, input_mask and input_type_ids, int32 [batch, seq]. Its outputs are pooled_output
    (also as "default"; left out if the weights had no pooler), sequence_output, encoder_outputs and, for a sentence
    encoder, sentence_embedding, which is then the "default". The release's signatures are tokens, tokenization_info
    and, for a model with the heads of pre-training, mlm and sop. Config and settings are extra assets.
    """
    encoder = model.albert if isinstance(model, (AlbertPretrainer, AlbertSentenceEncoder)) else model
    module = _EncoderModule(encoder, tokenizer, model.vectors if isinstance(model, AlbertSentenceEncoder) else None)
    of_encoder = set(map(id, keras.tf_variables(encoder)))
    module.head_variables = [variable for variable in keras.tf_variables(model) if id(variable) not in of_encoder]
    signatures = _release_signatures(encoder, module.vocab_file, tokenizer.do_lower_case)
    if isinstance(model, AlbertPretrainer):
        signatures.update(_release_head_signatures(model))
    with output_folder(export_path, made_from) as temporary:
        tf.saved_model.save(module, temporary, signatures)
        assets = os.path.join(temporary, EXTRA_ASSETS)
        write_text(os.path.join(assets, CONFIG_NAME), model.config.to_json_string())
        options = VocabularyFiles(**VocabularyFiles.from_tokenizer(tokenizer).options._asdict())
        write_settings(model.settings, model.config, assets, options)


def export_preprocessing(
    export_path: str, tokenizer: FullTokenizer, seq_length: int = PUBLISHED_SEQ_LENGTH
) -> None:
    """Writes a SavedModel that converts texts to the encoder's inputs.

    Its input is texts, string [batch]. Its outputs are input_word_ids, input_mask and input_type_ids, int32 [batch,
    seq_length]. For two texts or another length, it has the methods `tokenize` (texts to ragged ids) and
    `bert_pack_inputs` (a list of one or two ragged ids, and seq_length). tokenize.get_special_tokens_dict() returns the
    special ids. Longer texts are truncated.
    """
    module = _PreprocessingModule(tokenizer, seq_length)
    texts = tf.TensorSpec([None], tf.string, "texts")
    with output_folder(export_path) as temporary:
        tf.saved_model.save(module, temporary, dict(serving_default=module.__call__.get_concrete_function(texts)))


class _EncoderModule(tf.train.Checkpoint):
    """The module of an encoder. `pooling` is a function of (outputs, mask) that returns vectors, or None."""

    def __init__(self, encoder: AlbertModel, tokenizer: FullTokenizer, pooling: Callable | None = None):
        super().__init__()
        self.vocab_file = tf.saved_model.Asset(tokenizer.vocabulary_file)
        self.variables = keras.tf_variables(encoder)
        self.trainable_variables = list(map(keras.tf_variable, encoder.trainable_variables))
        self.regularization_losses: list[tf.Tensor] = []

        @_in_graph
        def call(inputs: dict[str, tf.Tensor], training: bool = False) -> dict[str, Any]:
            seed = tf.random.uniform([2], maxval=tf.int32.max, dtype=tf.int32) if training else None
            outputs = encoder.encode({ours: inputs[hub] for hub, ours in _HUB_INPUTS.items()}, _PlainDropouts(seed))
            served = {name: outputs[name] for name in ("sequence_output", "encoder_outputs")}
            if not encoder.has_random_pooler:
                served.update(pooled_output=outputs["pooled_output"], default=outputs["pooled_output"])
            if pooling is not None:
                vectors = pooling(outputs, inputs["input_mask"])
                served.update(sentence_embedding=vectors, default=vectors)
            return served

        for training in (True, False):
            call.get_concrete_function({name: _ids(name) for name in _HUB_INPUTS}, training=training)
        setattr(self, "__call__", call)  # noqa: B010  of the object, not of its class: hub.load calls it


class _PlainDropouts(Dropouts):
    """Dropout without the chains that XLA compiles in training, since a module must run without XLA."""

    training = False


class _PreprocessingModule(tf.train.Checkpoint):
    def __init__(self, tokenizer: FullTokenizer, seq_length: int):
        super().__init__()
        self.vocab_file = tf.saved_model.Asset(tokenizer.vocabulary_file)
        self.tokenizer = graph_tokenizer = GraphTokenizer(tokenizer)
        special_ids = dict(start_of_sequence_id=tokenizer.cls_id, end_of_segment_id=tokenizer.sep_id,
                           padding_id=tokenizer.pad_id, mask_id=tokenizer.mask_id, vocab_size=tokenizer.vocab_size)

        def pack(segments: list[tf.RaggedTensor], seq_length: tf.Tensor | int) -> dict[str, tf.Tensor]:
            ids_a, ids_b = segments if len(segments) == 2 else (segments[0], None)
            packed = pack_ids(graph_tokenizer, seq_length, ids_a, ids_b, padded_length=seq_length)
            return {hub: packed[ours] for hub, ours in _HUB_INPUTS.items()}

        bert_pack_inputs = _in_graph(pack)
        for segments in ([_PIECES], [_PIECES, _PIECES]):
            bert_pack_inputs.get_concrete_function(segments, tf.TensorSpec([], tf.int32, "seq_length"))
        self.bert_pack_inputs = bert_pack_inputs
        texts = tf.TensorSpec([None], tf.string, "texts")
        self.tokenize = tf.train.Checkpoint()
        tokenize = _in_graph(graph_tokenizer.tokenize, input_signature=[texts])
        setattr(self.tokenize, "__call__", tokenize)  # noqa: B010  as below
        self.tokenize.get_special_tokens_dict = _in_graph(
            lambda: {name: tf.constant(value) for name, value in special_ids.items()}, input_signature=[])
        call = _in_graph(lambda texts: pack([graph_tokenizer.tokenize(texts)], seq_length))
        call.get_concrete_function(texts)
        setattr(self, "__call__", call)  # noqa: B010  of the object, not of its class: hub.load calls it


def _release_signatures(encoder: AlbertModel, vocab_file: tf.saved_model.Asset, do_lower_case: bool) -> dict:
    def tokens(**inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        return encoder.exported_outputs(encoder(inputs))

    def tokenization_info() -> dict[str, tf.Tensor]:
        return dict(vocab_file=tf.identity(vocab_file.asset_path), do_lower_case=tf.constant(do_lower_case))

    return dict(tokens=graph(tokens, **_named_ids(*ENCODER_INPUTS)),
                tokenization_info=graph(tokenization_info))


def _release_head_signatures(model: AlbertPretrainer) -> dict:
    def mlm(mlm_positions: tf.Tensor, **inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        outputs = model(dict(inputs, masked_lm_positions=mlm_positions))
        logits = tf.reshape(outputs["mlm_logits"], [-1, outputs["mlm_logits"].shape[-1]])  # as the release has it
        return dict(_encoder_outputs(outputs), mlm_logits=logits)

    def sop(**inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        outputs = model.albert(inputs)
        logits = model.sentence_order(outputs["pooled_output"])
        return dict(_encoder_outputs(outputs), sop_log_probs=tf.nn.log_softmax(logits))

    return dict(mlm=graph(mlm, **_named_ids(*ENCODER_INPUTS, "mlm_positions")),
                sop=graph(sop, **_named_ids(*ENCODER_INPUTS)))


def _encoder_outputs(outputs: dict) -> dict:
    return {name: outputs[name] for name in ("sequence_output", "pooled_output")}


def _ids(name: str) -> tf.TensorSpec:
    return tf.TensorSpec([None, None], tf.int32, name)


def _named_ids(*names: str) -> dict[str, tf.TensorSpec]:
    return {name: _ids(name) for name in names}
