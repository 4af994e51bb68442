"""Gradient checkpointing: the same outputs and gradients for each kind of sharing and of execution."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.modeling.albert_model import AlbertModel


@pytest.fixture
def tiny_config(tiny_config):
    return tiny_config.replace(num_hidden_layers=2, hidden_dropout_prob=0.3, attention_probs_dropout_prob=0.3)


def outputs_and_gradients(model, batch, gradient_checkpointing, **function):
    """The loss and gradients of a training step whose loss depends on every layer's output."""
    model.gradient_checkpointing = gradient_checkpointing
    inputs = {name: tf.convert_to_tensor(value) for name, value in dict(batch, dropout_seed=np.int32([5, 7])).items()}

    def step():
        with tf.GradientTape() as tape:
            outputs = model(inputs, training=True)
            seen = [outputs["pooled_output"], *outputs["encoder_outputs"]]
            loss = tf.add_n([tf.reduce_mean(tf.square(tf.cast(each, tf.float32) - 1.0)) for each in seen])
        gradients = tape.gradient(loss, model.trainable_variables)
        return loss, [tf.convert_to_tensor(gradient) for gradient in gradients]

    return (tf.function(step, **function) if function else step)()


def check(model, batch, atol, **function):
    loss, gradients = outputs_and_gradients(model, batch, gradient_checkpointing=False, **function)
    again_loss, again_gradients = outputs_and_gradients(model, batch, gradient_checkpointing=True, **function)
    np.testing.assert_allclose(again_loss, loss, atol=atol)
    for variable, ours, expected in zip(model.trainable_variables, again_gradients, gradients):
        np.testing.assert_allclose(ours, expected, atol=atol, err_msg=variable.name)
    assert any(np.abs(gradient).max() > 0.01 for gradient in gradients)


@pytest.mark.parametrize("changes", [
    {}, dict(cross_layer_sharing="ffn"), dict(num_hidden_groups=2, inner_group_num=2)], ids=str)
def test_gradients_are_the_same_with_dropout_whatever_layers_share(tiny_config, tiny_batch, changes):
    check(AlbertModel(tiny_config.replace(**changes)), tiny_batch, atol=1e-6, autograph=False)


@pytest.mark.long
@pytest.mark.parametrize("precision, function, atol", [
    ("float32", {}, 1e-6), ("float32", dict(jit_compile=True), 1e-6), ("mixed_bfloat16", dict(autograph=False), 0.02)],
    ids=["eager", "XLA", "bfloat16"])
def test_gradients_are_the_same_however_a_step_runs(tiny_config, tiny_batch, policy, precision, function, atol):
    policy(precision)
    model = AlbertModel(tiny_config)
    check(model, tiny_batch, atol, **function)
    if not function:  # a tape around a function, whose gradient is a separate graph
        model.call = tf.function(model.call)
        check(model, tiny_batch, atol)


def test_a_gradient_that_is_not_finite_stays_so(tiny_config, tiny_batch):
    model = AlbertModel(tiny_config)
    model.embeddings.word_embeddings.assign(tf.fill(model.embeddings.word_embeddings.shape, np.nan))
    _, gradients = outputs_and_gradients(model, tiny_batch, gradient_checkpointing=True, autograph=False)
    assert all(np.isnan(gradient).any() for gradient in gradients)


@pytest.mark.long
def test_xla_does_not_find_that_both_times_are_the_same(tiny_config, tiny_batch):
    kept, twice = (matrix_products(AlbertModel(tiny_config), tiny_batch, again) for again in (False, True))
    # Six in a layer: query, key and value as one, scores, context, output, and the two of the feed-forward block.
    assert twice == kept + 6 * tiny_config.num_hidden_layers


def matrix_products(model, batch, gradient_checkpointing):
    """The number of matrix products of the compiled step."""
    model.gradient_checkpointing = gradient_checkpointing
    inputs = {name: tf.constant(value) for name, value in batch.items()}

    @tf.function(jit_compile=True)
    def step(inputs):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(dict(inputs, dropout_seed=[5, 7]), training=True)["pooled_output"])
        return tape.gradient(loss, model.trainable_variables, unconnected_gradients=tf.UnconnectedGradients.ZERO)

    program = step.experimental_get_compiler_ir(inputs)(stage="optimized_hlo")
    return program.count(" dot(") + program.count(" custom-call(")
