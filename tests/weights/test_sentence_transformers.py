"""Folders of sentence-transformers: its vectors, round trips, errors."""

import contextlib
import json
import pathlib
import shutil

import numpy as np
import pytest
import tiny
from in_process import loaded
from sentence_transformers_client import PASSAGES, QUERIES

import albert_tf
from albert_tf.export.conversion import convert
from albert_tf.tasks.classification.answers import text_logits
from albert_tf.tasks.sentence_vectors.vectors import embed, text_vectors, token_ids
from albert_tf.weights.stored_model import open_model

pytestmark = pytest.mark.both_stacks
TINY = tiny.TINY.replace(max_position_embeddings=8)
CASES = {"mean_normalized": ("mean", True), "max": ("max", False), "cls": ("cls", False)}


@pytest.fixture
def folder(golden, tmp_path):
    """A copy of a golden folder of sentence-transformers. Its vocabulary is in tokenizer.json."""
    return lambda case: pathlib.Path(shutil.copytree(golden / "sentence_transformers" / case, tmp_path / case))


def vectors_of(path, sentences):
    model = albert_tf.from_pretrained(str(path), model="sentence_encoder")
    rows = token_ids(albert_tf.tokenizer_from_pretrained(str(path)), sentences, model.settings.max_seq_length)
    found = dict(embed(model, rows, 2))
    return np.stack([found[i] for i in range(len(rows))])


@pytest.mark.parametrize("case", CASES)
def test_vectors_are_those_of_sentence_transformers_also_after_a_conversion(folder, case, tmp_path):
    path = folder(case)
    assert open_model(str(path)).head == "sentence_encoder"
    model = albert_tf.from_pretrained(str(path), model="sentence_encoder")
    assert (model.settings.pooling, model.settings.normalize, model.settings.max_seq_length) == (*CASES[case], 16)
    numbers = json.loads((path / "vectors.json").read_text())
    np.testing.assert_allclose(vectors_of(path, numbers["sentences"]), numbers["vectors"], atol=1e-5)
    if case == "mean_normalized":
        convert(open_model(str(path)), str(tmp_path / "tf1"), "tf1")
        np.testing.assert_allclose(vectors_of(tmp_path / "tf1", numbers["sentences"]), numbers["vectors"], atol=1e-5)


@pytest.mark.parametrize("to", ["hugging_face", "ours", "tf1", "tf_hub"])
def test_a_long_word_is_one_unknown_piece_as_in_transformers_also_after_a_conversion(folder, tmp_path, to):
    path = folder("cls")
    convert(open_model(str(path)), str(tmp_path / "converted"), to)
    for each in (path, tmp_path / "converted"):
        tokenizer = albert_tf.tokenizer_from_pretrained(str(each))
        assert tokenizer.encode("a" * 101) == [tokenizer.unk_id] and len(tokenizer.encode("a" * 100)) > 1


def test_a_vocabulary_beside_tokenizer_json_is_not_read(folder, golden):
    path = folder("cls")
    (path / "vocab.txt").write_text("more\n" + (golden / "wordpiece/vocab.txt").read_text("utf-8"), "utf-8")
    read = albert_tf.tokenizer_from_pretrained(str(path))
    assert read.vocab == albert_tf.FullTokenizer(str(golden / "wordpiece/vocab.txt")).vocab


def test_a_conversion_has_the_pooling_of_the_flags(tmp_path):
    albert_tf.save_pretrained(albert_tf.AlbertModel(TINY), str(tmp_path / "ours"))
    with loaded("convert_checkpoint") as run:
        assert run(init_checkpoint=tmp_path / "ours", to="hugging_face", model="sentence_encoder", pooling="max",
                   normalize=True, output_dir=tmp_path / "there") == 0
    model = albert_tf.from_pretrained(str(tmp_path / "there"), model="sentence_encoder")
    assert (model.settings.pooling, model.settings.normalize) == ("max", True)
    plain = albert_tf.from_pretrained(str(tmp_path / "ours"), model="sentence_encoder", normalize=True)
    assert (plain.settings.pooling, plain.settings.normalize, plain.settings.max_seq_length) == ("mean", True, None)


def test_written_folders_have_the_keys_of_every_version(tmp_path):
    model = albert_tf.AlbertSentenceEncoder(TINY, "max", True, max_seq_length=6)
    albert_tf.save_pretrained(model, str(tmp_path / "st"), to="hugging_face")
    modules = json.loads((tmp_path / "st/modules.json").read_text())
    assert [(module["path"], module["type"].rpartition(".")[2]) for module in modules] == [
        ("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")]
    assert json.loads((tmp_path / "st/1_Pooling/config.json").read_text()) == dict(
        word_embedding_dimension=8, pooling_mode_cls_token=False, pooling_mode_mean_tokens=False,
        pooling_mode_max_tokens=True)
    assert json.loads((tmp_path / "st/sentence_bert_config.json").read_text())["max_seq_length"] == 6
    again = albert_tf.from_pretrained(str(tmp_path / "st"), model="sentence_encoder")
    assert again.settings == model.settings
    encoder = albert_tf.from_pretrained(str(tmp_path / "st"))  # as any folder of Hugging Face
    assert type(encoder) is albert_tf.AlbertModel


@pytest.mark.parametrize("max_seq_length, stored, largest", [(None, None, 8), (6, 6, 6), (20, 8, 8)])
def test_the_length_of_a_text_is_at_most_the_positions(tmp_path, sentence_pieces, max_seq_length, stored, largest):
    model = albert_tf.AlbertSentenceEncoder(TINY.replace(vocab_size=2000), max_seq_length=max_seq_length)
    albert_tf.save_pretrained(model, str(tmp_path), to="hugging_face", tokenizer=sentence_pieces)
    assert json.loads((tmp_path / "sentence_bert_config.json").read_text())["max_seq_length"] == stored
    assert json.loads((tmp_path / "tokenizer_config.json").read_text())["model_max_length"] == largest
    assert albert_tf.from_pretrained(str(tmp_path), model="sentence_encoder").row_length == largest


def test_weights_in_a_separate_folder_are_found(folder):
    path = folder("cls")
    numbers = json.loads((path / "vectors.json").read_text())
    (path / "0_Transformer").mkdir()
    for name in ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json",
                 "sentence_bert_config.json"):
        (path / name).rename(path / "0_Transformer" / name)
    modules = json.loads((path / "modules.json").read_text())
    modules[0]["path"] = "0_Transformer"
    (path / "modules.json").write_text(json.dumps(modules))
    np.testing.assert_allclose(vectors_of(path, numbers["sentences"]), numbers["vectors"], atol=1e-5)


def test_the_pooler_is_kept_by_our_forms_and_refused_by_theirs(tmp_path):
    model = albert_tf.AlbertSentenceEncoder(TINY, "pooler")
    albert_tf.save_pretrained(model, str(tmp_path / "ours"))
    assert albert_tf.from_pretrained(str(tmp_path / "ours"), model="sentence_encoder").settings.pooling == "pooler"
    with pytest.raises(ValueError, match="sentence-transformers has no pooling by ALBERT's pooler"):
        albert_tf.save_pretrained(model, str(tmp_path / "theirs"), to="hugging_face")


PROMPTS = dict(query="find: ", passage="")


def test_the_prompt_is_read_as_part_of_the_text(sentence_pieces):
    config = TINY.replace(vocab_size=2000, max_position_embeddings=16, initializer_range=0.5)
    model = albert_tf.AlbertSentenceEncoder(config, prompts=PROMPTS, default_prompt_name="query")
    pieces = sentence_pieces.tokenize("find: the name")
    assert pieces[-2:] == ["▁the", "▁name"]
    ids = sentence_pieces.convert_tokens_to_ids(["[CLS]", *pieces, "[SEP]"])
    inputs = dict(input_ids=[ids], input_mask=[[1] * len(ids)], segment_ids=[[0] * len(ids)])
    expected = model({name: np.array(values, np.int32) for name, values in inputs.items()})["sentence_embedding"]

    def vectors(name):
        return text_vectors(model, sentence_pieces, ["The name"], prompt_name=name)

    np.testing.assert_allclose(vectors(None), expected, atol=1e-6)
    np.testing.assert_allclose(vectors("query"), expected, atol=1e-6)
    np.testing.assert_array_equal(vectors(""), vectors("passage"))
    assert text_vectors(model, sentence_pieces, []).shape == (0, 8)
    assert np.abs(vectors("") - expected).max() > 1e-3
    with pytest.raises(ValueError, match="the model has no prompt 'other'; its prompts are: query, passage"):
        vectors("other")


@pytest.mark.parametrize("case, values, is_cosine", [
    ("mean_normalized", dict(), True), ("max", dict(), False), ("mean_normalized", dict(truncate_dim=4), False)])
def test_dot_products_are_refused_unless_they_are_cosines(folder, case, values, is_cosine):
    path = folder(case) / "config_sentence_transformers.json"
    path.write_text(json.dumps(dict(values, similarity_fn_name="dot")))
    with contextlib.nullcontext() if is_cosine else pytest.raises(ValueError, match="similarity_fn_name 'dot' is not"):
        open_model(str(path.parent))


def test_texts_that_the_library_lower_cases_keep_their_accents(folder):
    path = folder("cls")
    tokenizer = json.loads((path / "tokenizer_config.json").read_text())
    (path / "tokenizer_config.json").write_text(json.dumps(dict(tokenizer, do_lower_case=False)))
    (path / "sentence_bert_config.json").rename(path / "sentence_albert_config.json")
    (path / "sentence_albert_config.json").write_text('{"max_seq_length": 8, "do_lower_case": true}')
    read = albert_tf.tokenizer_from_pretrained(str(path))
    assert (read.do_lower_case, read.keep_accents, read.max_seq_length) == (True, True, 8)


CONFIG = "config_sentence_transformers.json"


@pytest.fixture
def cross_encoder(golden, tmp_path):
    return shutil.copytree(golden / "sentence_transformers/cross_encoder", tmp_path / "cross_encoder")


@pytest.fixture(scope="module")
def scores(golden):
    return json.loads((golden / "sentence_transformers/numbers.json").read_text())["scores"]


def scores_of(path):
    model = albert_tf.from_pretrained(str(path), model="classifier")
    logits = text_logits(model, albert_tf.tokenizer_from_pretrained(str(path)), QUERIES, PASSAGES)
    return model, np.asarray(model.settings.score_of(logits[:, 0]))


def test_scores_are_those_of_sentence_transformers_with_either_function(cross_encoder, scores):
    assert open_model(str(cross_encoder)).head == "classifier"
    model, found = scores_of(cross_encoder)
    assert (model.settings.activation_fn, model.num_labels, model.settings.max_seq_length) == ("sigmoid", 1, 17)
    np.testing.assert_allclose(found, scores, atol=1e-5)
    several = albert_tf.from_pretrained(str(cross_encoder), model="classifier", num_labels=3)
    assert (several.num_labels, several.settings.activation_fn) == (3, None)
    values = json.loads((cross_encoder / CONFIG).read_text())
    (cross_encoder / CONFIG).write_text(json.dumps(dict(values, activation_fn="torch.nn.modules.linear.Identity")))
    np.testing.assert_allclose(1 / (1 + np.exp(-scores_of(cross_encoder)[1])), scores, atol=1e-5)
    (cross_encoder / CONFIG).write_text(json.dumps(dict(values, activation_fn="torch.nn.modules.activation.Tanh")))
    with pytest.raises(ValueError, match=f"{CONFIG}: .*Sigmoid, .*Identity. Received: '.*Tanh'"):
        open_model(str(cross_encoder))


@pytest.mark.parametrize("entry", [
    dict(sentence_transformers=dict(activation_fn="torch.nn.modules.linear.Identity", version="4.1.0")),
    dict(sbert_ce_default_activation_function="torch.nn.modules.linear.Identity")])
def test_folders_of_earlier_versions_are_read(cross_encoder, entry):
    for name in (CONFIG, "modules.json", "sentence_bert_config.json"):
        (cross_encoder / name).unlink()
    config = json.loads((cross_encoder / "config.json").read_text())
    (cross_encoder / "config.json").write_text(json.dumps({**config, **entry}))
    assert albert_tf.from_pretrained(str(cross_encoder), model="classifier").settings.activation_fn == "identity"
