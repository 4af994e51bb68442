"""long_texts.json: how a classifier reads long texts, next to its weights."""

import json

import pytest

from albert_tf.config import AlbertConfig
from albert_tf.interchange.conversion import save
from albert_tf.interchange.from_pretrained import from_pretrained
from albert_tf.interchange.long_texts import LONG_TEXTS, long_texts_in, write_long_texts
from albert_tf.modeling.classifier import AlbertClassifier
from albert_tf.modeling.pooling import LongTexts


def test_what_is_written_is_read_and_a_single_window_needs_no_file(tmp_path):
    assert long_texts_in(str(tmp_path)) == LongTexts("mean", 1, 0)
    write_long_texts(LongTexts("max", 8, 20), str(tmp_path))
    assert long_texts_in(str(tmp_path)) == LongTexts("max", 8, 20)
    write_long_texts(LongTexts(), str(tmp_path))
    assert not (tmp_path / LONG_TEXTS).exists()


@pytest.mark.parametrize("change, message", [
    (dict(pooling="sum"), "pooling must be one of mean, max. Received: 'sum'"),
    (dict(max_windows=0), "max_windows must be a whole number from 1 to 10,000"),
    (dict(doc_stride=-1), "doc_stride must be a whole number from 0 to 65,536"),
    (dict(max_windows="8"), "'max_windows' must be of type int"),
    (dict(windows=8), "unknown key 'windows'"),
])
def test_a_damaged_file_is_named(tmp_path, change, message):
    (tmp_path / LONG_TEXTS).write_text(json.dumps(dict(dict(pooling="mean", max_windows=8, doc_stride=0), **change)))
    with pytest.raises(ValueError) as error:
        long_texts_in(str(tmp_path))
    assert str(tmp_path / LONG_TEXTS) in str(error.value) and message in str(error.value)


def test_a_converted_checkpoint_keeps_the_windows(tmp_path):
    config = AlbertConfig(50, 8, 16, 1, num_attention_heads=2, intermediate_size=16, max_position_embeddings=16)
    model = AlbertClassifier(config, 2, window_pooling="max", max_windows=4, doc_stride=3)
    save(model, str(tmp_path / "tf1"), "tf1")
    read = from_pretrained(str(tmp_path / "tf1"), model="classifier")
    assert (read.window_pooling, read.max_windows, read.doc_stride) == ("max", 4, 3)
