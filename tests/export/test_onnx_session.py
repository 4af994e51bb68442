"""OnnxModel is called like the Keras model that it was made from, and refuses files that are not its own."""

import ast
import functools
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
from documentation import Page
from new_head import SETTINGS, head_of_name, model_with_settings
from script_session import REPOSITORY
from tiny import TINY_TEXT, rows

import albert_tf
from albert_tf.export.onnx.session import OnnxModel, from_onnx
from albert_tf.export.onnx.writing import to_onnx, write_companions
from albert_tf.modeling.settings import ClassifierSettings, SpanSettings
from albert_tf.tasks.squad.answers import NO_SCORE
from albert_tf.weights.heads import head_named
from albert_tf.weights.vocabulary import VocabularyFiles

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.both_stacks


@pytest.fixture(scope="module")
def exported(sentence_pieces, tmp_path_factory):
    """A function from a name in new_head.SETTINGS to the model and its export, opened from a folder."""
    @functools.lru_cache(maxsize=None)
    def make(name):
        model = model_with_settings(name, TINY_TEXT.replace(initializer_range=0.5))
        folder = tmp_path_factory.mktemp(name)
        (folder / "x.onnx").write_bytes(to_onnx(model))
        write_companions(model, str(folder), VocabularyFiles.from_tokenizer(sentence_pieces))
        return model, from_onnx(str(folder))

    return make


@pytest.mark.parametrize("name", [name for name in SETTINGS if name != "phoneme_pretrainer"])
def test_an_export_has_the_attributes_of_the_model(exported, name):
    model, export = exported(name)
    assert export.head.name == head_of_name(name) and export.config == model.config
    assert export.settings == model.settings and export.row_length == model.row_length
    if hasattr(model, "num_labels"):
        assert export.num_labels == model.num_labels


def test_questions_without_an_answer_have_no_score(exported, sentence_pieces):
    for head in ("span", "conditional_span"):
        export = exported(head)[1]
        answers = albert_tf.answer_questions(export, sentence_pieces, ["which name?", "what?"], ["a file", ""])
        assert answers[1][:4] == ("", 0, 0, NO_SCORE)
        assert (answers[0].no_answer_score is None) == (head == "span")


@pytest.mark.parametrize("head, use, parts", [
    ("span", lambda export: albert_tf.classify_texts(export, export.tokenizer, ["a"]), "OnnxModel with the head span"),
    ("span", lambda export: albert_tf.fill_masks(export, export.tokenizer, "[MASK]"), "OnnxModel with the head span"),
    ("classifier", lambda export: albert_tf.answer_questions(export, export.tokenizer, ["a"], ["b"]),
     'model="span" or "conditional_span".*OnnxModel with the head class'),
    ("encoder", lambda export: export(dict(input_ids=[[1]])), "input_mask, segment_ids.*input_ids"),
    ("encoder", lambda export: export({**rows(3), "input_ids": np.array([[10**6] * 3], np.int32)}), "x.onnx refuses")])
def test_another_head_and_wrong_inputs_are_named(exported, head, use, parts):
    with pytest.raises(ValueError, match=parts):
        use(exported(head)[1])


@pytest.mark.parametrize("files, path, parts", [
    ((), "none", "none does not exist$"), ((), "", "no .onnx file: .*export_to_onnx$"),
    (("saved_model.pb",), "saved_model.pb", "saved_model.pb is no .onnx file"),
    (("b.onnx", "a.onnx"), "", "choose .*/a.onnx or .*/b.onnx"),
    (("model.onnx",), "", "model.onnx is not an ONNX model: ")])
def test_a_folder_without_a_model_says_what_to_do(tmp_path, files, path, parts):
    for name in files:
        (tmp_path / name).write_bytes(b"no protobuf")
    with pytest.raises(ValueError, match=f"^{tmp_path}.*{parts}"):
        from_onnx(str(tmp_path / path))


@pytest.mark.parametrize("metadata, parts", [
    ({}, "export_to_onnx of this version"), (dict(head="poet", config=TINY_TEXT.to_json_string()), "'poet'"),
    *((dict(head="encoder", config=value), "^the ONNX model: the config in its metadata") for value in (
        "[1]", "no json", "7", "[" * 100_000)),
    (dict(head="classifier", config=TINY_TEXT.to_json_string()), "lacks logits, .* head classifier")])
def test_files_of_other_programs_are_refused(metadata, parts):
    model = onnx.load_from_string(to_onnx(head_named("encoder").model(TINY_TEXT)))
    del model.metadata_props[:]
    onnx.helper.set_model_props(model, metadata)
    with pytest.raises(ValueError, match=parts):
        OnnxModel(model.SerializeToString())


@pytest.mark.parametrize("head, name, dims", [
    ("multiple_choice", "input_ids", ["a", "b", "c"]), ("conditional_span", "start_top_index", ["batch", "n"])])
def test_sizes_that_the_answers_need_must_be_fixed(head, name, dims):
    model = onnx.load_from_string(to_onnx(model_with_settings(head, TINY_TEXT)))
    for value in (*model.graph.input, *model.graph.output):
        if value.name == name:
            value.type.CopyFrom(onnx.helper.make_tensor_type_proto(value.type.tensor_type.elem_type, dims))
    with pytest.raises(ValueError, match=f"the ONNX model: {name} must have a fixed size"):
        OnnxModel(model.SerializeToString())


def test_metadata_that_is_not_utf8_is_one_line():
    content = to_onnx(head_named("encoder").model(TINY_TEXT)).replace(b"encoder", b"encod\xff\xff")
    with pytest.raises(ValueError, match="^the ONNX model cannot be read"):
        OnnxModel(content)


def test_settings_of_another_model_are_refused():
    classifier = to_onnx(head_named("classifier").model(TINY_TEXT, num_labels=2))
    with pytest.raises(ValueError, match="albert_tf.json .* head span, and .* has the head"):
        OnnxModel(classifier, SpanSettings())
    with pytest.raises(ValueError, match="albert_tf.json has 3 names for the 2 labels"):
        OnnxModel(classifier, ClassifierSettings(label_names=("a", "b", "c")))


def _in(place, tensor):
    """A model that has a tensor at a place where ONNX allows one."""
    helper, proto = onnx.helper, onnx.AttributeProto
    model = helper.make_model(helper.make_graph([], "g", [], []))
    graph, node = model.graph, onnx.NodeProto(op_type="If")
    kind, _, at = place.partition(" ")
    if kind == "attribute":
        node.attribute.append(proto(name="a", type=proto.TENSOR, t=tensor))
    elif kind == "attributes":
        node.attribute.append(proto(name="a", type=proto.TENSORS, tensors=[tensor]))
    elif kind == "sparse":
        node.attribute.append(proto(name="a", type=proto.SPARSE_TENSOR, sparse_tensor=onnx.SparseTensorProto(
            **{at: tensor})))
    elif kind == "subgraph":
        inner = onnx.GraphProto(name="inner", initializer=[tensor])
        node.attribute.append(proto(name="a", type=proto.GRAPHS, graphs=[inner]))
    elif kind == "function":
        node.attribute.append(proto(name="a", type=proto.TENSOR, t=tensor))
        model.functions.append(onnx.FunctionProto(name="f", node=[node]))
    elif kind == "training":
        model.training_info.append(onnx.TrainingInfoProto(algorithm=onnx.GraphProto(initializer=[tensor])))
    elif kind == "initializer":
        graph.initializer.append(tensor)
    else:
        graph.sparse_initializer.append(onnx.SparseTensorProto(values=tensor))
    if kind in ("attribute", "attributes", "sparse", "subgraph"):
        graph.node.append(node)
    return model


@pytest.mark.parametrize("place", [
    "initializer", "sparse_initializer", "attribute", "attributes", "sparse values", "sparse indices", "subgraph",
    "function", "training"])
@pytest.mark.parametrize("values", [
    dict(data_location=1), dict(external_data=[onnx.StringStringEntryProto(key="location", value="/etc/passwd")]),
    dict(data_location=1, external_data=[onnx.StringStringEntryProto(key="location", value="*/_ORT_MEM_ADDR_/*")])])
def test_a_tensor_in_another_file_is_refused_before_there_is_a_session(monkeypatch, place, values):
    import onnxruntime

    monkeypatch.setattr(onnxruntime, "InferenceSession", None)
    model = _in(place, onnx.TensorProto(name="w", data_type=1, dims=[4], **values))
    with pytest.raises(ValueError, match="^the ONNX model has the tensor 'w' in another file"):
        OnnxModel(model.SerializeToString())


def test_an_absolute_location_is_not_read(tmp_path):
    np.arange(4, dtype=np.float32).tofile(tmp_path / "secret")
    weight = onnx.TensorProto(name="w", data_type=1, dims=[4], data_location=onnx.TensorProto.EXTERNAL)
    for key, value in dict(location=str(tmp_path / "secret"), offset="0", length="16").items():
        weight.external_data.add(key=key, value=value)
    graph = onnx.helper.make_graph([onnx.helper.make_node("Identity", ["w"], ["y"])], "g", [],
                                   [onnx.helper.make_tensor_value_info("y", 1, [4])], [weight])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    (tmp_path / "x.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(ValueError, match="x.onnx has the tensor 'w' in another file"):
        from_onnx(str(tmp_path))


def test_content_is_never_read_as_onnx_runtimes_other_format():
    producer = b"\x12\x06aaORTM"  # the mark of that format at bytes 4 to 8, within a model's producer_name
    content = producer + to_onnx(head_named("encoder").model(TINY_TEXT))
    assert OnnxModel(content).config == TINY_TEXT


# Imports of what `pip install numpy onnxruntime sentencepiece absl-py` does not install fail.
WITHOUT_TENSORFLOW = """
import sys

class NotInstalled:
    def find_spec(self, name, path=None, target=None):
        if name in ("tensorflow", "keras", "tqdm", "filelock", "scipy", "safetensors", "yaml", "jinja2"):
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, NotInstalled())
"""


def run_without_tensorflow(program, folder):
    """What a program prints in an environment of ONNX Runtime alone, and the last line of its errors."""
    done = subprocess.run([sys.executable, "-c", WITHOUT_TENSORFLOW + program], cwd=folder, capture_output=True,
                          text=True, env=dict(os.environ, PYTHONPATH=str(REPOSITORY)))
    return done.stdout, done.stderr.strip().rpartition("\n")[2]


def test_the_page_gives_labels_and_probabilities_without_tensorflow(golden, tmp_path):
    vocabulary = VocabularyFiles(shutil.copy(golden / "tiny_spm/tiny.model", tmp_path / "spiece.model"),
                                 do_lower_case=False)
    model = albert_tf.AlbertClassifier(TINY_TEXT.replace(initializer_range=0.5), 2, label_names=["no", "yes"],
                                       max_seq_length=8)
    (tmp_path / "rte_onnx").mkdir()
    (tmp_path / "rte_onnx/classifier_int8.onnx").write_bytes(to_onnx(model, "int8"))
    write_companions(model, str(tmp_path / "rte_onnx"), vocabulary)
    block, = (block for block in Page(REPOSITORY / "docs/serving.md").blocks if "exponentials" in block.text)
    printed, error = run_without_tensorflow(block.text, tmp_path)
    export = from_onnx(str(tmp_path / "rte_onnx"))
    labels, = albert_tf.classify_texts(export, export.tokenizer, ["He sold the boat."], ["The boat was sold."])
    assert not error and ast.literal_eval(printed) == pytest.approx(dict(labels), abs=1e-6)
    message = "needs the package tqdm, which is not installed: `pip install .` in a clone of albert_tf"
    assert run_without_tensorflow("import albert_tf; albert_tf.from_onnx", tmp_path)[1].startswith(
        f"ModuleNotFoundError: albert_tf.from_onnx {message}")
    command = "import albert_tf.__main__; sys.argv[1:] = ['serve']; albert_tf.__main__.main()"
    assert run_without_tensorflow(command, tmp_path)[1].endswith(
        f"error: serve {message} installs all that it needs. Without TensorFlow, use FullTokenizer and ONNX Runtime "
        "(docs/serving.md#onnx)")
