"""Chains that XLA compiles one by one on a processor, and that are parts of the whole step on a TPU."""

import re

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import keras
from albert_tf.modeling.pretrainer import AlbertPretrainer
from albert_tf.pretraining.task import PretrainingTask
from albert_tf.training.optimizer import create_optimizer
from albert_tf.training.trainer import Trainer

pytestmark = pytest.mark.both_stacks


@pytest.fixture
def step(tiny_config, tiny_batch):
    """A function that traces a new model's training step and returns it with its batch."""
    positions = tiny_batch["masked_lm_positions"]
    batch = dict(tiny_batch, masked_lm_ids=positions + 5, masked_lm_weights=np.ones(positions.shape, np.float32),
                 next_sentence_labels=np.ones([len(positions), 1], np.int32))
    batch = {name: tf.constant(values) for name, values in batch.items()}
    config = tiny_config.replace(num_hidden_layers=1, hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1)

    def new_step(jit_compile=False):
        keras.utils.set_random_seed(1)
        trainer = Trainer(PretrainingTask(AlbertPretrainer(config)))
        trainer.compile(optimizer=create_optimizer())
        return tf.function(trainer.train_step, autograph=False, jit_compile=jit_compile), batch

    return new_step


@pytest.fixture
def on_tpu(monkeypatch):
    """A function that makes the default strategy one of a TPU."""
    return lambda: monkeypatch.setattr(tf.distribute, "TPUStrategy", type(tf.distribute.get_strategy()))


def compiled_functions(step, batch):
    """The number of functions in a step's graph that XLA would compile one by one."""
    library = step.get_concrete_function(batch).graph.as_graph_def().library
    return sum(function.attr["_XlaMustCompile"].b for function in library.function)


def instructions(step, batch):
    """The number of instructions that XLA gets to compile the whole step."""
    return len(re.findall(r"^ +\S+ = ", step.experimental_get_compiler_ir(batch)(stage="hlo"), re.M))


@pytest.mark.long
def test_on_a_tpu_the_step_has_neither_compiled_chains_nor_recomputations(step, on_tpu):
    on_processor, batch = step(jit_compile=True)
    chains, with_chains = compiled_functions(on_processor, batch), instructions(on_processor, batch)
    on_tpu()
    whole, batch = step(jit_compile=True)
    assert compiled_functions(whole, batch) == 0 < chains
    assert 0 < instructions(whole, batch) < with_chains


@pytest.mark.long
def test_a_step_on_a_tpu_has_the_losses_and_gradients_of_a_processor(step, on_tpu):
    def logs():
        compiled, batch = step()
        return compiled(batch)

    on_processor = logs()
    on_tpu()
    for name, value in logs().items():
        np.testing.assert_allclose(value, on_processor[name], rtol=1e-5, err_msg=name)
