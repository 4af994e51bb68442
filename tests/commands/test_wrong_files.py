"""Each command refuses wrong files, outputs and flags with one line that names them, before anything is written."""

import io
import json
import shutil
import sys
from unittest import mock

import pytest
from in_process import loaded
from synthetic_records import VOCAB_SIZE, write_records
from tiny import TINY_TEXT

from albert_tf.export.conversion import save
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.pretrainer import AlbertPretrainer
from albert_tf.text.lines import read_standard_input
from albert_tf.utils.files import listed
from albert_tf.utils.manifests import check_export
from albert_tf.weights.vocabulary import VocabularyFiles

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
}
# What a flag needs beside it, or cannot have.
BESIDE = {"eval_input_file": dict(do_eval=True), "task_config": dict(task_name=None),
          "predict_file": dict(do_eval=True), "eval_file": dict(do_eval=True), "context_file": dict(ask=True),
          "vocab_file": dict(spm_model_file=None),
          "onnx_model": dict(init_checkpoint=None),
          ("run_tagging", "predict_file"): dict(do_train=False, do_predict=True)}
TAKES_ANY_TEXT = (("train_vocabulary", "input_file"), ("run_squad", "context_file"),
                  ("run_sentence_embeddings", "train_file"))


@pytest.fixture(scope="module")
def paths(golden, tmp_path_factory):
    """Valid files by name, and in wrong/ one of each kind that no flag takes."""
    folder = tmp_path_factory.mktemp("wrong_files")
    spm = golden / "tiny_spm/tiny.model"
    save(AlbertPretrainer(TINY_TEXT), str(folder / "model"), "tf1", VocabularyFiles(str(spm)))
    write_records(folder / "x.tfrecord", 8)
    (folder / "config.json").write_text(TINY_TEXT.replace(vocab_size=VOCAB_SIZE).to_json_string())
    (folder / "text.txt").write_text("A kettle stood on the stove.\nNobody had filled it.\n\nA letter lay there.\n" * 5)
    (folder / "tagged.conll").write_text("Ada\tB-person\nleft\tO\n")
    for number, content in enumerate(RECIPES):
        (folder / f"recipe_{number}.json").write_text(json.dumps(content))
    (folder / "windows.json").write_text('{"long_texts": "mean"}')
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


# The flags of each script for what it writes.
OUTPUTS = {
    "create_pretraining_data": ("output_file",), "convert_checkpoint": ("output_dir",), "fill_mask": ("export_dir",),
    "export_to_onnx": ("output_dir",), "export_to_tflite": ("output_dir",),
    "export_to_tfhub": ("export_path",), "run_pretraining": ("output_dir",),
    "run_classifier": ("output_dir", "export_dir"), "run_race": ("output_dir", "export_dir"),
    "run_squad": ("output_dir", "export_dir"), "run_tagging": ("output_dir", "export_dir"),
    "run_sentence_embeddings": ("output_dir", "export_dir")}


@pytest.mark.parametrize("script", OUTPUTS)
def test_an_output_that_cannot_be_written_or_read_again_is_refused_before_a_model_is_made(paths, tmp_path, capsys,
                                                                                        script):
    base = {name: str(value).format(out=tmp_path / "out", **paths) for name, value in SCRIPTS[script][0].items()}
    file = paths["folder"] / "wrong" / "binary"
    before, pattern = file.read_bytes(), "must not have * ? [ or \\, which TensorFlow reads as a pattern"
    no_model = mock.Mock(side_effect=AssertionError("a model is made"))
    outputs = [(file, f"error: {file} "), (file / "x.tfrecord", f"error: {file} ")]
    if script not in ("create_pretraining_data", "export_to_onnx", "export_to_tflite"):
        outputs += [(tmp_path / name, pattern) for name in ("a [1]/x", "a*", "a?", "a\\b")]
    with loaded(script) as run, mock.patch.object(AlbertModel, "__init__", no_model):
        for name in OUTPUTS[script]:
            for output, message in outputs:
                assert run(**{**base, name: output}) == 1
                error, = [line for line in capsys.readouterr().err.splitlines() if "error: " in line]
                assert message in error
    assert file.read_bytes() == before and not list(tmp_path.iterdir())


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


TUNING = dict(do_train=True, albert_config_file="albert_tiny")
RTE = dict(TUNING, task_name="rte", data_dir="x")
EXTRACTING = dict(init_checkpoint="{model}", input_file="{text}", output_file="x.npy")
PRETRAINING = dict(input_file="nowhere", albert_config_file="albert_base_v2")
JAX = dict(PRETRAINING, runtime="jax")
RECIPES = [dict(learning_rate=None), dict(max_seq_length="long"), dict(no_such_flag=1)]
REFUSED = [  # one of each kind of check: the command, its flags, and what the line must say
    ("run_squad", dict(TUNING, distillation_alpha=0), "--distillation_alpha=0.0 has no effect without --teacher_"),
    ("run_classifier", dict(RTE, max_windows=4), "--max_windows=4 has no effect without --long_texts=mean or max"),
    ("run_classifier", dict(RTE, ensemble_checkpoints="a,b", export_dir="c"), "--export_dir exports one model, not"),
    ("run_classifier", dict(RTE, output_dir="served", export_dir="served/"),
     "--output_dir=served must not be --export_dir or a folder in it"),
    ("fill_mask", dict(init_checkpoint="{model}", text="a [MASK]", max_seq_length=65),
     "--max_seq_length=65 is more than the config's max_position_embeddings, 64"),
    ("fill_mask", dict(init_checkpoint="nowhere", text=["the [MASK] of", "a \ud83d [MASK]"]),
     r"error: --text: '\ud83d' is half of a surrogate pair"),
    ("fill_mask", dict(text="a [MASK]"), "the model is missing: set --init_checkpoint to"),
    ("create_pretraining_data", dict(input_file="{text}", output_file=",", spm_model_file="{spm}"),
     "--output_file must name at least one file. Received: ,"),
    ("extract_embeddings", dict(EXTRACTING, truncate_dim=17), "truncate_dim must be a whole number from 1 to 16"),
    ("extract_embeddings", dict(EXTRACTING, output_file="x.txt"), "--output_file must end in .npy"),
    ("export_to_onnx", dict(init_checkpoint="{model}", max_score_drop=0), "has no effect without --score_data"),
    ("export_to_onnx", dict(init_checkpoint="{model}", model="encoder", truncate_dim=4),
     "--truncate_dim is for --model=sentence_encoder."),
    ("run_sentence_embeddings", dict(TUNING, data_dir="glue", matryoshka_dims="16,x"), "--matryoshka_dims"),
    ("run_pretraining", dict(PRETRAINING, train_batch_size=8, gradient_accumulation_steps=3),
     "--train_batch_size must be a multiple of 1 replica times 3 --gradient_accumulation_steps. Received: 8"),
    ("run_race", dict(distribution_strategy="mirrored", albert_config_file="albert_base_v2", do_train=False,
                      do_eval=False, do_predict=True, data_dir="x", predict_batch_size=7),
     "--predict_batch_size must be a multiple of 2"),
    ("run_pretraining", dict(JAX, precision="mixed_float16"), "--runtime=jax does not scale losses"),
    ("run_pretraining", dict(JAX, cpu_parts=2), "--cpu_parts is for TensorFlow"),
    ("run_pretraining", dict(JAX, jax_num_processes=2), "--jax_num_processes"),
    ("run_race", dict(do_train=True, data_dir=""), "--data_dir is missing: --do_train reads it"),
    ("run_glue", dict(data_dir="{golden}/glue", task_name="rte"), "--predict_file are for run_classifier"),
    ("run_glue", dict(data_dir="{folder}", doc_stride=9, recipe="{folder}/windows.json"), "has no task with train and"),
    # A recipe is checked as the command line is.
    *(("run_classifier", dict(recipe=f"{{folder}}/recipe_{number}.json", data_dir="x", task_name="rte"), message)
      for number, message in enumerate((
          "recipe_0.json: --learning_rate has no value",
          "recipe_1.json: --max_seq_length must be a whole number. Received: long", "recipe_2.json: "))),
]


@pytest.mark.parametrize("script, flags, message", REFUSED, ids=str)
def test_a_flag_that_does_not_fit_is_refused_in_one_line(paths, tmp_path, monkeypatch, capsys, script, flags, message):
    monkeypatch.chdir(tmp_path)
    flags = {name: value.format(**paths) if isinstance(value, str) else value for name, value in flags.items()}
    with loaded(script) as run:
        if "output_dir" in {flag.name for flag in run.flags}:
            flags.setdefault("output_dir", "out")
        assert run(**flags) == 1
    printed = capsys.readouterr().err
    line, = [line for line in printed.splitlines() if "error: " in line]
    assert message in line and "Traceback" not in printed
    assert not list(tmp_path.iterdir())


def test_standard_input_that_is_no_utf8_is_refused_by_line(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"fine\r\nalso \xf0\x9f\x98\x80\n\xed\xa0\xbd\n")))
    lines = read_standard_input()
    assert [next(lines), next(lines)] == ["fine", "also \U0001F600"]
    with pytest.raises(ValueError, match="^standard input line 3: not UTF-8"):
        next(lines)


def test_many_paths_are_the_first_ones_and_a_number():
    assert listed(["a", "b", "c"]) == "a, b, c"
    assert listed([str(i) for i in range(2003)]) == "0, 1, 2 and 2,000 more"
