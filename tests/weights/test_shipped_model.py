"""The models that come with the package: sizes, names, predictions for masks, and vectors."""

import json

import numpy as np
import pytest
from script_session import REPOSITORY

import albert_tf
from albert_tf.tasks.masked_lm.fill_mask import masked_ids
from albert_tf.weights.stored_model import open_source, shipped_model, shipped_models

NAME, SENTENCES = "albert_tiny_en", "albert_minilm_en"
FOLDER = REPOSITORY / "albert_tf/models" / NAME


@pytest.fixture(scope="module")
def model():
    return albert_tf.from_pretrained(NAME, model="pretrainer")


def test_the_models_that_come_with_the_package_are_small():
    files = [path for path in FOLDER.parent.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 20_000_000
    assert (FOLDER / "model.safetensors").stat().st_size < 6_000_000


def test_its_config_is_the_named_size(model):
    assert model.config == albert_tf.AlbertConfig.preset(NAME)


def test_a_file_or_folder_of_the_same_name_comes_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert open_source(NAME).path == NAME  # in messages
    assert shipped_model(NAME) == str(FOLDER)
    (tmp_path / NAME).mkdir()
    assert shipped_model(NAME) is None
    assert shipped_models() == [SENTENCES, NAME]
    with pytest.raises(ValueError, match=r"no checkpoint at no_such_model, which does not exist: .*"
                                         rf"\({SENTENCES}, {NAME}\)"):
        open_source("no_such_model")
    with pytest.raises(ValueError, match=r"which does not exist \(did you mean hf://albert/albert-base-v2\?\): "):
        open_source("albert/albert-base-v2")
    for name in ("albert_base_v2", "albert-base-v2"):
        with pytest.raises(ValueError, match=r"\(did you mean hf://albert/albert-base-v2, or the release's "
                                             r"https://storage.googleapis.com/albert_models/albert_base_v2.tar.gz\?\)"):
            open_source(name)
    with pytest.raises(ValueError, match=rf"which does not exist \(did you mean {SENTENCES}\?\): "):
        open_source("albert_minilm_em")
    with pytest.raises(ValueError, match="no checkpoint at folder/model.safetensors, which does not exist: "):
        open_source("folder/model.safetensors")
    assert shipped_model("no_such_model") is None and shipped_model(f"../models/{NAME}") is None


def test_its_tokenizer_files_are_those_of_a_conversion(tmp_path, model):
    albert_tf.save_pretrained(model, str(tmp_path), albert_tf.tokenizer_from_pretrained(NAME), to="hugging_face")
    for name in ("tokenizer_config.json", "tokenizer.json"):
        shipped, written = (json.loads((folder / name).read_text("utf-8")) for folder in (FOLDER, tmp_path))
        for content in (shipped, written):
            content.pop("normalizer", None)  # its lists of characters depend on Python's version of Unicode
        assert shipped == written


def test_masks_are_filled_with_the_pieces_and_probabilities_of_transformers(model, golden):
    tokenizer = albert_tf.tokenizer_from_pretrained(NAME)
    for row in json.loads((golden / NAME / "numbers.json").read_text(encoding="utf-8")):
        assert masked_ids(tokenizer, row["text"]) == row["ids"]
        fillings, = albert_tf.fill_masks(model, tokenizer, row["text"])
        assert [filling.piece for filling in fillings] == row["pieces"]
        np.testing.assert_allclose([filling.probability for filling in fillings], row["probabilities"], rtol=1e-4)


def test_its_tokenizer_makes_rows_that_it_takes(model):
    rows = albert_tf.tokenizer_from_pretrained(NAME)("A long day. " * 400)
    assert rows["input_ids"].shape == (1, model.config.max_position_embeddings)


@pytest.mark.parametrize("text, pieces", [
    ("she opened the [MASK] and went out.", {"\u2581door"}),
    ("i have not seen him for three [MASK] at least.", {"\u2581days", "\u2581years"})])
def test_it_has_learned_to_fill_masks(model, text, pieces):
    fillings, = albert_tf.fill_masks(model, albert_tf.tokenizer_from_pretrained(NAME), text)
    assert pieces <= {filling.piece for filling in fillings}


def test_the_sentence_vectors_of_the_model_for_them_tell_what_is_alike():
    model = albert_tf.from_pretrained(SENTENCES, model="sentence_encoder")
    first, second, other = albert_tf.text_vectors(model, albert_tf.tokenizer_from_pretrained(SENTENCES), [
        "A man is playing a guitar.", "Someone plays the guitar.", "The children are eating apples."])
    assert np.linalg.norm(first) == pytest.approx(1, abs=1e-6)
    assert first @ second > 0.3 + first @ other
