"""Twenty megabytes of novels: processes of Beam's local runner write the same shards as the local engine."""

import pytest

from albert_tf.pretraining import creation as local
from albert_tf.pretraining.examples import CreationOptions, MaskingOptions, SegmentOptions
from albert_tf.text.tokenization import FullTokenizer

pytest.importorskip("apache_beam")

from albert_tf.beam import creation
from albert_tf.beam.running import pipeline_options

pytestmark = [pytest.mark.slow, pytest.mark.real_data]
OPTIONS = CreationOptions(SegmentOptions(512, 0.1), MaskingOptions(77), dupe_factor=1, random_seed=12345)


@pytest.fixture(scope="module")
def tokenizer(real_data):
    return FullTokenizer(spm_model_file=str(real_data / "spm/30k-clean.model"))


@pytest.fixture(scope="module")
def expected(real_data, tokenizer, tmp_path_factory):
    """The statistics and the files of the local engine."""
    folder = tmp_path_factory.mktemp("local")
    statistics = local.create_pretraining_data(
        [str(real_data / "corpus/novels_train.txt")], shards(folder), tokenizer, OPTIONS, num_workers=2)
    return statistics, contents(folder)


def shards(folder):
    return {path: [path] for path in (str(folder / f"x-{shard}.tfrecord") for shard in range(4))}


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("num_processes", [1, 2])
def test_novels_give_the_same_shards_with_any_number_of_processes(
        real_data, tokenizer, expected, tmp_path, num_processes):
    options = f"runner=FnApiRunner,direct_running_mode=multi_processing,direct_num_workers={num_processes}"
    made = creation.create_pretraining_data([str(real_data / "corpus/novels_train.txt")], shards(tmp_path), tokenizer,
                                            OPTIONS, pipeline_options(options, num_processes))
    assert made["examples"] > 10_000
    assert (made, contents(tmp_path)) == expected
