"""Fills masks with a SavedModel. As on a server, it needs tensorflow and tensorflow_text, but not albert_tf.

    python -m demo.ask --saved_model=served --text="Return the [MASK] of the file."
"""

import argparse
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the ops of the tokenization

WORD_START = "\u2581"


def readable(piece):
    """A piece that begins a word, without the mark of its start; another one with ##, as fill_mask prints them."""
    if piece == WORD_START or not piece.startswith(WORD_START):
        return piece if piece == WORD_START else f"##{piece}"
    return piece[len(WORD_START):]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--saved_model", required=True)
    parser.add_argument("--text", action="append", required=True)
    arguments = parser.parse_args()
    fill = tf.saved_model.load(arguments.saved_model).signatures["serving_default"]
    answers = fill(text=tf.constant(arguments.text))
    for text, pieces, probabilities in zip(arguments.text, answers["pieces"].numpy(), answers["probabilities"].numpy()):
        print(text)
        for row in zip(pieces, probabilities):
            if row[0][0]:  # a text with fewer masks than another one has empty answers at the end
                shown = (f"{readable(piece.decode())} {probability:.3f}" for piece, probability in zip(*row))
                print("   ", "   ".join(shown))


if __name__ == "__main__":
    main()
