"""create_pretraining_data.py, run as a user runs it. Its records are tested in tests/pretraining/test_creation.py."""

import hashlib
import json

import pytest
import script_process

from albert_tf.pretraining.creation import create_pretraining_data
from albert_tf.pretraining.examples import CreationOptions, MaskingOptions, SegmentOptions
from albert_tf.text.tokenization import FullTokenizer

TINY = script_process.REPOSITORY / "tests/golden/tiny_spm/tiny.model"
SENTENCES = ["The kettle stood on the stove.", "Nobody had filled it since the morning.",
             "A letter lay beside the lamp, unopened.", "She read the name on it twice.",
             "Outside, the ferry sounded its horn.", "It was later than they had agreed."]


def create(tmp_path, max_file_size=None, **flags):
    flags = dict(dict(input_file=tmp_path / "text.txt", output_file=tmp_path / "out.tfrecord", spm_model_file=TINY,
                      max_seq_length=32, max_predictions_per_seq=5, dupe_factor=3, num_workers=2), **flags)
    return script_process.run("create_pretraining_data", flags, max_file_size=max_file_size)


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
