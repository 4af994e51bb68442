"""Flags that commands share, their values, and who reads them."""

import dataclasses

import pytest
from in_process import loaded

from albert_tf.commands import shared_flags
from albert_tf.training.options import default_interval
from albert_tf.utils.bounds import check_finite


@pytest.mark.parametrize("steps, interval", [
    (125_000, 5000), (25_000, 5000), (24_000, 4800), (7557, 1500), (12, 2), (3, 1)])
def test_a_short_run_is_evaluated_five_times(steps, interval):
    assert default_interval(steps, 5000) == interval


def test_manifests_have_all_flags_of_the_model():
    assert {field.name for field in dataclasses.fields(shared_flags.SourceFlags)} == set(shared_flags.MODEL_FLAGS)


def test_the_least_value_itself_is_allowed():
    check_finite("rate", 0.0, 0.0)
    check_finite("rate", -1)
    with pytest.raises(ValueError, match="^rate must be a finite number of at least 1. Received: 0.5$"):
        check_finite("rate", 0.5, 1)


REQUIRED = {
    "create_pretraining_data": ("input_file", "output_file"), "train_vocabulary": ("input_file", "model_prefix"),
    "extract_embeddings": ("input_file", "output_file"),
    "export_to_tfhub": ("albert_directory", "export_path"),
    "export_to_tflite": ("output_dir",), "run_pretraining": ("output_dir",), "run_squad": ("output_dir",),
    "run_classifier": ("output_dir",), "run_glue": ("data_dir", "output_dir"),
    "run_race": ("output_dir",), "run_sentence_embeddings": ("output_dir",),
    "search_sentences": ("input_file", "vectors_file"),
    "search_settings": ("space", "output_dir")}


@pytest.mark.parametrize("script", REQUIRED)
def test_an_error_names_a_required_flag_that_is_missing_or_empty(script, capsys):
    required = REQUIRED[script]
    with loaded(script) as run:
        for name in required:
            others = {other: "x" for other in required if other != name}
            assert run(**others) == 1
            assert f"error: --{name} is required\n" in capsys.readouterr().err
            assert run(**others, **{name: ""}) == 1
            assert f"error: --{name} must not be empty\n" in capsys.readouterr().err


@pytest.mark.parametrize("script, action, flag, others", [
    ("run_classifier", "do_eval", "data_dir", dict(task_name="rte")),
    ("run_classifier", "calibrate", "data_dir", dict(task_name="rte")), ("run_race", "do_train", "data_dir", {}),
    ("run_race", "export_dir", "data_dir", dict(do_train=False, do_eval=False, data_format="jsonl")),
    ("run_squad", "do_train", "train_file", {}), ("run_squad", "do_predict", "predict_file", {}),
    ("run_squad", "ask", "context_file", {}), ("run_tagging", "do_eval", "eval_file", {}),
    ("run_sentence_embeddings", "do_train", "data_dir", {}),
    ("run_sentence_embeddings", "do_train", "train_file", dict(objective="simcse"))])
def test_a_flag_of_data_that_an_action_reads_is_needed_before_anything_is_written(
        script, action, flag, others, tmp_path, capsys):
    with loaded(script) as run:
        for empty in (None, ""):
            assert run(output_dir=tmp_path / "out", **{
                action: str(tmp_path / "export") if action == "export_dir" else True, **others, flag: empty}) == 1
            assert f"error: --{flag} is missing: --{action} reads it\n" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_an_output_list_without_a_file_is_refused(golden, tmp_path, capsys):
    (tmp_path / "text.txt").write_text("A kettle.\n")
    with loaded("create_pretraining_data") as run:
        assert run(input_file=tmp_path / "text.txt", output_file=",",
                   spm_model_file=golden / "tiny_spm/tiny.model") == 1
    assert "error: --output_file must name at least one file. Received: ," in capsys.readouterr().err
