"""Every flag that takes a path takes a remote one: all scripts, from the corpus to the export, on TensorFlow's ram://.

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


def test_a_wordpiece_vocabulary_may_be_remote(session, tmp_path):
    session.run(script="create_pretraining_data", input_file=f"{REMOTE}/text/a.txt", num_workers=1, dupe_factor=1,
                output_file=f"{REMOTE}/words.tfrecord", vocab_file=f"{REMOTE}/wordpiece/vocab.txt", max_seq_length=32)
    manifest = json.loads(fetched(session, "words.manifest.json", tmp_path).read_text())
    assert manifest["files"]["words.tfrecord"]["count"] > 0


def test_pretraining_resumes_and_keeps_its_vocabulary(session, model, tmp_path):
    assert results(session, "model", tmp_path)["global_step"] == 2
    for name in ("model.ckpt-2.index", "model.ckpt-best.index", "vocabulary.model", "albert_config.json"):
        assert fetched(session, f"model/{name}", tmp_path).stat().st_size > 0


def test_masks_are_filled_and_served(session, model, tmp_path):
    printed = session.run(script="fill_mask", init_checkpoint=model, text="the [MASK] is",
                          export_dir=f"{REMOTE}/served")
    served = tf.saved_model.load(str(fetched(session, "served", tmp_path))).signatures["serving_default"]
    best = served(text=tf.constant(["the [MASK] is"]))["pieces"].numpy()[0, 0, 0].decode()
    assert printed.splitlines()[-1].split()[0].removeprefix("##") == best.lstrip("\u2581")


def test_remote_models_are_served(session, model):
    """All models are loaded before the server listens, here on an address that this machine does not have."""
    printed = session.run(script="serve", expect=1, init_checkpoint=model, host="203.0.113.1")
    assert printed.splitlines()[-1].startswith("serve: error: --host=203.0.113.1 --port=8501 cannot be used")


def test_a_module_is_exported_and_read_again(session, model):
    session.run(script="export_to_tfhub", albert_directory=model, export_path=f"{REMOTE}/module")
    session.run(script="fill_mask", init_checkpoint=f"{REMOTE}/module", text="the [MASK] is")


def test_vectors_are_those_at_a_local_path(session, model, tmp_path):
    for output_file in (tmp_path / "local.npy", f"{REMOTE}/vectors.npy"):
        session.run(script="extract_embeddings", init_checkpoint=model, input_file=f"{REMOTE}/lines.txt",
                    output_file=output_file)
    remote = np.load(fetched(session, "vectors.npy", tmp_path))
    assert remote.shape[1] == 16
    np.testing.assert_array_equal(remote, np.load(tmp_path / "local.npy"))


def test_tensorflow_lite_models_are_written(session, model, tmp_path):
    session.run(script="export_to_tflite", init_checkpoint=model, output_dir=f"{REMOTE}/lite", precision="float32",
                model="encoder", max_seq_length=8)
    assert fetched(session, "lite/encoder_float32.tflite", tmp_path).read_bytes()[4:8] == b"TFL3"


def test_onnx_models_are_written(session, model, tmp_path):
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    session.run(script="export_to_onnx", init_checkpoint=model, output_dir=f"{REMOTE}/onnx", precision="float32",
                model="encoder")
    onnx.checker.check_model(str(fetched(session, "onnx/encoder_float32.onnx", tmp_path)))


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


def test_a_checkpoint_may_be_named_by_its_prefix(session, model):
    session.run(script="fill_mask", init_checkpoint=f"{model}/model.ckpt-1", text="the [MASK] is")


def test_a_classifier_with_its_task_and_recipe(session, model, tmp_path):
    session.run(script="run_classifier", init_checkpoint=model, data_dir=REMOTE, task_config=f"{REMOTE}/task.json",
                recipe=f"{REMOTE}/recipe.json", output_dir=f"{REMOTE}/reviews_model",
                export_dir=f"{REMOTE}/reviews_served", **FINE_TUNING)
    assert 0 <= results(session, "reviews_model", tmp_path)["eval_accuracy"] <= 1
    assert len(fetched(session, "reviews_model/test_results.tsv", tmp_path).read_text().splitlines()) == 4
    served = tf.saved_model.load(str(fetched(session, "reviews_served", tmp_path))).signatures["serving_default"]
    assert served(text_a=tf.constant(["even"]))["probabilities"].shape == [1, 2]


def test_question_answering(session, model, tmp_path):
    session.run(script="run_squad", init_checkpoint=model, train_file=f"{REMOTE}/squad/dev_v1.json", num_workers=1,
                predict_file=f"{REMOTE}/squad/dev_v1.json", output_dir=f"{REMOTE}/squad_model", max_seq_length=64,
                doc_stride=24, max_query_length=16,
                train_feature_file=f"{REMOTE}/squad_train.tfrecord", **FINE_TUNING)
    assert fetched(session, "squad_train.tfrecord", tmp_path).stat().st_size
    assert "f1" in results(session, "squad_model", tmp_path)
    assert json.loads(fetched(session, "squad_model/predictions.json", tmp_path).read_text())


def test_multiple_choice(session, model, tmp_path):
    session.run(script="run_race", init_checkpoint=model, data_dir=f"{REMOTE}/race",
                output_dir=f"{REMOTE}/race_model", max_seq_length=48, max_qa_length=24, warmup_step=0,
                train_file=f"{REMOTE}/race_train.tfrecord",
                eval_file=f"{REMOTE}/race_eval.tfrecord", predict_file=f"{REMOTE}/race_predict.tfrecord",
                ensemble_checkpoints=f"{REMOTE}/race_model/model.ckpt-1,{REMOTE}/race_model", **FINE_TUNING)
    assert fetched(session, "race_predict.tfrecord", tmp_path).stat().st_size
    assert "eval_accuracy" in results(session, "race_model", tmp_path)
    assert fetched(session, "race_model/predictions.jsonl", tmp_path).read_text()


def test_tagging(session, model, tmp_path):
    (tmp_path / "tagged.conll").write_text("Ada\tB-person\nleft\tO\n\nAda\tB-person\n")
    session.copy(tmp_path / "tagged.conll", f"{REMOTE}/tagged.conll")
    files = {name: f"{REMOTE}/tagged.conll" for name in ("train_file", "eval_file", "predict_file")}
    session.run(script="run_tagging", init_checkpoint=model, output_dir=f"{REMOTE}/tagger", max_seq_length=16,
                export_dir=f"{REMOTE}/tagger_served", **files, **FINE_TUNING)
    assert "f1" in results(session, "tagger", tmp_path)
    assert len(fetched(session, "tagger/predictions.conll", tmp_path).read_text().splitlines()) == 4
    served = tf.saved_model.load(str(fetched(session, "tagger_served", tmp_path))).signatures["serving_default"]
    assert served(text=tf.constant(["Ada left."]))["tags"].shape == [1, 3]
    session.run(script="run_tagging", init_checkpoint=f"{REMOTE}/tagger", output_dir=f"{REMOTE}/tagged_again",
                predict_file=f"{REMOTE}/tagged.conll", do_predict=True, max_seq_length=16)


def test_sentence_vectors_are_trained_and_extracted(session, model, tmp_path):
    session.run(script="run_sentence_embeddings", init_checkpoint=model, objective="simcse", train_step=1,
                train_file=f"{REMOTE}/lines.txt", output_dir=f"{REMOTE}/sentences", cached_dir=f"{REMOTE}/cached",
                max_seq_length=16, do_train=True, warmup_step=0, export_dir=f"{REMOTE}/sentences_served", **TRAINING)
    assert json.loads(fetched(session, "sentences/modules.json", tmp_path).read_text())
    model = dict(init_checkpoint=f"{REMOTE}/sentences", input_file=f"{REMOTE}/lines.txt")
    session.run(script="extract_embeddings", output_file=f"{REMOTE}/sentences.npy", **model)
    assert len(np.load(fetched(session, "sentences.npy", tmp_path))) > 1


def test_glue_is_looked_for_in_a_remote_folder(session, model):
    printed = session.run(script="run_glue", expect=1, init_checkpoint=model, data_dir=f"{REMOTE}/text",
                          output_dir=f"{REMOTE}/glue")
    assert f"{REMOTE}/text has no task with train and dev files" in printed.splitlines()[-1]
