"""Every flag that takes a path takes a remote one: all scripts, from the corpus to the export, on TensorFlow's ram://.

All scripts run in one process, whose memory ram:// is.
"""

import json
import os
import shutil
import tarfile

import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the ops of exported models
from script_session import ScriptSession
from tiny import TINY_TEXT

pytestmark = pytest.mark.long

REMOTE = "ram://bucket"
TEXT = "\n".join(f"The number {i} is {'even' if i % 2 == 0 else 'odd'}, and {i + 1} comes after it."
                 + "\n" * (i % 10 == 9) for i in range(60))
REVIEWS = "review,verdict\nfine and even,good\nodd,bad\nthe number,good\nafter it,bad\n"
TRAINING = dict(train_batch_size=2, save_checkpoints_steps=1)
FINE_TUNING = dict(TRAINING, train_step=2, do_train=True, do_eval=True, do_predict=True, cached_dir=f"{REMOTE}/cached")


@pytest.fixture(scope="module")
def session(golden, tmp_path_factory):
    """A session with the scripts' input at REMOTE."""
    folder = tmp_path_factory.mktemp("input")
    (folder / "text").mkdir()
    for name in ("a", "b"):
        (folder / "text" / f"{name}.txt").write_text(TEXT)
    (folder / "config.json").write_text(TINY_TEXT.replace(vocab_size=45).to_json_string())
    (folder / "lines.txt").write_text("The number 1 is odd.\n2 comes after it.\n")
    (folder / "reviews").mkdir()
    for split in ("train", "dev", "test"):
        (folder / "reviews" / f"{split}.csv").write_text(REVIEWS)
    (folder / "task.json").write_text(json.dumps(dict(
        name="reviews", files={split: f"reviews/{split}.csv" for split in ("train", "dev", "test")},
        columns=dict(text_a="review", label="verdict"), labels=["bad", "good"])))
    (folder / "tagged.conll").write_text("Ada\tB-person\nleft\tO\n\nAda\tB-person\n")
    (folder / "recipe.json").write_text(json.dumps(dict(learning_rate=1e-4, max_seq_length=24)))
    shutil.copytree(golden / "race", folder / "race")
    shutil.copytree(golden / "squad", folder / "squad")
    shutil.copytree(golden / "wordpiece", folder / "wordpiece")
    with ScriptSession(eagerly=True) as session:
        session.copy(folder, REMOTE)
        yield session
    assert not os.path.exists("ram:")  # where os.path.dirname("ram://name") leads


@pytest.fixture(scope="module")
def vocabulary(session):
    session.run(script="train_vocabulary", input_file=f"{REMOTE}/text/*.txt", model_prefix=f"{REMOTE}/vocabulary",
                vocab_size=45)
    return f"{REMOTE}/vocabulary.model"


@pytest.fixture(scope="module")
def records(session, vocabulary):
    session.run(script="create_pretraining_data", input_file=f"{REMOTE}/text/a.txt,{REMOTE}/text/b.txt",
                output_file=f"{REMOTE}/train.tfrecord", spm_model_file=vocabulary, max_seq_length=32, dupe_factor=1,
                max_predictions_per_seq=4, num_workers=1, num_shards=2)
    return f"{REMOTE}/train-*.tfrecord"


@pytest.fixture(scope="module")
def model(session, vocabulary, records):
    """The directory of a model whose pre-training was stopped and resumed."""
    for num_train_steps in (1, 2):
        session.run(script="run_pretraining", albert_config_file=f"{REMOTE}/config.json", input_file=records,
                    eval_input_file=f"{REMOTE}/train-00000-of-00002.tfrecord", output_dir=f"{REMOTE}/model",
                     spm_model_file=vocabulary, max_seq_length=32, do_eval=True,
                    max_predictions_per_seq=4, num_train_steps=num_train_steps, num_warmup_steps=0, **TRAINING)
    return f"{REMOTE}/model"


def fetched(session, name, folder):
    """A local copy of an output."""
    session.copy(f"{REMOTE}/{name}", folder / name)
    return folder / name


def results(session, name, folder):
    return json.loads(fetched(session, f"{name}/eval_results.json", folder).read_text())


def test_pretraining_resumes_and_keeps_its_vocabulary(session, model, tmp_path):
    assert results(session, "model", tmp_path)["global_step"] == 2
    for name in ("model.ckpt-2.index", "model.ckpt-best.index", "vocabulary.model", "albert_config.json"):
        assert fetched(session, f"model/{name}", tmp_path).stat().st_size > 0
    session.run(script="fill_mask", init_checkpoint=f"{model}/model.ckpt-1", text="the [MASK] is")


def test_remote_models_are_served(session, model):
    """All models are loaded before the server listens, here on an address that this machine does not have."""
    printed = session.run(script="serve", expect=1, init_checkpoint=model, host="203.0.113.1")
    assert printed.splitlines()[-1].startswith("serve: error: --host=203.0.113.1 --port=8501 cannot be used")
    printed = session.run(script="run_glue", expect=1, init_checkpoint=model, data_dir=f"{REMOTE}/text",
                          output_dir=f"{REMOTE}/glue")
    assert f"{REMOTE}/text has no task with train and dev files" in printed.splitlines()[-1]


@pytest.mark.parametrize("script, flags, output", [
    ("create_pretraining_data", dict(input_file="text/a.txt", vocab_file="wordpiece/vocab.txt", num_workers=1,
                                     dupe_factor=1, max_seq_length=32, output_file="words.tfrecord"), "words.tfrecord"),
    ("fill_mask", dict(text="the [MASK] is", export_dir="served"), "served/saved_model.pb"),
    ("export_to_tfhub", dict(export_path="module"), "module/saved_model.pb"),
    ("score_sentences", dict(input_file="lines.txt", output_file="scores.json"), "scores.json"),
    ("extract_embeddings", dict(input_file="lines.txt", output_file="tokens.npy", per_token=True), "tokens.npy"),
    ("extract_embeddings", dict(input_file="lines.txt", output_file="vectors.npy"), "vectors.npy"),
    ("export_to_tflite", dict(output_dir="lite", precision="float32", model="encoder", max_seq_length=8),
     "lite/encoder_float32.tflite"),
    ("export_to_onnx", dict(output_dir="onnx", precision="float32", model="encoder"), "onnx/encoder_float32.onnx")])
def test_outputs_have_the_bytes_of_those_at_local_paths(session, model, tmp_path, script, flags, output):
    outputs = ("output_file", "export_dir", "export_path", "output_dir")
    for folder in (REMOTE, tmp_path / "local"):
        paths = {name: f"{folder if name in outputs else REMOTE}/{value}" for name, value in flags.items()
                 if name in (*outputs, "input_file", "vocab_file")}
        source = dict(create_pretraining_data={}, export_to_tfhub=dict(albert_directory=model))
        session.run(script=script, **source.get(script, dict(init_checkpoint=model)), **{**flags, **paths})
    remote, local = fetched(session, output, tmp_path), tmp_path / "local" / output
    assert remote.stat().st_size > 0 and local.stat().st_size > 0
    if output.endswith((".tfrecord", ".json", ".npy")):  # files of other formats have numbers of graphs in them
        assert remote.read_bytes() == local.read_bytes()


@pytest.mark.parametrize("form", ["tf1", "ours", "hugging_face", "tf_hub"])
def test_a_model_is_converted_and_read_again(session, model, tmp_path, form):
    session.run(script="convert_checkpoint", init_checkpoint=model, to=form, output_dir=f"{REMOTE}/{form}")
    original, again = (session.run(script="fill_mask", init_checkpoint=path, text="the [MASK] is").splitlines()[-1]
                       for path in (model, f"{REMOTE}/{form}"))
    assert original == again
    with tarfile.open(tmp_path / f"{form}.tar.gz", "w:gz") as archive:
        archive.add(fetched(session, form, tmp_path), form)
    session.copy(tmp_path / f"{form}.tar.gz", f"{REMOTE}/archives/{form}.tar.gz")
    again = session.run(script="fill_mask", init_checkpoint=f"{REMOTE}/archives/{form}.tar.gz", text="the [MASK] is")
    assert original == again.splitlines()[-1]


@pytest.mark.parametrize("script, flags, metric, written", [
    ("run_classifier", dict(data_dir="", task_config="task.json", recipe="recipe.json"), "eval_accuracy",
     ["test_results.tsv"]),
    ("run_squad", dict(train_file="squad/dev_v1.json", predict_file="squad/dev_v1.json", num_workers=1,
                       max_seq_length=64, doc_stride=24, max_query_length=16,
                       train_feature_file="run_squad/train.tfrecord"), "f1", ["train.tfrecord", "predictions.json"]),
    ("run_race", dict(data_dir="race", max_seq_length=48, max_qa_length=24, warmup_step=0,
                      train_file="run_race/train.tfrecord", eval_file="run_race/eval.tfrecord",
                      predict_file="run_race/predict.tfrecord", ensemble_checkpoints="run_race/model.ckpt-1"),
     "eval_accuracy", ["predict.tfrecord", "predictions.jsonl"]),
    ("run_tagging", dict(train_file="tagged.conll", eval_file="tagged.conll", predict_file="tagged.conll",
                         max_seq_length=16), "f1", ["predictions.conll"])])
def test_fine_tuning_reads_and_writes_remote_files(session, model, tmp_path, script, flags, metric, written):
    flags = {name: f"{REMOTE}/{value}" if isinstance(value, str) else value for name, value in flags.items()}
    export = {} if script == "run_race" else dict(export_dir=f"{REMOTE}/{script}_served")
    session.run(script=script, init_checkpoint=model, output_dir=f"{REMOTE}/{script}", **flags, **export, **FINE_TUNING)
    assert 0 <= results(session, script, tmp_path)[metric]
    assert all(fetched(session, f"{script}/{name}", tmp_path).stat().st_size for name in written)
    if export:
        served = tf.saved_model.load(str(fetched(session, f"{script}_served", tmp_path)))
        assert "serving_default" in served.signatures


def test_sentence_vectors_are_trained_and_searched(session, model, tmp_path):
    session.run(script="run_sentence_embeddings", init_checkpoint=model, objective="simcse", train_step=1,
                train_file=f"{REMOTE}/lines.txt", output_dir=f"{REMOTE}/sentences", cached_dir=f"{REMOTE}/cached",
                max_seq_length=16, do_train=True, warmup_step=0, export_dir=f"{REMOTE}/sentences_served", **TRAINING)
    assert json.loads(fetched(session, "sentences/modules.json", tmp_path).read_text())
    model = dict(init_checkpoint=f"{REMOTE}/sentences", input_file=f"{REMOTE}/lines.txt")
    session.run(script="extract_embeddings", output_file=f"{REMOTE}/sentences.npy", **model)
    printed = session.run(script="search_sentences", vectors_file=f"{REMOTE}/sentences.npy", top_k=1,
                          query="2 comes after it.", **model)
    assert printed.splitlines()[-1].split(maxsplit=2) == ["1.0000", "2", "2 comes after it."]
