"""ONNX models that stop early: the layers and the logits of our models, and layers that do not run."""

import collections
import json

import numpy as np
import pytest

import albert_tf
from albert_tf import keras
from albert_tf.config import AlbertConfig
from albert_tf.export.onnx.session import OnnxModel
from albert_tf.export.onnx.writing import differences, to_onnx
from albert_tf.modeling.classifier import AlbertClassifier
from albert_tf.modeling.early_exit import NUM_LAYERS_USED
from albert_tf.modeling.multiple_choice import AlbertMultipleChoice
from albert_tf.modeling.token_classifier import AlbertTokenClassifier
from albert_tf.weights.settings import settings_of

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.both_stacks

LAYERS = 5
CONFIG = AlbertConfig(vocab_size=50, embedding_size=8, hidden_size=16, num_hidden_layers=LAYERS, num_attention_heads=2,
                      intermediate_size=32, max_position_embeddings=24, initializer_range=0.4)
SHARING = {
    "all": {}, "groups": dict(num_hidden_groups=2), "inner groups": dict(inner_group_num=2),
    "none": dict(cross_layer_sharing="none"), "attention": dict(cross_layer_sharing="attention"),
    "BERT": dict(cross_layer_sharing="none", embedding_size=16),
}
KINDS = {
    "several labels": (AlbertClassifier, dict(num_labels=3, multi_label=True, temperature=1.3,
                                              thresholds=(0.5, 0.4, 0.6))),
    "mean": (AlbertClassifier, dict(num_labels=3, exit_pooling="mean")),
    "regression": (AlbertClassifier, dict(num_labels=1, exit_tolerance=0.3)),
    "windows": (AlbertClassifier, dict(num_labels=3, max_windows=3, window_pooling="max")),
    "mean of windows": (AlbertClassifier, dict(num_labels=3, max_windows=3)),
    "tags": (AlbertTokenClassifier, dict(num_labels=2)),
    "choices": (AlbertMultipleChoice, dict(num_choices=3)),
}
ROWS, SEQ = 240, 12


@pytest.fixture(scope="module")
def batch():
    """Rows of 4 to 12 tokens."""
    random = np.random.default_rng(2)
    mask = np.arange(SEQ) < random.integers(4, SEQ + 1, [ROWS, 1])
    return dict(input_ids=random.integers(0, 50, [ROWS, SEQ], np.int32), input_mask=mask.astype(np.int32),
                segment_ids=random.integers(0, 2, [ROWS, SEQ], np.int32))


def in_threes(batch):
    """The rows as examples of three rows, the last one of which is padding in every other example."""
    rows = {name: values.reshape(-1, 3, SEQ).copy() for name, values in batch.items()}
    rows["input_mask"][::2, -1] = 0
    return rows


def new_model(kind=AlbertClassifier, config=CONFIG, **arguments):
    keras.utils.set_random_seed(1)
    return kind(config, exit_heads=True, **arguments)


def with_exits(model, **arguments):
    copy = type(model).from_config({**model.get_config(), **arguments})
    copy.set_weights(model.get_weights())
    return copy


def run(content, inputs, options=None):
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    outputs = dict(zip([output.name for output in session.get_outputs()], session.run(None, inputs)))
    return (outputs, session) if options else outputs


def assert_exits_as(model, inputs):
    """Compares a model with its export. Returns the numbers of layers that examples use."""
    expected, content = model(inputs), to_onnx(model)
    onnx.checker.check_model(onnx.load_from_string(content), full_check=True)
    outputs = run(content, inputs)
    assert set(outputs) == {"logits", NUM_LAYERS_USED} and outputs[NUM_LAYERS_USED].dtype == np.int32
    np.testing.assert_array_equal(outputs[NUM_LAYERS_USED], expected[NUM_LAYERS_USED])
    np.testing.assert_allclose(outputs["logits"], expected["logits"], atol=5e-5)  # float32 of two runtimes
    return set(outputs[NUM_LAYERS_USED])


@pytest.mark.long
@pytest.mark.parametrize("sharing", SHARING)
def test_texts_stop_after_the_layers_of_the_model_for_every_sharing(batch, sharing):
    model = new_model(num_labels=3, config=CONFIG.replace(**SHARING[sharing]))
    assert len(assert_exits_as(with_exits(model, exit_patience=1), batch)) > 2  # else the model tests nothing


@pytest.mark.long
@pytest.mark.parametrize("sharing", ["all", "BERT"])
def test_texts_stop_after_the_layers_of_the_model_for_every_patience_and_number_of_layers(batch, sharing):
    model = new_model(num_labels=3, config=CONFIG.replace(**SHARING[sharing]))
    for arguments in (*[dict(exit_patience=number) for number in range(2, LAYERS + 1)],
                      *[dict(num_layers=number) for number in range(1, LAYERS)], dict(exit_patience=1, num_layers=3)):
        used = assert_exits_as(with_exits(model, **arguments), batch)
        assert max(used) <= arguments.get("num_layers", LAYERS)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_every_head_stops_as_the_model(batch, kind):
    model_class, arguments = KINDS[kind]
    model, inputs = new_model(model_class, **arguments), batch
    if kind in ("windows", "mean of windows", "choices"):
        inputs = in_threes(batch)
    for options in (dict(exit_patience=1), dict(exit_patience=2), dict(num_layers=3)):
        used = assert_exits_as(with_exits(model, **options), inputs)
        assert len(used) > 2 or options != dict(exit_patience=1)


def test_a_text_that_leaves_its_batch_has_the_answer_that_it_has_alone(batch):
    content = to_onnx(with_exits(new_model(num_labels=3), exit_patience=1))
    together = run(content, batch)
    _, examples = np.unique(together[NUM_LAYERS_USED], return_index=True)
    assert len(examples) > 2
    for example in examples:  # one for each number of layers
        own = run(content, {name: values[example : example + 1] for name, values in batch.items()})
        assert own[NUM_LAYERS_USED] == together[NUM_LAYERS_USED][example]
        np.testing.assert_allclose(own["logits"][0], together["logits"][example], atol=1e-5)


def test_layers_do_not_run_after_all_texts_have_stopped(batch, tmp_path):
    model = new_model(num_labels=3, exit_patience=1)
    for head in (*model.exits.layers, model.classifier):
        head.bias.assign([100.0, 0.0, 0.0])  # all layers agree
    options = onnxruntime.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, str(tmp_path / "profile")
    outputs, session = run(to_onnx(model), batch, options)
    assert set(outputs[NUM_LAYERS_USED]) == {2}
    with open(session.end_profiling(), encoding="utf-8") as file:
        events = [event for event in json.load(file) if event["name"].endswith("kernel_time")]
    ran = collections.Counter(event["args"]["op_name"] for event in events)
    assert ran["LayerNormalization"] == 1 + 2 * 2 and ran["If"] == LAYERS - 2


@pytest.mark.parametrize("sharing", ["all", "BERT"])
def test_weights_inside_branches_are_quantized_and_stored_once(batch, sharing):
    larger = CONFIG.replace(**{"hidden_size": 64, "intermediate_size": 512, **SHARING[sharing]})
    if sharing == "BERT":
        larger = larger.replace(embedding_size=64)
    model = new_model(num_labels=3, config=larger, exit_patience=1)
    expected = model(batch)
    for precision, bytes_per_weight, at_most in (("int8", 1, 0.4), ("float16", 2, 0.01)):
        content = to_onnx(model, precision)
        stored = onnx.load_from_string(content).graph.initializer
        size = sum(len(weight.raw_data) for weight in stored)
        assert size <= 1.2 * bytes_per_weight * sum(variable.shape.num_elements() for variable in model.variables)
        outputs = run(content, batch)
        same = outputs[NUM_LAYERS_USED] == expected[NUM_LAYERS_USED].numpy()
        assert np.mean(same) > 0.8
        error = outputs["logits"][same] - expected["logits"].numpy()[same]
        assert 0 < np.sqrt(np.mean(error ** 2)) < at_most * np.std(expected["logits"])


def test_layers_that_are_not_used_are_left_out():
    model = new_model(num_labels=3, config=CONFIG.replace(cross_layer_sharing="none"), num_layers=2)
    stored = {weight.name for weight in onnx.load_from_string(to_onnx(model)).graph.initializer}
    assert {name.partition("/")[0] for name in stored if name.startswith(("attention_", "ffn_"))} == {
        "attention_0", "attention_1", "ffn_0", "ffn_1"}
    assert {name for name in stored if name.startswith(("exit_heads/", "classifier/"))} == {
        "exit_heads/layer_2/kernel", "exit_heads/layer_2/bias"}


def test_an_opened_export_returns_the_number_of_layers(batch):
    model = new_model(num_labels=3, exit_patience=1)
    export = OnnxModel(to_onnx(model))
    outputs = export(batch)
    assert export.output_names == ("logits", NUM_LAYERS_USED)
    np.testing.assert_array_equal(outputs[NUM_LAYERS_USED], model(batch)[NUM_LAYERS_USED])
    with pytest.raises(ValueError, match=r"the ONNX model stops early and takes no windows: .* of shape \[80, 3, 12\]"):
        export(in_threes(batch))
    with pytest.raises(ValueError, match="the ONNX model refuses its inputs"):
        export({name: values[0] for name, values in batch.items()})


def test_windows_of_long_texts_stop_together(batch, sentence_pieces):
    config = CONFIG.replace(vocab_size=sentence_pieces.vocab_size)
    model = new_model(num_labels=3, config=config, exit_patience=1, max_windows=3, max_seq_length=8)
    export = OnnxModel(to_onnx(model), settings_of(model))
    texts = ["the name", "The name of the file is known. The number of the line is not."]
    actual, expected = (albert_tf.classify_texts(each, sentence_pieces, texts) for each in (export, model))
    np.testing.assert_allclose([[label.probability for label in row] for row in actual],
                               [[label.probability for label in row] for row in expected], atol=1e-5)
    np.testing.assert_allclose(export(batch)["logits"], model(batch)["logits"], atol=1e-5)  # one window of each text
    assert np.max([*differences(to_onnx(model), model, 8).values()]) < 1e-4
