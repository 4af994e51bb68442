"""Hugging Face's folders: transformers' outputs, names in both directions, round trips, errors."""

import json
import shutil
import stat

import ml_dtypes
import numpy as np
import pytest
from new_head import new_head
from safetensors.numpy import load_file, save_file

import albert_tf
from albert_tf.config import AlbertConfig
from albert_tf.modeling.layers import release_name
from albert_tf.weights.from_pretrained import load_into
from albert_tf.weights.heads import head_named
from albert_tf.weights.hugging_face.reading import NAMES
from albert_tf.weights.hugging_face.writing import save_hugging_face
from albert_tf.weights.settings import VocabularyFiles
from albert_tf.weights.stored_model import open_source

pytestmark = pytest.mark.both_stacks

TINY = AlbertConfig(vocab_size=20, embedding_size=4, hidden_size=8, num_hidden_layers=3, num_attention_heads=2,
                    intermediate_size=16, max_position_embeddings=6)
KINDS = "encoder", "pretrainer", "classifier", "span", "multiple_choice", "token_classifier"
IDENTITY = "albert.encoder.embedding_hidden_mapping_in.weight"


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


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("changes", [
    {}, dict(embedding_size=8), dict(cross_layer_sharing="none"), dict(num_hidden_groups=2, inner_group_num=2),
    dict(hidden_act="gelu_exact")], ids=str)
def test_every_model_comes_back_bit_equal(tmp_path, kind, changes):
    model, folder = folder_of(tmp_path, kind, **changes)
    again = albert_tf.from_pretrained(str(folder), model=kind)
    assert again.config == TINY.replace(**changes).in_groups()
    before, after = values_of(model), values_of(again)
    assert before.keys() == after.keys()
    if kind in ("span", "token_classifier"):  # Hugging Face's models of these have no pooler
        before, after = ({name: value for name, value in values.items() if "pooler" not in name}
                         for values in (before, after))
    assert all(np.array_equal(before[name], after[name]) for name in before)


def test_whoever_can_read_the_config_can_read_the_weights(tmp_path):
    _, folder = folder_of(tmp_path, "encoder")
    config, weights = (stat.S_IMODE((folder / name).stat().st_mode) for name in ("config.json", "model.safetensors"))
    assert weights == config


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


@pytest.mark.parametrize("to, dtype, message", [
    ("ours", "float16", "only hugging_face"), ("hugging_face", "int8", "float32, float16, bfloat16")])
def test_a_dtype_that_cannot_be_written_is_refused(tmp_path, to, dtype, message):
    with pytest.raises(ValueError, match=message):
        albert_tf.save_pretrained(head_named("encoder").model(TINY), str(tmp_path / "out"), to=to, dtype=dtype)


def test_question_answering_has_no_pooler(tmp_path):
    _, folder = folder_of(tmp_path, "span")
    assert not [key for key in load_file(folder / "model.safetensors") if "pooler" in key]
    report = load_into(head_named("span").model(TINY), open_source(str(folder)))
    assert set(report.not_restored) == {"bert/pooler/dense/kernel", "bert/pooler/dense/bias"}


def test_the_mapping_is_the_identity_if_e_equals_h(tmp_path):
    _, folder = folder_of(tmp_path, "encoder", embedding_size=8)
    tensors = load_file(folder / "model.safetensors")
    np.testing.assert_array_equal(tensors[IDENTITY], np.eye(8))
    assert not tensors["albert.encoder.embedding_hidden_mapping_in.bias"].any()


@pytest.mark.parametrize("change", ["weight", "bias"])
def test_another_mapping_where_e_is_h_is_refused(tmp_path, change):
    _, folder = folder_of(tmp_path, embedding_size=8)
    tensors = load_file(folder / "model.safetensors")
    tensors[IDENTITY.replace("weight", change)][0] += 1
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(ValueError, match="embedding_hidden_mapping_in is not the identity"):
        albert_tf.from_pretrained(str(folder))


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


@pytest.mark.parametrize("index", ['{"weight_map": {"a": "../model.safetensors"}}', '{"weight_map": {"a": 1}}',
                                   '{"weight_map": {"a": "/etc/model.safetensors"}}', '{"weight_map": {"a": "x.bin"}}'])
def test_an_index_names_files_of_its_own_folder_alone(tmp_path, index):
    _, folder = folder_of(tmp_path)
    (folder / "model.safetensors.index.json").write_text(index)
    open_source(str(folder))  # beside model.safetensors it is not read
    (folder / "model.safetensors").unlink()
    with pytest.raises(ValueError, match="but must name .safetensors files in its own folder"):
        open_source(str(folder))


def test_half_precision_and_copies_are_read(tmp_path):
    model, folder = folder_of(tmp_path)
    tensors = {key: value.astype(np.float16) for key, value in load_file(folder / "model.safetensors").items()}
    tensors["predictions.decoder.weight"] = tensors["albert.embeddings.word_embeddings.weight"].copy()
    tensors["predictions.decoder.bias"] = tensors.pop("predictions.bias")
    tensors["albert.embeddings.position_ids"] = np.arange(6)[None]
    save_file(tensors, folder / "model.safetensors")
    again = head_named("pretrainer").model(TINY)
    assert not load_into(again, open_source(str(folder))).not_used
    for name, value in values_of(model).items():
        np.testing.assert_array_equal(values_of(again)[name], value.astype(np.float16))


def test_a_decoder_with_another_word_table_is_refused(tmp_path):
    _, folder = folder_of(tmp_path)
    tensors = load_file(folder / "model.safetensors")
    tensors["predictions.decoder.weight"] = tensors["albert.embeddings.word_embeddings.weight"] + 1
    save_file(tensors, folder / "model.safetensors")
    albert_tf.from_pretrained(str(folder))  # an encoder has no decoder
    with pytest.raises(ValueError, match="predictions.decoder.weight differs from the word embeddings"):
        albert_tf.from_pretrained(str(folder), model="pretrainer")


def test_an_adapter_of_peft_is_named(tmp_path):
    for folder in (tmp_path, folder_of(tmp_path)[1]):
        (folder / "adapter_config.json").write_text("{}")
        with pytest.raises(ValueError, match=r"adapter of PEFT \(adapter_config.json\).*merge_and_unload"):
            open_source(str(folder))


def test_a_classifier_of_tokens_is_not_taken_for_one_of_texts(tmp_path):
    _, folder = folder_of(tmp_path, "classifier")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(dict(config, architectures=["AlbertForTokenClassification"])))
    report = load_into(head_named("classifier").model(TINY, num_labels=3), open_source(str(folder)))
    assert set(report.not_restored) == {"output_weights", "output_bias"}
    assert report.not_used == ["cls/tokens/output_bias", "cls/tokens/output_weights"]


@pytest.mark.parametrize("names", [("O", "B-place", "I-place"), None])
def test_names_of_labels_come_along(tmp_path, names):
    model = head_named("token_classifier").model(TINY, 3, label_names=names)
    save_hugging_face(model, str(tmp_path / "hf"))
    albert_tf.save_pretrained(model, str(tmp_path / "ours"))
    for folder in ("hf", "ours"):
        again = albert_tf.from_pretrained(str(tmp_path / folder), model="token_classifier")
        assert again.label_names == names and again.num_labels == 3
    config = json.loads((tmp_path / "hf/config.json").read_text())
    assert config["id2label"]["1"] == ("B-place" if names else "LABEL_1")
    assert config["architectures"] == ["AlbertForTokenClassification"]


def test_labels_that_are_not_numbered_are_refused(tmp_path):
    _, folder = folder_of(tmp_path, "token_classifier")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(dict(config, id2label={"1": "O"})))
    with pytest.raises(ValueError, match="config.json: id2label must have a name for each number from 0"):
        open_source(str(folder))


def test_a_label_with_a_line_break_is_refused(tmp_path):
    _, folder = folder_of(tmp_path, "token_classifier")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(dict(config, id2label={"0": "O", "1": "B-\nplace", "2": "I-place"})))
    with pytest.raises(ValueError, match=r"config.json: a name in id2label must not have a line break. Received: 'B-"):
        open_source(str(folder))


@pytest.mark.parametrize("num_labels, problem_type", [(1, "regression"), (2, None)])
def test_a_regression_is_written_as_one(tmp_path, num_labels, problem_type):
    """Without problem_type, the pipeline of transformers applies a sigmoid to a single output."""
    save_hugging_face(head_named("classifier").model(TINY, num_labels=num_labels), str(tmp_path))
    assert json.loads((tmp_path / "config.json").read_text()).get("problem_type") == problem_type


def test_several_labels_for_one_text_are_read_and_written(tmp_path):
    _, folder = folder_of(tmp_path, "classifier")
    assert not albert_tf.from_pretrained(str(folder), model="classifier").multi_label
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(dict(config, problem_type="multi_label_classification")))
    (folder / "albert_tf.json").unlink(missing_ok=True)  # as transformers writes it
    model = albert_tf.from_pretrained(str(folder), model="classifier")
    logits = np.array([[0.0, 2.0]], np.float32)
    np.testing.assert_allclose(model.probabilities(logits), [[0.5, 0.880797]], atol=1e-6)
    save_hugging_face(model, str(tmp_path / "again"))
    assert json.loads((tmp_path / "again/config.json").read_text())["problem_type"] == "multi_label_classification"


def test_layers_that_hugging_face_groups_otherwise_are_the_same_layers(tmp_path):
    model, folder = folder_of(tmp_path, "encoder", num_hidden_layers=22, cross_layer_sharing="none")
    assert json.loads((folder / "config.json").read_text())["num_hidden_groups"] == 22
    config = open_source(str(folder)).config  # the release's own expression leaves group 15 out
    assert config.attention_blocks == model.config.attention_blocks
    with pytest.raises(ValueError, match="assigns 22 layers to 22 groups differently"):
        folder_of(tmp_path, "encoder", num_hidden_layers=22, num_hidden_groups=22)


def test_vocabulary_and_casing_come_along(golden, tmp_path):
    vocabulary = VocabularyFiles(str(golden / "tiny_spm/tiny.model"), None, False)
    save_hugging_face(head_named("encoder").model(TINY), str(tmp_path), vocabulary)
    assert open_source(str(tmp_path)).vocabulary == VocabularyFiles(str(tmp_path / "spiece.model"), None, False, False)
    assert not open_source(str(tmp_path)).vocabulary.tokenizer().do_lower_case


@pytest.mark.parametrize("changes", [dict(cross_layer_sharing="attention"), dict(cross_layer_sharing="ffn")], ids=str)
def test_what_hugging_face_cannot_share_is_refused(tmp_path, changes):
    with pytest.raises(ValueError, match="cannot share only attention or only feed-forward blocks.*Received"):
        folder_of(tmp_path, **changes)
    assert not (tmp_path / "hf").exists()


def test_the_head_of_squad_2_is_refused(tmp_path):
    with pytest.raises(ValueError, match="Hugging Face has no model for AlbertConditionalSpan"):
        save_hugging_face(head_named("conditional_span").model(TINY), str(tmp_path / "hf"))


@pytest.mark.parametrize("changes, message", [
    (dict(model_type="roberta"), "model_type 'roberta' is not supported"),
    (dict(position_embedding_type="relative_key"), "absolute positions"),
    (dict(problem_type="regression"), "regression is only supported with one label. Received: 2"),
    (dict(tie_word_embeddings=False), "tied word embeddings"),
    (dict(hidden_size=16), r"has shape \[4, 8\], expected \[4, 16\]")])
def test_another_model_is_refused(tmp_path, changes, message):
    _, folder = folder_of(tmp_path)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(dict(config, **changes)))
    with pytest.raises(ValueError, match=message):
        albert_tf.from_pretrained(str(folder))


@pytest.mark.parametrize("content, message", [
    ((10 * 2**30).to_bytes(8, "little") + b"{}", "is not a safetensors file: .*header too large"),
    (b"", "is not a safetensors file"),
    (b"\x80\x04\x95 a pickle", "model.safetensors is a pickle, which can run any code"),
    (b"PK\x03\x04 a pickle in it", "model.safetensors is a zip file, as PyTorch's weights are, which can run any")])
def test_an_error_names_a_file_that_is_not_safetensors(tmp_path, content, message):
    _, folder = folder_of(tmp_path)
    (folder / "model.safetensors").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        albert_tf.from_pretrained(str(folder))


def test_a_cut_file_is_named(tmp_path):
    _, folder = folder_of(tmp_path)
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(ValueError, match="model.safetensors is not a safetensors file"):
        albert_tf.from_pretrained(str(folder))


def test_numbers_that_are_no_floats_are_refused(tmp_path):
    _, folder = folder_of(tmp_path)
    tensors = load_file(folder / "model.safetensors")
    tensors["albert.pooler.bias"] = tensors["albert.pooler.bias"].astype(np.int32)
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(ValueError, match="albert.pooler.bias has type I32"):
        albert_tf.from_pretrained(str(folder))


def test_a_pickle_is_refused_by_name(tmp_path):
    _, folder = folder_of(tmp_path)
    shutil.move(folder / "model.safetensors", folder / "pytorch_model.bin")
    for path in (folder, folder / "pytorch_model.bin"):
        with pytest.raises(ValueError, match="pytorch_model.bin is a pickle, which can run any code"):
            albert_tf.from_pretrained(str(path))
    (folder / "pytorch_model.bin").rename(folder / "pytorch_model-00001-of-00001.bin")
    with pytest.raises(ValueError, match="pytorch_model-00001-of-00001.bin is a pickle, which can run any code"):
        albert_tf.from_pretrained(str(folder))


def test_a_folder_without_weights_is_named(tmp_path):
    _, folder = folder_of(tmp_path)
    (folder / "model.safetensors").unlink()
    with pytest.raises(ValueError, match="hf has no model.safetensors"):
        albert_tf.from_pretrained(str(folder))


def test_how_a_classifier_reads_texts_survives_a_round_trip(golden, tmp_path):
    reading = dict(max_seq_length=5, window_pooling="max", max_windows=3, doc_stride=1)
    vocabulary = VocabularyFiles(spm_model_file=str(golden / "tiny_spm" / "tiny.model"))
    save_hugging_face(head_named("classifier").model(TINY, 2, **reading), str(tmp_path), vocabulary)
    again = albert_tf.from_pretrained(str(tmp_path), model="classifier").get_config()
    assert {name: again[name] for name in reading} == reading


@pytest.mark.parametrize("length", [10**30, 7, "5", None])
def test_a_length_that_does_not_fit_the_model_is_not_taken(golden, tmp_path, length):
    """transformers writes 10**30 for "no limit"; this model has 6 positions."""
    save_hugging_face(head_named("classifier").model(TINY, 2), str(tmp_path))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(dict(model_max_length=length)))
    assert albert_tf.from_pretrained(str(tmp_path), model="classifier").max_seq_length is None
