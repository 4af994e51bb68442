"""Our optimizer compared with the LAMB of tensorflow_addons."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.training.optimizer import NOT_DECAYED, create_optimizer

pytestmark = pytest.mark.filterwarnings("ignore")  # addons' notice of the end of its life
addons = pytest.importorskip("tensorflow_addons", reason="tensorflow-addons is part of the first stack only",
                             exc_type=ImportError)
NAMES = ["lamb", "adamw"]
STEPS = 12


class AddonsLamb(addons.optimizers.LAMB):
    """LAMB without bias correction, as the release has it."""

    def _prepare_local(self, var_device, var_dtype, apply_state):
        super()._prepare_local(var_device, var_dtype, apply_state)
        apply_state[var_device, var_dtype].update(
            beta_1_power=0.0, beta_2_power=0.0, one_minus_beta_1_t=1 - 0.9, one_minus_beta_2_t=1 - 0.999)


@pytest.fixture(params=NAMES)
def both(request):
    """(ours, addons')"""
    ours = create_optimizer(request.param, learning_rate=0.01, num_train_steps=STEPS, num_warmup_steps=3)
    return ours, AddonsLamb(
        ours.learning_rate, epsilon=1e-6, weight_decay=0.01, name=request.param, exclude_from_weight_decay=NOT_DECAYED,
        exclude_from_layer_adaptation=NOT_DECAYED if request.param == "lamb" else [".*"])


def variables():
    rng = np.random.default_rng(1)
    return [tf.Variable(rng.normal(size=shape).astype(np.float32), name=name) for name, shape in (
        ("dense/kernel", [64, 300]), ("dense/bias", [300]), ("LayerNorm/gamma", [64]), ("word_embeddings", [1000, 16]),
        ("output_bias", [2]))] + [tf.Variable(tf.zeros([4, 4]), name="zeros/kernel")]


def gradients_of(step, of):
    rng = np.random.default_rng([2, step])
    return [tf.constant(rng.normal(size=variable.shape).astype(np.float32)) for variable in of]


def test_every_bit_is_that_of_addons(both):
    results = []
    for optimizer in both:
        updated = variables()
        for step in range(STEPS):
            optimizer.apply_gradients(zip(gradients_of(step, updated), updated))
        results.append(updated + [optimizer.get_slot(variable, slot) for slot in "mv" for variable in updated])
    assert len(results[0]) == 18
    for ours, theirs in zip(*results):
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy(), err_msg=ours.name)
