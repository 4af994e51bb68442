"""The table of keys in docs/from_hugging_face_and_keras_hub.md: each key is followed, refused or ignored as it says."""

import json
import pathlib
import re
import shutil

import numpy as np
import pytest

import albert_tf
from albert_tf.utils.foreign_keys import REFUSED
from albert_tf.weights.stored_model import head_of_source, open_source

pytestmark = pytest.mark.both_stacks
PAGE = pathlib.Path(__file__).parents[2] / "docs/from_hugging_face_and_keras_hub.md"
TEXTS = ["The NAME of the file", "Où est le 名前 ?"]
BERT, ALBERT = "sentence_transformers/cls", "hf/sequence_classification"
# By file and key: the golden folder, if it is not the file's, and a value that is not the folder's.
VALUES = {
    "config.json": (BERT, dict(
        vocab_size=9, embedding_size=(ALBERT, 5), hidden_size=4, num_hidden_layers=1, num_hidden_groups=(ALBERT, 3),
        num_attention_heads=4, intermediate_size=4, inner_group_num=(ALBERT, 2), hidden_act="gelu_new",
        hidden_dropout_prob=0.5, attention_probs_dropout_prob=0.5, max_position_embeddings=8, type_vocab_size=1,
        initializer_range=0.5, architectures=(ALBERT, ["AlbertForMultipleChoice"]),
        id2label=(ALBERT, {"0": "a", "1": "b", "2": "c"}),
        model_type="roberta", layer_norm_eps=1e-5, position_embedding_type="relative_key", tie_word_embeddings=False,
        is_decoder=True, add_cross_attention=True, pruned_heads={"0": [1]}, per_layer_config={"0": {}},
        quantization_config=dict(load_in_8bit=True), auto_map=dict(AutoModel="modeling.Model"),
        configuration_files=["config.4.0.0.json"], transformers_weights="other.safetensors",
        classifier_dropout=0.5, classifier_dropout_prob=0.5, label2id=dict(a=0), num_labels=5, dtype="float16",
        pad_token_id=1, use_cache=True, output_hidden_states=True, chunk_size_feed_forward=4, temperature=0.5,
        max_length=20)),
}


def table():
    """The keys of a file by what is done with them, for each file."""
    section = PAGE.read_text().partition("## Keys of their files")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("|")][2:]
    return {row[0].replace("`", ""): dict(zip(("followed", "refused", "ignored"), (
        re.findall("`(.*?)`", cell) for cell in row[1:4]))) for row in rows}


def keys(kind):
    return [(file, key) for file, by_kind in table().items() for key in by_kind[kind]]


@pytest.fixture
def folder(golden, tmp_path):
    def changed(file, *changed_keys):
        default, values = VALUES[file]
        pairs = {key: values[key] if isinstance(values[key], tuple) else (default, values[key]) for key in changed_keys}
        name, = {name for name, _ in pairs.values()} or {default}
        path = tmp_path / ("changed" if changed_keys else "unchanged")
        shutil.copytree(golden / name, path)
        target = path / file.rpartition(" ")[2]
        content = json.loads(target.read_text()) if target.exists() else {}
        place = content[-1] if isinstance(content, list) else content.get("config", content)
        place.update({key: value for key, (_, value) in pairs.items()})
        target.write_text(json.dumps(content))
        original = tmp_path / "original"
        shutil.copytree(golden / name, original)
        return original, path

    return changed


def result(path):
    """What a folder means: the config, the settings, the ids of texts, and the outputs of the model."""
    source = open_source(str(path))
    model = albert_tf.from_pretrained(str(path), model=head_of_source(source))
    inputs = dict(input_ids=[[2, 5, 7, 3, 9, 3]], input_mask=[[1] * 6], segment_ids=[[0] * 4 + [1] * 2])
    if source.vocabulary:
        inputs = albert_tf.tokenizer_from_pretrained(str(path))(TEXTS, TEXTS[::-1])
    inputs = {name: np.array(values, np.int32) for name, values in inputs.items()}
    if model.name.endswith("multiple_choice"):
        inputs = {name: values[:, None] for name, values in inputs.items()}
    outputs = {name: np.round(value, 4).tolist() for name, value in model(inputs).items()
               if name in ("sentence_embedding", "logits", "pooled_output")}
    inputs = {name: values.tolist() for name, values in inputs.items()}
    return json.dumps([str(source.config), str(source.settings), inputs, outputs])


def test_the_table_has_the_keys_that_are_refused_and_those_that_are_tried_here():
    assert {file: set(by_kind["refused"]) for file, by_kind in table().items()} == {
        file: set(REFUSED.get(file, {})) for file in VALUES}
    assert {file: set().union(*by_kind.values()) for file, by_kind in table().items()} == {
        file: set(values) for file, (_, values) in VALUES.items()}


@pytest.mark.parametrize("file, key", keys("followed"))
def test_a_followed_key_changes_the_result(folder, file, key):
    original, changed = folder(file, key)
    try:
        assert result(changed) != result(original)
    except ValueError as error:  # such as weights of another shape
        assert "\n" not in str(error)


@pytest.mark.parametrize("file, key", keys("refused"))
def test_a_refused_key_is_named_in_one_line(folder, file, key):
    _, changed = folder(file, key)
    with pytest.raises(ValueError, match=rf"{file.rpartition(' ')[2]}: {key} .* is not supported: \w.*\Z"):
        open_source(str(changed))


@pytest.mark.parametrize("file", VALUES)
def test_ignored_and_unknown_keys_change_nothing(folder, file):
    VALUES[file][1]["a_key_of_next_year"] = 1
    original, changed = folder(file, *table()[file]["ignored"], "a_key_of_next_year")
    del VALUES[file][1]["a_key_of_next_year"]
    assert result(changed) == result(original)
