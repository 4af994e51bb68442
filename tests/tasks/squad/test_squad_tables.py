"""SQuAD features: training's as cached records, prediction's in memory with the offsets of their tokens."""

import json

import numpy as np
import pytest

from albert_tf.data.feature_table import FeatureCache
from albert_tf.tasks.squad.answers import AnswerOptions, answers
from albert_tf.tasks.squad.features import FeatureOptions, made_from, prediction_table, training_table
from albert_tf.tasks.squad.reading import read_paragraphs, read_squad_file
from albert_tf.text.tokenization import FullTokenizer, tokenizer_key


@pytest.fixture
def cache(sentence_pieces, tmp_path):
    return FeatureCache(sentence_pieces, str(tmp_path))


def options(doc_stride=24, max_seq_length=64, **more):
    return FeatureOptions(max_seq_length, doc_stride, 16, **more)


def trained(cache, path, **more):
    return training_table(cache, read_squad_file(str(path)), options(**more))


def test_training_records_have_the_releases_features(golden, cache):
    expected = json.loads((golden / "squad/features_train.json").read_text())["features"]
    table = trained(cache, golden / "squad/train.json", release_compatible=True)
    assert len(table) == len(expected)
    for name, field in (("unique_ids", "unique_id"), ("start_positions", "start_position"),
                        ("end_positions", "end_position"), ("is_impossible", "is_impossible")):
        assert table.scalars[name].numpy().tolist() == [int(feature[field]) for feature in expected], name
    check_tokens(table, expected)


def check_tokens(table, expected):
    for name in ("input_ids", "segment_ids", "p_mask"):
        without_padding = [feature[name][: sum(feature["input_mask"])] for feature in expected]
        assert table.sequences[name].to_list() == without_padding, name


def test_the_questions_have_their_contexts_and_a_window_for_each_feature(golden, sentence_pieces):
    expected = json.loads((golden / "squad/features_predict.json").read_text())["features"]
    file = read_squad_file(str(golden / "squad/dev.json"))
    table, questions = prediction_table(sentence_pieces, file, options(release_compatible=True))
    assert table.scalars["unique_ids"].numpy().tolist() == [feature["unique_id"] for feature in expected]
    check_tokens(table, expected)
    examples = [example for paragraph in read_paragraphs(file, False) for example in paragraph]
    assert [question[:2] for question in questions] == [(each.qas_id, each.paragraph_text) for each in examples]
    windows = [(question.qas_id, window) for question in questions for window in question.windows]
    assert len(windows) == len(expected)
    for (qas_id, window), feature in zip(windows, expected):
        for name in ("tok_start_to_orig_index", "tok_end_to_orig_index"):
            assert getattr(window, name) == feature[name]
        marks = {str(window.doc_offset + i): mark for i, mark in enumerate(window.is_max_context)}
        assert (qas_id, marks) == (feature["qas_id"], feature["token_is_max_context"])


def test_scores_of_a_model_that_diverged_are_reported(golden, sentence_pieces):
    table, questions = prediction_table(sentence_pieces, read_squad_file(str(golden / "squad/dev.json")), options())
    rows = len(table)
    results = dict(start_top_log_probs=[np.zeros(2, np.float32)] * rows, start_top_index=[np.arange(2)] * rows,
                   end_top_log_probs=[np.zeros(2, np.float32)] * rows, end_top_index=[np.arange(2)] * rows)
    assert len(list(answers(questions, [results], AnswerOptions("1.1")))) == 24
    results["end_top_log_probs"] = [*results["end_top_log_probs"][:-1], np.array([0, np.nan])]
    with pytest.raises(ValueError, match="NaN or infinite: training has diverged"):
        list(answers(questions, [results], AnswerOptions("1.1")))


@pytest.mark.parametrize("changes", [
    dict(text=("Who", "Whose")), dict(max_seq_length=63), dict(doc_stride=8), dict(max_query_length=15),
    dict(release_compatible=True),
    dict(vocabulary="accents/spiece.model"), dict(do_lower_case=False), dict(keep_accents=True)], ids=str)
def test_features_of_another_file_vocabulary_or_setting_are_other_features(golden, tmp_path, changes):
    def key(text=("", ""), max_seq_length=64, doc_stride=24, max_query_length=16,
            release_compatible=False, vocabulary="tiny_spm/tiny.model", **casing):
        path = tmp_path / "train.json"
        path.write_text((golden / "squad/train.json").read_text().replace(*text))
        options = FeatureOptions(max_seq_length, doc_stride, max_query_length, True, release_compatible)
        tokenizer = FullTokenizer(spm_model_file=str(golden / vocabulary), **casing)
        return made_from(read_squad_file(str(path)), options), tokenizer_key(tokenizer)

    assert key() == key() != key(**changes)


def test_a_file_of_someone_else_is_not_replaced(golden, cache, tmp_path):
    path = tmp_path / "mine.tfrecord"
    path.write_text("precious, " * 10)
    with pytest.raises(ValueError, match="mine.tfrecord was truncated or changed, or is not a TFRecord"):
        training_table(cache, read_squad_file(str(golden / "squad/train.json")), options(), path=str(path))
    assert path.read_text() == "precious, " * 10


def test_a_file_without_trainable_questions_is_reported(cache, tmp_path):
    question = dict(id="a", question="Who?", answers=[dict(text="Bob", answer_start=0)])
    data = dict(data=[dict(paragraphs=[dict(context="Ada", qas=[question])])])
    (tmp_path / "train.json").write_text(json.dumps(data))
    with pytest.raises(ValueError, match="train.json has no question to train on"):
        trained(cache, tmp_path / "train.json")
    assert [path.name for path in tmp_path.iterdir()] == ["train.json"]


def test_a_file_of_empty_contexts_has_no_table(sentence_pieces, tmp_path):
    question = dict(id="a", question="Who?")
    data = dict(data=[dict(paragraphs=[dict(context=" ", qas=[question])])])
    (tmp_path / "empty.json").write_text(json.dumps(data))
    table, questions = prediction_table(sentence_pieces, read_squad_file(str(tmp_path / "empty.json")), options())
    assert table is None and questions == [("a", " ", [])]
