"""Distillation: the losses of every task as NumPy computes them, the weight alpha, the answers of a teacher."""

import json
import types

import numpy as np
import pytest
import tensorflow as tf
from feature_tables import MAX_SEQ_LENGTH, VOCAB_SIZE, table
from scipy.special import log_softmax, softmax
from tiny import TINY_TEXT

from albert_tf.modeling.classifier import AlbertClassifier
from albert_tf.modeling.settings import SentenceEncoderSettings
from albert_tf.modeling.span import AlbertSpan
from albert_tf.pretraining.objective import DistilledPretrainingObjective, PretrainingObjective
from albert_tf.tasks.classification.task import ClassificationObjective, LabelLoss
from albert_tf.tasks.sentence_vectors.objective import SentenceVectorObjective
from albert_tf.tasks.squad.task import ConditionalSpanObjective, SpanObjective
from albert_tf.tasks.tagging.task import TaggingObjective
from albert_tf.training.distillation import (
    DistilledObjective,
    divergence,
    teacher_outputs,
    with_teacher_outputs,
)

CONFIG = TINY_TEXT.replace(vocab_size=VOCAB_SIZE, initializer_range=0.3)
NO_MODEL = types.SimpleNamespace(settings=SentenceEncoderSettings())
RANDOM = np.random.default_rng(3)


def normal(*shape):
    return RANDOM.normal(0, 2, shape).astype(np.float32)


def kl(teacher, student, temperature):
    """temperature^2 * KL of the softened distributions over the last axis, in float64."""
    p, q = softmax(teacher.astype(float) / temperature, -1), log_softmax(student.astype(float) / temperature, -1)
    return temperature**2 * (p * (np.log(np.maximum(p, 1e-300)) - q)).sum(-1)


def teacher_loss(objective, outputs, teacher, temperature=1.0, **batch):
    """The loss of a batch: outputs and teacher's outputs by name."""
    batch = {name: tf.constant(values) for name, values in batch.items()}
    batch.setdefault("input_ids", tf.zeros([len(next(iter(outputs.values()))), 5], tf.int32))
    tensors = [{name: tf.constant(values) for name, values in each.items()} for each in (outputs, teacher)]
    return float(objective.teacher_loss(*tensors, batch, objective.loss_denominators(batch), temperature))


def test_the_divergence_ignores_what_the_teacher_cannot_choose():
    teacher, student = normal(2, 4), normal(2, 4)
    teacher[:, 2:] = -1e30
    found = divergence(tf.constant(teacher), tf.constant(student), 2.0).numpy()
    p, q = softmax(teacher[:, :2] / 2, -1), log_softmax(student / 2, -1)[:, :2]
    np.testing.assert_allclose(found, 4 * (p * (np.log(p) - q)).sum(-1), rtol=1e-5)
    assert divergence(tf.constant(teacher), tf.constant(teacher), 2.0).numpy().tolist() == [0, 0]


def logits(*shape):
    """The outputs of a teacher and of a student."""
    return [dict(logits=normal(*shape)) for _ in range(2)]


def pairs(outputs):
    """Logits beside zeros: the sigmoid as a softmax."""
    return (np.stack([each["logits"], np.zeros_like(each["logits"])], -1) for each in outputs)


def unit(vectors, size=None):
    return vectors[:, :size] / np.linalg.norm(vectors[:, :size], axis=1, keepdims=True)


def between(outputs, temperature=2.0):
    return kl(*(each["logits"] for each in outputs), temperature)


CLASSES, ONE_LOGIT, LABELS = logits(400, 3), logits(4, 1), RANDOM.integers(0, 3, 400).astype(np.int32)
WORDS, TAGS = logits(2, 3, 4), np.array([[0, 1, 4], [2, 0, 0]], np.int32)
VECTORS = [dict(sentence_embedding=normal(4, 6)) for _ in range(2)]
TWO_SIZES = types.SimpleNamespace(vector_size=6, settings=SentenceEncoderSettings())


def distance_of_vectors(size=None):
    return np.square(np.subtract(*(unit(each["sentence_embedding"], size) for each in VECTORS))).sum(1).mean()


@pytest.mark.parametrize("objective, outputs, batch, expected", [
    (ClassificationObjective(NO_MODEL), CLASSES, {}, between(CLASSES).mean()),
    # Weights of labels do not scale the teacher's loss.
    (ClassificationObjective(NO_MODEL, label_loss=LabelLoss(class_weights=(10.0, 0.5, 3.0))), CLASSES,
     dict(label_ids=LABELS), between(CLASSES).mean()),
    (ClassificationObjective(NO_MODEL, label_loss=LabelLoss(multi_label=True)), CLASSES, {},
     kl(*pairs(CLASSES), 2.0).mean()),
    (ClassificationObjective(NO_MODEL, True), ONE_LOGIT, {},
     np.square(ONE_LOGIT[0]["logits"] - ONE_LOGIT[1]["logits"]).mean()),
    (TaggingObjective(NO_MODEL), WORDS, dict(tag_ids=TAGS), between(WORDS)[TAGS > 0].mean()),
    (SentenceVectorObjective(NO_MODEL), VECTORS, {}, distance_of_vectors()),
    (SentenceVectorObjective(TWO_SIZES, matryoshka_dims=(6, 2)), VECTORS, {},
     distance_of_vectors() + distance_of_vectors(2))],
    ids=["classes", "weighted", "several labels", "regression", "tags", "vectors", "truncated vectors"])
def test_the_teachers_loss_of_each_objective(objective, outputs, batch, expected):
    teacher, student = outputs
    assert teacher_loss(objective, student, teacher, 2.0, **batch) == pytest.approx(expected, rel=1e-5)


def test_squad_2_compares_answerability_too():
    teacher, student = ({"start_log_probs": log_softmax(normal(3, 6), -1).astype(np.float32),
                         "end_log_probs": log_softmax(normal(3, 6), -1).astype(np.float32),
                         "cls_logits": normal(3)} for _ in range(2))
    spans = np.mean([kl(teacher[name], student[name], 2.0).mean() for name in ("start_log_probs", "end_log_probs")])
    p, q = (1 / (1 + np.exp(-each["cls_logits"].astype(float) / 2)) for each in (teacher, student))
    answerability = 4 * (p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))).mean()
    found = teacher_loss(ConditionalSpanObjective(NO_MODEL), student, teacher, 2.0)
    assert found == pytest.approx(spans + 0.5 * answerability, rel=1e-5)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 10.0])
@pytest.mark.parametrize("objective, masked_in_model", [(SpanObjective, False), (ConditionalSpanObjective, True)])
def test_squad_compares_positions_that_are_no_padding(objective, masked_in_model, temperature):
    """The model of SQuAD 2.0 masks its own outputs, by p_mask."""
    lengths = RANDOM.integers(5, 41, 200)
    mask = np.arange(40) < lengths[:, None]
    spans = [name for name, padding in objective.TEACHER_OUTPUTS.items() if padding is not None]
    others = {} if len(spans) == len(objective.TEACHER_OUTPUTS) else dict(cls_logits=np.zeros(200, np.float32))
    own, student = ({name: normal(200, 40) for name in spans} for _ in range(2))
    teacher = {name: np.where(mask, values, np.float32(-1e30)) for name, values in own.items()}
    if masked_in_model:
        own, student = teacher, {name: np.where(mask, values, np.float32(-1e30)) for name, values in student.items()}
    batch = dict(input_mask=mask.astype(np.int32))
    found = teacher_loss(objective(NO_MODEL), {**student, **others}, {**teacher, **others}, temperature, **batch)
    expected = np.mean([kl(teacher[name][row, :length], student[name][row, :length], temperature)
                        for name in spans for row, length in enumerate(lengths)])
    assert found == pytest.approx(expected, rel=1e-4)
    assert teacher_loss(objective(NO_MODEL), {**own, **others}, {**teacher, **others}, temperature, **batch) == (
        pytest.approx(0, abs=1e-5))


def test_masked_lm_counts_the_masked_tokens_and_leaves_the_sentence_loss():
    outputs, teacher_logits = dict(mlm_logits=normal(2, 3, 7), sop_logits=normal(2, 2)), normal(2, 3, 7)
    batch = dict(input_ids=tf.zeros([2, 5], tf.int32), masked_lm_ids=tf.constant([[1, 2, 3], [4, 5, 6]]),
                 masked_lm_weights=tf.constant([[1.0, 1, 0], [1, 0, 0]]), next_sentence_labels=tf.constant([[0], [1]]))
    outputs = {name: tf.constant(values) for name, values in outputs.items()}

    def loss(objective):
        total, parts = objective.loss(outputs, batch, objective.loss_denominators(batch))
        return float(total), {name: float(value) for name, value in parts.items()}

    _, plain = loss(PretrainingObjective(None))
    total, parts = loss(DistilledPretrainingObjective(
        None, lambda batch, training: dict(mlm_logits=tf.constant(teacher_logits)), 2.0, 0.25))
    distance = kl(teacher_logits, outputs["mlm_logits"].numpy(), 2.0)[batch["masked_lm_weights"].numpy() > 0].mean()
    assert parts == pytest.approx(dict(plain, distillation_loss=distance), rel=1e-4)
    assert total == pytest.approx(0.75 * plain["masked_lm_loss"] + plain["sentence_order_loss"] + 0.25 * distance,
                                  rel=1e-4)


@pytest.mark.parametrize("alpha, not_needed", [(0.0, "teacher_logits"), (0.3, None), (1.0, "label_ids")])
def test_alpha_weights_the_teacher_against_the_labels(alpha, not_needed):
    objective, outputs = ClassificationObjective(NO_MODEL), dict(logits=tf.constant(normal(4, 3)))
    batch = dict(input_ids=tf.zeros([4, 5], tf.int32), label_ids=tf.constant([0, 1, 2, 0]),
                 teacher_logits=tf.constant(normal(4, 3)))
    labels = float(objective.loss(outputs, batch, objective.loss_denominators(batch))[0])
    distance = kl(batch["teacher_logits"].numpy(), outputs["logits"].numpy(), 2.0).mean()
    batch.pop(not_needed, None)
    distilled = DistilledObjective(objective, 2.0, alpha)
    loss, parts = distilled.loss(outputs, batch, distilled.loss_denominators(batch))
    assert float(loss) == pytest.approx((1 - alpha) * labels + alpha * distance, rel=1e-5)
    assert {name: float(value) for name, value in parts.items()} == (
        {"distillation_loss": pytest.approx(distance, rel=1e-5)} if alpha else {})


@pytest.fixture(scope="module")
def strategy():
    return tf.distribute.OneDeviceStrategy("CPU:0")


@pytest.fixture(scope="module")
def examples(tmp_path_factory):
    return table(tmp_path_factory.mktemp("tables"), 21)


def rows_of(examples, rows, length=MAX_SEQ_LENGTH):
    return examples.batch(tf.constant(rows, tf.int64), tf.constant(length))


def test_answers_are_the_models_outputs_in_the_order_of_the_examples(examples, strategy, tmp_path):
    outputs = ClassificationObjective.TEACHER_OUTPUTS
    teacher = AlbertClassifier(CONFIG, 3)
    found = teacher_outputs(teacher, outputs, examples, str(tmp_path), strategy, 4)
    expected = teacher(rows_of(examples, range(21)))["logits"]
    np.testing.assert_allclose(found["logits"], expected, atol=1e-5)
    batch = rows_of(with_teacher_outputs(examples, found, outputs), [5, 2])
    np.testing.assert_array_equal(batch["teacher_logits"], found["logits"][[5, 2]])


def test_answers_per_token_are_padded_like_the_tokens(examples, strategy, tmp_path):
    outputs, teacher = SpanObjective.TEACHER_OUTPUTS, AlbertSpan(CONFIG)
    found = teacher_outputs(teacher, outputs, examples, str(tmp_path), strategy, 4)
    taught = with_teacher_outputs(examples, found, outputs)
    batch = rows_of(taught, [7, 3])
    expected, mask = teacher(rows_of(examples, [7, 3])), batch["input_mask"].numpy() == 1
    for name in ("start_logits", "end_logits"):
        values = batch[f"teacher_{name}"].numpy()
        np.testing.assert_allclose(values[mask], expected[name].numpy()[mask], atol=1e-5)
        assert values.shape == (2, MAX_SEQ_LENGTH) and (values[~mask] == np.float32(-1e30)).all()
    columns = dict(teacher_logits=np.arange(2 * examples.lengths.sum(), dtype=np.float32).reshape(-1, 2))
    vectors = rows_of(examples.with_columns(columns, dict(teacher_logits=0.0)), [1])["teacher_logits"].numpy()
    first, length = examples.lengths[0], examples.lengths[1]
    np.testing.assert_array_equal(vectors[0, :length], columns["teacher_logits"][first : first + length])
    assert vectors.shape == (1, MAX_SEQ_LENGTH, 2) and not vectors[0, length:].any()


def test_answers_are_cached_until_anything_that_they_depend_on_changes(strategy, tmp_path, monkeypatch):
    examples = table(tmp_path, 5, max_seq_length=8)
    outputs, teacher, read = ClassificationObjective.TEACHER_OUTPUTS, AlbertClassifier(CONFIG, 3), []

    def count_of_readings(model, data):
        before = len(read)
        monkeypatch.setattr("albert_tf.training.distillation.count_of", lambda *words: read.append(words) or "")
        values = teacher_outputs(model, outputs, data, str(tmp_path), strategy, 4)
        return len(read) - before, values["logits"]

    first, values = count_of_readings(teacher, examples)
    again, cached = count_of_readings(teacher, examples)
    assert (first, again) == (1, 0)
    np.testing.assert_array_equal(cached, values)
    path, = tmp_path.glob("teacher_logits_*.npy")
    made_from = json.loads((tmp_path / f"{path.name}.manifest.json").read_text())["made_from"]
    assert {"weights", "config", "examples", "precision", "arguments"} <= made_from.keys()
    path.write_bytes(path.read_bytes()[:-4])
    assert count_of_readings(teacher, examples)[0] == 1
    teacher.classifier.trainable_variables[-1].assign_add(tf.ones(3))
    changed, others = count_of_readings(teacher, examples)
    np.testing.assert_allclose(others, values + 1, atol=1e-5)
    fewer = examples.with_columns({"further": np.zeros(5, np.float32)}, {})
    assert (changed, count_of_readings(teacher, fewer)[0]) == (1, 1)
    monkeypatch.setattr("albert_tf.keras.mixed_precision.global_policy", lambda: types.SimpleNamespace(name="other"))
    assert count_of_readings(teacher, examples)[0] == 1


def test_answers_to_other_examples_are_refused(examples):
    with pytest.raises(ValueError, match="answered 20 times with logits, but 21 answers are needed"):
        with_teacher_outputs(examples, dict(logits=np.zeros([20, 3], np.float32)), dict(logits=None))
