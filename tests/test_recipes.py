"""The recipes have the paper's hyper-parameters."""

import json

from albert_tf.finetuning_flags import RECIPES

# Learning rate, batch, ALBERT dropout, classifier dropout, steps, warm-up (Lan et al., 2020, table 14).
TABLE_14 = {
    "cola": (1e-5, 16, 0, 0.1, 5336, 320), "sts-b": (2e-5, 16, 0, 0.1, 3598, 214),
    "sst-2": (1e-5, 32, 0, 0.1, 20935, 1256), "mnli": (3e-5, 128, 0, 0.1, 10000, 1000),
    "qnli": (1e-5, 32, 0, 0.1, 33112, 1986), "qqp": (5e-5, 128, 0.1, 0.1, 14000, 1000),
    "rte": (3e-5, 32, 0.1, 0.1, 800, 200),
    "mrpc": (2e-5, 32, 0, 0.1, 800, 200), "wnli": (2e-5, 16, 0.1, 0.1, 2000, 250),
}


def test_the_recipes_are_the_papers():
    for task, expected in TABLE_14.items():
        recipe = json.loads((RECIPES / f"{task}.json").read_text())
        names = ("learning_rate", "train_batch_size", "hidden_dropout_prob", "classifier_dropout_prob", "train_step",
                 "warmup_step")
        assert tuple(recipe[name] for name in names) == expected and recipe["max_seq_length"] == 512
        assert recipe["attention_probs_dropout_prob"] == recipe["hidden_dropout_prob"]
