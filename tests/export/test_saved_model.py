"""What exported models compute: in the requested precision, a few rows at a time."""

import numpy as np
import pytest
import tensorflow as tf
from new_head import new_head
from tiny import TINY, rows

from albert_tf import keras
from albert_tf.export.saved_model import (
    BatchedModel,
    TextSignature,
    export_model,
    sequence_features,
    with_precision,
)
from albert_tf.modeling.encoder import AttentionBlock
from albert_tf.modeling.span import AlbertConditionalSpan
from albert_tf.text.graph.packing import pack_texts
from albert_tf.weights.heads import HEADS, head_named

pytestmark = pytest.mark.both_stacks
INPUTS = rows(5)


@pytest.fixture
def bfloat16_model():
    """A model with large random weights that computes in bfloat16, while the policy of new layers is float32."""
    keras.mixed_precision.set_global_policy("mixed_bfloat16")
    try:
        model = head_named("classifier").model(TINY, num_labels=3)
    finally:
        keras.mixed_precision.set_global_policy("float32")
    for variable in model.variables:
        variable.assign(tf.random.stateless_normal(variable.shape, [1, 2], stddev=0.3))
    return model


def test_in_float32_outputs_are_those_of_a_float32_model_with_the_same_weights_also_frozen_ones(bfloat16_model):
    expected = head_named("classifier").model(TINY, num_labels=3)
    expected.set_weights(bfloat16_model.get_weights())
    logits = with_precision(bfloat16_model, "float32")(INPUTS)["logits"].numpy()
    np.testing.assert_array_equal(logits, expected(INPUTS)["logits"].numpy())
    assert np.abs(logits - bfloat16_model(INPUTS)["logits"].numpy()).max() > 1e-5
    assert keras.mixed_precision.global_policy().name == "float32"
    block, = (layer for layer in bfloat16_model.submodules if isinstance(layer, AttentionBlock))
    block.trainable = False  # changes the order of model.weights
    np.testing.assert_array_equal(with_precision(bfloat16_model, "float32")(INPUTS)["logits"].numpy(), logits)
    assert with_precision(bfloat16_model, None) is bfloat16_model


@pytest.mark.parametrize("head", HEADS, ids=lambda head: head.name)
def test_every_model_keeps_its_weights(head):
    model = new_head(head, TINY)
    exported = with_precision(model, "mixed_bfloat16")
    assert type(exported) is type(model)
    for kept, weight in zip(exported.get_weights(), model.get_weights()):
        np.testing.assert_array_equal(kept, weight)


def test_a_saved_model_in_bfloat16_has_the_models_outputs(sentence_pieces, tmp_path):
    config = TINY.replace(vocab_size=sentence_pieces.vocab_size, initializer_range=0.5)
    model = with_precision(head_named("classifier").model(config, num_labels=3), "mixed_bfloat16")
    export_model(str(tmp_path / "served"), model, sentence_pieces, sequence_features(5),
                 lambda outputs: dict(logits=outputs["logits"]),
                 TextSignature(dict(text=[None]), lambda graph, text: pack_texts(graph, 5, text)))
    served = tf.saved_model.load(str(tmp_path / "served")).signatures["ids"]
    found = served(**{name: tf.constant(values, tf.int32) for name, values in INPUTS.items()})["logits"]
    np.testing.assert_allclose(found, model(INPUTS)["logits"], atol=0.02)
    assert np.abs(found - with_precision(model, "float32")(INPUTS)["logits"]).max() > 1e-4


SPAN_CONFIG = TINY.replace(vocab_size=50, num_hidden_layers=1)
OUTPUTS = dict(start_top_log_probs=tf.float32, end_top_index=tf.int32, cls_logits=tf.float32)


class RowCounter:
    """A model that returns for each row the number of rows of its batch."""

    def __call__(self, inputs):
        shape = tf.shape(inputs["input_ids"])
        return dict(rows=tf.fill(shape[:1], shape[0]))


@pytest.mark.parametrize("num_rows", [0, 4, 11])
def test_rows_have_the_models_outputs(num_rows):
    keras.utils.set_random_seed(1)
    model, rng = AlbertConditionalSpan(SPAN_CONFIG, start_n_top=3, end_n_top=2), np.random.default_rng(1)
    ids = tf.constant(rng.integers(1, 50, [num_rows, 12]), tf.int32)
    inputs = dict(input_ids=ids, input_mask=tf.ones_like(ids), segment_ids=ids % 2, p_mask=tf.zeros_like(ids))
    batched = BatchedModel(model, OUTPUTS, batch_size=4)
    specs = {name: tf.TensorSpec([None, None], tf.int32) for name in inputs}
    served = tf.function(lambda inputs: batched(inputs), input_signature=[specs])
    found, expected = served(inputs), model(inputs)
    assert found.keys() == OUTPUTS.keys() and len(batched.variables) == len(model.variables)
    for name, values in found.items():
        assert values.dtype == OUTPUTS[name]
        np.testing.assert_allclose(values, expected[name], atol=1e-5, err_msg=name)
    assert served.get_concrete_function().structured_outputs["end_top_index"].shape.as_list() == [None, 6]


@pytest.mark.parametrize("num_rows, largest", [(3, 3), (4, 4), (5, 3), (11, 4), (17, 4)])
def test_few_rows_go_through_together(num_rows, largest):
    found = BatchedModel(RowCounter(), dict(rows=tf.int32), batch_size=4)(dict(input_ids=tf.zeros([num_rows, 2])))
    assert found["rows"].numpy().tolist() == [largest] * num_rows
