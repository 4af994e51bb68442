"""Each way to name a model takes every format, or refuses it with one line."""

import re
import shutil
import tarfile

import pytest
import torch_files
from hub_modules import tf1_module, tf2_module
from safetensors.numpy import load_file
from script_session import ScriptSession
from synthetic_records import write_records
from tiny import TINY_TEXT

from albert_tf.export.conversion import save
from albert_tf.modeling.pretrainer import AlbertPretrainer
from albert_tf.weights.vocabulary import VocabularyFiles

pytestmark = pytest.mark.long

_TRAINING = dict(do_train=True, train_batch_size=2, train_step=1, save_checkpoints_steps=1)
# The flags of each script, formatted with the folders of `folder`, and the flag of what it writes.
SCRIPTS = {
    "fill_mask": (dict(text="the [MASK] of"), None),
    "extract_embeddings": (dict(input_file="{folder}/lines.txt"), "output_file"),
    "export_to_tfhub": ({}, "export_path"),
    "convert_checkpoint": (dict(to="hugging_face"), "output_dir"),
    "run_pretraining": (dict(input_file="{folder}/train.tfrecord", train_batch_size=2, num_train_steps=1,
                                num_warmup_steps=0, max_seq_length=16, max_predictions_per_seq=3), "output_dir"),
    "run_classifier": (dict(_TRAINING, task_name="rte", data_dir="{golden}/glue", cached_dir="{folder}/cached",
                               max_seq_length=24), "output_dir"),
}
FORMS = ("tf1", "pytorch", "tf1.tar.gz", "bert.tar.gz", "tf1/model.ckpt-best", "hugging_face", "run", "tf1_module",
         "tf2_module", "unknown_module", "served")
# What is said of a format that no script takes.
REFUSALS = {"unknown_module": "variables do not have the release's names",
            "served": "served has no albert_config.json"}


@pytest.fixture(scope="module")
def folder(golden, tmp_path_factory):
    """A tiny model in all formats, and the input files of the scripts."""
    folder = tmp_path_factory.mktemp("sources")
    vocabulary_file = str(golden / "tiny_spm/tiny.model")
    model = AlbertPretrainer(TINY_TEXT)
    for form, name in dict(tf1="tf1", hugging_face="hugging_face", tf_hub="tf2_module", ours="run").items():
        save(model, str(folder / name), form, VocabularyFiles(vocabulary_file, None, True))
    bert = TINY_TEXT.replace(embedding_size=TINY_TEXT.hidden_size, cross_layer_sharing="none")
    save(AlbertPretrainer(bert), str(folder / "bert"), "tf1_bert", VocabularyFiles(vocabulary_file, None, True))
    for name in ("tf1", "bert"):
        with tarfile.open(folder / f"{name}.tar.gz", "w:gz") as archive:
            archive.add(folder / name, f"{name}_tiny")
    shutil.copytree(folder / "hugging_face", folder / "pytorch")
    torch_files.save(load_file(folder / "pytorch/model.safetensors"), folder / "pytorch/pytorch_model.bin", older=True)
    (folder / "pytorch/model.safetensors").unlink()
    tf1_module(folder / "tf1_module", vocabulary_file, TINY_TEXT, lower=True)
    tf2_module(folder / "unknown_module", writes=str(folder / "written"))
    (folder / "lines.txt").write_text("a line\nanother line\n")
    write_records(folder / "train.tfrecord", 8)
    return folder


@pytest.fixture(scope="module")
def session(folder):
    with ScriptSession(eagerly=True) as session:
        session.run(script="fill_mask", init_checkpoint=folder / "tf1", export_dir=folder / "served")
        yield session


@pytest.mark.parametrize("form, script", [
    pytest.param(form, script, marks=[pytest.mark.slow]  # the export of a tokenizer takes seconds
                 if script == "export_to_tfhub" and form != "tf1" and form not in REFUSALS else [])
    for form in FORMS for script in SCRIPTS])
def test_a_script_takes_a_form_or_refuses_it_in_one_line(session, golden, folder, tmp_path, form, script):
    flags, output = SCRIPTS[script]
    flags = {name: str(value).format(folder=folder, golden=golden) for name, value in flags.items()}
    flags.update({output: tmp_path / "output.npy"} if output else {})
    source = "albert_hub_module_handle" if form == "tf1_module" else "init_checkpoint"
    flags["albert_directory" if script == "export_to_tfhub" else source] = folder / form
    refusal = REFUSALS.get(form)
    printed = session.run(script=script, expect=1 if refusal else 0, **flags)
    if refusal:
        assert printed.splitlines()[-1].startswith(f"{script}: error: ") and refusal in printed.splitlines()[-1]
    else:
        assert re.search(rf"{folder}/{form}\S*: \d+ variables restored", printed)
    assert not (folder / "written").exists()
