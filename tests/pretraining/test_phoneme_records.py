"""Pre-training on phonemes: records, masks, losses."""

import collections
import json

import numpy as np
import pytest
import tensorflow as tf
from tiny import TINY

from albert_tf.data.records import check_records
from albert_tf.modeling import pretrainer as modeling
from albert_tf.modeling.pretrainer import AlbertPhonemePretrainer
from albert_tf.pretraining import phoneme_objective
from albert_tf.pretraining.objective import results
from albert_tf.pretraining.phoneme_objective import DistilledPhonemeObjective, PhonemeObjective, masked_batch
from albert_tf.pretraining.phonemes import PhonemeOptions, create_phoneme_records
from albert_tf.pretraining.reading import open_records
from albert_tf.text.phonemes import PhonemeTable, write_line

TABLE = PhonemeTable({symbol: i for i, symbol in enumerate(" abcdefghij", start=1)}, mask_id=12)
CONFIG = TINY.replace(vocab_size=13)


def write(path, sentences):
    """Writes lines of words that sound as they are written, in lower case; None is a blank line."""
    path.write_text("".join("\n" if words is None else write_line(words.split(), words.lower().split()) + "\n"
                            for words in sentences))
    return str(path)


def create(folder, sentences, name="x", max_seq_length=12, word_vocab_size=20, word_vocab_file=None):
    text, path = write(folder / f"{name}.jsonl", sentences), str(folder / f"{name}.tfrecord")
    counts = create_phoneme_records([text], {path: [path]}, TABLE, PhonemeOptions(max_seq_length, word_vocab_size),
                                    num_workers=1, random_seed=1, word_vocab_file=word_vocab_file)
    return path, counts


def rows_of(path):
    """The symbols and the ids of the words of each record, sorted."""
    symbols = {i: symbol for symbol, i in TABLE.ids.items()}
    rows = []
    for record in tf.data.TFRecordDataset(path).as_numpy_iterator():
        features = tf.train.Example.FromString(record).features.feature
        ids, mask, words = (list(features[name].int64_list.value) for name in ("input_ids", "input_mask", "word_ids"))
        assert mask == [1] * sum(mask) + [0] * (len(ids) - sum(mask)) and not any(ids[sum(mask):])
        rows.append(("".join(symbols[i] for i in ids[: sum(mask)]), words))
    return sorted(rows)


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_rows_of_pl_berts_preparation_have_numbers_as_words(tmp_path, ending):
    rows = [dict(input_ids=[7, 9, 7], phonemes=["ab", "c", "ab"]), dict(input_ids=[12], phonemes=["de"])]
    text, path = tmp_path / f"rows.{ending}", str(tmp_path / "x.tfrecord")
    if ending == "parquet":
        pyarrow = pytest.importorskip("pyarrow")
        pytest.importorskip("pyarrow.parquet").write_table(pyarrow.Table.from_pylist(rows), text)
    else:
        text.write_text("\n\n".join(map(json.dumps, rows)))
    create_phoneme_records([str(text)], {path: [path]}, TABLE, PhonemeOptions(12, 20), num_workers=1, random_seed=1)
    words = [line.split("\t")[0] for line in (tmp_path / "x.words.tsv").read_text().splitlines()]
    assert sorted(words[2:]) == ["12", "7", "9"]
    assert [(symbols, [words[i] for i in ids]) for symbols, ids in rows_of(path)] == [
        ("ab c ab", ["7", "9", "7"]), ("de", ["12"])]


def random_sentences(count, seed=0):
    chance = np.random.default_rng(seed)
    words = ["".join(chance.choice(list("abcdefghij"), chance.integers(1, 7))) for _ in range(40)]
    return [" ".join(chance.choice(words, chance.integers(1, 9))) for _ in range(count)]


def test_rows_join_the_lines_of_a_document_and_are_cut_between_words(tmp_path):
    path, counts = create(tmp_path, ["Ab a", "cde", None, "ab fghijabcdefghij a", "b"], max_seq_length=10)
    ids = {line.split("\t")[0]: i for i, line in enumerate((tmp_path / "x.words.tsv").read_text().splitlines())}
    assert rows_of(path) == sorted([("ab a cde", [ids["ab"], ids["a"], ids["cde"]]), ("ab", [ids["ab"]]),
                                    ("fghijabcde", [ids["fghijabcdefghij"]]), ("a b", [ids["a"], ids["b"]])])
    assert counts["words"] == 7 and counts["examples"] == 4 and counts["other_words"] == 0


def test_hundreds_of_lines_are_in_the_records_once_whatever_the_workers(tmp_path):
    sentences = random_sentences(500)
    path, counts = create(tmp_path, sentences, max_seq_length=40, word_vocab_size=20)
    counted = collections.Counter(word for row, _ in rows_of(path) for word in row.split())
    assert counted == collections.Counter(" ".join(sentences).split())
    lines = [line.split("\t") for line in (tmp_path / "x.words.tsv").read_text().splitlines()]
    assert len(lines) == 20 and all(counted[word] == int(count) for word, count in lines[2:])
    assert [int(count) for _, count in lines[2:]] == [count for _, count in counted.most_common(18)]
    assert counts["other_words"] == counted.total() - sum(count for _, count in counted.most_common(18))
    other, _ = create(tmp_path, sentences[:100], name="dev", word_vocab_file=str(tmp_path / "x.words.tsv"))
    assert check_records([other])[0].made_from["words_sha256"] == check_records([path])[0].made_from["words_sha256"]


@pytest.mark.parametrize("sentences, named", [(["a a a b"], "'a' is 75%"), ([None], "no phonemes"),
                                              (["ab", "zzz a"], "U+007A")])
def test_a_text_that_teaches_nothing_is_refused(tmp_path, sentences, named):
    with pytest.raises(ValueError) as error:
        create(tmp_path, sentences)
    assert named in str(error.value) and not (tmp_path / "x.tfrecord").exists()


def test_a_list_of_words_of_another_kind_is_refused(tmp_path):
    (tmp_path / "words.txt").write_text("a\nb\n")
    with pytest.raises(ValueError, match="words.txt"):
        create(tmp_path, ["a b"], word_vocab_file=str(tmp_path / "words.txt"))


@pytest.mark.parametrize("changes, named", [(dict(max_seq_length=16), "--max_seq_length=12"),
                                            (dict(vocab_size=12), "vocab_size")])
def test_records_that_do_not_fit_are_named(tmp_path, changes, named):
    path, _ = create(tmp_path, ["a b", "c d"])
    with pytest.raises(ValueError, match=named):
        open_records([path], **{**dict(max_seq_length=12, max_predictions_per_seq=3, vocab_size=13), **changes})


def batches(path, seed, first=0, max_seq_length=40):
    records = list(tf.data.TFRecordDataset(path).as_numpy_iterator())
    parse = tf.function(open_records([path], max_seq_length, max_seq_length, CONFIG.vocab_size).parser(seed))
    return parse(tf.constant(records), tf.range(first, first + len(records), dtype=tf.int64))


def test_15_percent_of_the_words_are_chosen_whole_and_80_10_10_of_them_changed(tmp_path):
    path, _ = create(tmp_path, random_sentences(3000), max_seq_length=40)
    batch = {name: values.numpy() for name, values in batches(path, seed=3).items()}
    original, chosen = batch["masked_lm_ids"], batch["masked_lm_weights"] > 0
    words = batch["word_index"] + 1000 * np.arange(len(original))[:, None]
    real = batch["word_index"] >= 0
    assert not (chosen & ~real).any() and (batch["input_ids"][~chosen] == original[~chosen]).all()
    share_of_word = {}
    for word, is_chosen, masked, same in zip(words[real], chosen[real], batch["input_ids"][real] == 12,
                                             (batch["input_ids"] == original)[real]):
        share_of_word.setdefault(word, []).append((is_chosen, masked, same))
    fates = collections.Counter()
    for letters in share_of_word.values():
        is_chosen, masked, same = map(np.array, zip(*letters))
        assert is_chosen.all() or not is_chosen.any()
        if is_chosen.any():
            assert masked.all() or not masked.any()
            fates["masked" if masked.all() else "same" if same.all() else "random"] += 1
    total = fates.total()
    assert total / len(share_of_word) == pytest.approx(0.15, abs=0.01)
    assert fates["masked"] / total == pytest.approx(0.8, abs=0.03)
    assert fates["same"] / total == pytest.approx(0.1, abs=0.03)
    assert (batch["input_ids"] != 1)[chosen].all()  # a random phoneme is no separator


def test_masks_depend_on_the_seed_and_the_number_of_the_example_alone(tmp_path):
    path, _ = create(tmp_path, random_sentences(60), max_seq_length=40)
    first, again, later, other = (batches(path, *arguments)["input_ids"].numpy()
                                  for arguments in ((1, 0), (1, 0), (1, 1000), (2, 0)))
    assert (first == again).all() and (first != later).any() and (first != other).any()


@pytest.fixture(scope="module")
def trained():
    """A model, a batch of it with padding, and what the model computes."""
    form = phoneme_objective.PhonemeFormat(12, 5, 7, "", 13, separator_id=1, mask_id=12)
    ids = np.array([[2, 3, 1, 4, 4, 4, 1, 5, 0, 0, 0, 0], [6, 1, 7, 8, 9, 1, 10, 1, 11, 2, 1, 3]])
    words = np.array([[2, 3, 0, 0, 0], [4, 5, 6, 2, 3]])
    chance = np.random.default_rng(5).random([2, 3, 12])
    chance[:, 0, 1] = 0.0  # the second words are chosen
    batch = masked_batch(*(tf.constant(values, tf.int32) for values in (ids, ids > 0, words)),
                         tf.constant(chance, tf.float32), form)
    model = AlbertPhonemePretrainer(CONFIG, num_words=7)
    return model, batch, model(batch)


def word_losses(model, vectors, labels):
    logits = vectors @ model.words.kernel.numpy().T + model.words.bias.numpy()
    return np.log(np.exp(logits).sum(-1)) - np.take_along_axis(logits, labels[..., None], -1)[..., 0]


@pytest.mark.parametrize("predictions", ["all", "once"])
def test_losses_and_metrics_are_those_of_the_definition(trained, predictions):
    model, batch, outputs = trained
    vectors, weights = outputs["sequence_output"].numpy(), batch["masked_lm_weights"].numpy()
    if predictions == "all":
        labels = np.array([[2, 2, 1, 3, 3, 3, 1, 0], [4, 1, 5, 5, 5, 1, 6, 1, 2, 2, 1, 3]], object)
        words = np.concatenate([word_losses(model, vectors[i, : len(row)], np.array(row))
                                for i, row in enumerate(labels)])
    else:
        spans = [[(0, 2, 2), (3, 6, 3), (7, 8, 0)], [(0, 1, 4), (2, 5, 5), (6, 7, 6), (8, 10, 2), (11, 12, 3)]]
        words = np.array([word_losses(model, vectors[i, first:last].mean(0), np.array(label))
                          for i, row in enumerate(spans) for first, last, label in row])
    phonemes = tf.nn.sparse_softmax_cross_entropy_with_logits(batch["masked_lm_ids"], outputs["mlm_logits"]).numpy()
    expected = dict(masked_lm_loss=(phonemes * weights).sum() / (weights.sum() + 1e-5), word_loss=words.mean())
    objective = PhonemeObjective(model, predictions)
    total, parts = objective.loss(outputs, batch, objective.loss_denominators(batch))
    assert {name: float(value) for name, value in parts.items()} == pytest.approx(expected, rel=1e-5)
    assert float(total) == pytest.approx(sum(expected.values()), rel=1e-5)
    assert results(objective.predictions(outputs, batch))["word_loss"] == pytest.approx(expected["word_loss"], rel=1e-5)


@pytest.mark.parametrize("rows", [50, 64, 130])
def test_the_loss_in_blocks_and_its_gradients_are_those_of_all_logits(monkeypatch, rows):
    monkeypatch.setattr(modeling, "_BLOCK", 64)
    model, chance = AlbertPhonemePretrainer(CONFIG, num_words=11), np.random.default_rng(0)
    model.words.bias.assign(chance.normal(size=11))
    vectors = tf.constant(chance.normal(size=(rows, 8)), tf.float32)
    weights = tf.constant(chance.random(rows), tf.float32)
    labels = tf.constant(chance.integers(0, 11, rows), tf.int32)

    def gradients(loss):
        with tf.GradientTape() as tape:
            tape.watch(vectors)
            value = 3 * loss()
        return [value, *map(tf.convert_to_tensor, tape.gradient(value, [vectors, *model.words.weights]))]

    blocks = gradients(tf.function(lambda: model.summed_word_loss(vectors, labels, weights), jit_compile=True))
    whole = gradients(lambda: tf.reduce_sum(weights * tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels, model.words(vectors))))
    for ours, expected in zip(blocks, whole):
        np.testing.assert_allclose(ours, expected, rtol=2e-5, atol=2e-5)
    losses, hits = model.word_losses(vectors, labels)
    assert float(tf.reduce_sum(losses * weights)) * 3 == pytest.approx(float(whole[0]), rel=1e-5)
    assert (hits.numpy() == (np.argmax(model.words(vectors), axis=1) == labels.numpy())).all()


def test_a_teacher_of_the_same_phonemes_adds_its_divergence(trained):
    model, batch, outputs = trained
    plain, same = PhonemeObjective(model), DistilledPhonemeObjective(model, model, alpha=0.5, word_predictions="all")
    denominators = plain.loss_denominators(batch)
    (_, expected), (total, parts) = (objective.loss(outputs, batch, denominators) for objective in (plain, same))
    assert float(parts["distillation_loss"]) == pytest.approx(0.0, abs=1e-6)
    assert float(total) == pytest.approx(0.5 * float(expected["masked_lm_loss"]) + float(expected["word_loss"]),
                                         rel=1e-5)


def test_baselines_are_the_frequencies_of_the_text(tmp_path):
    create(tmp_path, ["ab ab a", "a cde"])
    baselines = json.loads((tmp_path / "x.manifest.json").read_text())["made_from"]["baselines"]
    # A word once; or ab, a and cde once for each phoneme, and 3 separators: cde has a row of its own.
    for name, counts in dict(once=[2, 2, 1], all=[4, 2, 3, 3]).items():
        shares = np.array(counts) / sum(counts)
        assert baselines[name]["word_accuracy"] == max(shares)
        assert baselines[name]["word_loss"] == pytest.approx(-(shares * np.log(shares)).sum())
        assert baselines[name]["masked_lm_accuracy"] == pytest.approx(4 / 9)


@pytest.mark.parametrize("predictions, word", [("all", 4), ("once", 2)])  # cdefghi: 7 of 18; ab: 3 of 6
def test_a_model_that_always_says_the_most_frequent_word_has_the_accuracy_of_the_baseline(tmp_path, predictions, word):
    path, _ = create(tmp_path, ["ab ab ab a", None, "a cdefghi"])
    made_from = check_records([path])[0].made_from
    model = AlbertPhonemePretrainer(CONFIG, num_words=made_from["num_words"])
    model.words.bias.assign(tf.one_hot(word, made_from["num_words"]) * 1e3)
    objective = PhonemeObjective(model, predictions)
    batch = batches(path, seed=1, max_seq_length=12)
    found = results(objective.predictions(model(batch), batch))
    assert found["word_accuracy"] == pytest.approx(made_from["baselines"][predictions]["word_accuracy"])


def test_the_words_belong_to_the_set_of_the_records(tmp_path):
    (tmp_path / "x.words.tsv").write_text("of another program")
    with pytest.raises(ValueError, match="x.words.tsv exists"):
        create(tmp_path, ["a b"])
    assert (tmp_path / "x.words.tsv").read_text() == "of another program" and not (tmp_path / "x.tfrecord").exists()
    (tmp_path / "x.words.tsv").unlink()
    path, _ = create(tmp_path, ["a b"])
    words = tmp_path / "x.words.tsv"
    words.write_text(words.read_text()[:-3])
    for read in (lambda: check_records([path]), lambda: create(tmp_path, ["a b"], "y", word_vocab_file=str(words))):
        with pytest.raises(ValueError, match="x.words.tsv has"):
            read()


def test_files_of_the_same_name_have_different_orders(tmp_path):
    files = []
    for folder, letters in (("one", "abcde"), ("two", "fghij")):
        (tmp_path / folder).mkdir()
        sentences = [" ".join(letter * i for letter in letters) for i in range(1, 9)]
        files.append(write(tmp_path / folder / "x.jsonl",
                           [line for sentence in sentences for line in (sentence, None)]))
    path = str(tmp_path / "x.tfrecord")
    create_phoneme_records(files, {path: [path]}, TABLE, PhonemeOptions(64, 100), num_workers=1, random_seed=1)
    orders = {"a": [], "f": []}
    for record in tf.data.TFRecordDataset(path).as_numpy_iterator():
        mask = tf.train.Example.FromString(record).features.feature["input_mask"].int64_list.value
        first = tf.train.Example.FromString(record).features.feature["input_ids"].int64_list.value[0]
        orders["a" if first == TABLE.ids["a"] else "f"].append(sum(mask))
    assert sorted(orders["a"]) == sorted(orders["f"]) and orders["a"] != orders["f"]


@pytest.mark.parametrize("is_first", [True, False])
def test_records_of_text_beside_records_of_phonemes_are_named(tmp_path, is_first):
    path, _ = create(tmp_path, ["a b", "c d"])
    text = str(tmp_path / "text.tfrecord")
    with tf.io.TFRecordWriter(text) as file:
        file.write(tf.train.Example().SerializeToString())
    paths = [path, text] if is_first else [text, path]
    with pytest.raises(ValueError, match=f"{text} does not hold records of phonemes"):
        open_records(paths, 12, 12, CONFIG.vocab_size)


def test_a_model_of_another_table_is_named():
    phoneme_objective.check_symbols("encoder", None, "\0ab")
    phoneme_objective.check_symbols("encoder", "\0ab", "\0abc")
    phoneme_objective.check_symbols("encoder", "\0a\0c", "\0abc")
    with pytest.raises(ValueError, match="encoder .* id 2 is 'b', and 'c' in the records"):
        phoneme_objective.check_symbols("encoder", "\0ab", "\0ac")
