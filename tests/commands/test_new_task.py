"""The task in one file of examples/ is trained, evaluated, predicted and exported."""

import json

import pytest
import script_process


@pytest.mark.long
def test_a_task_in_one_file_is_a_whole_command(tmp_path):
    texts = [("good", 0.9), ("fine", 0.7), ("dull", 0.2), ("bad", 0.1)]
    (tmp_path / "texts.jsonl").write_text("".join(
        json.dumps(dict(text=f"A {word} book about the sea.", share=share)) + "\n" for word, share in texts * 4))

    def run(**flags):
        done = script_process.run(
            script_process.REPOSITORY / "examples/shares.py",
            dict(flags, init_checkpoint="albert_tiny_en", max_seq_length=16, output_dir=tmp_path / "out",
                 export_dir=tmp_path / "exported"),
            environment=dict(PYTHONPATH=script_process.REPOSITORY))
        assert done.returncode == 0 and done.stdout == "", (done.stdout, done.stderr)

    texts = tmp_path / "texts.jsonl"
    run(train_file=texts, eval_file=texts, do_train=True, do_eval=True, do_predict=True, train_step=4,
        train_batch_size=8)
    assert -1 <= json.loads((tmp_path / "out/eval_results.json").read_text())["correlation"] <= 1
    shares = [float(line) for line in (tmp_path / "out/shares.txt").read_text().split()]
    assert len(shares) == 16 and shares[:4] == shares[4:8] and all(0 < share < 1 for share in shares)
    (tmp_path / "exported/saved_model.pb").unlink()
    run()  # replaces the earlier export
    assert (tmp_path / "exported/saved_model.pb").is_file()
