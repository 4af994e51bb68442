"""What exported models compute: in the requested precision, with weights computed once, a few rows at a time."""

import contextlib

import numpy as np
import pytest
import tensorflow as tf
from new_head import new_head
from tiny import TINY, rows

from albert_tf import keras
from albert_tf.export.saved_model import BatchedModel, weights_computed_once, with_precision
from albert_tf.modeling.classifier import AlbertClassifier
from albert_tf.modeling.encoder import AttentionBlock
from albert_tf.modeling.layers import layers_in
from albert_tf.modeling.pretrainer import AlbertPretrainer
from albert_tf.modeling.span import AlbertConditionalSpan
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
    block, = (layer for layer in layers_in(bfloat16_model) if isinstance(layer, AttentionBlock))
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


CONFIG = TINY.replace(vocab_size=40, embedding_size=8, hidden_size=16, num_hidden_groups=2)
ROW = {name: np.array([row], np.int32) for name, row in dict(
    input_ids=[2, 17, 31, 3, 0], input_mask=[1, 1, 1, 1, 0], segment_ids=[0, 0, 1, 1, 0],
    masked_lm_positions=[1, 2]).items()}


@pytest.fixture
def bfloat16(policy):
    policy("mixed_bfloat16")


def traced(model):
    return tf.function(lambda: model(ROW), autograph=False).get_concrete_function()


def assert_equal(outputs, others):
    tf.nest.map_structure(lambda output, other: np.testing.assert_array_equal(output.numpy(), other.numpy()),
                          outputs, others)


@pytest.mark.parametrize("replicas", [1, 2])
def test_outputs_are_the_same_bit_for_bit(bfloat16, mirrored, replicas):
    with mirrored.scope() if replicas == 2 else contextlib.nullcontext():
        model = AlbertPretrainer(CONFIG)
    for variable in model.variables:
        variable.assign(tf.random.normal(variable.shape, stddev=0.3))
    expected = traced(model)()
    with weights_computed_once(model):
        served = traced(model)
    assert_equal(served(), expected)


def test_graphs_share_the_computed_weights_and_lack_the_ones_they_replace(bfloat16, policy):
    model = AlbertPretrainer(CONFIG)
    with weights_computed_once(model) as variables:
        first, second = traced(model), traced(model)
    handles = [{id(handle) for handle in graph.captured_inputs} for graph in (first, second)]
    assert handles[0] == handles[1] <= {id(variable.handle) for variable in variables()}
    of_blocks = [variable for variable in variables() if "/transformer/group_" in variable.name]
    made = [variable for variable in variables() if tf.as_dtype(variable.dtype) == tf.bfloat16]
    assert not of_blocks and {tuple(variable.shape) for variable in made} >= {(16, 48), (40, 8)}
    classifier = AlbertClassifier(CONFIG, num_labels=2)  # does not multiply by the table of words
    with weights_computed_once(classifier) as variables:
        traced(classifier)
    assert [variable.dtype for variable in variables() if variable.shape == [40, 8]] == ["float32"]
    policy("float32")
    model = AlbertPretrainer(CONFIG)
    with weights_computed_once(model) as variables:
        traced(model)
    assert [id(variable) for variable in variables()] == [id(variable) for variable in keras.tf_variables(model)]


def test_afterwards_the_model_has_its_own_weights_again(bfloat16):
    model = AlbertPretrainer(CONFIG)
    with weights_computed_once(model):
        served = traced(model)
    before = served()
    for variable in model.albert.encoder.variables:
        variable.assign_add(tf.ones(variable.shape))
    assert not np.array_equal(traced(model)()["sequence_output"], before["sequence_output"])
    assert len(model.trainable_variables) == len(model.variables)


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
