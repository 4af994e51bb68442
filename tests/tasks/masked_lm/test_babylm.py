"""Minimal pairs are scored as by the BabyLM challenge, whose scoring in transformers stands in babylm_client.py.

Wants the environments of peers.py: the newest transformers, and the last 4.x.
"""

import itertools
import json
import os
import pathlib

import numpy as np
import pytest
from peers import TRANSFORMERS, run_client

import albert_tf
from albert_tf.tasks.masked_lm import accuracies, read_minimal_pairs, score_sentences
from albert_tf.weights.stored_model import shipped_model

NOUNS = ("dog", "teacher", "captain", "young woman", "neighbour", "painter's brother", "duke", "journalist")
VERBS = ("sleep", "remember", "complain", "whisper", "hesitate", "apologize")
# One paradigm of each field, and one with the other spelling of the last field.
PARADIGMS = ("anaphor_gender_agreement", "npi_present_1", "wh_island", "principle_A_case_1",
             "principle_A_reconstruction")


def write_pairs(folder):
    """The first pairs of five of BLiMP's paradigms, or where BLiMP is not there, two paradigms from templates."""
    data = pathlib.Path(os.environ.get("ALBERT_TF_DATA", "none")) / "blimp"
    if data.is_dir():
        for name in PARADIGMS:
            lines = (data / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()[:30]
            (folder / f"{name}.jsonl").write_text("\n".join(lines), encoding="utf-8")
        return
    both = list(itertools.product(NOUNS, VERBS))
    paradigms = dict(
        agreement=[(f"The {noun} {verb}s.", f"The {noun} {verb}.", "morphology") for noun, verb in both],
        island=[(f"Who did the {noun} {verb} after finding?", f"Who did the {noun} after finding {verb}?",
                 "syntax_semantics") for noun, verb in both[::2]])
    for name, rows in paradigms.items():
        (folder / f"{name}.jsonl").write_text("".join(
            json.dumps(dict(sentence_good=good, sentence_bad=bad, field=field)) + "\n" for good, bad, field in rows))


@pytest.mark.long
@pytest.mark.parametrize("peer", TRANSFORMERS)
def test_scores_and_accuracies_are_those_of_the_challenge_in_transformers(tmp_path, peer):
    (tmp_path / "blimp").mkdir()
    write_pairs(tmp_path / "blimp")
    run_client(peer, "babylm_client.py", shipped_model("albert_tiny_en"), tmp_path / "blimp", tmp_path / "theirs.json")
    theirs = json.loads((tmp_path / "theirs.json").read_text())
    pairs = read_minimal_pairs(str(tmp_path / "blimp"))
    model = albert_tf.from_pretrained("albert_tiny_en", model="pretrainer")
    tokenizer = albert_tf.tokenizer_from_pretrained("albert_tiny_en")
    scores = score_sentences(model, tokenizer, [text for pair in pairs for text in (pair.good, pair.bad)])
    np.testing.assert_allclose(scores, theirs["scores"], rtol=0, atol=2e-4)
    ours = accuracies(pairs, scores[::2], scores[1::2])
    assert 0.3 < ours["mean_of_files"] < 0.99
    assert ours["mean_of_files"] == pytest.approx(theirs["average"], abs=1e-12)
    assert ours["files"] == theirs["paradigm"] and ours["fields"] == theirs["field"]
