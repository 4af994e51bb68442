"""ForeignTokenizer beside transformers, and through each use of a folder."""

import importlib.util
import json

import numpy as np
import pytest
from foreign_folders import KINDS, SIZE, write_tokenizer
from in_process import loaded
from ordinary_text import sentences
from peers import TRANSFORMERS, run_client
from server_running import assert_same, post, running
from tiny import TINY_TEXT

import albert_tf
from albert_tf.export.onnx.session import from_onnx
from albert_tf.server.models import model_of_source
from albert_tf.tasks.classification.answers import text_logits
from albert_tf.tasks.sentence_vectors.vectors import text_vectors
from albert_tf.text.tokenization import tokenizer_key
from albert_tf.weights.hugging_face.writing import save_hugging_face
from albert_tf.weights.stored_model import open_model
from albert_tf.weights.vocabulary import copy_vocabulary, vocabulary_in

pytestmark = pytest.mark.both_stacks
tokenizers = pytest.importorskip("tokenizers")
TEXTS = [*sentences(1000), "", " two  spaces ", "\u8239 caf\u00e9 cafe\u0301 \U0001f600", 
         "albert_tf albert_tfs Python's Python'st"]
PAIRS = [["the boat", "was sold"], ["Who?", "He's 船 Éa"], ["alone", None]]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    made = {kind: tmp_path_factory.mktemp("kind") for kind in KINDS}
    for kind, folder in made.items():
        write_tokenizer(kind, folder)
    return made


@pytest.mark.parametrize("peer", TRANSFORMERS)
def test_ids_offsets_and_segments_are_those_of_transformers(folders, tmp_path, peer):
    jobs = [dict(folder=str(folder), model=None, texts=TEXTS, rows=PAIRS) for folder in folders.values()]
    (tmp_path / "jobs.json").write_text(json.dumps(jobs))
    run_client(peer, "transformers_text_client.py", tmp_path / "jobs.json", tmp_path / "answers.json")
    for (kind, folder), answer in zip(folders.items(), json.loads((tmp_path / "answers.json").read_text())):
        copy_vocabulary(vocabulary_in(str(folder)), str(tmp_path))
        for tokenizer in (vocabulary_in(str(folder)).tokenizer(), vocabulary_in(str(tmp_path)).tokenizer()):
            ours = tokenizer(TEXTS, max_seq_length=2000, return_offsets=True)
            for i, (ids, offsets) in enumerate(zip(answer["ids"], answer["offsets"])):
                assert ours["input_ids"][i, : len(ids)].tolist() == ids, (kind, TEXTS[i])
                assert ours["input_mask"][i].sum() == len(ids)
                assert ours["offsets"][i, : len(ids)].tolist() == offsets, (kind, TEXTS[i])
            for (text, pair), row in zip(PAIRS, answer["rows"]):
                batch = tokenizer(text, pair or "")
                assert batch["input_ids"][0].tolist() == row["input_ids"], kind
                assert batch["segment_ids"][0].tolist() == row["token_type_ids"], kind


@pytest.fixture(scope="module")
def model(folders):
    """A folder of a BERT, whose rows of pairs are those of XLM-R."""
    folder = folders["XLM-R pieces"]
    config = TINY_TEXT.replace(vocab_size=SIZE, embedding_size=16, cross_layer_sharing="none", initializer_range=0.5)
    save_hugging_face(albert_tf.AlbertModel(config), str(folder))
    write_tokenizer("XLM-R pieces", folder)
    return folder


def test_a_model_is_fine_tuned_evaluated_exported_and_served(golden, model, tmp_path, capfd):
    flags = dict(task_name="rte", data_dir=golden / "glue", init_checkpoint=model, do_train=True, do_eval=True,
                 train_step=2, train_batch_size=2, max_seq_length=24, output_dir=tmp_path / "run")
    with loaded("run_classifier") as run:
        assert run(**flags, export_dir=tmp_path / "saved_model") == 1
        message = capfd.readouterr().err.splitlines()[-1]
        assert "a tokenizer in a SavedModel" in message and not (tmp_path / "run").exists()
        assert run(**flags) == 0
    assert "eval_accuracy" in json.loads((tmp_path / "run/eval_results.json").read_text())
    source, tokenizer = open_model(str(tmp_path / "run")), albert_tf.tokenizer_from_pretrained(str(tmp_path / "run"))
    assert tokenizer_key(tokenizer) == tokenizer_key(vocabulary_in(str(model)).tokenizer())
    trained = albert_tf.from_pretrained(str(tmp_path / "run"), "classifier")
    logits = text_logits(trained, tokenizer, *zip(*PAIRS[:2]))
    for layout in ("albert_tf", "hugging_face"):
        with loaded("export_to_onnx") as run:
            assert run(init_checkpoint=tmp_path / "run", output_dir=tmp_path / layout, layout=layout,
                       precision=["float32"]) == 0
        onnx = from_onnx(str(tmp_path / layout))
        np.testing.assert_allclose(text_logits(onnx, onnx.tokenizer, *zip(*PAIRS[:2])), logits, atol=1e-4)
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "hugging_face/tokenizer.json")).encode(*PAIRS[0])
    assert theirs.ids == tokenizer(*PAIRS[0])["input_ids"][0].tolist()
    with running([model_of_source("model", source)]) as server:
        answer = post(server, "model:predict", instances=[dict(text_a=a, text_b=b) for a, b in PAIRS[:2]])
    probabilities = trained.settings.probabilities(logits).numpy().tolist()
    assert_same([row["probabilities"] for row in answer], probabilities)


def test_vectors_are_those_of_the_rows_of_the_library(model):
    encoder = albert_tf.from_pretrained(str(model), "sentence_encoder")
    vectors = text_vectors(encoder, albert_tf.tokenizer_from_pretrained(str(model)), TEXTS[:2])
    for text, vector in zip(TEXTS, vectors):
        ids = tokenizers.Tokenizer.from_file(str(model / "tokenizer.json")).encode(text).ids
        inputs = dict(input_ids=[ids], input_mask=np.ones([1, len(ids)]), segment_ids=np.zeros([1, len(ids)]))
        expected = encoder({name: np.array(values, np.int32) for name, values in inputs.items()})["sentence_embedding"]
        np.testing.assert_allclose(vector, expected[0], atol=1e-5)


def test_without_the_library_a_message_says_what_to_install(model, monkeypatch):
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "tokenizers" else find_spec(name))
    with pytest.raises(ValueError, match=r"tokenizer.json needs .* pip install tokenizers.*\Z"):
        albert_tf.tokenizer_from_pretrained(str(model))
