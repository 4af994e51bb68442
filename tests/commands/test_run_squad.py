"""What run_squad alone has: both versions, thresholds, --ask, the release's flags."""

import json

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the ops of exported models
from script_process import run as run_script

import albert_tf
from albert_tf.export.onnx.session import OnnxModel
from albert_tf.export.onnx.writing import to_onnx
from albert_tf.tasks.squad.metrics import character_scores
from albert_tf.tasks.squad.reading import read_squad_file
from albert_tf.weights.settings import settings_in

CONTEXT = "Ada built the clock in 1,908 days.  Zoë Brånström ate ½ of it… and the frogs sang. " * 8


@pytest.fixture(scope="module")
def folder(tmp_path_factory, golden):
    folder = tmp_path_factory.mktemp("squad")
    (folder / "context.txt").write_text(CONTEXT)
    data = json.loads((golden / "squad/train.json").read_text())
    for article in data["data"]:
        for paragraph in article["paragraphs"]:
            for question in paragraph["qas"]:
                del question["answers"]
    (folder / "no_answers.json").write_text(json.dumps(data))
    return folder


@pytest.fixture(scope="module", params=["1.1", "2.0"])
def run(request, run_of):
    return run_of(f"SQuAD {request.param}")


def read(directory, name):
    return json.loads((directory / name).read_text(encoding="utf-8"))


def questions_of(path):
    data = json.loads(path.read_text(encoding="utf-8"))["data"]
    return [question["id"] for article in data for paragraph in article["paragraphs"] for question in paragraph["qas"]]


@pytest.mark.both_stacks
def test_every_question_has_an_entry_in_the_files(run, golden):
    is_v2 = run.task.name == "SQuAD 2.0"
    ids = questions_of(golden / "squad" / ("train.json" if is_v2 else "dev_v1.json"))
    predictions, n_best = read(run.path, "predictions.json"), read(run.path, "nbest_predictions.json")
    assert list(predictions) == list(n_best) == ids
    for qas_id, candidates in n_best.items():
        assert sum(candidate["probability"] for candidate in candidates) == pytest.approx(1)
        assert predictions[qas_id] in ("", candidates[0]["text"])
    assert (run.path / "null_odds.json").exists() == is_v2
    epochs = "0.267 passes over 30 questions" if is_v2 else "0.615 passes over 13 questions"
    assert f"{epochs}: 2 steps of 4" in run.printed


def test_characters_are_scored_on_request_and_for_chinese_it_is_told(run, folder, tmp_path):
    context = "小船在五月由艾达卖掉了。"
    rows = [dict(id=str(i), context=context, question="谁?", answers=dict(text=texts, answer_start=[6] * len(texts)))
            for i, texts in enumerate([["艾达"], ["艾达"], [] if run.task.name == "SQuAD 2.0" else ["艾达"]])]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    flags = dict(predict_file=tmp_path / "rows.jsonl", init_checkpoint=run.path, do_predict=True)
    assert "--count_characters counts characters" in run(output_dir=tmp_path / "words", **flags)
    assert "--count_characters" not in run(output_dir=tmp_path / "characters", count_characters=True, **flags)
    words, results = (read(tmp_path / name, "eval_results.json") for name in ("words", "characters"))
    predictions = read(tmp_path / "characters", "predictions.json")
    file = read_squad_file(str(tmp_path / "rows.jsonl"))
    assert results == pytest.approx({**words, **character_scores(file.articles, predictions)})


def test_a_file_without_answers_is_predicted_and_cannot_be_scored(run, folder, golden, tmp_path):
    flags = dict(predict_file=folder / "no_answers.json", init_checkpoint=run.path, output_dir=tmp_path / "out")
    run(do_predict=True, **flags)
    assert list(read(tmp_path / "out", "predictions.json")) == questions_of(golden / "squad/train.json")
    assert not (tmp_path / "out/eval_results.json").exists()
    assert "no_answers.json" in run.fails(do_eval=True, **flags)


@pytest.mark.long
def test_exports_of_a_run_decline_the_questions_that_its_predictions_decline(run_of, folder, tmp_path):
    run = run_of("SQuAD 2.0")
    copy = run.copy(tmp_path / "thresholds")
    threshold = float(np.mean(sorted(read(run.path, "null_odds.json").values())[14:16]))
    run(output_dir=copy, do_predict=True, null_score_diff_threshold=threshold, eagerly=False)
    assert settings_in(str(copy)).null_score_diff_threshold == threshold
    run(output_dir=copy, predict_file=folder / "no_answers.json", do_predict=True, export_dir=folder / "declining",
        eagerly=False)
    predictions = read(copy, "predictions.json")  # of a file without answers, by the stored threshold
    assert 0 < list(predictions.values()).count("") < len(predictions)
    questions, contexts = (list(texts) for texts in zip(*(
        (question["question"], paragraph["context"]) for article in read(folder, "no_answers.json")["data"]
        for paragraph in article["paragraphs"] for question in paragraph["qas"])))
    model = albert_tf.from_pretrained(str(copy), model="conditional_span")
    tokenizer = albert_tf.tokenizer_from_pretrained(str(copy))
    served = tf.saved_model.load(str(folder / "declining")).signatures["serving_default"](
        question=tf.constant(questions), context=tf.constant(contexts))["answer"]
    of_python = [[answer.answer for answer in albert_tf.answer_questions(each, tokenizer, questions, contexts)]
                 for each in (model, OnnxModel(to_onnx(model), model.settings))]
    for answers in (*of_python, served.numpy()):
        assert [not answer for answer in answers] == [not text for text in predictions.values()]


def test_questions_from_the_terminal_are_answered(run, folder):
    is_v2 = run.task.name == "SQuAD 2.0"
    flags = dict(init_checkpoint=run.path, output_dir=run.path, squad_version=run.task.name[-3:], ask=True,
                 max_seq_length=64, doc_stride=24, max_query_length=16, context_file=folder / "context.txt")
    done = run_script("run_squad", flags, input="Who built it?\n\nnot read\n")
    assert done.returncode == 0, done.stderr
    head, columns, *answers = done.stdout.splitlines()
    assert head.startswith("Questions about") and len(answers) == 5 + is_v2
    assert columns.split() == ["share", "start", "end", "answer"]
    share, start, end, text = answers[0].split(maxsplit=3)
    assert share.endswith("%") and " ".join(CONTEXT[int(start) : int(end)].split()) == text
    assert answers[-1].startswith("no answer: ") == is_v2


def test_the_releases_flags_are_taken(run_of, folder):
    run_of("SQuAD 2.0")(
        squad_version=None, warmup_step=None, output_dir=folder / "release", do_train=True, do_predict=True,
        train_feature_file=folder / "release/train.tfrecord", predict_feature_file=folder / "release/dev.tfrecord",
        predict_feature_left_file=folder / "release/left.jsonl", n_best_size=3, max_answer_length=5, start_n_top=9,
        end_n_top=7, warmup_proportion=0.5, train_step=1, use_tpu=False, use_einsum=False, iterations_per_loop=10,
        release_compatible=True)
    there = {path.name for path in (folder / "release").iterdir()}
    assert {"train.tfrecord", "null_odds.json"} <= there and not {"dev.tfrecord", "left.jsonl"} & there
    n_best = read(folder / "release", "nbest_predictions.json")
    assert max(map(len, n_best.values())) <= 3
    assert len(n_best) == 30  # the questions that --release_compatible drops have an entry too
