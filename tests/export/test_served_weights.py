"""Weights that a served model computes once and not for every request."""

import contextlib

import numpy as np
import pytest
import tensorflow as tf
from tiny import TINY

from albert_tf.export.saved_model import weights_computed_once
from albert_tf.modeling.classifier import AlbertClassifier
from albert_tf.modeling.pretrainer import AlbertPretrainer

CONFIG = TINY.replace(vocab_size=40, embedding_size=8, hidden_size=16, num_hidden_groups=2)
INPUTS = {name: np.array([row], np.int32) for name, row in dict(
    input_ids=[2, 17, 31, 3, 0], input_mask=[1, 1, 1, 1, 0], segment_ids=[0, 0, 1, 1, 0],
    masked_lm_positions=[1, 2]).items()}


@pytest.fixture
def bfloat16(policy):
    policy("mixed_bfloat16")


def traced(model):
    return tf.function(lambda: model(INPUTS), autograph=False).get_concrete_function()


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
    made = [variable for variable in variables() if variable.dtype == tf.bfloat16]
    assert not of_blocks and {tuple(variable.shape) for variable in made} >= {(16, 48), (40, 8)}
    classifier = AlbertClassifier(CONFIG, num_labels=2)  # does not multiply by the table of words
    with weights_computed_once(classifier) as variables:
        traced(classifier)
    assert [variable.dtype for variable in variables() if variable.shape == [40, 8]] == ["float32"]
    policy("float32")
    model = AlbertPretrainer(CONFIG)
    with weights_computed_once(model) as variables:
        traced(model)
    assert [id(variable) for variable in variables()] == [id(variable) for variable in model.variables]


def test_afterwards_the_model_has_its_own_weights_again(bfloat16):
    model = AlbertPretrainer(CONFIG)
    with weights_computed_once(model):
        served = traced(model)
    before = served()
    for variable in model.albert.encoder.variables:
        variable.assign_add(tf.ones(variable.shape))
    assert not np.array_equal(traced(model)()["sequence_output"], before["sequence_output"])
    assert len(model.trainable_variables) == len(model.variables)
