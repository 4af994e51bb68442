"""What run_sentence_embeddings alone has: scores from cosines, and contrastive objectives."""

import numpy as np
import pytest
import tensorflow_text  # noqa: F401  registers the ops of exported models
from tuning import results_of

import albert_tf
from albert_tf.config import AlbertConfig
from albert_tf.tasks.classification.data import find_task, read_examples


@pytest.fixture(scope="module")
def run(run_of):
    return run_of("sentence vectors")


@pytest.fixture(scope="module")
def trained(run):
    return run.path


@pytest.fixture(scope="module")
def folder(inputs):
    return inputs


@pytest.mark.both_stacks
def test_answers_are_the_cosines_times_the_best_score(run, trained, folder, golden):
    examples = read_examples(find_task("sts-b"), str(golden / "glue"), "test")
    model = albert_tf.from_pretrained(str(trained), model="sentence_encoder")  # the best checkpoint, as in prediction
    tokenizer = albert_tf.tokenizer_from_pretrained(str(trained))
    first, second = (np.asarray(model(tokenizer([getattr(each, name) for each in examples], max_seq_length=24))[
        "sentence_embedding"]) for name in ("text_a", "text_b"))
    cosines = (first * second).sum(axis=1)  # --normalize is stored with the run
    head, *rows = (line.split("\t") for line in (trained / "submit_results.tsv").read_text().splitlines())
    assert head == ["index", "prediction"] and [index for index, _ in rows] == [each.guid for each in examples]
    np.testing.assert_allclose([float(score) for _, score in rows], np.clip(5 * cosines, 0, 5), atol=1e-4)
    np.testing.assert_allclose(np.loadtxt(trained / "test_results.tsv"), 5 * cosines, atol=1e-4)
    run(output_dir=folder / "of_ten", init_checkpoint=trained, do_predict=True, best_score=10, albert_config_file=None,
        spm_model_file=None)
    np.testing.assert_allclose(np.loadtxt(folder / "of_ten/test_results.tsv"), 10 * cosines, atol=1e-4)


@pytest.mark.long
@pytest.mark.parametrize("objective, train_file", [("pairs", "pairs.tsv"), ("simcse", "lines.txt")])
def test_pairs_and_lines_are_learned_by_contrast(run, folder, objective, train_file):
    run(output_dir=folder / objective, objective=objective, train_file=folder / train_file, do_train=True,
        do_eval=True, num_runs=2, gradient_accumulation_steps=2, whole_batch_negatives=objective == "simcse")
    config = AlbertConfig.from_json_file(str(folder / objective / "seed_12345/albert_config.json"))
    assert config.hidden_dropout_prob == config.attention_probs_dropout_prob == (0.1 if objective == "simcse" else 0)
    assert set(results_of(folder / objective)) == {"pearson", "spearman"}
