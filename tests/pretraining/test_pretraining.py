"""The losses of pre-training, and those of a teacher's layers."""

import numpy as np
import pytest
import tensorflow as tf
from scipy.special import log_softmax
from synthetic_records import VOCAB_SIZE, example

from albert_tf import keras
from albert_tf.config import AlbertConfig
from albert_tf.modeling.albert_model import attention_vectors, hidden_states, layer_outputs
from albert_tf.modeling.encoder import masked_scores
from albert_tf.modeling.pretrainer import AlbertPretrainer
from albert_tf.pretraining.config import LayerDistillation, uniform_layers
from albert_tf.pretraining.examples import MaskingOptions
from albert_tf.pretraining.objective import (
    PROJECTION,
    DistilledPretrainingObjective,
    LayerLosses,
    PretrainingObjective,
    attention_loss,
    hidden_loss,
)
from albert_tf.pretraining.packed_rows import TEXTS, packed


def layers_of(**options):
    """LayerDistillation with options by their names without "distillation_"."""
    return LayerDistillation(teacher_checkpoint="teacher",
                             **{f"distillation_{name}": value for name, value in options.items()})


@pytest.fixture
def batch():
    rng = np.random.default_rng(0)
    return dict(
        input_ids=tf.zeros([4, 8], tf.int32),
        masked_lm_ids=tf.constant(rng.integers(0, 10, [4, 3]), tf.int32),
        masked_lm_weights=tf.constant([[1, 1, 0], [1, 0, 0], [1, 1, 1], [0, 0, 0]], tf.float32),
        next_sentence_labels=tf.constant([[0], [1], [1], [0]]),
    )


@pytest.fixture
def outputs():
    rng = np.random.default_rng(1)
    return dict(mlm_logits=tf.constant(rng.normal(size=[4, 3, 10]), tf.float32),
                sop_logits=tf.constant(rng.normal(size=[4, 2]), tf.float32))


def test_the_losses_are_the_releases_formulas(batch, outputs):
    objective = PretrainingObjective(model=None)
    total, parts = objective.loss(outputs, batch, objective.loss_denominators(batch))
    ids, weights, labels = (batch[name].numpy()
                            for name in ("masked_lm_ids", "masked_lm_weights", "next_sentence_labels"))
    of_tokens, of_order = (log_softmax(outputs[name].numpy(), axis=-1) for name in ("mlm_logits", "sop_logits"))
    masked_lm = -np.take_along_axis(of_tokens, ids[..., None], axis=-1)[..., 0]
    sentence_order = -np.take_along_axis(of_order, labels, axis=-1)
    np.testing.assert_allclose(parts["masked_lm_loss"], (masked_lm * weights).sum() / (weights.sum() + 1e-5), rtol=1e-6)
    np.testing.assert_allclose(parts["sentence_order_loss"], sentence_order.mean(), rtol=1e-6)
    np.testing.assert_allclose(total, sum(parts.values()), rtol=1e-6)


def test_without_an_objective_or_sentence_labels_there_are_only_results_of_the_masked_lm(batch, outputs):
    objective = PretrainingObjective(model=None, has_sentence_loss=False)
    total, parts = objective.loss(outputs, batch, objective.loss_denominators(batch))
    assert list(parts) == ["masked_lm_loss"] and total == parts["masked_lm_loss"]
    evaluated = dict(batch, is_real_example=tf.ones([4]))
    objective.update_metrics(evaluated, outputs)
    found = objective.results()
    assert found.keys() == {"loss", "masked_lm_accuracy", "masked_lm_loss"} and found["loss"] == found["masked_lm_loss"]
    objective = PretrainingObjective(model=None)
    objective.update_metrics(evaluated, outputs)
    assert objective.results(has_sentence_labels=False) == pytest.approx(found)


def test_evaluation_leaves_out_rows_that_fill_up_a_batch(batch, outputs):
    objective = PretrainingObjective(model=None)
    guesses = tf.argmax(outputs["mlm_logits"], axis=-1, output_type=tf.int32).numpy()
    ids = guesses.copy()
    ids[0, 0] += 1  # one of three real masked tokens is wrong
    orders = tf.argmax(outputs["sop_logits"], axis=-1, output_type=tf.int32).numpy()
    batch = dict(batch, masked_lm_ids=tf.constant(ids % 10), next_sentence_labels=tf.constant(orders[:, None]),
                 is_real_example=tf.constant([1.0, 1.0, 0.0, 0.0]))
    objective.update_metrics(batch, outputs)
    results = objective.results()
    np.testing.assert_allclose(results["masked_lm_accuracy"], 2 / 3, rtol=1e-6)
    assert results["sentence_order_accuracy"] == 1.0
    np.testing.assert_allclose(results["loss"], results["masked_lm_loss"] + results["sentence_order_loss"])


COMMON = dict(vocab_size=30, embedding_size=8, intermediate_size=16, max_position_embeddings=8, initializer_range=0.4,
              hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
STUDENT = AlbertConfig(hidden_size=12, num_hidden_layers=2, num_attention_heads=2, **COMMON)
# Four layers of two inner groups each, in two groups.
TEACHER = AlbertConfig(hidden_size=18, num_hidden_layers=4, num_attention_heads=3, num_hidden_groups=2,
                       inner_group_num=2, **COMMON)
MASK = np.array([[1, 1, 1, 1], [1, 1, 0, 0]], np.int32)
BATCH = dict(input_ids=np.array([[2, 9, 4, 3], [2, 3, 0, 0]], np.int32), input_mask=MASK,
             segment_ids=np.zeros([2, 4], np.int32), masked_lm_positions=np.array([[1, 2], [1, 0]], np.int32),
             masked_lm_ids=np.array([[7, 8], [9, 0]], np.int32), next_sentence_labels=np.array([[0], [1]], np.int32),
             masked_lm_weights=np.array([[1, 1], [1, 0]], np.float32))


@pytest.fixture(scope="module")
def models():
    """(student, teacher)"""
    keras.utils.set_random_seed(3)
    return AlbertPretrainer(STUDENT), AlbertPretrainer(TEACHER)


def wave(*shape, step):
    return (2 * np.sin(step * np.arange(np.prod(shape)))).reshape(shape).astype(np.float32)


def expected_relations(vectors, heads):
    """The logarithms of a relation, float64 [batch, heads, seq, seq]."""
    batch, seq, width = vectors.shape
    split = np.asarray(vectors, float).reshape(batch, seq, heads, width // heads).transpose(0, 2, 1, 3)
    scores = split @ split.transpose(0, 1, 3, 2) / np.sqrt(width // heads)
    return log_softmax(np.where(MASK[:, None, None] == 1, scores, -1e9), axis=-1)


def expected_attention_loss(ours, theirs, heads):
    """The divergences of queries, keys and values: a mean over the tokens and heads of each, then their sum."""
    total = 0.0
    for student, teacher in zip(ours, theirs):
        p, q = expected_relations(teacher, heads), expected_relations(student, heads)
        divergences = (np.exp(p) * np.where(np.exp(p) > 0, p - q, 0)).sum(-1)  # [batch, heads, seq]
        total += divergences.transpose(0, 2, 1)[MASK == 1].mean()
    return total


def test_layers_are_mapped_evenly_and_the_last_one_learns_from_the_last_one():
    assert uniform_layers(4, 12) == (3, 6, 9, 12)
    assert uniform_layers(4, 6) == (2, 3, 5, 6)
    assert uniform_layers(4, 2) == (1, 1, 2, 2)
    assert uniform_layers(3, 3) == (1, 2, 3)


def test_losses_are_those_of_pytorch():
    """Values of PyTorch 2.13: mse_loss of the tokens; kl_div(log_target=True) of log_softmax, a mean over tokens."""
    mask = tf.constant(MASK, tf.float32)
    found = hidden_loss(wave(2, 4, 6, step=0.7), wave(2, 4, 6, step=1.1), mask, tf.constant(6.0))
    assert float(found) == pytest.approx(3.7373411655426025, rel=1e-5)
    ours, theirs = ([tf.constant(wave(2, 4, width, step=step)) for step in steps]
                    for width, steps in ((6, (0.7, 1.1, 1.9)), (12, (0.3, 1.3, 2.3))))
    found = attention_loss(ours, theirs, mask, tf.constant(6.0), 3, masked_scores(mask))
    assert float(found) == pytest.approx(2.000432014465332, rel=1e-5)
    assert float(found) == pytest.approx(expected_attention_loss(ours, theirs, 3), rel=1e-5)


def test_queries_keys_and_values_are_those_of_the_last_inner_group_of_a_layer(models):
    model = models[1].albert
    outputs = model(BATCH)
    states = hidden_states(model, outputs)
    assert len(states) == 9
    # Layers 1 and 2 are in group 0, layers 3 and 4 in group 1; the second inner group of layer 3 reads state 5.
    for layer, scope, state in ((1, "group_0/inner_group_1", 1), (3, "group_1/inner_group_1", 5)):
        values = {variable.name.split(":")[0]: variable.numpy() for variable in model.weights}
        found, = attention_vectors(model, outputs, [layer])
        for name, vectors in zip(("query", "key", "value"), found):
            dense = f"bert/encoder/transformer/{scope}/attention_1/self/{name}"
            expected = states[state].numpy() @ values[f"{dense}/kernel"] + values[f"{dense}/bias"]
            np.testing.assert_allclose(vectors, expected, atol=1e-5)
    np.testing.assert_array_equal(layer_outputs(model, outputs, [3])[0], outputs["encoder_outputs"][5])


def losses_of(models, options):
    """(the parts of the loss of an objective with these options, the model's outputs, the teacher's outputs)"""
    student, teacher = models
    objective = DistilledPretrainingObjective(student, teacher, alpha=0.0, layers=options)
    outputs = student(BATCH)
    total, parts = objective.loss(outputs, BATCH, objective.loss_denominators(BATCH))
    plain, _ = PretrainingObjective(student).loss(outputs, BATCH, objective.loss_denominators(BATCH))
    weights = dict(distillation_hidden_loss=options.distillation_hidden_weight,
                   distillation_attention_loss=options.distillation_attention_weight)
    added = [weights[name] * float(value) for name, value in parts.items() if name in weights]
    assert float(total) == pytest.approx(float(plain) + sum(added), rel=1e-6)
    return parts, outputs, teacher(BATCH)


@pytest.mark.parametrize("layers, expected_layers", [((), (2, 4)), ((4, 1), (4, 1))])
def test_the_loss_of_hidden_states_is_a_mean_over_layers_and_tokens(models, layers, expected_layers):
    parts, outputs, teacher_outputs = losses_of(models, layers_of(hidden_weight=0.5, layers=layers))
    kernel = models[0].hidden_projection.kernel.numpy()
    assert kernel.shape == (12, 18)
    pairs = [(outputs["encoder_outputs"][ours] @ kernel, teacher_outputs["encoder_outputs"][2 * theirs - 1])
             for ours, theirs in enumerate(expected_layers)]
    expected = np.mean([np.square(ours - theirs.numpy())[MASK == 1].mean() for ours, theirs in pairs])
    assert float(parts["distillation_hidden_loss"]) == pytest.approx(expected, rel=1e-5)
    assert "distillation_attention_loss" not in parts and "distillation_loss" not in parts


@pytest.mark.parametrize("heads", [None, 6])
def test_the_loss_of_attention_needs_no_equal_numbers_of_heads(models, heads):
    parts, outputs, teacher_outputs = losses_of(models, layers_of(attention_weight=2, relation_heads=heads))
    ours = attention_vectors(models[0].albert, outputs, [1, 2])
    theirs = attention_vectors(models[1].albert, teacher_outputs, [2, 4])
    expected = np.mean([expected_attention_loss(*pair, heads or 3) for pair in zip(ours, theirs)])
    assert float(parts["distillation_attention_loss"]) == pytest.approx(expected, rel=1e-4)


def test_a_model_that_is_its_own_teacher_has_nothing_to_learn(models):
    student = AlbertPretrainer(STUDENT)
    parts, *_ = losses_of((student, student), layers_of(hidden_weight=1.0, attention_weight=1.0))
    assert float(parts["distillation_hidden_loss"]) == 0 == float(parts["distillation_attention_loss"])
    assert not hasattr(student, "hidden_projection")  # of equal widths


def test_micro_batches_have_their_shares_of_the_losses(models):
    student, teacher = models
    layers = layers_of(hidden_weight=1.0, attention_weight=1.0)
    objective = DistilledPretrainingObjective(student, teacher, layers=layers)
    halves = [{name: tensor[row:row + 1] for name, tensor in BATCH.items()} for row in (0, 1)]
    denominators = objective.loss_denominators(BATCH)
    assert float(denominators["tokens"]) == 6
    whole, *shares = (float(objective.loss(student(rows), rows, denominators)[0]) for rows in (BATCH, *halves))
    assert sum(shares) == pytest.approx(whole, rel=1e-5)


def test_student_and_projection_learn_and_the_teacher_does_not(models):
    student, teacher = AlbertPretrainer(STUDENT), models[1]
    losses = LayerLosses(student, teacher, layers_of(hidden_weight=1.0, attention_weight=1.0))
    with tf.GradientTape() as tape:
        total, _ = losses(student(BATCH), teacher(BATCH), BATCH, dict(tokens=tf.constant(6.0)))
    named = {variable.name.split(":")[0]: variable for variable in student.trainable_variables}
    encoder = [variable for name, variable in named.items() if "attention_1/self" in name]
    gradients = tape.gradient(total, [named[f"{PROJECTION}/kernel"], *encoder, *teacher.trainable_variables])
    trained = 1 + len(encoder)
    assert all(np.abs(gradient.numpy()).max() > 0 for gradient in gradients[:trained])
    assert not any(gradient is not None for gradient in gradients[trained:])


@pytest.mark.parametrize("options, message", [
    (dict(hidden_weight=-1.0), "distillation_hidden_weight .* -1.0"),
    (dict(attention_weight=float("nan")), "distillation_attention_weight"),
    (dict(layers=(1, 2)), "--distillation_layers .* without --distillation_hidden_weight"),
    (dict(hidden_weight=1.0, relation_heads=2),
     "--distillation_relation_heads .* without --distillation_attention_weight"),
    (dict(hidden_weight=1.0, layers=(1, 5)), "--distillation_layers .* 4 layers. Received: 1,5"),
    (dict(hidden_weight=1.0, layers=(0, 4)), "distillation_layers .* from 1 to 1,000"),
    (dict(attention_weight=1.0, layers=(1, 2, 4)), "--distillation_layers .* 2 layers .* 1,2,4"),
    (dict(attention_weight=1.0, relation_heads=4), "--distillation_relation_heads=4, .* 12, .* 18"),
    (dict(attention_weight=1.0), "=3, .* 16")])
def test_options_that_do_not_fit_are_refused(options, message):
    student = STUDENT.replace(hidden_size=16) if options == dict(attention_weight=1.0) else STUDENT
    with pytest.raises(ValueError, match=message):
        layers_of(**options).check(student, TEACHER)
    layers_of(attention_weight=1.0, relation_heads=2).check(STUDENT, TEACHER)


def values_of(objective, batch):
    """The losses, gradients and metrics of a batch as a whole."""
    with tf.GradientTape() as tape:
        outputs = objective.model(dict(batch, dropout_seed=tf.constant([1, 2])), training=True)
        total, losses = objective.loss(outputs, batch, objective.loss_denominators(batch))
    gradients = tape.gradient(total, objective.model.trainable_variables)
    for metric in objective.metrics:
        metric.reset_state()
    objective.update_metrics(batch, outputs)
    return losses, [tf.convert_to_tensor(gradient) for gradient in gradients], objective.results()


@pytest.mark.parametrize("options, length", [(None, 1), (layers_of(hidden_weight=1.0, attention_weight=1.0), 3)])
def test_packed_rows_have_the_losses_gradients_and_metrics_of_padded_ones(options, length):
    """300 examples of 5 to 32 tokens."""
    rng = np.random.default_rng(0)
    rows = [example(rng, 32, MaskingOptions(5), shortest=5)[0] for _ in range(300)]
    padded = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
    padded = {name: tf.constant(values, tf.float32 if name == "masked_lm_weights" else tf.int32)
              for name, values in padded.items()}
    in_rows = packed(padded, length, multiple=4)
    count = in_rows["input_ids"].shape[0]
    needed = np.sum(padded["input_mask"]) / (32 * length)
    assert needed <= count < 1.1 * needed and count % 4 == 0
    assert in_rows["next_sentence_labels"].shape == (count, length * TEXTS)

    changes = dict(vocab_size=VOCAB_SIZE, max_position_embeddings=32)
    keras.utils.set_random_seed(3)
    model, teacher = (AlbertPretrainer(config.replace(**changes)) for config in (STUDENT, TEACHER))
    objective = (DistilledPretrainingObjective(model, teacher, layers=options) if options
                 else PretrainingObjective(model))
    losses, gradients, metrics = values_of(objective, padded)
    found_losses, found_gradients, found_metrics = values_of(objective, in_rows)
    assert len(losses) == (5 if options else 2)
    for expected, found in ((losses, found_losses), (metrics, found_metrics)):
        assert {name: float(value) for name, value in found.items()} == pytest.approx(
            {name: float(value) for name, value in expected.items()}, rel=1e-5)
    for expected, found in zip(gradients, found_gradients):
        np.testing.assert_allclose(found, expected, atol=1e-5, rtol=1e-5)
