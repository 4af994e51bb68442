"""Makes a vocabulary file from tokenizer.json, the only vocabulary that transformers 5 saves.

tokenizer.json has the pieces and scores of a SentencePiece model and its normalization, so the model that is made of it
encodes texts as the original one.
"""

from __future__ import annotations

import base64
import functools
import os
import struct
from typing import Any

import tensorflow as tf

from albert_tf.data.tf_example import varints
from albert_tf.utils.files import version
from albert_tf.utils.json_files import read_json_object
from albert_tf.utils.temporary_files import folder_of_this_process
from albert_tf.utils.writing import write_bytes
from albert_tf.weights.vocabulary_files import STRIP_ACCENTS, TokenizerOptions, VocabularyFiles, options_in

TOKENIZER_JSON = "tokenizer.json"
# Numbers of sentencepiece_model.proto: fields of ModelProto, SentencePiece and NormalizerSpec, and types of pieces.
PIECES, NORMALIZER = 1, 3
_PIECE, _SCORE, TYPE = 1, 2, 3
CHARSMAP = 2
_NORMAL, _UNKNOWN, _CONTROL, USER_DEFINED = 1, 2, 3, 4
_VARINT, _BYTES, _FLOAT = 0, 2, 5  # protobuf's encodings of a field


def vocabulary_of_tokenizer_json(folder: str) -> VocabularyFiles:
    """The vocabulary of a folder's tokenizer.json, as a file in a temporary directory; empty if there is no such file.

    Raises:
      ValueError: the vocabulary is neither a SentencePiece model (Unigram) nor WordPiece, or the file is damaged.
    """
    path = os.path.join(folder, TOKENIZER_JSON)
    if not tf.io.gfile.exists(path):
        return VocabularyFiles()
    made, options = _made(path, *version(path))
    is_sentencepiece = made.endswith(".model")
    return VocabularyFiles(made if is_sentencepiece else None, None if is_sentencepiece else made,
                           *options_in(folder).completed_by(options), made_from=path)


@functools.lru_cache(maxsize=None)
def _made(path: str, length: int, mtime_nsec: int) -> tuple[str, TokenizerOptions]:
    """The path of the vocabulary file that is made of a tokenizer.json, and its options."""
    content = read_json_object(path)
    model: dict[str, Any] = content["model"] if isinstance(content.get("model"), dict) else {}
    kind = model.get("type")
    if kind not in ("Unigram", "WordPiece"):
        raise ValueError(f"{path}: its model must be Unigram (SentencePiece) or WordPiece. Received: {kind!r}")
    try:
        normalizers = _normalizers(content.get("normalizer"))
        if kind == "WordPiece":
            name, vocabulary = "vocab.txt", _wordpiece_vocabulary(model)
        else:
            name, vocabulary = "spiece.model", _sentencepiece_model(model, content["added_tokens"], normalizers)
        lower = any(step["type"] == "Lowercase" or step.get("lowercase") for step in normalizers)
    except (KeyError, TypeError, AttributeError, ValueError, struct.error) as error:
        raise ValueError(f"{path} is not a tokenizer.json of transformers: {error!r}") from error
    made = os.path.join(folder_of_this_process("albert_tf"), name)
    write_bytes(made, vocabulary)
    return made, TokenizerOptions(lower, not any(map(_strips_accents, normalizers)))


def _normalizers(normalizer: dict[str, Any] | None) -> list[dict[str, Any]]:
    return (normalizer["normalizers"] if normalizer["type"] == "Sequence" else [normalizer]) if normalizer else []


def _strips_accents(step: dict[str, Any]) -> bool:
    """Whether a normalizer removes accents. By default, BERT's does if it lower-cases."""
    if step["type"] == "BertNormalizer":
        stored = step.get(STRIP_ACCENTS)
        return bool(step.get("lowercase") if stored is None else stored)
    removes = step["type"] == "Replace" and not step["content"]  # as in the files of tokenizer_writing.py
    return step["type"] == "StripAccents" or removes and "\u0300" in step["pattern"].get("Regex", "")


def _wordpiece_vocabulary(model: dict[str, Any]) -> bytes:
    ids = model["vocab"]
    return "".join(f"{piece}\n" for piece in sorted(ids, key=ids.__getitem__)).encode()


def _sentencepiece_model(model: dict[str, Any], added: list[dict], normalizers: list[dict[str, Any]]) -> bytes:
    """A serialized SentencePiece model. Of the added tokens, special ones are not found in texts."""
    added_kinds = {token["content"]: _CONTROL if token["special"] else USER_DEFINED for token in added}
    pieces = []
    for index, (piece, score) in enumerate(model["vocab"]):
        kind = added_kinds.get(piece, _NORMAL)
        kind = _UNKNOWN if index == model["unk_id"] else kind
        pieces.append(_field(PIECES, _field(_PIECE, piece.encode()) + _tag(_SCORE, _FLOAT) + struct.pack("<f", score)
                             + _tag(TYPE, _VARINT) + varints([kind])))
    charsmap = b"".join(base64.b64decode(step["precompiled_charsmap"]) for step in normalizers
                        if step["type"] == "Precompiled")
    return b"".join(pieces) + _field(NORMALIZER, _field(CHARSMAP, charsmap))


def _field(number: int, content: bytes) -> bytes:
    return _tag(number, _BYTES) + varints([len(content)]) + content


def _tag(number: int, encoding: int) -> bytes:
    return varints([number << 3 | encoding])
