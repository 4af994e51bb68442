"""The studies: all their files are valid, and one study runs from text to report, also after an interruption."""

import contextlib
import json
import pathlib
import re
import types

import numpy as np
import pytest
from absl import flags
from in_process import REPOSITORY, loaded
from script_session import ScriptSession
from synthetic_text import write_synthetic_text

from albert_tf.commands import command_runs
from albert_tf.config import AlbertConfig
from albert_tf.utils.files import read_json_object
from studies import results, speed
from studies.intervals import difference_over_seeds, paired_bootstrap, paired_difference_over_seeds, standard_error
from studies.neighbour_baseline import NeighbourBaseline
from studies.planning import Data, plan
from studies.results import Row, collect, compare, credits, training_flops
from studies.speed import (
    PAPER,
    Measurement,
    batch,
    fits,
    matrix_product_rate,
    sentence_milliseconds,
    table,
    tokens_per_second,
)
from studies.study import COLUMNS, SCALES, parse_override, read_study, study_names

PLACES = dict(text="text.txt", dev_text="dev.txt", additional_text="more.txt", glue_dir="glue", squad_dir="squad",
              pairs="blimp")
RECORDS = ("train_records", "dev_records", "dev_nsp_records", "dev_ngram3_records")


def planned(study="sharing", scale="small", output_dir="out", **changes):
    return plan(read_study(study, scale), Data(output_dir, {**PLACES, **changes}))


@pytest.mark.parametrize("scale", SCALES)
def test_every_study_has_only_flags_that_its_scripts_have(scale):
    by_script = {}
    for study in study_names():
        for trial in planned(study, scale):
            assert {COLUMNS[column].run for column in read_study(study, scale).columns} <= set(trial.runs)
            for run in trial.runs.values():
                by_script.setdefault(run.script, {}).setdefault(json.dumps(run.flags), run.flags)
    for script, flag_sets in by_script.items():
        with loaded(script) as run:
            known = {flag.name: flag for flag in run.flags}
            for values in flag_sets.values():
                assert set(values) <= set(known)
                for name, value in values.items():
                    assert "{" not in str(value)
                    if value is not None and not isinstance(known[name], flags.MultiFlag):
                        known[name].parser.parse(value)


@pytest.mark.parametrize("study", study_names())
def test_every_study_is_within_25_minutes_a_model_at_the_small_scale(study):
    speed = read_study(study, "small").training_flops_per_second
    for trial in planned(study):
        assert training_flops(trial.runs["pretraining"], trial.config) / speed < 25 * 60


def test_configurations_differ_in_the_varied_settings_only():
    trials = planned("sentence_objective")
    assert [(trial.label, trial.seed) for trial in trials[:4]] == [("none", 1), ("nsp", 1), ("sop", 1), ("none", 2)]
    none, nsp, sop = (trial.runs for trial in trials[:3])
    assert nsp["train_records"].flags["sentence_objective"] == "nsp"
    assert len({runs["train_records"].directory for runs in (none, nsp, sop)}) == 3
    assert len({runs["dev_records"].directory for runs in (none, nsp, sop)}) == 1
    assert nsp["pretraining"].flags["input_file"] == nsp["train_records"].directory + "/train.tfrecord"
    assert len({trial.runs["pretraining"].directory for trial in trials}) == 9
    base, = (trial for trial in planned("embedding_size") if (trial.label, trial.seed) == ("all shared, 128", 1))
    assert base.runs["pretraining"] == planned("masked_share")[0].runs["pretraining"]  # studies share models


def test_a_configuration_is_compared_with_its_reference_or_with_the_first():
    assert read_study("sharing", "small").references == {
        f"{size}, {sharing}": f"{size}, not shared" for size in ("256", "128")
        for sharing in ("all shared", "attention shared", "ffn shared", "not shared")}
    assert set(read_study("sentence_objective", "paper").references.values()) == {"sop"}
    assert set(read_study("depth", "small").references.values()) == {"1, 2,800 steps"}


def test_each_depth_starts_from_the_next_shallower_one_as_in_the_paper():
    for scale, depths in dict(small=[1, 1, 3, 6, 12, 24], paper=[1, 1, 3, 6, 12, 24, 48]).items():
        trials = [trial for trial in planned("depth", scale) if trial.seed == 1]
        assert [trial.config.num_hidden_layers for trial in trials] == depths
        steps = [trial.runs["pretraining"].flags["num_train_steps"] for trial in trials]
        assert steps[0] == sum(steps[1:])  # 1 layer with as many steps as the deepest model
        seeds = [trial.runs["pretraining"].flags["random_seed"] for trial in trials[1:]]
        assert len(set(seeds)) == len(seeds)  # with equal seeds, each depth would train on the same first examples
        for previous, trial in zip([None, *trials], trials):
            pretraining = trial.runs["pretraining"]
            assert trial.config_files[pretraining.flags["albert_config_file"]] == trial.config
            if trial.config.num_hidden_layers == 1:
                assert pretraining.flags["init_checkpoint"] is None
                continue
            start = trial.runs[f"{previous.label}: pretraining"]
            assert start == previous.runs["pretraining"]  # one model, which is not trained again
            assert pretraining.flags["init_checkpoint"] == start.directory
            assert trial.config_files[start.flags["albert_config_file"]] == previous.config
            assert list(trial.runs).index(f"{previous.label}: pretraining") < list(trial.runs).index("pretraining")
    order = [name for name in trials[3].runs if "pretraining" in name]  # of 6 layers, for a command with --only=6
    assert order == ["1: pretraining", "3: pretraining", "pretraining"]


@pytest.mark.parametrize("scale", SCALES)
def test_an_ensemble_is_of_checkpoints_that_its_runs_keep(scale):
    for trial in planned("ensemble", scale):
        runs = trial.runs["sst2_seeds"].flags
        every, kept = runs["save_checkpoints_steps"], runs.get("keep_checkpoint_max", 5)
        steps = range(every, runs["train_step"] + 1, every)[-kept:]
        for path in trial.runs["sst2_ensemble"].flags["ensemble_checkpoints"].split(","):
            seed, step = re.fullmatch(r".*/seed_(\d+)/model\.ckpt-(\d+)", path).groups()
            assert int(step) in steps and 1 <= int(seed) <= runs["num_runs"]


def test_the_first_configuration_has_no_previous_one(tmp_path):
    path = write_study(tmp_path / "s.json", settings={"pretraining.init_checkpoint": "{previous}"})
    study = read_study(path, "small")
    with pytest.raises(ValueError, match="s: 'all' is the first configuration, so it cannot start from {previous}"):
        plan(study, Data("out", PLACES))


def test_a_run_that_needs_its_own_output_is_refused(tmp_path):
    path = write_study(tmp_path / "s.json", settings={"train_records.input_file": "{pretraining}/model"})
    with pytest.raises(ValueError, match="s: run 'pretraining' needs its own output: pretraining needs train_records "
                                         "needs pretraining"):
        plan(read_study(path, "small"), Data("out", PLACES))


def test_the_study_in_the_docs_is_valid(tmp_path):
    page = (REPOSITORY / "studies/README.md").read_text("utf-8")
    path = tmp_path / "my_study.json"
    path.write_text(page.split("```json my_study.json\n")[1].split("```")[0])
    study = read_study(str(path), "small")
    assert study.references == {"AdamW, none": "AdamW, none", "AdamW, all": "AdamW, all",
                                "LAMB, none": "AdamW, none", "LAMB, all": "AdamW, all"}
    flags_of_lamb = plan(study, Data("out", PLACES))[2].runs["pretraining"].flags
    assert (flags_of_lamb["optimizer"], flags_of_lamb["learning_rate"], flags_of_lamb["num_train_steps"]) == (
        "lamb", 4e-3, 600)


def test_columns_without_data_are_not_measured_and_text_is_needed():
    assert "squad" not in planned(squad_dir=None)[0].runs and "sst2" in planned(squad_dir=None)[0].runs
    with pytest.raises(ValueError, match="--text is missing: sharing needs it"):
        planned(text=None)
    with pytest.raises(ValueError, match="--additional_text is missing: additional_data needs it"):
        planned("additional_data", additional_text=None)
    with pytest.raises(ValueError, match="--glue_dir is missing: ensemble needs it"):
        planned("ensemble", glue_dir=None)


def write_study(path, change=lambda content: None, **small):
    content = dict(question="Does it run?", paper=dict(source="table 4", finding="It does."), columns=["masked_lm"],
                   limits="All.",
                   scales=dict(small=dict(varies={"config.cross_layer_sharing": ["all", "none"]}, **small)))
    change(content)
    path.write_text(json.dumps(content))
    return str(path)


@pytest.mark.parametrize("change, message", [
    (lambda c: c.pop("question"), "'question' is missing"),
    (lambda c: c.update(colums=[]), "unknown key 'colums'; the known ones are question, paper, columns"),
    (lambda c: c.update(columns="sop"), "'columns' must be of type list. Received: 'sop'"),
    (lambda c: c.update(columns=["mlm"]), "unknown column 'mlm'; the known ones are masked_lm, "),
    (lambda c: c.update(scales=dict(paper={})), '"scales" has no \'small\', only paper'),
    (lambda c: c["scales"]["small"].update(varies={"sharing": ["all"]}), "Received: 'sharing'"),
    (lambda c: c["scales"]["small"].update(varies={"x": {"a": 1}}), "'x' must be a list of values, or an object"),
    (lambda c: c["scales"]["small"].update(settings={"config.depth": 2}), "the config has no field 'depth'"),
    (lambda c: c["scales"]["small"].update(settings={"pretrainig.precision": "float32"}), "'pretrainig.precision'"),
    (lambda c: c["scales"]["small"].update(settings={"config.num_hidden_layers": 0}), "scales.small 'all': num_hidden"),
    (lambda c: c["scales"]["small"].update(reference={"config.cross_layer_sharing": "most"}), "there is no 'most'"),
    (lambda c: c["scales"]["small"].update(reference={"sharing": "all"}), "no 'all' in \"varies\" of 'sharing'"),
    (lambda c: c["scales"]["small"].update(seeds=["one"]), "at least one. Received: ['one']"),
    (lambda c: c["paper"].update(columns=["x"], rows=[["b", 1], ["a"]]), "Received: ['a']"),
])
def test_a_wrong_study_is_refused_by_file_and_key(tmp_path, change, message):
    path = write_study(tmp_path / "mine.json", change)
    with pytest.raises(ValueError) as error:
        read_study(path, "small")
    assert str(error.value).startswith(path) and message in str(error.value)


def test_an_unknown_study_and_a_wrong_setting_are_one_line(tmp_path, capsys):
    with loaded("studies/__main__.py") as run:
        assert run("shearing") == 1
        assert "error: no study 'shearing': use one of additional_data, batches" in capsys.readouterr().err
        (tmp_path / "depth.json").write_text((REPOSITORY / "studies/depth.json").read_text("utf-8"))
        assert run(str(tmp_path / "depth.json")) == 1
        assert "its reports would replace those of the study 'depth'" in capsys.readouterr().err
        assert run("sharing", output_dir=tmp_path, **PLACES) == 1
        assert "--text: there is no file or folder text.txt" in capsys.readouterr().err
        assert run("sharing", set="num_train_steps") == 1
        assert "error: --set must be NAME=VALUE" in capsys.readouterr().err
        assert run("sharing", set="pretraining.x=1", only="nothing", output_dir=tmp_path, **PLACES) == 1
        error = capsys.readouterr().err
        assert "--only=nothing matches no configuration. The configurations are: 256, all shared; " in error
        assert run("depth", only="25", output_dir=tmp_path, **PLACES) == 1
        assert "--only=25 matches no configuration. The configurations are: 1, 2,800 steps; 1; 3; " in (
            capsys.readouterr().err)
        assert run() == 1
        assert "error: the name of a study is missing: " in capsys.readouterr().err


def test_a_setting_of_the_command_line_is_json_or_text():
    assert parse_override("pretraining.num_train_steps=100") == ("pretraining.num_train_steps", 100)
    assert parse_override("pretraining.precision=float32") == ("pretraining.precision", "float32")
    assert parse_override("pretraining.eval_input_file=[\"a\", \"b\"]")[1] == ["a", "b"]
    trials = plan(read_study("equal_time", "small", {"pretraining.num_train_steps": 7}), Data("out", PLACES))
    assert {trial.runs["pretraining"].flags["num_train_steps"] for trial in trials} == {7}


def test_the_list_has_the_question_and_the_cost_of_a_study(capsys, tmp_path):
    with loaded("studies/__main__.py") as run:
        assert run(list=True, output_dir=tmp_path / "nothing") == 0
    printed = capsys.readouterr().out
    assert all(f"\n{study}: " in f"\n{printed}" for study in study_names())
    assert "9 trained models (3 configurations, seeds [1, 2, 3])" in printed
    assert not (tmp_path / "nothing").exists()


@pytest.mark.parametrize("study", study_names())
def test_the_guide_has_the_cost_of_each_study(study):
    speed = read_study(study, "small").training_flops_per_second
    runs = {run.directory: training_flops(run, trial.config_files[run.flags["albert_config_file"]])
            for trial in planned(study) for run in trial.runs.values() if run.script == "run_pretraining"}
    hours, longest = sum(runs.values()) / speed / 3600, max(runs.values()) / speed / 60
    guide = (REPOSITORY / "studies/README.md").read_text("utf-8")
    assert f"| `{study}` | {len(runs)} | {hours:.1f} | {longest:.0f} |" in guide


def test_standard_errors_and_intervals_of_known_values():
    assert standard_error([1.0, 2.0, 3.0]) == pytest.approx(1 / np.sqrt(3)) and np.isnan(standard_error([1.0]))
    interval = difference_over_seeds([11.0, 12.0, 13.0], [1.0, 2.0, 3.0])
    # t(0.975) of 4 degrees of freedom is 2.7764
    assert interval == pytest.approx((10.0, 10 - 2.7764 * np.sqrt(2 / 3), 10 + 2.7764 * np.sqrt(2 / 3)), abs=1e-3)
    assert interval.excludes_zero and not difference_over_seeds([1.0, 3.0], [2.0, 2.5]).excludes_zero
    assert not difference_over_seeds([5.0], [1.0, 2.0]).excludes_zero
    paired = paired_difference_over_seeds([73.0, 66.0, 72.0], [71.0, 65.0, 69.0])  # differences 2, 1, 3
    assert paired == pytest.approx((2.0, 2 - 4.3027 / np.sqrt(3), 2 + 4.3027 / np.sqrt(3)), abs=1e-3)
    assert not difference_over_seeds([73.0, 66.0, 72.0], [71.0, 65.0, 69.0]).excludes_zero
    assert not paired_difference_over_seeds([5.0], [1.0]).excludes_zero
    with pytest.raises(ValueError, match="shorter"):
        paired_difference_over_seeds([5.0, 6.0], [1.0])


def test_configurations_of_the_same_pre_trained_models_are_compared_in_pairs():
    def row(values, models):
        return Row("row", AlbertConfig(50), {"sst2": values}, {"sst2": {}}, models, {}, {}, None)

    one, ensemble, models = {1: 71.0, 2: 65.0, 3: 69.0}, {3: 72.0, 1: 73.0, 2: 66.0}, {1: "a", 2: "b", 3: "c"}
    paired = compare(row(ensemble, models), row(one, models), "sst2")
    assert paired == paired_difference_over_seeds([73.0, 66.0, 72.0], [71.0, 65.0, 69.0])
    independent = difference_over_seeds(list(ensemble.values()), list(one.values()))
    assert compare(row(ensemble, models), row(one, {1: "d", 2: "e", 3: "f"}), "sst2") == independent
    fewer = compare(row({1: 73.0, 2: 66.0}, models), row(one, models), "sst2")
    assert fewer == difference_over_seeds([73.0, 66.0], list(one.values()))
    assert compare(row({}, models), row(one, models), "sst2") is None


def test_scores_of_pre_training_are_those_of_the_best_evaluation_whose_weights_other_runs_have(tmp_path, monkeypatch):
    trial = planned("dropout", output_dir=str(tmp_path))[0]
    directory = pathlib.Path(trial.runs["pretraining"].directory)
    directory.mkdir(parents=True)
    evaluations = [dict(global_step=600, masked_lm_accuracy=0.3, masked_lm_loss=4.5),
                   dict(global_step=1200, masked_lm_accuracy=0.1, masked_lm_loss=7.0)]
    (directory / "eval_history.jsonl").write_text("\n".join(map(json.dumps, evaluations)))
    monkeypatch.setattr(results, "neighbour_baseline", lambda *_: NeighbourBaseline(6.3, 4.95))
    monkeypatch.setattr(results.reading, "open_records", lambda *_: [])
    monkeypatch.setattr(results, "expand_globs", lambda path: [path])
    row, = collect([trial], types.SimpleNamespace(seconds=lambda *_, **__: 60.0), ["masked_lm"])
    assert row.values == {"masked_lm": {1: 30.0}} and row.masked_lm_losses == {1: 4.5} and not row.is_on_plateau


def test_the_baseline_is_of_records_that_may_be_longer_than_those_of_the_evaluation(monkeypatch):
    trial, opened = planned("batches")[2], []
    assert trial.label == "32 x 128"
    monkeypatch.setattr(results, "neighbour_baseline", lambda *_: NeighbourBaseline(6.3, 4.95))
    monkeypatch.setattr(results.reading, "open_records", lambda _, *sizes: opened.append(sizes))
    monkeypatch.setattr(results, "expand_globs", lambda path: [path])
    assert results._baseline(trial).neighbour_loss == 4.95
    assert opened == [(128, 20, 8000), (32, 5, 8000)]


def test_of_the_intervals_over_seeds_and_over_examples_the_wider_one_is_used():
    def row(values, answers):
        answers = {seed: np.array(of_examples, np.float64) for seed, of_examples in answers.items()}
        return Row("row", AlbertConfig(50), {"sst2": values}, {"sst2": answers}, {1: str(values), 2: ""}, {}, {}, None)

    many = {seed: [0, 100] * 500 for seed in (1, 2)}
    few = {1: [100, 0, 100, 0], 2: [0, 0, 100, 100]}, {1: [0, 100, 0, 100], 2: [0, 100, 100, 0]}
    unequal_seeds = {1: 80.0, 2: 60.0}, {1: 50.0, 2: 55.0}
    equal_seeds = {1: 60.0, 2: 60.1}, {1: 55.0, 2: 55.1}
    over_seeds = compare(row(unequal_seeds[0], many), row(unequal_seeds[1], many), "sst2")
    assert over_seeds == difference_over_seeds([80.0, 60.0], [50.0, 55.0])
    one_seed = compare(row({1: 80.0}, {1: many[1]}), row({1: 50.0}, {1: [0, 0] * 500}), "sst2")
    assert one_seed.difference == 30.0 and np.isnan([one_seed.low, one_seed.high]).all()
    over_examples = compare(row(equal_seeds[0], few[0]), row(equal_seeds[1], few[1]), "sst2")
    assert over_examples == paired_bootstrap(*(np.array(list(answers.values()), np.float64) for answers in few))


def test_the_paired_bootstrap_detects_consistent_differences():
    random = np.random.default_rng(1)
    hard = random.normal(size=400)
    better = paired_bootstrap((hard + 0.1)[None], hard[None])
    np.testing.assert_allclose(better, (0.1, 0.1, 0.1))
    equal = paired_bootstrap(random.normal(size=[2, 400]), random.normal(size=[3, 400]))
    assert not equal.excludes_zero
    # Of means of 400 differences with a variance of 1/2 + 1/3: about 1.96 * sqrt(5/6 / 400) on each side.
    assert (equal.high - equal.low) / 2 == pytest.approx(1.96 * np.sqrt(5 / 6 / 400), rel=0.15)
    with pytest.raises(ValueError, match="2 and 3 examples"):
        paired_bootstrap(np.ones([1, 2]), np.ones([1, 3]))


def test_the_table_of_speed_is_relative_to_bert_large():
    measured = {"bert large": Measurement(100.0, 50.0), "albert base": Measurement(500.0, 12.34)}
    lines = {line.split(" | ")[0].strip("| "): line.strip("| ").split(" | ")
             for line in table(measured, peak=1e12).splitlines()}
    # The formula: (30000 * 1024 * 20/128 + 2 * 1024**2 + 24 * 12 * 1024**2) / the same of albert base = 309M / 86.2M.
    assert lines["albert base"][1:7] == ["12M", "47", "500", "5.0", "3.6", "5.6"] and lines["albert base"][8] == "12.3"
    assert lines["bert large"][4:7] == ["1.0", "1.0", "1.0"]
    assert lines["albert xxlarge"][3:5] == ["-", "-"] and set(PAPER) < set(lines)
    assert lines["albert_tiny_en"][6] == "-"


@pytest.mark.long
def test_the_speed_of_a_model_is_measured_if_it_fits_into_memory(monkeypatch):
    monkeypatch.setattr(speed, "_SECONDS", 0.0)  # a single step
    config = AlbertConfig(50, 8, 16, 1, num_attention_heads=2, intermediate_size=16, max_position_embeddings=128)
    assert tokens_per_second(config) > 0 and sentence_milliseconds(config) > 0 and matrix_product_rate(8) > 0
    assert {name: values.shape for name, values in batch(config).items()}["masked_lm_ids"] == (4, 20)
    assert fits(config) and not fits(config.replace(vocab_size=10**7, embedding_size=10**5))


TINY_CONFIG = dict(vocab_size=50, embedding_size=8, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
                   intermediate_size=16, max_position_embeddings=64)
LENGTHS = dict(max_seq_length=16, max_predictions_per_seq=3)
TUNING = dict(max_seq_length=16, train_batch_size=4, train_step=2, warmup_step=1, save_checkpoints_steps=1,
              precision="float32")


def tiny_settings():
    """Settings that make the small scale train a model of a few thousand variables for two steps."""
    by_owner = {"config": TINY_CONFIG, **{run: dict(LENGTHS, num_workers=1) for run in RECORDS},
                "vocabulary": dict(vocab_size=50),
                "pretraining": dict(LENGTHS, train_batch_size=4, eval_batch_size=4, num_train_steps=2,
                                    num_warmup_steps=1, save_checkpoints_steps=2, max_eval_steps=2,
                                    precision="float32"),
                **{task: TUNING for task in ("rte", "stsb", "sst2_seeds")},
                "sst2": dict(TUNING, save_checkpoints_steps=2),
                "squad": dict(train_batch_size=4, train_step=1, warmup_step=1, precision="float32", num_workers=1),
                "blimp": dict(precision="float32"), "sst2_ensemble": dict(max_seq_length=16, precision="float32")}
    return {f"{owner}.{name}": value for owner, values in by_owner.items() for name, value in values.items()}


@pytest.fixture
def text(tmp_path):
    return write_synthetic_text(tmp_path / "text.txt")


@contextlib.contextmanager
def scripts_in_session(monkeypatch, failing=()):
    """Gives a list of the commands that have run, in one process. The first run of a script of `failing` is killed."""
    commands, to_fail = [], list(failing)
    with ScriptSession(eagerly=True) as session:
        def run_in_session(command, environment):
            script = command[3]
            if script in to_fail:
                to_fail.remove(script)
                return -9
            commands.append(command)
            return session.run_command(command)

        monkeypatch.setattr(command_runs, "run_to_end", run_in_session)
        yield commands


def rows_of_table(page):
    """The rows of a page's tables, with their heads."""
    return [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ") and "---" not in line]


@pytest.mark.long
def test_a_study_runs_from_a_text_to_a_report_and_continues_after_an_interruption(text, golden, tmp_path, monkeypatch):
    rows = [["shared", 79.8], ["not shared", 82.3], ["another", 81.0]]
    study = write_study(tmp_path / "mine.json", lambda content: content.update(
        columns=["masked_lm", "sop", "sst2", "squad"], paper=dict(content["paper"], columns=["average"], rows=rows)),
        settings=tiny_settings(), seeds=[1, 2])
    given = dict(text=text, dev_text=text, glue_dir=golden / "glue", output_dir=tmp_path / "out",
                 set="sst2.warmup_step=1")
    report = tmp_path / "out/mine.small/results.md"
    with scripts_in_session(monkeypatch, failing=["run_classifier"]) as commands, \
            loaded("studies/__main__.py") as run:
        assert run(study, **given) == 1 and len(commands) == 6
        assert run(study, **given, only="all") == 0
        of_all = rows_of_table(report.read_text())
        assert run(study, **given) == 0
        assert run(study, **given) == 0  # everything is there
    scripts = [command[3] for command in commands]
    assert {script: scripts.count(script) for script in scripts} == dict(
        train_vocabulary=1, create_pretraining_data=4, run_pretraining=4, run_classifier=4)
    assert len({str(command) for command in commands}) == len(commands)  # each once
    assert of_all[6][:4] == ["none", "-", "-", "-"]
    page = report.read_text()
    assert rows_of_table(page)[:4] == [["scores in the paper", "average"], ["shared", "79.8"], ["not shared", "82.3"],
                                       ["another", "81.0"]]
    head, first, second = rows_of_table(page)[4:7]
    assert head[:4] == ["scores here", "masked LM", "SOP pairs", "SST-2"] and second[0] == "none †"
    assert first[0] == "all †" and "± " in first[1] and first[1].endswith("(2)")
    assert "pretraining.num_train_steps 2" in page and '- none: config.cross_layer_sharing "none"\n' in page
    assert f"`python -m studies {study} --scale=small --set=sst2.warmup_step=1` with" in page
    assert "0 of 2 configurations that were trained are past it" in page
    assert "Not measured, because their data are missing: SQuAD 1.1 F1." in page and "| none − all |" in page
    assert (tmp_path / "out/mine.small/results.svg").read_text().count("_line_") == 3


@pytest.mark.slow
def test_every_column_can_be_measured(text, golden, tmp_path, monkeypatch):
    ensemble = "{sst2_seeds}/seed_1/model.ckpt-1,{sst2_seeds}/seed_3/model.ckpt-2"
    squad = str(golden / "squad/dev_v1.json")
    evaluated = ["{dev_%srecords}/dev%s.tfrecord" % names for names in (
        ("", ""), ("nsp_", "_nsp"), ("ngram3_", "_ngram3"), ("long_", "_long"))]
    study = write_study(tmp_path / "mine.json", lambda content: content.update(columns=list(COLUMNS)), seeds=[1],
                        settings={**tiny_settings(), "squad.train_file": squad, "squad.predict_file": squad,
                                  "pretraining.eval_input_file": evaluated, "dev_long_records.max_seq_length": 32,
                                  "dev_long_records.max_predictions_per_seq": 5, "dev_long_records.num_workers": 1,
                                  "sst2_ensemble.ensemble_checkpoints": ensemble})
    (tmp_path / "pairs.jsonl").write_text(json.dumps(dict(sentence_good="the king saw", sentence_bad="king the saw")))
    with scripts_in_session(monkeypatch), loaded("studies/__main__.py") as run:
        assert run(study, text=text, dev_text=text, glue_dir=golden / "glue", squad_dir=tmp_path,
                   pairs=tmp_path / "pairs.jsonl", output_dir=tmp_path / "out", only="all") == 0
    table = rows_of_table((tmp_path / "out/mine.small/results.md").read_text())
    assert all(re.fullmatch(r"-?[\d.]+ \(1\)", cell) for cell in table[1][1 : 1 + len(COLUMNS)])
    places = dict(text=str(text), dev_text=str(text), glue_dir=str(golden / "glue"), squad_dir=str(tmp_path),
                  pairs=str(tmp_path / "pairs.jsonl"))
    trial = plan(read_study(study, "small"), Data(str(tmp_path / "out"), places))[0]
    for column in ("sst2", "rte", "sst2_ensemble", "squad"):  # the score is the mean of the scores of all examples
        of_run = trial.runs[COLUMNS[column].run]
        score = COLUMNS[column].scale * read_json_object(of_run.results_file)[COLUMNS[column].key]
        assert np.mean(credits(of_run)) == pytest.approx(score, abs=1e-3)
