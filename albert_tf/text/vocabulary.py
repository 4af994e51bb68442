"""Trains a SentencePiece vocabulary with the release's settings."""

from __future__ import annotations

import dataclasses
import io
import itertools
import re
import types
import unicodedata
from typing import Any, Callable, Iterable, Iterator, Mapping

import sentencepiece
from absl import logging

from albert_tf.text.lines import read_lines
from albert_tf.text.pieces import preprocess_text
from albert_tf.utils.files import listed
from albert_tf.utils.manifests import output_set
from albert_tf.utils.outputs import write_bytes, write_text

# The options of 30k-clean.model.
_OPTIONS = dict(
    model_type="unigram", pad_id=0, unk_id=1, bos_id=-1, eos_id=-1, character_coverage=0.99995,
    control_symbols=["[CLS]", "[SEP]", "[MASK]"], user_defined_symbols=["(", ")", '"', "-", ".", "–", "£", "€"],
    input_sentence_size=10_000_000, shuffle_input_sentence=True)
# In bytes. Longer lines are not used, so a line of a megabyte does not stop the training.
_LONGEST_SENTENCE = 16_384
_MOST_ACCENTS = 0.01  # per letter, without a warning: English has fewer, German and French have more


def train_vocabulary(input_files: list[str], model_prefix: str, vocab_size: int = 30_000,
                     do_lower_case: bool = True, keep_accents: bool = False,
                     read: Callable[[str], Iterable[str]] = read_lines,
                     origin: Mapping[str, Any] = types.MappingProxyType({}), fit: bool = False) -> int:
    """Writes model_prefix.model, with its manifest, and model_prefix.vocab. Returns the number of pieces.

    Args:
      input_files: UTF-8 text files, one sentence per line, which preprocess_text normalises. Lines of more than 16,384
        bytes are not used, with a warning.
      vocab_size: number of pieces, including the special ones.
      read: function of a path that returns the lines of a file.
      origin: further entries of made_from in the manifest.
      fit: whether a text that is too small for vocab_size gets three quarters of the largest number of pieces that
        SentencePiece finds in it. With all of them, nearly every word would be one piece.
    """
    files = [f"{model_prefix}.model", f"{model_prefix}.vocab"]
    with output_set({files[0]: files}) as outputs:
        model = _train(_Text(input_files, do_lower_case, keep_accents, read), vocab_size, fit)
        pieces = sentencepiece.SentencePieceProcessor(model_proto=model)
        lines = (f"{pieces.id_to_piece(i)}\t{pieces.get_score(i):g}\n" for i in range(pieces.vocab_size()))
        write_bytes(outputs.temporary[files[0]], model)
        write_text(outputs.temporary[files[1]], "".join(lines))
        outputs.made_from = dict(dict(input_files=input_files, vocab_size=vocab_size, do_lower_case=do_lower_case,
                                      keep_accents=keep_accents), **origin)
    return pieces.vocab_size()


def _train(text: _Text, vocab_size: int, fit: bool) -> bytes:
    """The SentencePiece model of a text."""
    model, input_files = io.BytesIO(), text.input_files
    sentences = text.sentences()
    first = next(sentences, None)
    if first is None and text.num_long:
        raise ValueError(f"all lines of {listed(input_files)} are longer than {_LONGEST_SENTENCE:,} bytes and cannot "
                         "be used: write one sentence per line")
    if first is None:
        raise ValueError(f"there is no text in {listed(input_files)}")
    logging.info("training a vocabulary of %s pieces; the next message comes at the end", f"{vocab_size:,}")
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=itertools.chain([first], sentences), model_writer=model, vocab_size=vocab_size,
            max_sentence_length=_LONGEST_SENTENCE, minloglevel=1, **_OPTIONS)
    except RuntimeError as error:
        if text.error:  # SentencePiece's error has this one as text, with its stack trace
            raise text.error from None
        largest = re.search(r"Vocabulary size too high .* value <= (\d+)", str(error))
        if fit and largest:
            fitted = int(largest[1]) * 3 // 4
            logging.info("the text has enough for at most %s pieces: the vocabulary has %s", largest[1], fitted)
            return _train(text, fitted, fit=False)
        reason = str(error).rpartition("] ")[2].strip()  # without the location in SentencePiece's source code
        raise ValueError(f"cannot train a vocabulary of {vocab_size} pieces (--vocab_size) on {listed(input_files)}: "
                         f"{reason or 'SentencePiece gives no reason'}") from error
    if text.num_long:
        logging.warning("%s of %s lines are longer than %s bytes and are not used: write one sentence per line",
                        f"{text.num_long:,}", f"{text.num_lines:,}", f"{_LONGEST_SENTENCE:,}")
    if text.num_accents > _MOST_ACCENTS * text.num_letters:
        logging.warning("%.1f %% of the letters lose their accents (\u00e4 becomes a), so that no piece has them: set "
                        "--keep_accents if words of the language differ in them",
                        100 * text.num_accents / text.num_letters)
    return model.getvalue()


@dataclasses.dataclass
class _Text:
    """The text of files, with counts that are made while it is read. The arguments are as for train_vocabulary."""

    input_files: list[str]
    do_lower_case: bool
    keep_accents: bool
    read: Callable[[str], Iterable[str]]
    num_lines: int = 0  # that have text
    num_long: int = 0  # lines that are too long
    num_letters: int = 0
    num_accents: int = 0  # that are removed
    error: BaseException | None = None  # that reading has raised, also for a signal

    def sentences(self) -> Iterator[str]:
        """The normalised lines that have text and are not too long."""
        self.num_lines = self.num_long = self.num_letters = self.num_accents = 0
        try:
            for path in self.input_files:
                for line in self.read(path):
                    sentence = preprocess_text(line, lower=self.do_lower_case, keep_accents=self.keep_accents)
                    self.num_letters += sum(map(str.isalpha, sentence))
                    if not self.keep_accents and not line.isascii():
                        decomposed = unicodedata.normalize("NFKD", " ".join(line.split()))
                        self.num_accents += sum(map(bool, map(unicodedata.combining, decomposed)))
                    is_long = len(sentence.encode()) > _LONGEST_SENTENCE
                    self.num_lines += bool(sentence)
                    self.num_long += is_long
                    if sentence and not is_long:
                        yield sentence
        except (Exception, KeyboardInterrupt, SystemExit) as error:
            self.error = error
            raise
