"""transformers loads the folders that we write without missing keys, and gives texts the same ids and outputs.

Wants the environments of peers.py: the newest transformers, and the last 4.x.
"""

import json

import numpy as np
import pytest
import tiny
from ordinary_text import sentences
from peers import TRANSFORMERS, run_client

import albert_tf
from albert_tf import keras
from albert_tf.tasks.masked_lm import masked_ids
from albert_tf.weights.heads import head_named
from albert_tf.weights.hugging_face.writing import save_hugging_face
from albert_tf.weights.stored_model import shipped_model
from albert_tf.weights.vocabulary import VocabularyFiles

pytestmark = pytest.mark.long
POSITIONS = 64
TINY = tiny.TINY.replace(vocab_size=8000, max_position_embeddings=POSITIONS, initializer_range=0.5)
BERT = TINY.replace(vocab_size=2000, embedding_size=8, cross_layer_sharing="none")
TEXTS = sentences(700)
LONG = " ".join(TEXTS[:40])
# If both texts of a pair are longer than half of the row, transformers gives the odd token to the second text, and we,
# as the release, to the first one. So only one text of a pair is long here.
SHORT = [text for text in TEXTS if len(text) < 60]
ROWS = [*([text, None] for text in TEXTS[:10]), *map(list, zip(SHORT[:20:2], SHORT[1:20:2])), [LONG, None],
        [SHORT[0], LONG], [LONG, SHORT[1]]]
MASKED = ["The [MASK] of the file.", '"I do not [MASK]," he said.', "[MASK] is a [MASK]: (a [MASK]) – [MASK]s.",
          "It is [MASK]-like."]
# For each kind of model: arguments, the Auto class, names of the outputs there and here.
CASES = {
    "encoder": ({}, "AutoModel", dict(last_hidden_state="sequence_output", pooler_output="pooled_output")),
    "pretrainer": ({}, "AutoModelForPreTraining", dict(sop_logits="sop_logits")),
    "classifier": (dict(num_labels=3), "AutoModelForSequenceClassification", dict(logits="logits")),
    "token_classifier": (dict(num_labels=3), "AutoModelForTokenClassification", dict(logits="logits")),
    "span": ({}, "AutoModelForQuestionAnswering", dict(start_logits="start_logits", end_logits="end_logits")),
    "multiple_choice": (dict(num_choices=1), "AutoModelForMultipleChoice", dict(logits="logits")),
}
# Other configs, by the name of a case; transformers 4.57 fails if a group has more blocks than layers.
CONFIGS = {"pretrainer of one width": dict(embedding_size=8), "pretrainer without sharing": dict(
    cross_layer_sharing="none", hidden_act="gelu_exact"), "classifier with relu": dict(hidden_act="relu"),
    "encoder of groups": dict(num_hidden_groups=2, inner_group_num=2)}
CASES.update({name: CASES[name.split()[0]] for name in CONFIGS})


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """{name of a case: (folder, model, tokenizer)}"""
    models = {}
    for kind, (arguments, *_) in CASES.items():
        keras.utils.set_random_seed(1)
        vocabulary = VocabularyFiles(f"{shipped_model('albert_tiny_en')}/spiece.model", None, True, False)
        folder = str(tmp_path_factory.mktemp("folders") / kind)
        model = head_named(kind.split()[0]).model(TINY.replace(**CONFIGS.get(kind, {})), **arguments)
        save_hugging_face(model, folder, vocabulary)
        models[kind] = folder, model, albert_tf.tokenizer_from_pretrained(folder)
    return models


@pytest.fixture(scope="module", params=TRANSFORMERS)
def answers(request, models, golden, tmp_path_factory):
    """{name: what a version of transformers computes}"""
    folder = tmp_path_factory.mktemp("answers")
    jobs = {kind: dict(folder=models[kind][0], model=CASES[kind][1], texts=TEXTS, rows=ROWS)
            for kind in CASES if request.param != "transformers 4" or kind != "encoder of groups"}
    jobs["shipped"] = dict(folder=shipped_model("albert_tiny_en"), model=None, texts=[*TEXTS, *MASKED, "a [SEP] b"],
                           rows=[])
    for lower in (True, False):
        bert = str(folder / f"bert_{lower}")
        save_hugging_face(albert_tf.AlbertModel(BERT), bert,
                          VocabularyFiles(None, str(golden / "wordpiece/vocab.txt"), lower, not lower))
        jobs[f"bert_{lower}"] = dict(folder=bert, model=None, texts=TEXTS, rows=[])
    (folder / "jobs.json").write_text(json.dumps(list(jobs.values())))
    run_client(request.param, "transformers_text_client.py", folder / "jobs.json", folder / "answers.json")
    return dict(zip(jobs, json.loads((folder / "answers.json").read_text())),
                tokenizers={name: albert_tf.tokenizer_from_pretrained(job["folder"]) for name, job in jobs.items()})


def check_ids(tokenizer, texts, ids, length):
    """The ids are ours. Equally good pieces of a number, such as 00 0 and 0 00, may be in another order."""
    ours = [tokenizer(text, max_seq_length=length)["input_ids"][0].tolist() for text in texts]
    different = [text for text, their, our in zip(texts, ids, ours) if their != our]
    ties = [text for text, their, our in zip(texts, ids, ours) if their != our and sorted(their) == sorted(our)]
    assert different == ties and len(ties) <= len(texts) // 500


@pytest.mark.parametrize("name", [*CASES, "bert_True", "bert_False"])
def test_ids_of_ordinary_sentences_are_ours(answers, name):
    if name not in answers:
        pytest.skip("transformers 4.57 cannot load it")
    assert len(TEXTS) >= 600 and {*"()\"'-–[]$£€"} <= {*"".join(TEXTS)}
    assert answers[name]["length"] == POSITIONS
    check_ids(answers["tokenizers"][name], TEXTS, answers[name]["ids"], POSITIONS)


@pytest.mark.parametrize("kind", CASES)
def test_pairs_and_long_texts_have_our_segments_and_outputs(answers, models, kind):
    if kind not in answers:
        pytest.skip("transformers 4.57 cannot load it")
    _, model, tokenizer = models[kind]
    assert not answers[kind]["wrong_keys"]
    for (text, pair), row in zip(ROWS, answers[kind]["rows"]):
        inputs = tokenizer(text, pair or "", max_seq_length=POSITIONS)
        assert row["input_ids"] == inputs["input_ids"][0].tolist() and len(row["input_ids"]) <= POSITIONS
        assert row["token_type_ids"] == inputs["segment_ids"][0].tolist()
        if "pretrainer" in kind:
            inputs["masked_lm_positions"] = np.zeros([1, 1], np.int32)
        if kind == "multiple_choice":
            inputs = {name: value[None] for name, value in inputs.items()}
        ours = model(inputs)
        for theirs, our in CASES[kind][2].items():
            np.testing.assert_allclose(row["outputs"][theirs], ours[our][0], atol=2e-5, err_msg=theirs)


def test_the_shipped_model_has_our_ids_also_around_masks(answers):
    tokenizer, ids = answers["tokenizers"]["shipped"], answers["shipped"]["ids"]
    assert answers["shipped"]["length"] == albert_tf.AlbertConfig.preset("albert_tiny_en").max_position_embeddings
    check_ids(tokenizer, TEXTS, ids[:len(TEXTS)], answers["shipped"]["length"])
    for text, theirs in zip(MASKED, ids[len(TEXTS):]):
        assert theirs == masked_ids(tokenizer, text), text


def test_a_special_token_in_a_text_is_one_there_and_text_here(answers):
    tokenizer, theirs = answers["tokenizers"]["shipped"], answers["shipped"]["ids"][-1]
    assert theirs.count(tokenizer.sep_id) == 2
    assert tokenizer("a [SEP] b")["input_ids"][0].tolist().count(tokenizer.sep_id) == 1
