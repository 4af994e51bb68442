"""FullTokenizer, the release's tokenizer: pieces and ids by a SentencePiece model or a WordPiece vocabulary."""

from __future__ import annotations

import collections
import functools
import hashlib
import re
import unicodedata
from typing import Sequence

import numpy as np
from absl import logging

from albert_tf.text.origins import TracedPieces, trace_pieces
from albert_tf.text.packing import PairPacker, SpecialTokens, padded_rows, padding_values
from albert_tf.text.pieces import (
    LONGEST_WORD,
    LONGEST_WORD_OF_TRANSFORMERS,
    UNKNOWN,
    WORD_START,
    DigitCommaTable,
    basic_tokens,
    decode_bytes,
    encode_pieces,
    load_model,
    load_vocab,
    lower_case,
    preprocess_text,
    word_pieces,
)
from albert_tf.utils.bounds import check_one_of

_WARNED_SHARE = 0.01
_MOST_FREQUENT = 5


class FullTokenizer:
    """The release's tokenizer (FullTokenizer).

    Args:
      vocab_file: path of a WordPiece vocabulary. It is ignored if spm_model_file is set.
      do_lower_case: whether to lower-case texts.
      spm_model_file: path of a SentencePiece model.
      keep_accents: whether texts keep their accents. If false, a SentencePiece tokenizer removes accents; a WordPiece
        tokenizer removes them only when it lower-cases, as in the release.
      max_seq_length: the largest number of tokens of a row, if a call does not set it.
      transformers_rules: whether a WordPiece tokenizer follows BertTokenizer of transformers where it differs from the
        release: the id of a piece is the number of its line, a word of over 100 characters (release: 200) is [UNK],
        private-use characters are removed, and a capital sigma is lower-cased to the same letter at the end of words.

    Attributes:
      vocabulary_file: path of the file that was read.
      vocab: dict from piece to id.
      vocab_size: the number of ids. Ids without a piece, as repeated lines of a vocabulary leave them, count.
      longest_word: the largest number of characters of a word that WordPiece splits.
      has_bytes: whether the bytes of unknown characters are pieces (byte fallback).
      special_tokens: the special tokens of rows.

    Raises:
      ValueError: neither path is set, the file cannot be read, or it lacks [CLS], [SEP], [MASK] or the padding piece.

    Example::

      tokenizer = FullTokenizer(spm_model_file="30k-clean.model")
      tokenizer.tokenize(preprocess_text("Hello, World", lower=True))     # ["▁hello", ",", "▁world"]
      inputs = tokenizer(["A text.", "Another one."])                     # a batch that a model can be called with
    """

    def __init__(self, vocab_file: str | None = None, do_lower_case: bool = True, spm_model_file: str | None = None,
                 keep_accents: bool = False, max_seq_length: int = 512, transformers_rules: bool = False):
        self.do_lower_case, self.keep_accents = do_lower_case, keep_accents
        self.max_seq_length = max_seq_length
        self.sp_model = None
        self.vocabulary_file = spm_model_file or vocab_file
        if spm_model_file:
            self.sp_model = load_model(spm_model_file)
            self._digit_comma = DigitCommaTable(self.sp_model)
            self.vocab = {self.sp_model.id_to_piece(i): i for i in range(self.sp_model.vocab_size())}
        elif vocab_file:
            self.vocab = load_vocab(vocab_file, transformers_rules)
        else:
            raise ValueError("a tokenizer needs spm_model_file or vocab_file")
        self.transformers_rules = transformers_rules and self.sp_model is None
        self.longest_word = LONGEST_WORD_OF_TRANSFORMERS if self.transformers_rules else LONGEST_WORD
        self.has_bytes = self.sp_model is not None and any(map(self.sp_model.is_byte, self.vocab.values()))
        self._pieces = {piece_id: piece for piece, piece_id in self.vocab.items()}
        self.vocab_size = max(self._pieces) + 1
        self.cls_id, self.sep_id, self.mask_id = (self._id_of(piece) for piece in ("[CLS]", "[SEP]", "[MASK]"))
        self.special_tokens = SpecialTokens((self.cls_id,), (self.sep_id,), (self.sep_id,))
        names = ("<pad>", "[PAD]") if self.sp_model else ("[PAD]",)
        self.pad_id = self._id_of(next((name for name in names if name in self.vocab), names[0]))
        self.unk_id = self.sp_model.unk_id() if self.sp_model else self._id_of(UNKNOWN)

    def is_reserved(self, piece: str) -> bool:
        """Whether a piece is special, so that no text has it, or user-defined, so that every text with it has it."""
        if not self.sp_model:
            return piece in ("[PAD]", UNKNOWN, "[CLS]", "[SEP]", "[MASK]")
        piece_id = self.vocab.get(piece)  # user-defined pieces have no score
        return piece_id is not None and (self.sp_model.is_control(piece_id) or not self.sp_model.get_score(piece_id))

    def preprocess(self, text: str, remove_space: bool = True) -> str:
        """preprocess_text with this tokenizer's options. For a WordPiece vocabulary, the text is returned unchanged."""
        if not self.sp_model:
            return text
        return preprocess_text(text, remove_space, self.do_lower_case, self.keep_accents)

    def tokenize(self, text: str) -> list[str]:
        """Splits a text into pieces.

        As in the release, text for a SentencePiece model must have been normalised and lower-cased, by `preprocess` or
        preprocess_text. `encode`, and calling the tokenizer, do this themselves.
        """
        if self.sp_model:
            return encode_pieces(self.sp_model, text)
        return [piece for word in self.basic_tokens(text) for piece in word_pieces(word, self.vocab, self.longest_word)]

    def basic_tokens(self, text: str) -> list[str]:
        """The words of a text that WordPiece splits into pieces. Only for a WordPiece vocabulary."""
        return basic_tokens(text, self.do_lower_case, self.keep_accents, self.transformers_rules)

    def convert_tokens_to_ids(self, tokens: list[str]) -> list[int]:
        """The ids of pieces. An unknown piece has the id of <unk>, or with WordPiece raises ValueError."""
        if self.sp_model:
            return [self.vocab.get(token, self.unk_id) for token in tokens]
        unknown = [token for token in tokens if token not in self.vocab]
        if unknown:
            raise ValueError(f"{unknown[0]!r} is not in {self.vocabulary_file}")
        return [self.vocab[token] for token in tokens]

    def convert_ids_to_tokens(self, ids: Sequence[int]) -> list[str]:
        """The pieces of ids, [UNK] for an id without a piece. Raises ValueError if one is outside the vocabulary."""
        out = [i for i in ids if not 0 <= int(i) < self.vocab_size]
        if out:
            raise ValueError(f"id {out[0]} is outside the vocabulary of {self.vocab_size} pieces")
        return [self._pieces.get(int(i), UNKNOWN) for i in ids]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, without [CLS], [SEP] and padding. It is normalised text: case and accents may be lost."""
        skipped = (self.cls_id, self.sep_id, self.pad_id)
        pieces = self.convert_ids_to_tokens([i for i in np.asarray(ids).tolist() if i not in skipped])
        if self.sp_model:
            text = "".join(pieces)
            return (decode_bytes(text) if self.has_bytes else text).replace(WORD_START, " ").strip()
        return " ".join(pieces).replace(" ##", "")

    def encode(self, text: str) -> list[int]:
        """Converts raw text to ids: normalises it (lower-cased if do_lower_case), splits it and looks up the ids."""
        return self.encode_batch([text])[0].tolist()

    def encode_batch(self, texts: list[str]) -> list[np.ndarray]:
        """`encode` for several texts at once, int32 [pieces] each."""
        if self.sp_model:
            return self._digit_comma.encode_batch([self.preprocess(text) for text in texts])
        return [np.array(self.convert_tokens_to_ids(self.tokenize(text)), np.int32) for text in texts]

    def trace_batch(self, texts: list[str]) -> list[TracedPieces]:
        """`encode_batch` with the origin of each character."""
        return trace_pieces(self, texts)

    def starts_word(self, piece: str) -> bool:
        """Whether a piece starts a word.

        A SentencePiece piece starts a word if it begins with U+2581 or "<", if it is a single punctuation mark, or if
        it has a character that is neither a mark nor a letter a-z. So digits and the apostrophe start words; "!!" does
        not. A WordPiece piece starts a word if it does not begin with "##".
        """
        if not self.sp_model:
            return not piece.startswith("##")
        return (piece.startswith((WORD_START, "<")) or len(piece) == 1 and piece in _MARKS
                or not _ONLY_LETTERS_AND_MARKS.fullmatch(piece))

    def definition(self) -> list[str]:
        """What ids depend on, except casing and accents."""
        if model := self.sp_model:
            # Not the file, since one with the same pieces can be made of Hugging Face's tokenizer.json.
            return [f"{model.id_to_piece(i)} {model.get_score(i)!r} {model.is_control(i)}"
                    for i in range(model.vocab_size())]
        return [repr(each) for each in (True, *self.vocab.items())] if self.transformers_rules else list(self.vocab)

    def _id_of(self, piece: str) -> int:
        if piece not in self.vocab:
            kind = ("vocabularies of XLM-RoBERTa need their tokenizer.json" if "<s>" in self.vocab
                    else "it is not a vocabulary for ALBERT")
            raise ValueError(f"{self.vocabulary_file} has no {piece}: {kind}")
        return self.vocab[piece]

    def __call__(
        self, texts: str | Sequence[str], text_pairs: str | Sequence[str] | None = None,
        max_seq_length: int | None = None, padding: str = "longest", return_offsets: bool = False,
    ) -> dict[str, np.ndarray]:
        """Converts raw texts to a batch of model inputs, packed as in the release.

        Args:
          texts: one text, or a list of texts for a batch.
          text_pairs: the second text of each row; None if no row has one, or "" for a single row without one.
          max_seq_length: the largest number of tokens of a row; None for the tokenizer's. Longer rows are truncated,
            the longer text first.
          padding: "longest" pads to the longest row of the batch, "max_length" to max_seq_length.

        Returns:
          input_ids, input_mask (1 up to the last [SEP]) and segment_ids (1 on the second text and its [SEP]), int32
          [batch, seq]. With return_offsets also offsets, int32 [batch, seq, 2]: the first character of each piece in
          its text and one past its last; (0, 0) for special tokens and padding.

        Raises:
          ValueError: texts and text_pairs differ in length, padding is unknown, or max_seq_length is too small.
        """
        length = self.max_seq_length if max_seq_length is None else max_seq_length
        check_one_of("padding", padding, ("longest", "max_length"))
        texts = list_of_strings("texts", [texts] if isinstance(texts, str) else texts)
        pairs = [""] * len(texts) if text_pairs is None else list_of_strings(
            "text_pairs", [text_pairs] if isinstance(text_pairs, str) else text_pairs)
        if len(texts) != len(pairs):
            raise ValueError("texts and text_pairs must have the same length. "
                             f"Received: {len(texts)} texts and {len(pairs)} text_pairs")
        packer = PairPacker(self, length, pad=False)
        traced = [self.trace_batch(each) for each in (texts, pairs)] if return_offsets else []
        encoded = ([[pieces.ids for pieces in each] for each in traced] if return_offsets
                   else [self.encode_batch(each) for each in (texts, pairs)])
        rows = [packer.pack(ids_a, ids_b) for ids_a, ids_b in zip(*encoded)]
        width = length if padding == "max_length" else max((len(row["input_ids"]) for row in rows), default=0)
        batch = {name: padded_rows([row[name] for row in rows], fill, shape=[len(rows), width])
                 for name, fill in padding_values(self.pad_id).items()}
        if return_offsets:
            batch["offsets"] = np.zeros([len(rows), width, 2], np.int32)
            for i, (row, a, b) in enumerate(zip(rows, *traced)):
                length_a, length_b = packer.lengths(len(a.ids), len(b.ids))
                start, end = len(self.special_tokens.first), len(row["input_ids"]) - len(self.special_tokens.last)
                batch["offsets"][i, start : start + length_a] = a.offsets[:length_a]
                batch["offsets"][i, end - length_b : end] = b.offsets[:length_b]
        return batch


def list_of_strings(name: str, texts: Sequence[str]) -> list[str]:
    """Texts as a list. Raises ValueError, with `name`, for a single string or an element that is not a string."""
    if isinstance(texts, str):
        raise ValueError(f"{name} must be a list of strings, not a string")
    texts = list(texts)
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise ValueError(f"{name} must be strings. Received: {name}[{i}]={text!r}")
    return texts


_MARKS = "!\"#$%&()*+,-./:;?@[\\]^_`{|}~"
_ONLY_LETTERS_AND_MARKS = re.compile(f"[a-zA-Z{re.escape(_MARKS)}]*")


def word_starts(tokenizer: FullTokenizer) -> np.ndarray:
    """Whether the piece of each id starts a word, bool [vocab_size]."""
    starts = np.zeros(max(tokenizer.vocab.values()) + 1, bool)
    for piece, piece_id in tokenizer.vocab.items():
        starts[piece_id] = tokenizer.starts_word(piece)
    return starts


def tokenizer_key(tokenizer: FullTokenizer) -> dict:
    """The properties of a tokenizer that ids depend on, for the manifests of files that are made with it."""
    keep_accents = tokenizer.keep_accents or not (tokenizer.sp_model or tokenizer.do_lower_case)
    digest = hashlib.sha256("\n".join(tokenizer.definition()).encode()).hexdigest()
    return dict(vocabulary_sha256=digest, do_lower_case=tokenizer.do_lower_case, keep_accents=keep_accents)


def warn_of_unknown_pieces(tokenizer: FullTokenizer, texts: Sequence[str], source: str) -> None:
    """Warns if more than 1 % of the pieces of texts, which are from `source`, are unknown; names the most frequent."""
    encoded = tokenizer.encode_batch(list(texts))
    with_unknown = [text for text, ids in zip(texts, encoded) if tokenizer.unk_id in ids]
    counts: collections.Counter[str] = collections.Counter()
    for text, traced in zip(with_unknown, tokenizer.trace_batch(with_unknown)):
        for start, end in traced.offsets[np.equal(traced.ids, tokenizer.unk_id)]:
            counts[text[start:end]] += 1
    share = counts.total() / max(1, sum(map(len, encoded)))
    if share > _WARNED_SHARE:
        logging.warning("the vocabulary does not have %.1f %% of the pieces of %s, which all become %s: most often %s",
                        100 * share, source, tokenizer.convert_ids_to_tokens([tokenizer.unk_id])[0],
                        " ".join(piece for piece, _ in counts.most_common(_MOST_FREQUENT)))


def warn_of_lost_pieces(tokenizer: FullTokenizer) -> None:
    """Warns, once for a file, if texts lose capital letters or marks that over 1 % of the file's pieces have."""
    pieces = [piece for piece in tokenizer.vocab if piece[:1] not in "[<"]  # without special tokens and bytes
    lost_characters = {character for character in set("".join(pieces)) if _is_lost(tokenizer, character)}
    lost = [piece for piece in pieces if not lost_characters.isdisjoint(piece)]
    if len(lost) > _WARNED_SHARE * len(pieces):
        _warn_once("%.1f %% of the pieces of %s have capital letters or marks that texts lose, such as %s: if the "
                   "model was trained with them, set --do_lower_case=False or --keep_accents",
                   100 * len(lost) / len(pieces), tokenizer.vocabulary_file, " ".join(lost[:_MOST_FREQUENT]))


def _is_lost(tokenizer: FullTokenizer, character: str) -> bool:
    """Whether no text has a character once it is normalised. A letter that is only decomposed is not lost."""
    if tokenizer.do_lower_case and character != character.lower():
        return True
    if tokenizer.keep_accents:
        return False
    if tokenizer.sp_model:
        return any(map(unicodedata.combining, unicodedata.normalize("NFKD", character)))
    return tokenizer.do_lower_case and lower_case(character, False) != unicodedata.normalize("NFD", character)


_warn_once = functools.lru_cache(maxsize=64)(logging.warning)
