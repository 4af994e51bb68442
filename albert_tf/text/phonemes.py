"""Phonemes: words, how they sound as symbols of the International Phonetic Alphabet (IPA), and the ids of the symbols.

Phonemized text is a file of JSON lines with a line for each sentence, and a blank line between documents. Punctuation
marks are words too, and stand for themselves among the phonemes::

    {"words": ["Hello", ",", "world"], "phonemes": ["həlˈoʊ", ",", "wˈɜːld"]}

phonemize makes such lines with espeak-ng (package phonemizer, extra `phonemes`). Other tools may write them, too.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import logging
import re
import tempfile
import unicodedata
from typing import Any, Mapping, Sequence

from albert_tf.text.joined_words import divide
from albert_tf.utils import bounds
from albert_tf.utils.files import errors_naming, parse_json_object, read_json_object
from albert_tf.utils.imports import check_installed

SEPARATOR = " "  # the symbol between two words
PAD_ID = 0
_MASK, _MASK_ID = "M", 29  # PL-BERT masks by "M"; Kokoro's table keeps the ids and has no "M"
# The symbols of StyleTTS2 and PL-BERT, numbered in this order; of a symbol that occurs twice, the last number counts.
_STYLE_TTS2 = ("$" ';:,.!?¡¿—…"«»“” ' "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
               "ɑɐɒæɓʙβɔɕçɗɖðʤəɘɚɛɜɝɞɟʄɡɠɢʛɦɧħɥʜɨɪʝɭɬɫɮʟɱɯɰŋɳɲɴøɵɸθœɶʘɹɺɾɻʀʁɽʂʃʈʧʉʊʋⱱʌɣɤʍχʎʏʑʐʒʔʡʕʢǀǁǂǃˈˌːˑʼʴʰʱʲʷˠˤ˞↓↑→↗↘'̩'ᵻ")
# White space ends a word; a dash or an ellipsis is one.
_PARTS = re.compile(r"([—–…])|\s+")
# Punctuation marks, and the marks that may stand for them in a table, the best one first.
_SIMILAR = (
    (";；؛", ";"), (":：", ":"), (",，、،՝፣", ","), (".．。।॥۔։።", "."), ("!！՜", "!"), ("?？؟՞‽", "?"), ("¡", "¡"),
    ("¿", "¿"), ("…⋯‥", "…."), ("—–―‒‑‐-", "—"), ("«‹《〈", "«“\""), ("»›》〉", "»”\""), ("“„‟‘‚‛「『", "“«\""),
    ("”’」』", "”»\""), ('"', '"”»'), ("'`´", "'\"”"), ("([{（［｛⟨【", "(«“\""), (")]}）］｝⟩】", ")»”\""))
_MARKS = {mark: others for marks, others in _SIMILAR for mark in marks}


@dataclasses.dataclass(frozen=True)
class PhonemeTable:
    """The ids of symbols. Id 0 is padding."""

    ids: Mapping[str, int]  # by symbol, which is one character; a space must be among them
    mask_id: int  # of masked phonemes

    @classmethod
    def read(cls, path: str | None = None) -> PhonemeTable:
        """Reads a JSON file {SYMBOL: ID}; the 178 symbols of StyleTTS2 without a path.

        The mask is "M", as in PL-BERT, or the id 29, which "M" has there, if the table has no "M". "$" may have id 0.
        """
        ids = read_json_object(path) if path else {symbol: i for i, symbol in enumerate(_STYLE_TTS2)}
        symbols: dict[int, str] = {}
        for symbol, value in ids.items():
            is_id = type(value) is int and PAD_ID <= value < bounds.VOCAB_SIZE.upper
            if len(symbol) != 1 or not is_id or value == PAD_ID and symbol != "$":
                raise ValueError(f"{path}: a table of phonemes must map single characters to whole numbers from 1, "
                                 f"since 0 is padding. Received: {symbol!r}: {value!r}")
            if symbols.setdefault(value, symbol) != symbol:
                raise ValueError(f"{path}: {symbols[value]!r} and {symbol!r} have the same id, {value}: give each "
                                 "symbol its own")
        if SEPARATOR not in ids:
            raise ValueError(f"{path}: the table of phonemes has no space, which separates words")
        if _MASK not in ids and _MASK_ID in symbols:
            raise ValueError(f'{path}: the table of phonemes has no "M", the symbol of masked phonemes: add it')
        return cls({symbol: value for symbol, value in ids.items() if value != PAD_ID}, ids.get(_MASK, _MASK_ID))

    @property
    def vocab_size(self) -> int:
        """The smallest vocab_size of a model that has all ids."""
        return max(self.mask_id, *self.ids.values()) + 1

    @property
    def symbols(self) -> str:
        """The symbol of each id, from 0; NUL for ids without a symbol."""
        symbols = {value: symbol for symbol, value in self.ids.items()}
        return "".join(symbols.get(i, "\0") for i in range(self.vocab_size))

    def encode(self, phonemes: str) -> tuple[list[int], list[str]]:
        """The ids of a word's phonemes, and the symbols that the table does not have. Spaces are left out.

        A punctuation mark that the table does not have is replaced by a similar one.
        """
        symbols = phonemes.replace(SEPARATOR, "")
        if symbols not in self.ids:
            symbols = next((mark for mark in _MARKS.get(symbols, "") if mark in self.ids), symbols)
        return ([self.ids[symbol] for symbol in symbols if symbol in self.ids],
                [symbol for symbol in symbols if symbol not in self.ids])


def phoneme_ids(phonemes: str, phoneme_table: str | None = None) -> list[int]:
    """The input ids of a text of phonemes, as the records of a phoneme encoder have them (docs/phonemes.md).

    A space separates two words. Punctuation marks are words: "həlˈoʊ, wˈɜːld" has the ids of "həlˈoʊ , wˈɜːld".

    Args:
      phoneme_table: path of a JSON file with the id of each symbol. Default: the 178 symbols of StyleTTS2.

    Raises:
      ValueError: the table does not have a symbol, or is wrong.
    """
    table = PhonemeTable.read(phoneme_table)
    ids: list[int] = []
    for word in split_words(phonemes):
        of_word, missing = table.encode(word)
        if missing:
            raise ValueError(f"the table of phonemes has no {missing[0]!r} (U+{ord(missing[0]):04X}), which is in "
                             f"{word!r}")
        ids += [*([table.ids[SEPARATOR]] if ids else []), *of_word]
    return ids


def parse_line(line: str, path: str, number: int) -> list[tuple[str, str]]:
    """The words of a line of phonemized text, each with its phonemes. Errors name the file and the line.

    Rows of PL-BERT's preparation have the numbers of words, "input_ids", instead of "words".
    """
    content, location = parse_json_object(line, path, number), f"{path} line {number}"
    words: Any = content.get("words")
    phonemes: Any = content.get("phonemes")
    if words is None and isinstance(ids := content.get("input_ids"), list) and all(type(each) is int for each in ids):
        words = list(map(str, ids))
    for name, value in (("words", words), ("phonemes", phonemes)):
        if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
            raise ValueError(f'{location}: "{name}" must be a list of texts. Received: {value!r}')
    if len(words) != len(phonemes):
        raise ValueError(f"{location}: each word must have its phonemes. Received: {len(words)} words and "
                         f"{len(phonemes)} phonemes")
    if not all(map(str.strip, words)):
        raise ValueError(f"{location}: a word is empty")
    return list(zip(words, phonemes))


def write_line(words: Sequence[str], phonemes: Sequence[str]) -> str:
    """A line of phonemized text."""
    return json.dumps(dict(words=words, phonemes=phonemes), ensure_ascii=False)


def split_words(text: str) -> list[str]:
    """The words and punctuation marks of a text: `He said: "don't!"` has 7; `don't` is one word.

    Two or more hyphens are a dash.
    """
    words: list[str] = []
    for part in filter(None, map(str.strip, filter(None, _PARTS.split(re.sub("--+", "—", text))))):
        first = next((i for i, letter in enumerate(part) if not is_punctuation(letter)), len(part))
        last = next((i for i in range(len(part), first, -1) if not is_punctuation(part[i - 1])), first)
        words += [*part[:first], *([part[first:last]] if last > first else []), *part[last:]]
    return words


def is_punctuation(text: str) -> bool:
    """Whether all characters of a text are punctuation marks or other symbols."""
    return all(unicodedata.category(letter)[0] in "PS" for letter in text)


class Phonemizer:
    """Phonemizes words by espeak-ng in one of its languages, such as "de" or "en-us"."""

    def __init__(self, language: str):
        check_installed("phonemize", "phonemizer")
        from phonemizer.backend import EspeakBackend
        from phonemizer.backend.espeak.wrapper import EspeakWrapper

        quiet = logging.getLogger("albert_tf.phonemizer")
        quiet.setLevel(logging.CRITICAL)
        if importlib.util.find_spec("espeakng_loader"):
            import espeakng_loader

            EspeakWrapper.set_library(espeakng_loader.get_library_path())
            EspeakWrapper.set_data_path(espeakng_loader.get_data_path())
        if not EspeakBackend.is_available():
            raise ValueError("espeak-ng is not installed: run `pip install espeakng-loader` or `apt install espeak-ng`")
        languages = EspeakBackend.supported_languages()
        if language not in languages:
            raise ValueError(f"--language={language} is no language of espeak-ng; they are "
                             f"{', '.join(sorted(languages))}")
        with errors_naming(tempfile.gettempdir()):  # to which the library is copied
            self._backend = EspeakBackend(language, with_stress=True, language_switch="remove-flags", logger=quiet)

    def words(self, words: Sequence[str]) -> list[str]:
        """The phonemes of each word, spoken alone. Punctuation marks stay as they are."""
        return [sound.replace(SEPARATOR, "") for sound in self.spoken(words)]

    def spoken(self, words: Sequence[str]) -> list[str]:
        """As `words`, with spaces in words that espeak-ng speaks as several: "fˈɔːɹɾi tˈuː" for 42."""
        sounds = iter(self._speak([word for word in words if word not in _MARKS]))
        return [word if word in _MARKS else next(sounds) for word in words]

    def sentences(self, sentences: Sequence[Sequence[str]], spoken: Mapping[str, str]) -> list[list[str]]:
        """The phonemes of words beside their neighbours. What `spoken` returns for each word tells where it ends."""
        texts = self._speak([" ".join(word for word in words if word not in _MARKS) for words in sentences])
        results = []
        for words, text in zip(sentences, texts):
            alone = [spoken[word].split(SEPARATOR) for word in words if word not in _MARKS]
            parts = [part for word in alone for part in word]
            sounds = iter(divide(text.split(SEPARATOR), parts))
            in_context = iter(["".join(next(sounds) for _ in word) for word in alone])
            results.append([word if word in _MARKS else next(in_context) for word in words])
        return results

    def _speak(self, texts: Sequence[str]) -> list[str]:
        """What espeak-ng says, without the hyphens by which it links words, with a space between two words."""
        return [" ".join(sounds.replace("-", "").split()) for sounds in self._backend.phonemize(texts, strip=True)]
