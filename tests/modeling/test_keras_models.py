"""The models as Keras users use them: saved and loaded, cloned, compiled and fitted, as a layer of another model."""

import contextlib

import numpy as np
import pytest
import tensorflow as tf
import tiny

from albert_tf import keras
from albert_tf.export.conversion import save_pretrained
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.classifier import AlbertClassifier, AlbertMultipleChoice, AlbertTokenClassifier
from albert_tf.modeling.encoder import AttentionBlock
from albert_tf.modeling.layers import layers_in
from albert_tf.modeling.pretrainer import AlbertPretrainer
from albert_tf.modeling.sentence_encoder import AlbertSentenceEncoder
from albert_tf.modeling.span import AlbertConditionalSpan, AlbertSpan
from albert_tf.training.optimizer import ReleaseOptimizer, create_optimizer, learning_rate_schedule
from albert_tf.weights.from_pretrained import from_pretrained

pytestmark = pytest.mark.both_stacks

TINY = tiny.TINY.replace(max_position_embeddings=8, initializer_range=0.2)
MODELS = {
    "encoder": lambda: AlbertModel(TINY, name="my_albert"),
    "sentence_encoder": lambda: AlbertSentenceEncoder(TINY, "max", normalize=True, max_seq_length=6),
    "classifier": lambda: AlbertClassifier(TINY, num_labels=3, classifier_dropout_prob=0.3),
    "token_classifier": lambda: AlbertTokenClassifier(TINY, 3, label_names=["O", "B-place", "I-place"]),
    "span": lambda: AlbertSpan(TINY),
    "conditional_span": lambda: AlbertConditionalSpan(TINY, start_n_top=2, end_n_top=3),
    "multiple_choice": lambda: AlbertMultipleChoice(TINY, num_choices=2),
    "pretrainer": lambda: AlbertPretrainer(TINY.replace(cross_layer_sharing="none")),
}
SparseCrossEntropy = keras.losses.SparseCategoricalCrossentropy


def features(kind=None, rows=16, seq=6):
    """Rows whose label is whether their first piece is above 9; [rows, seq] each, of multiple choice [rows, 2, seq]."""
    random = np.random.default_rng(1)
    shape = [rows, 2, seq] if kind == "multiple_choice" else [rows, seq]
    inputs = dict(input_ids=random.integers(0, 20, shape, np.int32), input_mask=np.ones(shape, np.int32),
                  segment_ids=np.zeros(shape, np.int32))
    if kind == "pretrainer":
        inputs["masked_lm_positions"] = random.integers(0, seq, [rows, 2], np.int32)
    if kind == "conditional_span":
        inputs["p_mask"] = np.zeros(shape, np.int32)
    return inputs


def labels_of(inputs):
    return (inputs["input_ids"][:, 0] > 9).astype(np.int32)


@pytest.mark.parametrize("kind", MODELS)
def test_a_saved_model_is_loaded_with_the_same_config_and_outputs(tmp_path, kind):
    model, inputs = MODELS[kind](), features(kind)
    before = model(inputs)
    model.save(tmp_path / "model.keras")
    assert {name: spec.shape.as_list() for name, spec in model.input_specs(16, 6, 2).items()} == {
        name: list(value.shape) for name, value in inputs.items()}
    again = keras.models.load_model(tmp_path / "model.keras")
    assert again.get_config() == type(model).from_config(model.get_config()).get_config() == model.get_config()
    assert [(v.name, v.shape) for v in again.weights] == [(v.name, v.shape) for v in model.weights]
    assert type(again) is type(model) and again.config == model.config and again.name == model.name
    after = again(inputs)
    assert before.keys() == after.keys()
    for name in before:
        for old, new in zip(tf.nest.flatten(before[name]), tf.nest.flatten(after[name])):
            np.testing.assert_array_equal(old, new, err_msg=name)


def test_a_clone_has_separate_weights_and_the_summary_their_number():
    model = MODELS["classifier"]()
    clone = keras.models.clone_model(model)
    assert clone.get_config() == model.get_config()
    clone.set_weights(model.get_weights())
    inputs = features()
    np.testing.assert_array_equal(clone(inputs)["logits"], model(inputs)["logits"])
    clone.classifier.kernel.assign_add(tf.ones_like(clone.classifier.kernel))
    assert not np.array_equal(clone(inputs)["logits"], model(inputs)["logits"])
    lines: list = []
    model.summary(print_fn=lines.append)
    assert any(f"{model.count_params():,}" in line for line in lines)
    assert not any("unused" in line or "not built" in line for line in lines)
    model.trainable = False
    assert not AlbertClassifier.from_config(model.get_config()).trainable_weights


@pytest.mark.long
def test_as_a_saved_model_it_serves_what_it_computes(tmp_path):
    model, inputs = MODELS["classifier"](), features()
    expected = model(inputs)["logits"]
    model.export(str(tmp_path / "exported"))
    exported = tf.saved_model.load(str(tmp_path / "exported"))
    served = exported.serve({name: tf.constant(value) for name, value in inputs.items()})
    assert served.keys() == {"logits"}
    np.testing.assert_allclose(served["logits"], expected, atol=1e-6)
    if not keras.is_keras_3():
        model.save(str(tmp_path / "saved"), save_format="tf")
        again = keras.models.load_model(str(tmp_path / "saved"))
        np.testing.assert_allclose(again(inputs)["logits"], expected, atol=1e-6)


def test_a_classifier_learns_by_compile_and_fit_with_a_loss_or_one_by_output():
    keras.utils.set_random_seed(1)
    model, inputs = AlbertClassifier(TINY, num_labels=2, classifier_dropout_prob=0.0), features(rows=64)
    labels, weights = labels_of(inputs), np.linspace(0, 1, 64)
    model.compile(keras.optimizers.Adam(5e-3), loss=SparseCrossEntropy(from_logits=True), metrics=["accuracy"])
    history = model.fit(inputs, labels, batch_size=16, epochs=12, verbose=0)
    assert history.history["loss"][-1] < 0.5 * history.history["loss"][0]
    predicted = model.predict(inputs, verbose=0)
    assert predicted.keys() == {"logits"}
    accuracy = np.mean(predicted["logits"].argmax(-1) == labels)
    log_probs = tf.nn.log_softmax(predicted["logits"]).numpy()[np.arange(64), labels]
    assert accuracy > 0.9
    by_output = {"logits": SparseCrossEntropy(from_logits=True)}
    for loss, metrics, given in ((SparseCrossEntropy(from_logits=True), ["accuracy"], labels),
                                 (by_output, {"logits": ["accuracy"]}, labels), (by_output, None, {"logits": labels})):
        model.compile(loss=loss, metrics=metrics)
        results = model.evaluate(inputs, given, sample_weight=weights, batch_size=64, verbose=0, return_dict=True)
        assert results["loss"] == pytest.approx(-np.mean(weights * log_probs), abs=1e-6)
        assert not metrics or accuracy == pytest.approx(next(
            value for name, value in results.items() if name.endswith("accuracy")))


def test_save_pretrained_leaves_out_the_optimizer_of_a_fitted_model(tmp_path):
    model, inputs = AlbertClassifier(TINY, num_labels=2), features()
    block, = (layer for layer in layers_in(model) if isinstance(layer, AttentionBlock))
    block.trainable = False  # changes the order of model.weights
    model.compile(keras.optimizers.Adam(1e-3), SparseCrossEntropy(from_logits=True))
    model.fit(inputs, labels_of(inputs), verbose=0)
    save_pretrained(model, str(tmp_path / "model"))
    stored = [name for name, _ in tf.train.list_variables(str(tmp_path / "model/model.ckpt-best"))]
    assert not [name for name in stored if "optimizer" in name]
    read = from_pretrained(str(tmp_path / "model"), "classifier")
    np.testing.assert_array_equal(model(inputs)["logits"], read(inputs)["logits"])


def test_spans_are_fitted_to_starts_and_ends_by_name_and_regressions_to_numbers():
    model, inputs = AlbertSpan(TINY), features()
    labels = dict(start_logits=np.arange(16) % 6, end_logits=np.arange(16) % 3)
    model.compile(loss=SparseCrossEntropy(from_logits=True))
    results = model.evaluate(inputs, labels, batch_size=16, verbose=0, return_dict=True)
    outputs = model(inputs)
    expected = {name: np.mean(-tf.nn.log_softmax(outputs[name]).numpy()[np.arange(16), label])
                for name, label in labels.items()}
    assert results["loss"] == pytest.approx(sum(expected.values()), abs=1e-5)
    model.compile(keras.optimizers.Adam(1e-3), loss=SparseCrossEntropy(from_logits=True))
    assert np.isfinite(model.fit(inputs, labels, verbose=0).history["loss"][-1])
    regression = AlbertClassifier(TINY, num_labels=1, classifier_dropout_prob=0.0)
    regression.compile(keras.optimizers.Adam(5e-3), loss="mse")
    losses = regression.fit(inputs, labels_of(inputs).astype(np.float32), epochs=12, verbose=0).history["loss"]
    assert losses[-1] < 0.7 * losses[0]


def test_as_a_layer_of_a_functional_model_it_has_gradients(tmp_path):
    keras.utils.set_random_seed(1)
    tensors = {name: keras.Input([6], dtype="int32", name=name) for name in ("input_ids", "input_mask", "segment_ids")}
    pooled = AlbertModel(TINY)(tensors)["pooled_output"]
    model = keras.Model(tensors, keras.layers.Dense(1, activation="sigmoid")(pooled))
    inputs = features(rows=64)
    labels = labels_of(inputs)
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(keras.losses.binary_crossentropy(labels[:, None], model(inputs, training=True)))
    gradients = tape.gradient(loss, model.trainable_variables)
    assert len(gradients) == len(AlbertModel(TINY).trainable_variables) + 2
    assert all(gradient is not None for gradient in gradients)
    model.compile(keras.optimizers.Adam(5e-3), loss="binary_crossentropy")
    history = model.fit(inputs, labels, epochs=12, batch_size=16, verbose=0)
    assert history.history["loss"][-1] < 0.5 * history.history["loss"][0]
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(again(inputs), model(inputs))


@pytest.mark.parametrize("precision", ["float32", "mixed_float16"])
def test_within_a_users_model_it_trains_by_our_optimizer_and_is_saved_with_its_state(tmp_path, policy, precision):
    policy(precision)
    keras.utils.set_random_seed(1)
    inputs = features(rows=64)

    @keras.saving.register_keras_serializable(package="test")
    class Users(keras.Model):
        def __init__(self, encoder=None, **arguments):
            super().__init__(**arguments)
            self.encoder = encoder or AlbertModel(TINY)
            self.head = keras.layers.Dense(2, dtype="float32")
            self.head.build([None, TINY.hidden_size])
            self.built = True

        def call(self, inputs, training=False):
            return self.head(self.encoder(inputs, training=training)["pooled_output"])

        def get_config(self):
            return dict(name=self.name, encoder=keras.saving.serialize_keras_object(self.encoder))

        @classmethod
        def from_config(cls, config):
            return cls(keras.saving.deserialize_keras_object(config.pop("encoder")), **config)

    def fit(model, epochs):
        # A float, since Keras' callbacks set it; a schedule is trained in the tests of the optimizer.
        return model.fit(inputs, labels_of(inputs), batch_size=16, epochs=epochs, shuffle=False, verbose=0).history

    model = Users()
    model.compile(ReleaseOptimizer(5e-3, exclude_from_layer_adaptation=[".*"], bias_correction=True),
                  SparseCrossEntropy(from_logits=True))
    before = [variable.numpy() for variable in model.encoder.weights]
    losses = fit(model, 12)["loss"]
    assert losses[-1] < 0.5 * losses[0]
    assert not any(np.array_equal(*pair) for pair in zip(before, model.encoder.weights))
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(again(inputs), model(inputs))
    assert fit(again, 1)["loss"] == fit(model, 1)["loss"]


@pytest.mark.parametrize("optimizer", [
    lambda: create_optimizer("adamw", 5e-3, num_train_steps=8, num_warmup_steps=3),
    lambda: ReleaseOptimizer(keras.optimizers.schedules.CosineDecay(5e-3, 8)),
    lambda: keras.optimizers.Adam(learning_rate_schedule(5e-3, 8, 3)),
], ids=["ours", "Keras' schedule", "Keras' optimizer"])
def test_fit_takes_the_steps_of_a_loop_by_hand_on_one_device_and_on_two(optimizer, mirrored):
    inputs = features(rows=64)
    labels, loss_of = labels_of(inputs), SparseCrossEntropy(from_logits=True)
    by_hand = AlbertClassifier(TINY, num_labels=2)
    start, updates = by_hand.get_weights(), optimizer()
    for rows in np.split(np.arange(64), 4):
        with tf.GradientTape() as tape:
            logits = by_hand({name: value[rows] for name, value in inputs.items()})["logits"]
            loss = loss_of(labels[rows], logits)
        variables = by_hand.trainable_variables
        updates.apply_gradients(zip(tape.gradient(loss, [keras.tf_variable(each) for each in variables]), variables))
    for scope in (contextlib.nullcontext(), mirrored.scope()):
        with scope:
            model = AlbertClassifier(TINY.replace(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0), 2,
                                     classifier_dropout_prob=0.0)
            model.set_weights(start)
            model.compile(optimizer(), loss_of)
        model.fit(inputs, labels, batch_size=16, shuffle=False, verbose=0)
        for value, expected in zip(model.get_weights(), by_hand.get_weights()):
            np.testing.assert_allclose(value, expected, atol=2e-5)


@pytest.mark.parametrize("texts", [["a text"], np.array(["a text"]), lambda: tf.constant(["a text"])])
def test_a_model_that_gets_texts_says_to_call_the_tokenizer(texts):
    model = MODELS["classifier"]()
    for use in (model,) if keras.is_keras_3() else (model, model.predict):  # Keras 3 has its own error for data
        with pytest.raises(ValueError, match="takes a dict of input_ids, .*, which the tokenizer makes of texts"):
            use(texts() if callable(texts) else texts)
