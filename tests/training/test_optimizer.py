"""Optimizers and schedule, step by step as the release computes them."""

import itertools
import json

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import keras
from albert_tf.pretraining.config import PretrainingSteps
from albert_tf.training.optimizer import NOT_DECAYED, ReleaseOptimizer, create_optimizer, learning_rate_schedule

pytestmark = pytest.mark.both_stacks


@pytest.fixture(params=["lamb", "adamw"])
def recorded(request, golden):
    """(optimizer's name, the golden file of its 12 steps)"""
    return request.param, np.load(golden / f"optimizer_{request.param}.npz")


def variables_of(numbers, count=None):
    return [tf.Variable(numbers[f"init|{key}"], name=str(name))
            for key, name in list(zip(keys_of(numbers), numbers["names"]))[:count]]


def keys_of(numbers):
    return [str(name).replace("/", "|") for name in numbers["names"]]


def optimizer_named(name, **arguments):
    return create_optimizer(name, learning_rate=0.01, num_train_steps=12, **{"num_warmup_steps": 0, **arguments})


def gradients_of(numbers, step):
    return [numbers[f"grads|{key}"][step] for key in keys_of(numbers)]


def assert_all_equal(values, others):
    for one, other in zip(values, others, strict=True):
        np.testing.assert_array_equal(one, other)


def test_twelve_steps_as_the_release_takes_them(recorded):
    name, numbers = recorded
    adapted = NOT_DECAYED if name == "lamb" else [".*"]
    variables, optimizer = variables_of(numbers), ReleaseOptimizer(
        0.01, exclude_from_weight_decay=NOT_DECAYED, exclude_from_layer_adaptation=adapted)
    for step, rate in enumerate(numbers["lr"]):
        optimizer.learning_rate = float(rate)
        gradients, norm = tf.clip_by_global_norm(gradients_of(numbers, step), 1.0)
        np.testing.assert_allclose(norm, numbers["global_norm"][step], rtol=1e-5)
        optimizer.apply_gradients(zip(gradients, variables))
        for variable, key in zip(variables, keys_of(numbers)):
            np.testing.assert_allclose(variable, numbers[f"vars|{key}"][step], atol=3e-6, rtol=0)
    for variable, key in zip(variables, keys_of(numbers)):
        for slot in "mv":
            np.testing.assert_allclose(optimizer.get_slot(variable, slot), numbers[f"adam_{slot}|{key}"], atol=3e-6,
                                       rtol=0)


@pytest.mark.filterwarnings("ignore")  # addons' notice of the end of its life
@pytest.mark.parametrize("name", ["lamb", "adamw"])
def test_every_bit_is_that_of_addons(name):
    addons = pytest.importorskip("tensorflow_addons", reason="tensorflow-addons is part of the first stack only",
                                 exc_type=ImportError)

    class AddonsLamb(addons.optimizers.LAMB):
        """LAMB without bias correction, as the release has it."""

        def _prepare_local(self, var_device, var_dtype, apply_state):
            super()._prepare_local(var_device, var_dtype, apply_state)
            apply_state[var_device, var_dtype].update(
                beta_1_power=0.0, beta_2_power=0.0, one_minus_beta_1_t=1 - 0.9, one_minus_beta_2_t=1 - 0.999)

    ours, results = optimizer_named(name, num_warmup_steps=3), []
    theirs = AddonsLamb(learning_rate_schedule(0.01, 12, 3), epsilon=1e-6, weight_decay=0.01,
                        exclude_from_weight_decay=NOT_DECAYED,
                        exclude_from_layer_adaptation=NOT_DECAYED if name == "lamb" else [".*"])
    shapes = {"dense/kernel": [64, 300], "dense/bias": [300], "LayerNorm/gamma": [64], "word_embeddings": [1000, 16],
              "output_bias": [2], "zeros/kernel": [4, 4]}
    for optimizer in (ours, theirs):
        random = np.random.default_rng(1)
        variables = [tf.Variable(random.normal(size=shape, scale=key != "zeros/kernel").astype(np.float32), name=key)
                     for key, shape in shapes.items()]
        for _ in range(12):
            optimizer.apply_gradients([(tf.constant(random.normal(size=variable.shape).astype(np.float32)), variable)
                                       for variable in variables])
        results.append(variables + [optimizer.get_slot(variable, slot) for slot in "mv" for variable in variables])
    assert len(results[0]) == 18
    assert_all_equal(*results)


def test_with_bias_correction_steps_are_those_of_keras_adamw(golden):
    numbers = np.load(golden / "optimizer_adamw.npz")
    ours, keras_own = variables_of(numbers), variables_of(numbers)
    # A small epsilon: Keras adds it before the correction of the second moment.
    optimizers = [ReleaseOptimizer(0.01, epsilon=1e-12, bias_correction=True, exclude_from_layer_adaptation=[".*"]),
                  keras.optimizers.AdamW(0.01, weight_decay=0.01, epsilon=1e-12)]
    for step in range(12):
        for optimizer, variables in zip(optimizers, (ours, keras_own)):
            optimizer.apply_gradients(zip(gradients_of(numbers, step), variables))
        for one, other in zip(ours, keras_own):
            np.testing.assert_allclose(one, other, atol=1e-6, rtol=0)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_a_skipped_step_changes_no_bit(recorded, jit_compile):
    name, numbers = recorded
    variables, optimizer = variables_of(numbers, 6), optimizer_named(name)

    @tf.function(jit_compile=jit_compile)
    def step(gradient, skip):
        optimizer.update([tf.fill(variable.shape, gradient) for variable in variables], variables, skip)

    optimizer.build(variables)
    step(1.0, tf.constant(False))
    values = [*variables, *optimizer.variables[1:]]
    before = [value.numpy() for value in values]
    for gradient in (1.0, np.inf, np.nan):
        step(gradient, tf.constant(True))
        assert_all_equal(before, values)
    assert optimizer.iterations == 4
    step(1.0, tf.constant(False))
    assert not any(np.array_equal(old, new) for old, new in zip(before, values))


def test_skipped_steps_do_not_count_in_the_bias_correction(recorded, tmp_path):
    """The reference is Adam or LAMB in NumPy over the steps that are not skipped, also after a restart."""
    name, numbers = recorded
    gradients = np.resize(numbers[f"grads|{keys_of(numbers)[0]}"], [12, 4]).astype(np.float64)
    expected, m, v, count = np.ones([4]), 0.0, 0.0, 0
    variable, skipped = tf.Variable(tf.ones([4]), name="kernel"), [0, 1, 2, 3, 4, 6, 9]
    for step, gradient in enumerate(gradients):
        if step in (0, 7):
            optimizer = ReleaseOptimizer(0.01, exclude_from_layer_adaptation=[".*"] * (name == "adamw"),
                                         bias_correction=True)
            optimizer.build([variable])
            checkpoint = tf.train.Checkpoint(variable=variable, optimizer=optimizer)
            if step:
                checkpoint.read(str(tmp_path / "saved")).assert_consumed()
        optimizer.update([tf.constant(gradient, tf.float32)], [variable], tf.constant(step in skipped))
        checkpoint.write(str(tmp_path / "saved"))
        if step not in skipped:
            m, v, count = 0.9 * m + 0.1 * gradient, 0.999 * v + 0.001 * gradient**2, count + 1
            update = m / (1 - 0.9**count) / (np.sqrt(v / (1 - 0.999**count)) + 1e-6) + 0.01 * expected
            ratio = np.linalg.norm(expected) / np.linalg.norm(update) if name == "lamb" else 1.0
            expected = expected - 0.01 * ratio * update
        np.testing.assert_allclose(variable, expected, rtol=1e-5)


def test_sparse_gradients_update_like_the_equal_dense_ones(recorded):
    """Rows without a gradient are updated too, by their moments and by weight decay."""
    tables = [tf.Variable(np.arange(1, 9, dtype=np.float32).reshape(4, 2)) for _ in range(2)]
    sparse = tf.IndexedSlices(tf.ones([3, 2]), tf.constant([2, 0, 2]), tf.constant([4, 2]))
    dense = tf.constant([[1.0, 1], [0, 0], [2, 2], [0, 0]])
    for table, gradient in zip(tables, (sparse, dense)):
        optimizer = optimizer_named(recorded[0])
        for _ in range(2):
            optimizer.apply_gradients([(gradient, table)])
    np.testing.assert_array_equal(*tables)
    assert tables[0][1, 0] < 3


def test_configuration_makes_the_same_optimizer_again_which_follows_the_schedule(recorded):
    name, numbers = recorded
    optimizer, both = optimizer_named(name, num_warmup_steps=3), [variables_of(numbers) for _ in range(2)]
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(optimizer))
    assert again.get_config() == optimizer.get_config()
    for each, variables in zip((optimizer, again), both):
        for step in range(3):
            each.apply_gradients(zip(gradients_of(numbers, step), variables))
            assert (step > 0) != np.array_equal(variables[0], variables_of(numbers)[0])  # the first rate is 0
    assert_all_equal(*both)


def test_the_schedule_is_the_releases(golden):
    for row in json.loads((golden / "lr_schedule.json").read_text()):
        step, rate, peak = (row.pop(name) for name in ("step", "lr", "init_lr"))
        assert PretrainingSteps(**row).poly_power == row["poly_power"]
        tolerance = peak * (1e-6 if row["poly_power"] >= 1 else 1e-3)
        assert abs(float(learning_rate_schedule(peak, **row)(step)) - rate) <= tolerance


@pytest.mark.parametrize("name, value", [
    ("name", "adam"), ("num_train_steps", 0), ("num_warmup_steps", -1), *itertools.product(
        ("learning_rate", "poly_power", "weight_decay_rate"), (float("nan"), float("inf"), -1.0)),
    ("learning_rate", 10**400)])
def test_a_wrong_argument_is_named(name, value):
    with pytest.raises(ValueError, match="lamb, adamw" if name == "name" else f"^{name} must be "):
        create_optimizer(**{name: value})
