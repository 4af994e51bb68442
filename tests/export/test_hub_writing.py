"""Exported TF-Hub modules: their functions, and the release's signatures."""

import numpy as np
import pytest
import tensorflow as tf
from tiny import TINY_TEXT

from albert_tf import keras
from albert_tf.export.tf_hub import export_encoder, export_preprocessing
from albert_tf.modeling.pretrainer import AlbertPretrainer
from albert_tf.text.packing import PairPacker
from albert_tf.text.tokenization import FullTokenizer
from albert_tf.weights.stored_model import open_model

pytestmark = [pytest.mark.both_stacks, pytest.mark.long]

HUB_NAMES = dict(input_ids="input_word_ids", input_mask="input_mask", segment_ids="input_type_ids")


@pytest.fixture(scope="module")
def model(sentence_pieces):
    keras.utils.set_random_seed(1)
    return AlbertPretrainer(TINY_TEXT.replace(num_hidden_layers=3, hidden_dropout_prob=0.5))


@pytest.fixture(scope="module")
def modules(sentence_pieces, model, tmp_path_factory):
    """(the folder of the encoder, the folder of the preprocessing)"""
    folder = tmp_path_factory.mktemp("modules")
    export_encoder(str(folder / "encoder"), model, sentence_pieces)
    export_preprocessing(str(folder / "preprocess"), sentence_pieces)
    return str(folder / "encoder"), str(folder / "preprocess")


@pytest.fixture(scope="module")
def batch(sentence_pieces):
    random = np.random.default_rng(1)
    mask = np.ones([3, 12], np.int32)
    mask[1, 7:] = 0
    return dict(input_ids=random.integers(0, sentence_pieces.vocab_size, [3, 12], np.int32), input_mask=mask,
                segment_ids=random.integers(0, 2, [3, 12], np.int32))


def hub_inputs(batch):
    return {HUB_NAMES[name]: tf.constant(rows) for name, rows in batch.items()}


def test_the_outputs_are_the_models(modules, model, batch):
    expected = model.albert(batch)
    outputs = tf.saved_model.load(modules[0])(hub_inputs(batch))
    assert set(outputs) == {"default", "pooled_output", "sequence_output", "encoder_outputs"}
    for name in ("pooled_output", "sequence_output"):
        np.testing.assert_allclose(outputs[name], expected[name], atol=1e-5)
    np.testing.assert_array_equal(outputs["default"], outputs["pooled_output"])
    assert len(outputs["encoder_outputs"]) == 3
    for ours, theirs in zip(outputs["encoder_outputs"], expected["encoder_outputs"]):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_tensorflow_hub_can_fine_tune_it(modules, model, batch):
    hub = pytest.importorskip("tensorflow_hub")
    layer = hub.KerasLayer(modules[0], trainable=True)
    inputs = {name: keras.Input([None], dtype=tf.int32, name=name) for name in HUB_NAMES.values()}
    classifier = keras.Model(inputs, keras.layers.Dense(2)(layer(inputs)["pooled_output"]))
    assert len(layer.trainable_variables) == len(model.albert.trainable_variables)
    before = [variable.numpy() for variable in layer.trainable_variables]
    classifier.compile(keras.optimizers.SGD(0.01), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    examples = hub_inputs(batch), np.array([0, 1, 0])
    loss = classifier.evaluate(*examples, verbose=0)  # without dropout
    classifier.fit(*examples, epochs=30, batch_size=3, verbose=0)
    assert classifier.evaluate(*examples, verbose=0) < loss
    unchanged = {variable.name for variable, old in zip(layer.trainable_variables, before)
                 if np.array_equal(variable.numpy(), old)}
    assert all("self/key/bias" in name for name in unchanged)  # the one that nothing depends on


def test_the_signatures_are_the_releases(modules, model, batch, sentence_pieces):
    signatures = tf.saved_model.load(modules[0]).signatures
    assert set(signatures) == {"tokens", "mlm", "sop", "tokenization_info"}
    positions = np.array([[1, 2], [3, 4], [0, 0]], np.int32)
    expected = model(dict(batch, masked_lm_positions=positions))
    tensors = {name: tf.constant(rows) for name, rows in batch.items()}
    tokens, sop = signatures["tokens"](**tensors), signatures["sop"](**tensors)
    mlm = signatures["mlm"](mlm_positions=tf.constant(positions), **tensors)
    for outputs in (tokens, sop, mlm):
        for name in ("pooled_output", "sequence_output"):
            np.testing.assert_allclose(outputs[name], expected[name], atol=1e-5)
    assert set(tokens) == {"pooled_output", "sequence_output"}
    np.testing.assert_allclose(mlm["mlm_logits"], tf.reshape(expected["mlm_logits"], [6, -1]), atol=1e-5)
    np.testing.assert_allclose(sop["sop_log_probs"], tf.nn.log_softmax(expected["sop_logits"]), atol=1e-5)
    info = signatures["tokenization_info"]()
    assert info["do_lower_case"].numpy()
    with open(info["vocab_file"].numpy(), "rb") as found, open(sentence_pieces.vocabulary_file, "rb") as given:
        assert found.read() == given.read()


@pytest.mark.parametrize("seq_length", [9, 40])
def test_the_preprocessing_packs_pairs_to_any_length(modules, sentence_pieces, seq_length):
    pairs = [("The name", "of the file"), ("of " * 30, "the " * 20)]
    preprocess = tf.saved_model.load(modules[1])
    found = preprocess.bert_pack_inputs([preprocess.tokenize(tf.constant(column)) for column in zip(*pairs)],
                                        tf.constant(seq_length))
    packer = PairPacker(sentence_pieces, seq_length)
    rows = [packer.pack(sentence_pieces.encode(a), sentence_pieces.encode(b)) for a, b in pairs]
    for ours, hub_name in HUB_NAMES.items():
        np.testing.assert_array_equal(found[hub_name], [row[ours] for row in rows])


def test_the_preprocessing_gives_rows_of_128_and_the_special_ids(modules, sentence_pieces):
    texts, preprocess = ["The name of the FILE.", "", "a " * 200], tf.saved_model.load(modules[1])
    found = preprocess(tf.constant(texts))
    rows = [PairPacker(sentence_pieces, 128).pack(sentence_pieces.encode(text)) for text in texts]
    for ours, hub_name in HUB_NAMES.items():
        np.testing.assert_array_equal(found[hub_name], [row[ours] for row in rows])
    special = preprocess.tokenize.get_special_tokens_dict()
    assert {name: int(value) for name, value in special.items()} == dict(
        start_of_sequence_id=sentence_pieces.cls_id, end_of_segment_id=sentence_pieces.sep_id,
        padding_id=sentence_pieces.pad_id, mask_id=sentence_pieces.mask_id, vocab_size=sentence_pieces.vocab_size)


def test_an_encoder_alone_has_no_signatures_of_heads_and_a_later_export_keeps_its_card(tmp_path, model, tiny_spm):
    options = dict(do_lower_case=False, keep_accents=True)
    tokenizer = FullTokenizer(spm_model_file=tiny_spm, **options)
    for text in ("mine", None):
        export_encoder(str(tmp_path), model.albert, tokenizer)
        if text:
            (tmp_path / "README.md").write_text(text)
    assert (tmp_path / "README.md").read_text() == "mine"
    assert set(tf.saved_model.load(str(tmp_path)).signatures) == {"tokens", "tokenization_info"}
    found = open_model(str(tmp_path)).vocabulary.tokenizer()
    assert dict(do_lower_case=found.do_lower_case, keep_accents=found.keep_accents) == options
