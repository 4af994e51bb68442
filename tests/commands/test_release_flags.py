"""The flags of the release: those that docs/from_the_release.md does not list have the release's defaults."""

import re

import pytest
from in_process import REPOSITORY, loaded

from albert_tf.commands import run_pretraining
from albert_tf.training.options import default_interval

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
    page = (REPOSITORY / "docs/from_the_release.md").read_text("utf-8")
    table = page.partition(f"\n`{script}.py`:\n\n")[2].partition("\n\n")[0]
    rows = [line.split(" | ")[0] for line in table.splitlines()[2:]]
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == DIFFERENT[script]
    with loaded(script) as run:
        found = {flag.name: flag.default for flag in run.flags}
    assert DIFFERENT[script] <= set(found)
    assert {name: found[name] for name in RELEASE[script]} == RELEASE[script]


def test_the_run_of_the_release_saves_as_often_as_there():
    assert default_interval(125000, run_pretraining.SAVE_CHECKPOINTS_STEPS) == 5000
