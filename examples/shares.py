"""A task of your own in one file: predicts the share of readers who like a text.

    python examples/shares.py --train_file=train.jsonl --eval_file=dev.jsonl --init_checkpoint=albert_tiny_en \\
        --output_dir=shares --do_train --do_eval --do_predict

A line of the files: {"text": "A text.", "share": 0.7}. CONTRIBUTING.md says what else a task of the package has.
"""

import dataclasses
from typing import Annotated, ClassVar

import numpy as np
import tensorflow as tf

from albert_tf.commands import app, flags
from albert_tf.data.feature_table import FeatureSchema, fingerprint
from albert_tf.data.rows import read_objects
from albert_tf.modeling.classifier import AlbertClassifier
from albert_tf.tasks.config import FineTuningConfig
from albert_tf.tasks.fine_tuning import fine_tune
from albert_tf.tasks.task import Task
from albert_tf.training.objective import Objective
from albert_tf.training.prediction import mean_of
from albert_tf.utils.outputs import write_text
from albert_tf.utils.processes import command_line


class ShareObjective(Objective):
    """The cross entropy of the share, and its prediction."""

    def loss(self, outputs, batch, denominators):
        losses = tf.nn.sigmoid_cross_entropy_with_logits(batch["label_ids"], outputs["logits"][:, 0])  # [batch]
        return tf.reduce_sum(losses) / denominators["examples"], {}

    def predictions(self, outputs, batch):
        return dict(share=tf.sigmoid(outputs["logits"][:, 0]))


@dataclasses.dataclass(frozen=True, kw_only=True)
class SharesConfig(FineTuningConfig):
    """The flags, beside those of every command that fine-tunes."""

    LONGEST: ClassVar[int] = 128

    train_file: Annotated[str | None, "Path of the training texts."] = None
    eval_file: Annotated[str | None, "Path of the texts to evaluate and predict."] = None

    @property
    def readers(self):
        return dict(train_file=["do_train"], eval_file=["do_eval", "do_predict"])


class Shares(Task):
    """Texts with shares, how good the predictions are, and the file of predictions."""

    HEADS = ("classifier",)
    best_metric = "correlation"

    def objective(self, config):
        return ShareObjective(AlbertClassifier(config, num_labels=1))

    def table(self, flag):
        path, setup = getattr(self.options, flag), self.setup

        def features():
            for _, row in read_objects(path, ["text", "share"]):
                inputs = setup.tokenizer(row["text"], max_seq_length=setup.max_seq_length)
                yield dict({name: values[0] for name, values in inputs.items()}, label_ids=row["share"])

        schema = FeatureSchema(setup.max_seq_length, dict(label_ids=tf.float32))
        return setup.cache.table("shares", dict(file=fingerprint(path)), schema, features)

    def training_table(self):
        return self.table("train_file")

    def dev_tables(self):
        return [self.table("eval_file")]

    def score(self, predictions):
        shares = self.table("eval_file").scalars["label_ids"]
        return dict(correlation=float(np.corrcoef(mean_of(predictions[0], "share"), shares)[0, 1]))

    def predictions(self):
        def write(predictions, trained):
            lines = [f"{share:.3f}\n" for share in mean_of(predictions, "share")]
            write_text(f"{self.options.output_dir}/shares.txt", "".join(lines))

        yield self.table("eval_file"), write


def main() -> None:
    fine_tune(Shares, flags.read(SharesConfig), command_line())


if __name__ == "__main__":
    flags.define(SharesConfig)
    app.run(main)
