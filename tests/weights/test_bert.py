"""BERT's weights: transformers' outputs, Google's variable names, round trips, errors."""

import json
import re
import shutil

import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import load_file, save_file
from tiny import TINY

import albert_tf
from albert_tf.config import AlbertConfig
from albert_tf.export.conversion import convert
from albert_tf.weights.hugging_face.reading import NAMES
from albert_tf.weights.hugging_face.writing import save_hugging_face
from albert_tf.weights.stored_model import open_source
from albert_tf.weights.tf1 import bert_name_of

CASES = {
    "encoder": ("encoder", dict(last_hidden_state="sequence_output", pooler_output="pooled_output")),
    "pretraining": ("pretrainer", dict(prediction_logits="mlm_logits", seq_relationship_logits="sop_logits")),
    "pretraining_tanh_gelu": ("pretrainer", dict(prediction_logits="mlm_logits", seq_relationship_logits="sop_logits")),
    "sequence_classification": ("classifier", dict(logits="logits")),
    "token_classification": ("token_classifier", dict(logits="logits")),
    "question_answering": ("span", dict(start_logits="start_logits", end_logits="end_logits")),
    "multiple_choice": ("multiple_choice", dict(logits="logits")),
}


def check_outputs(folder, model_name, path):
    """The model at `path` computes the numbers of transformers in `folder`."""
    numbers = np.load(folder / "io.npz")
    model = albert_tf.from_pretrained(str(path), model=model_name)
    ids = numbers["in/input_ids"].astype(np.int32)
    positions = np.tile(np.arange(ids.shape[-1], dtype=np.int32), [len(ids), 1])
    outputs = model(dict(input_ids=ids, input_mask=numbers["in/attention_mask"].astype(np.int32),
                         segment_ids=numbers["in/token_type_ids"].astype(np.int32), masked_lm_positions=positions))
    names = CASES[folder.name][1]
    assert {f"out/{theirs}" for theirs in names} == {key for key in numbers.files if key.startswith("out/")}
    for theirs, ours in names.items():
        np.testing.assert_allclose(outputs[ours], numbers[f"out/{theirs}"], atol=1e-5, err_msg=theirs)


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


@pytest.mark.parametrize("case", CASES)
def test_outputs_are_those_of_transformers(golden, case):
    assert open_source(str(golden / "bert" / case)).head == CASES[case][0]
    check_outputs(golden / "bert" / case, CASES[case][0], golden / "bert" / case)


def test_a_bert_is_a_config_that_shares_nothing_and_does_not_factorize(golden):
    config = open_source(str(golden / "bert/encoder")).config
    assert config.is_bert and config.embedding_size == config.hidden_size == 8
    assert config.cross_layer_sharing == "none" and config.hidden_act == "gelu_exact"
    assert AlbertConfig.preset("bert_large").is_bert
    assert not AlbertConfig.preset("albert_base_v2").is_bert
    assert not config.replace(embedding_size=4).is_bert and not config.replace(cross_layer_sharing="all").is_bert


def test_an_albert_is_not_written_as_googles_bert(tmp_path):
    with pytest.raises(ValueError, match="cross_layer_sharing='all', embedding_size=4, hidden_size=8"):
        albert_tf.save_pretrained(albert_tf.AlbertModel(TINY), str(tmp_path / "bert"), to="tf1_bert")


@pytest.mark.parametrize("case", CASES)
def test_models_that_transformers_saved_survive_a_round_trip(golden, tmp_path, case):
    folder = golden / "bert" / case
    save_hugging_face(albert_tf.from_pretrained(str(folder), model=CASES[case][0]), str(tmp_path))
    old, new = (load_file(path / "model.safetensors") for path in (folder, tmp_path))
    assert old.keys() == new.keys()
    assert all(np.array_equal(old[key], new[key]) for key in old)
    old, new = (json.loads((path / "config.json").read_text()) for path in (folder, tmp_path))
    assert {key: old.get(key) for key in new} == new


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
    assert set(open_source(str(tmp_path)).tensors) == set(open_source(str(folder)).tensors)


def test_names_are_the_same_in_both_directions(golden):
    for path in golden.glob("bert/*/model.safetensors"):
        for key in load_file(path):
            key = key if key.startswith(("bert.", "cls.", "qa_outputs.", "classifier.")) else f"bert.{key}"
            assert NAMES["bert"].theirs(NAMES["bert"].ours(key)) == key
    assert NAMES["bert"].ours("bert.encoder.layer.0.crossattention.self.query.weight") is None
    assert NAMES["bert"].theirs("bert/encoder/embedding_hidden_mapping_in/kernel") is None
    scope = "bert/encoder/transformer/group_2/inner_group_{}/ffn_1/intermediate/dense/kernel"
    assert bert_name_of(scope.format(0)) == "bert/encoder/layer_2/intermediate/dense/kernel"
    assert bert_name_of(scope.format(1)) == scope.format(1)  # further inner groups have no name in BERT


def test_googles_checkpoint_computes_what_transformers_computes(golden, tmp_path):
    folder = golden / "bert/pretraining_tanh_gelu"
    google_checkpoint(folder, tmp_path / "google")
    for path in (tmp_path / "google", tmp_path / "google/bert_model.ckpt"):
        check_outputs(folder, "pretrainer", path)


# google-research/bert has no classifier of tokens.
@pytest.mark.parametrize("case", [case for case in CASES if case != "token_classification"])
def test_googles_checkpoint_is_written_with_googles_names(golden, tmp_path, case):
    expected = google_checkpoint(golden / "bert" / case, tmp_path / "google")
    convert(open_source(str(golden / "bert" / case)), str(tmp_path / "written"), "tf1_bert")
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
    convert(open_source(str(tmp_path / "source")), str(tmp_path / "written"), "hugging_face")
    written = json.loads((tmp_path / "written/tokenizer_config.json").read_text())
    assert written["strip_accents"] is False and "keep_accents" not in written
    for name in ("source", "written"):
        assert open_source(str(tmp_path / name)).vocabulary.tokenizer().tokenize("Schön") == ["schön"]
