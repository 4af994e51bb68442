"""Pre-training records are checked before a run. An error names the file."""

import collections
import contextlib
import math

import numpy as np
import pytest
import tensorflow as tf
from synthetic_records import FIRST_ID, VOCAB_SIZE, example, write_records

from albert_tf.data.feature_table import FeatureSchema, FeatureTable
from albert_tf.data.records import RecordFile, record_writer, serialize
from albert_tf.pretraining.examples import MaskingOptions
from albert_tf.pretraining.packed_rows import TEXTS, packed
from albert_tf.pretraining.reading import (
    TrainingBatches,
    check_tokenizer,
    frequency_baseline,
    lengths_of_records,
    open_records,
)
from albert_tf.text.tokenization import FullTokenizer, tokenizer_key

WHOLE = tf.distribute.InputContext()
# Bytes that are no tf.Example, and no UTF-8 that TensorFlow's message could quote.
JUNK = bytes(range(128, 256))


def write(path, content, **made_from) -> str:
    with record_writer(str(path), made_from) as writer:
        for record in content:
            writer.write(record)
    return str(path)


def records() -> list[bytes]:
    rng = np.random.default_rng(0)
    return [serialize(**example(rng, 16, MaskingOptions(3))[0]) for _ in range(2)]


@pytest.mark.parametrize("changes, message", [
    (dict(input_ids=VOCAB_SIZE), f"x.tfrecord was made with another vocabulary: it has id {VOCAB_SIZE}"),
    (dict(input_ids=-1), "x.tfrecord .*input_ids must be from 0 to 59. Received: -1"),
    (dict(masked_lm_ids=2**40), "masked_lm_ids must be from 0 to 59. Received: 1099511627776"),
    (dict(masked_lm_positions=16), "masked_lm_positions must be from 0 to 15. Received: 16"),
    *((dict([(name, value)]), f"{name} must be from 0 to 1. Received: {value}")
      for name, value in (("token_boundary", 5), ("input_mask", -1), ("next_sentence_labels", 2)))])
def test_values_that_a_record_cannot_have_are_refused_by_file_and_name(tmp_path, changes, message):
    good, changed = records()
    changed = tf.train.Example.FromString(changed)
    for name, value in changes.items():
        changed.features.feature[name].int64_list.value[0] = value
    path = write(tmp_path / "x.tfrecord", [good, changed.SerializeToString()])
    with pytest.raises(ValueError, match=message):
        open_records([path], 16, 3, VOCAB_SIZE)


def test_the_error_of_a_wrong_example_names_the_file(tmp_path):
    path = write(tmp_path / "x.tfrecord", [*records(), JUNK])
    with pytest.raises(ValueError, match="x.tfrecord does not hold pre-training records of max_seq_length 16"):
        open_records([path], 16, 3, VOCAB_SIZE)
    path = write(tmp_path / "junk.tfrecord", [JUNK])
    with pytest.raises(ValueError, match="junk.tfrecord does not hold records .*: a record is not a tf.Example$"):
        FeatureTable.from_records(RecordFile(path, 1, {}), FeatureSchema(16, dict(label_ids=tf.int32)))


@pytest.mark.parametrize("made_from", [dict(objective="clm"), dict(objective=["sop"]), dict(objective=None)])
def test_an_objective_that_there_is_not_is_refused_by_manifest(tmp_path, made_from):
    path = write(tmp_path / "x.tfrecord", records(), **made_from)
    with pytest.raises(ValueError, match="x.manifest.json: objective must be one of sop, nsp, none. Received: "):
        open_records([path], 16, 3, VOCAB_SIZE)


def test_records_of_another_number_of_pieces_are_warned_of_unless_the_vocabulary_is_the_same(
        sentence_pieces, tmp_path, caplog):
    paths = [write(tmp_path / f"{name}.tfrecord", records(), vocab_size=VOCAB_SIZE) for name in "xy"]
    files = open_records(paths, 16, 3, VOCAB_SIZE).files
    check_tokenizer(files, None, VOCAB_SIZE)
    path = write(tmp_path / "z.tfrecord", records(), vocab_size=VOCAB_SIZE, **tokenizer_key(sentence_pieces))
    check_tokenizer(open_records([path], 16, 3, 64).files, sentence_pieces, 64)
    assert not caplog.messages
    for known in (None, sentence_pieces):
        check_tokenizer(files, known, 64)
    assert [message.startswith(f"{paths[0]} was made with a vocabulary of {VOCAB_SIZE} pieces")
            for message in caplog.messages] == [True, True]


@pytest.mark.parametrize("vocabulary, options, message", [
    ("tiny_spm/tiny.model", {}, None),
    ("accents/spiece.model", {}, r"was not made with .*accents/spiece.model"),
    ("tiny_spm/tiny.model", dict(do_lower_case=False), "was made with --do_lower_case=True"),
    ("tiny_spm/tiny.model", dict(keep_accents=False), "was made with --keep_accents=True")])
def test_records_of_another_tokenizer_are_refused(golden, tmp_path, vocabulary, options, message):
    options_of_records = dict(do_lower_case=True, keep_accents=True)
    of_records = FullTokenizer(spm_model_file=str(golden / "tiny_spm/tiny.model"), **options_of_records)
    paths = [write(tmp_path / "unknown.tfrecord", records()),
             write(tmp_path / "x.tfrecord", records(), **tokenizer_key(of_records))]
    tokenizer = FullTokenizer(spm_model_file=str(golden / vocabulary), **{**options_of_records, **options})
    files = open_records(paths, 16, 3, VOCAB_SIZE).files
    with pytest.raises(ValueError, match=f"{paths[1]} {message}") if message else contextlib.nullcontext():
        check_tokenizer(files, tokenizer, VOCAB_SIZE)


def test_the_length_of_records_is_read_from_the_first_one(tmp_path):
    assert lengths_of_records(write_records(tmp_path / "x.tfrecord", 3, 24, 5)) == (24, 5)
    assert lengths_of_records(write(tmp_path / "junk.tfrecord", [JUNK])) is None


def test_the_baseline_knows_how_frequent_pieces_are_and_counts_no_special_tokens(tmp_path):
    """Sets of records with as many positions as tokens; the counts are made from the ids before masking."""
    sets, texts, masked = [], [], []
    for seed, count in ((1, 30), (2, 20)):
        rng = np.random.default_rng(seed)
        rows = [example(rng, 16, MaskingOptions(3)) for _ in range(count)]
        path = write(tmp_path / f"{seed}.tfrecord", [serialize(**features) for features, *_ in rows])
        sets.append(open_records([path], 16, 3, VOCAB_SIZE))
        texts.append([piece for _, ids, _ in rows for piece in ids.tolist() if piece >= FIRST_ID])
        masked.append([piece for features, *_ in rows for piece, weight
                       in zip(features["masked_lm_ids"].tolist(), features["masked_lm_weights"]) if weight])
    counts = collections.Counter({piece: 1 for piece in range(VOCAB_SIZE)})
    counts.update(texts[0])
    best, total = counts.most_common(1)[0][0], sum(counts.values())
    accuracy, loss = frequency_baseline(*sets, VOCAB_SIZE)
    assert accuracy == pytest.approx(np.mean([piece == best for piece in masked[1]]))
    assert loss == pytest.approx(-np.mean([math.log(counts[piece] / total) for piece in masked[1]]))


@pytest.mark.parametrize("share", [0.3, 0.1])
def test_batches_have_the_requested_share_of_masks_and_do_not_depend_on_where_reading_began(tmp_path, share):
    records = open_records([write_records(tmp_path / "x.tfrecord", 30, 16, 5)], 16, 5, VOCAB_SIZE)
    batches = TrainingBatches(records, 8, seed=1)
    batches.draw_masks(VOCAB_SIZE, share)
    whole = list(batches.from_step(0, WHOLE).take(8).as_numpy_iterator())
    for first_step in (1, 6):
        later = batches.from_step(first_step, WHOLE).take(8 - first_step).as_numpy_iterator()
        for batch, expected in zip(later, whole[first_step:], strict=True):
            assert all(np.array_equal(batch[name], values) for name, values in expected.items())
    for batch in whole:
        goals = np.clip(np.round(batch["input_mask"].sum(axis=1) * share), 1, None)
        masked = batch["masked_lm_weights"].sum(axis=1)
        assert (masked <= goals).all() and masked.sum() >= 0.8 * goals.sum()


def test_packed_rows_do_not_depend_on_replicas_and_on_where_reading_began(tmp_path):
    records = open_records([write_records(tmp_path / "x.tfrecord", 60, 32, 5, shortest=5)], 32, 5, VOCAB_SIZE)
    batches = TrainingBatches(records, 16, seed=1)
    batches.pack_rows(length=1, multiple=2)
    whole = list(batches.from_step(0, WHOLE).take(6).as_numpy_iterator())
    assert {len(batch["input_ids"]) for batch in whole} <= {8, 10, 12, 14}
    two = tf.distribute.InputContext(num_input_pipelines=2, input_pipeline_id=1, num_replicas_in_sync=2)
    for first_step, context in ((4, WHOLE), (4, two)):
        for batch, expected in zip(batches.from_step(first_step, context).take(2).as_numpy_iterator(), whole[4:]):
            for name, values in expected.items():
                np.testing.assert_array_equal(batch[name], values[len(values) // 2 :] if context is two else values)


def test_a_row_has_no_more_texts_and_predictions_than_it_has_room_for():
    """Ten examples of three tokens and two or no predictions, in rows of 32 tokens and five predictions."""
    ids = np.tile(np.arange(32) < 3, [10, 1]).astype(np.int32)
    masked = np.tile(np.arange(5) < 2, [10, 1])
    batch = dict(input_ids=ids, input_mask=ids, segment_ids=ids, masked_lm_positions=masked.astype(np.int32),
                 masked_lm_ids=masked.astype(np.int32), next_sentence_labels=np.ones([10, 1], np.int32))
    for weights, texts in ((masked, [2] * 5), (np.zeros([10, 5]), [TEXTS, TEXTS, 2])):
        found = packed(dict(batch, masked_lm_weights=weights.astype(np.float32)))
        np.testing.assert_array_equal(np.sum(found["next_sentence_labels"], axis=1), texts)
        np.testing.assert_array_equal(found["text_starts"][:, -1], 3 * np.array(texts))
