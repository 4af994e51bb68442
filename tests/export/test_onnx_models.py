"""ONNX models in ONNX Runtime have the outputs of our models, and store each weight once."""


import numpy as np
import pytest
import tensorflow as tf
from new_head import new_head
from tiny import TINY, rows

from albert_tf import keras
from albert_tf.export.onnx import writing
from albert_tf.export.onnx.graph import OnnxGraph, _quantize
from albert_tf.export.onnx.writing import differences, to_onnx
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.classifier import AlbertClassifier
from albert_tf.modeling.pretrainer import AlbertPretrainer
from albert_tf.modeling.sentence_encoder import AlbertSentenceEncoder
from albert_tf.modeling.vectors import POOLINGS
from albert_tf.weights.heads import HEADS

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.both_stacks

EXPORTED = [head for head in HEADS if head.name != "phoneme_pretrainer"]
CONFIG = TINY.replace(hidden_size=16, num_hidden_layers=3, max_position_embeddings=24)
# Large enough that names and nodes weigh little.
LARGER = CONFIG.replace(vocab_size=8000, embedding_size=128, hidden_size=256, intermediate_size=1024,
                        num_hidden_layers=6)


@pytest.fixture(autouse=True)
def seed():
    keras.utils.set_random_seed(1)


def new_model(head, config):
    model = new_head(head, config)
    for variable in model.variables:  # biases and LayerNorms that would be left out are seen
        variable.assign_add(keras.initializers.RandomNormal(stddev=0.1)(variable.shape))
    return model


def run(content, inputs):
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    return dict(zip([output.name for output in session.get_outputs()], session.run(None, inputs)))


@pytest.mark.parametrize("head", EXPORTED, ids=lambda head: head.name)
def test_in_float32_every_output_is_the_models_at_any_size(head):
    model = new_model(head, CONFIG)
    content = to_onnx(model)
    onnx.checker.check_model(onnx.load_from_string(content), full_check=True)
    for batch_size, seq_length, num_predictions in [(1, 8, 1), (3, 24, 5)]:
        largest = differences(content, model, seq_length, num_predictions, batch_size)
        assert set(model.HEAD_OUTPUTS) - {"start_log_probs", "end_log_probs"} <= set(largest)
        assert np.max([*largest.values()]) < 1e-4, largest  # np.max keeps a NaN, which max() can drop


@pytest.mark.parametrize("changes", [
    dict(cross_layer_sharing="none"), dict(cross_layer_sharing="ffn"), dict(num_hidden_groups=3, inner_group_num=2),
    dict(embedding_size=16), dict(hidden_act="gelu_exact"), dict(hidden_act="relu"), dict(hidden_act="linear"),
    dict(layer_norm_eps=0.05)])
def test_every_kind_of_config_has_its_graph(changes):
    model = AlbertPretrainer(CONFIG.replace(**changes))
    assert np.max([*differences(to_onnx(model), model, 10, 2).values()]) < 1e-4


@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_padding_does_not_change_a_row(precision):
    content = to_onnx(AlbertModel(CONFIG), precision)
    ids = np.array([[3, 7, 9, 11]], np.int32)
    row = dict(input_ids=ids, input_mask=np.ones_like(ids), segment_ids=np.array([[0, 0, 1, 1]], np.int32))
    padded = {name: np.pad(values, [[0, 1], [0, 5]]) for name, values in row.items()}
    np.testing.assert_allclose(run(content, padded)["sequence_output"][:1, :4], run(content, row)["sequence_output"],
                               atol=1e-5)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_every_pooling_has_its_graph_also_for_a_row_of_padding(pooling):
    model = AlbertSentenceEncoder(CONFIG, pooling)
    row = dict(rows(4, 2), input_mask=np.array([[1, 1, 0, 0], [0, 0, 0, 0]], np.int32))
    vectors = run(to_onnx(model), row)["sentence_embedding"]
    np.testing.assert_allclose(vectors, model(row)["sentence_embedding"], atol=1e-5)
    assert pooling != "mean" or not vectors[1].any()


def test_a_choice_that_a_question_lacks_is_never_chosen():
    head, = [head for head in HEADS if head.name == "multiple_choice"]
    ids = np.ones([2, 4, 6], np.int32)
    mask = ids.copy()
    mask[1, 3] = 0
    logits = run(to_onnx(new_model(head, CONFIG)), dict(input_ids=ids, input_mask=mask, segment_ids=ids * 0))["logits"]
    assert (logits == -1e9).tolist() == [[False] * 4, [False] * 3 + [True]]


@pytest.mark.parametrize("name", ["encoder", "pretrainer"])
def test_sums_of_two_products_have_room_in_16_bits_where_integers_are_multiplied(name):
    """Processors without VNNI add the products of two inputs, each at most 255, in 16 bits with saturation."""
    model = onnx.load_from_string(to_onnx(new_model(*[head for head in HEADS if head.name == name], CONFIG), "int8"))
    integers = {weight.name: onnx.numpy_helper.to_array(weight).astype(int) for weight in model.graph.initializer
                if weight.data_type == onnx.TensorProto.INT8}
    table = integers.pop("bert/embeddings/word_embeddings")
    assert np.abs(table).max() == 127
    kernels = [integers[name] for name in integers if name.endswith("kernel")]
    for kernel in kernels + ([table.T] if name == "pretrainer" else []):
        pairs = np.abs(kernel[0::2] + kernel[1::2])
        assert 255 * pairs.max() < 2**15 and np.maximum(np.abs(kernel).max(0), pairs.max(0)).min() >= 126


def test_each_row_of_an_int8_product_is_rounded_within_its_own_range():
    generator, graph = np.random.default_rng(1), OnnxGraph("int8")
    kernel = generator.normal(size=(64, 8)).astype(np.float32)
    x = generator.normal(size=(6, 64)) * [[1e-3], [0.1], [1], [10], [1e4], [0]]
    x[:, 0] -= 8 * x.std(axis=1)  # one value far from the others, as in a LayerNorm's output
    x = x.astype(np.float32)
    spec, output = tf.TensorSpec([None, 64], tf.float32), graph.matrix("kernel", kernel)("x")
    found = run(graph.model(dict(x=spec), dict(y=(output, tf.TensorSpec([None, 8], tf.float32))), {}), dict(x=x))["y"]
    integers, scales = _quantize(kernel, is_multiplied=True)
    largest, least = x.max(axis=1, keepdims=True), x.min(axis=1, keepdims=True)
    middle, step = (largest + least) / 2, np.maximum((largest - least) / 254, 1e-30)
    expected = (np.rint((x - middle) / step) * step + middle) @ (integers * scales)
    assert (np.abs(found - expected) <= 1e-4 * np.abs(x).max(axis=1, keepdims=True)).all()


def test_an_int8_answer_does_not_depend_on_the_other_texts_of_its_batch():
    model = new_model(*[head for head in HEADS if head.name == "classifier"], LARGER)
    content, ids = to_onnx(model, "int8"), np.random.default_rng(1).integers(5, 8000, (4, 24), dtype=np.int32)
    lengths = [24, 5, 12, 20]
    mask = (np.arange(24) < np.array(lengths)[:, None]).astype(np.int32)
    inputs = dict(input_ids=ids * mask, input_mask=mask, segment_ids=np.zeros_like(ids))
    together = run(content, inputs)["logits"]
    alone = [run(content, {name: value[row: row + 1, :length] for name, value in inputs.items()})["logits"]
             for row, length in enumerate(lengths)]
    np.testing.assert_allclose(together, np.concatenate(alone), atol=1e-4)


@pytest.mark.parametrize("precision, bytes_per_weight, at_most", [("float32", 4, 1e-4), ("float16", 2, 1e-2),
                                                                  ("int8", 1, 0.2)])
def test_weights_that_layers_share_are_stored_once_and_smaller_ones_change_little(precision, bytes_per_weight, at_most):
    model = AlbertPretrainer(LARGER)  # whose table of words is multiplied by, too
    weights = sum(variable.shape.num_elements() for variable in model.variables)
    assert len(to_onnx(model, precision)) <= 1.1 * bytes_per_weight * weights
    model = AlbertClassifier(CONFIG, num_labels=3)
    assert 0 < np.max([*differences(to_onnx(model, precision), model, 12).values()]) < at_most


def with_large_bias():
    model = AlbertModel(CONFIG)
    model.pooler.bias.assign_add([1e6] * 16)
    return model


@pytest.mark.parametrize("make, parts", [
    (lambda: to_onnx(with_large_bias(), "float16"), "bert/pooler/dense/bias .* float16"),
    (lambda: to_onnx(AlbertClassifier(CONFIG, num_labels=2)), "AlbertClassifier .*--model=encoder"),
    (lambda: OnnxGraph("bfloat16"), "float32, float16, int8. Received: 'bfloat16'")])
def test_what_cannot_be_written_is_named(monkeypatch, make, parts):
    monkeypatch.delattr(writing, "classifier")
    with pytest.raises(ValueError, match=parts):
        make()
