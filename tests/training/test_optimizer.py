"""Optimizers and schedule, step by step as the release computes them."""

import json

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import keras
from albert_tf.training.optimizer import ReleaseOptimizer, create_optimizer, learning_rate_schedule

pytestmark = pytest.mark.both_stacks


@pytest.fixture(params=["lamb", "adamw"])
def recorded(request, golden):
    """(optimizer's name, the golden file of its 12 steps)"""
    return request.param, np.load(golden / f"optimizer_{request.param}.npz")


def variables_of(recorded):
    return [tf.Variable(recorded["init|" + name.replace("/", "|")], name=name) for name in map(str, recorded["names"])]


def test_twelve_steps_as_the_release_takes_them(recorded):
    name, numbers = recorded
    variables = variables_of(numbers)
    keys = [str(key).replace("/", "|") for key in numbers["names"]]
    optimizer = create_optimizer(name, learning_rate=0.01, num_train_steps=12, num_warmup_steps=0)
    for step, rate in enumerate(numbers["lr"]):
        optimizer.learning_rate = float(rate)
        gradients, norm = tf.clip_by_global_norm([numbers["grads|" + key][step] for key in keys], 1.0)
        np.testing.assert_allclose(norm, numbers["global_norm"][step], rtol=1e-5)
        optimizer.apply_gradients(zip(gradients, variables))
        for variable, key in zip(variables, keys):
            np.testing.assert_allclose(variable, numbers["vars|" + key][step], atol=3e-6, rtol=0)
    for variable, key in zip(variables, keys):
        np.testing.assert_allclose(optimizer.get_slot(variable, "m"), numbers["adam_m|" + key], atol=3e-6, rtol=0)
        np.testing.assert_allclose(optimizer.get_slot(variable, "v"), numbers["adam_v|" + key], atol=3e-6, rtol=0)


def test_with_bias_correction_steps_are_those_of_keras_adamw(golden):
    numbers = np.load(golden / "optimizer_adamw.npz")
    ours, keras_own = variables_of(numbers), variables_of(numbers)
    # A small epsilon: Keras adds it before the correction of the second moment.
    optimizers = [ReleaseOptimizer(0.01, epsilon=1e-12, bias_correction=True, exclude_from_layer_adaptation=[".*"]),
                  keras.optimizers.AdamW(0.01, weight_decay=0.01, epsilon=1e-12)]
    for step in range(12):
        gradients = [numbers["grads|" + str(key).replace("/", "|")][step] for key in numbers["names"]]
        for optimizer, variables in zip(optimizers, (ours, keras_own)):
            optimizer.apply_gradients(zip(gradients, variables))
        for one, other in zip(ours, keras_own):
            np.testing.assert_allclose(one, other, atol=1e-6, rtol=0)


def test_bias_correction_makes_the_first_update_of_lamb_and_adamw_as_long_as_the_rate_says():
    """After one step the corrected moments are the gradient and its square, so that each element moves by the rate."""
    for name in ("adamw", "lamb"):
        variable = tf.Variable(tf.ones([4]), name=name)
        optimizer = create_optimizer(name, learning_rate=1.0, num_train_steps=10, num_warmup_steps=0,
                                     weight_decay_rate=0.0, bias_correction=True)
        optimizer.learning_rate = 0.1
        optimizer.apply_gradients([(tf.constant([3.0, 0.1, 20.0, 1.0]), variable)])
        np.testing.assert_allclose(variable, np.full(4, 0.9), atol=2e-5)


@pytest.mark.parametrize("gradient", [1.0, np.inf, np.nan], ids=str)
@pytest.mark.parametrize("jit_compile", [False, True])
def test_a_skipped_step_changes_no_bit(recorded, gradient, jit_compile):
    name, numbers = recorded
    variables = variables_of(numbers)
    optimizer = create_optimizer(name, learning_rate=0.01, num_train_steps=12, num_warmup_steps=0)

    @tf.function(jit_compile=jit_compile)
    def step(gradient, skip):
        optimizer.apply([tf.fill(variable.shape, gradient) for variable in variables], variables, skip)

    optimizer.build(variables)
    step(1.0, tf.constant(False))
    before = [value.numpy() for value in [*variables, *optimizer.weights[1:]]]
    step(gradient, tf.constant(True))
    assert all(np.array_equal(old, new) for old, new in zip(before, [*variables, *optimizer.weights[1:]]))
    assert optimizer.iterations == 2
    step(1.0, tf.constant(False))
    assert not any(np.array_equal(old, new) for old, new in zip(before, [*variables, *optimizer.weights[1:]]))


def test_a_skipped_step_leaves_nothing_behind_for_the_next(recorded):
    name, numbers = recorded
    ours, keras_own = variables_of(numbers), variables_of(numbers)
    optimizers = [create_optimizer(name, learning_rate=0.01, num_train_steps=12, num_warmup_steps=0) for _ in range(2)]
    gradients = [tf.ones_like(variable) for variable in ours]
    optimizers[0].apply(gradients, ours, skip=tf.constant(True))
    optimizers[1].build(keras_own)
    optimizers[1].iterations.assign(1)
    optimizers[0].apply(gradients, ours)
    optimizers[1].apply_gradients(zip(gradients, keras_own))
    assert all(np.array_equal(one, other) for one, other in zip(ours, keras_own))


def test_skipped_steps_do_not_count_in_the_bias_correction(recorded, tmp_path):
    """The reference is Adam or LAMB in NumPy over the steps that are not skipped, also after a restart."""
    name, numbers = recorded
    gradients, expected = np.array(numbers["grads|" + str(numbers["names"][0]).replace("/", "|")]), np.ones([4])
    gradients, m, v, count = np.resize(gradients, [12, 4]).astype(np.float64), 0.0, 0.0, 0
    variable, skipped = tf.Variable(tf.ones([4]), name="kernel"), [0, 1, 2, 3, 4, 6, 9]
    for step, gradient in enumerate(gradients):
        if step in (0, 7):
            optimizer = ReleaseOptimizer(0.01, exclude_from_layer_adaptation=[".*"] * (name == "adamw"),
                                         bias_correction=True)
            optimizer.build([variable])
            checkpoint = tf.train.Checkpoint(variable=variable, optimizer=optimizer)
            if step:
                checkpoint.read(str(tmp_path / "saved")).assert_consumed()
        optimizer.apply([tf.constant(gradient, tf.float32)], [variable], tf.constant(step in skipped))
        checkpoint.write(str(tmp_path / "saved"))
        if step not in skipped:
            m, v, count = 0.9 * m + 0.1 * gradient, 0.999 * v + 0.001 * gradient**2, count + 1
            update = m / (1 - 0.9**count) / (np.sqrt(v / (1 - 0.999**count)) + 1e-6) + 0.01 * expected
            ratio = np.linalg.norm(expected) / np.linalg.norm(update) if name == "lamb" else 1.0
            expected = expected - 0.01 * ratio * update
        np.testing.assert_allclose(variable, expected, rtol=1e-5)


def test_sparse_gradients_update_like_the_equal_dense_ones(recorded):
    """Rows without a gradient are updated too, by their moments and by weight decay."""
    name, _ = recorded
    tables = [tf.Variable(np.arange(1, 9, dtype=np.float32).reshape(4, 2)) for _ in range(2)]
    sparse = tf.IndexedSlices(tf.ones([3, 2]), tf.constant([2, 0, 2]), tf.constant([4, 2]))
    optimizers = [create_optimizer(name, learning_rate=0.01, num_train_steps=12, num_warmup_steps=0) for _ in range(2)]
    for _ in range(2):
        optimizers[0].apply_gradients([(sparse, tables[0])])
        optimizers[1].apply_gradients([(tf.constant([[1.0, 1], [0, 0], [2, 2], [0, 0]]), tables[1])])
    np.testing.assert_array_equal(*tables)
    assert tables[0][1, 0] < 3


def test_configuration_makes_the_same_optimizer_again(recorded):
    name, numbers = recorded
    optimizer = create_optimizer(name, learning_rate=0.01, num_train_steps=12, num_warmup_steps=3)
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(optimizer))
    assert again.get_config() == optimizer.get_config()
    both = [variables_of(numbers) for _ in range(2)]
    for each, variables in zip((optimizer, again), both):
        for step in range(3):
            gradients = [numbers["grads|" + str(key).replace("/", "|")][step] for key in numbers["names"]]
            each.apply_gradients(zip(gradients, variables))
    assert all(np.array_equal(one, other) for one, other in zip(*both))
    assert not np.array_equal(both[0][0], variables_of(numbers)[0])


def test_the_schedule_is_the_releases(golden):
    rows = json.loads((golden / "lr_schedule.json").read_text())
    rows = rows["rows"] if isinstance(rows, dict) else rows
    for row in rows:
        step, rate = row.pop("step"), row.pop("lr")
        peak = row.pop("init_lr")
        tolerance = peak * (1e-6 if row["poly_power"] >= 1 else 1e-3)
        assert abs(float(learning_rate_schedule(peak, **row)(step)) - rate) <= tolerance


def test_the_optimizer_follows_the_schedule_from_step_0():
    optimizer = create_optimizer("lamb", learning_rate=1.0, num_train_steps=10, num_warmup_steps=4)
    variable = tf.Variable(1.0)
    optimizer.apply_gradients([(tf.constant(1.0), variable)])
    assert variable == 1.0  # the first rate is 0
    optimizer.apply_gradients([(tf.constant(1.0), variable)])
    assert variable < 1.0


@pytest.mark.parametrize("arguments, message", [
    (dict(name="adam"), "one of lamb, adamw"),
    (dict(num_train_steps=0), "num_train_steps must be at least 1"),
    (dict(num_warmup_steps=-1), "num_warmup_steps must be at least 0"),
])
def test_wrong_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        create_optimizer(**arguments)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0, 10**400], ids=lambda value: str(value)[:5])
@pytest.mark.parametrize("name", ["learning_rate", "poly_power", "weight_decay_rate"])
def test_a_number_that_is_negative_or_not_finite_is_refused_by_name(name, value):
    with pytest.raises(ValueError, match=f"^{name} must be a finite number of at least 0. Received: "):
        create_optimizer(**{name: value})
