"""OnnxModel is called like the Keras model that it was made from, and refuses files that are not its own."""

import json

import numpy as np
import pytest

import albert_tf
from albert_tf import keras
from albert_tf.config import AlbertConfig
from albert_tf.export.conversion import save
from albert_tf.export.onnx.session import OnnxModel, from_onnx
from albert_tf.export.onnx.writing import to_onnx, write_companions
from albert_tf.tasks.squad.answers import NO_SCORE
from albert_tf.weights.heads import head_named
from albert_tf.weights.settings import Settings, VocabularyFiles

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.both_stacks

CONTEXT = "The name of the file is known. The number of the line is not. " * 3


@pytest.fixture(scope="module")
def config(sentence_pieces):
    return AlbertConfig(vocab_size=sentence_pieces.vocab_size, embedding_size=8, hidden_size=16, num_hidden_layers=2,
                        num_attention_heads=2, intermediate_size=32, max_position_embeddings=48, initializer_range=0.5)


@pytest.fixture
def exported(config, sentence_pieces, tmp_path):
    """A function from a head and arguments of its model to the model and its export, opened from a folder."""
    def make(name, **arguments):
        keras.utils.set_random_seed(1)
        model = head_named(name).model(config, **arguments)
        (tmp_path / "x.onnx").write_bytes(to_onnx(model))
        write_companions(model, str(tmp_path), VocabularyFiles.from_tokenizer(sentence_pieces))
        return model, from_onnx(str(tmp_path))

    return make


@pytest.mark.parametrize("arguments", [
    {}, dict(max_windows=3), dict(max_windows=4, window_pooling="max", doc_stride=2)])
def test_texts_are_classified_by_an_export_as_by_the_model(exported, arguments):
    model, export = exported("classifier", num_labels=3, label_names=("a", "ä b", "c"), max_seq_length=12, **arguments)
    texts, pairs = ["the name", CONTEXT, ""], ["", "the file", "of"]
    assert export.label_names == ("a", "ä b", "c") and export.tokenizer.max_seq_length == 12
    for text_pairs in (None, pairs):
        expected = albert_tf.classify_texts(model, export.tokenizer, texts, text_pairs)
        actual = albert_tf.classify_texts(export, export.tokenizer, texts, text_pairs)
        assert [[label.name for label in row] for row in actual] == [[label.name for label in row] for row in expected]
        np.testing.assert_allclose([[label.probability for label in row] for row in actual],
                                   [[label.probability for label in row] for row in expected], atol=1e-5)


def test_masks_are_filled_by_an_export_as_by_the_model(exported, sentence_pieces):
    model, export = exported("pretrainer")
    expected, actual = (albert_tf.fill_masks(each, sentence_pieces, "the [MASK] of [MASK].", 4)
                        for each in (model, export))
    assert [[each.piece for each in mask] for mask in actual] == [[each.piece for each in mask] for mask in expected]
    np.testing.assert_allclose([[each.probability for each in mask] for mask in actual],
                               [[each.probability for each in mask] for mask in expected], rtol=1e-3)


@pytest.mark.parametrize("head", ["span", "conditional_span"])
def test_questions_are_answered_by_an_export_as_by_the_model(exported, sentence_pieces, head):
    model, export = exported(head, max_seq_length=24)
    questions, contexts = ["which name?", "", "what?"], [CONTEXT, "a file", ""]
    expected, actual = (albert_tf.answer_questions(each, sentence_pieces, questions, contexts)
                        for each in (model, export))
    assert [answer[:3] for answer in actual] == [answer[:3] for answer in expected]
    np.testing.assert_allclose([answer.score for answer in actual], [answer.score for answer in expected], rtol=1e-4)
    assert actual[0].answer == CONTEXT[actual[0].start : actual[0].end] != ""
    assert actual[2][:4] == ("", 0, 0, NO_SCORE)
    assert (actual[0].no_answer_score is None) == (head == "span")


def test_the_attributes_of_a_head_are_those_of_the_model(exported):
    for head, arguments, names in (
            ("conditional_span", dict(start_n_top=2, end_n_top=3, doc_stride=4, max_query_length=7),
             ["beam_width", "doc_stride", "max_query_length"]),
            ("multiple_choice", dict(num_choices=3, max_qa_length=7), ["num_choices", "max_qa_length"]),
            ("token_classifier", dict(num_labels=2, label_all_pieces=True, doc_stride=4),
             ["num_labels", "label_all_pieces", "doc_stride"]),
            ("classifier", dict(num_labels=1, max_windows=2), ["num_labels", "max_windows", "label_names"])):
        model, export = exported(head, max_seq_length=20, **arguments)
        for name in (*names, "config", "row_length", "max_seq_length"):
            assert getattr(export, name) == getattr(model, name), (head, name)


def test_a_model_of_another_head_is_refused_by_its_head(exported, sentence_pieces):
    _, export = exported("span")
    for function, arguments in ((albert_tf.classify_texts, [["a"]]), (albert_tf.fill_masks, ["[MASK]"])):
        with pytest.raises(ValueError, match="Received: OnnxModel with the head span"):
            function(export, sentence_pieces, *arguments)
    _, export = exported("classifier", num_labels=2)
    with pytest.raises(ValueError, match='model="span" or "conditional_span".*: OnnxModel with the head class'):
        albert_tf.answer_questions(export, sentence_pieces, ["a"], ["b"])


def test_wrong_inputs_are_named(exported):
    _, export = exported("encoder")
    ids = np.array([[10**6]], np.int32)
    with pytest.raises(ValueError, match="missing input: input_mask, segment_ids. Received: input_ids"):
        export(dict(input_ids=ids))
    with pytest.raises(ValueError, match="x.onnx refuses its inputs"):
        export(dict(input_ids=ids, input_mask=ids, segment_ids=ids * 0))


def test_a_folder_without_a_model_says_what_to_do(config, sentence_pieces, tmp_path):
    with pytest.raises(ValueError, match=f"^{tmp_path}/none does not exist$"):
        from_onnx(str(tmp_path / "none"))
    with pytest.raises(ValueError, match=f"^{tmp_path} has no .onnx file: export a model with export_to_onnx$"):
        from_onnx(str(tmp_path))
    save(head_named("encoder").model(config), str(tmp_path), "ours", VocabularyFiles.from_tokenizer(sentence_pieces))
    with pytest.raises(ValueError, match="has no .onnx file, but weights: export them with export_to_onnx --init"):
        from_onnx(str(tmp_path))
    (tmp_path / "saved_model.pb").write_bytes(b"")
    with pytest.raises(ValueError, match="has no .onnx file, but a SavedModel, which TensorFlow Serving serves$"):
        from_onnx(str(tmp_path))
    with pytest.raises(ValueError, match="saved_model.pb is no .onnx file: set the path of one, or of the folder"):
        from_onnx(str(tmp_path / "saved_model.pb"))
    for name in ("b.onnx", "a.onnx"):
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(ValueError, match=f"has several .onnx files: choose {tmp_path}/a.onnx or {tmp_path}/b.onnx"):
        from_onnx(str(tmp_path))
    (tmp_path / "model.onnx").write_bytes(b"no protobuf")
    with pytest.raises(ValueError, match="model.onnx cannot be read by ONNX Runtime: "):
        from_onnx(str(tmp_path))


def foreign(model_config, **metadata):
    model = onnx.load_from_string(to_onnx(head_named("encoder").model(model_config)))
    del model.metadata_props[:]
    onnx.helper.set_model_props(model, metadata)
    return model.SerializeToString()


def test_files_of_other_programs_and_other_models_are_refused(config, tmp_path):
    with pytest.raises(ValueError, match="the ONNX model was not written by export_to_onnx of this version: its metad"):
        OnnxModel(foreign(config))
    with pytest.raises(ValueError, match="has the head 'poet', which this version does not know"):
        OnnxModel(foreign(config, head="poet", config=config.to_json_string()))
    for value in ("[1]", "no json", "7"):
        with pytest.raises(ValueError, match="^the ONNX model: the config in its metadata is wrong: "):
            OnnxModel(foreign(config, head="encoder", config=value))
    with pytest.raises(ValueError, match="lacks logits, which a model with the head classifier has: export"):
        OnnxModel(foreign(config, head="classifier", config=config.to_json_string()))
    classifier = to_onnx(head_named("classifier").model(config, num_labels=2))
    with pytest.raises(ValueError, match="albert_tf.json belongs to a model with the head span, and .* has the head"):
        OnnxModel(classifier, Settings("span"))
    with pytest.raises(ValueError, match="albert_tf.json has 3 names for the 2 labels of .*: export the model again"):
        OnnxModel(classifier, Settings("classifier", dict(label_names=("a", "b", "c"))))


def test_data_outside_of_the_file_is_not_read(tmp_path):
    np.zeros(4, np.float32).tofile(tmp_path / "secret")
    weight = onnx.TensorProto(name="w", data_type=1, dims=[4], data_location=onnx.TensorProto.EXTERNAL)
    for key, value in dict(location="../secret", offset="0", length="16").items():
        entry = weight.external_data.add()
        entry.key, entry.value = key, value
    graph = onnx.helper.make_graph([onnx.helper.make_node("Identity", ["w"], ["y"])], "g", [],
                                   [onnx.helper.make_tensor_value_info("y", 1, [4])], [weight])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    (tmp_path / "model").mkdir()
    (tmp_path / "model/x.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(ValueError, match="x.onnx cannot be read by ONNX Runtime: "):
        from_onnx(str(tmp_path / "model"))


def test_what_is_written_beside_a_file_keeps_the_lengths_of_its_task(config, sentence_pieces, tmp_path):
    model = head_named("span").model(config, max_seq_length=24, doc_stride=5, max_query_length=7)
    write_companions(model, str(tmp_path), VocabularyFiles.from_tokenizer(sentence_pieces))
    assert json.loads((tmp_path / "albert_tf.json").read_text()) == dict(
        head="span", max_seq_length=24, doc_stride=5, max_query_length=7)
    assert AlbertConfig.from_json_file(str(tmp_path / "albert_config.json")) == config
