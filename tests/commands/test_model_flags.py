"""The flags that select a model, in manifests of what is computed with it."""

from in_process import loaded

from albert_tf.commands import shared_flags, usage


def test_manifests_have_all_flags_of_the_model():
    with loaded("score_sentences") as run:
        defined = {flag.name for flag in run.flags if usage.group_of(flag.name) == "Model"}
    assert defined == set(shared_flags.MODEL_FLAGS)
