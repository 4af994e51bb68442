"""What the outputs of early exits can read: how much each layer's [CLS] tells, beside the mean of the tokens.

    python -m benchmarks.exit_states --init_checkpoint=out/sst-2_1_exits --task_name=sst-2 --data=data

--init_checkpoint is a run of early_exit.py. For each layer it prints the spread of the [CLS] vectors of the dev set's
texts (root mean square of the distance from their mean, divided by that of their length), and the accuracy of logistic
regression on them and on the means of the tokens, cross-validated on the same texts.
"""

from __future__ import annotations

import numpy as np
from absl import flags
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score

from albert_tf import from_pretrained
from albert_tf.commands import app
from albert_tf.commands.flag_fields import define_required
from albert_tf.modeling.pooling import mean_or_max
from benchmarks.fine_tuned_classifiers import LARGEST_BATCH, batches, dev_rows

define_required("init_checkpoint", "A fine-tuned classifier.")
define_required("task_name", "Name of the GLUE task that it was fine-tuned on.")
define_required("data", "Folder that has glue/.")
flags.DEFINE_integer("examples", 256, "Number of examples of the dev set.", lower_bound=LARGEST_BATCH)
FLAGS = flags.FLAGS


def main():
    model = from_pretrained(FLAGS.init_checkpoint, model="classifier")
    rows = dev_rows(FLAGS.init_checkpoint, FLAGS.data, FLAGS.task_name)[: FLAGS.examples]
    labels = [row["label_id"] for row in rows]
    parts = []
    for batch in batches(rows, LARGEST_BATCH):
        layers = model.albert(batch)["encoder_outputs"]  # of each layer [batch, seq, H]
        parts.append((np.stack([layer[:, 0] for layer in layers]),
                      np.stack([mean_or_max(layer, batch["input_mask"], "mean") for layer in layers])))
    of_cls, of_means = (np.concatenate(each, axis=1) for each in zip(*parts))
    print(f"{'layer':>5}{'spread':>10}{'[CLS]':>10}{'mean':>10}")
    for number, (cls, mean) in enumerate(zip(of_cls, of_means), start=1):
        print(f"{number:5}{spread(cls):10.4f}{accuracy(cls, labels):10.3f}{accuracy(mean, labels):10.3f}")


def spread(vectors: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(vectors - vectors.mean(axis=0))) / np.mean(np.square(vectors))))


def accuracy(vectors: np.ndarray, labels: list[int]) -> float:
    return float(cross_val_score(LogisticRegression(max_iter=2000), vectors, labels, cv=5).mean())


if __name__ == "__main__":
    app.run(main)
