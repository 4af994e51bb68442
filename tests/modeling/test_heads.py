"""The outputs of the heads, also for texts of several windows."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.modeling.albert_model import ENCODER_INPUTS
from albert_tf.modeling.classifier import AlbertClassifier, AlbertMultipleChoice, AlbertTokenClassifier
from albert_tf.modeling.layers import release_name
from albert_tf.modeling.span import AlbertConditionalSpan, AlbertSpan
from albert_tf.tasks.classification.task import ClassificationObjective
from albert_tf.weights.from_pretrained import from_pretrained

pytestmark = pytest.mark.both_stacks


class Recorded:
    """A head of golden/finetuned_heads: its model, its inputs, and the release's outputs."""

    def __init__(self, golden, head, kind, **arguments):
        folder = golden / "finetuned_heads" / head
        self.numbers = np.load(folder / "io.npz")
        self.inputs = {key[3:]: self.numbers[key] for key in self.numbers.files if key.startswith("in/")}
        self.model = from_pretrained(str(folder / "model.ckpt"), model=kind, **arguments)

    def without(self, *names):
        return {name: value for name, value in self.inputs.items() if name not in names}

    def check(self, name, ours):
        theirs = self.numbers[f"out/{name}"]
        if theirs.dtype.kind == "i":
            np.testing.assert_array_equal(ours, theirs)
        else:  # masked positions are about -1e30: there only the relative tolerance says something
            np.testing.assert_allclose(ours, theirs, atol=1e-5, rtol=1e-5)

    def check_gradients(self, loss_of):
        """loss_of: a function without arguments that runs the model and returns the loss."""
        with tf.GradientTape() as tape:
            loss = loss_of()
        variables = self.model.trainable_variables
        recorded = {key[5:] for key in self.numbers.files if key.startswith("grad/")}
        for variable, gradient in zip(variables, tape.gradient(loss, variables)):
            name = release_name(variable)
            assert (gradient is None) == (name not in recorded), name
            if gradient is not None:
                np.testing.assert_allclose(tf.convert_to_tensor(gradient), self.numbers[f"grad/{name}"], atol=2e-5,
                                           rtol=1e-4, err_msg=name)
        return loss


def cross_entropy(logits, labels):
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)


def mean_loss(logits, labels):
    """Cross entropy, and for a regression the squared error."""
    return tf.reduce_mean(cross_entropy(logits, labels) if logits.shape[1] > 1 else (logits[:, 0] - labels) ** 2)


@pytest.mark.parametrize("name, kind, arguments", [
    ("classifier", "classifier", dict(num_labels=3)), ("regression", "classifier", dict(num_labels=1)),
    ("race", "multiple_choice", {})])
def test_logits_losses_and_gradients_are_the_releases(golden, name, kind, arguments):
    head = Recorded(golden, name, kind, **arguments)
    logits = head.model(head.inputs)["logits"]
    head.check("logits", logits[:, 0] if name == "regression" else logits)
    ours = dict(probabilities=tf.nn.softmax(logits), predictions=tf.argmax(logits, axis=-1, output_type=tf.int32))
    if name == "classifier":
        ours["per_example_loss"] = cross_entropy(logits, head.inputs["labels"])
    for output in {f"out/{key}" for key in ours} & {*head.numbers.files} if name != "regression" else ():
        head.check(output[4:], ours[output[4:]])
    head.check("loss", head.check_gradients(
        lambda: mean_loss(head.model(head.inputs)["logits"], head.inputs["labels"])))


@pytest.mark.parametrize("shape", [[None, None], [None, 4, None]])
def test_multiple_choice_takes_choices_side_by_side_or_with_an_axis_of_any_length(golden, shape):
    head = Recorded(golden, "race", "multiple_choice")
    spec = {name: tf.TensorSpec(shape, tf.int32) for name in ENCODER_INPUTS}
    logits = tf.function(lambda inputs: head.model(inputs)["logits"], input_signature=[spec])
    rows = {name: head.inputs[name].reshape([6, 4, 24]) for name in spec}
    head.check("logits", logits({name: value.reshape([6, *([96] if len(shape) == 2 else [4, 24])])
                                 for name, value in rows.items()}))
    two = head.model({name: value[:, :2] for name, value in rows.items()})["logits"]
    np.testing.assert_allclose(two, head.numbers["out/logits"][:, :2], atol=1e-5)


def test_a_choice_without_tokens_cannot_be_chosen(golden):
    head = Recorded(golden, "race", "multiple_choice")
    rows = {name: head.inputs[name].reshape([6, 4, 24]).copy() for name in ENCODER_INPUTS}
    rows["input_mask"][:, 2] = 0
    rows["input_mask"][5] = 0
    logits = head.model(rows)["logits"]
    probabilities = tf.nn.softmax(logits).numpy()
    there = [0, 1, 3]
    np.testing.assert_allclose(logits.numpy()[:5, there], head.numbers["out/logits"][:5, there], atol=1e-5)
    assert not probabilities[:5, 2].any() and np.isfinite(probabilities).all()


def test_span(golden):
    head = Recorded(golden, "squad_v1", "span")
    outputs = head.model(head.inputs)
    head.check("start_logits", outputs["start_logits"])
    head.check("end_logits", outputs["end_logits"])

    def loss():
        outputs = head.model(head.inputs, training=True)
        start = cross_entropy(outputs["start_logits"], head.inputs["start_positions"])
        end = cross_entropy(outputs["end_logits"], head.inputs["end_positions"])
        return tf.reduce_mean(start + end) / 2

    head.check("training_loss", head.check_gradients(loss))


@pytest.mark.parametrize("jit_compile", [None, True])
def test_conditional_span_searches_the_beam(golden, jit_compile):
    head = Recorded(golden, "squad_v2", "conditional_span", start_n_top=5, end_n_top=4)
    outputs = tf.function(head.model, jit_compile=jit_compile)(
        {name: tf.constant(value) for name, value in head.without("start_positions", "end_positions").items()})
    for name in ("start_top_log_probs", "start_top_index", "end_top_log_probs", "end_top_index", "cls_logits"):
        head.check(name, outputs[name])


def test_conditional_span_is_taught_the_start_in_training(golden):
    head = Recorded(golden, "squad_v2", "conditional_span", dropout_prob=0.0)
    positions = {kind: head.inputs[f"{kind}_positions"] for kind in ("start", "end")}

    def loss():
        outputs = head.model(head.inputs, training=True)
        for name in ("start_log_probs", "end_log_probs", "cls_logits"):
            head.check(f"training_{name}", outputs[name])
        losses = {kind: -tf.reduce_mean(tf.gather(outputs[f"{kind}_log_probs"], positions[kind], batch_dims=1))
                  for kind in positions}
        impossible = tf.cast(head.inputs["is_impossible"], tf.float32)
        regression = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(impossible, outputs["cls_logits"]))
        return (losses["start"] + losses["end"]) / 2 + regression / 2

    head.check("total_loss", head.check_gradients(loss))


@pytest.mark.parametrize("make", [
    lambda config: AlbertClassifier(config, 2), AlbertSpan, AlbertConditionalSpan, AlbertMultipleChoice,
    lambda config: AlbertTokenClassifier(config, 2)], ids=range(5))
def test_heads_keep_float32_variables_and_outputs_in_bfloat16(tiny_config, tiny_batch, policy, make):
    policy("mixed_bfloat16")
    model = make(tiny_config)
    outputs = model(dict(tiny_batch, p_mask=np.zeros([3, 12], np.int32)))
    assert {tf.as_dtype(variable.dtype) for variable in model.weights} == {tf.float32}
    of_the_head = [outputs[name] for name in outputs.keys() - model.albert(tiny_batch).keys()]
    assert all(output.dtype in (tf.float32, tf.int32) for output in of_the_head)
    # Not bfloat16's eight bits in float32 either: scores that differ must not tie.
    assert all(np.any(tf.cast(tf.cast(output, tf.bfloat16), tf.float32) != output)
               for output in of_the_head if output.dtype == tf.float32)


def test_the_heads_drop_out_in_training_only(tiny_config, tiny_batch):
    batch = dict(tiny_batch, p_mask=np.zeros([3, 12], np.int32), start_positions=np.zeros([3], np.int32))
    for model, output in ((AlbertClassifier(tiny_config, 2, classifier_dropout_prob=0.5), "logits"),
                          (AlbertMultipleChoice(tiny_config, dropout_prob=0.5, num_choices=3), "logits"),
                          (AlbertTokenClassifier(tiny_config, 2, classifier_dropout_prob=0.5), "logits"),
                          (AlbertConditionalSpan(tiny_config, dropout_prob=0.5), "cls_logits")):
        plain, *dropped = (model(dict(batch, dropout_seed=[1, seed]), training=seed > 0)[output] for seed in (0, 1, 2))
        assert not np.allclose(dropped[0], dropped[1])
        np.testing.assert_array_equal(plain, model(batch)[output])


def test_a_graph_of_rows_of_any_length_refuses_a_row_that_the_choices_do_not_fill(tiny_config):
    model = AlbertMultipleChoice(tiny_config, num_choices=4)
    specs = {name: tf.TensorSpec([None, None], tf.int32) for name in ENCODER_INPUTS}
    graph = tf.function(lambda inputs: model(inputs)["logits"], input_signature=[specs], autograph=False)
    assert graph({name: tf.ones([4, 12], tf.int32) for name in specs}).shape == [4, 4]
    with pytest.raises(tf.errors.InvalidArgumentError, match="a row must hold 4 choices of one length"):
        graph({name: tf.ones([4, 10], tf.int32) for name in specs})


@pytest.fixture
def windows(tiny_batch):
    """Three texts of one, two and two windows, [3, 3, 12]; the last window of each is padding."""
    second = {name: tiny_batch[name][::-1].copy() for name in ENCODER_INPUTS}
    for rows in second.values():
        rows[0] = 0
    return {name: np.stack([tiny_batch[name], second[name], np.zeros_like(second[name])], axis=1)
            for name in ENCODER_INPUTS}


def logits_by_hand(model, windows, pooling):
    """The logits of each window that is not padding, computed one window at a time."""
    reduce = dict(mean=np.mean, max=np.max)[pooling]
    logits = []
    for text in range(3):
        rows = [{name: windows[name][text, window][None] for name in ENCODER_INPUTS} for window in range(3)]
        logits.append(reduce([model(row)["logits"][0] for row in rows if row["input_mask"].any()], axis=0))
    return np.array(logits)


@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_the_logits_of_a_text_are_pooled_over_its_windows(tiny_config, windows, pooling):
    model = AlbertClassifier(tiny_config.replace(initializer_range=0.5), 4, window_pooling=pooling)
    expected = logits_by_hand(model, windows, pooling)
    np.testing.assert_allclose(model(windows)["logits"], expected, atol=1e-5)
    labels = np.array([3, 0, 1], np.int32)
    objective = ClassificationObjective(model)
    loss, _ = objective.loss(model(windows), dict(label_ids=labels), objective.loss_denominators(windows))
    log_probabilities = expected - np.log(np.exp(expected).sum(axis=1, keepdims=True))
    assert float(loss) == pytest.approx(-log_probabilities[np.arange(3), labels].mean(), abs=1e-5)


@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_one_window_is_bit_for_bit_the_row_without_windows(tiny_config, tiny_batch, pooling):
    model = AlbertClassifier(tiny_config, 3, classifier_dropout_prob=0.5, window_pooling=pooling)
    for training in (False, True):
        row = dict(tiny_batch, dropout_seed=[1, 2])
        window = {name: values[:, None] for name, values in tiny_batch.items()}
        np.testing.assert_array_equal(model(dict(window, dropout_seed=[1, 2]), training=training)["logits"],
                                      model(row, training=training)["logits"])
