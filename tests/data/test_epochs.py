"""Batches across epochs: no example twice, all examples equally often, from any step on."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data.order import endless_batches


def epoch_of(num_examples, seed=1):
    def shuffled(epoch):
        order = tf.random.experimental.stateless_shuffle(tf.range(num_examples, dtype=tf.int64), seed=[seed, epoch])
        return tf.data.Dataset.from_tensor_slices((order, tf.strings.as_string(order)))

    return shuffled


def batches(num_examples, batch_size, steps, first_step=0, **arrangement):
    dataset = endless_batches(epoch_of(num_examples), num_examples, batch_size, first_step, **arrangement)
    assert dataset.element_spec[0].shape == (batch_size,)
    numbers, names = zip(*dataset.take(steps).as_numpy_iterator())
    assert np.array_equal(np.array(names).astype(np.int64), numbers)  # what belongs together stays together
    return np.array(numbers)


def reversed_window(first_step, examples):
    """An arrangement that moves examples as far as it may."""
    return tuple(tf.reshape(tf.reshape(values, [-1])[::-1], tf.shape(values)) for values in examples)


@pytest.mark.parametrize("num_examples, batch_size", [
    (100, 32), (20, 16), (9, 8), (8, 8), (20, 32), (1, 3)])
def test_a_batch_has_no_example_twice_and_all_are_taken_equally_often(num_examples, batch_size):
    steps = 3 * num_examples // batch_size + 10  # three passes and more
    counts = np.zeros(num_examples, int)
    for batch in batches(num_examples, batch_size, steps, arrange=reversed_window, window=5):
        in_batch = np.bincount(batch, minlength=num_examples)
        assert in_batch.min() >= batch_size // num_examples and in_batch.max() <= -(-batch_size // num_examples)
        counts += in_batch
        assert counts.max() - counts.min() <= 1


@pytest.mark.parametrize("arrangement", [{}, dict(arrange=reversed_window, window=6)])
@pytest.mark.parametrize("num_examples, batch_size, first_steps", [
    (20, 8, (3, 6)), (20, 16, (2, 7)), (20, 32, (5,)), (2490, 32, (78, 79))])
def test_a_batch_does_not_depend_on_where_reading_began(num_examples, batch_size, first_steps, arrangement):
    whole = batches(num_examples, batch_size, max(first_steps) + 4, **arrangement)
    for step in first_steps:
        resumed = batches(num_examples, batch_size, 4, step, **arrangement)
        np.testing.assert_array_equal(resumed, whole[step : step + 4])


def test_a_repeated_example_waits_for_the_next_batch():
    epochs = tf.constant([[0, 1, 2, 3, 4, 5], [4, 0, 2, 1, 5, 3]], tf.int64)
    dataset = endless_batches(lambda epoch: tf.data.Dataset.from_tensor_slices((epochs[epoch % 2],)), 6, 4, 0)
    taken = [numbers.tolist() for numbers, in dataset.take(3).as_numpy_iterator()]
    assert taken == [[0, 1, 2, 3], [4, 5, 0, 2], [4, 1, 5, 3]]


@pytest.mark.parametrize("batch_size, warns", [(840, False), (5000, True)])
def test_a_batch_that_is_larger_than_the_set_brings_a_warning(caplog, batch_size, warns):
    endless_batches(epoch_of(840), 840, batch_size, 0)
    expected = ["a batch of 5,000 examples repeats the training set of 840: a smaller --train_batch_size takes less "
                "time and memory"]
    assert caplog.messages == (expected if warns else [])


def test_windows_are_of_one_epoch_and_of_about_equal_size():
    """Epochs of 100, batches of 8: steps 0 to 11 lie in the first epoch, 12 spans two, 13 to 24 lie in the second."""
    def first_step_and_size(first_step, examples):
        numbers = tf.fill(tf.shape(examples[0]), 100 * first_step + tf.shape(examples[0], tf.int64)[0])
        return numbers, tf.strings.as_string(numbers)

    of_steps = [divmod(number, 100) for number in batches(100, 8, 28, arrange=first_step_and_size, window=5)[:, 0]]
    assert list(dict.fromkeys(of_steps)) == [(0, 4), (4, 4), (8, 4), (12, 1), (13, 4), (17, 4), (21, 4), (25, 4)]
    assert of_steps[:5] == 4 * [(0, 4)] + [(4, 4)]
