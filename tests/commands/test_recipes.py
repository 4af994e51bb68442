"""The recipes have the paper's hyper-parameters."""

import json

from albert_tf.commands.finetuning import RECIPES
from albert_tf.tasks.classification.glue_tasks import TASKS

# Learning rate, batch, ALBERT dropout, classifier dropout, steps, warm-up, length (Lan et al., 2020, table 14).
TABLE_14 = {
    "cola": (1e-5, 16, 0, 0.1, 5336, 320, 512), "sts-b": (2e-5, 16, 0, 0.1, 3598, 214, 512),
    "sst-2": (1e-5, 32, 0, 0.1, 20935, 1256, 512), "mnli": (3e-5, 128, 0, 0.1, 10000, 1000, 512),
    "qnli": (1e-5, 32, 0, 0.1, 33112, 1986, 512), "qqp": (5e-5, 128, 0.1, 0.1, 14000, 1000, 512),
    "rte": (3e-5, 32, 0.1, 0.1, 800, 200, 512), "mrpc": (2e-5, 32, 0, 0.1, 800, 200, 512),
    "wnli": (2e-5, 16, 0.1, 0.1, 2000, 250, 512), "squad_v1": (5e-5, 48, 0, 0.1, 3649, 365, 384),
    "squad_v2": (3e-5, 48, 0, 0.1, 8144, 814, 512), "race": (2e-5, 32, 0.1, 0.1, 12000, 1000, 512),
}


def test_the_recipes_are_the_papers():
    for task, expected in TABLE_14.items():
        recipe = json.loads((RECIPES / f"{task}.json").read_text())
        of_the_head = "classifier_dropout_prob" if task in TASKS else "dropout_prob"
        names = ("learning_rate", "train_batch_size", "hidden_dropout_prob", of_the_head, "train_step", "warmup_step",
                 "max_seq_length")
        assert tuple(recipe[name] for name in names) == expected
        assert recipe["attention_probs_dropout_prob"] == recipe["hidden_dropout_prob"]
