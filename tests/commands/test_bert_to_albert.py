"""bert_to_albert as a user runs it, and the loss with which a model learns its teacher's vectors."""

import json

import numpy as np
import pytest
import script_process
import tensorflow as tf
from tiny import TINY

import albert_tf
from albert_tf import keras
from albert_tf.commands import bert_to_albert
from albert_tf.export.conversion import save
from albert_tf.modeling.sentence_encoder import AlbertSentenceEncoder
from albert_tf.tasks.sentence_vectors.objective import SentenceVectorObjective
from albert_tf.weights.vocabulary import VocabularyFiles

pytestmark = pytest.mark.both_stacks

LINES = [f"the {noun} {verb} the {other}" for noun in ("king", "boat", "stove") for verb in ("saw", "sold", "filled")
         for other in ("kettle", "name", "file", "king")]


@pytest.fixture(scope="module")
def bert(tmp_path_factory, word_pieces):
    folder = tmp_path_factory.mktemp("bert")
    keras.utils.set_random_seed(3)
    config = TINY.replace(vocab_size=len(word_pieces.vocab), embedding_size=32, hidden_size=32, intermediate_size=64,
                          max_position_embeddings=32, initializer_range=0.2, cross_layer_sharing="none")
    save(AlbertSentenceEncoder(config, max_seq_length=32), str(folder / "bert"), "ours",
         VocabularyFiles.from_tokenizer(word_pieces))
    (folder / "lines.txt").write_text("\n".join(LINES) + "\n")
    return folder


def cosine_to_teacher(path, teacher):
    tokenizer = albert_tf.tokenizer_from_pretrained(str(teacher))
    vectors = [model(tokenizer(LINES))["sentence_embedding"].numpy() for model in (
        albert_tf.from_pretrained(str(each), model="sentence_encoder") for each in (path, teacher))]
    ours, theirs = (each @ each.T for each in (each / np.linalg.norm(each, axis=1, keepdims=True) for each in vectors))
    return np.corrcoef(ours.ravel(), theirs.ravel())[0, 1]


@pytest.mark.long
def test_a_bert_becomes_a_small_albert_that_learns_its_vectors(bert, tmp_path):
    flags = dict(init_checkpoint=bert / "bert", text=bert / "lines.txt", output_dir=tmp_path / "out", embedding_size=8,
                 kept_layers="1,2", num_train_epochs=80, train_batch_size=12, max_seq_length=16, learning_rate=3e-3,
                 precision="float32")
    script_process.run("bert_to_albert", flags)
    config = json.loads((tmp_path / "out/model/config.json").read_text())
    assert config["embedding_size"] == 8 and config["num_hidden_groups"] == 1
    before, after = (cosine_to_teacher(tmp_path / "out" / name, bert / "bert") for name in ("start", "model"))
    assert after > max(before, 0.8)


@pytest.fixture
def started(monkeypatch, bert, tmp_path):
    """A function that starts the training, and returns the flags of its script."""
    def learn(start="bert", **options):
        flags = {}
        monkeypatch.setattr(bert_to_albert, "run_script", lambda _, **values: flags.update(values))
        requested = dict(init_checkpoint=str(bert / "bert"), text=str(bert / "lines.txt"), output_dir=str(tmp_path),
                         replaced_words=0.0, random_seed=1)
        bert_to_albert.learn(bert_to_albert.Options(**{**requested, **options}), str(bert / start))
        return flags

    return learn


def test_texts_are_cut_to_the_length_that_is_stored_and_not_to_all_positions(started, bert, word_pieces):
    assert started()["max_seq_length"] == 32 and started(max_seq_length=16)["max_seq_length"] == 16
    config = albert_tf.from_pretrained(str(bert / "bert"), model="sentence_encoder").config
    save(AlbertSentenceEncoder(config), str(bert / "no length"), "ours", VocabularyFiles.from_tokenizer(word_pieces))
    assert started("no length")["max_seq_length"] is None  # then the script has its default


@pytest.mark.parametrize("options, expected", [
    (dict(runtime="jax"), "mixed_bfloat16"), (dict(runtime="jax", precision="float32"), "float32"),
    (dict(runtime="tensorflow"), "float32")])
def test_the_cpu_decides_on_bfloat16_only_if_it_computes_the_training(options, expected, started, monkeypatch):
    monkeypatch.setattr(bert_to_albert, "fast_precision", lambda: "float32")
    flags = started(**options)
    assert flags["precision"] == expected and flags["runtime"] == options["runtime"]


def test_stored_vectors_are_learned_with_the_text_as_it_is(started, bert):
    flags = started()
    assert flags["bias_correction"] is True  # without it, Adam's first steps are up to 6.6 times as large
    assert flags["objective"] == "tokens" and flags["teacher_checkpoint"] == str(bert / "bert")
    flags = started(teacher_vectors="vectors.npy", replaced_words=None)
    assert (flags["teacher_vectors"], flags["train_file"]) == ("vectors.npy", str(bert / "lines.txt"))
    assert flags["objective"] == "distillation"
    assert "teacher_checkpoint" not in flags
    with pytest.raises(ValueError, match="--replaced_words=0.1 and --teacher_vectors exclude each other"):
        started(teacher_vectors="vectors.npy", replaced_words=0.1)


def test_words_of_every_second_line_are_replaced_by_others_of_the_vocabulary(started, word_pieces, tmp_path):
    def trained_on(**options):
        with open(started(**options)["train_file"], encoding="utf-8") as file:
            return file.read().splitlines()

    assert trained_on() == LINES
    lines = trained_on(replaced_words=0.5)
    assert lines == trained_on(replaced_words=0.5) != trained_on(replaced_words=0.5, random_seed=2)
    assert lines[::2] == LINES[::2]
    changes = [(old, new) for before, after in zip(LINES[1::2], lines[1::2], strict=True)
               for old, new in zip(before.split(), after.split(), strict=True) if old != new]
    words = sum(len(line.split()) for line in LINES[1::2])
    assert 0.35 < len(changes) / words < 0.65
    new = {new for _, new in changes}
    assert len(new) > 20 and new <= set(word_pieces.vocab)
    assert all(word.isalnum() and len(word) > 1 for word in new)


def test_the_loss_of_depths_is_the_mean_of_those_of_the_cut_models(tmp_path):
    random = np.random.default_rng(1)
    config = TINY.replace(num_hidden_layers=4, initializer_range=0.5)
    keras.utils.set_random_seed(1)
    model = AlbertSentenceEncoder(config)
    save(model, str(tmp_path), "ours")
    taught = albert_tf.from_pretrained(str(tmp_path), "sentence_encoder", distillation_depths=[1, 3])
    ids = random.integers(1, 9, [3, 5])
    batch = dict(input_ids=ids, input_mask=np.array([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [1, 1, 1, 0, 0]]),
                 segment_ids=np.zeros_like(ids))
    teacher = dict(sentence_embedding=tf.constant(random.standard_normal([3, 8]), tf.float32))

    def loss(model):
        return float(SentenceVectorObjective(model).teacher_loss(
            model(batch), teacher, batch, dict(examples=tf.constant(3.0)), 1.0))

    cut = [loss(albert_tf.from_pretrained(str(tmp_path), "sentence_encoder", num_layers=depth)) for depth in (1, 3)]
    assert loss(taught) == pytest.approx(np.mean([loss(model), *cut]), rel=1e-5)
    assert len({round(each, 3) for each in (loss(model), *cut)}) == 3
    with pytest.raises(ValueError, match="must be less than the model's number of layers, 4. Received: 2, 4"):
        AlbertSentenceEncoder(config, distillation_depths=(2, 4))
