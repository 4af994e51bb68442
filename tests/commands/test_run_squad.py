"""run_squad.py as a user runs it: training, evaluation, prediction, export and --ask for both versions; mistakes."""

import json
import os
import random
import shutil
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the ops of exported models
from in_process import loaded
from script_process import run as run_script
from script_session import ScriptSession

import albert_tf
from albert_tf.export.onnx.session import OnnxModel
from albert_tf.export.onnx.writing import to_onnx
from albert_tf.server.models import served_model
from albert_tf.weights.settings import settings_in, settings_of

CONFIG = dict(vocab_size=2000, embedding_size=8, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
              intermediate_size=16, max_position_embeddings=64)
FILES = {"1.1": "dev_v1.json", "2.0": "train.json"}
CONTEXT = "Ada built the clock in 1,908 days.  Zoë Brånström ate ½ of it… and the frogs sang. " * 8


@pytest.fixture(scope="module")
def folder(tmp_path_factory, golden):
    folder = tmp_path_factory.mktemp("squad")
    (folder / "config.json").write_text(json.dumps(CONFIG))
    (folder / "context.txt").write_text(CONTEXT)
    data = json.loads((golden / "squad/train.json").read_text())
    for article in data["data"]:
        for paragraph in article["paragraphs"]:
            for question in paragraph["qas"]:
                del question["answers"]
    (folder / "no_answers.json").write_text(json.dumps(data))
    return folder


@pytest.fixture(scope="module")
def script(golden, folder):
    flags = dict(albert_config_file=folder / "config.json", spm_model_file=golden / "tiny_spm" / "tiny.model",
                 cached_dir=folder / "cached", max_seq_length=64, doc_stride=24, max_query_length=16, num_workers=1,
                 train_batch_size=4, train_step=2, save_checkpoints_steps=1)
    with ScriptSession("run_squad", eagerly=True, **flags) as session:
        yield session


@pytest.fixture(scope="module", params=["1.1", "2.0"])
def run(request, script, golden, folder):
    """(version, output directory, output) of a run with training, evaluation and prediction, in graphs."""
    version = request.param
    path, directory = golden / "squad" / FILES[version], folder / version
    dev = shutil.copy(path, folder / f"dev-{version}.json")
    printed = script.run(train_file=path, predict_file=dev, output_dir=directory, do_train=True, do_predict=True,
                         squad_version=version, eagerly=False)
    return version, directory, printed


def questions_of(path):
    data = json.loads(path.read_text(encoding="utf-8"))["data"]
    return [question["id"] for article in data for paragraph in article["paragraphs"] for question in paragraph["qas"]]


def read(directory, name):
    return json.loads((directory / name).read_text(encoding="utf-8"))


@pytest.mark.both_stacks
def test_every_question_has_an_entry_in_the_files(run, golden):
    version, directory, _ = run
    ids = questions_of(golden / "squad" / FILES[version])
    predictions, n_best = read(directory, "predictions.json"), read(directory, "nbest_predictions.json")
    assert list(predictions) == list(n_best) == ids
    for qas_id, candidates in n_best.items():
        assert sum(candidate["probability"] for candidate in candidates) == pytest.approx(1)
        assert predictions[qas_id] in ("", candidates[0]["text"])
    assert (directory / "null_odds.json").exists() == (version == "2.0")


def test_results_are_official_scores_of_the_best_checkpoint(run):
    version, directory, _ = run
    results = read(directory, "eval_results.json")
    wanted = {"1.1": {"exact_match", "f1"}, "2.0": {"exact", "f1", "total", "null_score_diff_threshold"}}[version]
    assert wanted | {"global_step"} <= set(results)
    history = [json.loads(line) for line in (directory / "eval_history.jsonl").read_text().splitlines()]
    assert [entry["global_step"] for entry in history] == [1, 2]
    assert results["f1"] == max(entry["f1"] for entry in history)
    assert (directory / "model.ckpt-best.index").exists()
    card = (directory / "README.md").read_text("utf-8")
    assert f"| f1 | {results['f1']:.4f} |" in card and f"datasets:\n- {FILES[version]}\n- dev-{version}.json\n" in card
    assert f"name: dev-{version}.json\n" in card  # the scores' data


def test_the_size_of_an_epoch_is_logged(run):
    version, _, printed = run
    passes = {"1.1": "0.615 passes over 13 questions", "2.0": "0.267 passes over 30 questions"}
    assert f"{passes[version]}: 2 steps of 4" in printed


def test_a_second_run_predicts_the_same_from_the_best_checkpoint(run, script, golden, folder):
    version, directory, _ = run
    path, again = golden / "squad" / FILES[version], folder / f"{version} again"
    printed = script.run(predict_file=path, init_checkpoint=directory, output_dir=again, do_predict=True,
                         squad_version=version, eagerly=False)
    assert "records made" not in printed  # features come from the cache
    for name in ("predictions.json", "nbest_predictions.json"):
        assert read(again, name) == read(directory, name)
    first, second = read(directory, "eval_results.json"), read(again, "eval_results.json")
    assert second == pytest.approx({name: first[name] for name in second})


def test_a_run_keeps_the_lengths_with_which_it_reads_texts(run, script, golden, folder):
    version, directory, _ = run
    stored = settings_in(str(directory))
    assert (stored.doc_stride, stored.max_query_length, stored.max_seq_length) == (24, 16, 64)
    assert stored.head == {"1.1": "span", "2.0": "conditional_span"}[version]
    before = read(directory, "predictions.json")
    flags = dict(predict_file=golden / "squad" / FILES[version], output_dir=directory, do_predict=True,
                 squad_version=version, max_seq_length=None)
    script.run(doc_stride=None, max_query_length=None, **flags)
    assert read(directory, "predictions.json") == before
    printed = script.run(doc_stride=12, max_query_length=9, **flags)
    assert "doc_stride is 24 in the run and 12 in --doc_stride" in printed
    assert "max_query_length is 16 in the run and 9 in --max_query_length" in printed
    assert read(directory, "predictions.json") == before


def test_a_run_of_the_other_version_is_named(run, script, golden):
    version, directory, _ = run
    other = {"1.1": "2.0", "2.0": "1.1"}[version]
    printed = script.run(expect=1, predict_file=golden / "squad" / FILES[version], output_dir=directory,
                         do_predict=True, squad_version=other)
    assert f"--output_dir={directory} has a run of SQuAD {version}, and this is SQuAD {other}" in printed


def test_predicting_another_file_leaves_the_evaluations_of_a_run_alone(run, script, golden, folder):
    version, directory, _ = run
    copy = folder / f"{version} copy"
    shutil.copytree(directory, copy)
    script.run(predict_file=golden / "squad" / "train.json", output_dir=copy, do_predict=True, squad_version=version)
    for name in ("eval_history.jsonl", "best_trial.txt", "model.ckpt-best.index"):
        assert (copy / name).read_bytes() == (directory / name).read_bytes()
    shutil.rmtree(copy)


@pytest.mark.long
def test_checkpoints_are_averaged(run, script, golden, folder):
    version, directory, _ = run
    path = golden / "squad" / FILES[version]
    checkpoints = [str(directory / f"model.ckpt-{step}") for step in (1, 2)]
    scores = []
    for name in (*checkpoints, ",".join(checkpoints)):
        script.run(predict_file=path, ensemble_checkpoints=name, output_dir=folder / "ensemble", do_predict=True,
                   squad_version=version)
        scores.append({(qas_id, entry["text"]): entry["start_log_prob"] for qas_id, entries
                       in read(folder / "ensemble", "nbest_predictions.json").items() for entry in entries})
    one, other, both = scores
    averaged = [both[span] == pytest.approx((one[span] + other[span]) / 2) for span in both
                if span in one and span in other]
    assert np.mean(averaged) > 0.9  # a text may stand in several places, of which other checkpoints find others


def test_a_file_without_answers_is_predicted_and_cannot_be_scored(script, folder, golden, run):
    version, directory, _ = run
    flags = dict(predict_file=folder / "no_answers.json", init_checkpoint=directory, squad_version=version,
                 output_dir=folder / "unlabelled")
    script.run(do_predict=True, **flags)
    assert list(read(folder / "unlabelled", "predictions.json")) == questions_of(golden / "squad/train.json")
    assert not (folder / "unlabelled/eval_results.json").exists()
    assert "has no answers to score with" in script.run(expect=1, do_eval=True, **flags)
    shutil.rmtree(folder / "unlabelled")


def test_predictions_and_scores_use_the_threshold_of_the_user(run, script, golden, folder):
    version, directory, _ = run
    if version == "1.1":
        pytest.skip("SQuAD 1.1 has no threshold")
    path, none = golden / "squad" / FILES[version], folder / "none answered"
    script.run(predict_file=path, init_checkpoint=directory, output_dir=none, do_predict=True, squad_version=version,
               null_score_diff_threshold=-1e4)
    assert set(read(none, "predictions.json").values()) == {""}
    results = read(none, "eval_results.json")
    assert results["null_score_diff_threshold"] == -1e4 and results["HasAns_f1"] == 0 and results["NoAns_f1"] == 100


@pytest.mark.long
def test_exports_of_a_run_decline_the_questions_that_its_predictions_decline(run, script, folder, golden):
    version, directory, _ = run
    if version == "1.1":
        pytest.skip("SQuAD 1.1 has no threshold")
    copy = folder / "thresholds"
    shutil.copytree(directory, copy)
    null_scores = sorted(read(directory, "null_odds.json").values())
    threshold = float(np.mean(null_scores[14:16]))
    flags = dict(output_dir=copy, squad_version=version, eagerly=False)
    script.run(predict_file=golden / "squad" / FILES[version], do_predict=True, null_score_diff_threshold=threshold,
               **flags)
    assert settings_in(str(copy)).null_score_diff_threshold == threshold
    script.run(predict_file=folder / "no_answers.json", do_predict=True, export_dir=folder / "declining", **flags)
    predictions = read(copy, "predictions.json")  # of a file without answers, by the stored threshold
    assert 0 < list(predictions.values()).count("") < len(predictions)
    asked = {question["id"]: (question["question"], paragraph["context"]) for article in json.loads(
        (folder / "no_answers.json").read_text())["data"] for paragraph in article["paragraphs"]
        for question in paragraph["qas"]}
    questions, contexts = (list(texts) for texts in zip(*asked.values()))
    model = albert_tf.from_pretrained(str(copy), model="conditional_span")
    tokenizer = albert_tf.tokenizer_from_pretrained(str(copy))
    onnx = OnnxModel(to_onnx(model), settings_of(model))
    served = tf.saved_model.load(str(folder / "declining")).signatures["serving_default"](
        question=tf.constant(questions), context=tf.constant(contexts))["answer"]
    of_serve = served_model("m", onnx, tokenizer).signatures["serving_default"].run(dict(
        question=np.array([text.encode() for text in questions], object),
        context=np.array([text.encode() for text in contexts], object)))["answer"]
    of_python = [[answer.answer for answer in albert_tf.answer_questions(each, tokenizer, questions, contexts)]
                 for each in (model, onnx)]
    for answers in (*of_python, served.numpy(), of_serve):
        assert [not answer for answer in answers] == [not predictions[qas_id] for qas_id in asked]


@pytest.mark.long
@pytest.mark.both_stacks
def test_the_exported_model_answers_text_and_ids(run, script, folder):
    version, directory, _ = run
    script.run(init_checkpoint=directory, output_dir=directory, export_dir=folder / "served", eagerly=False,
               null_score_diff_threshold=1e4)  # answers every question
    served = tf.saved_model.load(str(folder / "served")).signatures
    found = served["serving_default"](question=tf.constant(["Who built it?", ""]), context=tf.constant([CONTEXT, "x"]))
    text, start, end = (found[name].numpy()[0] for name in ("answer", "start", "end"))
    assert text and CONTEXT[start:end] == text.decode() and np.isfinite(found["score"].numpy()).all()
    assert ("no_answer_score" in found) == (version == "2.0")
    ids = dict.fromkeys(("input_ids", "input_mask", "segment_ids"), tf.ones([1, 12], tf.int32))
    if version == "2.0":
        ids["p_mask"] = tf.zeros([1, 12], tf.int32)
    assert {"1.1": "start_logits", "2.0": "cls_logits"}[version] in served["ids"](**ids)


def test_a_learnable_task_is_learned(script, run, tmp_path):
    """The answer is "honey", at any position. A context without it has no answer."""
    version, words = run[0], "the old clock and a blue boat stood near some trees".split()
    for split, count in (("train", 32), ("dev", 8)):
        paragraphs = []
        for i in range(count):
            order, impossible = random.Random(f"{split}{i}"), version == "2.0" and i % 2 == 1
            context = order.sample(words, 6)
            if not impossible:
                context.insert(order.randrange(6), "honey")
            text = " ".join(context)
            answers = [] if impossible else [dict(text="honey", answer_start=text.index("honey"))]
            paragraphs.append(dict(context=text, qas=[dict(id=f"{split}{i}", question="What is sweet?", answers=answers,
                                                           is_impossible=impossible)]))
        (tmp_path / f"{split}.json").write_text(json.dumps(dict(version=version, data=[dict(paragraphs=paragraphs)])))
    script.run(train_file=tmp_path / "train.json", predict_file=tmp_path / "dev.json", output_dir=tmp_path / "out",
               cached_dir=tmp_path, squad_version=version, do_train=True, do_eval=True, train_batch_size=8,
               train_step=100, warmup_step=20, save_checkpoints_steps=100, learning_rate=0.01, eagerly=False)
    assert read(tmp_path / "out", "eval_results.json")["f1"] == 100


def test_questions_from_the_terminal_are_answered(run, folder):
    version, directory, _ = run
    flags = dict(init_checkpoint=directory, output_dir=directory, squad_version=version, ask=True, max_seq_length=64,
                 doc_stride=24, max_query_length=16, context_file=folder / "context.txt")
    done = run_script("run_squad", flags, input="Who built it?\n\nnot read\n")
    assert done.returncode == 0, done.stderr
    head, columns, *answers = done.stdout.splitlines()
    assert head.startswith("Questions about") and len(answers) == 5 + (version == "2.0")
    assert columns.split() == ["share", "start", "end", "answer"]
    share, start, end, text = answers[0].split(maxsplit=3)
    assert share.endswith("%") and " ".join(CONTEXT[int(start) : int(end)].split()) == text
    assert answers[-1].startswith("no answer: ") == (version == "2.0")


def length(folder, golden, **flags):
    """The length of the runs of run_squad with other flags."""
    with loaded("run_squad") as run:
        with mock.patch("albert_tf.tasks.fine_tuning.fine_tune", side_effect=ValueError) as made:
            run(train_file=golden / "squad/train.json", output_dir=folder / "recipe", do_train=True,
                albert_config_file=folder / "config.json", spm_model_file=golden / "tiny_spm/tiny.model",
                max_seq_length=64, doc_stride=24, max_query_length=16, train_batch_size=1, **flags)
    return made.call_args.args[1].training


@pytest.mark.parametrize("flags, steps, warmup_steps", [
    (dict(), 8144, 814), (dict(num_train_epochs=2), 60, 6), (dict(train_step=50), 50, 5),
    (dict(train_step=50, warmup_step=20), 50, 20), (dict(warmup_proportion=0.5), 8144, 4072)])
def test_a_recipes_warm_up_is_kept_only_with_its_number_of_steps(folder, golden, flags, steps, warmup_steps):
    schedule = length(folder, golden, recipe="squad_v2", **flags).schedule(30, "question")
    assert (schedule.num_train_steps, schedule.num_warmup_steps) == (steps, warmup_steps)


def test_the_releases_flags_are_taken(script, folder, golden):
    path = golden / "squad/train.json"
    script.run(train_file=path, predict_file=path, output_dir=folder / "release", do_train=True, do_predict=True,
               train_feature_file=folder / "release/train.tfrecord",
               predict_feature_file=folder / "release/dev.tfrecord",
               predict_feature_left_file=folder / "release/left.jsonl", n_best_size=3, max_answer_length=5,
               start_n_top=9, end_n_top=7, warmup_proportion=0.5, train_step=1, use_tpu=False, use_einsum=False,
               iterations_per_loop=10, release_compatible=True)
    there = {path.name for path in (folder / "release").iterdir()}
    assert {"train.tfrecord", "null_odds.json"} <= there and not {"dev.tfrecord", "left.jsonl"} & there
    n_best = read(folder / "release", "nbest_predictions.json")
    assert max(map(len, n_best.values())) <= 3
    assert len(n_best) == 30  # the questions that --release_compatible drops have an entry too


@pytest.mark.parametrize("flags, message", [
    (dict(do_train=False), "nothing to do: set --do_train, --do_eval, --do_predict, --ask or --export_dir"),
    (dict(do_predict=True, predict_file="none.json"), "no such file: none.json"),
    (dict(ask=True, context_file="none.txt"), "no such file: none.txt"),
    (dict(ask=True, context_file=os.devnull), "is neither a file nor a pipe"),
    (dict(export_dir="served"), "--squad_version is missing, and neither a file nor a fine-tuned checkpoint tells it"),
    (dict(do_train=True, max_seq_length=19), "max_seq_length=19 leaves no tokens for a paragraph after a question of"),
    (dict(do_train=True, train_batch_size=1000, train_step=None), "30 questions cannot fill a step of 1000"),
    (dict(do_train=True, start_n_top=65), "--start_n_top and --end_n_top must not be above --max_seq_length=64"),
    (dict(do_train=True, max_seq_length=65), "--max_seq_length=65 is more than the config's"),
    (dict(do_predict=True, predict_file="train.json"), "and --init_checkpoint is not set"),
    (dict(do_train=True, do_predict=True, predict_file="dev_v1.json"), "the files are those of SQuAD 1.1 and 2.0"),
    (dict(do_train=True, num_train_epochs=2), "--train_step and --num_train_epochs exclude each other"),
    (dict(recipe="squad_v3", do_train=True), "no recipe 'squad_v3'")])
def test_a_mistake_ends_in_one_line(script, folder, golden, flags, message):
    given = dict(flags)
    if flags.get("do_train") and len(flags) > 1:
        given["train_file"] = golden / "squad/train.json"
    if str(flags.get("predict_file", "none.json")) != "none.json":
        given["predict_file"] = golden / "squad" / flags["predict_file"]
    printed = script.run(expect=1, output_dir=folder / "mistakes", **given)
    last = printed.strip().splitlines()[-1]
    assert last.startswith("run_squad: error:") and message in last
    assert "Traceback" not in printed
