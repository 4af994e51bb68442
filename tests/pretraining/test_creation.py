"""From text to records: their content, which depends on text, options and seed only, and errors."""

import hashlib
import json

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data.records import pretraining_features
from albert_tf.pretraining import creation
from albert_tf.pretraining.creation import create_pretraining_data, summary, warning
from albert_tf.pretraining.examples import CreationOptions, MaskingOptions, SegmentOptions
from albert_tf.text.tokenization import tokenizer_key

SENTENCES = ["Rain fell on the harbour all night.", "The boats knocked against the quay.",
             "No one came to see to them.", "By morning two had sunk.",
             "Their masts stood out of the water.", "A boy counted them from the wall."]

OPTIONS = CreationOptions(SegmentOptions(32, 0.1), MaskingOptions(5), dupe_factor=3, random_seed=12345)


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("\n\n".join("\n".join(SENTENCES[i:] + SENTENCES[:i]) for i in range(6)) + "\n")
    return path


@pytest.fixture
def create(tmp_path, sentence_pieces):
    """create(outputs, options...) makes records of text.txt with one worker, and gives the statistics."""

    def create(*outputs, objective="sop", release_compatible=False, permutation=False, short=0.1, dupe_factor=3,
               seed=12345, split_lines=None):
        options = CreationOptions(SegmentOptions(32, short, objective, release_compatible),
                                  MaskingOptions(5, permutation=permutation), dupe_factor, seed, split_lines)
        paths = [f"{tmp_path}/{name}" for name in outputs or ("out.tfrecord",)]
        return create_pretraining_data([str(tmp_path / "text.txt")], {path: [path] for path in paths}, sentence_pieces,
                                       options, num_workers=1)

    return create


def examples(path, max_predictions=5):
    features = pretraining_features(32, max_predictions)
    records = tf.data.TFRecordDataset(str(path))
    parsed = [tf.io.parse_single_example(record, features) for record in records]
    return [{name: value.numpy() for name, value in example.items()} for example in parsed]


def test_the_records_are_the_releases_kind_and_the_statistics_theirs(tmp_path, text, create, sentence_pieces):
    statistics = create()
    made = examples(tmp_path / "out.tfrecord")
    manifest = json.loads((tmp_path / "out.manifest.json").read_text())
    assert manifest["files"]["out.tfrecord"]["count"] == len(made) == statistics["examples"] > 20
    assert (manifest["made_from"]["objective"], manifest["made_from"]["max_seq_length"]) == ("sop", 32)
    assert manifest["made_from"]["vocab_size"] == sentence_pieces.vocab_size
    assert manifest["made_from"].items() >= tokenizer_key(sentence_pieces).items()
    for example in made:
        ids, segments, boundary = (example[name] for name in ("input_ids", "segment_ids", "token_boundary"))
        length, masked = example["input_mask"].sum(), int(example["masked_lm_weights"].sum())
        assert 0 < masked <= min(5, max(1, round(0.15 * length)))
        positions = example["masked_lm_positions"]
        assert (np.diff(positions[:masked]) > 0).all()
        assert not positions[masked:].any() and not example["masked_lm_ids"][masked:].any()
        assert (ids[0], ids[length - 1]) == (2, 3) and not ids[length:].any()
        second = int(np.argmax(segments))
        assert ids[second - 1] == 3 and segments[second:length].all() and not segments[:second].any()
        assert boundary[[0, 1, second - 1, second, length - 1]].all() and not boundary[length:].any()
        assert not set(positions[:masked]) & {0, second - 1, length - 1}
    assert statistics["documents"] == 6
    assert statistics["tokens"] == sum(example["input_mask"].sum() for example in made)
    assert statistics["masked"] == sum(example["masked_lm_weights"].sum() for example in made)
    assert statistics["swapped"] == sum(example["next_sentence_labels"].sum() for example in made)
    length = statistics["tokens"] / len(made)
    assert summary(statistics).startswith(f"6 documents, {len(made)} examples, {length:.1f} tokens on average")


# sha256 of the records before --split_lines existed, of `text` and a line of 18 sentences; its first 16 digits.
UNSPLIT = {("sop", False): "e1b3b93d8eb3d418", ("sop", True): "df69e841783f06ce",
           ("nsp", False): "702e9664d5426301", ("nsp", True): "4a99951de0943800"}


@pytest.mark.both_stacks
@pytest.mark.parametrize("objective, release_compatible", UNSPLIT)
def test_records_without_splitting_are_those_of_earlier_versions(tmp_path, text, create, objective, release_compatible):
    text.write_text(text.read_text() + " ".join(SENTENCES * 3) + "\n")
    create(objective=objective, release_compatible=release_compatible)
    content = (tmp_path / "out.tfrecord").read_bytes()
    assert hashlib.sha256(content).hexdigest()[:16] == UNSPLIT[objective, release_compatible]
    assert "split_lines" not in json.loads((tmp_path / "out.manifest.json").read_text())["made_from"]


def test_tokens_that_are_in_no_example_are_counted(tmp_path, text, create, sentence_pieces):
    statistics = create(short=0.0)
    document = [token for sentence in SENTENCES for token in sentence_pieces.encode(sentence)]
    assert statistics["text_tokens"] == 3 * 6 * len(document)
    made = sum(len(original_tokens(example)) for example in examples(tmp_path / "out.tfrecord"))
    assert statistics["text_tokens"] - statistics["unused_tokens"] == made  # every token is from the text, once
    assert f", and {1 - made / statistics['text_tokens']:.1%} of the text's tokens" in summary(statistics)


def test_a_text_of_long_lines_brings_a_warning_and_splitting_its_lines_gives_the_records_of_a_sentence_a_line(
        tmp_path, text, create):
    lines = text.read_text().split("\n\n")
    expected = create("separate.tfrecord")
    assert warning(expected, OPTIONS) is None
    text.write_text("\n\n".join(document.replace("\n", " ") for document in lines))
    statistics = create()
    share = statistics["unused_tokens"] / statistics["text_tokens"]
    assert share > 0.2
    assert all(part in warning(statistics, OPTIONS) for part in (
        f"{share:.1%} of the text's tokens are in no example", "--max_seq_length=32", "--split_lines"))
    pytest.importorskip("sentencex")
    assert create("split.tfrecord", split_lines="en") == expected
    assert (tmp_path / "split.tfrecord").read_bytes() == (tmp_path / "separate.tfrecord").read_bytes()
    assert json.loads((tmp_path / "split.manifest.json").read_text())["made_from"]["split_lines"] == "en"


def test_duplicates_have_new_segments_and_masks_and_are_shuffled_together(tmp_path, text, create):
    create(short=0.5, dupe_factor=10)
    made = [example["input_ids"].tobytes() for example in examples(tmp_path / "out.tfrecord")]
    assert len(set(made)) > 0.95 * len(made)
    create("once.tfrecord", short=0.5, dupe_factor=1)
    once = [made.index(example["input_ids"].tobytes()) for example in examples(tmp_path / "once.tfrecord")]
    # Spread among the others, by the same keys.
    assert max(np.diff(sorted(once))) < len(made) / 2 and once == sorted(once)


def test_several_outputs_have_the_records_of_one_file(tmp_path, text, create):
    create()
    create("a.tfrecord", "b.tfrecord")
    paths = [str(tmp_path / f"{name}.tfrecord") for name in ("out", "a", "b")]
    records = [list(tf.data.TFRecordDataset(path).as_numpy_iterator()) for path in paths]
    assert records[0] == records[1] + records[2] and min(map(len, records)) > 0


@pytest.mark.parametrize("release_compatible", [False, True])
def test_without_an_objective_all_labels_are_0_and_permutation_has_twice_the_masked_features(
        tmp_path, text, create, release_compatible):
    create(objective="none", release_compatible=release_compatible, permutation=True)
    made = examples(tmp_path / "out.tfrecord", max_predictions=10)
    assert {int(example["next_sentence_labels"][0]) for example in made} == {0}
    assert max(example["masked_lm_weights"].sum() for example in made) > 5


def original_tokens(example):
    """The ids of a record without masks and without [CLS] and [SEP]."""
    ids, masked = example["input_ids"].copy(), int(example["masked_lm_weights"].sum())
    ids[example["masked_lm_positions"][:masked]] = example["masked_lm_ids"][:masked]
    return [token for token in ids[: example["input_mask"].sum()].tolist() if token not in (2, 3)]


def test_long_documents_are_cut_for_the_workers_and_no_sentence_is_lost(
        tmp_path, text, create, monkeypatch, sentence_pieces):
    words = [piece[1:] for piece, token in sentence_pieces.vocab.items()
             if sentence_pieces.encode(piece[1:]) == [token]][:120]
    text.write_text("\n".join(words))  # sentences of one token, so that no chunk is trimmed
    monkeypatch.setattr(creation, "LONGEST_PART", 50)
    options = dict(objective="none", short=0.0, dupe_factor=1)
    for release_compatible, lengths in ((False, [20, 21, 21, 29, 29]), (True, [4, 29, 29, 29, 29])):
        assert create(release_compatible=release_compatible, **options)["documents"] == 1
        made = [original_tokens(example) for example in examples(tmp_path / "out.tfrecord")]
        assert sorted(map(len, made)) == lengths
        assert sorted(sum(made, [])) == sorted(sentence_pieces.vocab["\u2581" + word] for word in words)


def test_short_texts_long_lines_and_carriage_returns_are_fine(text, create):
    text.write_text("One sentence alone stands here.\n")
    assert create(release_compatible=True)["swapped"] == 3  # one document pairs with itself, as in the release
    text.write_bytes(b"\r\n".join([b"word " * 200_000, b"The end of it.", b"", b"A second one.", b"And its end."]))
    assert create()["documents"] == 2
    text.write_text("word\n\n" + "\n".join(SENTENCES))
    statistics = create()
    assert (statistics["documents"], statistics["left_out"]) == (2, 3)
    assert "left out: 3 chunks of one word" in summary(statistics)


@pytest.mark.parametrize("content, options, message", [
    (b"\n\n \n", {}, "there is no text"),
    (b"word\n\nword\n", {}, "no examples were made"),
    (b"one document\nof two sentences\n", dict(objective="nsp"), "at least two documents"),
])
def test_a_text_without_records_is_refused_and_leaves_no_file(tmp_path, text, create, content, options, message):
    text.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        create(**options)
    assert [path.name for path in tmp_path.iterdir()] == ["text.txt"]


@pytest.mark.parametrize("outputs, file", [
    (("a.tfrecord", "./a.tfrecord"), "a.tfrecord"),
    (("a", "a.tfrecord"), "a.manifest.json"),  # a manifest describes one file
    (("a.tfrecord", "a.manifest.json"), "a.manifest.json"),
])
def test_outputs_that_would_replace_each_other_are_refused(tmp_path, text, create, outputs, file):
    with pytest.raises(ValueError, match=f"two of the output files would both be written to {tmp_path}/{file}"):
        create(*outputs)
    assert [path.name for path in tmp_path.iterdir()] == ["text.txt"]


def test_a_shard_without_records_is_refused_before_an_earlier_output_is_replaced(tmp_path, text, create):
    outputs = [f"{number}.tfrecord" for number in range(8)]
    create(*outputs)
    text.write_text("\n".join(SENTENCES[:2]))
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(ValueError, match="shard . of 8, .*--num_shards"):
        create(*outputs, dupe_factor=1)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
