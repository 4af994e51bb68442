"""GraphTokenizer: FullTokenizer.encode as tensorflow-text ops, for SavedModels that take text.

Normalisation is a table that maps each character to its normalised form. Every step of it (NFKD, removal of combining
characters, lower-casing) treats each character separately, except the Greek capital sigma: its lower case depends on
its neighbours. So a table that is filled by the Python function gives its results, whatever Unicode version and locale
a server has.

`pieces` of both models takes normalised texts. It returns the ids of their pieces, int32 [texts, (pieces)], and the
span of each piece: its first byte and one past its last, int64 [pieces] each, counted in non-space bytes (see
NormalizedTexts).
"""

from __future__ import annotations

import functools
import unicodedata
from typing import Callable, Iterable, NamedTuple

import numpy as np
import sentencepiece
import tensorflow as tf

from albert_tf.text.foreign_tokenizer import ForeignTokenizer
from albert_tf.text.pieces import UNKNOWN, WORD_START, DigitCommaTable, basic_tokens, preprocess_text
from albert_tf.text.tokenization import FullTokenizer
from albert_tf.utils.imports import tensorflow_text as tf_text

_NUM_CODES = 0x110000
# Planes 4 to 13 have no characters: normalisation does not change those. Planes 15 and 16 have private ones only.
_CODES, _PRIVATE = (*range(0x40000), *range(0xE0000, 0xF0000)), range(0xF0000, _NUM_CODES)
_PAGE = 256
_SPACE = 0x20
# Separates characters that are normalised in one call. It is not a letter, not a mark, and not one of _CODES.
_SEPARATOR = "\U0010ffff"
_CAPITAL_SIGMA, _SMALL_SIGMA, _FINAL_SIGMA = (ord(character) for character in "Σσς")
# Unicode's noncharacters, which TensorFlow cannot encode. A private character replaces them; no vocabulary has either.
_NONCHARACTERS = (*range(0xFDD0, 0xFDF0), *range(0xFFFE, _NUM_CODES, 0x10000), *range(0xFFFF, _NUM_CODES, 0x10000))
_STAND_IN = "\U0010fffd"
_CASED, _IGNORABLE = 1, 2
_UNKNOWN, _REMOVED = 1, 2


class NormalizedTexts(NamedTuple):
    """Normalised texts, and the origin of each of their bytes.

    Bytes are numbered from 0 over all texts, one text after the other. A non-space byte is any byte but 0x20. For each
    of them, starts and ends have the span in the original text of the character that it came from, and then a 0.
    """

    texts: tf.Tensor  # string [texts]
    byte_splits: tf.Tensor  # int64 [texts + 1], the number of the first byte of each text
    num_non_space_before: tf.Tensor  # int64 [bytes + 1], the number of non-space bytes before each byte
    starts: tf.Tensor  # int64 [non-space bytes + 1], the first byte of the span
    ends: tf.Tensor  # int64 [non-space bytes + 1], one past its last byte


class GraphNormalization:
    """A normalisation function as TensorFlow ops.

    Two results differ from `normalize`: runs of spaces may have another length, and Unicode's 66 noncharacters
    become U+10FFFD.

    Args:
      normalize: a function from str to str. It must treat each character separately (except capital sigmas), must turn
        white space into spaces, must not change unassigned characters above U+3FFFF, and must treat all private
        characters above it alike.
      unknown: code points after normalisation. Of a run of them, only the first and the last are kept: the run is one
        unknown piece, for which tensorflow-text takes time that grows with the square of its length.
      removed: code points after normalisation that are left out within such a run.
    """

    def __init__(self, normalize: Callable[[str], str], unknown: Iterable[int] = (), removed: Iterable[int] = ()):
        outputs = _outputs_of_changed_characters(normalize)
        changed = sorted(set(outputs.values()))
        row_of = {output: row for row, output in enumerate(changed, start=1)}
        self._rows = _PagedTable({code: row_of[output] for code, output in outputs.items()})
        self._codes = tf.constant([ord(character) for output in changed for character in output])
        self._splits = tf.cumsum(tf.constant([-1, 1, *map(len, changed)], tf.int64))  # row 0: the character itself
        self._kinds = _PagedTable({**dict.fromkeys(unknown, _UNKNOWN), **dict.fromkeys(removed, _REMOVED)})
        self._cases = _PagedTable(_cases_of_characters()) if normalize("Σ") != "Σ" else None

    def __call__(self, texts: tf.Tensor) -> NormalizedTexts:
        """Normalises UTF-8 texts, string [texts]. Each invalid byte sequence is read as one U+FFFD."""
        codes, starts = tf.strings.unicode_decode_with_offsets(texts, "UTF-8", errors="replace")
        ends = _ends(starts, texts)
        rows = self._rows.lookup(codes.values)
        lengths = tf.gather(self._splits[1:] - self._splits[:-1], rows)
        source, within = repeated(lengths)  # [characters] each
        row, first = tf.gather(rows, source), tf.gather(self._splits, tf.gather(rows, source))
        changed = tf.gather(self._codes, tf.where(row == 0, tf.zeros([], tf.int64), first + within))
        splits = tf.gather(splits_of(lengths), codes.row_splits)
        characters = tf.RaggedTensor.from_row_splits(
            tf.where(row == 0, tf.gather(codes.values, source), changed), splits, validate=False)
        if self._cases is not None:
            case = self._cases.lookup(characters.values)
            counts = (case != _IGNORABLE) & ~_is_around_ignorable(characters.values, case, lengths, source)
            characters = characters.with_values(_lower_sigmas(characters, case, counts))
        for kind in (_REMOVED, _UNKNOWN):
            is_kept = ~self._is_inside_run(characters, kind)
            source = tf.boolean_mask(source, is_kept)
            characters = tf.ragged.boolean_mask(characters, characters.with_values(is_kept))
        return _with_origins(characters, tf.gather(starts.values, source), tf.gather(ends, source))

    def _is_inside_run(self, characters: tf.RaggedTensor, kind: int) -> tf.Tensor:
        """Whether a character is of a kind and has neighbours that are unknown or of it, bool [characters]."""
        kinds, text = self._kinds.lookup(characters.values), characters.value_rowids()
        is_in_run = (kinds == kind) | (kinds == _UNKNOWN)
        is_pair = is_in_run[1:] & is_in_run[:-1] & (text[1:] == text[:-1])
        return (kinds == kind) & (tf.pad(is_pair, [[1, 0]]) & tf.pad(is_pair, [[0, 1]]))[: tf.size(kinds)]


class _PagedTable:
    """Maps each code point to a small number, mostly 0. Equal pages of 256 code points are stored once."""

    def __init__(self, values: dict[int, int]):
        table = np.zeros([_NUM_CODES // _PAGE, _PAGE], np.int32)
        table.flat[list(values)] = list(values.values())
        pages, page_of = np.unique(table, axis=0, return_inverse=True)
        self._page_of, self._values = tf.constant(page_of.reshape(-1), tf.int32), tf.constant(pages.reshape(-1))

    def lookup(self, codes: tf.Tensor) -> tf.Tensor:
        return tf.gather(self._values, tf.gather(self._page_of, codes // _PAGE) * _PAGE + codes % _PAGE)


def _is_around_ignorable(codes: tf.Tensor, case: tf.Tensor, lengths: tf.Tensor, source: tf.Tensor) -> tf.Tensor:
    """Whether it is a space that WordPiece inserted around a case-ignorable character, as in " . ", bool [characters].

    source is the index of the original character; lengths, [original characters], how many characters each became.
    """
    middle = tf.gather(splits_of(lengths), source) + 1
    middle_case = tf.gather(case, tf.minimum(middle, tf.size(case, tf.int64) - 1))
    return (codes == _SPACE) & (tf.gather(lengths, source) == 3) & (middle_case == _IGNORABLE)


def _lower_sigmas(characters: tf.RaggedTensor, case: tf.Tensor, counts: tf.Tensor) -> tf.Tensor:
    """Lower-cases capital sigmas of characters [texts, (characters)] as str.lower does.

    A sigma becomes final (ς) if a cased letter precedes it and none follows it. Only characters with `counts`, bool
    [characters], are considered, which case-ignorable ones do not have.
    """
    codes, texts = characters.values, characters.value_rowids()
    before = tf.cumsum(tf.cast(counts, tf.int32), exclusive=True)
    text_of_cased = tf.boolean_mask(tf.where(case == _CASED, texts, tf.constant(-1, tf.int64)), counts)
    text_of_cased = tf.pad(text_of_cased, [[1, 2]], constant_values=-1)
    is_final = (tf.gather(text_of_cased, before) == texts) & (tf.gather(text_of_cased, before + 2) != texts)
    return tf.where(codes == _CAPITAL_SIGMA, tf.where(is_final, _FINAL_SIGMA, _SMALL_SIGMA), codes)


def _outputs_of_changed_characters(normalize: Callable[[str], str]) -> dict[int, str]:
    """The normalised form of each code point that changes. A capital sigma is kept if its context decides its case."""
    outputs = map_characters(normalize)
    for code in [code for code, output in outputs.items() if "σ" in output]:
        after_a_letter = normalize(f"a{chr(code)}")[1:]
        if after_a_letter != outputs[code]:
            outputs[code] = after_a_letter.replace("ς", "Σ")
    if not normalize(chr(_PRIVATE[0])):
        outputs.update(dict.fromkeys(_PRIVATE, ""))
    for code in _NONCHARACTERS:
        outputs[code] = _STAND_IN
    return {code: output for code, output in outputs.items() if output != chr(code)}


def _cases_of_characters() -> dict[int, int]:
    """_IGNORABLE for case-ignorable characters, _CASED for other cased ones: the classes that str.lower uses."""
    alone = map_characters(str.lower, after="Σ")
    return {code: _CASED if alone[code].endswith("ς") else _IGNORABLE
            for code, lowered in map_characters(str.lower, before="a", after="Σ").items() if lowered.endswith("ς")}


def map_characters(function: Callable[[str], str], before: str = "", after: str = "") -> dict[int, str]:
    """The function's result for each of _CODES, placed between two strings. One call for all codes is fast."""
    rows = (f"{before}{chr(code)}{after}{_SEPARATOR}" for code in _CODES)
    return dict(zip(_CODES, function(_SEPARATOR + "".join(rows)).split(_SEPARATOR)[1:-1]))


def _with_origins(characters: tf.RaggedTensor, starts: tf.Tensor, ends: tf.Tensor) -> NormalizedTexts:
    """Encodes characters [texts, (characters)]; starts and ends [characters] are their spans in the original texts."""
    codes = characters.values
    sizes = 1 + sum(tf.cast(codes >= first, tf.int64) for first in (0x80, 0x800, 0x10000))  # of UTF-8
    character_of, _ = repeated(sizes)  # [bytes]
    is_non_space = tf.gather(codes, character_of) != _SPACE
    of_non_space = tf.boolean_mask(character_of, is_non_space)
    return NormalizedTexts(
        tf.strings.unicode_encode(characters, "UTF-8"),
        tf.gather(splits_of(sizes), characters.row_splits),
        splits_of(tf.cast(is_non_space, tf.int64)),
        tf.pad(tf.gather(starts, of_non_space), [[0, 1]]),
        tf.pad(tf.gather(ends, of_non_space), [[0, 1]]),
    )


def _ends(starts: tf.RaggedTensor, texts: tf.Tensor) -> tf.Tensor:
    """One past the last byte of each character, [characters]: the start of the next one, or the end of the text."""
    text = starts.value_rowids()
    is_last = tf.concat([text[1:], [-1]], axis=0) != text
    return tf.where(is_last, tf.gather(tf.cast(tf.strings.length(texts), tf.int64), text),
                    tf.concat([starts.values[1:], [0]], axis=0))


def splits_of(lengths: tf.Tensor) -> tf.Tensor:
    """Lengths int64 [n] -> [n + 1]: the start of each part, and the end of the last."""
    return tf.pad(tf.cumsum(lengths), [[1, 0]])


def repeated(lengths: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """For lengths int64 [n]: the owner of each part (0 to n - 1) and the part's index within its owner, [parts] each.

    Example: lengths [2, 0, 3] give owners [0, 0, 2, 2, 2] and indices [0, 1, 0, 1, 2].
    """
    owner = tf.repeat(tf.range(tf.size(lengths, tf.int64)), lengths)
    return owner, tf.range(tf.size(owner, tf.int64)) - tf.gather(tf.cumsum(lengths, exclusive=True), owner)


_TO_THE_END = np.iinfo(np.int64).max // 2
_UTF8_BYTES = 4  # the most bytes of a character


def check_in_graph(tokenizer: FullTokenizer) -> None:
    """Raises ValueError if a graph cannot tokenize as this tokenizer does."""
    if isinstance(tokenizer, ForeignTokenizer):
        raise ValueError("a tokenizer in a SavedModel has the steps of ALBERT's or BERT's, and "
                         f"{tokenizer.vocabulary_file} has others or added tokens: convert the model to hugging_face, "
                         "or export it to ONNX")


class GraphTokenizer(tf.Module):
    """FullTokenizer.encode in a graph: converts raw text to ids.

    In a text that is not valid UTF-8, each invalid byte sequence is read as U+FFFD. An empty text has no pieces. The
    ops have no XLA kernels, so they do not work in an XLA-compiled function.

    One result can differ: two segmentations of a word with scores that are equal but for rounding ("0 00" and "00 0").
    tensorflow-text compares scores in float64, FullTokenizer in float32 with sentencepiece 0.2.2 and later, as the
    release did. Of 80,392 texts (sentences of novels, news, BLiMP, and paragraphs of SQuAD), 1 differed with the
    release's vocabulary, and 201 with albert_tiny_en's, nearly all in numbers such as 40,000.

    Example::

      tokenizer = GraphTokenizer(FullTokenizer(spm_model_file="30k-clean.model"))
      ids, starts, ends = tokenizer.tokenize_with_offsets(["Hello, World"])
    """

    def __init__(self, tokenizer: FullTokenizer):
        super().__init__()
        check_in_graph(tokenizer)
        self.cls_id, self.sep_id, self.mask_id = tokenizer.cls_id, tokenizer.sep_id, tokenizer.mask_id
        self.pad_id, self.unk_id = tokenizer.pad_id, tokenizer.unk_id
        self._is_sentencepiece = tokenizer.sp_model is not None
        self._normalization = _normalization(tokenizer.sp_model, tokenizer.do_lower_case, tokenizer.keep_accents,
                                             tokenizer.transformers_rules)
        self._model = (GraphSentencePieces(tokenizer.sp_model) if self._is_sentencepiece
                       else GraphWordPieces(tokenizer.vocab, tokenizer.longest_word))

    def preprocess(self, texts: tf.Tensor) -> tf.Tensor:
        """FullTokenizer.preprocess for texts, string [texts].

        Runs of spaces are kept, which the SentencePiece model treats as one space, and runs of unknown characters are
        shortened.
        """
        return tf.strings.strip(self._normalization(texts).texts) if self._is_sentencepiece else texts

    def tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Texts, string [texts], to ids, int32 [texts, (pieces)]."""
        return self.tokenize_with_offsets(texts)[0]

    def tokenize_with_offsets(self, texts: tf.Tensor) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """Converts texts, string [texts], to ids, int32 [texts, (pieces)], and to spans, int64 of the same shape.

        The starts and ends are the first byte of each piece and one past its last, in the raw text. The space in front
        of a word is not included, so a piece that is only a word-start mark has no bytes.
        """
        normalized = self._normalization(tf.convert_to_tensor(texts))
        ids, begins, ends = self._model.pieces(normalized)
        starts = tf.gather(normalized.starts, begins)
        ends = tf.where(begins == ends, starts, tf.gather(normalized.ends, tf.maximum(ends - 1, 0)))
        return ids, ids.with_values(starts), ids.with_values(ends)


@functools.lru_cache(maxsize=8)
def _normalization(
    sp_model: sentencepiece.SentencePieceProcessor | None, lower: bool, keep_accents: bool, transformers_rules: bool
) -> GraphNormalization:
    if sp_model is not None:
        return GraphNormalization(lambda text: preprocess_text(text, lower=lower, keep_accents=keep_accents),
                                  *codes_without_piece(sp_model))
    return GraphNormalization(lambda text: " ".join(basic_tokens(text, lower, keep_accents, transformers_rules)))


class GraphSentencePieces(tf.Module):
    """Pieces by a SentencePiece model. Raises ValueError if it does not treat several spaces as one."""

    def __init__(self, sp_model: sentencepiece.SentencePieceProcessor):
        super().__init__()
        if sp_model.encode("  a  a ") != sp_model.encode("a a"):
            raise ValueError("the SentencePiece model distinguishes two spaces from one, which a tokenizer in a graph "
                             "does not support")
        self._tokenizer = tf_text.SentencepieceTokenizer(sp_model.serialized_model_proto(), out_type=tf.int32)
        pieces = [sp_model.id_to_piece(i) for i in range(sp_model.vocab_size())]
        replacements = DigitCommaTable(sp_model).replacements
        parts = [replacements.get(i, [i]) for i in range(len(pieces))]
        self._parts = tf.constant(np.concatenate(parts), tf.int32)
        self._num_parts = tf.constant([len(ids) for ids in parts], tf.int64)
        self._first_part = tf.cumsum(self._num_parts, exclusive=True)
        spans = [span for ids in parts for span in _spans([pieces[i].replace(WORD_START, "") for i in ids])]
        self._is_byte = tf.constant([sp_model.is_byte(i) for i in range(len(pieces))])
        self._begins, self._ends = tf.unstack(tf.constant(spans, tf.int64), axis=1)

    def pieces(self, normalized: NormalizedTexts) -> tuple[tf.RaggedTensor, tf.Tensor, tf.Tensor]:
        """The ids of the pieces, and their spans."""
        ids, begins, ends = self._tokenizer.tokenize_with_offsets(normalized.texts)
        first_byte = tf.gather(normalized.byte_splits, ids.value_rowids())
        begins, ends = (tf.gather(normalized.num_non_space_before, first_byte + tf.cast(offsets.values, tf.int64))
                        for offsets in (begins, ends))
        # Of the bytes of a character, only the last has a span; and yet each of them stands for the character.
        is_empty_byte = tf.gather(self._is_byte, ids.values) & (begins == ends)
        ends = tf.where(is_empty_byte, begins + 1, ends)
        num_parts = tf.gather(self._num_parts, ids.values)  # by the rule about commas
        piece, index = repeated(num_parts)
        part = tf.gather(self._first_part, tf.gather(ids.values, piece)) + index
        begins, ends = tf.gather(begins, piece), tf.gather(ends, piece)
        return (tf.RaggedTensor.from_row_splits(
                    tf.gather(self._parts, part), tf.gather(splits_of(num_parts), ids.row_splits), validate=False),
                tf.minimum(begins + tf.gather(self._begins, part), ends),
                tf.minimum(begins + tf.gather(self._ends, part), ends))


class GraphWordPieces(tf.Module):
    """Pieces by a WordPiece vocabulary (piece -> id), of basic tokens that are separated by spaces."""

    def __init__(self, vocab: dict[str, int], longest_word: int):
        super().__init__()
        self._longest_word = longest_word
        entries = tf.lookup.KeyValueTensorInitializer(list(vocab), np.array(list(vocab.values()), np.int64))
        self._table = tf.lookup.StaticHashTable(entries, default_value=vocab[UNKNOWN])
        self._tokenizer = tf_text.WordpieceTokenizer(self._table, max_bytes_per_word=longest_word * _UTF8_BYTES,
                                                     token_out_type=tf.int32, unknown_token=UNKNOWN)

    def pieces(self, normalized: NormalizedTexts) -> tuple[tf.RaggedTensor, tf.Tensor, tf.Tensor]:
        """The ids of the pieces, and their spans."""
        words = tf.strings.split(normalized.texts)
        sizes = tf.cast(tf.strings.length(words.values), tf.int64)
        is_too_long = tf.strings.length(words.values, "UTF8_CHAR") > self._longest_word
        ids, begins, ends = self._tokenizer.tokenize_with_offsets(tf.where(is_too_long, UNKNOWN, words.values))
        word = ids.value_rowids()
        ends = tf.where(tf.gather(is_too_long, word), tf.gather(sizes, word), tf.cast(ends.values, tf.int64))
        first_byte = tf.gather(tf.cumsum(sizes, exclusive=True), word)
        splits = tf.gather(ids.row_splits, words.row_splits)
        return (tf.RaggedTensor.from_row_splits(ids.values, splits, validate=False),
                first_byte + tf.cast(begins.values, tf.int64), first_byte + ends)


def codes_without_piece(sp_model: sentencepiece.SentencePieceProcessor) -> tuple[list[int], list[int]]:
    """The code points that are always unknown pieces (none with byte fallback), and those that the model removes."""
    if any(map(sp_model.is_byte, range(sp_model.vocab_size()))):
        return [], []
    pieces = "".join(sp_model.id_to_piece(i) for i in range(sp_model.vocab_size()) if not sp_model.is_control(i))
    known = {*pieces, *unicodedata.normalize("NFKD", pieces), WORD_START}  # two characters can compose a known one
    # Surrogates become "?".
    forms = map_characters(lambda text: sp_model.normalize(text.encode("utf-8", "replace").decode()))
    unknown = [code for code, form in forms.items() if form and known.isdisjoint([*form, chr(code)])]
    return unknown, [code for code, form in forms.items() if not form]


def _spans(parts: list[str]) -> list[tuple[int, int]]:
    """The byte span of each part within its piece. The last span is open-ended."""
    bounds = [0, *np.cumsum([len(part.encode("utf-8")) for part in parts[:-1]], dtype=int).tolist(), _TO_THE_END]
    return list(zip(bounds, bounds[1:]))
