"""Every model in every format: weights, config, settings and vocabulary come back, also after conversions."""

import tarfile

import numpy as np
import pytest
import tensorflow as tf
from new_head import SETTINGS, head_of_name
from tiny import TINY, values_of

import albert_tf
from albert_tf.export import FORMATS
from albert_tf.export.conversion import convert
from albert_tf.text.tokenization import tokenizer_key
from albert_tf.weights.from_pretrained import load_into
from albert_tf.weights.heads import HEADS
from albert_tf.weights.stored_model import open_model

pytestmark = pytest.mark.both_stacks
OF_MODULES = ("encoder", "pretrainer", "sentence_encoder")
BY_NAME = {head.name: head for head in HEADS}
CASES = [(name, to) for name in SETTINGS for to in ("ours", "tf1", "hugging_face", "tf_hub")
         if (to != "tf_hub" or name in OF_MODULES)
         and (to != "hugging_face" or BY_NAME[head_of_name(name)].architectures)]


def check(path, model, head, is_hugging_face=False):
    """Checks that the weights at a path are those of a model, bit for bit, with its config and its arguments."""
    source = open_model(str(path))
    assert source.head == head
    read = albert_tf.from_pretrained(str(path), model=head)
    assert read.config in (model.config, model.config.in_groups())
    assert {**read.get_config(), "name": "", "config": ""} == {**model.get_config(), "name": "", "config": ""}
    values, expected = values_of(read), values_of(model)
    assert values.keys() == expected.keys()
    for name, value in expected.items():  # Hugging Face's models of spans and of tokens have no pooler
        if not (is_hugging_face and not BY_NAME[head].has_pooler and "pooler" in name):
            np.testing.assert_array_equal(values[name], value, err_msg=name)
    return source


@pytest.mark.parametrize("name, to", [*CASES, *(("bert", to) for to in FORMATS if to not in ("tf_hub", "pl_bert"))])
def test_a_model_and_its_conversion_have_all_that_was_saved(written, cased, tmp_path, name, to):
    head = "pretrainer" if name == "bert" else head_of_name(name)
    model, folder = written(name, to)
    convert(open_model(str(folder)), str(tmp_path), "tf1" if to == "ours" else "ours")
    if to in ("hugging_face", "tf1_bert"):
        assert (folder / "README.md").exists()
    for path in (folder, tmp_path):
        vocabulary = check(path, model, head, to == "hugging_face").vocabulary
        assert tokenizer_key(vocabulary.tokenizer()) == tokenizer_key(cased)
        assert albert_tf.tokenizer_from_pretrained(str(path)).max_seq_length == 9


@pytest.mark.parametrize("to", ["hugging_face", "tf1", "ours"])
def test_an_index_of_faiss_beside_weights_is_no_checkpoint(copied, to):
    model, folder = copied("sentence_encoder", to)
    (folder / "faiss.index").write_bytes(b"IxFI")
    check(folder, model, "sentence_encoder", to == "hugging_face")


@pytest.mark.parametrize("name", [name for name in SETTINGS if name == head_of_name(name) and name not in (
    "multiple_choice", "sentence_encoder")])
def test_the_head_follows_from_the_variables(copied, name):
    _, folder = copied(name, "tf1")
    (folder / "albert_tf.json").unlink(missing_ok=True)
    assert open_model(str(folder)).head == name


@pytest.mark.parametrize("to", ["ours", "tf1", "hugging_face", "tf_hub"])
@pytest.mark.parametrize("inside", ["model", "."])
def test_an_archive_is_read_as_its_folder(written, cased, tmp_path, to, inside):
    model, folder = written("sentence_encoder", to)
    with tarfile.open(tmp_path / "model.tar.gz", "w:gz") as file:
        file.add(folder, inside)
    source = check(tmp_path / "model.tar.gz", model, "sentence_encoder")
    assert tokenizer_key(source.vocabulary.tokenizer()) == tokenizer_key(cased)


@pytest.mark.parametrize("changes", [
    dict(cross_layer_sharing="attention"), dict(cross_layer_sharing="ffn"), dict(cross_layer_sharing="none"),
    dict(cross_layer_sharing="none", inner_group_num=2), dict(num_hidden_groups=2, inner_group_num=2),
    dict(embedding_size=8), dict(hidden_act="gelu_exact")], ids=str)
@pytest.mark.parametrize("to", ["ours", "tf1", "hugging_face"])
def test_every_sharing_and_size_comes_back(tmp_path, to, changes):
    config = TINY.replace(**changes)
    model, folder = albert_tf.AlbertPretrainer(config), str(tmp_path / to)
    if to == "hugging_face" and changes.get("cross_layer_sharing") in ("attention", "ffn"):
        with pytest.raises(ValueError, match="attention or only feed-forward.*Received"):
            albert_tf.save_pretrained(model, folder, to=to)
        assert not (tmp_path / to).exists()
        return
    albert_tf.save_pretrained(model, folder, to=to)
    with pytest.raises(ValueError, match=f"^no vocabulary .* {folder}: "):
        albert_tf.tokenizer_from_pretrained(folder)
    read = albert_tf.from_pretrained(folder, model="pretrainer")
    assert read.config == (config if to == "ours" or "f" in config.cross_layer_sharing else config.in_groups())
    assert all(np.array_equal(value, values_of(read)[name]) for name, value in values_of(model).items())


@pytest.mark.parametrize("name", ["model_a", "model_b", "model_c", "model_d"])
def test_the_releases_checkpoints_come_back_without_slots_and_steps(golden, tmp_path, name):
    file = "model.ckpt-training" if name == "model_a" else "model.ckpt-best"
    source = open_model(str(golden / name / file))
    report = load_into(albert_tf.from_pretrained(str(golden / name), model="pretrainer"), source)
    assert not report.not_restored and not report.not_used
    assert len(report.optimizer_state) == (2 * len(report.restored) + 1 if name == "model_a" else 0)
    convert(source, str(tmp_path), "tf1")
    old, new = (tf.train.load_checkpoint(str(path)) for path in (golden / name / file, tmp_path / "model.ckpt-best"))
    names = {key: shape for key, shape in old.get_variable_to_shape_map().items()
             if "adam_" not in key and key != "global_step"}
    assert new.get_variable_to_shape_map() == names
    for key in names:
        np.testing.assert_array_equal(new.get_tensor(key), old.get_tensor(key))
