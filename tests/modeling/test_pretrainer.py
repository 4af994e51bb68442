"""The pre-training model compared with the release's recorded outputs, and its properties in any precision."""


import numpy as np
import pytest
import tensorflow as tf

from albert_tf import keras
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.layers import activation
from albert_tf.modeling.operations import Dropouts
from albert_tf.pretraining.objective import PretrainingObjective
from albert_tf.weights.from_pretrained import from_pretrained

pytestmark = pytest.mark.both_stacks

# One group; two groups; as many groups as layers and E = H; two inner groups.
MODELS = ("model_a", "model_b", "model_c", "model_d")
# The golden files' README: what another order of operations may change.
TOLERANCE = dict(atol=5e-5, rtol=0)


@pytest.fixture(params=MODELS)
def recorded(request, golden):
    """(the model, its inputs, its outputs)"""
    folder = golden / request.param
    numbers = np.load(folder / "inputs_outputs.npz")
    inputs, outputs = ({key[len(kind):]: numbers[key] for key in numbers.files if key.startswith(kind)}
                       for kind in ("in_", "out_"))
    return from_pretrained(str(folder), model="pretrainer"), inputs, outputs


def close(ours, theirs):
    np.testing.assert_allclose(ours, theirs, **TOLERANCE)


def test_outputs_and_losses_are_the_releases_also_by_xla_and_of_the_encoder_alone(recorded, golden, request):
    model, inputs, expected = recorded
    outputs = model(inputs)
    for name in ("word_embedding_output", "embedding_output", "sequence_output", "pooled_output"):
        close(outputs[name], expected[name])
    assert f"encoder_outputs_{len(outputs['encoder_outputs'])}" not in expected
    for i, output in enumerate(outputs["encoder_outputs"]):
        close(output, expected[f"encoder_outputs_{i}"])
    name, by_xla = request.node.callspec.params["recorded"], []
    if name in ("model_b", "model_d"):
        by_xla = [tf.function(model, jit_compile=True)({key: tf.constant(value) for key, value in inputs.items()})]
        close(by_xla[0]["sequence_output"], expected["sequence_output"])
    for found in (outputs, *by_xla):
        log_probs = tf.nn.log_softmax(found["mlm_logits"])
        close(tf.reshape(log_probs, [-1, log_probs.shape[-1]]), expected["masked_lm_log_probs"])
        close(tf.nn.log_softmax(found["sop_logits"]), expected["sentence_order_log_probs"])
    objective = PretrainingObjective(model)
    total, parts = objective.loss(outputs, inputs, objective.loss_denominators(inputs))
    close(total, expected["total_loss"])
    for part, value in parts.items():
        close(value, expected[part])
    encoder = from_pretrained(str(golden / name), model="encoder")
    np.testing.assert_array_equal(encoder(inputs)["pooled_output"], outputs["pooled_output"])


def gradients_of(model, inputs, jit_compile=None):
    objective = PretrainingObjective(model)

    @tf.function(jit_compile=jit_compile)
    def gradients(batch):
        with tf.GradientTape() as tape:
            total, _ = objective.loss(model(batch, training=True), batch, objective.loss_denominators(batch))
        return [tf.convert_to_tensor(gradient) for gradient in tape.gradient(total, model.trainable_variables)]

    return gradients({name: tf.constant(value) for name, value in inputs.items()})


@pytest.mark.long
@pytest.mark.parametrize("recorded", ["model_a", "model_b", *(
    pytest.param(name, marks=pytest.mark.slow) for name in ("model_c", "model_d"))], indirect=True)
def test_xla_computes_the_same_gradients(recorded):
    """Tested for one and for two groups of layers. The other models only have more of the same layers."""
    model, inputs, _ = recorded
    of_both = zip(model.trainable_variables, gradients_of(model, inputs), gradients_of(model, inputs, True))
    for variable, plain, compiled in of_both:
        np.testing.assert_allclose(plain, compiled, atol=2e-5, rtol=1e-4, err_msg=variable.name)


@pytest.mark.long
@pytest.mark.parametrize("precision, worst", [("mixed_bfloat16", 0.06), ("mixed_float16", 0.01)])
def test_half_precision_is_close_and_keeps_variables_and_logits_float32(golden, policy, precision, worst):
    numbers = np.load(golden / "model_b/inputs_outputs.npz")
    inputs = {key[3:]: numbers[key] for key in numbers.files if key.startswith("in_")}
    full = from_pretrained(str(golden / "model_b"), model="pretrainer")
    policy(precision)
    half = from_pretrained(str(golden / "model_b"), model="pretrainer")
    outputs = half(inputs)
    assert {tf.as_dtype(variable.dtype) for variable in half.weights} == {tf.float32}
    assert outputs["mlm_logits"].dtype == outputs["sop_logits"].dtype == tf.float32
    assert outputs["sequence_output"].dtype == tf.as_dtype(keras.mixed_precision.global_policy().compute_dtype)
    for name in ("sequence_output", "mlm_logits", "sop_logits"):
        exact, off = full(inputs)[name], tf.cast(outputs[name], tf.float32) - full(inputs)[name]
        assert 0 < tf.norm(off) < worst * tf.norm(exact), name
    pairs = list(zip(half.trainable_variables, gradients_of(half, inputs), gradients_of(full, inputs)))
    assert all(gradient.dtype == tf.float32 for _, gradient, _ in pairs)
    norm = tf.linalg.global_norm([exact for _, _, exact in pairs])
    assert tf.linalg.global_norm([off - exact for _, off, exact in pairs]) < 2 * worst * norm


@pytest.mark.parametrize("name, values", [
    ("gelu", [-0.045402, 0.345714, 1.954598]),  # the tanh approximation
    ("gelu_exact", [-0.045500, 0.345731, 1.954500]),
    ("relu", [0, 0.5, 2]),
    ("tanh", [-0.964028, 0.462117, 0.964028]),
    ("linear", [-2, 0.5, 2]),
])
def test_activations_compute_the_functions_of_their_names(name, values):
    np.testing.assert_allclose(activation(name)(tf.constant([-2, 0.5, 2])), values, atol=1e-6)


def test_each_place_has_the_dropout_of_its_own_setting_as_in_the_release(tiny_config, tiny_batch, monkeypatch):
    rates, next_mask = [], Dropouts.next_mask
    monkeypatch.setattr(Dropouts, "next_mask", lambda self, rate: rates.append(rate) or next_mask(self, rate))
    batch, config = dict(tiny_batch, dropout_seed=[1, 2]), tiny_config.replace(initializer_range=0.5)
    AlbertModel(config.replace(num_hidden_layers=2, hidden_dropout_prob=0.25, attention_probs_dropout_prob=0.5))(
        batch, training=True)
    assert rates == [0.25, *2 * [0.5, 0.25, 0.25]]  # embeddings; in a layer probabilities, attention, feed-forward
    for name, is_attention in (("hidden_dropout_prob", False), ("attention_probs_dropout_prob", True)):
        model = AlbertModel(config.replace(num_hidden_layers=1, **{name: 0.5}))
        plain, dropped = (model(batch, training=training) for training in (False, True))
        assert np.allclose(plain["embedding_output"], dropped["embedding_output"], atol=1e-5) == is_attention
        assert not np.allclose(plain["sequence_output"], dropped["sequence_output"], atol=1e-3)
