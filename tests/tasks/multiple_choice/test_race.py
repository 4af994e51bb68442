"""RACE and other multiple choice: the release's examples and features, both layouts, bad files."""

import json
import shutil

import numpy as np
import pytest

from albert_tf.data.feature_table import FeatureCache
from albert_tf.tasks.multiple_choice.data import (
    LEVELS,
    MultipleChoiceExample,
    convert_examples_to_features,
    feature_table,
    read_examples,
    read_json_examples,
    read_split,
)
from albert_tf.text.pieces import preprocess_text
from albert_tf.text.tokenization import FullTokenizer

pytestmark = pytest.mark.both_stacks

SPLITS = ("train", "dev", "test")
PASSAGE = dict(id="middle1.txt", article="It rained all day.", questions=["It _ .", "What rained?"],
               options=[["rained", "snowed"], ["It", "He", "She"]], answers=["A", "C"])


@pytest.fixture(scope="module")
def recorded(golden):
    return json.loads((golden / "race" / "race_features.json").read_text())


@pytest.fixture(scope="module")
def tokenizer(sentence_pieces):
    return sentence_pieces


@pytest.fixture
def cache(tokenizer, tmp_path):
    return FeatureCache(tokenizer, str(tmp_path))


def write(folder, content, name="all.txt", split="train"):
    """Writes the file of one level. The file of the other level has a valid passage."""
    for level in LEVELS:
        (folder / "RACE" / split / level).mkdir(parents=True, exist_ok=True)
        (folder / "RACE" / split / level / "all.txt").write_text(json.dumps(PASSAGE))
    shutil.rmtree(folder / "RACE" / split / "high")
    (folder / "RACE" / split / "high").mkdir()
    (folder / "RACE" / split / "high" / name).write_text(content)
    return folder


@pytest.mark.parametrize("split", SPLITS)
def test_examples_are_the_releases(golden, recorded, split):
    examples = read_examples(str(golden / "race"), split)
    expected = recorded["splits"][split]["examples"]
    assert [example.example_id for example in examples] == [each["id"] for each in expected]
    assert [example.label for example in examples] == [each["label"] for each in expected]
    contexts = [preprocess_text(example.context, lower=True) for example in examples]
    assert contexts == [each["context"] for each in expected]


@pytest.mark.parametrize("layout", ["all.txt", "one file per passage"])
@pytest.mark.parametrize("split", SPLITS)
def test_features_are_the_releases(golden, recorded, tokenizer, split, layout):
    folder = golden / "race" if layout == "all.txt" else golden / "race" / "one_file_per_passage"
    examples = read_examples(str(folder), split)
    features = list(convert_examples_to_features(
        examples, tokenizer, recorded["max_seq_length"], recorded["max_qa_length"]))
    expected = recorded["splits"][split]["features"]
    for name in expected:
        assert [each[name] for each in features] == expected[name], name


def test_one_level_alone(golden, recorded):
    for only in ("high_only", "middle_only"):
        examples = read_examples(str(golden / "race" / "RACE"), "dev", **{only: True})
        assert len(examples) == recorded["counts"]["dev"][only]
        assert {example.level for example in examples} == {only.removesuffix("_only")}


def test_wordpiece_joins_texts_as_they_are(golden, tmp_path):
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "it", "is", "##wet", "wet"]
    (tmp_path / "vocab.txt").write_text("\n".join(pieces))
    words = FullTokenizer(vocab_file=str(tmp_path / "vocab.txt"))
    example = MultipleChoiceExample("1", "It", "is_", ("WET", "it"), 0)
    (features,) = convert_examples_to_features([example], words, 8, 8)
    assert features["input_ids"][0] == [2, 5, 3, 6, 7, 3, 0, 0]


def test_the_end_of_question_and_option_is_kept_and_the_passage_is_cut(tokenizer):
    example = MultipleChoiceExample("1", "passage " * 50, "why " * 20, ("a", "because " * 9), 1)
    (features,) = convert_examples_to_features([example], tokenizer, 32, 12)
    for ids, segments, mask in zip(features["input_ids"], features["segment_ids"], features["input_mask"]):
        assert sum(segments) == 12 + 1 and sum(mask) == 32
        assert ids[0] == tokenizer.cls_id and ids[-1] == tokenizer.sep_id
    assert features["input_ids"][1][-13:-1] == tokenizer.encode("why " * 20 + "because " * 9)[-12:]


def test_a_question_without_a_passage_is_one_text(tokenizer):
    (features,) = convert_examples_to_features(
        [MultipleChoiceExample("1", "", "It was", ("wet", "dry"), 1)], tokenizer, 16, 8)
    assert features["input_ids"][0][:-8] == [tokenizer.cls_id, *tokenizer.encode("It was wet"), tokenizer.sep_id,
                                             *[0] * 16][:8]
    assert not any(features["segment_ids"][0])


def changed(**changes):
    return json.dumps(dict(PASSAGE, **changes))


@pytest.mark.parametrize("content, message", [
    (changed(answers=["A", "7"]), "line 1, question 2: the answer must be a letter from A to C. Received: '7'"),
    (changed(answers=["A"]), "line 1: 'questions', 'options' and 'answers' must be lists of the same length"),
    (changed(options=None), "line 1: 'questions', 'options' and 'answers' must be lists of the same length"),
    (changed(options=[["a", "b"], ["a"] * 11]), "a question must have 2 to 10 options. Received: 11 options"),
    (changed(options=["ab", ["a", "b"]]), "question 1: the options must be a list of texts. Received: 'ab'"),
    (changed(article=" \n"), "line 1: 'article' must be a text that is not empty. Received: ' \\n'"),
    (changed(article=None), "line 1: 'article' must be a text that is not empty. Received: None"),
    (changed(questions="it"), "line 1: 'questions', 'options' and 'answers' must be lists of the same length"),
    (changed(questions=["a", 3]), "question 2: the question must be a text. Received: 3"),
    (changed() + "\n\n{not JSON}\n", "all.txt line 3: not JSON"),
])
def test_a_passage_that_is_not_as_it_should_be_is_named(tmp_path, content, message):
    with pytest.raises(ValueError) as error:
        read_examples(str(write(tmp_path, content)), "train")
    assert message in str(error.value) and "high" in str(error.value)


def test_folders_that_are_not_there_are_named(tmp_path):
    with pytest.raises(ValueError, match="no such folder: .*RACE/dev/middle"):
        read_examples(str(write(tmp_path, "")), "dev")
    with pytest.raises(ValueError, match="high has neither all.txt nor a .txt file"):
        read_examples(str(write(tmp_path, "", name="read.me")), "train")
    with pytest.raises(ValueError, match="high_only and middle_only exclude each other"):
        read_examples(str(tmp_path), "train", high_only=True, middle_only=True)


def test_json_lines(tmp_path):
    path = tmp_path / "dev.jsonl"
    path.write_text('{"question": "It was _.", "options": ["wet", "dry"], "answer": "B", "id": null, "level": null}\n'
                    '{"id": 7, "context": "Rain.", "question": "Why?", "options": ["a", "b", "c"], "level": "easy"}\n')
    assert read_json_examples(str(path)) == [
        MultipleChoiceExample(f"{path} line 1", "", "It was _.", ("wet", "dry"), 1, ""),
        MultipleChoiceExample("7", "Rain.", "Why?", ("a", "b", "c"), None, "easy")]


def test_an_empty_question_or_option_brings_a_warning(tmp_path, caplog):
    lines = ['{"question": "Why?", "options": ["a", "b"]}', '{"question": " ", "options": ["a", "b"]}',
             '{"question": "Why?", "options": ["a", ""]}']
    (tmp_path / "dev.jsonl").write_text("\n".join(lines))
    read_json_examples(str(tmp_path / "dev.jsonl"))
    assert caplog.messages == [f"{tmp_path}/dev.jsonl line 2: a text is empty (2 rows of this file)"]


@pytest.mark.parametrize("line, message", [
    ('{"options": ["a", "b"], "answer": "A"}', "dev.jsonl line 1: the question must be a text. Received: None"),
    ('{"question": "why", "options": ["a", "b"]}', "dev.jsonl: 1 of 1 questions have no answer"),
    ("\n", "dev.jsonl has no questions"),
])
def test_json_lines_that_are_not_as_they_should_be_are_named(tmp_path, line, message):
    (tmp_path / "dev.jsonl").write_text(line)
    with pytest.raises(ValueError) as error:
        read_split(str(tmp_path), "jsonl", "dev")
    assert message in str(error.value)


def test_tables_have_as_many_choices_as_the_data(golden, cache, tmp_path):
    table = feature_table(cache, read_split(str(golden / "race"), "race", "dev"), "race_dev", 64, 24)
    assert table.schema.num_choices == 4 and len(table) == 5
    write(tmp_path, changed())
    table = feature_table(cache, read_split(str(tmp_path), "race", "train"), "race_train", 64, 24)
    assert table.schema.num_choices == 3 and table.scalars["label_ids"].numpy().tolist() == [0, 2, 0, 2]
    batch = table.batch(np.array([1, 0]), 32)
    assert batch["input_ids"].shape == [2, 3, 32]
    assert np.any(batch["input_mask"], axis=2).tolist() == [[True, True, True], [True, True, False]]


def test_records_of_other_questions_are_refused(golden, cache, tmp_path):
    records = str(tmp_path / "eval.tf_record")

    def table(split):
        return feature_table(cache, read_split(str(golden / "race"), "race", split), f"race_{split}", 64, 24, records)

    table("dev")
    assert len(table("test")) == 3  # ours say what they are of, and are made anew
    next(tmp_path.glob("*.manifest.json")).unlink()
    with pytest.raises(ValueError, match="eval.tf_record has 3 questions, but the data set has 5: choose another path"):
        table("dev")
