"""Serialized examples equal those of tf.train.Example, byte for byte; and the record of an example by a schema."""

import numpy as np
import tensorflow as tf
from feature_tables import MAX_SEQ_LENGTH, features

from albert_tf.data.feature_table import TOKENS, FeatureSchema
from albert_tf.data.records import example, float_feature, int64_feature, serialize, varints


def message(**features) -> bytes:
    """The bytes of the protobuf message."""
    record = tf.train.Example()
    for name, values in features.items():
        kind = "float_list" if isinstance(values[0], float) else "int64_list"
        getattr(record.features.feature[name], kind).value.extend(values)
    return record.SerializeToString(deterministic=True)


def test_numbers_of_any_size_are_written_as_protobuf_writes_them():
    values = [0, 1, 127, 128, 16383, 16384, 65535, 65536, 2**31, 2**63 - 1, -1, -(2**63)]
    assert example(dict(x=int64_feature(varints(values)))) == message(x=values)
    assert example(dict(x=int64_feature(varints(np.array(values))))) == message(x=values)


def test_features_are_in_the_order_of_their_names():
    ours = example(dict(b=float_feature([0.5, -3.1]), a=int64_feature(varints([7] * 300))))
    assert ours == message(a=[7] * 300, b=[0.5, -3.1])


def test_lists_and_arrays_become_features_of_their_type():
    ours = serialize(ids=np.array([3, -1], np.int32),
                     weights=np.array([0.25, 1.0], np.float32), labels=[1], scores=[0.5])
    assert ours == message(ids=[3, -1], weights=[0.25, 1.0], labels=[1], scores=[0.5])


def test_a_schemas_record_is_the_message_of_its_padded_features_however_they_come():
    schema = FeatureSchema(MAX_SEQ_LENGTH, dict(label_ids=tf.float32, unique_id=tf.int32), dict(TOKENS, p_mask=1))
    for row in features(5):
        count = sum(row["input_mask"])
        p_mask = [0, 1] * MAX_SEQ_LENGTH
        row = dict(row, p_mask=p_mask[:count] + [1] * (MAX_SEQ_LENGTH - count), label_ids=2.75, unique_id=10**9)
        expected = message(**{name: value if isinstance(value, list) else [value] for name, value in row.items()})
        tokens = [name for name, value in row.items() if isinstance(value, list)]
        arrays, unpadded = {name: np.array(row[name]) for name in tokens}, {name: row[name][:count] for name in tokens}
        for given in ({}, arrays, unpadded):
            assert schema.serialize(dict(row, **given)) == expected


def test_choices_are_padded_one_by_one():
    schema = FeatureSchema(MAX_SEQ_LENGTH, dict(label_ids=tf.int32), num_choices=2)
    first, second = features(2)
    names = ("input_ids", "input_mask", "segment_ids")
    choices = {name: [first[name], second[name]] for name in names}
    expected = {name: first[name] + second[name] for name in names}
    assert schema.serialize(dict(choices, label_ids=1)) == message(label_ids=[1], **expected)
