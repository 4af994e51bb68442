"""Makes a model of any entry of the registry of heads."""

from albert_tf.weights.heads import head_named

# The arguments of constructors that a source of weights tells, see albert_tf/weights/heads.py.
ARGUMENTS = dict(num_labels=3, label_names=None, normalize=True, max_seq_length=None)


def new_head(head, config):
    """A model with random weights.

    Args:
      head: the entry, or its name.
    """
    head = head_named(head) if isinstance(head, str) else head
    declared = head.model.arguments()
    return head.model(config, **{name: value for name, value in ARGUMENTS.items() if name in declared})
