"""create_pretraining_data.py, run as a user runs it."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data.records import pretraining_features

ROOT = pathlib.Path(__file__).parents[1]
TINY = ROOT / "tests/golden/tiny_spm/tiny.model"
SENTENCES = ["The kettle stood on the stove.", "Nobody had filled it since the morning.", "A letter lay beside the lamp, unopened.",
             "She read the name on it twice.", "Outside, the ferry sounded its horn.", "It was later than they had agreed."]


def arguments(tmp_path, **flags):
    flags = dict(dict(input_file=tmp_path / "text.txt", output_file=tmp_path / "out.tfrecord", spm_model_file=TINY, max_seq_length=32,
                      max_predictions_per_seq=5, dupe_factor=3, num_workers=2), **flags)
    return [sys.executable, "create_pretraining_data.py", *(f"--{name}={value}" for name, value in flags.items())]


def create(tmp_path, **flags):
    return subprocess.run(arguments(tmp_path, **flags), cwd=ROOT, capture_output=True, text=True)


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("\n\n".join("\n".join(SENTENCES[i:] + SENTENCES[:i]) for i in range(6)) + "\n")
    return path


def examples(*paths):
    features = pretraining_features(32, 5)
    records = tf.data.TFRecordDataset([str(path) for path in paths])
    return [tf.io.parse_single_example(record, features) for record in records]


def test_the_records_are_the_releases_kind(tmp_path, text):
    done = create(tmp_path)
    assert done.returncode == 0, done.stderr
    made = examples(tmp_path / "out.tfrecord")
    manifest = json.loads((tmp_path / "out.manifest.json").read_text())
    assert manifest["count"] == len(made) > 20
    assert (manifest["made_from"]["objective"], manifest["made_from"]["max_seq_length"]) == ("sop", 32)
    for example in made:
        ids, mask, segments, boundary = (example[name].numpy() for name in ("input_ids", "input_mask", "segment_ids", "token_boundary"))
        length, masked = mask.sum(), int(example["masked_lm_weights"].numpy().sum())
        positions = example["masked_lm_positions"].numpy()[:masked]
        assert masked == min(5, max(1, round(0.15 * length)))
        assert (ids[0], ids[length - 1]) == (2, 3) and not ids[length:].any()
        second = int(np.argmax(segments))
        assert ids[second - 1] == 3 and segments[second:length].all() and not segments[:second].any()
        assert boundary[[0, second - 1, second, length - 1]].all() and not boundary[length:].any()
        assert not set(positions) & {0, second - 1, length - 1}
    assert f"6 documents, {len(made)} examples" in done.stderr and "left out: 0" in done.stderr


def test_the_number_of_workers_changes_no_byte_and_the_seed_changes_all(tmp_path, text):
    contents = []
    for number, flags in enumerate((dict(num_workers=1), dict(num_workers=3), dict(random_seed=1))):
        out = tmp_path / f"{number}.tfrecord"
        assert create(tmp_path, output_file=out, **flags).returncode == 0
        contents.append(out.read_bytes())
    assert contents[0] == contents[1] != contents[2]


def test_several_outputs_and_shards_hold_what_one_file_would(tmp_path, text):
    assert create(tmp_path).returncode == 0
    assert create(tmp_path, output_file=f"{tmp_path}/a.tfrecord,{tmp_path}/b.tfrecord", num_shards=2).returncode == 0
    shards = sorted(tmp_path.glob("[ab]-0000*.tfrecord"))
    assert len(shards) == 4
    whole = sorted(tf.data.TFRecordDataset(str(tmp_path / "out.tfrecord")).as_numpy_iterator())
    assert sorted(tf.data.TFRecordDataset(list(map(str, shards))).as_numpy_iterator()) == whole


@pytest.mark.parametrize("flags, labels", [(dict(random_next_sentence=True), {0, 1}), (dict(sentence_objective="none"), {0})])
def test_other_objectives(tmp_path, text, flags, labels):
    assert create(tmp_path, **flags).returncode == 0
    assert {int(example["next_sentence_labels"][0]) for example in examples(tmp_path / "out.tfrecord")} == labels


def test_permutation_doubles_the_masked_features(tmp_path, text):
    assert create(tmp_path, do_permutation=True).returncode == 0
    record = next(tf.data.TFRecordDataset(str(tmp_path / "out.tfrecord")).as_numpy_iterator())
    assert len(tf.train.Example.FromString(record).features.feature["masked_lm_ids"].int64_list.value) == 10


def test_a_line_of_a_megabyte_and_carriage_returns_are_fine(tmp_path, text):
    text.write_bytes(b"\r\n".join([("word " * 200_000).encode(), b"The end of it.", b"", b"A second one.", b"And its end."]))
    done = create(tmp_path)
    assert done.returncode == 0, done.stderr
    assert "2 documents" in done.stderr


def leftovers(tmp_path):
    return {path.name for path in tmp_path.iterdir()} - {"text.txt"}


@pytest.mark.parametrize("content, flags, message", [
    (b"", {}, "there is no text"),
    (b"\n\n \n", {}, "there is no text"),
    (b"word\n\nword\n", {}, "no example came out"),
    (b"fine\nnot \xff fine\n", {}, "text.txt line 2: not UTF-8"),
    (b"one document\nof two sentences\n", dict(sentence_objective="nsp"), "at least two documents"),
    (b"fine\n", dict(input_file="nowhere.txt"), "no such file: nowhere.txt"),
    (b"fine\n", dict(input_file="nowhere/*.txt"), "no file matches nowhere"),
    (b"fine\n", dict(spm_model_file="nowhere.model"), "no such SentencePiece model: nowhere.model"),
    (b"fine\n", dict(spm_model_file=""), "needs spm_model_file or vocab_file"),
    (b"fine\n", dict(max_seq_length=3), "max_seq_length must be at least 5"),
    (b"fine\n", dict(dupe_factor=0), "dupe_factor"),
])
def test_a_mistake_is_one_line_and_leaves_nothing(tmp_path, content, flags, message):
    (tmp_path / "text.txt").write_bytes(content)
    done = create(tmp_path, **flags)
    assert done.returncode == 1
    assert message in done.stderr and "Traceback" not in done.stderr
    assert leftovers(tmp_path) == set()


def test_a_full_disk_is_one_line_and_leaves_nothing(tmp_path, text):
    limited = ["bash", "-c", 'ulimit -f 4; trap "" XFSZ; exec "$@"', "-", *arguments(tmp_path, dupe_factor=200)]
    done = subprocess.run(limited, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1
    assert "error:" in done.stderr and "Traceback" not in done.stderr
    assert leftovers(tmp_path) == set()


def test_sigterm_leaves_nothing(tmp_path, text):
    process = subprocess.Popen(arguments(tmp_path, dupe_factor=100_000), cwd=ROOT, stderr=subprocess.DEVNULL)
    deadline = time.time() + 60
    while not leftovers(tmp_path) and time.time() < deadline:
        time.sleep(0.1)
    time.sleep(1)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 1
    assert leftovers(tmp_path) == set()
