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
from albert_tf.utils.files import parse_json_object, parse_yaml_object, read_json_object
from albert_tf.weights.hugging_face.configs import read_config
from albert_tf.weights.hugging_face.reading import weight_files
from albert_tf.weights.hugging_face.tokenizer_options import options_in


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
    "index of weights": ("model.safetensors.index.json", lambda path: weight_files(str(path.parent))),
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
DAMAGED = {
    b'{"a": ' + b"[" * 100_000: "nested too deeply", b'{"a": ' * 100_000: "nested too deeply",
    b'{"a": 1' + b"0" * 5_000 + b"}": "a number of 5,001 digits", b'{"a": "\xff"}': "not UTF-8",
    b'{"a": "b': "not JSON", b"[1, 2]": "a JSON object", b"7": "a JSON object", b"": "is empty",
    b'{"a": "\\ud83d"}': r"'\\ud83d' is half of a surrogate pair"}
SURROGATE = b'{"data": [{"paragraphs": [{"context": "\\ud83d", "qas": []}]}]}'


def written(tmp_path, name, content):
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("reader, content, message", [
    *((reader, b'{"a": "\xff"}', "not UTF-8") for reader in READERS),
    *(("task config", content, message) for content, message in DAMAGED.items()),
    ("SQuAD", SURROGATE, "half of a surrogate pair")], ids=lambda value: str(value)[:20])
def test_json_that_cannot_be_read_is_one_line_with_the_files_name(tmp_path, reader, content, message):
    name, read = READERS[reader]
    path = written(tmp_path, name, content)
    with pytest.raises(ValueError, match=message) as caught:
        read(path)
    assert str(path) in str(caught.value) and len(str(caught.value)) < len(str(path)) + 150


def test_whole_surrogate_pairs_and_escaped_backslashes_are_text(tmp_path):
    path = written(tmp_path, "x.json", b'\xef\xbb\xbf{"a": "\\ud83d\\ude00", "b": "\\\\ud83d", "c": -7}')
    assert read_json_object(str(path)) == dict(a="\U0001F600", b="\\ud83d", c=-7)


@pytest.mark.parametrize("text, line, place", [
    ('{\n"a": 1,\n"b"}', None, "x.json line 3"), ('{"a"}', 17, "x.json line 17"), ("[]", None, "x.json"),
    ("1" * 5001, 17, "x.json line 17")])
def test_the_line_is_named(text, line, place):
    with pytest.raises(ValueError, match=f"^{place}: "):
        parse_json_object(text, "x.json", line)


def test_a_directory_and_a_file_that_is_too_large_are_refused_unread(tmp_path):
    with pytest.raises(ValueError, match=f"^{tmp_path} is a directory"):
        read_json_object(str(tmp_path), "config file")
    with open(tmp_path / "x.json", "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(ValueError, match="x.json has 1,099,511,627,776 bytes"):
        read_json_object(str(tmp_path / "x.json"))


TWO = '{"cluster": {"worker": ["a:1", "b:1"]}'


@pytest.mark.parametrize("value, named", [
    ("garbage", " line 1"), ("[]", ".* JSON object"), *((value, " must be like ") for value in (
        '{"cluster": []}', '{"cluster": {"worker": "host:1"}, "task": {"type": "worker", "index": 0}}',
        '{"cluster": {"worker": ["host"]}, "task": {"type": "worker", "index": 0}}', TWO + "}",
        TWO + ', "task": {"type": ["worker"], "index": 0}}', TWO + ', "task": {"type": "worker", "index": 2}}',
        TWO + ', "task": {"type": "worker", "index": true}}'))])
def test_a_tf_config_that_tensorflow_would_not_take_is_refused(monkeypatch, value, named):
    monkeypatch.setenv("TF_CONFIG", value)
    for strategy in ("auto", "multi_worker_mirrored"):
        with pytest.raises(ValueError, match=f"^TF_CONFIG{named}"):
            create_strategy(Devices(distribution_strategy=strategy))


LONG = b"1" + b"0" * 400
SIZES = (b'"vocab_size": 60, "embedding_size": 8, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, '
         b'"intermediate_size": 8')


@pytest.mark.parametrize("reader, content, named", [
    ("history", b"1\n", "line 1: .*a JSON object"),
    ("history", b'{"accuracy": 0.5, "global_step": 3}\n\n{"accuracy": "", "global_step": 6}\n', "line 3: 'accuracy'"),
    ("history", b'{"accuracy": 0.5, "global_step": NaN}\n', "line 1: 'global_step'"),
    ("tokenizer config", b'{"do_lower_case": "yes"}', "do_lower_case.*'yes'"),
    ("index of weights", b'{"weight_map": []}', "weight_map"),
    ("index of weights", b'{"weight_map": {"a": {}}}', "names {}"),
    *(("manifest", manifest(count=count), "'count'|manifest of records") for count in ("x", -1, True)),
    ("manifest", manifest(count=7), "100 bytes hold 7 records"),
    *(("manifest", b'{"complete": %s, "files": %s, "made_from": %s}' % values, "a manifest of this version")
      for values in ((b"true", b"{}", b"null"), (b"1", b"{}", b"{}"), (b"true", b"[]", b"{}"),
                     (b"true", b'{"a": 1}', b"{}"))),
    ("config", b'{%s, "hidden_act": ["gelu"]}' % SIZES, r"hidden_act=\['gelu'\]"),
    ("config", b'{%s, "vocab_size": %s}' % (SIZES, LONG), "vocab_size .* from 1 to 10,000,000"),
    ("config", b'{%s, "initializer_range": %s}' % (SIZES, LONG), "initializer_range"),
    ("config", b'{%s, "cross_layer_sharing": {}}' % SIZES, "cross_layer_sharing={}"),
    ("Hugging Face's config", b'{"model_type": "albert", "vocab_size": 60, "architectures": [["a"]]}',
     r"architectures .*\[\['a'\]\]"),
    ("recipe", b'{"recipe": null}', "--recipe"), ("recipe", b'{"no_flag": 1}', "no_flag"),
    ("RACE", b'{"article": "a", "questions": [], "options": [], "answers": []}', "questions")],
    ids=lambda value: str(value)[:30])
def test_values_of_another_kind_are_refused_by_name(tmp_path, reader, content, named):
    name, read = READERS[reader]
    with pytest.raises(ValueError, match=named) as caught:
        read(written(tmp_path, name, content))
    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize("text, reason", [
    ("a: " + "[" * 3_000, "nested too deeply"), ("a: &a [1]\nb: [*a, *a]", r"references \(\*name\) are not followed"),
    ("a: &a [*a]", "references"), ("a: 1\n" * 20_000, "100,000 characters of YAML: at most 65,536"),
    ("a: !!int ''", "not a YAML file"), ("a: !!timestamp x", "not a YAML file"), ("a: !!bool x", "not a YAML file"),
    ("a: 2001-99-99", "not a YAML file"), ("? [a]\n: b", "not a YAML file"),
    ("a: !!python/name:os.system", "not a YAML file"), ("a: [", "not a YAML file"), ("\0", "not a YAML file"),
    ("[a]", r"an object of YAML, got '\[a\]'"), ("", "got ''")])
def test_yaml_that_cannot_be_read_is_one_line(text, reason):
    with pytest.raises(ValueError, match=f"^x.yml.*{reason}") as error:
        parse_yaml_object(text, "x.yml")
    assert "\n" not in str(error.value)


def test_an_object_of_yaml_is_read():
    assert parse_yaml_object("a: {b: [1, 2.5, null]}\n3: yes", "x.yml") == {"a": {"b": [1, 2.5, None]}, 3: True}
