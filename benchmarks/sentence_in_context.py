"""Scores sentences alone and behind the sentences before them: does a model use its later positions?

    python -m benchmarks.sentence_in_context --init_checkpoint=albert_tiny_en --text=novels_dev.txt

A score is the pseudo-log-likelihood of the sentence's pieces (each is masked once), in nats for each piece. In context,
the row is filled with the pieces before the sentence up to --max_seq_length, so that the sentence is at the last
positions.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from absl import app, flags

import albert_tf
from albert_tf.tasks.masked_lm.sentence_scores import log_probabilities_function
from albert_tf.text.packing import SpecialTokens

flags.DEFINE_string("init_checkpoint", "albert_tiny_en", "Weights with the masked-LM head.")
flags.DEFINE_string("text", None, "A text with one sentence a line.", required=True)
flags.DEFINE_integer("max_seq_length", 256, "Tokens of a row with context.")
flags.DEFINE_integer("sentences", 300, "Number of sentences, evenly spread over the text.")
FLAGS = flags.FLAGS


def main(_) -> None:
    model = albert_tf.from_pretrained(FLAGS.init_checkpoint, model="pretrainer")
    tokenizer = albert_tf.tokenizer_from_pretrained(FLAGS.init_checkpoint)
    with open(FLAGS.text, encoding="utf-8") as file:
        rows = [row for row in tokenizer.encode_batch(file.read().splitlines()) if len(row)]
    log_probabilities, special_tokens = log_probabilities_function(model), SpecialTokens(tokenizer)

    def score(before: np.ndarray, sentence: np.ndarray) -> float:
        row = special_tokens.around(np.concatenate([before, sentence]))
        positions = np.arange(len(row) - 1 - len(sentence), len(row) - 1, dtype=np.int32)
        copies = np.repeat(row[None], len(sentence), axis=0)
        copies[np.arange(len(sentence)), positions] = tokenizer.mask_id
        return log_probabilities(*map(tf.constant, (copies, positions, sentence))).numpy().mean()

    most = FLAGS.max_seq_length - 2  # tokens of the sentence and of the text before it
    chosen = [i for i in np.linspace(most, len(rows) - 1, FLAGS.sentences).astype(int) if 5 <= len(rows[i]) <= 60]
    empty = rows[0][:0]
    alone = np.array([score(empty, rows[i]) for i in chosen])
    in_context = np.array([score(np.concatenate(rows[i - most:i])[len(rows[i]) - most:], rows[i]) for i in chosen])
    print(f"{len(chosen)} sentences, nats for each piece: alone {alone.mean():.3f}, behind text up to "
          f"{FLAGS.max_seq_length} tokens {in_context.mean():.3f}, difference {(in_context - alone).mean():+.3f} "
          f"(standard error {(in_context - alone).std(ddof=1) / len(chosen) ** 0.5:.3f})")


if __name__ == "__main__":
    app.run(main)
