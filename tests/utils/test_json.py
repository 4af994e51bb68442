"""The error of JSON that cannot be read is one line that names the file, for every kind of file."""

import json

import pytest

from albert_tf.commands import flags
from albert_tf.config import AlbertConfig
from albert_tf.data.records import check_records
from albert_tf.data.rows import read_rows
from albert_tf.tasks.classification.table_format import read_table_format
from albert_tf.tasks.multiple_choice.data import read_examples, read_json_examples
from albert_tf.tasks.squad.reading import read_squad_examples
from albert_tf.training.config import Devices
from albert_tf.training.evaluation import read_history
from albert_tf.training.strategy import create_strategy
from albert_tf.utils.files import parse_json_object, read_json_object
from albert_tf.weights.hugging_face.configs import read_config
from albert_tf.weights.hugging_face.reading import stored_tensors
from albert_tf.weights.hugging_face.tokenizer_files import options_in


def read_recipe(path):
    flags.recipe_values(str(path))


def read_manifest(path):
    records = path.with_name("x.tfrecord")
    records.write_bytes(bytes(100))
    check_records([str(records)])


def manifest(**entries):
    files = {"x.tfrecord": dict(size=100, **entries)}
    return json.dumps(dict(complete=True, files=files, made_from={})).encode()


# What reads it, and what the file is called.
READERS = {
    "config": ("albert_config.json", lambda path: AlbertConfig.from_json_file(str(path))),
    "Hugging Face's config": ("config.json", lambda path: read_config(str(path.parent))),
    "tokenizer config": ("tokenizer_config.json", lambda path: options_in(str(path.parent))),
    "index of weights": ("model.safetensors.index.json", lambda path: stored_tensors(str(path.parent))),
    "recipe": ("recipe.json", read_recipe),
    "task config": ("task.json", lambda path: read_table_format(str(path))),
    "manifest": ("x.manifest.json", read_manifest),
    "history": ("eval_history.jsonl", lambda path: read_history(str(path.parent), "accuracy")),
    "JSON lines of GLUE": ("train.jsonl", lambda path: list(read_rows(str(path), dict(text_a="a")))),
    "multiple choice": ("train.jsonl", lambda path: read_json_examples(str(path))),
    "SQuAD": ("train.json", lambda path: read_squad_examples(str(path), is_training=True)),
    "RACE": ("train/high/1.txt", lambda path: read_examples(str(path.parents[2]), "train", high_only=True)),
    "RACE in one file": ("train/high/all.txt",
                         lambda path: read_examples(str(path.parents[2]), "train", high_only=True)),
}
BAD = {
    "nested lists": (b'{"a": ' + b"[" * 100_000, "nested too deeply"),
    "nested objects": (b'{"a": ' * 100_000, "nested too deeply"),
    "a long number": (b'{"a": 1' + b"0" * 5_000 + b"}", "a number of 5,001 digits"),
    "no UTF-8": (b'{"a": "\xff"}', "not UTF-8"),
    "a cut file": (b'{"a": "b', "not JSON|was truncated|was cut"),
    "a list": (b"[1, 2]", r"expected a JSON object|expected '\{'"),
    "a number": (b"7", r"expected a JSON object|expected '\{'"),
    "nothing": (b"", r"is empty|expected '\{'"),
}


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("reader", READERS)
def test_json_that_cannot_be_read_is_one_line_with_the_files_name(tmp_path, reader, bad):
    name, read = READERS[reader]
    content, message = BAD[bad]
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message) as caught:
        read(path)
    assert str(path) in str(caught.value) and len(str(caught.value)) < len(str(path)) + 150


HALF = {
    "JSON lines of GLUE": b'{"a": "\\ud83d"}',
    "multiple choice": b'{"question": "\\uDE00", "options": ["a", "b"], "answer": "A"}',
    "RACE": b'{"article": "a", "questions": ["\\ud83d"], "options": [["a", "b"]], "answers": ["A"]}',
    "RACE in one file": b'{"article": "\\ud83d", "questions": [], "options": [], "answers": []}',
    "task config": b'{"name": "\\ud83d"}',
    "SQuAD": b'{"data": [{"paragraphs": [{"context": "\\ud83d", "qas": []}]}]}',
}


@pytest.mark.parametrize("reader", HALF)
def test_half_of_a_surrogate_pair_is_refused_where_it_is_read(tmp_path, reader):
    name, read = READERS[reader]
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(HALF[reader])
    with pytest.raises(ValueError, match=r"'\\ud(83d|e00)' is half of a surrogate pair") as caught:
        read(path)
    assert str(path) in str(caught.value)


def test_whole_surrogate_pairs_and_escaped_backslashes_are_text(tmp_path):
    path = tmp_path / "x.json"
    path.write_bytes(b'\xef\xbb\xbf{"a": "\\ud83d\\ude00", "b": "\\\\ud83d", "c": -7}')
    assert read_json_object(str(path)) == dict(a="\U0001F600", b="\\ud83d", c=-7)


@pytest.mark.parametrize("text, line, message", [
    ('{\n"a": 1,\n"b"}', None, "^x.json line 3: not JSON"), ('{"a"}', 17, "^x.json line 17: not JSON"),
    ("[]", None, r"^x.json: expected a JSON object, got '\[\]'$"),
    ("1" * 5001, 17, "^x.json line 17: a number of 5,001 digits$")])
def test_the_line_is_named(text, line, message):
    with pytest.raises(ValueError, match=message):
        parse_json_object(text, "x.json", line)


def test_a_directory_and_a_file_that_is_too_large_are_refused_unread(tmp_path):
    with pytest.raises(ValueError, match=f"^{tmp_path} is a directory, but must be a config file$"):
        read_json_object(str(tmp_path), "config file")
    with open(tmp_path / "x.json", "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(ValueError, match="x.json has 1,099,511,627,776 bytes"):
        read_json_object(str(tmp_path / "x.json"))


@pytest.mark.parametrize("value, message", [
    ("garbage", "^TF_CONFIG line 1: not JSON"),
    ("[]", "^TF_CONFIG: expected a JSON object"),
    ("[" * 100_000, "^TF_CONFIG: lists or objects are nested too deeply"),
    ('{"cluster": []}', r'^TF_CONFIG: "cluster" must be an object of lists of addresses.*\[\]'),
    ('{"cluster": {"worker": "host:1"}}', '^TF_CONFIG: "cluster" must be .*host:1'),
    ('{"cluster": {"worker": ["host"]}}', '^TF_CONFIG: "cluster" must be .*host'),
    ('{"cluster": {"worker": ["a:1", "b:1"]}}', '^TF_CONFIG: "task" must have a "type" that is one of worker'),
    ('{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": ["worker"], "index": 0}}', '"type" .*worker'),
    ('{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 2}}', '"index" from 0 to 1:.* 2'),
    ('{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": true}}', '"index" from 0 to 1'),
])
@pytest.mark.parametrize("strategy", ["auto", "multi_worker_mirrored"])
def test_a_tf_config_that_tensorflow_would_not_take_is_refused(monkeypatch, strategy, value, message):
    monkeypatch.setenv("TF_CONFIG", value)
    with pytest.raises(ValueError, match=message):
        create_strategy(Devices(distribution_strategy=strategy))


@pytest.mark.parametrize("reader, content, message", [
    ("history", b"1\n", "line 1: expected a JSON object"),
    ("history", b'{"accuracy": 0.5, "global_step": 3}\n\n{"accuracy": "high", "global_step": 6}\n',
     "line 3: 'accuracy' must be a number. Received: 'high'"),
    ("history", b'{"accuracy": 0.5}\n', "line 1: 'global_step' must be a whole number. Received: None"),
    ("history", b'{"accuracy": 0.5, "global_step": NaN}\n', "line 1: 'global_step' must be a whole number"),
    ("tokenizer config", b'{"do_lower_case": "yes"}', "do_lower_case must be true or false. Received: 'yes'"),
    ("index of weights", b'{"weight_map": []}', "has no weight_map"),
    ("index of weights", b'{"weight_map": {"a": {}}}', "names {}"),
    ("manifest", manifest(count="x"), "is not a manifest of records: 'count'"),
    ("manifest", manifest(count=-1), "is not a manifest of records"),
    ("manifest", manifest(count=True), "is not a manifest of records"),
    ("manifest", manifest(count=7), "100 bytes hold 7 records"),
    ("manifest", b'{"complete": true, "files": {}, "made_from": null}', "is not a manifest of this version"),
    ("manifest", b'{"complete": 1, "files": {}, "made_from": {}}', "is not a manifest of this version"),
    ("manifest", b'{"complete": true, "files": [], "made_from": {}}', "is not a manifest of this version"),
    ("manifest", b'{"complete": true, "files": {"a": 1}, "made_from": {}}', "is not a manifest of this version"),
    ("config", b'{"vocab_size": 60, "hidden_act": ["gelu"]}', r"hidden_act must be one of .*hidden_act=\['gelu'\]"),
    ("config", b'{"vocab_size": 60, "model_type": "albert", "hidden_act": ["gelu"]}', r"hidden_act=\['gelu'\]"),
    ("config", b'{"vocab_size": 1' + b"0" * 400 + b"}", "vocab_size must be a whole number from 1 to 10,000,000"),
    ("config", b'{"vocab_size": 60, "initializer_range": 1' + b"0" * 400 + b"}", "initializer_range must be a number"),
    ("config", b'{"vocab_size": 60, "initializer_range": Infinity}', "initializer_range must be .*=inf"),
    ("config", b'{"vocab_size": 60, "num_hidden_layers": 1000000000}', "num_hidden_layers must .* 1 to 1,000. .*=1000"),
    ("config", b'{"vocab_size": 60, "cross_layer_sharing": {}}', "cross_layer_sharing must be one of .*={}"),
    ("Hugging Face's config", b'{"model_type": "albert", "vocab_size": 60, "architectures": {"a": 1}}',
     "architectures must be a list of class names. Received: {'a': 1}"),
    ("Hugging Face's config", b'{"model_type": "albert", "vocab_size": 60, "architectures": [["a"]]}',
     r"architectures must be a list of class names. Received: \[\['a'\]\]"),
    ("recipe", b'{"recipe": null}', "--recipe has no value"),
    ("recipe", b'{"no_flag": 1}', "no_flag"),
    ("RACE", b'{"article": "a", "questions": [], "options": [], "answers": []}', "has no questions"),
])
def test_values_of_another_kind_are_refused_by_name(tmp_path, reader, content, message):
    name, read = READERS[reader]
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message) as caught:
        read(path)
    assert str(tmp_path) in str(caught.value)
