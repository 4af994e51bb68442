"""Learning a teacher's hidden states of all tokens: the loss by NumPy, and the rows that are read."""

import numpy as np
import pytest
import tensorflow as tf
from tiny import TINY, rows

from albert_tf import keras
from albert_tf.data.feature_table import FeatureCache
from albert_tf.modeling.sentence_encoder import AlbertSentenceEncoder
from albert_tf.tasks.sentence_vectors.data import token_table
from albert_tf.tasks.sentence_vectors.token_objective import TokenObjective
from albert_tf.training.optimizer import create_optimizer
from albert_tf.training.trainer import Trainer

pytestmark = pytest.mark.both_stacks

BATCH = rows(6, 7, 3)


def models(student_layers, teacher_layers, **changes):
    keras.utils.set_random_seed(1)
    config = TINY.replace(initializer_range=0.5, cross_layer_sharing="none")
    return [AlbertSentenceEncoder(config.replace(num_hidden_layers=layers, **each))
            for layers, each in ((student_layers, {}), (teacher_layers, changes))]


@pytest.mark.parametrize("layers, learned", [((2, 4), [2, 4]), ((3, 4), [1, 2, 4]), ((2, 2), [1, 2])], ids=str)
@pytest.mark.parametrize("inner_group_num", [1, 2])
def test_the_loss_is_that_of_evenly_spaced_layers_and_of_the_vectors(layers, learned, inner_group_num):
    student, teacher = models(*layers, inner_group_num=inner_group_num)
    objective = TokenObjective(student, teacher)
    ours, theirs = (each(BATCH) for each in (student, teacher))
    mask = BATCH["input_mask"].astype(bool)
    targets = [theirs["encoder_outputs"][number * inner_group_num - 1] for number in learned]
    expected = np.mean([np.mean((a - b) ** 2, -1)[mask] / np.var(b, -1)[mask] for a, b in
                        ((a.numpy(), b.numpy()) for a, b in zip(ours["encoder_outputs"], targets, strict=True))])
    a, b = (each["sentence_embedding"].numpy() for each in (ours, theirs))
    cosines = np.sum(a * b, -1) / np.linalg.norm(a, axis=-1) / np.linalg.norm(b, axis=-1)
    loss, terms = objective.loss(ours, BATCH, objective.loss_denominators(BATCH))
    assert float(terms["token_loss"]) == pytest.approx(expected, rel=1e-5)
    assert float(terms["vector_loss"]) == pytest.approx(np.mean(1 - cosines), rel=1e-5)
    assert float(loss) == pytest.approx(expected + np.mean(1 - cosines), rel=1e-5)


def test_micro_batches_give_the_same_update_and_leave_the_teacher_as_it_is():
    def trained(micro_batches):
        student, teacher = models(1, 2)
        before = [weight.numpy() for weight in teacher.weights]
        trainer = Trainer(TokenObjective(student, teacher), create_optimizer("adamw", 0.01, 5, 0),
                          gradient_accumulation_steps=micro_batches)
        trainer.fit(tf.data.Dataset.from_tensors({name: tf.constant(value) for name, value in BATCH.items()}))
        for weight, value in zip(teacher.weights, before, strict=True):
            np.testing.assert_array_equal(weight, value)
        return [weight.numpy() for weight in student.weights]

    for whole, parts in zip(trained(1), trained(3), strict=True):
        np.testing.assert_allclose(whole, parts, atol=1e-5)


@pytest.mark.parametrize("layers, changes", [((3, 2), {}), ((2, 2), dict(hidden_size=16, num_attention_heads=2))])
def test_a_teacher_of_another_shape_is_refused(layers, changes):
    with pytest.raises(ValueError, match="sizes must be equal, and the teacher must not have fewer layers"):
        TokenObjective(*models(*layers, **changes))


def test_a_teacher_with_longer_vectors_is_refused():
    student, teacher = models(1, 1)
    with pytest.raises(ValueError, match="the teacher's vectors have 8 dimensions, and the model's 4"):
        TokenObjective(AlbertSentenceEncoder(student.config, truncate_dim=4), teacher)


def test_rows_are_lines_alone_or_before_the_next_another_or_a_changed_one(word_pieces, tmp_path):
    words = [word for word in word_pieces.vocab if word.isalpha() and len(word) > 2]
    lines = [" ".join(np.random.RandomState(number).choice(words, 12)) for number in range(400)]
    table = token_table(FeatureCache(word_pieces, str(tmp_path)), lines, 64, seed=1)
    assert len(table) == len(lines)
    ids = [each.tolist() for each in word_pieces.encode_batch(lines)]
    kinds = []
    for number, (row, segments) in enumerate(zip(table.sequences["input_ids"], table.sequences["segment_ids"])):
        row, second = row.numpy(), row.numpy()[segments.numpy() == 1][:-1].tolist()
        first = row[segments.numpy() == 0][1:-1].tolist()
        assert first == ids[number]
        same = len(second) == len(first) and np.mean(np.equal(first, second))
        kinds.append("none" if not second else "next" if second == ids[(number + 1) % len(ids)] else
                     "other" if second in ids else "changed" if 0.2 < same < 1 else "unknown")
    shares = {kind: kinds.count(kind) / len(kinds) for kind in kinds}
    assert shares == pytest.approx(dict(none=0.4, next=0.3, other=0.15, changed=0.15), abs=0.06)
    again = token_table(FeatureCache(word_pieces, str(tmp_path / "again")), lines, 64, seed=1)
    assert again.digest() == table.digest()
