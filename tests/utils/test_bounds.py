"""Every integer flag of a script has bounds, which are checked before the script does anything."""

import pytest
from in_process import loaded

from albert_tf.commands.usage import NAMES
from albert_tf.config import AlbertConfig
from albert_tf.data.worker_pool import worker_pool
from albert_tf.pretraining.examples import CreationOptions, MaskingOptions, SegmentOptions
from albert_tf.training.options import FineTuningOptions, RunOptions, Schedule
from albert_tf.utils import bounds

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
    (lambda: RunOptions("run", 10**15), "train_batch_size .*=1000000000000000"),
    (lambda: Schedule(0), "num_train_steps .*=0"),
    (lambda: FineTuningOptions(None, None, None, (1,), (8,), eval_batch_size=10**19),
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
