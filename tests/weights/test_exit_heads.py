"""Exit heads in files: our formats keep them, a model without them reads the rest, and a model is cut after a layer."""

import json

import numpy as np
import pytest

import albert_tf
from albert_tf import devices
from albert_tf.config import AlbertConfig
from albert_tf.export.conversion import convert, save
from albert_tf.export.onnx.session import OnnxModel
from albert_tf.export.onnx.writing import to_onnx
from albert_tf.export.saved_model import exported_outputs, with_precision
from albert_tf.weights.from_pretrained import build, load_into
from albert_tf.weights.settings import SETTINGS
from albert_tf.weights.stored_model import first_layers, head_of_source, open_source
from albert_tf.weights.tf_hub import use_module

BERT = AlbertConfig(vocab_size=20, embedding_size=8, hidden_size=8, num_hidden_layers=4, num_attention_heads=2,
                    intermediate_size=16, max_position_embeddings=16, initializer_range=0.5,
                    cross_layer_sharing="none")
ALBERT = BERT.replace(embedding_size=4, cross_layer_sharing="all")
CONFIGS = {"all": ALBERT, "BERT": BERT, "groups": ALBERT.replace(num_hidden_groups=2),
           "inner groups": ALBERT.replace(inner_group_num=2), "attention": ALBERT.replace(
               cross_layer_sharing="attention")}
HEADS = {
    "classifier": lambda config: albert_tf.AlbertClassifier(config, 3, exit_heads=True, exit_pooling="mean"),
    "token_classifier": lambda config: albert_tf.AlbertTokenClassifier(config, 3, exit_heads=True),
    "multiple_choice": lambda config: albert_tf.AlbertMultipleChoice(config, exit_heads=True, exit_pooling="max"),
}


@pytest.fixture(scope="module")
def inputs():
    ids = np.random.default_rng(0).integers(1, 20, [8, 8], np.int32)
    return dict(input_ids=ids, input_mask=np.ones_like(ids), segment_ids=np.zeros_like(ids))


@pytest.mark.parametrize("head, config", [*(("classifier", name) for name in CONFIGS), ("token_classifier", "BERT"),
                                          ("multiple_choice", "all")])
def test_a_model_that_is_cut_after_a_layer_has_the_output_of_its_head(tmp_path, inputs, head, config):
    model = HEADS[head](CONFIGS[config])
    save(model, str(tmp_path), "ours")
    for number, logits in enumerate(model(inputs)["exit_logits"], 1):
        cut = albert_tf.from_pretrained(str(tmp_path), head, num_layers=number)
        assert (cut.config.num_hidden_layers, cut.exit_heads) == (number, False)
        np.testing.assert_allclose(cut(inputs)["logits"], logits, atol=1e-6)
    source = first_layers(open_source(str(tmp_path)), 2)
    assert {name for name in source.shapes if name.startswith("exit_heads/")} == set()
    assert not build(source, head)[1].not_used and not build(source, head)[1].not_restored


@pytest.mark.parametrize("config", [BERT, ALBERT, ALBERT.replace(num_hidden_groups=2, layer_rank=2, layer_biases=True)],
                         ids=["BERT", "all", "groups with weights of layers"])
@pytest.mark.parametrize("number", [1, 3])
def test_a_sentence_encoder_is_cut_after_a_layer_without_exit_heads(tmp_path, inputs, config, number):
    model = albert_tf.AlbertSentenceEncoder(config, pooling="cls")
    for weight in model.weights:  # low-rank matrices begin with a product of 0
        weight.assign(np.random.default_rng(weight.shape.num_elements()).normal(0, 0.3, weight.shape))
    save(model, str(tmp_path), "ours")
    source = first_layers(open_source(str(tmp_path)), number)
    cut, report = build(source, "sentence_encoder")
    assert not report.not_used and not report.not_restored
    expected = model(inputs)["encoder_outputs"][number - 1]
    np.testing.assert_allclose(cut(inputs)["sequence_output"], expected, atol=1e-5)
    np.testing.assert_allclose(cut(inputs)["sentence_embedding"], expected[:, 0], atol=1e-5)


@pytest.mark.parametrize("head", HEADS)
def test_the_export_of_a_cut_model_reads_what_its_output_reads(tmp_path, inputs, head):
    pytest.importorskip("onnxruntime")
    save(HEADS[head](ALBERT), str(tmp_path / "all"), "ours")
    convert(first_layers(open_source(str(tmp_path / "all")), 2), str(tmp_path / "cut"), "tf1", head)
    cut = albert_tf.from_pretrained(str(tmp_path / "cut"), head)
    np.testing.assert_allclose(OnnxModel(to_onnx(cut))(inputs)["logits"], cut(inputs)["logits"], atol=1e-5)
    if head != "token_classifier":
        with pytest.raises(ValueError, match="the output layer of Hugging Face's classes reads the pooled output"):
            save(cut, str(tmp_path / "hugging_face"), "hugging_face")


@pytest.mark.parametrize("head, config, to", [
    ("classifier", ALBERT, "tf1"), ("classifier", BERT, "tf1_bert"), ("multiple_choice", ALBERT, "ours")])
def test_a_converted_model_exits_as_the_original(tmp_path, inputs, head, config, to):
    model = HEADS[head](config)
    save(model, str(tmp_path / "first"), "ours")
    convert(open_source(str(tmp_path / "first")), str(tmp_path / to), to, head)
    assert json.loads((tmp_path / to / SETTINGS).read_text())["exit_heads"] is True
    read = albert_tf.from_pretrained(str(tmp_path / to), head)
    for ours, theirs in zip(model(inputs)["exit_logits"], read(inputs)["exit_logits"]):
        np.testing.assert_array_equal(theirs, ours)
    early = albert_tf.from_pretrained(str(tmp_path / to), head, exit_patience=1)
    assert set(early(inputs)) == {"logits", "num_layers_used"}


def test_a_model_without_exit_heads_reads_the_weights_and_gives_the_last_output(tmp_path, inputs):
    model = HEADS["classifier"](ALBERT)
    save(model, str(tmp_path), "ours")
    source = open_source(str(tmp_path))
    assert head_of_source(source) == "classifier"
    plain, report = build(source, "classifier", exit_heads=False)
    assert "exit_logits" not in plain(inputs) and not report.not_restored
    assert report.not_used == [f"exit_heads/layer_{layer}/output_{part}" for layer in (1, 2, 3)
                               for part in ("bias", "weights")]
    np.testing.assert_array_equal(plain(inputs)["logits"], model(inputs)["logits"])


def test_a_tagger_that_starts_from_a_classifier_with_exits_has_none(tmp_path):
    save(HEADS["classifier"](ALBERT), str(tmp_path), "ours")
    tagger = albert_tf.from_pretrained(str(tmp_path), "token_classifier", num_labels=2)
    assert (tagger.exit_heads, tagger.exit_pooling) == (False, "pooler")


def test_heads_for_other_labels_start_anew(tmp_path):
    save(HEADS["classifier"](ALBERT), str(tmp_path), "ours")
    report = load_into(albert_tf.AlbertClassifier(ALBERT, 2, exit_heads=True), open_source(str(tmp_path)))
    assert report.not_restored["exit_heads/layer_1/output_weights"] == "shape [3, 8], not [2, 8]"


def test_exports_of_all_layers_have_the_last_output_alone_and_a_patience_is_refused(inputs):
    model = HEADS["classifier"](ALBERT)
    assert set(exported_outputs(model, inputs)) == {"logits", "pooled_output", "sequence_output"}
    early = with_precision(albert_tf.AlbertClassifier(ALBERT, 3, exit_heads=True, exit_patience=1), "mixed_bfloat16")
    with pytest.raises(ValueError, match="exit_patience is for the Keras model: load the model with num_layers"):
        to_onnx(early)


def test_a_wrong_number_of_layers_is_named(tmp_path):
    save(HEADS["classifier"](ALBERT), str(tmp_path / "exits"), "ours")
    for number in (0, 5):
        with pytest.raises(ValueError, match="num_layers must be a whole number from 1 to 4. Received"):
            albert_tf.from_pretrained(str(tmp_path / "exits"), "classifier", num_layers=number)
    save(albert_tf.AlbertClassifier(ALBERT, 3), str(tmp_path / "plain"), "ours")
    with pytest.raises(ValueError, match="num_layers needs a sentence encoder, or .* exit heads .*plain.* is neither"):
        albert_tf.from_pretrained(str(tmp_path / "plain"), "classifier", num_layers=2)


def test_a_module_that_runs_its_own_graph_has_no_exit_heads():
    with pytest.raises(ValueError, match="module runs its own graph, .* it cannot have exit heads"):
        use_module(HEADS["classifier"](ALBERT), "module")


def test_jax_does_not_compute_a_module_that_runs_its_own_graph(monkeypatch):
    monkeypatch.setattr(devices, "is_jax", lambda strategy: True)
    with pytest.raises(ValueError, match="module runs its own graph, which is TensorFlow's: --runtime=jax cannot"):
        use_module(albert_tf.AlbertClassifier(ALBERT, 3), "module")


@pytest.mark.parametrize("value", [1, "yes"])
def test_a_damaged_setting_is_named(tmp_path, value):
    save(HEADS["classifier"](ALBERT), str(tmp_path), "ours")
    (tmp_path / SETTINGS).write_text(json.dumps(dict(head="classifier", exit_heads=value)))
    with pytest.raises(ValueError, match="albert_tf.json: exit_heads must be true or false"):
        albert_tf.from_pretrained(str(tmp_path), "classifier")
