"""Training a SentencePiece vocabulary as the release's were trained."""

from __future__ import annotations

import io
from typing import Iterator

import sentencepiece
import tensorflow as tf

from albert_tf.files import listed, write_text
from albert_tf.manifests import check_output, written_with_manifest
from albert_tf.text.lines import read_lines
from albert_tf.text.normalization import preprocess_text

# The options of 30k-clean.model.
_OPTIONS = dict(
    model_type="unigram",
    pad_id=0,
    unk_id=1,
    bos_id=-1,
    eos_id=-1,
    control_symbols=["[CLS]", "[SEP]", "[MASK]"],
    user_defined_symbols=["(", ")", '"', "-", ".", "–", "£", "€"],
    character_coverage=0.99995,
    input_sentence_size=10_000_000,
    shuffle_input_sentence=True,
)
# SentencePiece passes over longer sentences; a line of a megabyte is to be left out and not to end it.
_LONGEST_SENTENCE = 16_384


def train_vocabulary(input_files: list[str], model_prefix: str, vocab_size: int = 30_000,
                     do_lower_case: bool = True) -> None:
    """Writes model_prefix.model, with its manifest, and model_prefix.vocab, each whole or not at all.

    Args:
      input_files: UTF-8 text, one sentence a line; it is normalised as preprocess_text does.
      model_prefix: path without ending.
      vocab_size: number of pieces, the special ones included.
      do_lower_case: whether to lower the case of the text.

    Raises:
      ValueError: there is no text, it is not UTF-8, it is too small for the vocabulary, or an output would replace a
        file that is not an earlier output.
    """
    check_output(f"{model_prefix}.model", f"{model_prefix}.vocab")
    model = io.BytesIO()
    sentences = _sentences(input_files, do_lower_case)
    first = next(sentences, None)
    if first is None:
        raise ValueError(f"there is no text in {listed(input_files)}")
    mistakes: list[ValueError] = []
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=_chain(first, sentences, mistakes), model_writer=model, vocab_size=vocab_size,
            max_sentence_length=_LONGEST_SENTENCE, minloglevel=1, **_OPTIONS)
    except RuntimeError as error:
        if mistakes:  # SentencePiece has made a text of the error, with its stack trace
            raise mistakes[0] from None
        raise ValueError(f"no vocabulary of {vocab_size} pieces (--vocab_size) from the text of {listed(input_files)}: "
                         f"{_reason(error)}") from error
    _write(model_prefix, model.getvalue(),
           dict(input_files=input_files, vocab_size=vocab_size, do_lower_case=do_lower_case))


def _sentences(input_files: list[str], do_lower_case: bool) -> Iterator[str]:
    for path in input_files:
        for line in read_lines(path):
            sentence = preprocess_text(line, lower=do_lower_case)
            if sentence:
                yield sentence


def _chain(first: str, rest: Iterator[str], mistakes: list[ValueError]) -> Iterator[str]:
    """All sentences. An error while they are read is noted in `mistakes`, too."""
    yield first
    try:
        yield from rest
    except ValueError as error:
        mistakes.append(error)
        raise


def _reason(error: RuntimeError) -> str:
    """What SentencePiece says without the place in its source."""
    return str(error).rpartition("] ")[2].strip() or "SentencePiece gives no reason"


def _write(model_prefix: str, model: bytes, made_from: dict) -> None:
    pieces = sentencepiece.SentencePieceProcessor(model_proto=model)
    lines = (f"{pieces.id_to_piece(i)}\t{pieces.get_score(i):g}\n" for i in range(pieces.vocab_size()))
    write_text(f"{model_prefix}.vocab", "".join(lines))
    with written_with_manifest(f"{model_prefix}.model", made_from) as (temporary, _):
        with tf.io.gfile.GFile(temporary, "wb") as file:
            file.write(model)
