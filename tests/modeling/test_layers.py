"""Layers, attention, their fused forms, and how layers share weights."""

import re

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.eager import context

from albert_tf import devices, keras
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.encoder import attention, attention_in_training
from albert_tf.modeling.layers import ReleaseDense, activation, layer_norm, release_name
from albert_tf.modeling.operations import Dropouts, dropped, has_cudnn_kernel
from albert_tf.modeling.pretrainer import AlbertPretrainer
from albert_tf.pretraining.objective import PretrainingObjective
from albert_tf.training.optimizer import create_optimizer
from albert_tf.training.trainer import Trainer

pytestmark = pytest.mark.both_stacks


@pytest.mark.parametrize("in_graph", [False, True])
@pytest.mark.parametrize("shape", [[3, 16], [3, 5, 16], [3, 1, 12, 16], [3, 5, 12, 16], [1, 1, 1, 16]], ids=str)
def test_dense_multiplies_the_last_axis_of_inputs_of_any_rank(shape, in_graph):
    layer = ReleaseDense("dense", 16, 7, initializer_range=1.0)
    layer.bias.assign(np.arange(7))
    call = tf.function(layer.call) if in_graph else layer.call
    for seed in range(5):
        x = np.random.default_rng(seed).normal(size=shape).astype(np.float32)
        np.testing.assert_allclose(call(x), x @ layer.kernel.numpy() + np.arange(7), atol=1e-4)


def result_and_operations(function):
    """What the first call of a tf.function returns, and the names of the operations that TensorFlow makes of it."""
    context.enable_run_metadata()
    try:
        result = function()
        graphs = context.export_run_metadata().function_graphs
    finally:
        context.disable_run_metadata()
    return result, {node.op for graph in graphs for node in graph.post_optimization_graph.node}


def test_products_with_separate_biases_are_not_fused_and_have_equal_outputs_and_gradients(
        tiny_config, tiny_batch, monkeypatch):
    model, forms = AlbertModel(tiny_config), []
    for variable in model.trainable_variables:
        variable.assign(np.random.default_rng(1).normal(size=variable.shape, scale=0.3))
    inputs = {name: tf.constant(tiny_batch[name]) for name in ("input_ids", "input_mask", "segment_ids")}
    for separate in (False, True):
        monkeypatch.setattr(devices, "adds_bias_separately", lambda dtype, separate=separate: separate)

        @tf.function
        def outputs_and_gradients():
            with tf.GradientTape() as tape:
                outputs = model(inputs, training=True)
                loss = tf.reduce_sum(outputs["sequence_output"] ** 3) + tf.reduce_sum(outputs["pooled_output"])
            return outputs["sequence_output"], *map(tf.convert_to_tensor, tape.gradient(
                loss, model.trainable_variables))

        forms.append(result_and_operations(outputs_and_gradients))
    (fused, operations), (separated, operations_of_separated) = forms
    assert "_FusedMatMul" in operations and "_FusedMatMul" not in operations_of_separated
    largest = [float(tf.reduce_max(tf.abs(expected))) for expected in fused]
    for variable, expected, actual, scale in zip([None, *model.trainable_variables], fused, separated, largest):
        if variable is not None and "key/bias" in variable.name:  # softmax is the same with any: the gradient is 0
            assert max(np.abs(expected).max(), np.abs(actual).max()) < 1e-7 * max(largest)
        else:
            np.testing.assert_allclose(actual, expected, atol=1e-5 * scale)


@pytest.mark.parametrize("dtype, rounding", [("bfloat16", 2**-8), ("float16", 2**-11)])
@pytest.mark.parametrize("name", ["gelu", "gelu_exact", "tanh"])
def test_activations_round_once_in_training(name, dtype, rounding):
    x = tf.cast(tf.linspace(-2.0, 4.0, 1000), dtype)
    exact = tf.cast(x, tf.float32)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([x, exact])
        trained, expected = activation(name, training=True)(x), activation(name)(exact)
    assert trained.dtype == dtype
    np.testing.assert_allclose(tf.cast(trained, tf.float32), expected, rtol=1.1 * rounding, atol=1e-6)
    gradients = [tf.cast(tape.gradient(*pair), tf.float32) for pair in ((trained, x), (expected, exact))]
    np.testing.assert_allclose(*gradients, rtol=1.1 * rounding, atol=1e-6)


def exact_layer_norm(x, residual, gamma, beta, dropout, epsilon):
    """LayerNorm in float64, whose gradients are TensorFlow's."""
    kept = tf.cast(dropped(tf.ones(x.shape), *dropout), tf.float64)
    total = x * kept + residual
    mean, variance = tf.nn.moments(total, axes=[-1], keepdims=True)
    return (total - mean) * tf.math.rsqrt(variance + epsilon) * gamma + beta


@pytest.mark.parametrize("rate, epsilon", [(0.0, 1e-12), (0.3, 1e-12), (0.0, 0.1), (0.3, 0.1)])
@pytest.mark.parametrize("mean", [0.0, 10.0, 1000.0])
@pytest.mark.parametrize("shape", [[300, 24], [4, 30, 24]], ids=str)
def test_layer_norm_in_training_has_the_values_and_gradients_of_float64(shape, mean, rate, epsilon):
    random = np.random.default_rng(1)
    values = [mean + random.normal(size=shape), random.normal(size=shape),
              random.normal(size=shape[-1:]), random.normal(size=shape[-1:])]
    upstream, dropout = random.normal(size=shape), Dropouts(tf.constant([1, 2])).next_mask(rate)
    results = []
    for dtype, function in ((tf.float64, exact_layer_norm),
                            (tf.float32, lambda *a: layer_norm(*a[:4], a[5], True, a[4]))):
        inputs = [tf.constant(value, dtype) for value in values]
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            output = function(*inputs, dropout, epsilon)
        results.append([output, *tape.gradient(output, inputs, tf.constant(upstream, dtype))])
    # A value of 1000 has 7 digits in float32, 4 of which the mean takes.
    tolerance = 1e-5 if mean == 0 else 1e-6 * mean * (10 if rate else 1)
    for exact, computed in zip(*results):
        scale = float(tf.reduce_max(tf.abs(exact)))
        np.testing.assert_allclose(computed, exact, atol=tolerance * scale)


def test_the_gradient_of_layer_norm_is_finite_for_rows_of_equal_values():
    x = tf.ones([3, 8]) * [[0.0], [0.1], [1e4]]
    with tf.GradientTape() as tape:
        tape.watch(x)
        output = layer_norm(x, tf.zeros([3, 8]), tf.ones(8), tf.zeros(8), 1e-12, training=True)
    assert np.all(np.isfinite(output)) and np.all(np.isfinite(tape.gradient(output, x)))


@pytest.fixture
def vectors():
    """Query, key, value and upstream gradient, [2, 3, 5, 4]."""
    return np.random.default_rng(0).normal(size=[4, 2, 3, 5, 4])


@pytest.fixture
def mask():
    """The mask of two rows, of which the second has three tokens."""
    return np.float32([[0, 0, 0, 0, 0], [0, 0, 0, -10000, -10000]])[:, None, None]


def with_gradients(function, vectors, mask, dropout, dtype=tf.float32):
    """The context and the gradients of query, key and value."""
    *inputs, upstream = (tf.cast(tensor, dtype) for tensor in vectors)
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        context = function(*inputs, tf.constant(mask), *map(tf.constant, dropout))
    return [context, *tape.gradient(context, inputs, upstream)]


@pytest.mark.parametrize("dropout", [(), ([3, 4, 0], 0.25)], ids=["no dropout", "dropout"])
@pytest.mark.parametrize("scale, dtype, atol", [
    (1, "float32", 5e-6), (1, "bfloat16", 0.06),
    (40, "float32", 2e-4)])  # scores that differ by more than an exponential can represent
def test_attention_in_training_and_its_gradients_are_those_of_plain_attention(
        vectors, mask, dropout, scale, dtype, atol):
    vectors[0] *= scale
    rounded = [tf.cast(tensor, dtype) for tensor in vectors]
    plain = with_gradients(attention, rounded, mask, dropout)
    for ours, expected in zip(with_gradients(attention_in_training, rounded, mask, dropout, dtype), plain):
        assert ours.dtype == dtype
        np.testing.assert_allclose(tf.cast(ours, tf.float32), expected, atol=atol)


@pytest.fixture
def step(tiny_config, tiny_batch):
    """A function that traces a new model's training step and returns it with its batch."""
    positions = tiny_batch["masked_lm_positions"]
    batch = dict(tiny_batch, masked_lm_ids=positions + 5, masked_lm_weights=np.ones(positions.shape, np.float32),
                 next_sentence_labels=np.ones([len(positions), 1], np.int32))
    batch = {name: tf.constant(values) for name, values in batch.items()}
    config = tiny_config.replace(num_hidden_layers=1, hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1)

    def new_step(jit_compile=False):
        keras.utils.set_random_seed(1)
        trainer = Trainer(PretrainingObjective(AlbertPretrainer(config)), create_optimizer())
        return tf.function(trainer.train_step, autograph=False, jit_compile=jit_compile), batch

    return new_step


@pytest.mark.long
def test_on_a_tpu_a_step_is_compiled_as_a_whole_and_has_the_losses_of_a_processor(step, monkeypatch):
    compiled, instructions, logs = [], [], []
    for _ in range(2):
        whole, batch = step(jit_compile=True)
        library = whole.get_concrete_function(batch).graph.as_graph_def().library
        compiled.append(sum(function.attr["_XlaMustCompile"].b for function in library.function))
        program = whole.experimental_get_compiler_ir(batch)(stage="hlo")
        instructions.append(len(re.findall(r"^ +\S+ = ", program, re.M)))
        plain, batch = step()
        logs.append(plain(batch))
        monkeypatch.setattr(tf.distribute, "TPUStrategy", type(tf.distribute.get_strategy()))
    assert compiled[1] == 0 < compiled[0] and 0 < instructions[1] < instructions[0]
    for name, value in logs[1].items():
        np.testing.assert_allclose(value, logs[0][name], rtol=1e-5, err_msg=name)


ATTENTION = 4 * (16 * 16 + 16) + 2 * 16  # query, key, value, output; LayerNorm
FFN = 16 * 32 + 32 + 32 * 16 + 16 + 2 * 16
REST = (50 + 2 + 16) * 8 + 2 * 8 + 8 * 16 + 16 + 16 * 16 + 16  # embeddings, LayerNorm; mapping; pooler


@pytest.mark.parametrize("changes, attentions, ffns", [
    (dict(cross_layer_sharing="all"), 1, 1),
    (dict(cross_layer_sharing="attention"), 1, 4),
    (dict(cross_layer_sharing="ffn"), 4, 1),
    (dict(cross_layer_sharing="none"), 4, 4),
    (dict(num_hidden_groups=2), 2, 2),
    (dict(inner_group_num=3), 3, 3),
    (dict(num_hidden_groups=2, inner_group_num=2), 4, 4),
], ids=str)
def test_each_strategy_has_its_parameters_and_names(tiny_config, changes, attentions, ffns):
    model = AlbertModel(tiny_config.replace(**changes))
    assert model.count_params() == REST + attentions * ATTENTION + ffns * FFN
    names = [release_name(variable) for variable in model.weights]
    assert len(set(names)) == len(names)
    assert sum("/attention_1/self/query/kernel" in name for name in names) == attentions
    assert sum("/ffn_1/intermediate/dense/kernel" in name for name in names) == ffns
    if "cross_layer_sharing" not in changes:
        groups, inner = (changes.get(name, 1) for name in ("num_hidden_groups", "inner_group_num"))
        assert [name for name in names if name.endswith("self/value/kernel")] == [
            f"bert/encoder/transformer/group_{i}/inner_group_{j}/attention_1/self/value/kernel"
            for i in range(groups) for j in range(inner)]
    as_wide = AlbertModel(tiny_config.replace(embedding_size=16, **changes))
    assert not any("embedding_hidden_mapping_in" in variable.name for variable in as_wide.weights)


@pytest.mark.parametrize("sharing", ["attention", "ffn", "none"])
def test_blocks_of_equal_weights_compute_what_one_shared_block_does(tiny_config, tiny_batch, sharing):
    shared, separate = AlbertModel(tiny_config), AlbertModel(tiny_config.replace(cross_layer_sharing=sharing))
    values = {variable.name: variable for variable in shared.weights}
    for variable in separate.weights:
        first = variable.name
        for group in range(4):
            first = first.replace(f"group_{group}/inner", "group_0/inner")
        variable.assign(values[first])
    np.testing.assert_allclose(separate(tiny_batch)["sequence_output"], shared(tiny_batch)["sequence_output"],
                               atol=1e-6)
    own = next(variable for variable in separate.weights
               if "group_3/" in variable.name and "output/dense/kernel" in variable.name)
    own.assign(own * 10)
    outputs, before = separate(tiny_batch)["encoder_outputs"], shared(tiny_batch)["encoder_outputs"]
    assert [np.allclose(a, b, atol=1e-5) for a, b in zip(outputs, before)] == [True, True, True, False]


@pytest.mark.parametrize("dtype, head_size, dropout, expected", [
    ("bfloat16", 128, (), True), ("float32", 64, (), False), ("bfloat16", 64, ([1, 2, 0], 0.1), False),
    ("bfloat16", 12, (), False), ("bfloat16", 256, (), False)])
def test_cudnn_computes_bfloat16_without_dropout_for_rows_of_one_text(dtype, head_size, dropout, expected, monkeypatch):
    query, mask = tf.zeros([1, 1, 8, head_size], dtype), tf.zeros([1, 1, 1, 8])
    assert not has_cudnn_kernel(query, mask, *dropout)  # on a CPU
    for capability, of_gpu in ((7.5, False), (8.0, expected), (9.0, expected)):
        monkeypatch.setattr(devices, "cudnn_capability", lambda capability=capability: capability)
        assert has_cudnn_kernel(query, mask, *dropout) is of_gpu
        assert not has_cudnn_kernel(query, tf.zeros([1, 1, 8, 8]), *dropout)
