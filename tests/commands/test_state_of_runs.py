"""A run keeps what it was trained with: config, settings, vocabulary, weights; another task or model is refused."""

import json
import os
import shutil

import numpy as np
import pytest
from script_session import ScriptSession
from tiny import TINY_TEXT
from tuning import end_of, files_in

CONFIG = TINY_TEXT.replace(num_hidden_layers=2, initializer_range=0.3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    write_config(folder / "config.json")
    return folder


def write_config(path, **changes):
    path.write_text(CONFIG.replace(**changes).to_json_string())
    return path


@pytest.fixture(scope="module")
def script(golden, folder):
    flags = dict(task_name="rte", data_dir=golden / "glue", cached_dir=folder / "cached", train_batch_size=4,
                 train_step=1, learning_rate=0.01)
    with ScriptSession("run_classifier", eagerly=True, **flags) as session:
        yield session


@pytest.fixture(scope="module")
def new(tiny_spm, folder):
    """The flags of a new run from random weights."""
    return dict(albert_config_file=folder / "config.json", spm_model_file=tiny_spm,
                max_seq_length=24, do_train=True)


@pytest.fixture(scope="module")
def shared(script, folder, new):
    """A run with layers that share their weights."""
    script.run(output_dir=folder / "shared", **new)
    return folder / "shared"


@pytest.fixture(scope="module")
def apart(script, folder, shared):
    """A run with its own config, which started from `shared`: unshared layers and dropout."""
    script.run(output_dir=folder / "apart", init_checkpoint=shared, unshare_layers=True, hidden_dropout_prob=0.25,
               max_seq_length=24, do_train=True, train_step=2, do_eval=True, save_checkpoints_steps=1)
    return folder / "apart"


def answers(directory):
    return np.loadtxt(directory / "test_results.tsv")


def digests(directory):
    """The content of the files that describe a run, and of its checkpoints."""
    return {name: content for name, content in files_in(directory).items() if not name.startswith(("test_", "submit_"))}


@pytest.mark.both_stacks
def test_a_run_predicts_and_is_evaluated_with_its_own_config_whatever_weights_are_set(script, apart, shared, folder):
    script.run(output_dir=apart, do_predict=True)
    expected, before = answers(apart), digests(apart)
    printed = script.run(output_dir=apart, init_checkpoint=shared, do_predict=True, do_eval=True)
    assert ("cross_layer_sharing is none in the run and all in --init_checkpoint: the run in --output_dir="
            f"{apart} is used as it was trained") in printed
    np.testing.assert_array_equal(answers(apart), expected)
    script.run(output_dir=apart, albert_config_file=write_config(folder / "heads.json", num_attention_heads=4),
               do_predict=True)
    np.testing.assert_array_equal(answers(apart), expected)
    assert digests(apart) == before
    assert end_of(apart, "best").keys() == end_of(apart).keys()
    assert json.loads((apart / "albert_config.json").read_text())["hidden_dropout_prob"] == 0.25


@pytest.mark.parametrize("flags, message", [
    (dict(init_checkpoint="shared"), "cross_layer_sharing is none in the run and all in --init_checkpoint"),
    (dict(do_lower_case=False, init_checkpoint="shared", unshare_layers=True),
     "do_lower_case is True in the run and False in --do_lower_case")])
def test_a_run_is_not_continued_as_another_model(script, apart, shared, folder, flags, message):
    before = digests(apart)
    printed = script.run(expect=1, output_dir=apart, do_train=True, train_step=3,
                         **{**flags, "init_checkpoint": folder / flags["init_checkpoint"]})
    assert f"the run in --output_dir={apart} cannot be continued with these flags: {message}" in printed
    assert digests(apart) == before


def test_damaged_settings_and_a_damaged_checkpoint_do_not_keep_a_run_from_continuing(script, shared, folder, new):
    directory = folder / "damaged"
    shutil.copytree(shared, directory)
    settings = json.loads((shared / "albert_tf.json").read_text())
    for name in ("albert_tf.json", "albert_config.json", "tokenizer_config.json", "model.ckpt-2.index"):
        if (directory / name).exists():
            os.truncate(directory / name, 0)
    printed = script.run(output_dir=directory, train_step=3, **new)
    assert f"{directory}/albert_tf.json is damaged, and is made again" in printed
    assert json.loads((directory / "albert_tf.json").read_text()) == settings
    assert (directory / "model.ckpt-3.index").exists()


def test_members_that_read_texts_in_different_ways_are_refused(script, shared, folder, new):
    script.run(output_dir=folder / "longer", **dict(new, max_seq_length=32))
    printed = script.run(expect=1, output_dir=folder / "refused", do_predict=True,
                         ensemble_checkpoints=f"{shared},{folder / 'longer'}")
    assert (f"the predictions of {shared}/model.ckpt-1 and {folder}/longer/model.ckpt-1 cannot be averaged: "
            "max_seq_length is 24 in the first and 32 in the second") in printed
    assert not (folder / "refused").exists()


def test_a_member_does_not_get_the_config_of_another(script, shared, folder):
    member = shutil.copytree(shared, folder / "member")
    (member / "albert_config.json").unlink()
    printed = script.run(expect=1, output_dir=folder / "refused", do_predict=True,
                         ensemble_checkpoints=f"{shared},{member}")
    assert "has no config" in printed.splitlines()[-1] and not (folder / "refused").exists()


def test_a_run_without_settings_is_known_by_its_variables(script, shared, folder):
    directory = folder / "earlier"
    shutil.copytree(shared, directory)
    (directory / "albert_tf.json").unlink()
    script.run(output_dir=directory, do_predict=True, max_seq_length=24)
    script.run(output_dir=shared, do_predict=True)
    np.testing.assert_array_equal(answers(directory), answers(shared))
    printed = script.run(expect=1, script="run_tagging", task_name=None, data_dir=None, output_dir=directory,
                         do_train=True, train_file="train.conll")
    assert "has a run of classification, and this is tagging" in printed
    printed = script.run(expect=1, task_name="sts-b", output_dir=shared, do_train=True)
    assert "was trained with the labels entailment, not_entailment (albert_tf.json), but the task is a" in printed
