"""Hugging Face's folders: transformers' outputs, names in both directions, round trips, errors."""

import json
import stat

import ml_dtypes
import numpy as np
import pytest
from new_head import new_head
from safetensors.numpy import load_file, save_file
from tiny import TINY

import albert_tf
from albert_tf.modeling.layers import release_name
from albert_tf.weights.from_pretrained import load_into
from albert_tf.weights.heads import head_named
from albert_tf.weights.hugging_face.reading import NAMES
from albert_tf.weights.hugging_face.writing import save_hugging_face
from albert_tf.weights.stored_model import open_source

pytestmark = pytest.mark.both_stacks


def values_of(model):
    return {release_name(variable): variable.numpy() for variable in model.weights}


def folder_of(tmp_path, kind="pretrainer", **changes):
    model = new_head(kind, TINY.replace(**changes))
    save_hugging_face(model, str(tmp_path / "hf"))
    return model, tmp_path / "hf"


@pytest.mark.parametrize("name, kind, outputs", [
    ("pretraining", "pretrainer", dict(prediction_logits="mlm_logits", sop_logits="sop_logits")),
    ("pretraining_2groups", "pretrainer", dict(prediction_logits="mlm_logits", sop_logits="sop_logits")),
    ("sequence_classification", "classifier", dict(logits="logits")),
    ("token_classification", "token_classifier", dict(logits="logits")),
    ("question_answering", "span", dict(start_logits="start_logits", end_logits="end_logits"))])
def test_outputs_are_those_of_transformers(golden, name, kind, outputs):
    numbers = np.load(golden / "hf" / name / "io.npz")
    model = albert_tf.from_pretrained(str(golden / "hf" / name), model=kind)
    ids = numbers["in/input_ids"].astype(np.int32)
    ours = model(dict(input_ids=ids, input_mask=numbers["in/attention_mask"].astype(np.int32),
                      segment_ids=numbers["in/token_type_ids"].astype(np.int32),
                      masked_lm_positions=np.tile(np.arange(ids.shape[1], dtype=np.int32), [len(ids), 1])))
    expected = dict({f"out/{theirs}": ours[name] for theirs, name in outputs.items()},
                    **{"out/last_hidden_state": ours["sequence_output"]},
                    **{f"out/hidden_states_{i + 1}": layer for i, layer in enumerate(ours["encoder_outputs"])})
    if "out/pooler_output" in numbers:
        expected["out/pooler_output"] = ours["pooled_output"]
    assert {key for key in numbers.files if key.startswith("out/")} - set(expected) == {"out/hidden_states_0"}
    for key, value in expected.items():
        np.testing.assert_allclose(value, numbers[key], atol=1e-5, err_msg=key)


@pytest.mark.parametrize("name, kind", [
    ("pretraining", "pretrainer"), ("pretraining_2groups", "pretrainer"), ("sequence_classification", "classifier"),
    ("token_classification", "token_classifier")])
def test_models_that_transformers_saved_survive_a_round_trip(golden, tmp_path, name, kind):
    save_hugging_face(albert_tf.from_pretrained(str(golden / "hf" / name), model=kind), str(tmp_path))
    old, new = (load_file(folder / "model.safetensors") for folder in (golden / "hf" / name, tmp_path))
    assert old.keys() == new.keys()
    assert all(np.array_equal(old[key], new[key]) for key in old)
    old, new = (json.loads((folder / "config.json").read_text()) for folder in (golden / "hf" / name, tmp_path))
    assert {key: old.get(key) for key in new} == new


def test_names_are_the_same_in_both_directions(golden):
    for path in golden.glob("hf/*/model.safetensors"):
        for key in load_file(path):
            assert NAMES["albert"].theirs(NAMES["albert"].ours(key)) == key
    assert NAMES["albert"].theirs("end_logits/dense_0/kernel") is None
    assert NAMES["albert"].ours("albert.encoder.albert_layer_groups.0.albert_layers.0.attention.rotary.weight") is None


@pytest.mark.parametrize("dtype, stored", [("float16", np.float16), ("bfloat16", ml_dtypes.bfloat16)])
def test_weights_written_in_16_bits_come_back_rounded_to_them(tmp_path, dtype, stored):
    model = head_named("pretrainer").model(TINY)
    albert_tf.save_pretrained(model, str(tmp_path / "hf"), to="hugging_face", dtype=dtype)
    tensors = load_file(str(tmp_path / "hf" / "model.safetensors"))
    assert {value.dtype for value in tensors.values()} == {np.dtype(stored)}
    assert json.loads((tmp_path / "hf" / "config.json").read_text())["torch_dtype"] == dtype
    again = values_of(albert_tf.from_pretrained(str(tmp_path / "hf"), model="pretrainer"))
    for name, value in values_of(model).items():
        np.testing.assert_array_equal(again[name], value.astype(stored).astype(np.float32), err_msg=name)


def test_several_files_are_read_by_their_index(tmp_path):
    model, folder = folder_of(tmp_path)
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    keys = sorted(tensors)
    parts = {"model-00001-of-00002.safetensors": keys[:9], "model-00002-of-00002.safetensors": keys[9:]}
    for name, part in parts.items():
        save_file({key: tensors[key] for key in part}, folder / name)
    index = {"metadata": {}, "weight_map": {key: name for name, part in parts.items() for key in part}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    after = values_of(albert_tf.from_pretrained(str(folder), model="pretrainer"))
    assert all(np.array_equal(value, after[name]) for name, value in values_of(model).items())


def test_half_precision_and_copies_are_read(tmp_path):
    model, folder = folder_of(tmp_path)
    tensors = {key: value.astype(np.float16) for key, value in load_file(folder / "model.safetensors").items()}
    tensors["predictions.decoder.weight"] = tensors["albert.embeddings.word_embeddings.weight"].copy()
    tensors["predictions.decoder.bias"] = tensors.pop("predictions.bias")
    tensors["albert.embeddings.position_ids"] = np.arange(16)[None]
    save_file(tensors, folder / "model.safetensors")
    again = head_named("pretrainer").model(TINY)
    assert not load_into(again, open_source(str(folder))).not_used
    for name, value in values_of(model).items():
        np.testing.assert_array_equal(values_of(again)[name], value.astype(np.float16))


def test_a_classifier_of_tokens_is_not_taken_for_one_of_texts(tmp_path):
    _, folder = folder_of(tmp_path, "classifier")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(dict(config, architectures=["AlbertForTokenClassification"])))
    report = load_into(head_named("classifier").model(TINY, num_labels=3), open_source(str(folder)))
    assert set(report.not_restored) == {"output_weights", "output_bias"}
    assert report.not_used == ["cls/tokens/output_bias", "cls/tokens/output_weights"]


def test_several_labels_for_one_text_are_read_and_written(tmp_path):
    _, folder = folder_of(tmp_path, "classifier")
    assert not albert_tf.from_pretrained(str(folder), model="classifier").settings.multi_label
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(dict(config, problem_type="multi_label_classification")))
    (folder / "albert_tf.json").unlink(missing_ok=True)  # as transformers writes it
    model = albert_tf.from_pretrained(str(folder), model="classifier")
    logits = np.array([[0.0, 2.0]], np.float32)
    np.testing.assert_allclose(model.settings.probabilities(logits), [[0.5, 0.880797]], atol=1e-6)
    save_hugging_face(model, str(tmp_path / "again"))
    assert json.loads((tmp_path / "again/config.json").read_text())["problem_type"] == "multi_label_classification"


def test_layers_that_hugging_face_groups_otherwise_are_the_same_layers(tmp_path):
    model, folder = folder_of(tmp_path, "encoder", num_hidden_layers=22, cross_layer_sharing="none")
    assert json.loads((folder / "config.json").read_text())["num_hidden_groups"] == 22
    config = open_source(str(folder)).config  # the release's own expression leaves group 15 out
    assert config.attention_blocks == model.config.attention_blocks
    with pytest.raises(ValueError, match="assigns 22 layers to 22 groups differently"):
        folder_of(tmp_path, "encoder", num_hidden_layers=22, num_hidden_groups=22)


@pytest.mark.parametrize("kind, arguments, values", [
    ("classifier", dict(num_labels=1), dict(problem_type="regression")),  # a pipeline would apply a sigmoid
    ("classifier", dict(num_labels=2), dict(problem_type=None, id2label={"0": "LABEL_0", "1": "LABEL_1"})),
    ("token_classifier", dict(num_labels=2, label_names=("O", "B-place")), dict(
        id2label={"0": "O", "1": "B-place"}, architectures=["AlbertForTokenClassification"]))])
def test_labels_are_written_as_transformers_has_them(tmp_path, kind, arguments, values):
    model = head_named(kind).model(TINY, **arguments)
    save_hugging_face(model, str(tmp_path))
    config = json.loads((tmp_path / "config.json").read_text())
    assert {name: config.get(name) for name in values} == values
    read = albert_tf.from_pretrained(str(tmp_path), model=kind)
    assert read.settings.label_names == model.settings.label_names and read.settings.max_seq_length is None
    modes = {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("config.json", "model.safetensors")}
    assert len(modes) == 1  # whoever can read the config can read the weights
    for length in (10**30, 17, "5", None):  # 10**30 is transformers' "no limit"; this model has 16 positions
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(dict(model_max_length=length)))
        assert albert_tf.from_pretrained(str(tmp_path), model=kind).settings.max_seq_length is None


def test_a_file_with_zeros_in_the_place_of_its_end_is_named(tmp_path):
    albert_tf.save_pretrained(new_head("encoder", TINY), str(tmp_path), to="hugging_face")
    path = tmp_path / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-500] + bytes(500))
    with pytest.raises(ValueError, match="model.safetensors is damaged or was changed: its checksum is not that in"):
        albert_tf.from_pretrained(str(tmp_path))
    (tmp_path / ".hugging_face.manifest.json").unlink()  # weights of another program have none
    albert_tf.from_pretrained(str(tmp_path))


@pytest.mark.parametrize("kind, to, dtype, message", [
    ("conditional_span", "hugging_face", "float32", "no model for AlbertConditionalSpan"),
    ("encoder", "ours", "float16", "hugging_face.*float16"),
    ("encoder", "hugging_face", "int8", "float32, .*bfloat16")])
def test_what_cannot_be_written_is_refused(tmp_path, kind, to, dtype, message):
    with pytest.raises(ValueError, match=message):
        albert_tf.save_pretrained(head_named(kind).model(TINY), str(tmp_path / "out"), to=to, dtype=dtype)
    assert not (tmp_path / "out/model.safetensors").exists()
