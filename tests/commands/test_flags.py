"""Flags: kinds, bounds, names of the release, and those that commands share."""

import dataclasses
import re

import pytest
from absl import flags as absl_flags
from absl.testing import flagsaver
from in_process import REPOSITORY, loaded
from script_process import arguments_of

from albert_tf import options
from albert_tf.commands import flags
from albert_tf.commands.app import NAMES
from albert_tf.config import AlbertConfig
from albert_tf.data.worker_pool import worker_pool
from albert_tf.pretraining.config import PretrainingConfig
from albert_tf.pretraining.examples import CreationOptions, MaskingOptions, SegmentOptions
from albert_tf.tasks.classification.config import ClassifierConfig
from albert_tf.tasks.multiple_choice.config import MultipleChoiceConfig
from albert_tf.tasks.sentence_vectors.config import SentenceVectorsConfig
from albert_tf.tasks.squad.config import SquadConfig
from albert_tf.tasks.tagging.config import TaggingConfig
from albert_tf.training.config import Devices, FineTuningTraining, Schedule, Training, default_interval
from albert_tf.utils import bounds
from albert_tf.utils.bounds import check_finite
from albert_tf.weights.source import SOURCE_OPTIONS, Source


def config_of(config_class, script, **values):
    """The config that a command makes of its flags."""
    with loaded(script), flagsaver.flagsaver():
        absl_flags.FLAGS([script, *arguments_of(values)])
        return flags.read(config_class)


@pytest.mark.parametrize("script, config_class, needed", [
    ("run_pretraining", PretrainingConfig, dict(input_file=("a.tfrecord",))),
    ("run_squad", SquadConfig, dict(do_eval=True, predict_file="dev.json")),
    ("run_classifier", ClassifierConfig, dict(do_eval=True, task_name="rte", data_dir="glue")),
    ("run_race", MultipleChoiceConfig, dict(data_dir="race")),
    ("run_tagging", TaggingConfig, dict(do_eval=True, eval_file="dev.conll")),
    ("run_sentence_embeddings", SentenceVectorsConfig, dict(do_eval=True, data_dir="glue"))])
def test_the_flags_of_a_command_make_the_config_of_its_python_class(script, config_class, needed):
    flags_of_it = {name: value[0] if isinstance(value, tuple) else value for name, value in needed.items()}
    assert config_of(config_class, script, output_dir="out", **flags_of_it) == config_class(output_dir="out", **needed)
    changed = config_of(config_class, script, output_dir="out", learning_rate=0.5, runtime="jax", do_lower_case=False,
                        **flags_of_it)
    assert (changed.training.learning_rate, changed.devices.runtime, changed.source.do_lower_case) == (
        0.5, "jax", False)


@pytest.mark.parametrize("objective, devices, parts", [
    ("sts", {}, 0), ("pairs", {}, 1), ("simcse", {}, 1), ("pairs", dict(cpu_parts=2), 2),
    ("pairs", dict(runtime="jax"), 1)], ids=str)
def test_texts_whose_batch_has_the_negatives_are_one_part_unless_parts_are_requested(objective, devices, parts):
    config = SentenceVectorsConfig(output_dir="out", do_train=True, data_dir="glue", train_file="pairs.tsv",
                                   objective=objective, devices=Devices(**devices))
    assert config.devices.cpu_parts == parts


NOT_FINITE = ["nan", "NaN", "inf", "-inf", "Infinity", "1e999", "1_0.5", float("nan"), float("inf"), 10**400]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Numbers(options.Config):
    test_rate: float = options.number(0.5, "A rate.", 0.0, 2.0)
    test_count: int = options.integer(1, "A count.", bounds.Bounds(1, 100))


@pytest.fixture(scope="module")
def flag():
    flags.define(Numbers)
    return absl_flags.FLAGS["test_rate"]


@pytest.fixture(scope="module")
def count(flag):
    return absl_flags.FLAGS["test_count"]


@pytest.mark.parametrize("value", NOT_FINITE, ids=lambda value: str(value)[:9])
def test_a_number_that_is_not_finite_is_refused_on_the_command_line_and_in_python(flag, value):
    with pytest.raises(absl_flags.IllegalFlagValueError, match="flag --test_rate=.*: expected a finite number"):
        flag.parse(value)
    with pytest.raises(ValueError, match="test_rate must be a finite number of at least 0 and at most 2. Received"):
        Numbers(test_rate=value)


def test_a_flag_keeps_its_bounds_and_its_text(flag):
    for value in ("-0.1", "2.1"):
        with pytest.raises(absl_flags.IllegalFlagValueError):
            flag.parse(value)
    flag.parse("1e-05")
    assert flag.value == 1e-05 and flag.serialize() == "--test_rate=1e-05"


@pytest.mark.parametrize("value", ["1_0", "0x10", "1e1", "ten"])
def test_a_whole_number_has_digits_alone(count, value):
    with pytest.raises(absl_flags.IllegalFlagValueError, match="flag --test_count=.*: invalid literal for int"):
        count.parse(value)


@pytest.mark.parametrize("script, values, message", [
    ("run_classifier", dict(distillation_alpha=0.9), 
     "--distillation_alpha=0.9 has no effect without --teacher_checkpoint or --teacher_scores"),
    ("run_tagging", dict(distillation_temperature=2), "--distillation_temperature=2.0 has no effect without --teacher"),
    ("run_squad", dict(distillation_alpha=0), "--distillation_alpha=0.0 has no effect without --teacher_checkpoint"),
    ("run_classifier", dict(max_windows=4), "--max_windows=4 has no effect without --long_texts=mean or max"),
    ("run_classifier", dict(doc_stride=9, long_texts="truncate"), "--doc_stride=9 has no effect without --long_texts="),
    ("run_classifier", dict(threshold_to_export=0.7), "--threshold_to_export=0.7 has no effect without --export_dir"),
    ("run_classifier", dict(ensemble_checkpoints="a,b", export_dir="c"), "--export_dir exports one model, not the"),
    ("run_sentence_embeddings", dict(temperature=0.1),
     "--temperature=0.1 has no effect without --objective=pairs or simcse")])
def test_a_flag_without_effect_is_an_error(script, values, message, tmp_path, capsys):
    of_the_task = dict(task_name="rte") if script == "run_classifier" else {}
    with loaded(script) as run:
        assert run(output_dir=tmp_path, do_train=True, albert_config_file="albert_tiny", **of_the_task, **values) == 1
    assert message in capsys.readouterr().err


def test_a_flag_that_is_set_to_its_default_needs_no_other():
    config = config_of(ClassifierConfig, "run_classifier", output_dir="out", do_eval=True, task_name="rte",
                       data_dir="glue", max_windows=8, distillation_alpha=0.5)
    assert config.distillation.distillation_alpha == 0.5


# flags.DEFINE_... in google-research/albert's create_pretraining_data.py and run_pretraining.py.
RELEASE = {
    "create_pretraining_data": dict(
        input_file=None, output_file=None, vocab_file=None, spm_model_file=None, do_whole_word_mask=True,
        do_permutation=False, favor_shorter_ngram=True, random_next_sentence=False, max_seq_length=512, ngram=3,
        max_predictions_per_seq=20, random_seed=12345, dupe_factor=40, masked_lm_prob=0.15, short_seq_prob=0.1),
    "run_pretraining": dict(
        input_file=None, output_dir=None, max_seq_length=512, max_predictions_per_seq=20, do_train=True, do_eval=False,
        train_batch_size=4096, eval_batch_size=64, optimizer="lamb", learning_rate=0.00176, poly_power=1.0,
        num_train_steps=125000, num_warmup_steps=3125, start_warmup_step=0, keep_checkpoint_max=5,
        iterations_per_loop=1000, max_eval_steps=100, init_from_group0=False, use_tpu=False,
        tpu_name=None, tpu_zone=None, gcp_project=None, master=None),
}


# Flags of the release that differ here, which the page lists.
DIFFERENT = {
    "create_pretraining_data": {"input_file_mode", "do_lower_case", "vocab_file", "spm_model_file"},
    "run_pretraining": {"albert_config_file", "init_checkpoint", "masked_lm_budget", "save_checkpoints_steps",
                        "num_tpu_cores"},
}


@pytest.mark.parametrize("script", RELEASE)
def test_the_flags_that_the_page_does_not_list_have_the_releases_defaults(script):
    page = (REPOSITORY / "docs/checkpoints.md").read_text("utf-8")
    table = page.partition(f"\n`{script}.py`:\n\n")[2].partition("\n\n")[0]
    rows = [line.split(" | ")[0] for line in table.splitlines()[2:]]
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == DIFFERENT[script]
    with loaded(script) as run:
        found = {flag.name: flag.default for flag in run.flags}
    assert DIFFERENT[script] <= set(found)
    assert {name: found[name] for name in RELEASE[script]} == RELEASE[script]


def test_the_run_of_the_release_saves_as_often_as_there():
    assert PretrainingConfig(output_dir="out", input_file=("a",)).training.schedule.save_checkpoints_steps == 5000


@pytest.mark.parametrize("steps, interval", [
    (125_000, 5000), (25_000, 5000), (24_000, 4800), (7557, 1500), (12, 2), (3, 1)])
def test_a_short_run_is_evaluated_five_times(steps, interval):
    assert default_interval(steps, 5000) == interval


def test_manifests_have_all_flags_of_the_model():
    assert {option.name for option in options.declared(Source)} == set(SOURCE_OPTIONS)


def test_a_whole_number_becomes_a_float_where_one_is_meant():
    assert repr(FineTuningTraining(lora_rank=2, lora_alpha=4).alpha) == "4.0"


def test_an_option_with_another_default_keeps_its_group():
    groups = {option.name: option.group for option in options.declared(MultipleChoiceConfig)}
    assert groups["do_train"] == groups["do_predict"] == "Runs"


@pytest.mark.parametrize("values, message", [
    (dict(training=Training()), "training must be a FineTuningTraining. Received: Training"),
    (dict(training=FineTuningTraining(random_seed=2**31 - 2), num_runs=3), "Received: .*=2147483648"),
    (dict(ensemble_checkpoints=["a", "b"]), r"ensemble_checkpoints must be a tuple. Received: \['a', 'b'\]")], ids=str)
def test_a_config_of_wrong_parts_or_values_is_refused(values, message):
    with pytest.raises(ValueError, match=message):
        SquadConfig(output_dir="out", do_train=True, train_file="train.json", **values)


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
    "search_sentences": ("input_file", "vectors_file")}


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


SCRIPTS = NAMES


@pytest.mark.parametrize("script", SCRIPTS)
def test_whole_numbers_out_of_bounds_are_refused_by_flag_and_value(script, capsys):
    with loaded(script) as run:
        numbers = [flag for flag in run.flags if flag.flag_type() == "int" and not flag.help.startswith("Alias for")]
        for flag in numbers:
            for value in (flag.parser.lower_bound - 1, flag.parser.upper_bound + 1, 10**19):
                assert run(**{flag.name: value}) == 1
                printed = capsys.readouterr().err
                assert f"error: --{flag.name} must be " in printed and printed.endswith(f". Received: {value}\n")


@pytest.mark.parametrize("make, message", [
    (lambda: AlbertConfig(60, num_hidden_layers=10**9), "num_hidden_layers .* from 1 to 1,000. .*=1000000000"),
    (lambda: SegmentOptions(10**12, 0.1), "max_seq_length .* from 5 to 65,536. .*=1000000000000"),
    (lambda: MaskingOptions(10**9), "max_predictions_per_seq .* from 1 to 65,536. .*=1000000000"),
    (lambda: MaskingOptions(20, ngram=10**9), "ngram .* from 1 to 100. .*=1000000000"),
    (lambda: MaskingOptions(20, ngram="3"), "ngram must be a whole number .*='3'"),
    (lambda: MaskingOptions(20, masked_lm_prob="much"), "masked_lm_prob must be a number .*='much'"),
    (lambda: CreationOptions(SegmentOptions(32, 0.1), MaskingOptions(5), 1, 2**40), "random_seed .*=1099511627776"),
    (lambda: CreationOptions(SegmentOptions(32, 0.1), MaskingOptions(5), -1, 1), "dupe_factor .*=-1"),
    (lambda: CreationOptions(SegmentOptions(32, 0.1), MaskingOptions(33), 1, 1),
     "max_predictions_per_seq must be at most max_seq_length 32. Received: 33"),
    (lambda: Training(train_batch_size=10**15), "train_batch_size .*=1000000000000000"),
    (lambda: Training(optimizer="sgd"), "optimizer must be one of lamb, adamw. Received: 'sgd'"),
    (lambda: Devices(use_tpu="yes"), "use_tpu must be true or false. Received: 'yes'"),
    (lambda: Devices(jax_cache_dir="cache"), "--jax_cache_dir=cache has no effect without --runtime=jax"),
    (lambda: SquadConfig(output_dir="", do_train=True, train_file="a.json"), "output_dir must not be empty"),
    (lambda: PretrainingConfig(output_dir="out", input_file=["a"]), "input_file must be a tuple. Received: ..a.."),
    (lambda: Schedule(0), "num_train_steps .*=0"),
    (lambda: SquadConfig(output_dir="out", eval_batch_size=10**19),
     "eval_batch_size .*=10000000000000000000"),
    (lambda: worker_pool(3000, print).__enter__(), "num_workers must be a whole number from 1 to 1,024. .*=3000"),
])
def test_the_library_has_the_bounds_of_the_flags(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("value", [True, 1.0, "1", None, 0, 11, 10**400])
def test_values_that_are_not_integers_within_the_bounds_are_refused(value):
    with pytest.raises(ValueError, match="size must be a whole number from 1 to 10. Received: size="):
        bounds.Bounds(1, 10).check("size", value)
