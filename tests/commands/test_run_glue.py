"""run_glue.py: all tasks of a folder, the small ones from MNLI, and the paper's table."""

import json
import re
import shutil

import pytest
import script_process
from absl import flags as absl_flags
from absl.testing import flagsaver
from in_process import loaded

from albert_tf.commands import flags, run_glue

CONFIG = dict(vocab_size=2000, embedding_size=8, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
              intermediate_size=16, max_position_embeddings=64)


@pytest.mark.both_stacks
@pytest.mark.long
def test_all_tasks_of_a_folder_are_run_and_our_row_follows_the_papers(golden, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    for task in ("MNLI", "RTE", "SST-2"):
        shutil.copytree(golden / "glue" / task, tmp_path / "glue" / task)
    done = script_process.run("run_glue", dict(
        data_dir=tmp_path / "glue", output_dir=tmp_path / "runs", num_runs=2, max_seq_length=24,
        albert_config_file=tmp_path / "config.json", spm_model_file=golden / "tiny_spm/tiny.model", train_batch_size=4,
        train_step=2, warmup_step=0, save_checkpoints_steps=1))
    assert done.returncode == 0, done.stderr
    assert "mnli/seed_" in re.search(r"(\S+): \d+ variables restored", done.stderr).group(1)  # RTE starts from MNLI
    lines = done.stdout.strip().splitlines()
    assert (tmp_path / "runs/glue.txt").read_text() == done.stdout
    assert lines[-2].split()[-8:] == ["90.8", "95.3", "92.2", "89.2", "96.9", "90.9", "71.4", "93.0"]
    scores = {name: json.loads((tmp_path / "runs" / name / "eval_results.json").read_text())["eval_accuracy"]
              for name in ("mnli", "rte", "sst-2")}
    row = dict(zip(lines[0].split(), lines[-1].split()[2:]))
    assert row == {**{name: "-" for name in row}, **{name: f"{100 * score:.1f}" for name, score in scores.items()}}


def test_the_flags_of_a_task_override_those_of_all_tasks(tmp_path):
    """Also: MNLI's weights override a TF-Hub module, and each export has its own folder."""
    for seed, accuracy in ((7, 0.4), (8, 0.6)):
        (tmp_path / f"mnli/seed_{seed}").mkdir(parents=True)
        (tmp_path / f"mnli/seed_{seed}/model.ckpt-best.index").touch()
        row = dict(accuracy=accuracy, global_step=3, best_metric="accuracy")
        (tmp_path / f"mnli/seed_{seed}/eval_history.jsonl").write_text(json.dumps(row))
    given = dict(data_dir="glue", output_dir=tmp_path, albert_hub_module_handle="module", export_dir="served", seed=7)
    with loaded("run_glue"), flagsaver.flagsaver():
        absl_flags.FLAGS(["run_glue", *script_process.arguments_of(given)])
        options = flags.read(run_glue.Options)
        arguments = {name: run_glue.arguments(options, name) for name in ("rte", "cola")}
    shared = {"--data_dir=glue", "--seed=7", "--random_seed=7", "--do_train", "--do_eval"}
    assert set(arguments["rte"]) == shared | {
        "--task_name=rte", "--recipe=rte", f"--output_dir={tmp_path}/rte", "--export_dir=served/rte",
        f"--init_checkpoint={tmp_path}/mnli/seed_8/model.ckpt-best"}
    assert set(arguments["cola"]) == shared | {
        "--task_name=cola", "--recipe=cola", f"--output_dir={tmp_path}/cola", "--export_dir=served/cola",
        "--albert_hub_module_handle=module"}


def test_tasks_with_no_better_scores_than_the_most_frequent_label_are_told(
        golden, tmp_path, monkeypatch, capsys, caplog):
    """As after a training, whose results are here already. Of WNLI and of correlations, there is another chance."""
    results = dict(rte=dict(eval_accuracy=0.5), mrpc=dict(eval_accuracy=0.99), cola=dict(matthew_corr=0.0),
                   wnli=dict(eval_accuracy=0.1))
    for task, folder in dict(rte="RTE", mrpc="MRPC", cola="CoLA", wnli="WNLI").items():
        shutil.copytree(golden / "glue" / folder, tmp_path / "glue" / folder)
        (tmp_path / "runs" / task).mkdir(parents=True)
        (tmp_path / "runs" / task / "eval_results.json").write_text(json.dumps(results[task]))
    ended = []
    monkeypatch.setattr("albert_tf.commands.run_glue.run_process", lambda script, arguments, name: ended.append(name))
    with loaded("run_glue") as run:
        assert run(data_dir=str(tmp_path / "glue"), output_dir=str(tmp_path / "runs")) == 0
    assert ended == ["rte", "mrpc", "cola", "wnli"]
    printed = capsys.readouterr()
    assert printed.out.splitlines()[-1].split()[2:] == ["-", "-", "-", "50.0", "-", "99.0", "0.0", "-", "10.0"]
    assert (tmp_path / "runs/glue.txt").read_text() == printed.out
    assert "rte, cola: no better than a model that always gives the same answer" in caplog.text
