"""Words and their phonemes: the table of StyleTTS2, lines of files, and espeak-ng."""

import json

import pytest

from albert_tf.text.phonemes import PhonemeTable, Phonemizer, parse_line, split_words, write_line

# Ids that the phoneme encoder of Kokoro-82M has kept from StyleTTS2's table.
KOKORO = {";": 1, ",": 3, ".": 4, "?": 6, "—": 9, " ": 16, "I": 25, "O": 31, "S": 35, "Y": 41, "a": 43, "z": 68,
          "ɑ": 69, "ɐ": 70, "æ": 72, "β": 75, "ç": 78, "ɖ": 80}


@pytest.fixture(scope="module")
def english():
    return Phonemizer("en-us")


def test_the_default_table_has_the_ids_of_style_tts2():
    table = PhonemeTable.read()
    assert table.vocab_size == 178 and table.mask_id == table.ids["M"] == 29 and table.separator_id == 16
    assert {symbol: table.ids[symbol] for symbol in KOKORO} == KOKORO


def test_a_table_without_an_m_masks_by_the_id_of_style_tts2(tmp_path):
    path = tmp_path / "phonemes.json"
    path.write_text(json.dumps(KOKORO))
    assert PhonemeTable.read(str(path)).mask_id == 29
    assert PhonemeTable.read(str(path)).encode("ç ñz") == ([78, 68], ["ñ"])


@pytest.mark.parametrize("table, named", [
    ({"ab": 3, " ": 1}, "'ab'"), ({"a": 0, " ": 1}, "'a': 0"), ({"a": 1.5}, "1.5"), ({"a": 1}, "no space"),
    ({"a": 29, " ": 1}, '"M"'), ({"a": True}, "True")])
def test_a_wrong_table_is_refused(tmp_path, table, named):
    path = tmp_path / "phonemes.json"
    path.write_text(json.dumps(table))
    with pytest.raises(ValueError, match=named) as error:
        PhonemeTable.read(str(path))
    assert str(path) in str(error.value)


@pytest.mark.parametrize("line, named", [
    ('{"words": ["a", "b"], "phonemes": ["ɐ"]}', "2 words and 1 phonemes"), ('{"words": ["a"]}', '"phonemes"'),
    ('{"words": [1], "phonemes": ["ɐ"]}', '"words"'), ('{"words": [" "], "phonemes": ["ɐ"]}', "empty"),
    ("[1]", "line 7")])
def test_a_wrong_line_is_named(line, named):
    with pytest.raises(ValueError, match="words.jsonl line 7") as error:
        parse_line(line, "words.jsonl", 7)
    assert named in str(error.value)


def test_a_line_is_read_as_it_was_written():
    words, sounds = ["Žižek", "—"], ["ʒˈɪʒɛk", "—"]
    assert parse_line(write_line(words, sounds), "x", 1) == list(zip(words, sounds))


@pytest.mark.parametrize("text, words", [
    ('He said: "don\'t!"', ["He", "said", ":", '"', "don't", "!", '"']), ("well-known—yes", ["well-known", "—", "yes"]),
    ("3.5% of U.S. firms…", ["3.5", "%", "of", "U.S", ".", "firms", "…"]), ("  ", []), ("?!", ["?", "!"]),
    ("हिन्दी है।", ["हिन्दी", "है", "।"]), ("a--b", ["a", "—", "b"])])
def test_words_and_marks_are_split(text, words):
    assert split_words(text) == words


def test_words_sound_alone_as_espeak_says_them(english):
    assert english.words(["Hello", ",", "the", "42"]) == ["həlˈoʊ", ",", "ðə", "fˈɔːɹɾitˈuː"]


def test_words_sound_in_context_beside_their_neighbours(english):
    sentences = [split_words("The apple of the eye!"), split_words("Louis XIX went to a house.")]
    words = sorted({word for words in sentences for word in words})
    alone = dict(zip(words, english.words(words)))
    first, second = english.sentences(sentences, alone)
    assert alone["The"] == "ðə" and first == ["ðɪ", "ˈæpəl", "ʌv", "ðɪ", "ˈaɪ", "!"]
    # espeak-ng speaks XIX as two words, and joins "to a".
    assert second[1] == alone["XIX"] and second[-2:] == ["hˈaʊs", "."] and len(second) == 7


@pytest.mark.parametrize("language, named", [("en", "en-us"), ("germn", "germn")])
def test_an_unknown_language_is_named(language, named):
    with pytest.raises(ValueError, match=f"--language={language}") as error:
        Phonemizer(language)
    assert named in str(error.value)


def test_a_missing_espeak_is_named(monkeypatch):
    from phonemizer.backend import EspeakBackend

    monkeypatch.setattr(EspeakBackend, "is_available", lambda: False)
    with pytest.raises(ValueError, match="espeak-ng is not installed"):
        Phonemizer("de")
