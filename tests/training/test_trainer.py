"""The trainer's step: the release's recorded training, and options that must not change it."""

import numpy as np
import pytest
import tensorflow as tf
from slope import SlopeObjective

from albert_tf.config import AlbertConfig
from albert_tf.modeling.layers import release_name
from albert_tf.modeling.pretrainer import AlbertPretrainer
from albert_tf.pretraining.objective import PretrainingObjective, results
from albert_tf.training import trainer
from albert_tf.training.optimizer import create_optimizer
from albert_tf.training.trainer import Callback, LossScale, Trainer, on_batches

pytestmark = pytest.mark.both_stacks

INPUTS = ("input_ids", "input_mask", "segment_ids", "masked_lm_positions", "masked_lm_ids", "masked_lm_weights",
          "next_sentence_labels")
LOSSES = dict(loss="total_loss", masked_lm_loss="masked_lm_loss", sentence_order_loss="sentence_order_loss")


@pytest.fixture(scope="module")
def initial(golden):
    config = AlbertConfig.from_json_file(str(golden / "training_init/albert_config.json"))
    reader = tf.train.load_checkpoint(str(golden / "training_init/model.ckpt-init"))
    return config, {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


@pytest.fixture(scope="module")
def dropped(initial):
    """The same with dropout."""
    return initial[0].replace(hidden_dropout_prob=0.3, attention_probs_dropout_prob=0.3), initial[1]


def slope_trainer(**arguments):
    optimizer = create_optimizer("lamb", learning_rate=0.01, num_train_steps=8, num_warmup_steps=2)
    return Trainer(SlopeObjective(), optimizer, **arguments)


def slopes(*x):
    return tf.data.Dataset.from_tensor_slices(dict(x=tf.constant(x, tf.float32)[:, None]))


def new_trainer(initial, name="lamb", steps=8, **arguments):
    config, values = initial
    model = AlbertPretrainer(config)
    for variable in model.weights:
        variable.assign(values[release_name(variable)])
    optimizer = create_optimizer(name, learning_rate=0.01, num_train_steps=steps, num_warmup_steps=2)
    return Trainer(PretrainingObjective(model), optimizer, **arguments)


def batches_of(numbers):
    return tf.data.Dataset.from_tensor_slices({name: numbers[f"batch_{name}"] for name in INPUTS})


class StepLogs(Callback):
    def __init__(self):
        self.logs = []

    def on_step(self, step, logs):
        self.logs.append(logs)


# Accumulation, XLA and parts end before the optimizer, so that they are the same for both optimizers.
@pytest.mark.parametrize("name, arguments", [
    ("lamb", {}), ("lamb", dict(gradient_accumulation_steps=2, jit_compile=True)), ("adamw", dict(parts=2)),
    pytest.param("adamw", dict(gradient_accumulation_steps=2), marks=pytest.mark.slow)], ids=str)
def test_eight_steps_as_the_release_takes_them(golden, initial, name, arguments):
    numbers = np.load(golden / f"training_{name}.npz")
    trainer, steps = new_trainer(initial, name, **arguments), StepLogs()
    trainer.fit(batches_of(numbers), callbacks=[steps])
    for ours, release in LOSSES.items():
        np.testing.assert_allclose([log[ours] for log in steps.logs], numbers[f"{release}_onehot"], atol=5e-5, rtol=0)
    np.testing.assert_allclose([log["gradient_norm"] for log in steps.logs], numbers["global_norm_onehot"], rtol=1e-4)
    np.testing.assert_allclose([log["learning_rate"] for log in steps.logs], numbers["lr"], atol=1e-8)
    for variable in trainer.model.trainable_variables:
        key = "end_onehot|" + release_name(variable).replace("/", "|")
        # The key's bias has a gradient of 0 in exact arithmetic: Adam makes steps of its rounding noise.
        atol = 1e-3 if "self/key/bias" in variable.name else 1e-4
        np.testing.assert_allclose(variable, numbers[key], atol=atol, rtol=0)
    assert trainer.optimizer.iterations == 8


@pytest.mark.long
@pytest.mark.parametrize("jit_compile", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_two_replicas_train_as_one(golden, initial, mirrored, jit_compile):
    numbers = np.load(golden / "training_lamb.npz")
    with mirrored.scope():
        trainer = new_trainer(initial, jit_compile=jit_compile)
    steps = StepLogs()
    batches = mirrored.experimental_distribute_dataset(batches_of(numbers))
    trainer.fit(batches, 8, [steps])
    np.testing.assert_allclose([log["loss"] for log in steps.logs], numbers["total_loss_onehot"], atol=5e-5, rtol=0)


def test_a_step_with_a_gradient_that_is_not_finite_is_left_out_and_counted():
    trainer, values = slope_trainer(), []
    for x in (1.0, 1.0, 1.0, np.nan, 1.0):
        values.append(float(trainer.model.w))
        trainer.fit(slopes(x))
    # The rate of step 0 is 0.
    assert [later != value for value, later in zip(values, values[1:])] == [False, True, True, False]
    assert (trainer.skipped_steps, trainer.skipped_in_a_row, trainer.optimizer.iterations) == (1, 0, 5)


@pytest.mark.parametrize("count", [1, 2])
def test_each_step_replica_and_micro_batch_has_its_own_dropout_seed(monkeypatch, count):
    def seeds(random_seed):
        trainer, found = slope_trainer(gradient_accumulation_steps=count, random_seed=random_seed), []
        monkeypatch.setattr(trainer, "_sums_over_parts", lambda micro_batch, denominators, seed: (
            found.append(tuple(seed.numpy())), ([], {}))[1])
        for step in (0, 1):
            trainer.optimizer.iterations.assign(step)
            for replica in (0, 1):
                trainer._accumulated(dict(x=tf.zeros([4, 3])), {}, tf.constant(replica))
        return found

    assert seeds(1) == seeds(1)
    assert len(seeds(1)) == 4 * count and len({*seeds(1), *seeds(2)}) == 8 * count


@pytest.mark.long
def test_dropout_is_the_same_in_a_step_that_xla_compiles_as_a_whole(golden, dropped):
    """As on a TPU. XLA's own choice of a random algorithm is not TensorFlow's on a CPU."""
    batch = next(iter(batches_of(np.load(golden / "training_lamb.npz"))))
    losses = [tf.function(new_trainer(dropped).train_step, jit_compile=jit_compile)(batch)["loss"]
              for jit_compile in (None, True)]
    np.testing.assert_allclose(*losses, rtol=1e-5)


@pytest.mark.long
def test_dropout_is_a_function_of_the_seed_and_the_same_in_parts_that_are_computed_at_the_same_time(golden, dropped):
    batches = batches_of(np.load(golden / "training_lamb.npz")).take(3)
    trainers = [new_trainer(dropped, random_seed=seed, parts=parts) for seed, parts in ((1, 1), (1, 1), (2, 1), (1, 2))]
    all_logs = [StepLogs() for _ in trainers]
    for each, logs in zip(trainers, all_logs):
        each.fit(batches, callbacks=[logs])
    loss, same, other, in_parts = (float(logs.logs[-1]["loss"]) for logs in all_logs)
    assert loss == same != other
    np.testing.assert_allclose(in_parts, loss, rtol=1e-5)
    for ours, expected in zip(trainers[3].model.trainable_variables, trainers[0].model.trainable_variables):
        np.testing.assert_allclose(ours, expected, atol=1e-4 if "self/key/bias" not in ours.name else 1e-2)


@pytest.mark.parametrize("scale, expected", [(2.0, 4.0), (3.0, 6.0)])
def test_the_loss_scale_doubles_after_2000_good_steps_and_halves_at_once(scale, expected):
    loss_scale = LossScale(scale)
    loss_scale.update(tf.constant(True))
    assert loss_scale.good_steps == 1
    loss_scale.good_steps.assign(1998)
    for value in (scale, expected):
        loss_scale.update(tf.constant(True))
        assert loss_scale.value == value
    loss_scale.update(tf.constant(False))
    assert loss_scale.value == scale


def test_a_loss_scale_that_overflows_costs_a_step_and_is_halved():
    trainer = slope_trainer(loss_scaling=True)
    trainer.loss_scale.value.assign(2.0**96)
    trainer.fit(slopes(1e10, 1e10, 1e10))  # times 2**94 it is below the largest float32
    assert trainer.skipped_steps == 2 and trainer.loss_scale.value == 2.0**94


def test_accumulation_that_does_not_divide_the_batch_is_refused():
    with pytest.raises(ValueError, match="gradient_accumulation_steps must divide"):
        slope_trainer(gradient_accumulation_steps=3).fit(slopes(1.0, 1.0))


@pytest.mark.long
@pytest.mark.parametrize("precision, jit_compile", [
    ("mixed_bfloat16", False), ("mixed_float16", True), pytest.param("mixed_bfloat16", True, marks=pytest.mark.slow),
    pytest.param("mixed_float16", False, marks=pytest.mark.slow)])
def test_half_precision_trains_near_the_release(golden, initial, policy, precision, jit_compile):
    policy(precision)
    numbers = np.load(golden / "training_lamb.npz")
    trainer = new_trainer(initial, loss_scaling=precision == "mixed_float16", gradient_accumulation_steps=4,
                          jit_compile=jit_compile)
    steps = StepLogs()
    trainer.fit(batches_of(numbers), callbacks=[steps])
    losses, release = np.array([log["loss"] for log in steps.logs]), numbers["total_loss_onehot"]
    # The rate of step 0 is 0: both are of the same weights.
    np.testing.assert_allclose(losses[:2], release[:2], atol=0.06, rtol=0)
    assert np.abs(losses - release).mean() < 0.25
    np.testing.assert_allclose(steps.logs[1]["gradient_norm"], numbers["global_norm_onehot"][1], rtol=0.1)
    assert all(tf.as_dtype(variable.dtype) == tf.float32 for variable in trainer.model.weights)
    assert trainer.skipped_steps <= 1  # float16 may begin with a loss scale too large


@pytest.mark.long
@pytest.mark.parametrize("seq, gradient_accumulation_steps", [(16, 1), (32, 2)])
def test_the_whole_step_compiles_at_each_static_length(initial, seq, gradient_accumulation_steps):
    """A TPU requires this: gradients, update and evaluation are one XLA program."""
    one_layer = initial[0].replace(num_hidden_layers=1), initial[1]
    trainer = new_trainer(one_layer, gradient_accumulation_steps=gradient_accumulation_steps)
    rng = np.random.default_rng(0)
    batch = dict(
        input_ids=rng.integers(5, 60, [4, seq]), input_mask=np.ones([4, seq]), segment_ids=np.zeros([4, seq]),
        token_boundary=np.ones([4, seq]), masked_lm_positions=rng.integers(1, seq, [4, 4]),
        masked_lm_ids=rng.integers(5, 60, [4, 4]), next_sentence_labels=np.ones([4, 1]))
    batch = {name: tf.constant(values, tf.int32) for name, values in batch.items()}
    batch.update(masked_lm_weights=tf.ones([4, 4]))
    evaluated = results(tf.function(lambda: trainer.objective.predictions(trainer.model(batch), batch),
                                    jit_compile=True)())["loss"]
    trained = tf.function(trainer.train_step, jit_compile=True)(batch)
    np.testing.assert_allclose(trained["loss"], evaluated, atol=1e-4)
    assert trainer.optimizer.iterations == 1


@pytest.mark.parametrize("rows, most, expected", [(32, 2, 2), (32, 3, 2), (9, 4, 3), (7, 4, 1), (7, 8, 7), (1, 4, 1)])
def test_the_number_of_parts_divides_the_rows(rows, most, expected):
    assert trainer.number_of_parts(rows, most) == expected


def test_parts_are_consecutive_rows_and_their_outputs_are_in_the_order_of_the_rows():
    batch = dict(x=tf.reshape(tf.range(24), [6, 4]), y=tf.range(6))
    split = trainer.equal_parts(batch, 4)
    assert [part["y"].numpy().tolist() for part in split] == [[0, 1], [2, 3], [4, 5]]
    sums = tf.function(lambda part: dict(sums=tf.reduce_sum(part["x"], axis=1) + part["y"]))
    outputs = trainer.in_parts(sums, batch, 4)
    np.testing.assert_array_equal(outputs["sums"], batch["x"].numpy().sum(axis=1) + np.arange(6))


def test_all_cores_have_a_thread_unless_tensorflow_has_started(monkeypatch):
    tf.constant(0)
    before, threads = tf.config.threading.get_intra_op_parallelism_threads(), []
    trainer.divide_threads(2)
    assert tf.config.threading.get_intra_op_parallelism_threads() == before
    monkeypatch.setenv("TF_NUM_INTRAOP_THREADS", "10")
    monkeypatch.setattr(tf.config.threading, "set_intra_op_parallelism_threads", threads.append)
    for count in (1, 3, 4):
        trainer.divide_threads(count)
    assert threads == [10, 4, 3]


def batches_of_lengths(*lengths):
    """Batches of ones, [2, length], whose length is not static."""
    return tf.data.Dataset.from_tensor_slices(list(lengths)).map(lambda length: tf.ones([2, length]))


@pytest.mark.parametrize("jit_compile, tpu, shapes", [
    (False, False, [[2, None]]), (True, False, [[2, 3], [2, 5], [2, 4]]), (False, True, [[2, 3], [2, 5], [2, 4]])])
def test_one_graph_serves_all_lengths_unless_xla_needs_static_shapes(jit_compile, tpu, shapes, monkeypatch):
    strategy, traced = tf.distribute.OneDeviceStrategy("CPU:0"), []
    if tpu:
        monkeypatch.setattr(tf.distribute, "TPUStrategy", type(strategy))

    def total(batch):
        traced.append(batch.shape.as_list())
        return tf.reduce_sum(batch)

    function = on_batches(total, strategy, jit_compile)
    for _ in range(2):
        iterator = iter(strategy.experimental_distribute_dataset(batches_of_lengths(3, 5, 4, 3)))
        assert [float(function(iterator)) for _ in range(4)] == [6, 10, 8, 6]
    assert traced == shapes
