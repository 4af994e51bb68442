"""Question and context in a SavedModel: windows and answers equal those of prediction."""

import json

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.tasks.squad.answers import AnswerOptions, answer_question
from albert_tf.tasks.squad.export import MODEL_INPUTS, best_answers, pack_windows
from albert_tf.tasks.squad.features import FeatureOptions, feature_blocks, features_of_blocks
from albert_tf.tasks.squad.fine_tuning import SpanTask
from albert_tf.tasks.squad.reading import SquadExample
from albert_tf.text.graph.tokenization import GraphTokenizer

pytestmark = pytest.mark.both_stacks

OPTIONS = FeatureOptions(max_seq_length=40, doc_stride=12, max_query_length=10, is_training=False)
BEAM = 3


@pytest.fixture(scope="module", params=["sentence_pieces", "word_pieces"])
def tokenizer(request):
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="module")
def pairs(golden):
    """The questions of golden/squad with their contexts, and short ones."""
    data = json.loads((golden / "squad/dev.json").read_text(encoding="utf-8"))["data"]
    found = [(question["question"], paragraph["context"]) for article in data for paragraph in article["paragraphs"]
             for question in paragraph["qas"]]
    return [*found, ("", "a few words"), ("Who?", "x")]


@pytest.fixture(scope="module")
def blocks(tokenizer, pairs):
    """The features of each pair."""
    examples = [SquadExample(str(i), question, context) for i, (question, context) in enumerate(pairs)]
    return [next(feature_blocks([[example]], tokenizer, OPTIONS)) for example in examples]


@pytest.fixture(scope="module")
def windows(tokenizer, pairs):
    graph_tokenizer = GraphTokenizer(tokenizer)
    pack = tf.function(lambda question, context: pack_windows(graph_tokenizer, OPTIONS, question, context))
    return pack(*(tf.constant(texts) for texts in zip(*pairs)))


def test_windows_are_the_features_of_prediction(tokenizer, blocks, windows):
    seq = windows["input_ids"].shape[1]
    assert seq == 40 and windows["pair"].shape[0] > len(blocks)
    for pair, block in enumerate(blocks):
        rows = windows["pair"].numpy() == pair
        padded = block.padded(seq, tokenizer.pad_id)
        for name in MODEL_INPUTS:
            np.testing.assert_array_equal(windows[name].numpy()[rows], padded[name], err_msg=name)
        in_window = windows["starts"].numpy()[rows] >= 0
        np.testing.assert_array_equal(windows["is_max_context"].numpy()[rows][in_window], block.is_max_context)


def found_by_model(version, windows):
    """Outputs as of a model: random logits, or beams of tokens of the text."""
    rng, shape = np.random.default_rng(1), windows["input_ids"].shape
    if version == "1.1":
        return {f"{name}_logits": tf.constant(rng.normal(size=shape), tf.float32) for name in ("start", "end")}
    starts = rng.random(shape).argsort(axis=1)[:, :BEAM]
    ends = (starts[:, :, None] - 2 + rng.random([shape[0], BEAM, 10]).argsort(axis=2)[:, :, :BEAM]) % shape[1]
    return dict(start_top_index=tf.constant(starts, tf.int32),
                end_top_index=tf.constant(ends.reshape(-1, BEAM**2), tf.int32),
                start_top_log_probs=tf.constant(rng.normal(size=starts.shape), tf.float32),
                end_top_log_probs=tf.constant(rng.normal(size=[shape[0], BEAM**2]), tf.float32),
                cls_logits=tf.constant(rng.normal(size=shape[0]), tf.float32))


@pytest.mark.parametrize("version", ["1.1", "2.0"])
def test_answers_are_those_of_prediction(tokenizer, pairs, blocks, windows, version):
    options, found = AnswerOptions(version, n_best_size=6, max_answer_length=9), found_by_model(version, windows)
    served = best_answers(tf.constant([context for _, context in pairs]), windows, found, options)
    served = {name: values.numpy() for name, values in served.items()}
    candidates = SpanTask(None, options.n_best_size).predictions(found) if version == "1.1" else found
    candidates, answered = {name: values.numpy() for name, values in candidates.items()}, 0
    for i, ((_, context), block) in enumerate(zip(pairs, blocks)):
        results = [{name: values[row] for name, values in candidates.items()}
                   for row in np.flatnonzero(windows["pair"].numpy() == i)]
        features = list(features_of_blocks([block], tokenizer, OPTIONS))
        expected = answer_question(str(i), context, features, [results], options)
        if version == "2.0":
            np.testing.assert_allclose(served["no_answer_score"][i], expected.null_score)
        text, best = served["answer"][i].decode(), expected.n_best[0]
        assert context[served["start"][i] : served["end"][i]] == text
        if best.first < 0:  # there was no candidate
            assert text == ""
            continue
        assert text.strip() == best.text, context
        np.testing.assert_allclose(served["score"][i], best.score, atol=1e-6)
        answered += 1
    assert answered > len(pairs) // 2


def test_rows_are_at_least_as_long_as_requested(tokenizer):
    windows = pack_windows(GraphTokenizer(tokenizer), OPTIONS, tf.constant([""]), tf.constant([""]), shortest=8)
    specials = [tokenizer.cls_id, tokenizer.sep_id, tokenizer.sep_id]
    assert windows["input_ids"].numpy().tolist() == [specials + 5 * [tokenizer.pad_id]]
    assert windows["p_mask"].numpy().tolist() == [[0] + 7 * [1]]
