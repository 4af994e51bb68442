"""Exit heads as a user sets them: training, resuming, a model that is cut after a layer, mistakes."""

import json

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the ops of exported models
from script_session import ScriptSession

from albert_tf.export.onnx.session import from_onnx
from albert_tf.weights.from_pretrained import from_pretrained
from albert_tf.weights.settings import settings_in
from albert_tf.weights.stored_model import open_source

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
    assert len(first.exits) == 3
    for one, two in zip(first.weights, second.weights):
        assert one.name == two.name and one.shape == two.shape
    printed = script.run(output_dir=folder / "resumed", do_train=True, exit_heads=False, expect=1, **glue)
    assert "exit_heads is True in the run and False in --exit_heads" in printed


@pytest.mark.long
@pytest.mark.both_stacks
def test_predictions_exports_and_onnx_files_take_the_first_layers(script, folder, trained, glue):
    texts = [["The file is open.", "It is not.", "a"], ["He left.", "", "The file of the user"]]
    tokenizer, flags = open_source(str(trained)).vocabulary.tokenizer(), dict(num_layers=2, output_dir=trained)
    inputs = tokenizer(*texts, max_seq_length=24)
    expected = tf.nn.softmax(from_pretrained(str(trained), "classifier")(inputs)["exit_logits"][1])
    script.run(do_eval=True, **flags, **glue)
    cut = results_of(trained)["loss"]
    script.run(do_eval=True, output_dir=trained, **glue)
    assert results_of(trained)["loss"] != cut
    script.run(do_predict=True, predict_split="dev", ensemble_checkpoints=[trained, trained], **flags, **glue)
    script.run(export_dir=folder / "served", eagerly=False, **flags, **glue)
    served = tf.saved_model.load(str(folder / "served")).signatures["serving_default"](
        text_a=tf.constant(texts[0]), text_b=tf.constant(texts[1]))
    np.testing.assert_allclose(served["probabilities"], expected, atol=1e-5)
    pytest.importorskip("onnxruntime")
    export = dict(NO_TRAINING, init_checkpoint=trained, num_layers=2, output_dir=folder / "onnx", precision="float32")
    script.run(script="export_to_onnx", **export)
    model = from_onnx(str(folder / "onnx"))
    np.testing.assert_allclose(tf.nn.softmax(model(inputs)["logits"]), expected, atol=1e-5)
    stored = json.loads((folder / "onnx" / "albert_tf.json").read_text())
    assert model.config.num_hidden_layers == 2 and "exit_heads" not in stored


@pytest.mark.long
def test_a_tagger_and_a_multiple_choice_model_are_cut(script, folder):
    for flags in (dict(script="run_tagging", output_dir=folder / "tags", train_file=folder / "tags.conll",
                       eval_file=folder / "tags.conll"),
                  dict(script="run_race", output_dir=folder / "race", data_dir=folder, data_format="jsonl")):
        script.run(do_train=True, do_eval=True, exit_heads=True, **flags)
        results = flags["output_dir"] / "eval_results.txt"
        of_all_layers = results.read_text()
        script.run(do_train=False, do_eval=True, num_layers=2, **flags)
        assert results.read_text() != of_all_layers


@pytest.mark.parametrize("flags, message", [
    (dict(do_eval=True, num_layers=9), "num_layers must be a whole number from 1 to 4. Received: num_layers=9"),
    (dict(do_train=True, num_layers=2), "--num_layers cuts a trained model: train without it"),
    (dict(do_eval=True, exit_patience=2), "unknown flag --exit_patience"),
    (dict(do_train=True, train_step=3, teacher_checkpoint="teacher"), "--teacher_checkpoint teaches the last layer"),
])
def test_a_wrong_flag_is_named_in_one_line(script, trained, glue, flags, message):
    printed = script.run(output_dir=trained, expect=1, **flags, **glue)
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
    printed = script.run(do_train=True, exit_heads=True, train_step=3, expect=1, **plain)
    assert "exit_heads is False in the run and True in --exit_heads" in printed
    untrained = dict(NO_TRAINING, init_checkpoint=folder / "plain", num_layers=2, expect=1)
    for printed in (script.run(do_eval=True, num_layers=2, expect=1, **plain),
                    script.run(script="serve", port=0, **untrained),
                    script.run(script="export_to_tflite", output_dir=folder / "plain_lite", **untrained)):
        assert "num_layers needs a sentence encoder, or a model that was trained with exit heads" in printed


@pytest.mark.parametrize("other", ["run_squad", "run_sentence_embeddings"])
def test_other_commands_do_not_have_the_flag(script, folder, other):
    printed = script.run(script=other, output_dir=folder / "other", do_train=True, exit_heads=True, expect=1)
    assert "unknown flag --exit_heads" in printed
