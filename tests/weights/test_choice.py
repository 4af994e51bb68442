"""The model of a command: which weights it opens, and how often."""

import numpy as np
from tiny import TINY

import albert_tf
from albert_tf.weights import choice
from albert_tf.weights.choice import choose
from albert_tf.weights.source import Source
from albert_tf.weights.stored_model import open_model

BIAS = "output_bias"


def save_classifier(path, bias):
    model = albert_tf.AlbertClassifier(TINY, 2)
    model.classifier.bias.assign([bias, bias])
    albert_tf.save_pretrained(model, str(path))
    return str(path)


def test_initial_weights_and_members_are_opened_once_and_a_run_again_since_it_may_have_changed(tmp_path, monkeypatch):
    initial, *members, run = (save_classifier(tmp_path / name, bias)
                              for bias, name in enumerate(("initial", "first", "second", "run")))
    opened = []
    monkeypatch.setattr(choice, "open_model", lambda path: opened.append(path) or open_model(path))
    model = choose(Source(init_checkpoint=initial), ensemble=members)
    values = [model.open(path).value(BIAS).numpy() for path in (initial, *members, *members)]
    assert opened == [*members, initial] and np.array_equal(values, np.array([[0, 1, 2, 1, 2]] * 2).T)
    model = choose(Source(), output_dir=run)
    (tmp_path / "run/model.ckpt-best.index").unlink()
    save_classifier(tmp_path / "run", 7)
    assert model.open(run).value(BIAS).numpy().tolist() == [7, 7] and len(opened) == 5
