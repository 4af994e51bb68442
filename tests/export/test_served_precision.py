"""The precision of an exported model is the requested one."""

import numpy as np
import pytest
import tensorflow as tf
from new_head import new_head
from tiny import TINY, rows

from albert_tf import keras
from albert_tf.export.saved_model import with_precision
from albert_tf.modeling.blocks import AttentionBlock
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
