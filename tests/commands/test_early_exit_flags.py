"""Early exit as a user sets it: training, resuming, evaluation, prediction, export, serving, mistakes."""

import csv
import json

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the ops of exported models
from script_session import ScriptSession

from albert_tf.export.onnx.session import from_onnx
from albert_tf.modeling.early_exit import NUM_LAYERS_USED
from albert_tf.server.models import model_of_source
from albert_tf.weights.from_pretrained import from_pretrained
from albert_tf.weights.open_source import open_source
from albert_tf.weights.settings import settings_in

CONFIG = dict(vocab_size=2000, embedding_size=8, hidden_size=16, num_hidden_layers=4, num_attention_heads=2,
              intermediate_size=16, max_position_embeddings=64, initializer_range=0.4)
SENTENCES = "Ada\tB-person\nlives\tO\nin\tO\nParis\tB-place\n\nHe\tO\nleft\tO\n"
# The flags of the session that commands which do not train do not have.
NO_TRAINING = dict.fromkeys(("albert_config_file", "max_seq_length", "cached_dir", "train_batch_size", "train_step",
                             "warmup_step", "save_checkpoints_steps"))
NO_TRAINING["eagerly"] = False
QUESTION = dict(context="The sky is blue.", question="It is _.", options=["blue", "red", "green"], answer="A")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("early_exit")
    (folder / "config.json").write_text(json.dumps(CONFIG))
    (folder / "tags.conll").write_text(SENTENCES)
    for split in ("train", "dev", "test"):
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(dict(QUESTION, id=f"{n}")) + "\n" for n in range(2)))
    return folder


@pytest.fixture(scope="module")
def script(golden, folder):
    """run_classifier by default; flags of other scripts are set where they run."""
    flags = dict(albert_config_file=folder / "config.json", max_seq_length=24, cached_dir=folder / "cached",
                 spm_model_file=golden / "tiny_spm" / "tiny.model", train_batch_size=2, train_step=2, warmup_step=0,
                 save_checkpoints_steps=1)
    with ScriptSession("run_classifier", eagerly=True, **flags) as session:
        yield session


@pytest.fixture(scope="module")
def glue(golden):
    return dict(task_name="rte", data_dir=golden / "glue")


@pytest.fixture(scope="module")
def trained(script, folder, glue):
    script.run(output_dir=folder / "trained", do_train=True, exit_heads=True, learning_rate=0.01, **glue)
    return folder / "trained"


def results_of(directory, name="eval_results"):
    return json.loads((directory / f"{name}.json").read_text())


def test_a_run_with_exit_heads_is_resumed_and_says_what_it_is(script, folder, trained, glue):
    assert settings_in(str(trained)).exit_heads
    script.run(output_dir=folder / "resumed", do_train=True, exit_heads=True, train_step=1, learning_rate=0.01, **glue)
    script.run(output_dir=folder / "resumed", do_train=True, learning_rate=0.01, **glue)  # without the flag, to step 2
    first, second = (from_pretrained(str(path), "classifier") for path in (trained, folder / "resumed"))
    assert len(first.exits.layers) == 3
    for one, two in zip(first.weights, second.weights):
        assert one.name == two.name and one.shape == two.shape
    printed = script.run(output_dir=folder / "resumed", do_train=True, exit_heads=False, expect=1, **glue)
    assert "exit_heads is True in the run and False in --exit_heads" in printed


def test_evaluation_and_prediction_stop_early_and_say_after_how_many_layers(script, trained, glue):
    script.run(output_dir=trained, do_eval=True, do_predict=True, predict_split="dev", exit_patience=1, **glue)
    results = results_of(trained)
    with open(trained / "dev_predictions.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert results[NUM_LAYERS_USED] == pytest.approx(np.mean([float(row[NUM_LAYERS_USED]) for row in rows]))
    assert 2 <= results[NUM_LAYERS_USED] < 4
    script.run(output_dir=trained, do_eval=True, num_layers=2, **glue)
    assert results_of(trained)[NUM_LAYERS_USED] == 2
    script.run(output_dir=trained, do_eval=True, exit_patience=4, **glue)
    never = results_of(trained)
    script.run(output_dir=trained, do_eval=True, **glue)
    assert {**results_of(trained), NUM_LAYERS_USED: 4} == never


@pytest.mark.long
@pytest.mark.both_stacks
def test_an_export_and_a_server_stop_early(script, folder, trained, glue):
    script.run(output_dir=trained, export_dir=folder / "served", exit_patience=1, eagerly=False, **glue)
    texts = [["The file is open.", "It is not.", "a"], ["He left.", "", "The file of the user"]]
    served = tf.saved_model.load(str(folder / "served")).signatures["serving_default"](
        text_a=tf.constant(texts[0]), text_b=tf.constant(texts[1]))
    model = from_pretrained(str(trained), "classifier", exit_patience=1)
    tokenizer = open_source(str(trained)).vocabulary.tokenizer()
    inputs = tokenizer(*texts, max_seq_length=24)
    outputs = model({name: tf.constant(values) for name, values in inputs.items()})
    np.testing.assert_array_equal(served[NUM_LAYERS_USED], outputs[NUM_LAYERS_USED])
    np.testing.assert_allclose(served["probabilities"], tf.nn.softmax(outputs["logits"]), atol=1e-5)
    server = model_of_source("rte", open_source(str(trained)), early_exit=model.early_exit)
    columns = {name: np.array([text.encode() for text in values]) for name, values in zip(("text_a", "text_b"), texts)}
    answers = server.signatures["serving_default"].run(columns)
    np.testing.assert_array_equal(answers[NUM_LAYERS_USED], served[NUM_LAYERS_USED])


def test_scores_of_a_regression_have_a_tolerance(script, folder, golden):
    flags = dict(task_name="sts-b", data_dir=golden / "glue", output_dir=folder / "sts-b")
    script.run(do_train=True, exit_heads=True, **flags)
    script.run(do_eval=True, exit_patience=1, exit_tolerance=1000.0, **flags)
    assert results_of(folder / "sts-b")[NUM_LAYERS_USED] == 2
    script.run(do_eval=True, exit_patience=1, exit_tolerance=0.0, **flags)
    assert results_of(folder / "sts-b")[NUM_LAYERS_USED] == 4


@pytest.mark.long
def test_a_tagger_and_a_multiple_choice_model_stop_early_also_when_they_are_served(script, folder):
    tagging = dict(script="run_tagging", output_dir=folder / "tags", train_file=folder / "tags.conll",
                   eval_file=folder / "tags.conll", exit_patience=1)
    script.run(do_train=True, do_eval=True, exit_heads=True, **tagging)
    assert 2 <= results_of(folder / "tags")[NUM_LAYERS_USED] <= 4
    script.run(export_dir=folder / "tags_served", eagerly=False, **tagging)
    tags = tf.saved_model.load(str(folder / "tags_served")).signatures["serving_default"](
        text=tf.constant(["He left " * 30, "Ada", ""]))  # the first text is read in windows
    *of_words, without_words = tags[NUM_LAYERS_USED].numpy().tolist()
    assert len(of_words) == 2 and set(of_words) <= {2, 3, 4} and without_words == 0
    race = dict(script="run_race", output_dir=folder / "race", data_dir=folder, data_format="jsonl", exit_patience=1)
    script.run(do_train=True, do_eval=True, do_predict=True, exit_heads=True, **race)
    assert 2 <= results_of(folder / "race")[NUM_LAYERS_USED] <= 4
    assert NUM_LAYERS_USED in results_of(folder / "race", "predict_results")


@pytest.mark.parametrize("flags, message", [
    (dict(exit_patience=0), "--exit_patience"),
    (dict(exit_patience=5), "exit_patience must be a whole number from 1 to 4. Received: exit_patience=5"),
    (dict(num_layers=9), "num_layers must be a whole number from 1 to 4. Received: num_layers=9"),
    (dict(exit_patience=1, exit_tolerance=0.1), "exit_tolerance is for regression"),
    (dict(exit_tolerance=0.1), "--exit_tolerance=0.1 needs --exit_patience"),
    (dict(exit_patience=1, jit_compile=True), "--exit_patience makes batches smaller, which XLA cannot compile"),
])
def test_a_wrong_flag_is_named_in_one_line(script, trained, glue, flags, message):
    printed = script.run(output_dir=trained, do_eval=True, expect=1, **flags, **glue)
    assert message in printed.strip().splitlines()[-1]


def test_a_run_keeps_what_its_exits_read(script, folder, glue):
    mean = dict(output_dir=folder / "mean", do_train=True, **glue)
    script.run(exit_heads=True, exit_pooling="mean", train_step=1, **mean)
    script.run(**mean)  # to step 2
    model = from_pretrained(str(folder / "mean"), "classifier")
    assert settings_in(str(folder / "mean")).exit_pooling == model.exit_pooling == "mean"
    printed = script.run(exit_pooling="cls", train_step=3, expect=1, **mean)
    assert "exit_pooling is mean in the run and cls in --exit_pooling" in printed
    printed = script.run(exit_pooling="mean", expect=1, **dict(mean, output_dir=folder / "no_exits"))
    assert "--exit_pooling=mean needs --exit_heads" in printed


@pytest.mark.long
def test_a_model_without_exit_heads_refuses_them(script, folder, glue):
    plain = dict(output_dir=folder / "plain", **glue)
    script.run(do_train=True, **plain)
    printed = script.run(do_eval=True, exit_patience=2, expect=1, **plain)
    assert "exit_patience needs a model that was trained with exit heads (--exit_heads)" in printed
    printed = script.run(do_train=True, exit_heads=True, train_step=3, expect=1, **plain)
    assert "exit_heads is False in the run and True in --exit_heads" in printed
    untrained = dict(NO_TRAINING, init_checkpoint=folder / "plain", exit_patience=2, expect=1)
    printed = script.run(script="serve", port=0, **untrained)
    assert "--exit_patience and --num_layers need a model that was trained with exit heads" in printed
    printed = script.run(script="export_to_onnx", output_dir=folder / "plain_onnx", **untrained)
    assert "exit_patience needs a model that was trained with exit heads (--exit_heads)" in printed


@pytest.mark.long
@pytest.mark.both_stacks
def test_an_onnx_file_stops_early(script, folder, trained):
    pytest.importorskip("onnxruntime")
    export = dict(NO_TRAINING, script="export_to_onnx", init_checkpoint=trained, output_dir=folder / "onnx")
    printed = script.run(exit_patience=1, num_layers=3, precision="float32", **export)
    assert NUM_LAYERS_USED in printed
    model = from_pretrained(str(trained), "classifier", exit_patience=1, num_layers=3)
    inputs = from_onnx(str(folder / "onnx")).tokenizer(["The file is open.", "He left."])
    outputs, expected = from_onnx(str(folder / "onnx"))(inputs), model(inputs)
    np.testing.assert_array_equal(outputs[NUM_LAYERS_USED], expected[NUM_LAYERS_USED])
    np.testing.assert_allclose(outputs["logits"], expected["logits"], atol=1e-5)
    for flags, message in (
            (dict(exit_patience=2, exit_tolerance=0.1), "exit_tolerance is for regression"),
            (dict(num_layers=9), "num_layers must be a whole number from 1 to 4. Received: num_layers=9"),
            (dict(num_layers=2, model="encoder"), "num_layers needs a model that was trained with exit heads"),
            (dict(script="serve", onnx_model=folder / "onnx", init_checkpoint=None, output_dir=None, num_layers=2),
             "(--exit_heads) in --init_checkpoint. Received: none")):
        printed = script.run(expect=1, **{**export, **flags})
        assert message in printed.strip().splitlines()[-1]


@pytest.mark.parametrize("other", ["run_squad", "run_sentence_embeddings"])
def test_other_commands_do_not_have_the_flag(script, folder, other):
    printed = script.run(script=other, output_dir=folder / "other", do_train=True, exit_heads=True, expect=1)
    assert "unknown flag --exit_heads" in printed
