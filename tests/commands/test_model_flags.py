"""The flags that select a model, in manifests of what is computed with it."""

from absl import flags
from in_process import loaded

from albert_tf.commands import model_flags


def test_manifests_have_all_flags_of_the_model():
    with loaded("score_sentences"):
        defined = {flag.name for flag in flags.FLAGS.flags_by_module_dict()["albert_tf.commands.model_flags"]}
    assert defined == set(model_flags.MODEL_FLAGS)
