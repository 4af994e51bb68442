"""Flags that take a path take a remote one, from the corpus to the export, on TensorFlow's ram://.

All scripts run in one process, whose memory ram:// is.
"""

import json
import os
import shutil
import tarfile

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the ops of exported models
from script_session import ScriptSession

pytestmark = pytest.mark.long

REMOTE = "ram://bucket"
CONFIG = dict(vocab_size=45, embedding_size=8, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
              intermediate_size=16, max_position_embeddings=64)
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
    (folder / "config.json").write_text(json.dumps(CONFIG))
    (folder / "lines.txt").write_text("The number 1 is odd.\n2 comes after it.\n")
    (folder / "reviews").mkdir()
    for split in ("train", "dev", "test"):
        (folder / "reviews" / f"{split}.csv").write_text(REVIEWS)
    (folder / "task.json").write_text(json.dumps(dict(
        name="reviews", files={split: f"reviews/{split}.csv" for split in ("train", "dev", "test")},
        columns=dict(text_a="review", label="verdict"), labels=["bad", "good"])))
    (folder / "recipe.json").write_text(json.dumps(dict(learning_rate=1e-4, max_seq_length=24)))
    shutil.copytree(golden / "squad", folder / "squad")
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


def test_records_of_a_remote_corpus_are_those_of_a_local_one(session, vocabulary, records, tmp_path):
    (tmp_path / "text.txt").write_text(TEXT)
    session.copy(vocabulary, tmp_path / "vocabulary.model")
    session.run(script="create_pretraining_data", input_file=f"{tmp_path}/text.txt,{tmp_path}/./text.txt",
                output_file=tmp_path / "train.tfrecord", spm_model_file=tmp_path / "vocabulary.model", dupe_factor=1,
                max_seq_length=32, max_predictions_per_seq=4, num_workers=1, num_shards=2)
    for name in ("train-00000-of-00002", "train-00001-of-00002"):
        remote = fetched(session, f"{name}.tfrecord", tmp_path / "remote").read_bytes()
        assert remote and remote == (tmp_path / f"{name}.tfrecord").read_bytes()
    manifests = fetched(session, "train.manifest.json", tmp_path / "remote"), tmp_path / "train.manifest.json"
    remote, local = (json.loads(path.read_text())["files"] for path in manifests)
    assert len(local) == 2 and remote == local


def test_vectors_are_those_at_a_local_path(session, model, tmp_path):
    for output_file in (tmp_path / "local.npy", f"{REMOTE}/vectors.npy"):
        session.run(script="extract_embeddings", init_checkpoint=model, input_file=f"{REMOTE}/lines.txt",
                    output_file=output_file)
    remote = np.load(fetched(session, "vectors.npy", tmp_path))
    assert remote.shape[1] == 16
    np.testing.assert_array_equal(remote, np.load(tmp_path / "local.npy"))


@pytest.mark.parametrize("form", ["tf1", "ours", "hugging_face", "tf_hub"])
def test_a_model_is_converted_and_read_again(session, model, tmp_path, form):
    session.run(script="convert_checkpoint", init_checkpoint=model, to=form, output_dir=f"{REMOTE}/{form}")
    with tarfile.open(tmp_path / f"{form}.tar.gz", "w:gz") as archive:
        archive.add(fetched(session, form, tmp_path), form)
    session.copy(tmp_path / f"{form}.tar.gz", f"{REMOTE}/archives/{form}.tar.gz")
    original, *others = (
        session.run(script="fill_mask", init_checkpoint=path, text="the [MASK] is").splitlines()[-1]
        for path in (model, f"{REMOTE}/{form}", f"{REMOTE}/archives/{form}.tar.gz"))
    assert others == [original] * 2


# For each command, its flags, and the files that it writes at REMOTE.
COMMANDS = {
    "export_to_tfhub": (dict(export_path=f"{REMOTE}/module"), ["module/saved_model.pb"]),
    "export_to_tflite": (dict(output_dir=f"{REMOTE}/lite", precision="float32", model="encoder", max_seq_length=8),
                         ["lite/encoder_float32.tflite"]),
    "export_to_onnx": (dict(output_dir=f"{REMOTE}/onnx", precision="float32", model="encoder"),
                       ["onnx/encoder_float32.onnx"]),
    "run_classifier": (dict(
        FINE_TUNING, data_dir=REMOTE, task_config=f"{REMOTE}/task.json", recipe=f"{REMOTE}/recipe.json",
        output_dir=f"{REMOTE}/reviews_model", export_dir=f"{REMOTE}/reviews_served"),
        ["reviews_model/eval_results.json", "reviews_model/test_results.tsv", "reviews_served/saved_model.pb"]),
    "run_squad": (dict(
        FINE_TUNING, train_file=f"{REMOTE}/squad/dev_v1.json", predict_file=f"{REMOTE}/squad/dev_v1.json",
        num_workers=1, max_seq_length=64, doc_stride=24, max_query_length=16, output_dir=f"{REMOTE}/squad_model",
        train_feature_file=f"{REMOTE}/squad_train.tfrecord",
        ensemble_checkpoints=f"{REMOTE}/squad_model/model.ckpt-1,{REMOTE}/squad_model"),
        ["squad_train.tfrecord", "squad_model/eval_results.json", "squad_model/predictions.json"]),
    "run_sentence_embeddings": (dict(
        TRAINING, objective="simcse", train_file=f"{REMOTE}/lines.txt", cached_dir=f"{REMOTE}/cached", do_train=True,
        max_seq_length=16, train_step=1, warmup_step=0, output_dir=f"{REMOTE}/sentences",
        export_dir=f"{REMOTE}/sentences_served"), ["sentences/modules.json", "sentences_served/saved_model.pb"]),
}


@pytest.mark.parametrize("script", COMMANDS)
def test_a_command_reads_and_writes_remote_files(session, model, tmp_path, script):
    if script == "export_to_onnx":
        pytest.importorskip("onnxruntime")
    flags, written = COMMANDS[script]
    session.run(script=script, **{"albert_directory" if script == "export_to_tfhub" else "init_checkpoint": model},
                **flags)
    for name in written:
        folder, _, file = name.rpartition("/")
        if file == "saved_model.pb":
            tf.saved_model.load(str(fetched(session, folder, tmp_path)))
        else:
            assert fetched(session, name, tmp_path).stat().st_size


def test_pretraining_resumes_and_keeps_its_vocabulary(session, model, tmp_path):
    assert json.loads(fetched(session, "model/eval_results.json", tmp_path).read_text())["global_step"] == 2
    for name in ("model.ckpt-2.index", "model.ckpt-best.index", "vocabulary.model", "albert_config.json"):
        assert fetched(session, f"model/{name}", tmp_path).stat().st_size > 0
    session.run(script="fill_mask", init_checkpoint=f"{model}/model.ckpt-1", text="the [MASK] is")


def test_remote_models_are_served(session, model):
    """All models are loaded before the server listens, here on an address that this machine does not have."""
    printed = session.run(script="serve", expect=1, init_checkpoint=model, host="203.0.113.1")
    assert printed.splitlines()[-1].startswith("serve: error: --host=203.0.113.1 --port=8501 cannot be used")
