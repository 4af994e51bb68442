"""Vocabularies of other languages than English: what the casing and accent options remove from their texts."""

import shutil

import pytest

from albert_tf.weights.vocabulary import VocabularyFiles

pytestmark = pytest.mark.both_stacks


@pytest.mark.parametrize("name, lower, keep_accents, lost", [
    ("accents/spiece.model", True, False, "ü é è ä ö"),
    ("accents/spiece.model", False, False, "ü é è ä ö"),
    ("accents/spiece.model", True, True, None),
    ("accents/vocab.txt", True, False, "schön ##é é über ##ँ"),
    ("accents/vocab.txt", False, False, None),  # WordPiece removes accents only with the case
    ("wordpiece/vocab.txt", True, True, "Printer Hollow In Borrowed Or"),
    ("wordpiece/vocab.txt", False, False, None),
    ("tiny_spm/tiny.model", True, False, None),
])
def test_options_that_remove_what_pieces_have_are_warned_of_once(
    golden, tmp_path, caplog, name, lower, keep_accents, lost
):
    path = shutil.copy(golden / name, tmp_path)
    kind = "spm_model_file" if name.endswith(".model") else "vocab_file"
    files = VocabularyFiles(**{kind: path}, do_lower_case=lower, keep_accents=keep_accents)
    for _ in range(2):
        files.tokenizer()
    messages = [each for each in caplog.messages if "that texts lose" in each]
    assert len(messages) == (lost is not None)
    for message in messages:
        assert path in message and f"such as {lost}: " in message and "--keep_accents" in message
