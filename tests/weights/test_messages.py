"""Damaged, unknown and unsafe files: each ends in one line with the file and what is wrong with it."""

import json
import re
import shutil
import tarfile

import numpy as np
import pytest
import tensorflow as tf
from hub_modules import TINY as MODULE_CONFIG, tf1_module, tf2_module
from safetensors.numpy import load_file, save_file
from tiny import TINY_TEXT

import albert_tf
from albert_tf.export.conversion import convert
from albert_tf.weights import stored_model
from albert_tf.weights.stored_model import open_model

pytestmark = pytest.mark.both_stacks
HF, OURS, WEIGHTS, INDEX = ("token_classifier", "hugging_face"), ("token_classifier", "ours"), "model.safetensors", (
    "model.safetensors.index.json")
KERAS, VECTORS, RANKER = "keras_hub/classifier", "sentence_transformers/mean_normalized", "sentence_transformers/cls"
IDENTITY = "albert.encoder.embedding_hidden_mapping_in."


def read(path):
    """All that is read of a folder: weights, config, settings, vocabulary."""
    source = open_model(str(path))
    model = albert_tf.from_pretrained(str(path), model=source.head)
    return model, source.vocabulary and source.vocabulary.tokenizer()


def fails(path, *parts, use=read):
    """Checks that a use of a path fails with one line that has all of these parts."""
    with pytest.raises(ValueError) as error:
        use(str(path))
    text = str(error.value)
    assert all(part in text for part in parts) and "\n" not in text, text


def of(value):
    """A change that makes a value of JSON; a dict's keys are added to those of the file."""
    def change(path):
        values = json.loads(path.read_text()) if path.exists() else {}
        path.write_text(json.dumps({**values, **value} if isinstance(values, dict) and isinstance(value, dict)
                                   else value(values) if callable(value) else value))

    return change


def settings(**values):
    return lambda path: path.write_text(json.dumps(values))


def cut(size):
    return lambda path: path.write_bytes(path.read_bytes()[:size])


def content(value):
    return lambda path: path.write_bytes(value)


def write_over(path, values):
    """Replaces a file of weights, and removes the manifest, which has its checksum."""
    save_file(values, path)
    (path.parent / ".hugging_face.manifest.json").unlink()


def tensors(**changes):
    """A change of tensors by functions; "__" stands for "."."""
    def change(path):
        values = load_file(path)
        for name, function in changes.items():
            values[name.replace("__", ".")] = function(values)
        write_over(path, values)

    return change


def link(make):
    """A change that replaces a value in a file of HDF5 by what `make` makes; None for nothing."""
    def change(path):
        h5py = pytest.importorskip("h5py")
        with h5py.File(path, "a") as file:
            del file["layers/dense/vars/0"]
            value = make(h5py, file, "layers/dense/vars/0")
            if value is not None and not isinstance(value, h5py.Dataset):
                file["layers/dense/vars/0"] = value

    return change


# The model and format of conftest.written or a golden folder; the file, the mistake, and what the error must name
# besides the file; for None, the folder in place of the file.
MISTAKES = [
    (HF, "config.json", of(dict(model_type="roberta")), ["'roberta'"]),
    (HF, "config.json", of(dict(hidden_size=32)), [None, "[8, 16]", "[8, 32]"]),
    (HF, "config.json", of(dict(id2label={"1": "O"})), ["id2label", "from 0"]),
    (HF, "config.json", of(dict(id2label={"0": "O", "1": "B-\nplace", "2": "I"})), ["id2label", "'B-"]),
    (("classifier", "hugging_face"), "config.json", of(dict(problem_type="regression")), ["one label", "2"]),
    (HF, WEIGHTS, content((10 * 2**30).to_bytes(8, "little") + b"{}"), ["safetensors file", "too large"]),
    (HF, WEIGHTS, content(b""), ["safetensors file"]), (HF, WEIGHTS, cut(-10), ["safetensors file"]),
    (HF, WEIGHTS, content(b"\x80\x04\x95 a pickle"), ["safetensors file"]),
    (HF, WEIGHTS, lambda path: path.unlink(), [WEIGHTS]),
    (HF, WEIGHTS, lambda path: (np.savez(path.parent / "vectors.npz", a=1), path.unlink()),
     [None, f"has no {WEIGHTS}"]),
    (HF, WEIGHTS, lambda path: path.rename(path.parent / "pytorch_model.bin"), ["pytorch_model.bin", "torch.save"]),
    (HF, WEIGHTS, lambda path: path.rename(path.parent / "pytorch_model-00001-of-00001.bin"), [
        None, f"has no {WEIGHTS}"]),
    (HF, WEIGHTS, tensors(classifier__bias=lambda values: values["classifier.bias"].astype(np.int32)),
     ["classifier.bias", "I32"]),
    (("pretrainer", "hugging_face"), WEIGHTS, tensors(predictions__decoder__weight=lambda values: values[
        "albert.embeddings.word_embeddings.weight"] + 1), [None, "predictions.decoder.weight", "word embeddings"]),
    (HF, "adapter_config.json", content(b"{}"), ["PEFT", "merge_and_unload"]),
    *((HF, INDEX, lambda path, name=name: (path.write_text(json.dumps(dict(weight_map=dict(a=name)))),
                                           (path.parent / WEIGHTS).unlink()), ["its own folder"])
      for name in ("../model.safetensors", 1, "/etc/model.safetensors", "x.bin")),
    (HF, "spiece.model", content(b"no model"), ["spiece.model"]),
    (HF, "albert_tf.json", settings(head="classifier", depth=3), ["'depth'", "head"]),
    (KERAS, "config.json", of(dict(class_name="GemmaBackbone")), ["'GemmaBackbone'"]),
    (KERAS, "config.json", of(dict(config={})), ["embedding_dim, hidden_dim"]),
    (KERAS, "task.json", of(dict(class_name="AlbertTagger")), ["AlbertTextClassifier", "'AlbertTagger'"]),
    (KERAS, "task.json", of(dict(class_name=["AlbertTagger"])), ["AlbertTextClassifier", "['AlbertTagger']"]),
    *((KERAS, "model.weights.h5", change, parts) for change, parts in [
        (cut(-500), []), (content(b"nothing"), []), (link(lambda *_: None), ["layers/dense/vars/0", "damaged"]),
        (link(lambda h5py, *_: h5py.ExternalLink("x.h5", "/a")), ["vars/0", "link"]),
        (link(lambda h5py, *_: h5py.SoftLink("/layers/dense_1")), ["vars/0", "link"]),
        (link(lambda *_: "text"), ["vars/0", "floating-point"]),
        (link(lambda _, file, place: file.create_dataset(place, [10**5, 10**5], "f4", chunks=True)), [
            "40,000,000,000 bytes"])]),
    (VECTORS, "config_sentence_transformers.json", of(dict(prompts=["a"])), ["prompts"]),
    (VECTORS, "config_sentence_transformers.json", of(dict(truncate_dim=0)), ["truncate_dim"]),
    (VECTORS, "modules.json", of(lambda values: values[:1]), ["Transformer, Pooling"]),
    (VECTORS, "modules.json", of(lambda values: [*values, dict(path="3", type="sentence_transformers.models.Dense")]),
     ["Transformer, Pooling, Normalize", "Dense"]),
    (VECTORS, "modules.json", of(lambda values: [dict(values[0], type="custom.Transformer"), *values[1:]]), ["custom"]),
    (VECTORS, "modules.json", of(lambda values: [dict(values[0], path="../x"), *values[1:]]), ["path", "x"]),
    (VECTORS, "modules.json", of(lambda values: dict(a=1)), ["list"]),
    (VECTORS, "1_Pooling/config.json", of(dict(pooling_mode="lasttoken")), ["mean, max, cls, pooler", "lasttoken"]),
    (VECTORS, "1_Pooling/config.json", of(lambda _: dict(pooling_mode_mean_tokens=True, pooling_mode_max_tokens=True)),
     ["mean, max, cls, pooler"]),
    *((RANKER, "tokenizer.json", content(json.dumps(values).encode()), parts) for values, parts in [
        (dict(model=dict(type="BPE"), added_tokens=[]), ["KeyError"]),
        (dict(model=dict(type="Unigram", unk_id=0, vocab=[["a"]]), added_tokens=[]), []),
        (dict(model=dict(type="WordPiece"), added_tokens=[]), ["KeyError"]), ({}, ["KeyError"]),
        (dict(model=[]), ["KeyError"]),
        (dict(model=dict(type="Unigram", unk_id=0, vocab=[["<unk>", 0.0], ["a", -1.0]]), added_tokens=[]), ["["])]),
    (HF, "added_tokens.json", of({"x": "6000"}), ["whole number", "'6000'"]),
    (HF, "tokenizer.json", of(dict(added_tokens=[{}])), ["content"]),
    *((OURS, "tokenizer_config.json", settings(**values), parts) for values, parts in [
        (dict(added_tokens_decoder={"9000": dict(content="x")}), [None, "'x'", "9000"]),
        (dict(keep_accents="yes"), ["keep_accents", "'yes'"]), (dict(strip_accents=1), ["strip_accents", "1"]),
        (dict(strip_accents=True, do_lower_case=False), ["strip_accents", "do_lower_case"])]),
    (OURS, "tokenizer_config.json", content(b"no JSON"), ["line 1"]),
    (OURS, "tokenizer_config.json", content(b"{"), []),
    *((OURS, "albert_tf.json", settings(**values), parts) for values, parts in [
        (dict(head="classifier", window_pooling="sum"), ["window_pooling", "mean, max", "'sum'"]),
        (dict(head="classifier", max_windows=0), ["max_windows", "1 to 10,000"]),
        (dict(head="classifier", doc_stride=-1), ["doc_stride", "0 to 65,536"]),
        (dict(head="multiple_choice", num_choices="5"), ["num_choices", "1 to 10,000"]),
        (dict(head="classifier", multi_label=1), ["multi_label", "true or false", "1"]),
        (dict(head="classifier", temperature=0.0), ["temperature", "1e-06", "0.0"]),
        (dict(head="classifier", thresholds=[0.5, 2.0]), ["thresholds", "at most 1"]),
        (dict(head=3), ["head", "encoder, ", "3"]),
        (dict(head="spam"), ["head", "encoder, "]),
        (dict(max_windows=3), ["head", "encoder, ", "None"]),  # as version 0.3 wrote it
        (dict(head="span", max_windows=3), ["'max_windows'"]),
        (dict(head="classifier", label_names="good"), ["label_names", "'good'"]),
        (dict(head="classifier", label_names=["bad", 3]), ["label_names", "3"]),
        (dict(head="classifier", label_names=["bad", "go\nod"]), ["label_names"])]),
    (OURS, "albert_config.json", content(b"{"), []), (OURS, "model.ckpt-best.index", cut(100), []),
    (OURS, "model.ckpt-best.index", content(b"no index"), []),
    (OURS, "model.ckpt-best.data-00000-of-00001", cut(100), []),
]


@pytest.mark.parametrize("place, file, change, parts", MISTAKES,
                         ids=[f"{i}-{row[1]}" for i, row in enumerate(MISTAKES)])
def test_a_file_with_a_mistake_is_named_in_one_line(copied, golden, tmp_path, place, file, change, parts):
    folder = shutil.copytree(golden / place, tmp_path / "model") if isinstance(place, str) else copied(*place)[1]
    change(folder / file)
    renamed = [part for part in parts if part and part.endswith(".bin")]
    named = [] if None in parts or renamed else [re.sub(r"\.(index|data.*)$", "", file)]
    fails(folder, str(folder), *named, *filter(None, parts))


@pytest.mark.parametrize("place, file, change", [
    (OURS, "albert_config.json", content(b"{")), (OURS, "model.ckpt-best.index", content(b"no index")),
    (OURS, "tiny.model", content(b"no model")), (OURS, "tokenizer_config.json", content(b"{")),
    (HF, "tokenizer.json", content(b"{")),
    (HF, WEIGHTS, lambda path: path.rename(path.parent / "pytorch_model.bin"))],
    ids=lambda value: getattr(value, "__name__", str(value))[:30])
def test_a_damaged_file_is_named_as_one_in_the_archive(copied, tmp_path, place, file, change):
    _, folder = copied(*place)
    change(folder / file)
    path = tmp_path / "model.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        archive.add(folder, "model")
    fails(path, f"{path}/", "pytorch_model.bin" if file == WEIGHTS else file.removesuffix(".index"))


@pytest.mark.parametrize("change", ["weight", "bias"])
def test_a_mapping_where_e_is_h_must_be_the_identity(tmp_path, change):
    config = TINY_TEXT.replace(embedding_size=TINY_TEXT.hidden_size)
    albert_tf.save_pretrained(albert_tf.AlbertModel(config), str(tmp_path), to="hugging_face")
    values = load_file(tmp_path / WEIGHTS)
    np.testing.assert_array_equal(values[f"{IDENTITY}weight"], np.eye(16))
    assert not values[f"{IDENTITY}bias"].any()
    values[IDENTITY + change][0] += 1
    write_over(tmp_path / WEIGHTS, values)
    fails(tmp_path, "embedding_hidden_mapping_in", "identity")


@pytest.mark.parametrize("to", ["ours", "tf1", "hugging_face"])
def test_weights_that_are_not_finite_are_refused_by_file_and_variable(tmp_path, to):
    model = albert_tf.AlbertModel(TINY_TEXT)
    model.pooler.kernel.assign(tf.tensor_scatter_nd_update(model.pooler.kernel, [[0, 1], [7, 3]], [np.nan, -np.inf]))
    albert_tf.save_pretrained(model, str(tmp_path), to=to)
    for use in (read, lambda path: convert(open_model(path), f"{path}/again", "ours")):
        fails(tmp_path, str(tmp_path), "2 of the 256 values of bert/pooler/dense/kernel", "NaN", use=use)


@pytest.mark.parametrize("make", [tf1_module, lambda path, _: tf2_module(path, albert_tf.AlbertModel(MODULE_CONFIG))],
                         ids=["tf1", "tf2"])
def test_damaged_files_of_a_module_are_named(tmp_path, tiny_spm, make):
    make(tmp_path / "module", tiny_spm)
    for name, size in (("variables/variables.index", 40), ("variables/variables.data-00000-of-00001", 40),
                       ("saved_model.pb", 0)):
        path = tmp_path / "module" / name
        whole = path.read_bytes()
        path.write_bytes(whole[:size] or b"\xff\xff no graph")
        fails(tmp_path / "module", "module", use=lambda path: albert_tf.from_pretrained(path, config=MODULE_CONFIG))
        path.write_bytes(whole)


def test_an_index_with_more_values_than_the_data_files_is_refused_at_once(tmp_path):
    prefix = str(tmp_path / "model.ckpt")
    tf.raw_ops.SaveV2(prefix=prefix, tensor_names=["output_weights", "a text"],
                      tensors=[tf.ones([4, 4]), tf.constant("b")],
                      shape_and_slices=["1000000 1000000 0,4:0,4", ""])
    fails(prefix, "model.ckpt", "4,000,000,000,000 bytes", "7", use=open_model)


def test_a_checkpoint_has_at_most_as_many_tensors_as_a_file_of_safetensors(tmp_path, monkeypatch):
    monkeypatch.setattr(stored_model, "_MOST_TENSORS", 2)
    for name, count in (("fits.ckpt", 2), ("model.ckpt", 3)):
        tf.raw_ops.SaveV2(prefix=str(tmp_path / name), tensor_names=["a", "b", "c"][:count],
                          tensors=[tf.zeros([])] * count, shape_and_slices=[""] * count)
    assert len(open_model(str(tmp_path / "fits.ckpt")).tensors) == 2
    fails(tmp_path / "model.ckpt", "model.ckpt has 3 tensors", "at most 2", use=open_model)
