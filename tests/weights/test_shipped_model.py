"""The models that come with the package: sizes, names, predictions for masks, and vectors."""

import json

import numpy as np
import pytest
from script_session import REPOSITORY

import albert_tf
from albert_tf.tasks.masked_lm import masked_ids
from albert_tf.weights.stored_model import open_model, shipped_model, shipped_models

NAME, SENTENCES = "albert_tiny_en", "albert_minilm_en"
FOLDER = REPOSITORY / "albert_tf/models" / NAME


@pytest.fixture(scope="module")
def model():
    return albert_tf.from_pretrained(NAME, model="pretrainer")


def test_a_file_or_folder_of_the_same_name_comes_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert open_model(NAME).path == NAME  # in messages
    assert shipped_model(NAME) == str(FOLDER)
    (tmp_path / NAME).mkdir()
    assert shipped_model(NAME) is None
    assert shipped_models() == [SENTENCES, NAME]
    hub = r"hf://albert/albert-base-v2\?"
    for name, message in (("no_such_model", rf"\({SENTENCES}, {NAME}\)"), ("albert_base_v2", hub),
                          ("albert-base-v2", hub)):
        with pytest.raises(ValueError, match=f"{name}.*does not exist.*{message}"):
            open_model(name)
    assert shipped_model("no_such_model") is None and shipped_model(f"../models/{NAME}") is None


def test_its_tokenizer_files_are_those_of_a_conversion(tmp_path, model):
    albert_tf.save_pretrained(model, str(tmp_path), albert_tf.tokenizer_from_pretrained(NAME), to="hugging_face")
    for name in ("tokenizer_config.json", "tokenizer.json"):
        shipped, written = (json.loads((folder / name).read_text("utf-8")) for folder in (FOLDER, tmp_path))
        for content in (shipped, written):
            content.pop("normalizer", None)  # its lists of characters depend on Python's version of Unicode
        assert shipped == written


def test_a_word_of_over_100_characters_is_unknown_to_sentence_vectors_as_in_sentence_transformers():
    tokenizer = albert_tf.tokenizer_from_pretrained(SENTENCES)
    assert tokenizer.encode("a" * 101) == [tokenizer.unk_id] and tokenizer.unk_id not in tokenizer.encode("a" * 100)


def test_masks_are_filled_with_the_pieces_and_probabilities_of_transformers(model, golden):
    assert sum(path.stat().st_size for path in FOLDER.parent.rglob("*") if path.is_file()) < 25_000_000
    assert (FOLDER / "model.safetensors").stat().st_size < 6_000_000
    assert model.config == albert_tf.AlbertConfig.preset(NAME)
    tokenizer = albert_tf.tokenizer_from_pretrained(NAME)
    assert tokenizer("A long day. " * 400)["input_ids"].shape == (1, model.config.max_position_embeddings)
    for row in json.loads((golden / NAME / "numbers.json").read_text(encoding="utf-8")):
        assert masked_ids(tokenizer, row["text"]) == row["ids"]
        fillings, = albert_tf.fill_masks(model, tokenizer, row["text"])
        assert [filling.piece for filling in fillings] == row["pieces"]
        np.testing.assert_allclose([filling.probability for filling in fillings], row["probabilities"], rtol=1e-4)


def test_the_sentence_vectors_of_the_model_for_them_tell_what_is_alike():
    model = albert_tf.from_pretrained(SENTENCES, model="sentence_encoder")
    first, second, other = albert_tf.text_vectors(model, albert_tf.tokenizer_from_pretrained(SENTENCES), [
        "A man is playing a guitar.", "Someone plays the guitar.", "The children are eating apples."])
    assert np.linalg.norm(first) == pytest.approx(1, abs=1e-6)
    assert first @ second > 0.3 + first @ other
