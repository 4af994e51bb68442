"""Asks a pre-trained ALBERT what is behind each [MASK].

    python fill_mask.py --init_checkpoint=model_dir --spm_model_file=30k-clean.model --text="the capital of [MASK] ."

Without --text, one text a line is read from standard input.
"""

import sys

from albert_tf import cli

from absl import flags

from albert_tf.interchange.from_pretrained import from_pretrained
from albert_tf.tasks.fill_mask import fill_masks
from albert_tf.text.tokenization import FullTokenizer

flags.DEFINE_string("init_checkpoint", None, "A checkpoint with the masked-LM head, or the directory of one.",
                    required=True)
flags.DEFINE_string("spm_model_file", None, "The SentencePiece model.")
flags.DEFINE_string("vocab_file", None, "The WordPiece vocabulary, for models without a SentencePiece model.")
flags.DEFINE_bool("do_lower_case", True, "Whether the model's text is lower case.")
flags.DEFINE_multi_string("text", None, "A text with [MASK] in it. May be given several times.")
flags.DEFINE_integer("top_k", 5, "How many pieces to show for each mask.", lower_bound=1)
FLAGS = flags.FLAGS


def main():
    tokenizer = FullTokenizer(FLAGS.vocab_file, FLAGS.do_lower_case, FLAGS.spm_model_file)
    model = from_pretrained(FLAGS.init_checkpoint, model="pretrainer")
    for text in FLAGS.text or map(str.strip, sys.stdin):
        print(text)
        for fillings in fill_masks(model, tokenizer, text, FLAGS.top_k):
            shown = (f"{filling.piece.lstrip(chr(0x2581))} {filling.probability:.3f}" for filling in fillings)
            print("   ", "   ".join(shown))


if __name__ == "__main__":
    cli.run(main)
