"""TensorFlow Lite models: their outputs, and that shared weights are stored once."""

import numpy as np
import pytest
import tensorflow as tf
from in_process import loaded
from new_head import new_head
from tiny import TINY

from albert_tf import keras
from albert_tf.export import tflite
from albert_tf.export.conversion import save
from albert_tf.export.saved_model import ModelWithRunner
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.classifier import AlbertClassifier
from albert_tf.modeling.pretrainer import AlbertPretrainer
from albert_tf.modeling.span import AlbertConditionalSpan, AlbertSpan
from albert_tf.tasks.squad.answers import answer_questions
from albert_tf.weights.heads import HEADS, head_named

pytestmark = pytest.mark.both_stacks

CONFIG = TINY.replace(vocab_size=60, embedding_size=8, hidden_size=16)


@pytest.fixture(autouse=True)
def seed():
    keras.utils.set_random_seed(1)


@pytest.mark.parametrize("precision, bytes_per_weight, at_most", [
    ("float32", 4, 1e-5), ("float16", 2, 1e-2), ("int8", 1, 0.2)])
def test_smaller_weights_change_little_shared_ones_are_stored_once_and_nothing_is_printed(
        capfd, recwarn, precision, bytes_per_weight, at_most):
    model = AlbertPretrainer(CONFIG.replace(vocab_size=8000, embedding_size=128, hidden_size=256,
                                            intermediate_size=1024))
    weights = sum(variable.shape.num_elements() for variable in model.variables)
    assert len(tflite.convert(model, precision, 12, 3)) <= 1.1 * bytes_per_weight * weights
    model = AlbertClassifier(CONFIG, num_labels=3)
    found = tflite.differences(tflite.convert(model, precision, 12), model, 12)
    assert set(found) == {"logits", "pooled_output", "sequence_output"}
    assert np.max([*found.values()]) < at_most
    assert not [warning for warning in recwarn if "tf.lite" in str(warning.message)]
    assert capfd.readouterr() == ("", "")


def test_a_full_disk_for_temporary_files_is_an_error(monkeypatch):
    def fails(*_, **__):
        raise OSError(28, "No space left on device", "/tmp")

    monkeypatch.setattr(tf.saved_model, "save", fails)
    with pytest.raises(OSError, match="No space"):
        tflite.convert(AlbertClassifier(CONFIG, num_labels=3), "float32", 12)


@pytest.mark.parametrize("head", ["encoder", "pretrainer", "span", "conditional_span", "multiple_choice"])
def test_in_float32_every_output_is_the_models(head):
    model = new_head(head_named(head), CONFIG)
    found = tflite.differences(tflite.convert(model, "float32", 12, 3), model, 12, 3)
    outputs = {"pooled_output", "sequence_output", *model.HEAD_OUTPUTS} - {"start_log_probs", "end_log_probs"}
    assert {*found} == outputs
    assert np.max([*found.values()]) < 1e-5  # np.max keeps a NaN, which max() can drop


@pytest.mark.parametrize("kind", [AlbertSpan, AlbertConditionalSpan])
def test_questions_are_answered_as_by_the_model(kind, sentence_pieces):
    config = CONFIG.replace(vocab_size=sentence_pieces.vocab_size, max_position_embeddings=24, initializer_range=0.5)
    model = kind(config, max_seq_length=24)
    run = tflite.runner(tflite.convert(model, "float32", 24), 24)
    texts = ["which name?", "what"], ["The name of the file is known.", "the number of the line"]
    expected, found = (answer_questions(each, sentence_pieces, *texts)
                       for each in (model, ModelWithRunner(model, run, model.settings.max_seq_length)))
    assert [answer.answer for answer in found] == [answer.answer for answer in expected] and expected[0].answer


LENGTHS = [4, 8, 12]


@pytest.mark.long
def test_several_lengths_are_signatures_of_one_file_that_share_the_weights_and_are_all_compared():
    model = AlbertPretrainer(CONFIG.replace(vocab_size=8000, embedding_size=64))
    one, several = (tflite.convert(model, "float32", lengths, 3) for lengths in (12, LENGTHS))
    assert np.max([*tflite.differences(several, model, LENGTHS, 3).values()]) < 1e-5
    assert {*tflite.interpreter_of(several).get_signature_list()} == {"length_4", "length_8", "length_12"}
    assert len(several) < 1.2 * len(one)
    model = AlbertModel(CONFIG.replace(initializer_range=0.5))
    flatbuffer = tflite.convert(model, "float32", LENGTHS)
    embeddings = next(variable for variable in model.variables if "position_embeddings" in variable.name)
    embeddings.assign(embeddings.numpy() + np.eye(*embeddings.shape)[::-1] * (np.arange(16) >= 10)[:, None])
    assert tflite.differences(flatbuffer, model, LENGTHS[:2])["sequence_output"] < 1e-5
    assert tflite.differences(flatbuffer, model, LENGTHS)["sequence_output"] > 1e-2


@pytest.mark.long
@pytest.mark.parametrize("head, precision", [*((head.name, "float32") for head in HEADS), ("encoder", "float16"),
                                             ("pretrainer", "int8"), ("classifier", "int8")])
def test_every_head_runs_on_litert_without_flex_ops(head, precision):
    """LiteRT has no Flex ops: it would refuse the file."""
    interpreter = pytest.importorskip("ai_edge_litert.interpreter")
    model = new_head(head_named(head), CONFIG)
    flatbuffer = tflite.convert(model, precision, LENGTHS[1:], 3)
    runner = tflite.interpreter_of(flatbuffer)
    assert isinstance(runner, interpreter.Interpreter)
    assert not [op["op_name"] for op in runner._get_ops_details() if op["op_name"].startswith("Flex")]
    found = tflite.differences(flatbuffer, model, LENGTHS[1:], 3)
    assert np.max([*found.values()]) < dict(float32=1e-5, float16=1e-2, int8=0.2)[precision]


def test_lengths_that_the_model_cannot_have_are_refused(tmp_path, capsys):
    save(AlbertModel(CONFIG), str(tmp_path / "model"), "ours")
    with loaded("export_to_tflite") as run:
        assert run(init_checkpoint=str(tmp_path / "model"), output_dir=str(tmp_path / "out"), max_seq_length=8,
                   signature_lengths="8,17") == 1
    assert "--signature_lengths=17 is more than the model's max_position_embeddings, 16" in capsys.readouterr().err


@pytest.mark.parametrize("stored, flags, lengths", [
    (12, {}, [12]), (None, {}, [16]), (None, dict(max_seq_length=8, signature_lengths="8,4"), [4, 8])])
def test_a_command_writes_the_length_of_the_model_or_several(tmp_path, stored, flags, lengths):
    save(AlbertModel(CONFIG, max_seq_length=stored), str(tmp_path / "model"), "ours")
    with loaded("export_to_tflite") as run:
        assert run(init_checkpoint=tmp_path / "model", output_dir=tmp_path / "out", precision="float32", **flags) == 0
    interpreter = tflite.interpreter_of((tmp_path / "out/encoder_float32.tflite").read_bytes())
    names = sorted(interpreter.get_signature_list())
    assert len(lengths) == 1 or names == [f"length_{length}" for length in lengths]
    assert [interpreter.get_signature_runner(name).get_input_details()["input_ids"]["shape"].tolist()
            for name in names] == [[1, length] for length in lengths]


def test_a_model_with_ops_that_tensorflow_lite_lacks_is_refused():
    class Writing(AlbertModel):
        def call(self, inputs, training=False):
            tf.io.write_file("written", "the model has run")
            return super().call(inputs, training)

    with pytest.raises(ValueError, match="TensorFlow Lite cannot convert this model: .*WriteFile"):
        tflite.convert(Writing(CONFIG), "float32", 4)
