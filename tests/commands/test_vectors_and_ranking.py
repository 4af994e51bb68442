"""Sizes and precisions of vectors, hard negatives and reranking, as a user runs them."""

import numpy as np
import pytest
from script_session import ScriptSession
from sentence_transformers_client import PASSAGES, QUERIES
from tiny import TINY_TEXT

import albert_tf
from albert_tf import keras
from albert_tf.export.conversion import save
from albert_tf.modeling.classifier import AlbertClassifier
from albert_tf.modeling.sentence_encoder import AlbertSentenceEncoder
from albert_tf.tasks.classification.answers import RelevanceScorer
from albert_tf.weights.vocabulary import VocabularyFiles

CONFIG = TINY_TEXT.replace(max_position_embeddings=32, initializer_range=0.5)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, golden):
    folder = tmp_path_factory.mktemp("vectors")
    vocabulary = VocabularyFiles(str(golden / "tiny_spm/tiny.model"))
    keras.utils.set_random_seed(2)  # with some weights, two lines have the same bits
    save(AlbertSentenceEncoder(CONFIG, normalize=True, max_seq_length=16), str(folder / "model"), "ours", vocabulary)
    (folder / "lines.txt").write_text("".join(f"{text}\n" for text in [*PASSAGES, *QUERIES]))
    return folder


@pytest.fixture(scope="module")
def session(folder):
    with ScriptSession(init_checkpoint=folder / "model") as session:
        yield session


@pytest.fixture(scope="module")
def extracted(session, folder):
    """The vectors of the lines by precision, from the command, and their ranges."""
    flags = dict(script="extract_embeddings", input_file=folder / "lines.txt", truncate_dim=12)
    for name in ("float32", "int8", "binary"):
        session.run(output_file=folder / f"{name}.npy", vector_precision=name, **flags)
    return {name: np.load(folder / f"{name}.npy") for name in ("float32", "int8", "binary", "int8.ranges")}


def test_files_have_the_requested_precision(session, folder, extracted):
    vectors, (low, high) = extracted["float32"], extracted["int8.ranges"]
    assert vectors.shape == (6, 12)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    np.testing.assert_array_equal([low, high], [vectors.min(axis=0), vectors.max(axis=0)])
    expected = np.clip(np.floor((vectors - low) / ((high - low) / np.float32(255))), 0, 255) - 128
    assert extracted["int8"].dtype == np.int8
    np.testing.assert_array_equal(extracted["int8"], expected)
    np.testing.assert_array_equal(extracted["binary"].view(np.uint8) ^ 128, np.packbits(vectors > 0, axis=1))
    session.run(script="extract_embeddings", input_file=folder / "lines.txt", output_file=folder / "again.npy",
                truncate_dim=12, vector_precision="int8", vector_ranges=folder / "int8.ranges.npy")
    np.testing.assert_array_equal(np.load(folder / "again.npy"), extracted["int8"])


def test_each_line_finds_itself_with_the_defaults_of_both_commands(session, folder, extracted, golden):
    """Also in weights without a stored pooling."""
    vocabulary = VocabularyFiles(str(golden / "tiny_spm/tiny.model"))
    save(albert_tf.AlbertModel(CONFIG), str(folder / "plain"), "ours", vocabulary)
    model = dict(init_checkpoint=folder / "plain", input_file=folder / "lines.txt")
    session.run(script="extract_embeddings", output_file=folder / "plain.npy", **model)
    lines = [*PASSAGES, *QUERIES]
    printed = session.run(script="search_sentences", vectors_file=folder / "plain.npy", query=lines, top_k=1, **model)
    best = [line.split(maxsplit=2) for line in printed.splitlines() if line.startswith("    ")]
    assert [text for _, _, text in best] == lines and min(float(score) for score, _, _ in best) > 0.9999
    for name in ("int8", "binary"):
        printed = session.run(script="search_sentences", input_file=folder / "lines.txt", query=PASSAGES[1], top_k=1,
                              truncate_dim=12, vectors_file=folder / f"{name}.npy")
        assert printed.splitlines()[-1].split(maxsplit=2)[1:] == ["2", PASSAGES[1]]


@pytest.mark.parametrize("flags, name", [
    (dict(pooling="max"), "pooling=mean"), (dict(max_seq_length=5), "max_seq_length=16"),
    (dict(keep_accents=True), "keep_accents=False"), (dict(init_checkpoint="other"), "weights_sha256="),
    (dict(init_checkpoint="deeper"), f"num_hidden_layers={CONFIG.num_hidden_layers}")])
def test_vectors_that_were_made_otherwise_are_refused(session, folder, extracted, golden, flags, name):
    path = folder / flags.get("init_checkpoint", "model")
    if not path.exists():
        config = CONFIG.replace(num_hidden_layers=CONFIG.num_hidden_layers + (path.name == "deeper"))
        model = AlbertSentenceEncoder(config, max_seq_length=16)
        if path.name == "deeper":  # the same weights, which all layers share
            model.set_weights(albert_tf.from_pretrained(str(folder / "model"), "sentence_encoder").get_weights())
        save(model, str(path), "ours", VocabularyFiles(str(golden / "tiny_spm/tiny.model")))
    flags = dict(flags, init_checkpoint=path)
    printed = session.run(script="search_sentences", input_file=folder / "lines.txt", query="a", truncate_dim=12,
                          vectors_file=folder / "float32.npy", expect=1, **flags)
    assert f"float32.npy was made with {name}" in printed.splitlines()[-1]


def test_the_nearest_lines_are_ordered_by_a_model_with_one_score(session, folder, extracted, golden):
    vocabulary = VocabularyFiles(str(golden / "tiny_spm/tiny.model"))
    save(AlbertClassifier(CONFIG, 1, max_seq_length=24), str(folder / "ranker"), "ours", vocabulary)
    model = albert_tf.from_pretrained(str(folder / "ranker"), model="classifier")
    scorer = RelevanceScorer(model, albert_tf.tokenizer_from_pretrained(str(folder / "ranker")))
    printed = session.run(script="search_sentences", input_file=folder / "lines.txt", query=QUERIES[0], top_k=6,
                          truncate_dim=12, vectors_file=folder / "float32.npy", rerank_checkpoint=folder / "ranker")
    lines = [line.split(maxsplit=2) for line in printed.splitlines()[-6:]]
    expected = scorer([QUERIES[0]] * 6, [text for _, _, text in lines])
    np.testing.assert_allclose([float(score) for score, _, _ in lines], expected, atol=1e-4)
    assert (np.diff(expected) <= 1e-6).all()


@pytest.mark.long
def test_vectors_of_fewer_dimensions_are_learned_from_pairs_and_a_teacher(session, folder, golden):
    training = dict(max_seq_length=16, train_step=2, warmup_step=0, save_checkpoints_steps=2, do_train=True,
                    do_eval=True)
    (folder / "mined.tsv").write_text("".join("\t".join(row) + "\n" for row in zip(
        QUERIES, PASSAGES, PASSAGES[1:] + PASSAGES[:1], PASSAGES[2:] + PASSAGES[:2])))
    session.run(script="run_sentence_embeddings", objective="pairs", train_file=folder / "mined.tsv", num_negatives=2,
                matryoshka_dims="16,8", data_dir=golden / "glue", output_dir=folder / "pairs", train_batch_size=2,
                **training)
    assert "spearman_8" in (folder / "pairs/eval_results.json").read_text()
    session.run(script="run_sentence_embeddings", objective="distillation", train_file=folder / "lines.txt",
                teacher_checkpoint=folder / "model", truncate_dim=8, matryoshka_dims="8,4", data_dir=golden / "glue",
                output_dir=folder / "of_teacher", train_batch_size=2, **training)
    assert np.load(folder / "of_teacher/teacher_projection.npy").shape == (16, 8)
    assert "spearman_4" in (folder / "of_teacher/eval_results.json").read_text()


def test_extracted_vectors_teach_their_own_text_alone(session, folder, extracted):
    flags = dict(script="run_sentence_embeddings", objective="distillation", teacher_vectors=folder / "float32.npy",
                 do_train=True, train_batch_size=2, max_seq_length=16, train_step=1, warmup_step=0)
    session.run(train_file=folder / "lines.txt", output_dir=folder / "of_vectors", **flags)
    assert np.load(folder / "of_vectors/teacher_projection.npy").shape == (12, 16)
    (folder / "reversed.txt").write_text("\n".join((folder / "lines.txt").read_text().splitlines()[::-1]) + "\n")
    printed = session.run(train_file=folder / "reversed.txt", output_dir=folder / "of_other", expect=1, **flags)
    assert "float32.npy was made from another text than" in printed.splitlines()[-1]
