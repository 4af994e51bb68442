"""Required flags must be set, and not empty."""

import pytest
from in_process import REPOSITORY, loaded

REQUIRED = {
    "create_pretraining_data": ("input_file", "output_file"), "train_vocabulary": ("input_file", "model_prefix"),
    "extract_embeddings": ("input_file", "output_file"), "layer_distances": ("input_file", "output_dir"),
    "export_to_tfhub": ("albert_directory", "export_path"),
    "export_to_tflite": ("output_dir",), "run_pretraining": ("output_dir",), "run_squad": ("output_dir",),
    "run_classifier": ("output_dir",), "run_glue": ("data_dir", "output_dir"),
    "run_race": ("output_dir",), "run_sentence_embeddings": ("output_dir",),
    "search_sentences": ("input_file",)}


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


@pytest.mark.parametrize("script, contents", [
    ("run_classifier", "the files of the task"), ("run_race", "RACE, or the .jsonl files")])
def test_a_script_that_reads_data_needs_their_folder(script, contents, tmp_path, capsys):
    with loaded(script) as run:
        for data_dir in (None, ""):
            assert run(output_dir=tmp_path, do_eval=True, task_name="rte", max_seq_length=8, data_dir=data_dir) == 1
            assert f"error: --data_dir is missing: the directory that holds {contents}" in capsys.readouterr().err


def test_scripts_define_required_flags_in_one_way():
    sources = [*REPOSITORY.glob("*.py"), *REPOSITORY.glob("albert_tf/**/*.py")]
    ways = ("required=True", "mark_flag_as_required", "mark_flags_as_required")
    assert [path.name for path in sources if any(way in path.read_text("utf-8") for way in ways)] == []


def test_an_output_list_without_a_file_is_refused(golden, tmp_path, capsys):
    (tmp_path / "text.txt").write_text("A kettle.\n")
    with loaded("create_pretraining_data") as run:
        assert run(input_file=tmp_path / "text.txt", output_file=",",
                   spm_model_file=golden / "tiny_spm/tiny.model") == 1
    assert "error: --output_file must name at least one file. Received: ," in capsys.readouterr().err
