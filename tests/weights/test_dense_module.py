"""The Dense module of sentence-transformers behind the pooling."""

import json
import shutil

import numpy as np
import onnxruntime
import pytest
import torch_files
from safetensors.numpy import load_file, save_file

import albert_tf
from albert_tf.export.conversion import convert
from albert_tf.export.onnx.writing import to_onnx
from albert_tf.weights.stored_model import open_model

INPUTS = dict(input_ids=np.array([[2, 5, 7, 3]], np.int32), input_mask=np.ones([1, 4], np.int32),
              segment_ids=np.zeros([1, 4], np.int32))


def vectors(path):
    return albert_tf.from_pretrained(str(path), model="sentence_encoder")(INPUTS)["sentence_embedding"].numpy()


@pytest.fixture
def with_dense(golden, tmp_path):
    """A function that adds a Dense module to a folder of sentence-transformers; the folder, and its weights."""
    def add(ending="safetensors", bias=True, **config):
        folder = shutil.copytree(golden / "sentence_transformers/mean_normalized", tmp_path / "st")
        hidden = json.loads((folder / "config.json").read_text())["hidden_size"]
        random = np.random.default_rng(1)
        tensors = {"linear.weight": random.normal(size=[5, hidden]).astype(np.float32)}
        if bias:
            tensors["linear.bias"] = random.normal(size=5).astype(np.float32)
        (folder / "2_Dense").mkdir()
        if ending == "safetensors":
            save_file(tensors, folder / "2_Dense/model.safetensors")
        else:
            torch_files.save(tensors, folder / "2_Dense/pytorch_model.bin", older=True)
        (folder / "2_Dense/config.json").write_text(json.dumps(dict(dict(
            in_features=hidden, out_features=5, bias=bias,
            activation_function="torch.nn.modules.activation.Tanh"), **config)))
        modules = json.loads((folder / "modules.json").read_text())
        modules.insert(2, dict(idx=2, name="2", path="2_Dense", type="sentence_transformers.models.Dense"))
        (folder / "modules.json").write_text(json.dumps(modules))
        return folder, tensors

    return add


@pytest.mark.parametrize("ending, bias, act, function", [
    ("safetensors", True, "activation.Tanh", np.tanh), ("bin", True, "linear.Identity", lambda x: x),
    ("bin", False, "activation.ReLU", lambda x: np.maximum(x, 0))])
def test_its_output_is_the_vector_and_is_normalized(golden, with_dense, ending, bias, act, function):
    folder, tensors = with_dense(ending, bias, activation_function=f"torch.nn.modules.{act}")
    model = albert_tf.from_pretrained(str(golden / "sentence_transformers/mean_normalized"), model="sentence_encoder",
                                      normalize=False)
    pooled = model(INPUTS)["sentence_embedding"].numpy()
    expected = function(pooled @ tensors["linear.weight"].T + tensors.get("linear.bias", 0))
    np.testing.assert_allclose(vectors(folder), expected / np.linalg.norm(expected), atol=1e-6)


@pytest.mark.parametrize("to", ["hugging_face", "ours", "tf1"])
def test_it_is_kept_by_conversions_and_exports(with_dense, tmp_path, to):
    folder, tensors = with_dense()
    convert(open_model(str(folder)), str(tmp_path / "new"), to)
    source = open_model(str(tmp_path / "new"))
    assert source.head == "sentence_encoder" and source.settings == open_model(str(folder)).settings
    np.testing.assert_array_equal(vectors(tmp_path / "new"), vectors(folder))
    if to == "hugging_face":
        written = load_file(tmp_path / "new/2_Dense/model.safetensors")
        assert written.keys() == tensors.keys()
        np.testing.assert_array_equal(written["linear.weight"], tensors["linear.weight"])
        steps = [module["path"] for module in json.loads((tmp_path / "new/modules.json").read_text())]
        assert steps == ["", "1_Pooling", "2_Dense", "3_Normalize"]
    model = albert_tf.from_pretrained(str(tmp_path / "new"), model="sentence_encoder")
    session = onnxruntime.InferenceSession(to_onnx(model))
    inputs = {each.name: INPUTS[each.name] for each in session.get_inputs()}
    np.testing.assert_allclose(session.run(["sentence_embedding"], inputs)[0], vectors(folder), atol=1e-5)
    assert model.vector_size == 5


@pytest.mark.parametrize("config, named", [
    (dict(activation_function="my.Activation"), "2_Dense/config.json .*my.Activation"),
    (dict(out_features="5"), "out_features|dense_size"), (dict(out_features=6), "shape|6"),
    (dict(module_output_name="token_embeddings"), "module_output_name")])
def test_what_is_not_computed_is_named(with_dense, config, named):
    folder, _ = with_dense(**config)
    with pytest.raises(ValueError, match=named) as error:
        vectors(folder)
    assert len(str(error.value).splitlines()) == 1
