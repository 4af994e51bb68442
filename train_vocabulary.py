"""Trains a SentencePiece vocabulary with the options of the release's.

    python train_vocabulary.py --input_file=text/*.txt --model_prefix=my_vocabulary --vocab_size=30000

writes my_vocabulary.model, for --spm_model_file of the other scripts, and my_vocabulary.vocab to look at.
"""

from albert_tf import cli  # isort: split

from absl import flags, logging

from albert_tf import bounds
from albert_tf.files import expand_globs
from albert_tf.required_flags import define_required
from albert_tf.text.vocabulary import train_vocabulary

define_required("input_file", "Text files, one sentence a line: a comma-separated list of paths and globs.")
define_required("model_prefix", "Path of the vocabulary, without ending.")
flags.DEFINE_integer("vocab_size", 30000, "Number of pieces, the special ones included.",
                     *bounds.VOCAB_SIZE.at_least(20))
flags.DEFINE_bool("do_lower_case", True, "Whether to lower the case of the text.")
FLAGS = flags.FLAGS


def main():
    train_vocabulary(expand_globs(FLAGS.input_file), FLAGS.model_prefix, FLAGS.vocab_size, FLAGS.do_lower_case)
    logging.info("%s.model: %d pieces", FLAGS.model_prefix, FLAGS.vocab_size)


if __name__ == "__main__":
    cli.run(main)
