"""SQuAD's JSON: reading, answers that are not at their offset, and files that are not SQuAD."""

import json

import pyarrow
import pyarrow.parquet
import pytest

from albert_tf.tasks.squad import evaluate_v1, read_squad_examples
from albert_tf.tasks.squad.metrics import normalize_answer
from albert_tf.tasks.squad.reading import (
    EMPTY,
    FOUND_NEARBY,
    LEFT_OUT,
    DatasetSummary,
    ReadingNotes,
    end_of_character,
    read_paragraphs,
    read_squad_file,
)


def question(qas_id="a", text="Who?", answer=("Ada", 0), **fields):
    answers = [dict(text=answer[0], answer_start=answer[1])] if answer else []
    return dict(id=qas_id, question=text, answers=answers, **fields)


def file_of(folder, *questions, context="Ada met Ada.", **top):
    path = folder / "squad.json"
    paragraphs = [dict(context=context, qas=list(questions))]
    path.write_text(json.dumps(dict(data=[dict(title="t", paragraphs=paragraphs)], **top)), encoding="utf-8")
    return str(path)


def raw(folder, content):
    path = folder / "squad.json"
    path.write_bytes(content)
    return str(path)


def summary_of(path):
    return read_squad_file(path).summary


# --- answers ---------------------------------------------------------------------------------------------------------


def test_the_first_of_several_answers_is_trained_on(tmp_path):
    several = question()
    several["answers"].append(dict(text="met", answer_start=4))
    (example,) = read_squad_examples(file_of(tmp_path, several), is_training=True)
    assert (example.orig_answer_text, example.start_position, example.is_impossible) == ("Ada", 0, False)


@pytest.mark.parametrize("start, found", [(7, 8), (1, 0), (4, 0), (500, 8), (-3, 0)])
def test_a_misplaced_answer_is_found_at_the_nearest_place(tmp_path, start, found):
    path = file_of(tmp_path, question(answer=("Ada", start)))
    notes = ReadingNotes()
    ((example,),) = read_paragraphs(read_squad_file(path), is_training=True, notes=notes)
    assert example.start_position == found and notes[FOUND_NEARBY] == 1
    assert "1 answers found near their answer_start" in str(notes)


def test_an_answer_in_another_unicode_normalization_is_found(tmp_path):
    context = "At the cafe\u0301 and caf\u00e9s."
    path = file_of(tmp_path, question(answer=("the caf\u00e9", 3)), context=context)
    (example,) = read_squad_examples(path, is_training=True)
    assert example.answer == ("the cafe\u0301", 3)
    assert normalize_answer("Cafe\u0301") == normalize_answer("caf\u00e9")
    assert end_of_character(context, 11) == 12 and end_of_character(context, 10) == 10


@pytest.mark.parametrize("answer", [("Bob", 0), ("", 0)])
def test_an_answer_without_a_place_is_left_out_and_counted(tmp_path, answer):
    path, notes = file_of(tmp_path, question(answer=answer), question("b")), ReadingNotes()
    ((example,),) = read_paragraphs(read_squad_file(path), True, notes)
    assert example.qas_id == "b" and (notes["questions"], notes[LEFT_OUT]) == (2, 1)


def test_prediction_keeps_every_question_and_reads_no_answers(tmp_path):
    path = file_of(tmp_path, question(answer=("Bob", 0)), question("b", text=" "), question("c", answer=None))
    notes = ReadingNotes()
    (examples,) = read_paragraphs(read_squad_file(path), is_training=False, notes=notes)
    assert [example.qas_id for example in examples] == ["a", "b", "c"] and notes[EMPTY] == 1
    assert {example.orig_answer_text for example in examples} == {None}


def test_impossible_questions_have_no_answer(tmp_path):
    (example,) = read_squad_examples(file_of(tmp_path, question(answer=None, is_impossible=True)), is_training=True)
    assert (example.is_impossible, example.start_position, example.orig_answer_text) == (True, -1, "")


# --- files -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("top, fields, version", [
    (dict(version="1.1"), {}, "1.1"), (dict(version="v2.0"), {}, "2.0"), ({}, dict(is_impossible=False), "2.0"),
    ({}, {}, "1.1"), (dict(version="my own"), {}, "1.1")])
def test_the_version_is_from_the_file_or_its_questions(tmp_path, top, fields, version):
    assert summary_of(file_of(tmp_path, question(**fields), **top)) == DatasetSummary(version, 1, True)


def test_answers_may_be_null_where_there_are_none(tmp_path):
    assert summary_of(file_of(tmp_path, dict(question(), answers=None))) == DatasetSummary("1.1", 1, has_answers=False)


def test_ids_may_be_whole_numbers(tmp_path):
    questions = [dict(id=number, question="Who?", answers=[dict(text="Ada", answer_start=0)]) for number in (0, 12)]
    data = [dict(paragraphs=[dict(context="Ada left.", qas=questions)])]
    path = raw(tmp_path, json.dumps(dict(data=data)).encode())
    assert [example.qas_id for example in read_squad_examples(path, is_training=True)] == ["0", "12"]
    assert evaluate_v1(data, {"0": "Ada", "12": "Bob"}) == dict(exact_match=50.0, f1=50.0)


HF_ROWS = [dict(id=str(i), title="t", context=context, question="Who?", answers=dict(text=texts, answer_start=starts))
           for i, (context, texts, starts) in enumerate([
               ("Ada met Bo.", ["Ada", "Ada met"], [0, 0]), ("Ada met Bo.", ["Bo"], [8]), ("Cy left.", ["Cy"], [0])])]


def write_rows(path, rows):
    if path.suffix == ".parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    elif path.name.startswith("list"):
        path.write_text(json.dumps(rows, indent=1))
    elif path.name.startswith("data"):
        path.write_text(json.dumps(dict(version="0.1.0", data=rows)))
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


FORMATS = ["rows.jsonl", "rows.json", "rows.parquet", "list.json", "data.json"]


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("has_impossible", [False, True])
def test_rows_are_the_questions_of_the_nested_file(tmp_path, name, has_impossible):
    rows = [*HF_ROWS, dict(HF_ROWS[0], id="9", answers=dict(text=[], answer_start=[]))][: 3 + has_impossible]
    contexts = ["Ada met Bo.", "Cy left.", "Ada met Bo."][: 2 + has_impossible]
    qas = [dict(id=row["id"], question="Who?", answers=[dict(text=text, answer_start=start) for text, start in zip(
        row["answers"]["text"], row["answers"]["answer_start"])]) for row in rows]
    for question in qas:
        question.update(dict(is_impossible=not question["answers"]) if has_impossible else {})
    parts = [qas[:2], qas[2:3], qas[3:]]
    nested = dict(data=[dict(title="t", paragraphs=[dict(context=context, qas=part)
                                                    for context, part in zip(contexts, parts)])])
    expected, file = raw(tmp_path, json.dumps(nested).encode()), write_rows(tmp_path / name, rows)
    for is_training in (False, True):
        assert read_squad_examples(file, is_training) == read_squad_examples(expected, is_training)
    version = "2.0" if has_impossible else "1.1"
    assert summary_of(file) == summary_of(expected) == DatasetSummary(version, len(rows), True)
    assert [len(part) for part in read_paragraphs(read_squad_file(file), False)] == [2, 1, 1][: 2 + has_impossible]
    predictions = {row["id"]: "Ada" for row in rows}
    assert evaluate_v1(read_squad_file(file).articles, predictions) == evaluate_v1(nested["data"], predictions)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("changes, message", [
    (dict(id="0"), "another question has the same id, '0'"), (dict(context=None), "'context' must be a string"),
    (dict(question=None), "'question' must be a string"),
    (dict(answers=dict(text=["Bo"], answer_start=[8, 8])), "'answers' must have lists of the same length"),
    (dict(answers=dict(text=["Bo"], answer_start=[None])), r"answers\[0\]: 'answer_start' must be a whole number")])
def test_a_wrong_row_is_named(tmp_path, name, changes, message):
    path = write_rows(tmp_path / name, [HF_ROWS[0], {**HF_ROWS[1], **changes}])
    place = r": data\[1\]" if name in ("list.json", "data.json") else " line 2"
    with pytest.raises(ValueError, match=rf"^{path}{place}.*{message}"):
        read_squad_examples(path, is_training=True)


def test_rows_without_answers_are_predicted(tmp_path):
    path = write_rows(tmp_path / "a.jsonl", [{**row, "answers": dict(text=[], answer_start=[])} for row in HF_ROWS])
    assert summary_of(path) == DatasetSummary("1.1", 3, False)
    assert len(read_squad_examples(path, is_training=False)) == 3


def test_other_files_in_the_folder_of_the_data_do_not_matter(tmp_path):
    path = raw(tmp_path, b'\xef\xbb\xbf {"n": 12, "data" : [ {"paragraphs": []} , {"paragraphs": [{"context": "x", '
               b'"qas":[{"id": "a", "question": "?"}]}]}], "more": {"data": [1]}} ')
    assert [example.qas_id for example in read_squad_examples(path, is_training=False)] == ["a"]


@pytest.mark.parametrize("content, message", [
    (b"", "json is empty"), (b"\xef\xbb\xbf", "json line 1: not JSON"), (b"[1]", "is not a SQuAD file: expected '{'"),
    (b"{}", "no articles in \"data\""), (b'{"data": [{"paragraphs": [', "line 1: not JSON"),
    (b'{"data": [{}]}', r"data\[0\]: 'paragraphs' must be a list. Received: None"),
    (b'{"data": [7]}', r"data\[0\]: 'paragraphs' must be a list"),
    (b'{"data": 7}', r"data\[0\]: 'paragraphs' must be a list"),
    (b'{"data": []} {"data": []}', r"line 1: not JSON \(Extra data\)"),
    (b'{"data": ' + b"[" * 100_000, "nested too deeply"),
    (b'{"data": [{"paragraphs": []}]}', "has no questions"), (b'{"version": "\xff"}', "line 1: not UTF-8"),
    (b'{"data": [{"paragraphs": [{"qas": [5]}]}]}', r"paragraphs\[0\]: 'context' must be a string"),
    (b'{"data": [{"paragraphs": [{"context": "x", "qas": [5]}]}]}', r"qas\[0\]: 'id' must be a string"),
    (b'{"data": [{"paragraphs": [{"context": "x", "qas": [{"id": "a"}]}]}]}',
     r"qas\[0\]: 'question' must be a string"),
    (b'{"data": [{"paragraphs": [{"context": "x", "qas": [{"id": 1.0}]}]}]}', r"'id' must be a string. Received: 1.0"),
    (b'{"data": [{"paragraphs": [{"context": "\\ud83d", "qas": [5]}]}]}', r"'context': '.ud83d' is half of a")],
    ids=lambda value: str(value)[:60])
def test_a_file_that_is_not_squad_is_refused_by_its_place(tmp_path, content, message):
    with pytest.raises(ValueError, match=message):
        read_squad_examples(raw(tmp_path, content), is_training=False)


@pytest.mark.parametrize("wrong, message", [
    (question(answer=None), r"qas\[0\]: no answer to train on; a question without an answer needs"),
    (question(answer=("Ada", "0")), r"answers\[0\]: 'answer_start' must be a whole number. Received: '0'"),
    (question(is_impossible="false"), r"qas\[0\]: 'is_impossible' must be true or false. Received: 'false'"),
    (question(answer=(None, 0)), r"answers\[0\]: 'text' must be a string"),
    (dict(question(), answers=7), r"qas\[0\]: 'answers' must be a list"),
    (dict(question(), answers=dict(text=["Ada"], answer_start=[0])), "'answers' must be a list"),
    (dict(question(), answers=["Ada"]), r"answers\[0\]: 'text' must be a string")], ids=str)
def test_training_questions_without_a_usable_answer_are_reported(tmp_path, wrong, message):
    with pytest.raises(ValueError, match=message):
        read_squad_examples(file_of(tmp_path, wrong), is_training=True)


def test_a_duplicate_id_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"qas\[1\]: another question has the same id, 'a'"):
        read_squad_examples(file_of(tmp_path, question(), question()), is_training=False)
