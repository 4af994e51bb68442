"""Fills masks with a SavedModel. As on a server, it needs tensorflow and tensorflow_text, but not albert_tf.

    python -m demo.ask --saved_model=served --text="Return the [MASK] of the file."
"""

import argparse
import os

# TensorFlow 2.21 prints six lines when it starts, whatever its level of logging is.
stderr = os.dup(2)
os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
try:
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  registers the ops of the tokenization

    tf.constant(0)  # starts it
finally:
    os.dup2(stderr, 2)


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
                shown = (f"{piece.decode()} {probability:.3f}" for piece, probability in zip(*row))
                print("   ", "   ".join(shown))


if __name__ == "__main__":
    main()
