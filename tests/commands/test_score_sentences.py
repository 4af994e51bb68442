"""score_sentences as a user runs it: lines, minimal pairs, results as JSON, mistakes."""

import json

import numpy as np
import pytest
from script_session import ScriptSession

from albert_tf.config import AlbertConfig
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.weights.hugging_face.writing import save_hugging_face


@pytest.fixture(scope="module")
def scores(golden):
    return json.loads((golden / "hf/masked_lm/scores.json").read_text())


@pytest.fixture(scope="module")
def script(golden):
    with ScriptSession("score_sentences", init_checkpoint=golden / "hf/masked_lm",
                       spm_model_file=golden / "tiny_spm/tiny.model") as session:
        yield session


@pytest.fixture(scope="module")
def lines(scores, tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "lines.txt"
    path.write_text("\n".join(scores["sentences"]) + "\n")
    return path


@pytest.fixture(scope="module")
def pairs(scores, tmp_path_factory):
    """Two files: in a.jsonl the first of two pairs is right, in b.jsonl the only pair is a tie."""
    folder = tmp_path_factory.mktemp("pairs")
    better, worse = scores["sentences"][2], scores["sentences"][0]
    files = dict(a=[(better, worse, "syntax"), (worse, better, "morphology")], b=[("Of", "of", "syntax")])
    for name, rows in files.items():
        (folder / f"{name}.jsonl").write_text("".join(
            json.dumps(dict(sentence_good=good, sentence_bad=bad, field=field)) + "\n" for good, bad, field in rows))
    return folder


@pytest.mark.both_stacks
def test_a_score_for_each_line(script, scores, lines, tmp_path):
    printed = script.run(input_file=lines, output_file=tmp_path / "scores.json")
    np.testing.assert_allclose(json.loads((tmp_path / "scores.json").read_text())["scores"], scores["plain"], atol=1e-4)
    made_from = json.loads((tmp_path / "scores.json.manifest.json").read_text())["made_from"]
    assert made_from["spm_model_file"].endswith("tiny.model") and made_from["input_file"] == str(lines)
    rows = [line.split("\t") for line in printed.splitlines() if "\t" in line]
    assert [sentence for _, sentence in rows] == scores["sentences"]
    np.testing.assert_allclose([float(score) for score, _ in rows], scores["plain"], atol=2e-4)


def test_shards_one_after_the_other_have_the_scores_of_the_whole_text(script, scores, tmp_path):
    found = []
    for of_shard in (scores["sentences"][:2], scores["sentences"][2:]):
        (tmp_path / "shard.txt").write_text("\n".join(of_shard) + "\n")
        script.run(input_file=tmp_path / "shard.txt", output_file=tmp_path / "scores.json")
        found += json.loads((tmp_path / "scores.json").read_text())["scores"]
    np.testing.assert_allclose(found, scores["plain"], atol=1e-4)


def test_words_from_left_to_right(script, scores, lines, tmp_path):
    script.run(input_file=lines, output_file=tmp_path / "scores.json", within_word_l2r=True, tokens_per_batch=20)
    ours = json.loads((tmp_path / "scores.json").read_text())["scores"]
    np.testing.assert_allclose(ours, scores["within_word_l2r"], atol=1e-4)


def test_accuracy_on_pairs_by_file_by_field_and_in_all(script, pairs, tmp_path):
    printed = script.run(pairs=pairs, output_file=tmp_path / "out.json")
    assert json.loads((tmp_path / "out.json").read_text()) == {
        "all": 0.5, "mean_of_files": 0.5, "files": {"a": 0.5, "b": 0.5}, "fields": {"syntax": 0.75, "morphology": 0.0}}
    assert [line for line in printed.splitlines() if line[:2] in ("0.", "1.")] == [
        "0.500  a", "0.500  b", "0.750  syntax", "0.000  morphology", "0.500  mean of 2 files",
        "0.500  all 3 pairs"]


def test_bfloat16_scores_are_near_and_are_not_those_of_float32(script, scores, lines, tmp_path):
    script.run(input_file=lines, output_file=tmp_path / "scores.json", precision="mixed_bfloat16")
    ours = json.loads((tmp_path / "scores.json").read_text())["scores"]
    np.testing.assert_allclose(ours, scores["plain"], rtol=0.02)
    assert not np.allclose(ours, scores["plain"], rtol=0, atol=1e-4)


def test_weights_without_a_masked_lm_head_are_refused(script, lines, tmp_path):
    config = AlbertConfig(vocab_size=2000, embedding_size=8, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
                          intermediate_size=16, max_position_embeddings=32)
    save_hugging_face(AlbertModel(config), str(tmp_path / "encoder"))
    error = script.run(expect=1, init_checkpoint=tmp_path / "encoder", input_file=lines).splitlines()[-1]
    assert error.startswith(f"score_sentences: error: {tmp_path}/encoder has no masked-LM head: cls/predictions/")


@pytest.mark.parametrize("flags, message", [
    (dict(pairs="a.jsonl", input_file="b.txt"), "--input_file and --pairs exclude each other"),
    (dict(pairs="no/such.jsonl"), "no such file: no/such.jsonl"),
    (dict(input_file="no_such.txt"), "no_such.txt"),
    (dict(init_checkpoint=None, input_file=__file__), "the model is missing: set --init_checkpoint to")])
def test_mistakes_end_in_one_line(script, flags, message):
    error = script.run(expect=1, **flags).splitlines()[-1]
    assert error.startswith("score_sentences: error: ") and message in error


def test_a_line_that_is_too_long_is_named(script, tmp_path):
    (tmp_path / "lines.txt").write_text("of\n" + "the " * 40 + "\n")
    error = script.run(expect=1, input_file=tmp_path / "lines.txt").splitlines()[-1]
    assert f"{tmp_path}/lines.txt line 2: 40 pieces, [CLS] and [SEP] exceed the model's 32 positions" in error


def test_results_replace_earlier_results_and_no_other_file(script, scores, lines, pairs, tmp_path):
    for _ in range(2):
        script.run(pairs=pairs, output_file=tmp_path / "out.json")
    assert json.loads((tmp_path / "out.json").read_text())["all"] == 0.5
    error = script.run(expect=1, input_file=lines, output_file=lines).splitlines()[-1]
    assert f"{lines} exists, and no {lines}.manifest.json says that it is an earlier output" in error
    assert lines.read_text().splitlines() == scores["sentences"]
