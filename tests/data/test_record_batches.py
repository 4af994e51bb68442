"""The order of the data is a pure function of (seed, step), whoever reads it."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data.batching import (
    counted,
    endless_batches,
    naming_changed_files,
    records_to_evaluate,
    training_record_batches,
)
from albert_tf.data.records import RecordFile, check_records, record_writer

WHOLE = tf.distribute.InputContext()


@pytest.fixture
def files(tmp_path):
    """Records "0" to "22" in two files."""
    paths = [str(tmp_path / name) for name in ("a.tfrecord", "b.tfrecord")]
    for path, numbers in zip(paths, (range(10), range(10, 23))):
        with record_writer(path, {}) as writer:
            for number in numbers:
                writer.write(str(number).encode())
    return counted(check_records(paths))


def parse(records, numbers):
    return dict(record=tf.strings.to_number(records, tf.int32), number=numbers)


def batches(files, steps, first_step=0, seed=1, batch_size=4, context=WHOLE):
    dataset = training_record_batches(files, parse, batch_size, seed, first_step, context).take(steps)
    return [(batch["record"].tolist(), batch["number"].tolist()) for batch in dataset.as_numpy_iterator()]


def test_each_epoch_has_every_record_once_in_another_order(files):
    records = np.concatenate([batch for batch, _ in batches(files, 23)])  # 4 epochs of 23
    epochs = records.reshape(4, 23)
    assert all(sorted(epoch) == list(range(23)) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 4


@pytest.mark.parametrize("batch_size", [4, 16, 32])
def test_a_batch_depends_on_seed_and_step_and_not_on_tensorflows_seed_or_where_reading_began(files, batch_size):
    tf.random.set_seed(0)
    whole = batches(files, 16, batch_size=batch_size)
    assert [number for _, batch in whole for number in batch] == list(range(16 * batch_size))
    tf.random.set_seed(2)
    for first_step in (1, 2, 3, 5, 6, 13):
        assert batches(files, 16 - first_step, first_step, batch_size=batch_size) == whole[first_step:]
    assert batches(files, 16, seed=2, batch_size=batch_size) != whole != batches(files, 16, 0, 0, batch_size)


def test_replicas_of_all_workers_share_a_batch_in_order(files):
    whole = batches(files, 6, batch_size=8)
    of_workers = [batches(files, 12, batch_size=8,
                          context=tf.distribute.InputContext(2, worker, num_replicas_in_sync=4))
                  for worker in (0, 1)]
    for step, (records, _) in enumerate(whole):
        parts = [of_workers[worker][2 * step + replica][0] for worker in (0, 1) for replica in (0, 1)]
        assert sum(parts, []) == records


def test_a_batch_that_replicas_cannot_share_is_refused(files):
    with pytest.raises(ValueError, match="multiple of the number of replicas, 3"):
        batches(files, 1, context=tf.distribute.InputContext(1, 0, num_replicas_in_sync=3))


def test_evaluation_reads_each_record_once_and_marks_the_padding_of_the_last_batch(files):
    data = records_to_evaluate(files, parse, 4)
    found = list(data.batches(WHOLE).as_numpy_iterator())
    assert len(found) == data.steps == 6 and all(len(batch["record"]) == 4 for batch in found) and data.size == 23
    records, examples = (np.concatenate([batch[name] for batch in found]) for name in ("record", "example"))
    assert records[:23].tolist() == list(range(23)) and examples.tolist() == [*range(23), -1]


def test_an_evaluation_may_have_fewer_steps(files):
    data = records_to_evaluate(files, parse, 4, max_steps=2)
    examples = [batch["example"].tolist() for batch in data.batches(WHOLE).as_numpy_iterator()]
    assert (data.size, data.steps, examples) == (8, 2, [[0, 1, 2, 3], [4, 5, 6, 7]])


def test_the_end_of_an_iterator_does_not_wait_for_autotuning(files):
    for dataset in (training_record_batches(files, parse, 4, 1, 0, WHOLE),
                    records_to_evaluate(files, parse, 4).batches(WHOLE)):
        assert dataset.options().autotune.enabled is False


def test_records_without_a_manifest_are_counted_and_none_is_an_error(files, tmp_path):
    assert [file.count for file in counted([RecordFile(file.path, None, {}) for file in files])] == [10, 13]
    with record_writer(str(tmp_path / "empty.tfrecord"), {}):
        pass
    with pytest.raises(ValueError, match="empty.tfrecord"):
        counted(check_records([str(tmp_path / "empty.tfrecord")]))


def test_a_flipped_byte_names_the_file(files):
    path = files[1].path
    data = bytearray(open(path, "rb").read())
    data[-5] ^= 1
    with open(path, "wb") as file:
        file.write(data)
    with pytest.raises(ValueError, match="b.tfrecord was truncated or changed"):
        counted([RecordFile(path, None, {})])
    with pytest.raises(ValueError, match="b.tfrecord was truncated or changed"):
        with naming_changed_files(files):  # same size: the manifest does not tell
            batches(counted(check_records([path])), 4)


def epoch_of(num_examples, seed=1):
    def shuffled(epoch):
        order = tf.random.experimental.stateless_shuffle(tf.range(num_examples, dtype=tf.int64), seed=[seed, epoch])
        return tf.data.Dataset.from_tensor_slices((order, tf.strings.as_string(order)))

    return shuffled


def numbers_of(num_examples, batch_size, steps, first_step=0):
    dataset = endless_batches(epoch_of(num_examples), num_examples, batch_size, first_step)
    assert dataset.element_spec[0].shape == (batch_size,)
    numbers, names = zip(*dataset.take(steps).as_numpy_iterator())
    assert np.array_equal(np.array(names).astype(np.int64), numbers)  # what belongs together stays together
    return np.array(numbers)


@pytest.mark.parametrize("num_examples, batch_size", [
    (100, 32), (20, 16), (9, 8), (8, 8), (20, 32), (1, 3)])
def test_endless_batches_have_no_example_twice_and_take_all_equally_often(num_examples, batch_size):
    steps = 3 * num_examples // batch_size + 10  # three passes and more
    counts = np.zeros(num_examples, int)
    for batch in numbers_of(num_examples, batch_size, steps):
        in_batch = np.bincount(batch, minlength=num_examples)
        assert in_batch.min() >= batch_size // num_examples and in_batch.max() <= -(-batch_size // num_examples)
        counts += in_batch
        assert counts.max() - counts.min() <= 1


@pytest.mark.parametrize("num_examples, batch_size, first_steps", [
    (20, 8, (3, 6)), (20, 16, (2, 7)), (20, 32, (5,)), (2490, 32, (78, 79))])
def test_endless_batches_do_not_depend_on_where_reading_began(num_examples, batch_size, first_steps):
    whole = numbers_of(num_examples, batch_size, max(first_steps) + 4)
    for step in first_steps:
        resumed = numbers_of(num_examples, batch_size, 4, step)
        np.testing.assert_array_equal(resumed, whole[step : step + 4])


def test_a_repeated_example_waits_for_the_next_batch():
    epochs = tf.constant([[0, 1, 2, 3, 4, 5], [4, 0, 2, 1, 5, 3]], tf.int64)
    dataset = endless_batches(lambda epoch: tf.data.Dataset.from_tensor_slices((epochs[epoch % 2],)), 6, 4, 0)
    taken = [numbers.tolist() for numbers, in dataset.take(3).as_numpy_iterator()]
    assert taken == [[0, 1, 2, 3], [4, 5, 0, 2], [4, 1, 5, 3]]
