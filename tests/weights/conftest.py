"""Models in each format, written once."""

import pathlib
import shutil

import pytest
import tensorflow as tf
from new_head import model_with_settings
from tiny import TINY_TEXT

import albert_tf
from albert_tf import keras
from albert_tf.text.tokenization import FullTokenizer

BERT = TINY_TEXT.replace(cross_layer_sharing="none", embedding_size=TINY_TEXT.hidden_size)


@pytest.fixture(scope="session")
def cased(tiny_spm):
    """A tokenizer with other options than the default ones."""
    return FullTokenizer(None, False, tiny_spm, True)


@pytest.fixture(scope="session")
def written(tmp_path_factory, cased):
    """A function from the name of a model in new_head.SETTINGS, or "bert", and a format to the model and its folder.

    No value of a variable is one that an initializer sets.
    """
    models, folders = {}, {}

    def get(name, to):
        if name not in models:
            keras.utils.set_random_seed(1)
            models[name] = model_with_settings(*(("pretrainer", BERT) if name == "bert" else (name, TINY_TEXT)))
            for variable in models[name].weights:
                variable.assign_add(tf.random.normal(variable.shape, stddev=0.3))
        if (name, to) not in folders:
            folders[name, to] = tmp_path_factory.mktemp(name) / to
            albert_tf.save_pretrained(models[name], str(folders[name, to]), cased, to)
        return models[name], folders[name, to]

    return get


@pytest.fixture
def copied(written, tmp_path):
    """Like `written`, with a copy of the folder, which a test may change."""
    def get(name="pretrainer", to="hugging_face"):
        model, folder = written(name, to)
        return model, pathlib.Path(shutil.copytree(folder, tmp_path / to))

    return get
