"""SQuAD features kept as records, and beside them where their tokens stand in the text."""

import json

import pytest

from albert_tf.data.squad.cache import FeatureSource, prediction_table, read_left_part, training_table
from albert_tf.data.squad.features import FeatureOptions


@pytest.fixture
def tokenizer(sentence_pieces):
    return sentence_pieces


def source(path, tokenizer, is_training=False, doc_stride=24, max_seq_length=64, **more):
    return FeatureSource(str(path), 30, tokenizer, FeatureOptions(max_seq_length, doc_stride, 16, is_training, **more))


def test_training_records_hold_the_releases_features(golden, tokenizer, tmp_path):
    expected = json.loads((golden / "squad/features_train.json").read_text())["features"]
    table = training_table(source(golden / "squad/train.json", tokenizer, True, release_compatible=True), str(tmp_path))
    assert len(table) == len(expected)
    for name, field in (("unique_ids", "unique_id"), ("start_positions", "start_position"),
                        ("end_positions", "end_position"), ("is_impossible", "is_impossible")):
        assert table.scalars[name].numpy().tolist() == [int(feature[field]) for feature in expected], name
    for name in ("input_ids", "segment_ids", "p_mask"):
        without_padding = [feature[name][: sum(feature["input_mask"])] for feature in expected]
        assert table.sequences[name].to_list() == without_padding, name


def test_the_left_part_has_a_line_for_each_feature(golden, tokenizer, tmp_path):
    expected = json.loads((golden / "squad/features_predict.json").read_text())["features"]
    files = source(golden / "squad/dev.json", tokenizer, release_compatible=True)
    _, left_path = prediction_table(files, str(tmp_path))
    parts = list(read_left_part(left_path))
    assert len(parts) == len(expected)
    for part, feature in zip(parts, expected):
        assert (part.starts, part.ends) == (feature["tok_start_to_orig_index"], feature["tok_end_to_orig_index"])
        marks = {str(part.doc_offset + i): mark for i, mark in enumerate(part.is_max_context)}
        assert (part.qas_id, marks) == (feature["qas_id"], feature["token_is_max_context"])


def test_features_are_made_once_and_anew_where_anything_changed(golden, tokenizer, tmp_path, caplog):
    caplog.set_level("INFO", logger="absl")

    def made(path, **more):
        caplog.clear()
        prediction_table(source(path, tokenizer, **more), str(tmp_path))
        return "records made" in caplog.text

    changed = tmp_path / "changed.json"
    changed.write_text((golden / "squad/dev.json").read_text().replace("Who", "Whose"))
    assert made(golden / "squad/dev.json") and not made(golden / "squad/dev.json")
    assert made(changed) and made(changed, doc_stride=8) and not made(changed)


def test_a_left_part_that_was_cut_is_made_anew(golden, tokenizer, tmp_path):
    files = source(golden / "squad/dev.json", tokenizer)
    table, left_path = prediction_table(files, str(tmp_path))
    whole = open(left_path, encoding="utf-8").read()
    with open(left_path, "w", encoding="utf-8") as file:
        file.write(whole[:1000])
    again, _ = prediction_table(files, str(tmp_path))
    assert len(again) == len(table) and open(left_path, encoding="utf-8").read() == whole


def test_files_of_ones_own_are_made_anew_where_anything_changed(golden, tokenizer, tmp_path):
    path = str(tmp_path / "mine.tfrecord")
    for length in (64, 40, 64):
        files = source(golden / "squad/dev.json", tokenizer, max_seq_length=length)
        table, left_path = prediction_table(files, str(tmp_path), path)
        tokens = [part.doc_offset + len(part.starts) + 1 for part in read_left_part(left_path)]
        assert tokens == table.lengths.tolist() and max(tokens) == length


def test_a_file_of_which_nothing_can_be_trained_on_is_told(tokenizer, tmp_path):
    question = dict(id="a", question="Who?", answers=[dict(text="Bob", answer_start=0)])
    data = dict(data=[dict(paragraphs=[dict(context="Ada", qas=[question])])])
    (tmp_path / "train.json").write_text(json.dumps(data))
    with pytest.raises(ValueError, match="train.json has no question to train on"):
        training_table(source(tmp_path / "train.json", tokenizer, is_training=True), str(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["train.json"]


def test_records_of_other_features_are_told(golden, tokenizer, tmp_path):
    path = str(tmp_path / "mine.tfrecord")
    prediction_table(source(golden / "squad/dev.json", tokenizer, release_compatible=True), str(tmp_path), path)
    (tmp_path / "mine.manifest.json").unlink()  # as the release's records, which have none
    with pytest.raises(ValueError, match="mine.tfrecord has 140 features, and .*dev.json gives 14.: they were made"):
        prediction_table(source(golden / "squad/dev.json", tokenizer), str(tmp_path / "other"), path)


def test_a_file_of_empty_contexts_has_no_table(tokenizer, tmp_path):
    question = dict(id="a", question="Who?")
    data = dict(data=[dict(paragraphs=[dict(context=" ", qas=[question])])])
    (tmp_path / "empty.json").write_text(json.dumps(data))
    table, left_path = prediction_table(source(tmp_path / "empty.json", tokenizer), str(tmp_path))
    assert table is None and not list(read_left_part(left_path))
