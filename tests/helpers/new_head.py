"""Makes a model of any entry of the registry of heads, and models with all the settings that their head can store."""

from albert_tf.weights.heads import HEAD_NAMES, head_named

# The arguments of constructors that a source of weights tells, see albert_tf/weights/heads.py.
ARGUMENTS = dict(num_labels=3, label_names=None, normalize=True, max_seq_length=None)
_READING = dict(max_seq_length=9, doc_stride=3)
# Arguments by name. The names that are no heads are classifiers.
SETTINGS = {
    "encoder": dict(max_seq_length=9),
    "pretrainer": dict(max_seq_length=9),
    "phoneme_pretrainer": dict(max_seq_length=9, num_words=7, phonemes="\0ab\0c"),
    "classifier": dict(_READING, num_labels=2, label_names=("bad", "good"), window_pooling="max", max_windows=4,
                       single_texts=True, temperature=1.5),
    "several": dict(max_seq_length=9, num_labels=3, multi_label=True, thresholds=(0.25, 0.5, 0.75)),
    "regression": dict(max_seq_length=9, num_labels=1),
    "ranker": dict(max_seq_length=9, num_labels=1, activation_fn="sigmoid"),
    "token_classifier": dict(_READING, num_labels=3, label_names=("O", "B-place", "I-place")),
    "span": dict(_READING, max_query_length=5),
    "conditional_span": dict(_READING, max_query_length=5),
    "multiple_choice": dict(max_seq_length=9, num_choices=5, max_qa_length=6),
    "sentence_encoder": dict(max_seq_length=9, pooling="max", normalize=True, truncate_dim=4,
                             prompts=dict(query="find: ", passage=""), default_prompt_name="query"),
}
assert {*HEAD_NAMES} <= {*SETTINGS}, "a new head needs its settings here"


def new_head(head, config):
    """A model with random weights.

    Args:
      head: the entry, or its name.
    """
    head = head_named(head) if isinstance(head, str) else head
    names = head.model.argument_names()
    return head.model(config, **{name: value for name, value in ARGUMENTS.items() if name in names})


def model_with_settings(name, config):
    """A model with random weights and the arguments in SETTINGS."""
    return head_named(head_of_name(name)).model(config, **SETTINGS[name])


def head_of_name(name):
    """The head of a name in SETTINGS."""
    return name if name in HEAD_NAMES else "classifier"
