"""Hugging Face's folders and Google's BERT: transformers' outputs, names in both directions, round trips, errors."""

import json
import re
import shutil
import stat

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf
from new_head import new_head
from safetensors.numpy import load_file, save_file
from tiny import TINY, values_of

import albert_tf
from albert_tf.export.conversion import convert
from albert_tf.weights.from_pretrained import load_into
from albert_tf.weights.heads import head_named
from albert_tf.weights.hugging_face.reading import NAMES
from albert_tf.weights.hugging_face.writing import save_hugging_face
from albert_tf.weights.stored_model import open_model
from albert_tf.weights.tf1 import bert_name_of

pytestmark = pytest.mark.both_stacks
# Golden folders that transformers has saved, and their heads.
FOLDERS = {
    "hf/pretraining": "pretrainer", "hf/pretraining_2groups": "pretrainer", "hf/sequence_classification": "classifier",
    "hf/token_classification": "token_classifier", "hf/question_answering": "span", "hf/layer_norm_eps": "pretrainer",
    "bert/layer_norm_eps": "pretrainer", "bert/encoder": "encoder",
    "bert/pretraining": "pretrainer", "bert/pretraining_tanh_gelu": "pretrainer",
    "bert/sequence_classification": "classifier", "bert/token_classification": "token_classifier",
    "bert/question_answering": "span", "bert/multiple_choice": "multiple_choice"}
OURS = dict(last_hidden_state="sequence_output", pooler_output="pooled_output", prediction_logits="mlm_logits",
            seq_relationship_logits="sop_logits")


def folder_of(tmp_path, kind="pretrainer", **changes):
    model = new_head(kind, TINY.replace(**changes))
    save_hugging_face(model, str(tmp_path / "hf"))
    return model, tmp_path / "hf"


def check_outputs(folder, head, path):
    """The model at `path` computes the numbers of transformers in `folder`."""
    numbers = np.load(folder / "io.npz")
    ids = numbers["in/input_ids"].astype(np.int32)
    positions = np.tile(np.arange(ids.shape[-1], dtype=np.int32), [len(ids), 1])
    ours = albert_tf.from_pretrained(str(path), model=head)(dict(
        input_ids=ids, input_mask=numbers["in/attention_mask"].astype(np.int32),
        segment_ids=numbers["in/token_type_ids"].astype(np.int32), masked_lm_positions=positions))
    ours.update({f"hidden_states_{i + 1}": layer for i, layer in enumerate(ours["encoder_outputs"])})
    names = [key[4:] for key in numbers.files if key.startswith("out/") and key != "out/hidden_states_0"]
    assert names
    for name in names:
        np.testing.assert_allclose(ours[OURS.get(name, name)], numbers[f"out/{name}"], atol=1e-5, err_msg=name)


@pytest.mark.parametrize("name", FOLDERS)
def test_folders_of_transformers_have_its_outputs_and_survive_a_round_trip(golden, tmp_path, name):
    folder = golden / name
    assert open_model(str(folder)).head == FOLDERS[name]
    check_outputs(folder, FOLDERS[name], folder)
    save_hugging_face(albert_tf.from_pretrained(str(folder), model=FOLDERS[name]), str(tmp_path))
    old, new = (load_file(path / "model.safetensors") for path in (folder, tmp_path))
    assert old.keys() == new.keys()
    assert all(np.array_equal(old[key], new[key]) for key in old)
    old, new = (json.loads((path / "config.json").read_text()) for path in (folder, tmp_path))
    assert {key: old.get(key) for key in new} == new


def test_names_are_the_same_in_both_directions(golden):
    for kind, folder in (("albert", "hf"), ("bert", "bert")):
        for path in golden.glob(f"{folder}/*/model.safetensors"):
            for key in load_file(path):
                key = key if kind == "albert" or key.startswith(("bert.", "cls.", "qa_outputs.", "classifier.")) else (
                    f"bert.{key}")
                assert NAMES[kind].theirs(NAMES[kind].ours(key)) == key
    assert NAMES["albert"].theirs("end_logits/dense_0/kernel") is None
    assert NAMES["albert"].ours("albert.encoder.albert_layer_groups.0.albert_layers.0.attention.rotary.weight") is None
    assert NAMES["bert"].ours("bert.encoder.layer.0.crossattention.self.query.weight") is None
    assert NAMES["bert"].theirs("bert/encoder/embedding_hidden_mapping_in/kernel") is None
    scope = "bert/encoder/transformer/group_2/inner_group_{}/ffn_1/intermediate/dense/kernel"
    assert bert_name_of(scope.format(0)) == "bert/encoder/layer_2/intermediate/dense/kernel"
    assert bert_name_of(scope.format(1)) == scope.format(1)  # further inner groups have no name in BERT


@pytest.mark.parametrize("dtype, stored", [("float16", np.float16), ("bfloat16", ml_dtypes.bfloat16)])
def test_weights_written_in_16_bits_come_back_rounded_to_them(tmp_path, dtype, stored):
    model = head_named("pretrainer").model(TINY)
    albert_tf.save_pretrained(model, str(tmp_path / "hf"), to="hugging_face", dtype=dtype)
    tensors = load_file(str(tmp_path / "hf" / "model.safetensors"))
    assert {value.dtype for value in tensors.values()} == {np.dtype(stored)}
    assert json.loads((tmp_path / "hf" / "config.json").read_text())["torch_dtype"] == dtype
    assert f"| type | {dtype} |" in (tmp_path / "hf/README.md").read_text()
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
    assert not load_into(again, open_model(str(folder))).not_used
    for name, value in values_of(model).items():
        np.testing.assert_array_equal(values_of(again)[name], value.astype(np.float16))


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
    config = open_model(str(folder)).config  # the release's own expression leaves group 15 out
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
    ("encoder", "ours", "float16", "hugging_face.*float16"), ("encoder", "onnx", "float32", "Received: 'onnx'"),
    ("encoder", "hugging_face", "int8", "float32, .*bfloat16"),
    ("encoder", "tf1_bert", "float32", "cross_layer_sharing='all', embedding_size=4, hidden_size=8")])
def test_what_cannot_be_written_is_refused(tmp_path, kind, to, dtype, message):
    with pytest.raises(ValueError, match=message):
        albert_tf.save_pretrained(head_named(kind).model(TINY), str(tmp_path / "out"), to=to, dtype=dtype)
    assert not {"model.safetensors", "bert_model.ckpt.index"} & {path.name for path in tmp_path.glob("out/*")}


def google_name(key):
    """The TF1 name of a tensor of Hugging Face's, by the rule of their conversion script."""
    key = f"bert.{key}" if key.startswith(("embeddings.", "encoder.", "pooler.")) else key
    name = key.replace(".", "/").replace("encoder/layer/", "encoder/layer_")
    name = re.sub(r"cls/predictions/bias$", "cls/predictions/output_bias", name)
    name = re.sub(r"(cls/seq_relationship|qa_outputs|classifier)/(weight|bias)",
                  lambda match: f"{match[1]}/output_{'weights' if match[2] == 'weight' else 'bias'}", name)
    name = name.replace("qa_outputs", "cls/squad").removeprefix("classifier/")
    name = re.sub(r"LayerNorm/weight$", "LayerNorm/gamma", name)
    name = re.sub(r"LayerNorm/bias$", "LayerNorm/beta", name)
    name = re.sub(r"_embeddings/weight$", "_embeddings", name)
    return re.sub(r"/weight$", "/kernel", name)


def google_checkpoint(folder, target):
    """The model of a Hugging Face folder as google-research/bert would save it."""
    tensors = {google_name(key): value for key, value in load_file(folder / "model.safetensors").items()}
    tensors = {name: value.T if name.endswith("/kernel") else value for name, value in tensors.items()}
    target.mkdir()
    tf.raw_ops.SaveV2(prefix=str(target / "bert_model.ckpt"), tensor_names=list(tensors),
                      shape_and_slices=[""] * len(tensors), tensors=list(tensors.values()))
    values = json.loads((folder / "config.json").read_text())
    keys = ("attention_probs_dropout_prob", "hidden_dropout_prob", "hidden_size", "initializer_range",
            "intermediate_size", "max_position_embeddings", "num_attention_heads", "num_hidden_layers",
            "type_vocab_size", "vocab_size")
    config = dict({key: values[key] for key in keys}, hidden_act="gelu", directionality="bidi", pooler_type="first")
    (target / "bert_config.json").write_text(json.dumps(config))
    return tensors


def test_tensors_without_the_prefix_and_with_old_names_are_read(golden, tmp_path):
    folder = golden / "bert/encoder"
    tensors = load_file(folder / "model.safetensors")
    assert not any(key.startswith("bert.") for key in tensors)
    old = {"bert." + key.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"):
           value for key, value in tensors.items()}
    old["bert.embeddings.position_ids"] = np.arange(8)[None]
    save_file(old, tmp_path / "model.safetensors")
    shutil.copy(folder / "config.json", tmp_path)
    check_outputs(folder, "encoder", tmp_path)
    assert set(open_model(str(tmp_path)).tensors) == set(open_model(str(folder)).tensors)


def test_googles_checkpoint_computes_what_transformers_computes(golden, tmp_path):
    folder = golden / "bert/pretraining_tanh_gelu"
    google_checkpoint(folder, tmp_path / "google")
    for path in (tmp_path / "google", tmp_path / "google/bert_model.ckpt"):
        check_outputs(folder, "pretrainer", path)


# google-research/bert has no classifier of tokens.
@pytest.mark.parametrize("case", [name[5:] for name in FOLDERS if name.startswith("bert/") and "token" not in name
                                  and "eps" not in name])
def test_googles_checkpoint_is_written_with_googles_names(golden, tmp_path, case):
    expected = google_checkpoint(golden / "bert" / case, tmp_path / "google")
    convert(open_model(str(golden / "bert" / case)), str(tmp_path / "written"), "tf1_bert")
    reader = tf.train.load_checkpoint(str(tmp_path / "written/bert_model.ckpt"))
    assert set(reader.get_variable_to_shape_map()) == set(expected)
    for name, value in expected.items():
        np.testing.assert_array_equal(reader.get_tensor(name), value, err_msg=name)
    config = json.loads((tmp_path / "written/bert_config.json").read_text())
    google = json.loads((tmp_path / "google/bert_config.json").read_text())
    assert config == {key: google[key] for key in config}


def test_a_vocabulary_that_keeps_accents_is_read_and_written_with_hugging_faces_name_for_it(golden, tmp_path):
    shutil.copytree(golden / "bert/encoder", tmp_path / "source")
    shutil.copy(golden / "accents/vocab.txt", tmp_path / "source")
    (tmp_path / "source/tokenizer_config.json").write_text('{"do_lower_case": true, "strip_accents": false}')
    convert(open_model(str(tmp_path / "source")), str(tmp_path / "written"), "hugging_face")
    written = json.loads((tmp_path / "written/tokenizer_config.json").read_text())
    assert written["strip_accents"] is False and "keep_accents" not in written
    for name in ("source", "written"):
        assert open_model(str(tmp_path / name)).vocabulary.tokenizer().tokenize("Schön") == ["schön"]


def test_a_file_has_at_most_as_many_tensors_as_the_largest_model(tmp_path):
    _, folder = folder_of(tmp_path)
    empty = dict(dtype="F32", shape=[0], data_offsets=[0, 0])
    header = json.dumps({f"tensor_{i}": empty for i in range(20_001)}).encode()
    (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    with pytest.raises(ValueError, match="model.safetensors has 20,001 tensors, and a model has at most 20,000"):
        open_model(str(folder))
