"""create_pretraining_data.py, run as a user runs it. Its records are tested in tests/pretraining/test_creation.py."""

import hashlib
import importlib.util
import json
import signal
import time

import pytest
import script_process
import tensorflow as tf
from in_process import loaded

from albert_tf.pretraining.creation import create_pretraining_data
from albert_tf.pretraining.examples import CreationOptions, MaskingOptions, SegmentOptions
from albert_tf.text.tokenization import FullTokenizer

TINY = script_process.REPOSITORY / "tests/golden/tiny_spm/tiny.model"
SENTENCES = ["The kettle stood on the stove.", "Nobody had filled it since the morning.",
             "A letter lay beside the lamp, unopened.", "She read the name on it twice.",
             "Outside, the ferry sounded its horn.", "It was later than they had agreed."]


def create(tmp_path, *, run=script_process.run, max_file_size=None, **flags):
    flags = dict(dict(input_file=tmp_path / "text.txt", output_file=tmp_path / "out.tfrecord", spm_model_file=TINY,
                      max_seq_length=32, max_predictions_per_seq=5, dupe_factor=3, num_workers=2), **flags)
    return run("create_pretraining_data", flags, max_file_size=max_file_size)


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("\n\n".join("\n".join(SENTENCES[i:] + SENTENCES[:i]) for i in range(6)) + "\n")
    return path


def leftovers(tmp_path):
    return {path.name for path in tmp_path.iterdir()} - {"text.txt"}


@pytest.mark.both_stacks
def test_flags_reach_the_library_and_two_workers_write_the_records_of_one(tmp_path, text):
    done = create(tmp_path, random_next_sentence=True, do_permutation=True, do_whole_word_mask=False,
                  favor_shorter_ngram=False, ngram=2, masked_lm_prob=0.2, short_seq_prob=0.3, random_seed=7,
                  release_compatible=True, keep_accents=True)
    assert done.returncode == 0, done.stderr
    options = CreationOptions(SegmentOptions(32, 0.3, "nsp", release_compatible=True),
                              MaskingOptions(5, 0.2, 2, False, False, True), 3, 7)
    again = tmp_path / "again.tfrecord"
    tokenizer = FullTokenizer(spm_model_file=str(TINY), keep_accents=True)
    create_pretraining_data([str(text)], {str(again): [str(again)]}, tokenizer, options, num_workers=1)
    assert (tmp_path / "out.tfrecord").read_bytes() == again.read_bytes()
    of_script, of_library = (json.loads((tmp_path / f"{name}.manifest.json").read_text()) for name in ("out", "again"))
    flags, digests = (of_script["made_from"].pop(name) for name in ("flags", "digests"))
    assert of_script["made_from"] == of_library["made_from"] and flags["ngram"] == "2"
    assert digests == {str(text): hashlib.sha256(text.read_bytes()).hexdigest()}


def test_several_outputs_are_cut_in_shards_and_summed_up(tmp_path, text):
    done = create(tmp_path, output_file=f"{tmp_path}/a.tfrecord,{tmp_path}/b.tfrecord", num_shards=2)
    assert done.returncode == 0, done.stderr
    shards = [tmp_path / f"{name}-0000{shard}-of-00002.tfrecord" for name in "ab" for shard in range(2)]
    assert leftovers(tmp_path) == {"a.manifest.json", "b.manifest.json", *(shard.name for shard in shards)}
    counts = [sum(1 for _ in tf.data.TFRecordDataset(str(shard))) for shard in shards]
    assert min(counts) > 0
    assert f"6 documents, {sum(counts)} examples" in done.stderr and "left out: 0" in done.stderr


@pytest.mark.parametrize("content, options, message", [
    (b"fine\nnot \xff fine\n", {}, "text.txt line 2: not UTF-8"),
    (None, dict(max_file_size=4096, dupe_factor=20), "out.tfrecord: File too large")], ids=["text", "full disk"])
def test_a_mistake_and_a_full_disk_are_one_line_and_leave_nothing(tmp_path, text, content, options, message):
    if content:
        text.write_bytes(content)
    done = create(tmp_path, **options)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith(f"create_pretraining_data: error: {tmp_path}/{message}")
    assert leftovers(tmp_path) == set()


def test_sigterm_ends_a_run_that_is_writing_and_leaves_nothing(tmp_path, text):
    with create(tmp_path, run=script_process.start, dupe_factor=100_000) as process:
        while not any(tmp_path.glob(".*/*")):  # files in the hidden folder beside the output
            assert process.returncode is None, process.communicate()
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        _, printed = process.communicate()
    assert process.returncode == 143 and printed.splitlines()[-1] == "ended by SIGTERM"
    assert leftovers(tmp_path) == set()


def test_beam_writes_the_files_of_the_local_engine(tmp_path, text):
    pytest.importorskip("apache_beam")
    written, manifests = [], []
    for engine in ("local", "beam"):
        done = create(tmp_path, num_shards=2, engine=engine)
        assert done.returncode == 0, done.stderr
        written.append({name: (tmp_path / name).read_bytes() for name in leftovers(tmp_path)})
        manifests.append(json.loads(written[-1].pop("out.manifest.json")))
        assert manifests[-1]["made_from"].pop("flags")["engine"] == engine
    assert written[0] == written[1] and len(written[0]) == 2 and manifests[0] == manifests[1]


def test_without_apache_beam_one_line_says_how_to_get_it(tmp_path, text, monkeypatch, capsys):
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "apache_beam" else find_spec(name))
    with loaded("create_pretraining_data") as run:
        assert create(tmp_path, run=lambda script, flags, **_: run(**flags), engine="beam") == 1
    assert capsys.readouterr().err.splitlines()[-1] == (
        "create_pretraining_data: error: --engine=beam needs the package apache-beam, which is not "
        "installed: pip install apache-beam 'proto-plus<1.29', or in a clone of albert_tf pip install '.[beam]'")
