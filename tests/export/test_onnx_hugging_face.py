"""Folders of export_to_onnx --layout=hugging_face: their ONNX models have our models' outputs, here and for others."""

import functools
import json
import math
import pathlib

import numpy as np
import pytest
from new_head import new_head
from ordinary_text import sentences
from peers import run_client, run_transformers_js
from tiny import TINY_TEXT

import albert_tf
from albert_tf import keras
from albert_tf.export import PRECISIONS
from albert_tf.export.conversion import save_pretrained
from albert_tf.export.onnx.hugging_face import FILES
from albert_tf.export.onnx.session import from_onnx
from albert_tf.export.onnx.writing import to_onnx, write_hugging_face_folder
from albert_tf.tasks.masked_lm import masked_ids
from albert_tf.weights.heads import head_named
from albert_tf.weights.stored_model import shipped_model
from albert_tf.weights.vocabulary import VocabularyFiles, vocabulary_of_tokenizer_json

pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

POSITIONS = 256
CONFIG = TINY_TEXT.replace(vocab_size=8000, embedding_size=16, hidden_size=32, num_hidden_layers=2,
                           max_position_embeddings=POSITIONS, initializer_range=0.2)
# None has more tokens than the model takes, since transformers.js then cuts off the last [SEP], and none has 000, for
# which 00 0 and 0 00 are equally good.
TEXTS = [*[text for text in sentences(600) if len(text) < 150 and "000" not in text][:288],
         "Schön! 😀 Naïve café – déjà vu…", "我们去北京。", "东京は大きい、と言った。", "👩👩👧 family", "Ça va?",
         "“Well,” she said — ‘no’.", "a/b_c\\d #1 @x", "x² + y³ = z", "¿Qué? ¡Sí!", "Привет, мир", "١٢٣ and 4,5", "…"]
PAIRS = [(question, context) for question, context in zip(TEXTS[::2], TEXTS[1::2])]
OUTPUTS = dict(
    encoder=["last_hidden_state", "pooler_output"], pretrainer=["logits", "sop_logits"], classifier=["logits"],
    several=["logits"], token_classifier=["logits"], span=["start_logits", "end_logits"], multiple_choice=["logits"],
    sentence_encoder=["last_hidden_state", "sentence_embedding"])
OURS = dict(last_hidden_state="sequence_output", pooler_output="pooled_output")
# Of the largest difference, and for int8 of the mean difference.
BOUNDS = dict(float32=2e-4, float16=0.02, int8=0.2)


def new_model(name):
    keras.utils.set_random_seed(1)
    if name == "pretrainer":
        return albert_tf.from_pretrained("albert_tiny_en", model="pretrainer")
    if name == "several":
        return head_named("classifier").model(CONFIG, num_labels=3, multi_label=True, label_names=("a", "b", "c"))
    if name == "multiple_choice":
        return head_named("multiple_choice").model(CONFIG, num_choices=1)
    return new_head(name, CONFIG)


@pytest.fixture(scope="module")
def exports(tmp_path_factory):
    """A function from a name in OUTPUTS to its model, folder and tokenizer."""
    made = {}

    def get(name):
        if name not in made:
            model, folder = new_model(name), str(tmp_path_factory.mktemp("folders") / name)
            vocabulary = VocabularyFiles(f"{shipped_model('albert_tiny_en')}/spiece.model", None, True, False)
            write_folder(model, folder, vocabulary, PRECISIONS)
            made[name] = model, folder, vocabulary.tokenizer()
        return made[name]

    return get


def expected_outputs(model, name, inputs):
    """The model's outputs of one row or several by the names in the folder's ONNX models."""
    if name == "pretrainer":
        positions = np.tile(np.arange(inputs["input_ids"].shape[1], dtype=np.int32), [len(inputs["input_ids"]), 1])
        outputs = model({**inputs, "masked_lm_positions": positions})
        return dict(logits=outputs["mlm_logits"].numpy(), sop_logits=outputs["sop_logits"].numpy())
    if name == "multiple_choice":
        inputs = {key: value[:, None] for key, value in inputs.items()}
    outputs = model(inputs)
    return {key: outputs[OURS.get(key, key)].numpy() for key in OUTPUTS[name]}


@pytest.mark.parametrize("name", OUTPUTS)
def test_outputs_of_ordinary_texts_are_the_models_in_every_precision(exports, name):
    model, folder, tokenizer = exports(name)
    export = from_onnx(folder)
    assert export.head.name == ("classifier" if name == "several" else name)
    assert export.tokenizer.vocab == tokenizer.vocab and export.row_length == POSITIONS or name == "pretrainer"
    length = 16 if name == "pretrainer" else POSITIONS  # with 8,000 logits for each token
    texts = TEXTS[-12:] + TEXTS[:38]
    batches = [tokenizer(texts[start : start + 50], max_seq_length=length) for start in range(0, len(texts), 50)]
    expected = [expected_outputs(model, name, inputs) for inputs in batches]
    for precision, file in FILES.items():
        session = onnxruntime.InferenceSession(f"{folder}/{file}", providers=["CPUExecutionProvider"])
        assert [each.name for each in session.get_outputs()] == OUTPUTS[name]
        assert {each.name for each in session.get_inputs()} == {"input_ids", "attention_mask", "token_type_ids"}
        assert {each.type for each in session.get_inputs()} == {"tensor(int64)"}
        for inputs, wanted in zip(batches, expected):
            fed = dict(input_ids=inputs["input_ids"], attention_mask=inputs["input_mask"],
                       token_type_ids=inputs["segment_ids"])
            fed = {key: value.astype(np.int64) for key, value in fed.items()}
            if name == "multiple_choice":
                fed = {key: value[:, None] for key, value in fed.items()}
            for key, value in zip(OUTPUTS[name], session.run(None, fed)):
                differences = np.abs(value - wanted[key])
                assert (differences.mean() if precision == "int8" else differences.max()) < BOUNDS[precision], key


@pytest.mark.parametrize("name", ["classifier", "span", "multiple_choice"])
def test_pairs_without_segments_have_those_of_their_separators(exports, name):
    """transformers.js gives none."""
    model, folder, tokenizer = exports(name)
    inputs = tokenizer(*zip(*PAIRS[:20]), max_seq_length=POSITIONS)
    inputs["input_ids"][0, inputs["segment_ids"][0].argmax()] = tokenizer.vocab["[SEP]"]  # written in a second text
    expected = expected_outputs(model, name, inputs)
    fed = dict(input_ids=inputs["input_ids"], attention_mask=inputs["input_mask"],
               token_type_ids=inputs["segment_ids"] * 0)
    if name == "multiple_choice":
        fed = {key: value[:, None] for key, value in fed.items()}
    session = onnxruntime.InferenceSession(f"{folder}/onnx/model.onnx", providers=["CPUExecutionProvider"])
    actual = session.run(None, {key: value.astype(np.int64) for key, value in fed.items()})
    for key, value in zip(OUTPUTS[name], actual):
        np.testing.assert_allclose(value, expected[key], atol=BOUNDS["float32"], rtol=0)


def test_from_pretrained_says_how_to_open_the_folder(exports, tmp_path):
    _, folder, _ = exports("sentence_encoder")
    for path in (folder, f"{folder}/onnx", f"{folder}/onnx/model.onnx"):
        with pytest.raises(ValueError, match=f"^{path} has an ONNX model and no weights: open it with from_onnx"):
            albert_tf.from_pretrained(path)
    model = new_model("classifier")
    save_pretrained(model, str(tmp_path / "both"), to="hugging_face")
    (tmp_path / "both/onnx").mkdir()
    assert albert_tf.from_pretrained(str(tmp_path / "both"), model="classifier").num_labels == 3


def test_files_are_small_and_say_what_readers_ask_for(exports):
    model, folder, _ = exports("sentence_encoder")
    folder = pathlib.Path(folder)
    weights = 4 * sum(math.prod(variable.shape) for variable in model.weights)
    assert (folder / "onnx/model.onnx").stat().st_size < 1.2 * weights + 30_000
    config = json.loads((folder / "tokenizer_config.json").read_text())
    special = json.loads((folder / "special_tokens_map.json").read_text())
    assert special.items() <= config.items() and special["mask_token"] == "[MASK]"
    assert (folder / "modules.json").exists() and (folder / "1_Pooling/config.json").exists()
    card = (folder / "README.md").read_text()
    assert "transformers.js" in card and "| type | float32" in card


def write_folder(model, folder, vocabulary, precisions=("int8",)):
    separator = vocabulary.tokenizer().vocab["[SEP]"]
    contents = {precision: to_onnx(model, precision, separator=separator) for precision in precisions}
    write_hugging_face_folder(model, str(folder), vocabulary, contents, None)


def bert(folder, golden, lower):
    """Writes the folder of a BERT with the small WordPiece vocabulary."""
    vocabulary = VocabularyFiles(None, str(golden / "wordpiece/vocab.txt"), lower, not lower)
    config = CONFIG.replace(vocab_size=vocabulary.tokenizer().vocab_size, embedding_size=32)
    write_folder(albert_tf.AlbertModel(config), folder, vocabulary)
    return vocabulary.tokenizer()


def test_an_export_that_is_made_again_replaces_its_own_files_alone(golden, tmp_path):
    folder = tmp_path / "bert"
    bert(folder, golden, lower=True)
    (folder / "LICENSE").write_text("mine")
    vocabulary = VocabularyFiles(None, str(golden / "wordpiece/vocab.txt"), True, False)
    model = new_head("classifier", CONFIG.replace(vocab_size=vocabulary.tokenizer().vocab_size))
    write_folder(model, folder, vocabulary, ["float16"])
    (folder / "vocab.txt").unlink()
    made = vocabulary_of_tokenizer_json(str(folder))  # tokenizer.json gives it back
    assert made.tokenizer().vocab == vocabulary.tokenizer().vocab and made.do_lower_case and not made.keep_accents
    assert [path.name for path in (folder / "onnx").iterdir()] == ["model_fp16.onnx"]
    assert (folder / "LICENSE").read_text() == "mine" and from_onnx(str(folder)).head.name == "classifier"
    with pytest.raises(ValueError, match="exists and is not an earlier export"):
        write_folder(model, tmp_path, vocabulary)


# --- other programs --------------------------------------------------------------------------------------------------


def answers_of(run, jobs, folder, *reader):
    """What a client writes for jobs, of which it reads a file. `run` runs it, or is a reader's environment."""
    if isinstance(run, str):
        run = functools.partial(run_client, run, "onnx_readers_client.py", *reader)
    (folder / "jobs.json").write_text(json.dumps(jobs))
    run(folder / "jobs.json", folder / "answers.json")
    return json.loads((folder / "answers.json").read_text())


def check_ids(tokenizer, rows, ids):
    ours = [masked_ids(tokenizer, text) if "[MASK]" in text else tokenizer(text, pair or "")["input_ids"][0].tolist()
            for text, pair in rows]
    assert ids == ours


def check_vectors(model, tokenizer, texts, vectors, largest):
    expected = [model(tokenizer(text, max_seq_length=POSITIONS))["sentence_embedding"][0].numpy() for text in texts]
    np.testing.assert_allclose(vectors, expected, atol=largest)


ROWS = [*([text, None] for text in TEXTS), *map(list, PAIRS[:50])]


def test_the_tokenizer_of_transformers_and_onnxruntime_give_the_models_outputs(exports, tmp_path):
    names = ["encoder", "classifier", "token_classifier", "span", "multiple_choice", "sentence_encoder"]
    jobs = [dict(folder=exports(name)[1], file=FILES["float32"], rows=ROWS) for name in names]
    answers = answers_of("onnx readers", jobs, tmp_path, "transformers")
    for name, answer in zip(names, answers):
        model, _, tokenizer = exports(name)
        check_ids(tokenizer, ROWS, answer["ids"])
        for (text, pair), outputs in list(zip(ROWS, answer["outputs"]))[::10]:
            inputs = tokenizer(text, pair or "", max_seq_length=POSITIONS)
            for key, value in expected_outputs(model, name, inputs).items():
                np.testing.assert_allclose(outputs[key], value[0], atol=BOUNDS["float32"])


@pytest.mark.parametrize("precision, largest", [("float32", 1e-5), ("float16", 1e-3), ("int8", 0.3)])
@pytest.mark.parametrize("reader, environment", [("fastembed", "onnx readers"), ("sentence_transformers", "optimum")])
def test_vectors_of_fastembed_and_sentence_transformers_are_the_models(
        exports, tmp_path, reader, environment, precision, largest):
    model, folder, tokenizer = exports("sentence_encoder")
    rows = ROWS[:300]
    answer, = answers_of(environment, [dict(folder=folder, file=FILES[precision], rows=rows)], tmp_path, reader)
    check_ids(tokenizer, rows, answer["ids"])
    check_vectors(model, tokenizer, TEXTS, [outputs["sentence_embedding"] for outputs in answer["outputs"]], largest)


def test_a_folder_of_vectors_has_its_file_for_milvus_once_on_the_disk(exports):
    folder = pathlib.Path(exports("sentence_encoder")[1])
    assert (folder / "model.onnx").samefile(folder / FILES["float32"])
    assert not (pathlib.Path(exports("classifier")[1]) / "model.onnx").exists()


def test_vectors_of_milvus_and_gptcache_are_the_models(exports, tmp_path):
    model, folder, tokenizer = exports("sentence_encoder")
    rows = ROWS[:300]
    answer, = answers_of("onnx readers", [dict(folder=folder, file="model.onnx", rows=rows)], tmp_path, "milvus")
    check_ids(tokenizer, rows, answer["ids"])
    check_vectors(model, tokenizer, TEXTS, [outputs["sentence_embedding"] for outputs in answer["outputs"]], 1e-6)


MASKED = [[text.replace(f" {text.split()[1]} ", " [MASK] ", 1), None] for text in TEXTS
          if len(text.split()) > 3 and text.count(f" {text.split()[1]} ")]
# By job: the export, the task, the rows and the options.
JOBS = dict(
    fill=("pretrainer", "fill-mask", MASKED, dict(top_k=5)),
    classify=("classifier", "text-classification", ROWS[:300], dict(top_k=None)),
    several=("several", "text-classification", ROWS[:300], dict(top_k=None)),
    answer=("span", "question-answering", [list(pair) for pair in PAIRS], {}),
    vectors=("sentence_encoder", "feature-extraction", ROWS[:300], dict(pooling="mean", normalize=True)))


@pytest.fixture(scope="module")
def js_answers(exports, tmp_path_factory):
    """{name in JOBS: the answer of transformers.js}"""
    jobs = [dict(folder=exports(export)[1], task=task, dtype="fp32", rows=rows, options=options)
            for export, task, rows, options in JOBS.values()]
    return dict(zip(JOBS, answers_of(run_transformers_js, jobs, tmp_path_factory.mktemp("js"))))


@pytest.mark.parametrize("name", JOBS)
def test_ids_and_logits_of_transformers_js_are_ours(js_answers, exports, name):
    export, _, rows, _ = JOBS[name]
    model, _, tokenizer = exports(export)
    check_ids(tokenizer, rows, js_answers[name]["ids"])
    for (text, pair), outputs in list(zip(rows, js_answers[name]["outputs"]))[::5]:
        expected = expected_outputs(model, export, tokenizer(text, pair or "", max_seq_length=POSITIONS))
        for key, value in outputs.items():
            np.testing.assert_allclose(value, expected[key][0], atol=BOUNDS["float32"])


def test_vectors_of_transformers_js_are_the_models(js_answers, exports):
    model, _, tokenizer = exports("sentence_encoder")
    check_vectors(model, tokenizer, TEXTS, js_answers["vectors"]["results"], 1e-5)


@pytest.mark.parametrize("lower", [True, False])
def test_ids_of_a_wordpiece_tokenizer_json_in_the_library_of_transformers_are_ours(golden, tmp_path, lower):
    tokenizer = bert(tmp_path / "bert", golden, lower)
    jobs = [dict(folder=str(tmp_path / "bert"), file="", rows=ROWS)]
    answer, = answers_of("onnx readers", jobs, tmp_path, "tokenizers")
    check_ids(tokenizer, ROWS, answer["ids"])
