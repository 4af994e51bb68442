"""The studies: all their files are valid, and one runs from a text to its results, also after an interruption."""

import csv
import json

import numpy as np
import pytest
from absl import flags
from in_process import loaded
from pretraining_runs import write_synthetic_text
from script_session import ScriptSession
from tiny import TINY_TEXT

from albert_tf.commands import command_runs
from studies.intervals import over_examples, over_seeds, standard_error
from studies.study import SCALES, plan, read_study, study_names

DATA = dict(text="text.txt", dev_text="dev.txt", additional_text="more.txt", glue_dir="glue", squad_dir="squad")


def planned(study, scale="small", **data):
    return plan(read_study(study, scale), {**DATA, **data}, "out")


@pytest.mark.parametrize("scale", SCALES)
def test_every_study_has_only_flags_that_its_commands_have(scale):
    by_script = {}
    for trial in (trial for study in study_names() for trial in planned(study, scale)):
        for run in trial.runs.values():
            values = by_script.setdefault(run.script, {})
            values.update({(name, str(value)): value for name, value in run.flags.items()})
    for script, values in by_script.items():
        with loaded(script) as run:
            known = {flag.name: flag for flag in run.flags}
            for (name, text), value in values.items():
                assert "{" not in text and name in known, (script, name)
                if value is not None and not isinstance(known[name], flags.MultiFlag):
                    known[name].parser.parse(value)


def write_study(path, change=lambda content: None, **small):
    content = dict(question="Does it run?", paper=dict(source="table 4", finding="It does."), columns=["masked_lm"],
                   limits="All.",
                   scales=dict(small=dict(varies={"config.cross_layer_sharing": ["all", "none"]}, **small)))
    change(content)
    path.write_text(json.dumps(content))
    return str(path)


@pytest.mark.parametrize("change, named", [
    (lambda c: c.pop("question"), "question"), (lambda c: c.update(colums=[]), "colums"),
    (lambda c: c.update(columns=["mlm"]), "mlm"), (lambda c: c.update(scales=dict(paper={})), "scales.small"),
    (lambda c: c["scales"]["small"].update(varies={"x": {"a": 1}}), "'x'"),
    (lambda c: c["scales"]["small"].update(settings={"config.depth": 2}), "depth"),
    (lambda c: c["scales"]["small"].update(settings={"pretrainig.precision": "float32"}), "'pretrainig'"),
    (lambda c: c["scales"]["small"].update(reference={"config.cross_layer_sharing": "most"}), "'most'")])
def test_a_wrong_study_is_refused_by_file_and_key(tmp_path, change, named):
    with pytest.raises(ValueError, match=f"mine.json.*{named}"):
        read_study(write_study(tmp_path / "mine.json", change), "small")


def test_mistakes_of_the_command_line_are_one_line(tmp_path, capsys):
    with loaded("studies/__main__.py") as run:
        for operands, values, named in (
                (["shearing"], {}, "no study 'shearing'"), (["sharing"], DATA, "--text: there is no file"),
                ([], {}, "is missing")):
            assert run(*operands, output_dir=tmp_path, **values) == 1
            assert named in capsys.readouterr().err
        assert run(list=True) == 0 and "near chance on SOP pairs" in capsys.readouterr().out


def test_standard_errors_and_intervals_of_known_values():
    assert standard_error([1.0, 2.0, 3.0]) == pytest.approx(1 / np.sqrt(3)) and np.isnan(standard_error([1.0]))
    # t(0.975) of 4 degrees of freedom is 2.7764, of 2 degrees 4.3027
    half = 2.7764 * np.sqrt(2 / 3)
    assert over_seeds([11.0, 12.0, 13.0], [1.0, 2.0, 3.0]) == pytest.approx((10, 10 - half, 10 + half), abs=1e-3)
    half = 4.3027 / np.sqrt(3)  # differences 2, 1, 3
    paired = over_seeds([73.0, 66.0, 72.0], [71.0, 65.0, 69.0], paired=True)
    assert paired == pytest.approx((2, 2 - half, 2 + half), abs=1e-3)
    assert over_seeds([2.0, 3.0], [1.0, 2.0], paired=True) == (1, 1, 1) == over_seeds([2.0, 2.0], [1.0, 1.0])
    assert np.isnan(over_seeds([5.0], [1.0, 2.0]).low)
    random = np.random.default_rng(1)
    equal = over_examples(random.normal(size=[2, 400]), random.normal(size=[3, 400]))
    # Means of 400 differences with a variance of 1/2 + 1/3: about 1.96 * sqrt(5/6 / 400) on each side.
    assert (equal.high - equal.low) / 2 == pytest.approx(1.96 * np.sqrt(5 / 6 / 400), rel=0.15)


LENGTHS = dict(max_seq_length=16, max_predictions_per_seq=3)
TINY = {
    "config": TINY_TEXT.replace(vocab_size=50).to_dict(), "vocabulary": dict(vocab_size=50),
    **{run: dict(LENGTHS, num_workers=1) for run in ("train_records", "dev_records", "dev_nsp_records",
                                                     "dev_ngram3_records")},
    "pretraining": dict(LENGTHS, train_batch_size=4, eval_batch_size=4, num_train_steps=2, num_warmup_steps=1,
                        save_checkpoints_steps=2, max_eval_steps=2, precision="float32"),
    "sst2": dict(max_seq_length=16, train_batch_size=4, train_step=2, warmup_step=1, save_checkpoints_steps=2,
                 precision="float32")}


@pytest.mark.long
def test_a_study_runs_from_a_text_to_its_results_and_continues_after_an_interruption(golden, tmp_path, monkeypatch):
    text, commands, to_fail = write_synthetic_text(tmp_path / "text.txt"), [], ["run_classifier"]
    study = write_study(tmp_path / "mine.json", lambda content: content.update(columns=["masked_lm", "sst2", "squad"]),
                        settings={f"{owner}.{name}": value for owner, values in TINY.items()
                                  for name, value in values.items()}, seeds=[1, 2])
    with ScriptSession(eagerly=True) as session, loaded("studies/__main__.py") as run:
        def run_in_session(command, *_):
            if command[3] in to_fail:
                to_fail.remove(command[3])
                return -9
            commands.append(command)
            return session.run_command(command)

        monkeypatch.setattr(command_runs, "run_to_end", run_in_session)
        values = dict(text=text, dev_text=text, glue_dir=golden / "glue", output_dir=tmp_path / "out")
        assert run(study, **values) == 1 and len(commands) == 6
        assert [run(study, **values), run(study, **values)] == [0, 0]
    scripts = [command[3] for command in commands]
    assert {script: scripts.count(script) for script in scripts} == dict(
        train_vocabulary=1, create_pretraining_data=4, run_pretraining=4, run_classifier=4)
    tables = {name: list(csv.DictReader(open(tmp_path / f"out/mine.small/{name}.csv")))
              for name in ("scores", "seeds", "differences")}
    assert [(row["configuration"], row["column"]) for row in tables["scores"]] == [
        (label, title) for label in ("all", "none") for title in ("masked LM", "SST-2", "masked-LM loss")]
    assert [(row["configuration"], row["other"], row["column"]) for row in tables["differences"]] == [
        ("none", "all", "masked LM"), ("none", "all", "SST-2")]
    first, second = (float(row["value"]) for row in tables["seeds"] if row["column"] == "SST-2"
                     and row["configuration"] == "none")
    assert float(tables["scores"][4]["mean"]) == pytest.approx((first + second) / 2, abs=0.06)
    assert (tmp_path / "out/mine.small/results.svg").read_text().count("_line_") == 3
