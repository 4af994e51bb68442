"""The task of CONTRIBUTING.md, which is one file, is trained, evaluated, predicted and exported."""

import json
import re

import pytest
import script_process


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """The file that CONTRIBUTING.md shows, with texts beside it."""
    page = (script_process.REPOSITORY / "CONTRIBUTING.md").read_text(encoding="utf-8")
    path = tmp_path_factory.mktemp("task") / "shares.py"
    path.write_text(re.search(r"```python shares.py\n(.*?)```", page, re.S)[1])
    texts = [("good", 0.9), ("fine", 0.7), ("dull", 0.2), ("bad", 0.1)]
    (path.parent / "texts.jsonl").write_text("".join(
        json.dumps(dict(text=f"A {word} book about the sea.", share=share)) + "\n" for word, share in texts * 4))
    return path


def run(program, **flags):
    return script_process.run(program, dict(flags, init_checkpoint="albert_tiny_en"),
                              environment=dict(PYTHONPATH=script_process.REPOSITORY))


@pytest.mark.long
def test_the_file_in_contributing_is_a_whole_command(program):
    texts, out = program.parent / "texts.jsonl", program.parent / "out"
    done = run(program, train_file=texts, eval_file=texts, output_dir=out, do_train=True, do_eval=True, do_predict=True,
               export_dir=program.parent / "exported", train_step=4, train_batch_size=8, max_seq_length=16)
    assert done.returncode == 0 and done.stdout == "", (done.stdout, done.stderr)
    assert -1 <= json.loads((out / "eval_results.json").read_text())["correlation"] <= 1
    shares = [float(line) for line in (out / "shares.txt").read_text().split()]
    assert len(shares) == 16 and shares[:4] == shares[4:8] and all(0 < share < 1 for share in shares)
    exported = program.parent / "exported" / "saved_model.pb"
    assert exported.is_file()
    exported.unlink()
    done = run(program, output_dir=out, export_dir=exported.parent, max_seq_length=16)  # replaces the earlier export
    assert done.returncode == 0 and exported.is_file(), done.stderr


def test_a_flag_of_a_file_that_is_missing_is_named(program, tmp_path):
    done = run(program, output_dir=tmp_path / "out", do_train=True)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "shares: error: --train_file is missing: --do_train reads it"
    assert "Traceback" not in done.stderr and not list(tmp_path.iterdir())
