"""Early exit: the outputs of single layers by hand, the rule of PABEE in NumPy, and examples that leave a batch."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.modeling.adapters import LoraOptions, add_adapters
from albert_tf.modeling.classifier import AlbertClassifier, AlbertMultipleChoice, AlbertTokenClassifier
from albert_tf.modeling.configured_model import ENCODER_INPUTS
from albert_tf.modeling.early_exit import NUM_LAYERS_USED, loss_over_exits
from albert_tf.tasks.classification.task import ClassificationTask
from albert_tf.tasks.tagging.fine_tuning import TaggingTask

SHARING = {
    "all": {}, "groups": dict(num_hidden_groups=2), "inner groups": dict(inner_group_num=2),
    "none": dict(cross_layer_sharing="none"), "attention": dict(cross_layer_sharing="attention"),
    "BERT": dict(cross_layer_sharing="none", embedding_size=16),
}
LAYERS = 6


@pytest.fixture(scope="module")
def config(tiny_config):
    """A model whose layers often disagree."""
    return tiny_config.replace(num_hidden_layers=LAYERS, initializer_range=0.4)


@pytest.fixture(scope="module")
def batch():
    """24 rows of 4 to 12 tokens."""
    random = np.random.default_rng(2)
    mask = np.arange(12) < random.integers(4, 13, [24, 1])
    return dict(input_ids=random.integers(0, 50, [24, 12], np.int32), input_mask=mask.astype(np.int32),
                segment_ids=random.integers(0, 2, [24, 12], np.int32))


def early(model, **arguments):
    """The model with other arguments."""
    copy = type(model).from_config({**model.get_config(), **arguments})
    copy.set_weights(model.get_weights())
    return copy


def in_rows(batch, number):
    """The rows as examples of several rows each, the last one of which is padding in the first example."""
    rows = {name: values.reshape(-1, number, 12).copy() for name, values in batch.items()}
    rows["input_mask"][0, -1] = 0
    return rows


def alone(inputs, example):
    return {name: values[example:example + 1] for name, values in inputs.items()}


def by_the_rule(exit_logits, agree, patience):
    """The logits and the number of layers of each example (Zhou et al., 2020, figure 2b), one example at a time."""
    results, layers = [], []
    for example in range(len(exit_logits[0])):
        counter = 0
        for layer, logits in enumerate(exit_logits):
            if layer:
                counter = counter + 1 if agree(exit_logits[layer - 1][example], logits[example], example) else 0
            if counter == patience:
                break
        results.append(logits[example])
        layers.append(layer + 1)
    return np.array(results), np.array(layers)


def same_label(before, after, example):
    return before.argmax() == after.argmax()


@pytest.mark.both_stacks
@pytest.mark.parametrize("sharing", SHARING)
def test_exits_are_the_layers_of_the_model_without_exits_passed_through_each_head(config, batch, sharing):
    config = config.replace(**SHARING[sharing])
    model, plain = AlbertClassifier(config, 3, exit_heads=True), AlbertClassifier(config, 3)
    plain.set_weights(model.get_weights()[:len(plain.weights)])
    outputs, pooler = plain(batch), plain.albert.pooler
    layers = outputs["encoder_outputs"][config.inner_group_num - 1::config.inner_group_num]
    exit_logits = model(batch)["exit_logits"]
    assert len(exit_logits) == len(layers) == LAYERS
    for head, layer, logits in zip([*model.exits, model.classifier], layers, exit_logits):
        pooled = np.tanh(layer[:, 0].numpy() @ pooler.kernel.numpy() + pooler.bias.numpy())
        np.testing.assert_allclose(logits, pooled @ head.kernel.numpy().T + head.bias.numpy(), atol=1e-5)
    np.testing.assert_array_equal(model(batch)["logits"], outputs["logits"])


@pytest.mark.parametrize("inner_groups", [1, 2])
def test_exits_before_the_last_layer_can_read_the_mean_of_the_tokens(config, batch, inner_groups):
    config = config.replace(inner_group_num=inner_groups)
    model, plain = AlbertClassifier(config, 3, exit_heads=True, exit_pooling="mean"), AlbertClassifier(config, 3)
    plain.set_weights(model.get_weights()[:len(plain.weights)])
    outputs, is_token = plain(batch), batch["input_mask"][..., None] > 0
    exit_logits = model(batch)["exit_logits"]
    for head, layer, logits in zip(model.exits, outputs["encoder_outputs"][inner_groups - 1::inner_groups],
                                   exit_logits):
        mean = np.mean(layer.numpy(), axis=1, where=is_token)
        np.testing.assert_allclose(logits, mean @ head.kernel.numpy().T + head.bias.numpy(), atol=1e-5)
    np.testing.assert_array_equal(exit_logits[-1], outputs["logits"])
    expected, layers = by_the_rule([logits.numpy() for logits in exit_logits], same_label, 2)
    stopped = early(model, exit_patience=2)(batch)
    np.testing.assert_array_equal(stopped[NUM_LAYERS_USED], layers)
    np.testing.assert_allclose(stopped["logits"], expected, atol=1e-5)


def test_an_unknown_pooling_of_exits_is_refused(config):
    with pytest.raises(ValueError, match="^exit_pooling must be one of mean, max, cls, pooler. Received: 'middle'"):
        AlbertClassifier(config, 3, exit_heads=True, exit_pooling="middle")
    with pytest.raises(ValueError, match="exit_pooling is for models with one vector for a text. Received: 'mean'"):
        AlbertTokenClassifier(config, 3, exit_heads=True, exit_pooling="mean")


@pytest.mark.both_stacks
@pytest.mark.parametrize("sharing", SHARING)
def test_labels_stop_by_the_rule_of_the_paper(config, batch, sharing):
    model = AlbertClassifier(config.replace(**SHARING[sharing]), 3, exit_heads=True)
    exit_logits, numbers = [logits.numpy() for logits in model(batch)["exit_logits"]], set()
    for patience in (1, 2, 4):
        logits, layers = by_the_rule(exit_logits, same_label, patience)
        outputs = early(model, exit_patience=patience)(batch)
        np.testing.assert_array_equal(outputs[NUM_LAYERS_USED], layers)
        np.testing.assert_allclose(outputs["logits"], logits, atol=1e-5)
        numbers.update(layers)
    assert len(numbers) > 2  # else the model is no test of the rule


def test_several_labels_agree_if_all_of_them_are_the_same(config, batch):
    model = AlbertClassifier(config, 3, exit_heads=True, multi_label=True, thresholds=(0.5, 0.4, 0.6))
    logits = [each.numpy() for each in model(batch)["exit_logits"]]

    def same_labels(before, after, example):
        thresholds = np.array([0.5, 0.4, 0.6])
        return ((1 / (1 + np.exp(-before)) >= thresholds) == (1 / (1 + np.exp(-after)) >= thresholds)).all()

    expected, layers = by_the_rule(logits, same_labels, 2)
    outputs = early(model, exit_patience=2)(batch)
    np.testing.assert_array_equal(outputs[NUM_LAYERS_USED], layers)
    np.testing.assert_allclose(outputs["logits"], expected, rtol=1e-4, atol=1e-5)
    assert 2 < np.mean(layers) < LAYERS


@pytest.mark.parametrize("per_layer", [False, True])
def test_adapters_count_in_predictions_that_stop_early(config, batch, per_layer):
    model = AlbertClassifier(config, 2, classifier_dropout_prob=0.0, exit_heads=True, exit_patience=LAYERS)
    random = np.random.default_rng(3)
    for adapter in add_adapters(model.albert, LoraOptions(2, per_layer=per_layer)):
        adapter.b.assign(random.normal(size=adapter.b.shape))
    exit_logits = model(batch, training=True)["exit_logits"]
    np.testing.assert_allclose(model(batch)["logits"], exit_logits[-1], rtol=1e-4, atol=1e-5)


@pytest.mark.both_stacks
def test_a_graph_for_any_shape_computes_the_same(config, batch):
    model = AlbertClassifier(config, 3, exit_heads=True)
    for patience in (1, LAYERS):
        stopping = early(model, exit_patience=patience)
        graph = tf.function(lambda inputs, model=stopping: model(inputs), autograph=False,
                            input_signature=[model.input_specs()])
        expected = stopping(batch)
        for name, value in graph({name: tf.constant(batch[name]) for name in ENCODER_INPUTS}).items():
            np.testing.assert_allclose(value, expected[name], atol=1e-5)
        assert graph.get_concrete_function().structured_outputs[NUM_LAYERS_USED].shape.as_list() == [None]


@pytest.mark.both_stacks
def test_a_graph_takes_any_number_of_windows(config, batch):
    model, inputs = AlbertClassifier(config, 3, exit_heads=True, exit_patience=1), in_rows(batch, 3)
    specs = {name: tf.TensorSpec([None, None, None], tf.int32) for name in ENCODER_INPUTS}
    outputs = tf.function(model, autograph=False, input_signature=[specs])(inputs)
    for name, value in model(inputs).items():
        np.testing.assert_allclose(outputs[name], value, atol=1e-5)


@pytest.mark.parametrize("kind", ["classifier", "regression", "windows", "choices", "tags"])
def test_an_example_that_leaves_its_batch_has_the_answer_that_it_has_alone(config, batch, kind):
    model, inputs = dict(
        classifier=lambda: (AlbertClassifier(config, 3, exit_heads=True), batch),
        regression=lambda: (AlbertClassifier(config, 1, exit_heads=True, exit_tolerance=0.2), batch),
        windows=lambda: (AlbertClassifier(config, 3, exit_heads=True, window_pooling="max"), in_rows(batch, 3)),
        choices=lambda: (AlbertMultipleChoice(config, exit_heads=True), in_rows(batch, 4)),
        tags=lambda: (AlbertTokenClassifier(config, 2, exit_heads=True), batch))[kind]()
    together = {name: value.numpy() for name, value in early(model, exit_patience=1)(inputs).items()}
    _, examples = np.unique(together[NUM_LAYERS_USED], return_index=True)
    assert len(examples) > 1
    for example in examples:  # one for each number of layers
        outputs = early(model, exit_patience=1)(alone(inputs, example))
        assert outputs[NUM_LAYERS_USED].numpy() == together[NUM_LAYERS_USED][example]
        np.testing.assert_allclose(outputs["logits"][0], together["logits"][example], atol=1e-5)


def test_scores_stop_when_they_differ_by_less_than_the_tolerance(config, batch):
    model = AlbertClassifier(config, 1, exit_heads=True)
    exit_logits = [logits.numpy() for logits in model(batch)["exit_logits"]]
    for tolerance in (0.05, 0.3):
        logits, layers = by_the_rule(exit_logits, lambda before, after, _, t=tolerance: abs(before - after)[0] < t, 2)
        outputs = early(model, exit_patience=2, exit_tolerance=tolerance)(batch)
        np.testing.assert_array_equal(outputs[NUM_LAYERS_USED], layers)
        np.testing.assert_allclose(outputs["logits"], logits, atol=1e-5)
    assert min(layers) < LAYERS


def test_the_windows_of_a_text_stop_together(config, batch):
    inputs = in_rows(batch, 3)
    model = AlbertClassifier(config, 3, exit_heads=True)
    exit_logits = [logits.numpy() for logits in model(inputs)["exit_logits"]]
    logits, layers = by_the_rule(exit_logits, same_label, 1)
    outputs = early(model, exit_patience=1)(inputs)
    np.testing.assert_array_equal(outputs[NUM_LAYERS_USED], layers)
    np.testing.assert_allclose(outputs["logits"], logits, atol=1e-5)


def test_a_row_of_tags_stops_when_all_of_its_tags_agree_without_those_of_special_tokens(config, batch):
    model = AlbertTokenClassifier(config, 2, exit_heads=True)
    exit_logits = [logits.numpy() for logits in model(batch)["exit_logits"]]
    last = batch["input_mask"].sum(axis=1) - 1  # the place of [SEP]

    def agree(before, after, example):
        return (before.argmax(-1) == after.argmax(-1))[1:last[example]].all()

    logits, layers = by_the_rule(exit_logits, agree, 1)
    outputs = early(model, exit_patience=1)(batch)
    np.testing.assert_array_equal(outputs[NUM_LAYERS_USED], layers)
    np.testing.assert_allclose(outputs["logits"], logits, atol=1e-5)
    assert len(set(layers)) > 1


def test_a_patience_that_is_never_reached_is_no_exit(config, batch):
    model = AlbertClassifier(config, 3, exit_heads=True)
    outputs = early(model, exit_patience=LAYERS)(batch)
    np.testing.assert_array_equal(outputs["logits"], model(batch)["logits"])
    np.testing.assert_array_equal(outputs[NUM_LAYERS_USED], [LAYERS] * 24)


def cross_entropy(logits, labels):
    log_probabilities = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    return -np.take_along_axis(log_probabilities, labels[..., None], axis=-1)[..., 0]


@pytest.mark.parametrize("kind", ["classifier", "regression", "tags"])
def test_the_loss_weights_each_layer_by_its_number(config, batch, kind):
    random = np.random.default_rng(3)
    if kind == "tags":
        task, labels = TaggingTask(AlbertTokenClassifier(config, 3, exit_heads=True)), random.integers(0, 4, [24, 12])
        batch = dict(batch, tag_ids=labels.astype(np.int32))
        losses = [cross_entropy(logits.numpy(), np.maximum(labels - 1, 0))[labels > 0].mean()
                  for logits in task.model(batch)["exit_logits"]]
    elif kind == "regression":
        task, labels = ClassificationTask(AlbertClassifier(config, 1, exit_heads=True), True), random.normal(size=24)
        batch = dict(batch, label_ids=labels.astype(np.float32))
        losses = [np.square(logits.numpy()[:, 0] - labels).mean() for logits in task.model(batch)["exit_logits"]]
    else:
        task, labels = ClassificationTask(AlbertClassifier(config, 3, exit_heads=True)), random.integers(0, 3, 24)
        batch = dict(batch, label_ids=labels.astype(np.int32))
        losses = [cross_entropy(logits.numpy(), labels).mean() for logits in task.model(batch)["exit_logits"]]
    loss, _ = loss_over_exits(task.loss, task.model(batch), batch, task.loss_denominators(batch))
    assert float(loss) == pytest.approx(np.average(losses, weights=range(1, LAYERS + 1)), rel=1e-5)


def test_training_uses_all_layers_with_dropout_and_trains_every_head(config, batch):
    model = AlbertClassifier(config, 3, exit_heads=True, exit_patience=1)
    batch = dict(batch, label_ids=np.arange(24, dtype=np.int32) % 3, dropout_seed=[1, 2])
    task = ClassificationTask(model)
    with tf.GradientTape() as tape:
        outputs = model(batch, training=True)
        loss, _ = loss_over_exits(task.loss, outputs, batch, task.loss_denominators(batch))
    assert NUM_LAYERS_USED not in outputs and len(outputs["exit_logits"]) == LAYERS
    gradients = tape.gradient(loss, model.trainable_variables)
    assert all(gradient is not None for gradient in gradients)


def test_the_variables_of_a_model_without_exits_come_first_and_the_others_are_named_for_their_layer(config):
    plain = [variable.name for variable in AlbertClassifier(config, 3).weights]
    names = [variable.name for variable in AlbertClassifier(config, 3, exit_heads=True).weights]
    assert names[:len(plain)] == plain
    assert names[len(plain):] == [f"exit_heads/layer_{layer}/output_{part}:0" for layer in range(1, LAYERS)
                                  for part in ("weights", "bias")]


def test_keras_predicts_evaluates_and_copies_a_model_with_a_patience(config, batch):
    model = AlbertClassifier(config, 3, exit_heads=True, exit_patience=1)
    model.compile("sgd", "sparse_categorical_crossentropy", run_eagerly=True)
    predicted = model.predict(batch, verbose=0, batch_size=12)
    assert set(predicted) == {"logits", NUM_LAYERS_USED}
    np.testing.assert_array_equal(predicted[NUM_LAYERS_USED], model(batch)[NUM_LAYERS_USED])
    model.evaluate(batch, np.zeros(24), verbose=0)
    copy = AlbertClassifier.from_config(model.get_config())
    copy.set_weights(model.get_weights())
    np.testing.assert_array_equal(copy(batch)["logits"], model(batch)["logits"])


@pytest.mark.parametrize("arguments, message", [
    (dict(exit_patience=0), "exit_patience must be a whole number from 1 to 1,000. Received: exit_patience=0"),
    (dict(exit_patience=7), "exit_patience must be a whole number from 1 to 6. Received: exit_patience=7"),
    (dict(exit_patience=True), "exit_patience must be a whole number"),
    (dict(exit_tolerance=-1.0), "exit_tolerance must be a number from 0 to inf. Received: -1"),
    (dict(exit_patience=2, exit_heads=False), "exit_patience needs a model that was trained with exit heads"),
])
def test_a_wrong_argument_is_named(config, arguments, message):
    with pytest.raises(ValueError, match=message):
        AlbertClassifier(config, 3, **{"exit_heads": True, **arguments})


def test_exit_heads_need_two_layers(config):
    with pytest.raises(ValueError, match="exit heads need a model of at least 2 layers"):
        AlbertClassifier(config.replace(num_hidden_layers=1), 3, exit_heads=True)
