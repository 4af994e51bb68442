"""The tasks of SQuAD 1.1 and 2.0: the release's losses, the losses of micro-batches, and candidates."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import from_pretrained
from albert_tf.tasks.squad.fine_tuning import ConditionalSpanTask, SpanTask

pytestmark = pytest.mark.both_stacks

INPUTS = ("input_ids", "input_mask", "segment_ids", "p_mask", "start_positions", "end_positions", "is_impossible")


@pytest.fixture(params=["squad_v1", "squad_v2"])
def recorded(request, golden):
    """(task, batch, the release's numbers by their names here)."""
    folder = golden / "finetuned_heads" / request.param
    numbers = np.load(folder / "io.npz")
    batch = {name: tf.constant(numbers[f"in/{name}"]) for name in INPUTS}
    path = str(folder / "model.ckpt")
    if request.param == "squad_v1":
        return SpanTask(from_pretrained(path, model="span")), batch, dict(loss=numbers["out/training_loss"])
    expected = {name: numbers[f"out/{name}"] for name in ("start_loss", "end_loss", "regression_loss")}
    task = ConditionalSpanTask(from_pretrained(path, model="conditional_span"))
    return task, batch, dict(expected, loss=numbers["out/total_loss"])


def test_losses_are_those_of_the_release(recorded):
    task, batch, expected = recorded
    loss, parts = task.loss(task.model(batch), batch, task.loss_denominators(batch))
    found = dict(parts, loss=loss)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, atol=1e-5, err_msg=name)


def test_losses_of_parts_add_up_to_that_of_the_batch(recorded):
    task, batch, expected = recorded
    parts = [{name: values[rows] for name, values in batch.items()} for rows in (slice(0, 2), slice(2, None))]
    losses = [task.loss(task.model(part), part, task.loss_denominators(batch))[0] for part in parts]
    np.testing.assert_allclose(sum(losses), expected["loss"], atol=1e-5)


def test_logits_do_not_depend_on_the_padding(golden, recorded):
    task, batch, _ = recorded
    inputs = {name: batch[name] for name in ("input_ids", "input_mask", "segment_ids", "p_mask")}
    padded = {name: tf.pad(values, [[0, 0], [0, 8]], constant_values=int(name == "p_mask"))
              for name, values in inputs.items()}
    given = {} if isinstance(task, SpanTask) else dict(start_positions=batch["start_positions"])
    outputs, longer = task.model(dict(inputs, **given)), task.model(dict(padded, **given))
    names = [name for name in outputs if name.startswith(("start_", "end_", "cls_"))]
    is_token = batch["input_mask"].numpy().astype(bool)
    for name in names:
        one, other = outputs[name].numpy(), longer[name].numpy()
        if one.ndim == 2:
            one, other = one[is_token], other[:, : is_token.shape[1]][is_token]
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5, err_msg=name)
    assert len(names) >= 2


def test_candidates_are_the_best_tokens_and_of_equals_the_first():
    logits = tf.constant([[1.0, 3.0, 2.0, 3.0]])
    found = SpanTask(None, n_best_size=3).predictions(dict(start_logits=logits, end_logits=-logits))
    assert found["start_top_index"].numpy().tolist() == [[1, 3, 2]]
    assert found["end_top_index"].numpy().tolist() == [[0, 2, 1]]
    assert found["end_top_log_probs"].numpy().tolist() == [[-1.0, -2.0, -3.0]]


def test_a_sequence_shorter_than_the_n_best_gives_all_its_tokens():
    found = SpanTask(None).predictions(dict(start_logits=tf.zeros([2, 4]), end_logits=tf.zeros([2, 4])))
    assert found["start_top_index"].numpy().tolist() == [[0, 1, 2, 3]] * 2
