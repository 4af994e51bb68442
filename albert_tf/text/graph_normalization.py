"""Text normalisation as TensorFlow ops: a table of what the normalisation in Python makes of each character.

NFKD, the loss of combining characters, lower case and the rest do their work on each character alone, with one
exception: the Greek capital sigma, whose lower case depends on its neighbours. So a table made by the function itself
does what the function does, whatever Unicode version and locale the server has. Each character's origin is kept.
"""

from __future__ import annotations

from typing import Callable, NamedTuple

import numpy as np
import tensorflow as tf

_NUM_CODES = 0x110000
# Planes 4 to 13 have no characters, 15 and 16 private ones: a normalisation leaves all of these as they are.
_CODES = (*range(0x40000), *range(0xE0000, 0xF0000))
_PAGE = 256
_BLANK = 0x20
# Stands between characters while they are normalised together: no letter, no mark, and none of _CODES.
_SEPARATOR = "\U0010ffff"
_CAPITAL_SIGMA, _SMALL_SIGMA, _FINAL_SIGMA = (ord(character) for character in "Σσς")
# What Unicode keeps free of characters for ever. TensorFlow cannot write these; a private character stands for them,
# which no vocabulary has either.
_NONCHARACTERS = (*range(0xFDD0, 0xFDF0), *range(0xFFFE, _NUM_CODES, 0x10000), *range(0xFFFF, _NUM_CODES, 0x10000))
_STAND_IN = "\U0010fffd"
_CASED, _IGNORABLE = 1, 2


class NormalizedTexts(NamedTuple):
    """Normalised texts, and the way back. Their bytes, one text after the other, count from 0 over all texts.

    Args:
      texts: string [texts].
      byte_splits: int64 [texts + 1], where the bytes of each text begin.
      solid_before: int64 [bytes + 1], how many bytes before each are not blanks: the numbers of the solid bytes.
      starts, ends: int64 [solid bytes + 1], for each solid byte the first byte of the character that it came from, in
        the original text, and the first byte behind that character. The last entry is 0.
    """

    texts: tf.Tensor
    byte_splits: tf.Tensor
    solid_before: tf.Tensor
    starts: tf.Tensor
    ends: tf.Tensor


class GraphNormalization:
    """A normalisation of texts, as ops.

    Args:
      normalize: from str to str; it must treat each character alone, but for capital sigmas, and leave private and
        unassigned characters above U+3FFFF as they are. White space becomes blanks; how many there are of them in a
        row does not matter, and differs here. So do Unicode's 66 noncharacters, which become U+10FFFD.
    """

    def __init__(self, normalize: Callable[[str], str]):
        outputs = _outputs_of_changed_characters(normalize)
        changed = sorted(set(outputs.values()))
        row_of = {output: row for row, output in enumerate(changed, start=1)}
        self._rows = _PagedTable({code: row_of[output] for code, output in outputs.items()})
        self._codes = tf.constant([ord(character) for output in changed for character in output])
        self._splits = tf.cumsum(tf.constant([-1, 1, *map(len, changed)], tf.int64))  # row 0: the character itself
        self._cases = _PagedTable(_cases_of_characters()) if normalize("Σ") != "Σ" else None

    def __call__(self, texts: tf.Tensor) -> NormalizedTexts:
        """Normalises UTF-8 texts, string [texts]. What is not UTF-8 counts as U+FFFD, once for each such sequence."""
        codes, starts = tf.strings.unicode_decode_with_offsets(texts, "UTF-8", errors="replace")
        ends = _ends(starts, texts)
        rows = self._rows.lookup(codes.values)
        lengths = tf.gather(self._splits[1:] - self._splits[:-1], rows)
        source, within = _repeated(lengths)  # [characters] each
        row, first = tf.gather(rows, source), tf.gather(self._splits, tf.gather(rows, source))
        changed = tf.gather(self._codes, tf.where(row == 0, tf.zeros([], tf.int64), first + within))
        splits = tf.gather(_cumulated(lengths), codes.row_splits)
        characters = tf.RaggedTensor.from_row_splits(
            tf.where(row == 0, tf.gather(codes.values, source), changed), splits, validate=False)
        if self._cases is not None:
            characters = characters.with_values(_settled_sigmas(characters, self._cases))
        return _with_way_back(characters, tf.gather(starts.values, source), tf.gather(ends, source))


class _PagedTable:
    """A small number for each code point, 0 for most; pages of 256 that are alike are kept once."""

    def __init__(self, values: dict[int, int]):
        table = np.zeros([_NUM_CODES // _PAGE, _PAGE], np.int32)
        table.flat[list(values)] = list(values.values())
        pages, page_of = np.unique(table, axis=0, return_inverse=True)
        self._page_of, self._values = tf.constant(page_of.reshape(-1), tf.int32), tf.constant(pages.reshape(-1))

    def lookup(self, codes: tf.Tensor) -> tf.Tensor:
        return tf.gather(self._values, tf.gather(self._page_of, codes // _PAGE) * _PAGE + codes % _PAGE)


def _settled_sigmas(characters: tf.RaggedTensor, cases: _PagedTable) -> tf.Tensor:
    """Lower case of capital sigmas, as in str.lower: final behind a cased letter, unless one is ahead.

    Between them, case-ignorable characters do not count.
    """
    codes, texts = characters.values, characters.value_rowids()
    case = cases.lookup(codes)
    counts = case != _IGNORABLE
    before = tf.cumsum(tf.cast(counts, tf.int32), exclusive=True)
    text_of_cased = tf.boolean_mask(tf.where(case == _CASED, texts, tf.constant(-1, tf.int64)), counts)
    text_of_cased = tf.pad(text_of_cased, [[1, 2]], constant_values=-1)
    is_final = (tf.gather(text_of_cased, before) == texts) & (tf.gather(text_of_cased, before + 2) != texts)
    return tf.where(codes == _CAPITAL_SIGMA, tf.where(is_final, _FINAL_SIGMA, _SMALL_SIGMA), codes)


def _outputs_of_changed_characters(normalize: Callable[[str], str]) -> dict[int, str]:
    """What becomes of code points. A capital sigma stays one, where its lower case is for the context to say."""
    outputs = _apart(normalize)
    for code in [code for code, output in outputs.items() if "σ" in output]:
        behind_a_letter = normalize(f"a{chr(code)}")[1:]
        if behind_a_letter != outputs[code]:
            outputs[code] = behind_a_letter.replace("ς", "Σ")
    for code in _NONCHARACTERS:
        outputs[code] = _STAND_IN
    return {code: output for code, output in outputs.items() if output != chr(code)}


def _cases_of_characters() -> dict[int, int]:
    """Which characters are case-ignorable, and which are cased and are not: what str.lower asks around a sigma."""
    alone = _apart(str.lower, after="Σ")
    return {code: _CASED if alone[code].endswith("ς") else _IGNORABLE
            for code, lowered in _apart(str.lower, before="a", after="Σ").items() if lowered.endswith("ς")}


def _apart(function: Callable[[str], str], before: str = "", after: str = "") -> dict[int, str]:
    """What a function makes of each of _CODES between two strings; all of them in one call, which is fast."""
    rows = (f"{before}{chr(code)}{after}{_SEPARATOR}" for code in _CODES)
    return dict(zip(_CODES, function(_SEPARATOR + "".join(rows)).split(_SEPARATOR)[1:-1]))


def _with_way_back(characters: tf.RaggedTensor, starts: tf.Tensor, ends: tf.Tensor) -> NormalizedTexts:
    """Characters [texts, (characters)] as texts, with where in the original each came from [characters]."""
    codes = characters.values
    sizes = 1 + sum(tf.cast(codes >= first, tf.int64) for first in (0x80, 0x800, 0x10000))  # of UTF-8
    character_of, _ = _repeated(sizes)  # [bytes]
    is_solid = tf.gather(codes, character_of) != _BLANK
    solid = tf.boolean_mask(character_of, is_solid)
    return NormalizedTexts(
        tf.strings.unicode_encode(characters, "UTF-8"),
        tf.gather(_cumulated(sizes), characters.row_splits),
        _cumulated(tf.cast(is_solid, tf.int64)),
        tf.pad(tf.gather(starts, solid), [[0, 1]]),
        tf.pad(tf.gather(ends, solid), [[0, 1]]),
    )


def _ends(starts: tf.RaggedTensor, texts: tf.Tensor) -> tf.Tensor:
    """The first byte behind each character: where the next one starts, or where the text ends. [characters]"""
    text = starts.value_rowids()
    is_last = tf.concat([text[1:], [-1]], axis=0) != text
    return tf.where(is_last, tf.gather(tf.cast(tf.strings.length(texts), tf.int64), text),
                    tf.concat([starts.values[1:], [0]], axis=0))


def _cumulated(lengths: tf.Tensor) -> tf.Tensor:
    """int64 [n] -> [n + 1]: where each begins, and where the last ends."""
    return tf.pad(tf.cumsum(lengths), [[1, 0]])


def _repeated(lengths: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """For lengths int64 [n]: which of the n each of the parts belongs to, and its number among them. [parts] each"""
    splits = _cumulated(lengths)
    owner = tf.repeat(tf.range(tf.size(lengths, tf.int64)), lengths)
    return owner, tf.range(splits[-1]) - tf.gather(splits, owner)
