"""Flags: kinds, bounds, names of the release, and those that commands share."""

import dataclasses
import re
from typing import Annotated

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
from albert_tf.training.config import Devices, FineTuningTraining, Training, default_interval
from albert_tf.utils import bounds
from albert_tf.weights.source import SOURCE_OPTIONS, Source


def config_of(config_class, script, **values):
    """The config that a command makes of its flags."""
    with loaded(script), flagsaver.flagsaver():
        absl_flags.FLAGS([script, *arguments_of(values)])
        return flags.read(config_class)


@pytest.mark.parametrize("script, config_class, needed", [
    ("run_pretraining", PretrainingConfig, dict(input_file="a.tfrecord")),
    ("run_squad", SquadConfig, dict(do_eval=True, predict_file="dev.json")),
    ("run_classifier", ClassifierConfig, dict(do_eval=True, task_name="rte", data_dir="glue")),
    ("run_race", MultipleChoiceConfig, dict(data_dir="race")),
    ("run_tagging", TaggingConfig, dict(do_eval=True, eval_file="dev.conll")),
    ("run_sentence_embeddings", SentenceVectorsConfig, dict(do_eval=True, data_dir="glue"))])
def test_the_flags_of_a_command_make_the_config_of_its_python_class(script, config_class, needed):
    assert config_of(config_class, script, output_dir="out", **needed) == config_class(output_dir="out", **needed)
    changed = config_of(config_class, script, output_dir="out", learning_rate=0.5, runtime="jax", do_lower_case=False,
                        **needed)
    assert (changed.training.learning_rate, changed.devices.runtime, changed.source.do_lower_case) == (
        0.5, "jax", False)


@pytest.mark.parametrize("objective, devices, parts", [
    ("sts", {}, 0), ("pairs", {}, 1), ("simcse", {}, 1), ("pairs", dict(cpu_parts=2), 2),
    ("pairs", dict(runtime="jax"), 1)], ids=str)
def test_texts_whose_batch_has_the_negatives_are_one_part_unless_parts_are_requested(objective, devices, parts):
    config = SentenceVectorsConfig(output_dir="out", do_train=True, data_dir="glue", train_file="pairs.tsv",
                                   objective=objective, devices=Devices(**devices))
    assert config.devices.cpu_parts == parts


@dataclasses.dataclass(frozen=True, kw_only=True)
class Numbers(options.Config):
    test_rate: Annotated[float, bounds.Range(0.0, 2.0), "A rate."] = 0.5
    test_count: Annotated[int, bounds.Bounds(1, 100), "A count."] = 1


def test_an_option_must_have_limits_and_a_requirement_must_name_an_option():
    with pytest.raises(TypeError, match="test_count needs limits"):
        class _NoLimits(options.Config):
            test_count: Annotated[int, "A count."] = 1

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Misspelt(Numbers):
        def requirements(self):
            return [options.Requirement(("test_cuont",), self.test_rate > 0, "--test_rate")]

    with pytest.raises(KeyError, match="test_cuont"):
        Misspelt()


def test_a_subclass_changes_a_default_alone():
    @dataclasses.dataclass(frozen=True, kw_only=True)
    class More(Numbers):
        test_count: int = 7

    (_, rate), (count, default) = options.declared(More)
    assert (rate, count.name, count.help, default) == (0.5, "test_count", "A count.", 7)
    with pytest.raises(ValueError, match="test_count must be a whole number from 1 to 100"):
        More(test_count=101)


@pytest.fixture(scope="module")
def flag():
    flags.define(Numbers)
    yield absl_flags.FLAGS["test_rate"]
    absl_flags.FLAGS.remove_flag_values(["test_rate", "test_count"])


@pytest.fixture(scope="module")
def count(flag):
    return absl_flags.FLAGS["test_count"]


@pytest.mark.parametrize("value", ["nan", "1e999", "1_0.5", float("inf"), 10**400], ids=lambda value: str(value)[:9])
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


# flags.DEFINE_... in google-research/albert.
TASK = dict(do_predict=False, train_batch_size=32, predict_batch_size=8, keep_checkpoint_max=5,
            iterations_per_loop=1000, use_tpu=False, num_tpu_cores=8)
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
    "run_classifier": dict(TASK, do_eval=False, learning_rate=5e-5, optimizer="adamw", threshold_to_export=None),
    "run_squad": dict(TASK, do_train=False, learning_rate=5e-5, n_best_size=20, max_answer_length=30, start_n_top=5,
                      end_n_top=5, dropout_prob=0.1),
    "run_race": dict(TASK, do_train=True, do_eval=True, learning_rate=1e-5, high_only=False, middle_only=False,
                     dropout_prob=0.1),
}


# Flags of the release that differ here, which the page lists.
DIFFERENT = {
    "create_pretraining_data": {"input_file_mode", "do_lower_case", "vocab_file", "spm_model_file"},
    "run_pretraining": {"albert_config_file", "init_checkpoint", "masked_lm_budget", "save_checkpoints_steps",
                        "num_tpu_cores"},
}


@pytest.mark.parametrize("script", RELEASE)
def test_the_flags_that_the_page_does_not_list_have_the_releases_defaults(script):
    page = (REPOSITORY / "docs/migration.md").read_text("utf-8")
    table = page.partition(f"\n`{script}.py`:\n\n")[2].partition("\n\n")[0]
    rows = [line.split(" | ")[0] for line in table.splitlines()[2:]]
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == DIFFERENT.get(script, set())
    with loaded(script) as run:
        found = {flag.name: flag.default for flag in run.flags}
    assert DIFFERENT.get(script, set()) <= set(found)
    assert {name: found[name] for name in RELEASE[script]} == RELEASE[script]


@pytest.mark.parametrize("steps, interval", [(125_000, 5000), (24_000, 4800), (7557, 1500), (3, 1)])
def test_a_short_run_is_evaluated_five_times(steps, interval):
    assert default_interval(steps, 5000) == interval
    if steps == 125_000:  # as often as the release
        config = PretrainingConfig(output_dir="out", input_file="a")
        assert config.training.schedule.save_checkpoints_steps == interval


def test_manifests_have_all_flags_of_the_model():
    assert {option.name for option, _ in options.declared(Source)} == set(SOURCE_OPTIONS)


ACTION = dict(output_dir="out", do_train=True, train_file="train.json")


def test_an_error_names_a_required_flag_that_is_missing_or_empty(capsys):
    with loaded("create_pretraining_data") as run:
        for flags, message in ((dict(output_file="x"), "--input_file is required"),
                               (dict(input_file="x", output_file=""), "--output_file must not be empty")):
            assert run(**flags) == 1
            assert f"error: {message}\n" in capsys.readouterr().err


def test_whole_numbers_out_of_bounds_are_refused_by_flag_and_value(capsys):
    for script in NAMES:
        with loaded(script) as run:
            numbers = [flag for flag in run.flags if flag.flag_type() == "int" and "Alias for" not in flag.help]
            assert all(flag.parser.lower_bound < flag.parser.upper_bound < 10**19 for flag in numbers), script
            for flag in numbers[:2]:
                for value in (flag.parser.lower_bound - 1, flag.parser.upper_bound + 1):
                    assert run(**{flag.name: value}) == 1
                    printed = capsys.readouterr().err
                    assert f"error: --{flag.name} must be " in printed and printed.endswith(f". Received: {value}\n")


@pytest.mark.parametrize("make, message", [
    (lambda: AlbertConfig(60, num_hidden_layers=10**9), "num_hidden_layers .* from 1 to 1,000. .*=1000000000"),
    (lambda: MaskingOptions(20, ngram=10**9), "ngram .* from 1 to 100. .*=1000000000"),
    (lambda: CreationOptions(SegmentOptions(32, 0.1), MaskingOptions(33), 1, 1),
     "max_predictions_per_seq must be at most max_seq_length 32. Received: 33"),
    (lambda: Training(optimizer="sgd"), "optimizer must be one of lamb, adamw. Received: 'sgd'"),
    (lambda: Devices(use_tpu="yes"), "use_tpu must be true or false. Received: 'yes'"),
    (lambda: SquadConfig(output_dir="", do_train=True, train_file="a.json"), "output_dir must not be empty"),
    (lambda: SquadConfig(**ACTION, training=Training()), "training must be a FineTuningTraining. Received: Training"),
    (lambda: SquadConfig(**ACTION, training=FineTuningTraining(random_seed=2**31 - 2), num_runs=3), "=2147483648"),
    (lambda: SquadConfig(**ACTION, ensemble_checkpoints=["a", "b"]), r"ensemble_checkpoints must be a tuple. Received"),
    (lambda: worker_pool(3000, print).__enter__(), "num_workers must be a whole number from 1 to 1,024. .*=3000"),
])
def test_the_library_has_the_bounds_of_the_flags(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("value", [True, 1.0, "1", None, 0, 11, 10**400])
def test_values_that_are_not_integers_within_the_bounds_are_refused(value):
    with pytest.raises(ValueError, match="size must be a whole number from 1 to 10. Received: size="):
        bounds.Bounds(1, 10).check("size", value)
