"""Required flags must be set, and not empty."""

import pytest
from in_process import REPOSITORY, loaded

REQUIRED = {
    "create_pretraining_data.py": ("input_file", "output_file"), "train_vocabulary.py": ("input_file", "model_prefix"),
    "extract_embeddings.py": ("input_file", "output_file"), "layer_distances.py": ("input_file", "output_dir"),
    "export_to_tfhub.py": ("albert_directory", "export_path"),
    "export_to_tflite.py": ("output_dir",), "run_pretraining.py": ("output_dir",), "run_squad.py": ("output_dir",),
    "run_classifier.py": ("data_dir", "output_dir"), "run_glue.py": ("data_dir", "output_dir"),
    "run_race.py": ("data_dir", "output_dir"), "run_sentence_embeddings.py": ("output_dir",),
    "search_sentences.py": ("input_file",)}


@pytest.mark.parametrize("script", REQUIRED)
def test_an_error_names_a_required_flag_that_is_missing_or_empty(script, capsys):
    required = REQUIRED[script]
    with loaded(script) as run:
        for name in required:
            others = {other: "x" for other in required if other != name}
            assert run(**others) == 1
            assert f"Flag --{name} must have a value other than None" in capsys.readouterr().err
            assert run(**others, **{name: ""}) == 1
            assert f"flag --{name}=: it must not be empty" in capsys.readouterr().err


def test_scripts_define_required_flags_in_one_way():
    sources = [*REPOSITORY.glob("*.py"), *REPOSITORY.glob("albert_tf/**/*.py")]
    assert [path.name for path in sources if "required=True" in path.read_text("utf-8")] == ["required_flags.py"]


def test_an_output_list_without_a_file_is_refused(golden, tmp_path, capsys):
    (tmp_path / "text.txt").write_text("A kettle.\n")
    with loaded("create_pretraining_data.py") as run:
        assert run(input_file=tmp_path / "text.txt", output_file=",",
                   spm_model_file=golden / "tiny_spm/tiny.model") == 1
    assert "error: --output_file must name at least one file. Received: ," in capsys.readouterr().err
