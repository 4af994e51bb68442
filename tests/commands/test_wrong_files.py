"""Each script refuses a file of another kind, a directory or a missing file with one line that names file or flag."""

import io
import json
import shutil
import sys
from unittest import mock

import pytest
from in_process import loaded
from synthetic_records import VOCAB_SIZE, write_records

from albert_tf.config import AlbertConfig
from albert_tf.export.conversion import save
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.pretrainer import AlbertPretrainer
from albert_tf.text.lines import read_standard_input
from albert_tf.utils.files import listed
from albert_tf.utils.manifests import check_export
from albert_tf.weights.vocabulary import VocabularyFiles

CONFIG = AlbertConfig(vocab_size=2000, embedding_size=8, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
                      intermediate_size=16, max_position_embeddings=64)
SOURCE_FLAGS = ("init_checkpoint", "albert_config_file", "spm_model_file", "vocab_file")
TUNING_FLAGS = (*SOURCE_FLAGS, "recipe")
# The flags of each script, formatted with its folders, and its flags for files that it reads.
SCRIPTS = {
    "create_pretraining_data": (dict(
        input_file="{text}", output_file="{out}/x.tfrecord", spm_model_file="{spm}", num_workers=1, max_seq_length=16,
        max_predictions_per_seq=3), ("spm_model_file",)),
    "train_vocabulary": (dict(input_file="{text}", model_prefix="{out}/x", vocab_size=40), ("input_file",)),
    "pretrain_from_text": (dict(text="{text}", dev_text="{text}", output_dir="{out}"), ("recipe",)),
    "fill_mask": (dict(init_checkpoint="{model}", text="the [MASK] of"), SOURCE_FLAGS),
    "score_sentences": (dict(init_checkpoint="{model}", input_file="{text}"), (*SOURCE_FLAGS, "pairs")),
    "extract_embeddings": (dict(init_checkpoint="{model}", input_file="{text}", output_file="{out}/x.npy"),
                              SOURCE_FLAGS),
    "serve": (dict(init_checkpoint="{model}"), ("init_checkpoint", "onnx_model", "spm_model_file", "vocab_file")),
    "convert_checkpoint": (dict(init_checkpoint="{model}", output_dir="{out}"), SOURCE_FLAGS),
    "export_to_tfhub": (dict(albert_directory="{model}", export_path="{out}"),
                           ("albert_directory", "spm_model_file", "vocab_file")),
    "export_to_onnx": (dict(init_checkpoint="{model}", output_dir="{out}"),
                          ("init_checkpoint", "albert_config_file")),
    "export_to_tflite": (dict(init_checkpoint="{model}", output_dir="{out}"),
                            ("init_checkpoint", "albert_config_file")),
    "run_pretraining": (dict(
        albert_config_file="{folder}/config.json", input_file="{folder}/x.tfrecord", output_dir="{out}",
        max_seq_length=16, max_predictions_per_seq=3, train_batch_size=2),
        (*SOURCE_FLAGS, "input_file", "eval_input_file")),
    "run_classifier": (dict(task_name="rte", data_dir="{golden}/glue", init_checkpoint="{model}", output_dir="{out}",
                               max_seq_length=16, do_train=True), (*TUNING_FLAGS, "data_dir", "task_config")),
    "run_squad": (dict(train_file="{golden}/squad/train.json", init_checkpoint="{model}", output_dir="{out}",
                          num_workers=1, do_train=True, max_seq_length=64, doc_stride=16, max_query_length=16),
                     (*TUNING_FLAGS, "train_file", "predict_file", "context_file")),
    "run_race": (dict(data_dir="{golden}/race", init_checkpoint="{model}", output_dir="{out}", do_eval=False,
                         max_seq_length=48), (*TUNING_FLAGS, "data_dir")),
    "run_tagging": (dict(train_file="{folder}/tagged.conll", init_checkpoint="{model}", output_dir="{out}",
                            max_seq_length=16, do_train=True),
                       (*TUNING_FLAGS, "train_file", "eval_file", "predict_file")),
    "run_sentence_embeddings": (dict(
        objective="simcse", train_file="{text}", init_checkpoint="{model}", output_dir="{out}", max_seq_length=16,
        do_train=True), (*TUNING_FLAGS, "train_file", "task_config")),
    "search_sentences": (dict(init_checkpoint="{model}", input_file="{text}", vectors_file="{out}/x.npy",
                              query="a kettle"), (*SOURCE_FLAGS, "input_file", "vectors_file", "rerank_checkpoint")),
}
# What a flag needs beside it, or cannot have.
BESIDE = {"eval_input_file": dict(do_eval=True), "task_config": dict(task_name=None),
          "predict_file": dict(do_eval=True), "eval_file": dict(do_eval=True), "context_file": dict(ask=True),
          "pairs": dict(input_file=None), "vocab_file": dict(spm_model_file=None),
          "onnx_model": dict(init_checkpoint=None),
          ("run_tagging", "predict_file"): dict(do_train=False, do_predict=True)}
TAKES_ANY_TEXT = (("train_vocabulary", "input_file"), ("run_squad", "context_file"),
                  ("run_sentence_embeddings", "train_file"), ("search_sentences", "input_file"),
                  ("run_tagging", "train_file"), ("run_tagging", "eval_file"), ("run_tagging", "predict_file"))


@pytest.fixture(scope="module")
def paths(golden, tmp_path_factory):
    """Valid files by name, and in wrong/ one of each kind that no flag takes."""
    folder = tmp_path_factory.mktemp("wrong_files")
    spm = golden / "tiny_spm/tiny.model"
    save(AlbertPretrainer(CONFIG), str(folder / "model"), "tf1", VocabularyFiles(str(spm)))
    save(AlbertPretrainer(CONFIG.replace(vocab_size=50)), str(folder / "small_model"), "tf1", VocabularyFiles(str(spm)))
    write_records(folder / "x.tfrecord", 8)
    (folder / "config.json").write_text(CONFIG.replace(vocab_size=VOCAB_SIZE).to_json_string())
    (folder / "text.txt").write_text("A kettle stood on the stove.\nNobody had filled it.\n\nA letter lay there.\n" * 5)
    (folder / "tagged.conll").write_text("Ada\tB-person\nleft\tO\n")
    wrong = folder / "wrong"
    (wrong / "directory").mkdir(parents=True)
    (wrong / "empty").touch()
    (wrong / "binary").write_bytes(bytes(range(128, 256)) * 20)
    (wrong / "nested.json").write_text("[" * 100_000)
    (wrong / "half.json").write_text('{"sentence_good": "\\ud83d", "text_a": "\\ud83d"}')
    return dict(folder=folder, model=folder / "model", spm=spm, golden=golden, text=folder / "text.txt")


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_wrong_file_is_one_line_that_names_it(paths, tmp_path, capsys, script):
    base, names = SCRIPTS[script]
    base = {name: str(value).format(out=tmp_path / "out", **paths) for name, value in base.items()}
    kinds = [*sorted((paths["folder"] / "wrong").iterdir()), paths["folder"] / "wrong" / "missing"]
    with loaded(script) as run:
        for name in names:
            is_shared = name in TUNING_FLAGS and script not in ("fill_mask", "run_classifier")  # by one config class
            for wrong in kinds[-1:] if is_shared else kinds:
                if wrong.suffix == ".json" and (script, name) in TAKES_ANY_TEXT:
                    continue
                status = run(**{**base, **BESIDE.get((script, name), BESIDE.get(name, {})), name: wrong})
                printed = capsys.readouterr().err
                lines = [line for line in printed.splitlines() if "error: " in line]
                assert status == 1 and len(lines) == 1 and "Traceback" not in printed, (name, wrong, printed)
                assert len(lines[0]) < len(str(wrong)) + 400, lines[0]
                assert lines[0].count(str(wrong)) == 1, (name, lines[0])
    assert not list(tmp_path.glob("out/*.tfrecord")) and not list(tmp_path.glob("out/model.ckpt*"))


@pytest.mark.parametrize("script", [script for script, (base, names) in SCRIPTS.items()
                                    if "spm_model_file" in names and "{model}" in base.values()])
def test_a_vocabulary_of_another_model_is_refused(paths, tmp_path, capsys, script):
    small = dict(paths, model=paths["folder"] / "small_model")
    base = {name: str(value).format(out=tmp_path / "out", **small) for name, value in SCRIPTS[script][0].items()}
    if script == "serve":
        base["port"] = "0"
    with loaded(script) as run:
        assert run(**base) == 1
    error, = [line for line in capsys.readouterr().err.splitlines() if "error: " in line]
    assert "has 2,000 pieces, but the config's vocab_size is 50: they belong to different models" in error


# The flags of each script for what it writes.
OUTPUTS = {
    "create_pretraining_data": ("output_file",), "score_sentences": ("output_file",),
    "convert_checkpoint": ("output_dir",), "fill_mask": ("export_dir",),
    "export_to_onnx": ("output_dir",), "export_to_tflite": ("output_dir",),
    "export_to_tfhub": ("export_path", "preprocess_export_path"), "run_pretraining": ("output_dir",),
    "run_classifier": ("output_dir", "export_dir"), "run_race": ("output_dir", "export_dir"),
    "run_squad": ("output_dir", "export_dir"), "run_tagging": ("output_dir", "export_dir"),
    "run_sentence_embeddings": ("output_dir", "export_dir")}


@pytest.mark.parametrize("script", OUTPUTS)
def test_an_output_that_cannot_be_written_is_refused_before_a_model_is_made(paths, tmp_path, capsys, script):
    base = {name: str(value).format(out=tmp_path / "out", **paths) for name, value in SCRIPTS[script][0].items()}
    file = paths["folder"] / "wrong" / "binary"
    before = file.read_bytes()
    no_model = mock.Mock(side_effect=AssertionError("a model is made"))
    with loaded(script) as run, mock.patch.object(AlbertModel, "__init__", no_model):
        for name in OUTPUTS[script]:
            for output in (file, file / "x.tfrecord"):
                assert run(**{**base, name: output}) == 1
                error, = [line for line in capsys.readouterr().err.splitlines() if "error: " in line]
                assert f"error: {file} " in error
    assert file.read_bytes() == before


@pytest.mark.parametrize("script", sorted(OUTPUTS.keys() - {
    "create_pretraining_data", "score_sentences", "export_to_onnx", "export_to_tflite"}))
def test_a_path_that_tensorflow_reads_as_a_pattern_is_refused_before_a_model_is_made(paths, tmp_path, capsys, script):
    base = {name: str(value).format(out=tmp_path / "out", **paths) for name, value in SCRIPTS[script][0].items()}
    no_model = mock.Mock(side_effect=AssertionError("a model is made"))
    with loaded(script) as run, mock.patch.object(AlbertModel, "__init__", no_model):
        for name in OUTPUTS[script]:
            for output in ("a [1]/x", "a*", "a?", "a\\b"):
                assert run(**{**base, name: tmp_path / output}) == 1
                assert "must not have * ? [ or \\, which TensorFlow reads as a pattern" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_an_export_in_a_folder_that_tensorflow_would_read_as_a_pattern_is_refused(tmp_path, monkeypatch):
    (tmp_path / "a[1]").mkdir()
    monkeypatch.chdir(tmp_path / "a[1]")
    with pytest.raises(ValueError, match="must not have"):
        check_export("served")


def test_a_checkpoint_that_tensorflow_would_read_as_a_pattern_is_refused(paths, tmp_path, capsys):
    shutil.copytree(paths["model"], tmp_path / "m[1]")
    with loaded("fill_mask") as run:
        assert run(init_checkpoint=tmp_path / "m[1]", text="a [MASK]") == 1
    assert "must not have * ? [ or \\, which TensorFlow reads as a pattern" in capsys.readouterr().err


@pytest.mark.parametrize("output_dir, export_dir", [("served", "served/"), ("served/run", "served"), ("run", ".")])
def test_a_run_in_its_export_is_refused_before_training(paths, tmp_path, monkeypatch, capsys, output_dir, export_dir):
    monkeypatch.chdir(tmp_path)
    base = {name: str(value).format(out=tmp_path, **paths) for name, value in SCRIPTS["run_classifier"][0].items()}
    with loaded("run_classifier") as run:
        assert run(**{**base, "output_dir": output_dir, "export_dir": export_dir}) == 1
    assert f"--output_dir={output_dir} must not be --export_dir or a folder in it" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("encoder, preprocessing", [("hub", "hub"), ("hub", "./hub/"), ("hub", "hub/preprocess"),
                                                    ("hub/encoder", "hub")])
def test_the_two_modules_of_an_encoder_need_two_folders(paths, tmp_path, monkeypatch, capsys, encoder, preprocessing):
    monkeypatch.chdir(tmp_path)
    with loaded("export_to_tfhub") as run:
        assert run(albert_directory=paths["model"], export_path=encoder, preprocess_export_path=preprocessing) == 1
    message = f"--preprocess_export_path={preprocessing} and --export_path={encoder} must be two folders"
    assert message in capsys.readouterr().err and not list(tmp_path.iterdir())


@pytest.mark.parametrize("script", ["export_to_tflite", "fill_mask", "run_classifier", "run_race",
                                    "run_tagging"])
def test_a_length_beyond_the_models_is_refused_before_anything_is_traced(paths, tmp_path, capsys, script):
    base = {name: str(value).format(out=tmp_path / "out", **paths) for name, value in SCRIPTS[script][0].items()}
    no_graph = mock.Mock(side_effect=AssertionError("the model is called"))
    with loaded(script) as run, mock.patch.object(AlbertModel, "call", no_graph):
        assert run(**{**base, "max_seq_length": 65}) == 1
    assert "--max_seq_length=65 is more than the config's max_position_embeddings, 64" in capsys.readouterr().err


def test_text_with_half_of_a_surrogate_pair_is_refused_by_flag(paths, capsys):
    with loaded("fill_mask") as run:
        assert run(init_checkpoint="nowhere", text=["the [MASK] of", "a \ud83d [MASK]"]) == 1
    assert r"error: --text: '\ud83d' is half of a surrogate pair" in capsys.readouterr().err


def test_standard_input_that_is_no_utf8_is_refused_by_line(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"fine\r\nalso \xf0\x9f\x98\x80\n\xed\xa0\xbd\n")))
    lines = read_standard_input()
    assert [next(lines), next(lines)] == ["fine", "also \U0001F600"]
    with pytest.raises(ValueError, match="^standard input line 3: not UTF-8"):
        next(lines)


def test_an_empty_line_of_standard_input_is_no_query(paths, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a kettle\n\n \n")))
    model = dict(init_checkpoint=paths["model"], input_file=paths["text"])
    with loaded("extract_embeddings") as run:
        assert run(output_file=tmp_path / "x.npy", **model) == 0
    with loaded("search_sentences") as run:
        assert run(vectors_file=tmp_path / "x.npy", top_k=1, **model) == 0
        query, neighbour = capsys.readouterr().out.splitlines()
        assert run(vectors_file=tmp_path / "x.npy", **model) == 1  # standard input has been read
    assert query == "a kettle" and neighbour.startswith("    ")
    assert "error: there are no queries" in capsys.readouterr().err


@pytest.mark.parametrize("script, values, message", [
    ("run_pretraining", dict(input_file="nowhere", train_batch_size=8, gradient_accumulation_steps=3),
     "--train_batch_size must be a multiple of 1 replica times 3 --gradient_accumulation_steps. Received: 8"),
    ("run_pretraining", dict(input_file="nowhere", distribution_strategy="mirrored", do_eval=True, eval_batch_size=7),
     "--eval_batch_size must be a multiple of 2 replicas. Received: 7"),
    ("run_race", dict(distribution_strategy="mirrored", do_train=False, do_eval=False, do_predict=True,
                         data_dir="nowhere", predict_batch_size=7), "--predict_batch_size must be a multiple of 2"),
    ("run_squad", dict(distribution_strategy="mirrored", do_train=True, do_predict=True, train_file="nowhere",
                       predict_file="nowhere", eval_batch_size=7), "--eval_batch_size must be a multiple of 2"),
    ("run_classifier", dict(distribution_strategy="mirrored", do_train=False, do_eval=False, calibrate=True,
                            data_dir="nowhere", task_name="rte", predict_batch_size=7),
     "--predict_batch_size must be a multiple of 2"),
])
def test_batches_that_cannot_be_divided_are_refused_before_anything_is_read(capsys, script, values, message):
    with loaded(script) as run:
        assert run(output_dir="nowhere", albert_config_file="albert_base_v2", **values) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("values, message", [
    (dict(runtime="jax", precision="mixed_float16"), "--runtime=jax does not scale losses"),
    (dict(runtime="jax", cpu_parts=2), "--cpu_parts is for TensorFlow"),
    (dict(runtime="jax", use_tpu=True), "--use_tpu is for TensorFlow"),
    (dict(runtime="jax", distribution_strategy="mirrored"), "--distribution_strategy=mirrored is for TensorFlow"),
    (dict(jax_cache_dir="programs"), "--jax_cache_dir"), (dict(shard_weights=True), "--shard_weights"),
    (dict(runtime="jax", jax_num_processes=2), "--jax_num_processes")], ids=str)
def test_flags_that_jax_cannot_follow_or_that_need_it_are_refused(capsys, values, message):
    with loaded("run_pretraining") as run:
        assert run(output_dir="nowhere", input_file="nowhere", albert_config_file="albert_base_v2", **values) == 1
    assert message in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize("content, message", [
    (dict(learning_rate=None), "--learning_rate has no value"),
    (dict(train_batch_size=0), "--train_batch_size must be an integer in the range"),
    (dict(max_seq_length="long"), "--max_seq_length must be a whole number. Received: long"),
    (dict(do_train=[1]), "--do_train must be true or false. Received: "),
    (dict(no_such_flag=1), "no_such_flag")])
def test_a_recipe_is_checked_as_the_command_line_is(tmp_path, capsys, content, message):
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(content))
    with loaded("run_classifier") as run:
        assert run(recipe=path, data_dir="nowhere", output_dir="nowhere", task_name="rte") == 1
    error, = [line for line in capsys.readouterr().err.splitlines() if "error: " in line]
    assert f"{path}: " in error and message in error


def test_many_paths_are_the_first_ones_and_a_number():
    assert listed(["a", "b", "c"]) == "a, b, c"
    assert listed([str(i) for i in range(2003)]) == "0, 1, 2 and 2,000 more"
