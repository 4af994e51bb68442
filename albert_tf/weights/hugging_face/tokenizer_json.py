"""Writes tokenizer files that let transformers encode as FullTokenizer does; reads vocabularies from tokenizer.json.

For a SentencePiece model, AlbertTokenizer of transformers computes other ids than the release: it cuts texts at the
user-defined pieces ( ) " - . and marks what follows as the start of a word, removes other combining characters, and
replaces two apostrophes by a quote. So the folder of such a model has a tokenizer.json with the release's rules, and
names the class that follows this file alone. spiece.model is for programs that do not read tokenizer.json.

transformers 5 saves the vocabulary only as tokenizer.json. This file has the pieces, scores and normalization of a
SentencePiece model, so the model that is made of it encodes texts as the original one. The messages of SentencePiece
are declared here because sentencepiece's classes need a newer protobuf than either TensorFlow.
"""

from __future__ import annotations

import base64
import functools
import json
import math
import os
import sys
import unicodedata
from typing import Any, Iterable, Sequence

from google.protobuf import descriptor_pb2, message_factory, text_format

from albert_tf.text.foreign_tokenizer import ForeignTokenizer
from albert_tf.text.pieces import (
    BYTE,
    LONGEST_WORD_OF_TRANSFORMERS,
    WORD_START,
    ends_in_digit_comma,
    vocabulary_lines,
)
from albert_tf.text.tokenization import FullTokenizer
from albert_tf.utils.files import read_json_object
from albert_tf.utils.outputs import folder_of_this_process, write_bytes
from albert_tf.weights.hugging_face import TOKENIZER_JSON
from albert_tf.weights.hugging_face.tokenizer_options import (
    LOWERCASE,
    NFKD,
    SINGLE_SPACES,
    STRIP,
    WHITE_SPACE,
    WHITESPACE_SPLIT,
    Token,
    prepend_scheme,
    replace,
    steps,
)

# The fields of sentencepiece_model.proto that are read and written here.
_PROTO = """
name: "albert_tf/sentencepiece.proto" package: "albert_tf" syntax: "proto2"
message_type { name: "Piece"
  field { name: "piece" number: 1 type: TYPE_BYTES label: LABEL_OPTIONAL }
  field { name: "score" number: 2 type: TYPE_FLOAT label: LABEL_OPTIONAL }
  field { name: "type" number: 3 type: TYPE_INT32 label: LABEL_OPTIONAL } }
message_type { name: "Trainer"
  field { name: "model_type" number: 3 type: TYPE_INT32 label: LABEL_OPTIONAL default_value: "1" }
  field { name: "byte_fallback" number: 35 type: TYPE_BOOL label: LABEL_OPTIONAL } }
message_type { name: "Normalizer"
  field { name: "charsmap" number: 2 type: TYPE_BYTES label: LABEL_OPTIONAL }
  field { name: "add_dummy_prefix" number: 3 type: TYPE_BOOL label: LABEL_OPTIONAL default_value: "true" } }
message_type { name: "Model"
  field { name: "pieces" number: 1 type: TYPE_MESSAGE type_name: "Piece" label: LABEL_REPEATED }
  field { name: "trainer" number: 2 type: TYPE_MESSAGE type_name: "Trainer" label: LABEL_OPTIONAL }
  field { name: "normalizer" number: 3 type: TYPE_MESSAGE type_name: "Normalizer" label: LABEL_OPTIONAL } }
"""
_UNIGRAM = 1  # a type of models
_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED, _BYTE = range(1, 7)  # types of pieces
# Subtracted from the score of a piece that must never be chosen, such as one that ends in a digit and a comma. It is
# the number of transformers 4.
_NEVER_CHOSEN = 100.0


def with_added_tokens(tokenizer: FullTokenizer, added: Sequence[Token], prefixes_parts: bool) -> ForeignTokenizer:
    """A tokenizer of the same steps, which splits texts at added tokens first.

    prefixes_parts: whether what follows such a token without a space begins with a word-start mark, as by
    AlbertTokenizer of transformers.
    """
    content, path = json.dumps(tokenizer_json(tokenizer, prefixes_parts)), str(tokenizer.vocabulary_file)
    added = sorted(added, key=lambda token: (token["id"] is None, token["id"]))
    return ForeignTokenizer(content, path, special_tokens(tokenizer), added)


def tokenizer_json(tokenizer: FullTokenizer, prefixes_parts: bool = False) -> dict[str, Any]:
    """The content of tokenizer.json. Raises ValueError for a SentencePiece model that is not a unigram model.

    The ids equal FullTokenizer.encode's, except in these cases. Special tokens that are written in the text are
    special tokens. Where the vocabulary has a piece such as "1," without a word-start mark, the release's digit-comma
    rule splits it and adds a mark; here there is none. A capital sigma at the end of a word is lower-cased to the
    other small sigma.
    """
    if tokenizer.sp_model is None:
        return _tokenizer_json_of_wordpiece(tokenizer)
    model = _model_class().FromString(tokenizer.sp_model.serialized_model_proto())
    if model.trainer.model_type != _UNIGRAM:
        raise ValueError(f"{tokenizer.vocabulary_file} is no unigram model, and so cannot be written as "
                         f"{TOKENIZER_JSON}: convert to another format than Hugging Face's")
    scheme = "never" if not model.normalizer.add_dummy_prefix else "always" if prefixes_parts else "first"
    is_across_words = any(WORD_START in piece.piece.decode()[1:].lstrip(WORD_START) for piece in model.pieces)
    metaspace = dict(type="Metaspace", replacement=WORD_START, prepend_scheme=scheme, split=not is_across_words)
    special = _special_ids(tokenizer)
    return dict(
        version="1.0", truncation=None, padding=None, added_tokens=_added(special),
        normalizer=dict(type="Sequence", normalizers=_normalizers(tokenizer, model.normalizer.charsmap)),
        pre_tokenizer=(dict(type="Sequence", pretokenizers=[WHITESPACE_SPLIT, metaspace])
                       if scheme == "always" else metaspace),
        decoder=(dict(type="Sequence", decoders=[dict(type="ByteFallback"), metaspace])
                 if tokenizer.has_bytes else metaspace),
        post_processor=_packing(special),
        model=dict(type="Unigram", unk_id=tokenizer.unk_id, vocab=_vocabulary(model),
                   byte_fallback=tokenizer.has_bytes))


def _tokenizer_json_of_wordpiece(tokenizer: FullTokenizer) -> dict[str, Any]:
    """The content of tokenizer.json for a WordPiece vocabulary, as BertTokenizerFast of transformers 4 has it."""
    special = _special_ids(tokenizer)
    return dict(
        version="1.0", truncation=None, padding=None, added_tokens=_added(special),
        normalizer=dict(type="BertNormalizer", clean_text=True, handle_chinese_chars=True,
                        strip_accents=not tokenizer.keep_accents and tokenizer.do_lower_case,
                        lowercase=tokenizer.do_lower_case),
        pre_tokenizer=dict(type="BertPreTokenizer"), post_processor=_packing(special),
        decoder=dict(type="WordPiece", prefix="##", cleanup=True),
        model=dict(type="WordPiece", unk_token="[UNK]", continuing_subword_prefix="##",
                   max_input_chars_per_word=LONGEST_WORD_OF_TRANSFORMERS, vocab=tokenizer.vocab))


def special_tokens(tokenizer: FullTokenizer) -> dict[str, str]:
    """The special tokens by transformers' names."""
    pad, unk = tokenizer.convert_ids_to_tokens([tokenizer.pad_id, tokenizer.unk_id])
    special = dict(pad_token=pad, unk_token=unk, cls_token="[CLS]", sep_token="[SEP]", mask_token="[MASK]")
    return {**special, "bos_token": "[CLS]", "eos_token": "[SEP]"} if tokenizer.sp_model else special


def _special_ids(tokenizer: FullTokenizer) -> dict[str, int]:
    """The ids of special tokens, and of other pieces that no text has."""
    special = special_tokens(tokenizer)
    vocab, sp_model = tokenizer.vocab, tokenizer.sp_model
    controls = [piece for piece, piece_id in vocab.items() if sp_model.is_control(piece_id)] if sp_model else []
    return {token: vocab[token] for token in dict.fromkeys([*special.values(), *controls]) if token in vocab}


def _added(special: dict[str, int]) -> list[dict[str, Any]]:
    """The special tokens as added tokens."""
    return [dict(id=token_id, content=token, single_word=False, lstrip=token == "[MASK]", rstrip=False,
                 normalized=False, special=True) for token, token_id in sorted(special.items(), key=lambda x: x[1])]


def _normalizers(tokenizer: FullTokenizer, charsmap: bytes) -> list[dict[str, Any]]:
    """preprocess_text, then the normalization of the SentencePiece model."""
    steps = [WHITE_SPACE]
    if not tokenizer.keep_accents:
        steps += [NFKD, replace("", Regex=_combining_characters())]
    if tokenizer.do_lower_case:
        steps.append(LOWERCASE)
    if charsmap:
        steps.append(dict(type="Precompiled", precompiled_charsmap=base64.b64encode(charsmap).decode()))
    # The spaces at the start of a part that follows a special token are kept: they start a word.
    return [*steps, SINGLE_SPACES, STRIP]


@functools.lru_cache(maxsize=None)
def _combining_characters() -> str:
    """A regular expression of the characters that preprocess_text removes."""
    codes = [code for code in range(sys.maxunicode + 1) if unicodedata.combining(chr(code))]
    starts = [code for code in codes if code - 1 not in codes]
    ends = [code for code in codes if code + 1 not in codes]
    return "[" + "".join(f"{chr(start)}-{chr(end)}" for start, end in zip(starts, ends)) + "]"


def _packing(special: dict[str, int]) -> dict[str, Any]:
    """[CLS] a [SEP], and [CLS] a [SEP] b [SEP] with segment 1 for b and its [SEP]."""
    def token(name: str, segment: int) -> dict:
        return dict(SpecialToken=dict(id=name, type_id=segment))

    first = [token("[CLS]", 0), dict(Sequence=dict(id="A", type_id=0)), token("[SEP]", 0)]
    second = [dict(Sequence=dict(id="B", type_id=1)), token("[SEP]", 1)]
    return dict(type="TemplateProcessing", single=first, pair=first + second,
                special_tokens={name: dict(id=name, ids=[special[name]], tokens=[name]) for name in ("[CLS]", "[SEP]")})


def _vocabulary(model: Any) -> list[list]:
    """The pieces and their scores. User-defined pieces have the score with which SentencePiece always chooses them."""
    best, vocabulary = _best_score(piece.score for piece in model.pieces if piece.type != _USER_DEFINED), []
    for message in model.pieces:
        piece, score = message.piece.decode(), message.score
        if message.type == _USER_DEFINED:
            score = _score_of_user_defined(piece, best)
        elif message.type in (_UNUSED, _BYTE) or ends_in_digit_comma(piece):
            score -= _NEVER_CHOSEN
        vocabulary.append([piece, score])
    return vocabulary


def _best_score(scores: Iterable[float]) -> float:
    return max(filter(None, scores), default=0.0)


def _score_of_user_defined(piece: str, best: float) -> float:
    return len(piece) * best - 0.1


@functools.lru_cache(maxsize=None)
def _model_class() -> Any:
    """The class of a SentencePiece model's message."""
    file = text_format.Parse(_PROTO, descriptor_pb2.FileDescriptorProto())
    return message_factory.GetMessages([file])["albert_tf.Model"]


@functools.lru_cache(maxsize=None)
def vocabulary_file_of(path: str, length: int, mtime_nsec: int) -> str:
    """The path of the vocabulary file that is made of a tokenizer.json, of a version of this file."""
    content = read_json_object(path)
    model: dict[str, Any] = content["model"] if isinstance(content.get("model"), dict) else {}
    try:
        if model.get("type") == "WordPiece":
            name, vocabulary = "vocab.txt", vocabulary_lines(model["vocab"]).encode()
        else:
            name, vocabulary = "spiece.model", _sentencepiece_model(model, content, steps(content, "normalizer"))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"{path} is not a tokenizer.json of transformers: {error!r}") from error
    made = os.path.join(folder_of_this_process(), name)
    write_bytes(made, vocabulary)
    return made


def _sentencepiece_model(model: dict[str, Any], content: dict[str, Any], normalizers: list[dict[str, Any]]) -> bytes:
    """A serialized SentencePiece model. Of the added tokens, special ones are not found in texts.

    Pieces have the types and scores of the original model (see _vocabulary), as far as the file tells them.
    """
    made, has_bytes = _model_class()(), bool(model.get("byte_fallback"))
    added_kinds = {token["content"]: _CONTROL if token["special"] else _USER_DEFINED
                   for token in content["added_tokens"]}
    best = _best_score(score for piece, score in model["vocab"] if piece not in added_kinds)
    for index, (piece, score) in enumerate(model["vocab"]):
        kind = _UNKNOWN if index == model["unk_id"] else added_kinds.get(piece, _NORMAL)
        if has_bytes and BYTE.fullmatch(piece):
            kind = _BYTE
        elif kind == _NORMAL and math.isclose(score, _score_of_user_defined(piece, best), rel_tol=1e-12):
            kind = _USER_DEFINED
        elif kind == _NORMAL and ends_in_digit_comma(piece) and score <= -_NEVER_CHOSEN:
            score += _NEVER_CHOSEN
        made.pieces.add(piece=piece.encode(), score=score if kind == _NORMAL else 0.0, type=kind)
    made.trainer.byte_fallback = has_bytes
    made.normalizer.add_dummy_prefix = prepend_scheme(content) != "never"
    made.normalizer.charsmap = b"".join(base64.b64decode(step["precompiled_charsmap"]) for step in normalizers
                                        if step["type"] == "Precompiled")
    return made.SerializeToString()
