"""Trains a SentencePiece vocabulary with the release's settings.

    python -m albert_tf train_vocabulary --input_file='text/*.txt' --model_prefix=my_vocabulary --vocab_size=30000

writes my_vocabulary.model, for --spm_model_file of the other scripts, and my_vocabulary.vocab, a list of the pieces.
"""

import functools

from absl import flags, logging

from albert_tf.commands import flag_fields as fields, shared_flags as shared
from albert_tf.data.rows import read_document_lines
from albert_tf.text.vocabulary import train_vocabulary
from albert_tf.utils import bounds
from albert_tf.utils.files import expand_globs

FLAGS = flags.FLAGS


def define_flags() -> None:
    fields.define_required("input_file", "Comma-separated list of paths and globs of text files, with one sentence per "
                           "line.")
    shared.define_text_column_flag("document, with a sentence on each line")
    fields.define_required("model_prefix", "Path of the outputs without extension: PREFIX.model and PREFIX.vocab are "
                           "written.")
    fields.define_integer("vocab_size", 30000, "Number of pieces of the vocabulary, including special ones.",
                          *bounds.VOCAB_SIZE.at_least(20))
    flags.DEFINE_bool("fit_vocab_size", False, "Whether a text that is too small for --vocab_size gets a smaller "
                      "vocabulary: three quarters of the pieces that it has enough text for.")
    flags.DEFINE_bool("do_lower_case", True, "Whether to lower-case the text.")
    flags.DEFINE_bool("keep_accents", False, "Whether to keep accents, which the release removes.")


def main() -> None:
    input_files = expand_globs(FLAGS.input_file)
    pieces = train_vocabulary(
        input_files, FLAGS.model_prefix, FLAGS.vocab_size, FLAGS.do_lower_case, FLAGS.keep_accents,
        functools.partial(read_document_lines, column=FLAGS.text_column), shared.origin(input_files),
        FLAGS.fit_vocab_size)
    logging.info("%s.model: %d pieces", FLAGS.model_prefix, pieces)
