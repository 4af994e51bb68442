"""The scripts that export a model: as vectors, TF-Hub modules, SavedModels, TensorFlow Lite models."""

import importlib.util
import io
import pathlib
import re
import shutil
import sys

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the ops of the tokenization
from in_process import loaded
from script_session import ScriptSession
from tiny import TINY_TEXT

from albert_tf import keras
from albert_tf.config import CONFIG_NAME
from albert_tf.export.conversion import save
from albert_tf.export.onnx.session import OnnxModel, from_onnx
from albert_tf.modeling.classifier import AlbertClassifier
from albert_tf.modeling.pretrainer import AlbertPretrainer
from albert_tf.weights.tf1 import save_tf1_checkpoint
from albert_tf.weights.vocabulary import VocabularyFiles

pytestmark = pytest.mark.both_stacks

LINES = ["The name of the file", "", "of the"]
needs_onnx = pytest.mark.skipif(importlib.util.find_spec("onnxruntime") is None, reason="onnxruntime is missing")
every_export = pytest.mark.parametrize("script, length", [
    ("export_to_tflite", dict(max_seq_length=12)), pytest.param("export_to_onnx", {}, marks=needs_onnx)])


@pytest.fixture(scope="module")
def released(tmp_path_factory, golden):
    """A directory like a released one, and its model."""
    folder = tmp_path_factory.mktemp("released")
    shutil.copy(golden / "tiny_spm/tiny.model", folder / "30k-clean.model")
    config = TINY_TEXT.replace(num_hidden_layers=2, max_position_embeddings=16)
    (folder / CONFIG_NAME).write_text(config.to_json_string())
    keras.utils.set_random_seed(1)
    model = AlbertPretrainer(config)
    save_tf1_checkpoint(model, str(folder / "model.ckpt-best"))
    return folder, model


@pytest.fixture(scope="module")
def run():
    """Runs a script by its name. All run in one process, which makes the tables of the tokenizer's graph once."""
    with ScriptSession() as session:
        yield lambda script, **flags: session.run(script=script, **flags)


@pytest.fixture(scope="module")
def lines(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "lines.txt"
    path.write_text("\n".join(LINES) + "\n", encoding="utf-8")
    return path


@pytest.mark.long
def test_a_module_gives_the_vectors_of_a_pooling(run, released, lines, tmp_path):
    pooling = dict(pooling="mean", normalize=True)
    run("export_to_tfhub", albert_directory=released[0], export_path=tmp_path / "module", **pooling)
    run("extract_embeddings", init_checkpoint=tmp_path / "module", input_file=lines, output_file=tmp_path / "x.npy")
    encoder, preprocess = (tf.saved_model.load(str(tmp_path / name)) for name in ("module", "module_preprocess"))
    outputs = encoder(preprocess(tf.constant(LINES)))
    np.testing.assert_allclose(outputs["sentence_embedding"], np.load(tmp_path / "x.npy"), atol=1e-5)
    np.testing.assert_array_equal(outputs["default"], outputs["sentence_embedding"])
    np.testing.assert_allclose(np.linalg.norm(outputs["default"], axis=1), 1, atol=1e-5)
    card = (tmp_path / "module/README.md").read_text("utf-8")
    assert "| format | tf_hub |" in card and "pipeline_tag: sentence-similarity" in card
    assert f"| weights | {pathlib.Path(released[0]).name}/model.ckpt-best |" in card and "base_model" not in card


@every_export
def test_an_export_has_the_head_of_the_weights_and_the_pooling_of_the_flags(run, released, tmp_path, script, length):
    """The head is inferred as in conversion and serve, unless --model says another one."""
    ending, flags = script.rpartition("_")[2], dict(precision="float32", **length)
    save(AlbertClassifier(released[1].config, num_labels=3), str(tmp_path / "model"), "ours",
         VocabularyFiles(str(released[0] / "30k-clean.model")))
    for model, name in ((None, "classifier"), ("encoder", "encoder")):
        run(script, init_checkpoint=tmp_path / "model", output_dir=tmp_path / name, model=model, **flags)
        assert [path.name for path in tmp_path.glob(f"{name}/*.{ending}")] == [f"{name}_float32.{ending}"]
    flags.update(init_checkpoint=released[0], output_dir=tmp_path / "vectors", pooling="cls", normalize=True)
    printed = run(script, model="sentence_encoder", **flags)
    assert float(re.search(r"sentence_embedding +(\S+)", printed)[1]) < 1e-5


@needs_onnx
def test_an_onnx_model_beside_other_weights_is_refused_and_keeps_its_labels(run, released, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, labels in (("reviews", ("bad", "good")), ("turned", ("good", "bad"))):
        model = AlbertClassifier(released[1].config, 2, label_names=labels)
        save(model, name, "ours", VocabularyFiles(str(released[0] / "30k-clean.model")))
    save(model, "hugging_face", "hugging_face")

    def export(weights, folder, precision="float32", **flags):
        return run("export_to_onnx", init_checkpoint=weights, output_dir=folder, precision=precision, **flags)

    export("reviews", "onnx")
    export("reviews", "onnx", "int8")
    files = sorted(tmp_path.glob("onnx/*"))
    for weights, difference in (("turned", "label_names"), (released[0], "head, label_names")):
        assert (f"onnx/classifier_float32.onnx is of a model with another {difference}: export each model "
                "to a separate directory") in export(weights, "onnx", "float16", expect=1)
    assert sorted(tmp_path.glob("onnx/*")) == files
    for folder, file in (("turned", "model.ckpt-best.index"), ("hugging_face", "model.safetensors")):
        assert f"{folder}/{file} is of a model with another label_names" in export("reviews", folder, expect=1)
        export(folder, folder)  # beside the same weights
    (tmp_path / "reviews/model.ckpt-3.index").touch()
    assert "reviews has the checkpoints of a training run, which needs its own settings there" in export(
        released[0], "reviews", expect=1)
    assert from_onnx("onnx/classifier_int8.onnx").settings.label_names == ("bad", "good")


@needs_onnx
def test_layouts_for_other_programs_have_the_files_that_these_read(run, released, tmp_path):
    folder = tmp_path / "theirs"
    printed = run("export_to_onnx", init_checkpoint=released[0], output_dir=folder, layout="hugging_face")
    files = {"config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "spiece.model",
             "albert_tf.json", "README.md"}
    models = {"onnx/model.onnx", "onnx/model_fp16.onnx", "onnx/model_quantized.onnx"}
    assert names_in(folder) == files | models and all(name in printed for name in models)
    printed = run("export_to_onnx", expect=1, init_checkpoint=released[0], output_dir=tmp_path / "page", layout="web",
                  node_modules=tmp_path)
    assert "package.json does not exist: run `npm install" in printed and not (tmp_path / "page").exists()
    for name in ("onnxruntime-web/dist/ort.wasm.bundle.min.mjs", "onnxruntime-web/dist/ort-wasm-simd-threaded.wasm",
                 "@huggingface/tokenizers/dist/tokenizers.min.mjs", "@huggingface/tokenizers/LICENSE"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "onnxruntime-web/package.json").write_text('{"version": "1.30.0"}')
    (tmp_path / "@huggingface/tokenizers/package.json").write_text('{"version": "0.2.0"}')
    run("export_to_onnx", init_checkpoint=released[0], output_dir=tmp_path / "page", layout="web",
        node_modules=tmp_path)
    page = {"index.html", "style.css", "page.js", "backend.js", "models.json", "onnxruntime.js", "onnxruntime.wasm",
            "tokenizers.js", "tokenizers.LICENSE"}
    assert names_in(tmp_path / "page") == files | page | {"onnx/model_quantized.onnx"}
    assert (tmp_path / "page/tokenizers.js").read_text() == "@huggingface/tokenizers/dist/tokenizers.min.mjs"
    assert from_onnx(str(tmp_path / "page")).head.name == "pretrainer"


def names_in(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("[!.]*") if path.is_file()}


def test_a_line_without_a_mask_does_not_end_the_filling_of_a_file(released, monkeypatch, capsys, caplog):
    lines = b"the [MASK] of\r\n\r\nno mask\n" + b"of " * 40 + b"[MASK]\n[MASK] name\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines)))
    with loaded("fill_mask") as run:
        assert run(init_checkpoint=released[0]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert [line for line in printed if "[MASK]" in line] == ["the [MASK] of", "[MASK] name"]
    assert "line 3: there is no [MASK]" in caplog.text and "line 4: the text has 43 tokens, but the" in caplog.text


@needs_onnx
def test_onnx_runtime_fills_the_lines_of_standard_input_where_it_is_installed(released, monkeypatch, capsys):
    printed, computed, call = [], [], OnnxModel.__call__
    monkeypatch.setattr(OnnxModel, "__call__", lambda *arguments: computed.append(1) or call(*arguments))
    for packages in ("both", "none"):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"the [MASK] of\n[MASK] name [MASK]\n")))
        with monkeypatch.context() as patched, loaded("fill_mask") as run:
            if packages == "none":
                patched.setattr(importlib.util, "find_spec", lambda package: None)
            assert run(init_checkpoint=released[0]) == 0
        printed.append(capsys.readouterr().out)
    assert len(computed) == 2 and printed[0] == printed[1] and len(printed[0].splitlines()) == 5
