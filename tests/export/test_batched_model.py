"""BatchedModel computes a few rows at a time, with the outputs of all rows at once."""

import numpy as np
import pytest
import tensorflow as tf
from tiny import TINY

from albert_tf import keras
from albert_tf.export.saved_model import BatchedModel
from albert_tf.modeling.span import AlbertConditionalSpan

CONFIG = TINY.replace(vocab_size=50, num_hidden_layers=1)
OUTPUTS = dict(start_top_log_probs=tf.float32, end_top_index=tf.int32, cls_logits=tf.float32)


class RowCounter:
    """A model that returns for each row the number of rows of its batch."""

    def __call__(self, inputs):
        shape = tf.shape(inputs["input_ids"])
        return dict(rows=tf.fill(shape[:1], shape[0]))


@pytest.mark.parametrize("num_rows", [0, 1, 4, 5, 11])
def test_rows_have_the_models_outputs(num_rows):
    keras.utils.set_random_seed(1)
    model, rng = AlbertConditionalSpan(CONFIG, start_n_top=3, end_n_top=2), np.random.default_rng(1)
    ids = tf.constant(rng.integers(1, 50, [num_rows, 12]), tf.int32)
    inputs = dict(input_ids=ids, input_mask=tf.ones_like(ids), segment_ids=ids % 2, p_mask=tf.zeros_like(ids))
    batched = BatchedModel(model, OUTPUTS, batch_size=4)
    specs = {name: tf.TensorSpec([None, None], tf.int32) for name in inputs}
    served = tf.function(lambda inputs: batched(inputs), input_signature=[specs])
    found, expected = served(inputs), model(inputs)
    assert found.keys() == OUTPUTS.keys() and len(batched.variables) == len(model.variables)
    for name, values in found.items():
        assert values.dtype == OUTPUTS[name]
        np.testing.assert_allclose(values, expected[name], atol=1e-5, err_msg=name)
    assert served.get_concrete_function().structured_outputs["end_top_index"].shape.as_list() == [None, 6]


@pytest.mark.parametrize("num_rows, largest", [(3, 3), (4, 4), (5, 3), (11, 4), (17, 4)])
def test_few_rows_go_through_together(num_rows, largest):
    found = BatchedModel(RowCounter(), dict(rows=tf.int32), batch_size=4)(dict(input_ids=tf.zeros([num_rows, 2])))
    assert found["rows"].numpy().tolist() == [largest] * num_rows
