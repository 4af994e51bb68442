"""Words and their phonemes: the table of StyleTTS2, lines of files, and espeak-ng."""

import json

import pytest
from documentation import Page
from script_session import REPOSITORY

import albert_tf
from albert_tf.text.joined_words import divide
from albert_tf.text.phonemes import PhonemeTable, Phonemizer, parse_line, split_words, write_line

# Ids that the phoneme encoder of Kokoro-82M has kept from StyleTTS2's table.
KOKORO = {";": 1, ",": 3, ".": 4, "?": 6, "—": 9, " ": 16, "I": 25, "O": 31, "S": 35, "Y": 41, "a": 43, "z": 68,
          "ɑ": 69, "ɐ": 70, "æ": 72, "β": 75, "ç": 78, "ɖ": 80}


@pytest.fixture(scope="module")
def english():
    return Phonemizer("en-us")


def test_the_default_table_has_the_ids_of_style_tts2():
    table = PhonemeTable.read()
    assert table.vocab_size == 178 and table.mask_id == table.ids["M"] == 29
    assert {symbol: table.ids[symbol] for symbol in KOKORO} == KOKORO


def test_a_table_without_an_m_masks_by_the_id_of_style_tts2(tmp_path):
    path = tmp_path / "phonemes.json"
    path.write_text(json.dumps(KOKORO))
    assert PhonemeTable.read(str(path)).mask_id == 29
    assert PhonemeTable.read(str(path)).encode("ç ñz") == ([78, 68], ["ñ"])


@pytest.mark.parametrize("table, named", [
    ({"ab": 3, " ": 1}, "'ab'"), ({"a": 0, " ": 1}, "'a': 0"), ({"a": 1.5}, "1.5"), ({"a": 1}, "no space"),
    ({"a": 29, " ": 1}, '"M"'), ({"a": True}, "True"), ({"a": 10**9}, "1000000000"),
    ({" ": 1, "a": 2, "b": 2}, "'a' and 'b' have the same id, 2")])
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
    alone = dict(zip(words, english.spoken(words)))
    first, second = english.sentences(sentences, alone)
    assert alone["The"] == "ðə" and first == ["ðɪ", "ˈæpəl", "ʌv", "ðɪ", "ˈaɪ", "!"]
    # espeak-ng speaks XIX as two words, and joins "to a".
    assert second[1] == alone["XIX"].replace(" ", "") and second[-2:] == ["hˈaʊs", "."] and len(second) == 7


def in_context(phonemizer, text):
    words = split_words(text)
    return phonemizer.sentences([words], dict(zip(words, phonemizer.spoken(words))))[0]


@pytest.mark.parametrize("text, sounds", [
    ("It was a dog.", "ɪt wʌz ɐ dˈɑːɡ ."), ("not to and fro", "nˌɑːt tˌuː ənd fɹˈoʊ"),
    ("That it should have been", "ðˌɐɾ ɪt ʃˌʊd əv bˌɪn"), ("out of a house", "ˌaʊɾ əv ɐ hˈaʊs")])
def test_words_that_espeak_joins_are_divided(english, text, sounds):
    assert " ".join(in_context(english, text)) == sounds


def test_a_sentence_is_what_espeak_says_of_it(english):
    texts = ["She had been out of the house at once, and there was a light in the window.",
             "He might have had to wait for an hour on the 21st of May, if it is true.",
             "I am not to be found at a ball"]
    for text in texts:
        assert "".join(filter(str.isalpha, "".join(in_context(english, text)))) == "".join(
            filter(str.isalpha, english._backend.phonemize([text])[0]))


def test_words_are_not_divided_where_nothing_tells_how():
    assert divide(["a"], ["b", "c", "d", "e"]) == ["b", "c", "d", "e"] and divide([], ["b"]) == ["b"]
    assert divide(["wʌzɐ", "dˈɑːɡ"], ["wʌz", "ˈeɪ", "dˈɑːɡ"]) == ["wʌz", "ɐ", "dˈɑːɡ"]
    assert divide(["ˈɪn", "tuːɐ"], ["ɪntuː", "ˈeɪ"]) == ["ˈɪn", "tuːɐ"]  # as many parts as words


def test_espeaks_hyphens_are_no_phonemes():
    french = Phonemizer("fr-fr")
    assert french.words(["dit-elle", "«"]) == ["dˈitˈɛl", "«"]
    assert in_context(french, "« Je viens », les enfants") == ["«", "ʒə", "vjˈɛ̃", "»", ",", "lez", "ɑ̃fˈɑ̃"]


def test_signs_are_spoken_and_marks_are_not(english):
    assert english.words(["%", "&", "@", "$", "*", "_", "•"]) == [
        "pɚsˈɛnt", "ˈænd", "ˈæt", "dˈɑːlɚ", "ˈæstɚɹˌɪsk", "", ""]
    text = "The mill (built 1871–1874) [“now” closed] – ‘50 %’ & „all“: {¿why?} ‹so›…"
    sounds = dict(zip(split_words(text), english.words(split_words(text))))
    assert sounds["%"] == "pɚsˈɛnt" and sounds["("] == "(" and all(sounds.values())
    table = PhonemeTable.read()
    assert [missing for sound in sounds.values() for missing in table.encode(sound)[1]] == []


def test_a_mark_that_the_table_lacks_has_the_id_of_a_similar_one():
    table = PhonemeTable.read()
    assert [table.encode(mark)[0] for mark in "([–‘’„。？"] == [
        [table.ids[mark]] for mark in "««—“”“.?"]
    kokoro = PhonemeTable({" ": 16, "(": 12, ")": 13, "“": 14, "”": 15, '"': 11, "—": 9}, mask_id=29)
    assert [kokoro.encode(mark)[0] for mark in "«»-'"] == [[14], [15], [9], [11]]
    assert kokoro.encode("¿")[1] == ["¿"] and kokoro.encode("a-")[1] == ["a", "-"]


def test_a_dollar_is_no_padding(tmp_path):
    assert PhonemeTable.read().encode("$") == ([], ["$"])
    path = tmp_path / "phonemes.json"
    path.write_text(json.dumps({"$": 0, **KOKORO}))
    assert PhonemeTable.read(str(path)).encode("a$") == ([43], ["$"])


def test_phoneme_ids_are_those_of_words_with_separators():
    assert albert_tf.phoneme_ids("za, aI — S?") == [68, 43, 16, 3, 16, 43, 25, 16, 9, 16, 35, 16, 6]
    assert albert_tf.phoneme_ids("za , aI") == albert_tf.phoneme_ids("za, aI") and albert_tf.phoneme_ids("") == []
    with pytest.raises(ValueError, match=r"U\+0303"):
        albert_tf.phoneme_ids("ɔ̃")


def test_the_page_has_the_default_table_and_extends_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = Page(REPOSITORY / "docs/phonemes.md").blocks
    symbols = next(block.text for block in blocks if block.language == "text").strip("\n")
    ids = PhonemeTable.read().ids
    assert len(symbols) == 177 and {symbol: i for i, symbol in enumerate(symbols, start=1)} == ids
    exec(next(block.text for block in blocks if "ids.pop" in block.text), {})
    extended = PhonemeTable.read("phonemes.json")
    assert extended.vocab_size == 178 and extended.encode("ɔ̃")[0] == [ids["ɔ"], 17]


def test_the_symbols_of_a_table_are_in_the_order_of_their_ids():
    symbols = PhonemeTable.read().symbols
    assert len(symbols) == 178 and symbols[0] == "\0" and all(symbols[i] == symbol for symbol, i in KOKORO.items())


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
