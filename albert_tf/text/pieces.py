"""PieceTokenizer: converts text to pieces and ids, with a SentencePiece model or a WordPiece vocabulary."""

from __future__ import annotations

from typing import Sequence

import numpy as np

from albert_tf.text import wordpiece
from albert_tf.text.sentencepieces import WORD_START, DigitCommaTable, encode_pieces, load_model, preprocess_text


class PieceTokenizer:
    """The pieces of texts and their ids. FullTokenizer, which adds batches of model inputs, describes the arguments."""

    def __init__(self, vocab_file: str | None = None, do_lower_case: bool = True, spm_model_file: str | None = None,
                 keep_accents: bool = False, max_seq_length: int = 512):
        self.do_lower_case, self.keep_accents = do_lower_case, keep_accents
        self.max_seq_length = max_seq_length
        self.sp_model = None
        if spm_model_file:
            self.sp_model = load_model(spm_model_file)
            self._digit_comma = DigitCommaTable(self.sp_model)
            self.vocab = {self.sp_model.id_to_piece(i): i for i in range(self.sp_model.vocab_size())}
        elif vocab_file:
            self.vocab = wordpiece.load_vocab(vocab_file)
        else:
            raise ValueError("a tokenizer needs spm_model_file or vocab_file")
        self._pieces = {piece_id: piece for piece, piece_id in self.vocab.items()}
        self.vocabulary_file = spm_model_file or vocab_file
        self.cls_id, self.sep_id, self.mask_id = (self._special(piece) for piece in ("[CLS]", "[SEP]", "[MASK]"))
        self.pad_id = self._special("<pad>" if self.sp_model else "[PAD]")
        self.unk_id = self.sp_model.unk_id() if self.sp_model else self._special(wordpiece.UNKNOWN)

    @property
    def vocab_size(self) -> int:
        """The number of tokens."""
        return len(self.vocab)

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
        words = wordpiece.basic_tokens(text, self.do_lower_case, self.keep_accents)
        return [piece for word in words for piece in wordpiece.word_pieces(word, self.vocab)]

    def convert_tokens_to_ids(self, tokens: list[str]) -> list[int]:
        """The ids of pieces. With a SentencePiece model, an unknown piece has the id of <unk>.

        Raises:
          ValueError: a piece is not in a WordPiece vocabulary.
        """
        if self.sp_model:
            return [self.vocab.get(token, self.unk_id) for token in tokens]
        unknown = [token for token in tokens if token not in self.vocab]
        if unknown:
            raise ValueError(f"{unknown[0]!r} is not in {self.vocabulary_file}")
        return [self.vocab[token] for token in tokens]

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
        """The pieces of ids.

        Raises:
          ValueError: an id is out of the vocabulary.
        """
        out = [i for i in ids if int(i) not in self._pieces]
        if out:
            raise ValueError(f"id {out[0]} is outside the vocabulary of {self.vocab_size} pieces")
        return [self._pieces[int(i)] for i in ids]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, without [CLS], [SEP] and padding. It is normalised text: case and accents may be lost.

        Raises:
          ValueError: an id is out of the vocabulary.
        """
        skipped = (self.cls_id, self.sep_id, self.pad_id)
        pieces = self.convert_ids_to_tokens([i for i in np.asarray(ids).tolist() if i not in skipped])
        if self.sp_model:
            return "".join(pieces).replace(WORD_START, " ").strip()
        return " ".join(pieces).replace(" ##", "")

    def encode(self, text: str) -> list[int]:
        """Converts raw text to ids: normalises it (lower-cased if do_lower_case), splits it and looks up the ids."""
        return self.encode_batch([text])[0].tolist()

    def encode_batch(self, texts: list[str]) -> list[np.ndarray]:
        """`encode` for several texts at once, int32 [pieces] each."""
        if self.sp_model:
            return self._digit_comma.encode_batch([self.preprocess(text) for text in texts])
        return [np.array(self.convert_tokens_to_ids(self.tokenize(text)), np.int32) for text in texts]

    def _special(self, piece: str) -> int:
        if piece not in self.vocab:
            raise ValueError(f"{self.vocabulary_file} has no {piece}: it is not a vocabulary for ALBERT")
        return self.vocab[piece]
