"""Trains a SentencePiece vocabulary with the release's settings.

    python -m albert_tf train_vocabulary --input_file='text/*.txt' --model_prefix=my_vocabulary --vocab_size=30000

writes my_vocabulary.model, for --spm_model_file of the other scripts, and my_vocabulary.vocab, a list of the pieces.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Annotated

from absl import logging

from albert_tf.commands import flags
from albert_tf.data.rows import read_document_lines, text_column_help
from albert_tf.options import Config
from albert_tf.text.vocabulary import train_vocabulary
from albert_tf.utils import bounds
from albert_tf.utils.files import expand_globs


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(Config):
    input_file: Annotated[str, "Comma-separated list of paths and globs of text files, with one sentence per line."]
    text_column: Annotated[str | None, text_column_help("document, with a sentence on each line")] = None
    model_prefix: Annotated[str, "Path of the outputs without extension: PREFIX.model and PREFIX.vocab are written."]
    vocab_size: Annotated[
        int, bounds.VOCAB_SIZE.at_least(20), "Number of pieces of the vocabulary, including special ones."] = 30000
    fit_vocab_size: Annotated[
        bool, "Whether to make a smaller vocabulary if the text is too small for --vocab_size: three quarters of the "
        "largest possible number of pieces."] = False
    do_lower_case: Annotated[bool, "Whether to lower-case the text."] = True
    keep_accents: Annotated[bool, "Whether to keep accents, which the release removes."] = False


def main(options: Options) -> None:
    input_files = expand_globs(options.input_file)
    pieces = train_vocabulary(
        input_files, options.model_prefix, options.vocab_size, options.do_lower_case, options.keep_accents,
        functools.partial(read_document_lines, column=options.text_column), flags.origin(input_files),
        options.fit_vocab_size)
    logging.info("%s.model: %d pieces", options.model_prefix, pieces)
