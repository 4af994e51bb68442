"""ForeignTokenizer: a tokenizer.json of Hugging Face with other steps than FullTokenizer, by the library tokenizers."""

from __future__ import annotations

import contextlib
from typing import Any, Iterator, Mapping, Sequence

import numpy as np

from albert_tf.text.origins import NOWHERE, TracedPieces
from albert_tf.text.packing import SpecialTokens
from albert_tf.text.pieces import UNKNOWN, WORD_START
from albert_tf.text.tokenization import FullTokenizer
from albert_tf.utils.imports import check_installed

_BYTE_SPACE = "\u0120"  # the space in the pieces of byte-level BPE


class ForeignTokenizer(FullTokenizer):
    """A tokenizer of the library tokenizers, as a FullTokenizer. Texts are not normalised before it gets them.

    Rows have the special tokens of its post-processor. Without a name or a usual piece for it, the mask has the id of
    the unknown piece, and this one the id of padding.

    Args:
      content: the content of tokenizer.json.
      path: path of the file, for messages.
      names: the special tokens by Hugging Face's names, such as pad_token.
      added_tokens: tokens that are not in the file, as arguments of tokenizers.AddedToken and maybe "id".
      lower_cases: whether texts are lower-cased before the steps of the file.

    Raises:
      ValueError: tokenizers is not installed or refuses the file, an added token has another id, there is no padding,
        or rows have special tokens in other places than before, between and after the texts.
    """

    def __init__(
        self, content: str, path: str, names: Mapping[str, str], added_tokens: Sequence[Mapping[str, Any]] = (),
        lower_cases: bool = False, max_seq_length: int = 512,
    ):
        check_installed(f"the tokenizer of {path}", "tokenizers")
        import tokenizers

        if not hasattr(tokenizers.Tokenizer, "from_str"):
            raise ValueError(f"{path} needs a version of tokenizers before {tokenizers.__version__}, which gives no "
                             "offsets: pip install 'tokenizers<1'")
        self.do_lower_case, self.keep_accents, self.max_seq_length = lower_cases, True, max_seq_length
        self.sp_model, self.vocabulary_file, self.names = None, path, dict(names)
        self.transformers_rules = self.has_bytes = False
        with self._clear_errors():
            self._library = library = tokenizers.Tokenizer.from_str(content)
            library.no_truncation()
            library.no_padding()
            if lower_cases:
                steps = filter(None, [tokenizers.normalizers.Lowercase(), library.normalizer])
                library.normalizer = tokenizers.normalizers.Sequence([*steps])
            library.add_tokens([tokenizers.AddedToken(**{name: value for name, value in token.items() if name != "id"})
                                for token in added_tokens])
            self.vocab = library.get_vocab(with_added_tokens=True)
        for token in added_tokens:
            text, token_id = token["content"], self.vocab[token["content"]]
            if token.get("id") not in (None, token_id):
                raise ValueError(f"{path}: the added token {text!r} must have the id {token_id}, the next one or its "
                                 f"piece's. Received: {token['id']}")
        self._pieces = {piece_id: piece for piece, piece_id in self.vocab.items()}
        self.vocab_size = max(self._pieces) + 1
        self.special_tokens = self._special_tokens()
        pad_id = self._id_of_any(names.get("pad_token"), "<pad>", "[PAD]")
        if pad_id is None:
            raise ValueError(f"{path}: there is no padding: set pad_token in tokenizer_config.json")
        self.pad_id = pad_id
        self.unk_id = self._id_of_any(names.get("unk_token"), "<unk>", UNKNOWN, otherwise=pad_id)
        self.mask_id = self._id_of_any(names.get("mask_token"), "[MASK]", "<mask>", otherwise=self.unk_id)
        first, _, last, _ = self.special_tokens
        self.cls_id, self.sep_id = (first or (pad_id,))[0], (last or (pad_id,))[-1]

    def _id_of_any(self, *pieces: str | None, otherwise: Any = None) -> Any:
        """The id of the first of these pieces that the vocabulary has."""
        return next((self.vocab[piece] for piece in pieces if piece in self.vocab), otherwise)

    def _special_tokens(self) -> SpecialTokens:
        """The special tokens around one text, and around two."""
        with self._clear_errors():
            single, pair = self._library.encode("a"), self._library.encode("a", "a")
        texts = [[i for i, text in enumerate(pair.sequence_ids) if text == number] for number in (0, 1)]
        if all(texts):
            (start_a, *_, end_a), (start_b, *_, end_b) = ((*text[:1], *text, text[-1] + 1) for text in texts)
            ids, second = tuple(pair.ids), pair.type_ids[start_b]
            found = SpecialTokens(ids[:start_a], ids[end_a:start_b], ids[end_b:], second)
            segments = [0] * start_b + [second] * (len(ids) - start_b)
            if pair.type_ids == segments and not any(single.type_ids) and (
                    single.ids == [*found.around(ids[start_a:end_a])]):
                return found
        raise ValueError(f"{self.vocabulary_file}: post_processor is not supported: special tokens must be the same "
                         "around one text and two, with segment 0 up to the second text")

    @contextlib.contextmanager
    def _clear_errors(self) -> Iterator[None]:
        """Errors of the library, also of Rust, as ValueErrors of one line."""
        try:
            yield
        except BaseException as error:
            if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
                raise
            raise ValueError(f"{self.vocabulary_file}: {str(error).splitlines()[0]}") from error

    def _encodings(self, texts: Sequence[str]) -> list[Any]:
        with self._clear_errors():
            return self._library.encode_batch([text.encode("utf-8", "replace").decode() for text in texts],
                                              add_special_tokens=False)

    def tokenize(self, text: str) -> list[str]:
        """The pieces of a text."""
        return self._encodings([text])[0].tokens

    def encode_batch(self, texts: list[str]) -> list[np.ndarray]:
        """The ids of texts, int32 [pieces] each."""
        return [np.array(encoding.ids, np.int32) for encoding in self._encodings(texts)]

    def trace_batch(self, texts: list[str]) -> list[TracedPieces]:
        """`encode_batch` with the origin of each character."""
        traced = []
        for text, encoding in zip(texts, self._encodings(texts)):
            of_pieces = [range(*span) or (NOWHERE,) for span in encoding.offsets]
            ids, lengths, origins = (np.array(values, np.int32) for values in (
                encoding.ids, [*map(len, of_pieces)], [origin for piece in of_pieces for origin in piece]))
            surface = "".join(text[start:end] or " " for start, end in encoding.offsets)
            spans = np.array(encoding.offsets, np.int32).reshape([-1, 2])
            traced.append(TracedPieces(ids, lengths, surface, origins, "", spans))
        return traced

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, without the special tokens of rows and padding."""
        skipped = {self.pad_id, *self.special_tokens.first, *self.special_tokens.between, *self.special_tokens.last}
        with self._clear_errors():
            return self._library.decode([i for i in np.asarray(ids).tolist() if i not in skipped], False).strip()

    def starts_word(self, piece: str) -> bool:
        """Whether a piece starts a word: by the mark of a word if pieces have one, else as in WordPiece."""
        mark = next((mark for mark in (WORD_START, _BYTE_SPACE) if mark in self.vocab), None)
        return piece.startswith(mark) if mark else super().starts_word(piece)

    def to_json(self) -> str:
        """The content of tokenizer.json, with all added tokens."""
        return self._library.to_str()

    def definition(self) -> list[str]:
        """What ids depend on."""
        return [self.to_json()]
