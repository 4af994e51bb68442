"""A dev set that is the training set is warned of."""

import types

import pytest

from albert_tf.tasks.fine_tuning import check_texts

TRAIN = [f"a quiet day {i}" for i in range(300)]


@pytest.mark.parametrize("dev, is_evaluated, is_warned_of", [
    (TRAIN, True, True), (TRAIN[:3], True, True), (TRAIN, False, False), ([], True, False),
    (["a dull day", *TRAIN], True, False)])
def test_a_dev_set_that_is_the_training_set_is_warned_of(dev, is_evaluated, is_warned_of, sentence_pieces, caplog):
    sets = dict(train=TRAIN, dev=dev)
    check_texts(types.SimpleNamespace(setup=types.SimpleNamespace(tokenizer=sentence_pieces), texts=sets.__getitem__,
                                      data_files=dict(train="train.csv")), is_evaluated)
    assert ("the texts of the dev set are also in the training set" in caplog.text) == is_warned_of
