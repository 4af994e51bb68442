"""convert_checkpoint.py: bit-equal conversion between formats, heads recognized by variables, no overwriting."""

import os
import re
import shutil

import numpy as np
import pytest
import tensorflow as tf
from in_process import loaded
from new_head import new_head
from safetensors.numpy import load_file, save_file
from tiny import TINY, TINY_TEXT, values_of

import albert_tf
from albert_tf import keras
from albert_tf.export import FORMATS, conversion
from albert_tf.export.conversion import convert, save, save_random
from albert_tf.utils.outputs import used_alone
from albert_tf.weights.heads import head_named
from albert_tf.weights.stored_model import open_model
from albert_tf.weights.tf1 import save_tf1_checkpoint
from albert_tf.weights.vocabulary import VocabularyFiles


def made(folder, to="ours", kind="pretrainer", vocabulary=VocabularyFiles(), **changes):
    model = new_head(kind, (TINY_TEXT if vocabulary else TINY).replace(**changes))
    save(model, str(folder), to, vocabulary)
    return model


def test_one_label_is_a_regression_or_a_multiple_choice(tmp_path):
    made(tmp_path / "ours", "ours", "multiple_choice")
    (tmp_path / "ours/albert_tf.json").unlink()  # as in the release
    with pytest.raises(ValueError, match="regression or a multiple-choice model"):
        convert(open_model(str(tmp_path / "ours")), str(tmp_path / "new"), "tf1")
    (tmp_path / "ours/albert_tf.json").write_text('{"head": "classifier"}')  # as run_classifier.py writes it
    for folder, to in (("regression", "hugging_face"), ("ours", "hugging_face")):  # also beside the checkpoint
        convert(open_model(str(tmp_path / "ours")), str(tmp_path / folder), to)
        assert open_model(str(tmp_path / folder)).head == "classifier"
    albert_tf.save_pretrained(albert_tf.AlbertClassifier(TINY, 1, multi_label=True), str(tmp_path / "hf"),
                              to="hugging_face")
    convert(open_model(str(tmp_path / "hf")), str(tmp_path / "tf1"), "tf1")
    assert open_model(str(tmp_path / "tf1")).head == "classifier"


def test_the_folder_of_a_run_is_not_written_to(tmp_path):
    """The run could not be continued without its task."""
    model = made(tmp_path)
    for file in tmp_path.glob("model.ckpt-best.*"):
        file.rename(tmp_path / file.name.replace("best", "4"))
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    for to in FORMATS:
        for write in (lambda to: convert(open_model(str(tmp_path)), str(tmp_path), to),
                      lambda to: albert_tf.save_pretrained(model, str(tmp_path), to=to)):
            with pytest.raises(ValueError, match="checkpoints of a training run.*choose another directory"):
                write(to)
    assert before == {file.name: file.read_bytes() for file in tmp_path.iterdir()}


def test_settings_of_a_folder_are_not_lost_by_a_conversion_in_it(tmp_path):
    model = albert_tf.AlbertClassifier(TINY, 2, label_names=("good", "bad"), single_texts=True)
    save(model, str(tmp_path), "hugging_face")
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    with pytest.raises(ValueError, match=f"{tmp_path} stores another head, label_names, single_texts than that of the"):
        convert(open_model(str(tmp_path)), str(tmp_path), "ours", "encoder")
    assert before == {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    convert(open_model(str(tmp_path)), str(tmp_path), "ours")
    assert albert_tf.from_pretrained(str(tmp_path), "classifier").settings.label_names == ("good", "bad")


def test_a_head_that_was_not_restored_is_left_out_of_the_releases_format(tmp_path, caplog):
    """As for Hugging Face's albert-base-v2, which has no sentence-order head."""
    made(tmp_path / "hf", "hugging_face")
    tensors = load_file(tmp_path / "hf/model.safetensors")
    save_file({key: value for key, value in tensors.items() if "sop" not in key}, tmp_path / "hf/model.safetensors")
    (tmp_path / "hf/.hugging_face.manifest.json").unlink()  # it has the checksum of the file
    convert(open_model(str(tmp_path / "hf")), str(tmp_path / "tf1"), "tf1")
    names = tf.train.load_checkpoint(str(tmp_path / "tf1/model.ckpt-best")).get_variable_to_shape_map()
    assert "cls/predictions/output_bias" in names
    assert not [name for name in names if "seq_relationship" in name]
    lacks = "lacks variables of the pretrainer: cls/seq_relationship/output_weights, cls/seq_relationship/output_bias"
    assert f"hf {lacks}. They are left out" in caplog.text
    convert(open_model(str(tmp_path / "tf1")), str(tmp_path / "ours"), "ours")
    assert f"tf1/model.ckpt-best {lacks}" in caplog.text


@pytest.mark.parametrize("to", ["ours", "tf1", "hugging_face"])
def test_a_kill_before_any_rename_leaves_one_model_or_none(tmp_path, monkeypatch, to):
    """The weights are removed first and written last, so that they never meet the config of another model."""
    source, folder, steps = tmp_path / "source", tmp_path / "converted", []

    def read(folder):
        model = albert_tf.from_pretrained(str(folder), "pretrainer")
        return model.config.hidden_act, float(model.get_weights()[0].sum())

    def recorded(change):
        def step(*paths, **options):
            shutil.copytree(folder, tmp_path / f"{len(steps)}")
            steps.append(paths)
            return change(*paths, **options)
        return step

    made(source, hidden_act="gelu")
    convert(open_model(str(source)), str(folder), to)
    models = {read(folder)}
    shutil.rmtree(source)
    made(source, hidden_act="relu")
    with monkeypatch.context() as patch:
        for module, name in ((os, "replace"), (tf.io.gfile, "remove")):
            patch.setattr(module, name, recorded(getattr(module, name)))
        convert(open_model(str(source)), str(folder), to)
    models.add(read(folder))
    found = set()
    for number in range(len(steps)):
        try:
            found.add(read(tmp_path / f"{number}"))
        except ValueError as error:
            assert re.match(f"(no checkpoint at )?{tmp_path}/{number}(:| has no )", str(error))
            found.add(None)
    assert found == {*models, None} and len(models) == 2


@pytest.mark.parametrize("to", [pytest.param(to, marks=pytest.mark.long if to == "tf_hub" else ()) for to in FORMATS])
def test_only_the_same_conversion_makes_a_finished_or_unfinished_output_again(tiny_spm, tmp_path, monkeypatch, to):
    bert = dict(cross_layer_sharing="none", embedding_size=TINY_TEXT.hidden_size)
    vocabulary = VocabularyFiles(spm_model_file=tiny_spm)
    for name in ("source", "other"):
        made(tmp_path / name, "ours", vocabulary=vocabulary, **(bert if to == "tf1_bert" else {}))
    source, folder = open_model(str(tmp_path / "source")), tmp_path / "converted"

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    for write in ("write_model_card", "write_settings" if to in ("ours", "tf1") else "write_model_card"):
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):  # as a kill leaves it
            patch.setattr(conversion, write, interrupted)
            convert(source, str(folder), to)
        assert to == "tf_hub" or (folder / FORMATS[to].last_file).exists() == (write == "write_model_card")
    convert(source, str(folder), to)
    files = {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert {"README.md", FORMATS[to].last_file} <= {*files}
    assert not any(name.endswith((".tmp", ".lock")) for name in files)
    with used_alone(str(folder), "export"):
        with pytest.raises(ValueError, match="converted is in use by another export: wait until it has ended"):
            convert(source, str(folder), to)
    convert(source, str(folder), to)
    assert {path.name for path in folder.rglob("*") if path.is_file()} == set(files)
    files = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    for other in FORMATS:
        for write in (lambda other: convert(open_model(str(tmp_path / "other")), str(folder), other),
                      lambda other: save_random(TINY, str(folder), other)):
            with pytest.raises(ValueError, match=f"there is already a model in {folder}: choose another directory"):
                write(other)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == files


@pytest.mark.parametrize("to", ["tf1", "tf1_bert"])
def test_the_releases_formats_take_no_other_epsilon_of_layer_norm(tmp_path, to):
    bert = dict(cross_layer_sharing="none", embedding_size=TINY.hidden_size)
    made(tmp_path / "source", layer_norm_eps=1e-5, **(bert if to == "tf1_bert" else {}))
    source = open_model(str(tmp_path / "source"))
    with pytest.raises(ValueError, match=f"layer_norm_eps 1e-05: choose another format than {to}"):
        convert(source, str(tmp_path / "new"), to)
    assert not list((tmp_path / "new").glob("*"))
    convert(source, str(tmp_path / "hf"), "hugging_face")
    assert open_model(str(tmp_path / "hf")).config.layer_norm_eps == 1e-5


def test_a_module_takes_no_head_of_a_task_and_none_that_was_never_trained(tiny_spm, tmp_path):
    vocabulary = VocabularyFiles(spm_model_file=tiny_spm)
    made(tmp_path / "span", kind="span", vocabulary=vocabulary)
    with pytest.raises(ValueError, match="TF-Hub module .* Received: AlbertSpan$"):
        convert(open_model(str(tmp_path / "span")), str(tmp_path / "new"), "tf_hub")
    made(tmp_path / "encoder", kind="encoder", vocabulary=vocabulary)
    convert(open_model(str(tmp_path / "encoder")), str(tmp_path / "new"), "tf_hub", "pretrainer")
    assert open_model(str(tmp_path / "new")).head == "encoder"


@pytest.mark.both_stacks
@pytest.mark.parametrize("checkpoint", ["model.ckpt-7", None])
def test_the_script_takes_the_flags_of_export_checkpoints(tmp_path, caplog, checkpoint):
    model = head_named("pretrainer").model(TINY)
    save_tf1_checkpoint(model, str(tmp_path / "albert/model.ckpt-7"), global_step=7)
    assert tf.train.load_checkpoint(str(tmp_path / "albert/model.ckpt-7")).get_tensor("global_step") == 7
    (tmp_path / "albert/albert_config.json").write_text(TINY.to_json_string())
    with loaded("convert_checkpoint") as script:
        assert script(albert_directory=tmp_path / "albert", export_path=tmp_path / "exported",
                      checkpoint_name=checkpoint) == 0
    after = values_of(albert_tf.from_pretrained(str(tmp_path / "exported"), model="pretrainer"))
    assert all(np.array_equal(value, after[name]) for name, value in values_of(model).items())


@pytest.mark.parametrize("to", [pytest.param(to, marks=pytest.mark.long if to == "tf_hub" else ()) for to in FORMATS])
def test_without_weights_a_config_is_written_with_random_ones(sentence_pieces, tmp_path, caplog, to):
    config = TINY_TEXT
    if to == "tf1_bert":
        config = config.replace(embedding_size=16, cross_layer_sharing="none")
    (tmp_path / "config.json").write_text(config.to_json_string())
    with loaded("convert_checkpoint") as script:
        assert script(albert_config_file=tmp_path / "config.json", spm_model_file=sentence_pieces.vocabulary_file,
                      to=to, output_dir=tmp_path / "random") == 0
    assert "the weights are random: the model has learned nothing" in caplog.text
    found = albert_tf.from_pretrained(str(tmp_path / "random"), model="pretrainer")
    assert found.config.differences(config) == {}
    keras.utils.set_random_seed(12345)
    for name, value in values_of(head_named("pretrainer").model(config)).items():
        np.testing.assert_array_equal(values_of(found)[name], value)


@pytest.mark.parametrize("flags, message", [
    (dict(output_dir="out"), "--init_checkpoint to weights, or --albert_config_file"),
    (dict(albert_config_file="albert_base_v2"), "--output_dir is missing"),
    (dict(albert_config_file="albert_base_v2", output_dir="out", model="classifier"), "labels of a classifier"),
    (dict(albert_directory="a", export_path="b", init_checkpoint="c"), "--init_checkpoint and --"),
    (dict(albert_directory="a", export_path="b", output_dir="c"), "--output_dir and --")])
def test_flags_that_do_not_tell_the_model_or_exclude_each_other_are_named(
        tmp_path, monkeypatch, capsys, flags, message):
    monkeypatch.chdir(tmp_path)
    with loaded("convert_checkpoint") as script:
        assert script(**flags) == 1
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
