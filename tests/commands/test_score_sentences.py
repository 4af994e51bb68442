"""score_sentences as a user runs it: lines, minimal pairs, results as JSON, mistakes."""

import json

import numpy as np
import pytest
from script_session import ScriptSession


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
