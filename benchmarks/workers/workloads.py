"""Models and batches whose training step is measured, the same for our program and for peers.

It needs the standard library only, because peers run it in other environments.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Workload(NamedTuple):
    """A model, a batch and the task.

    Args:
      config: the config of the model, with the field names that the release and Hugging Face share.
      batch: the number of examples of a step.
      seq: the number of tokens of an example.
      predictions: the number of masked tokens of an example in ALBERT's pre-training; 0 for a BERT with a SQuAD head.
    """

    config: dict[str, Any]
    batch: int
    seq: int
    predictions: int

    @property
    def tokens(self) -> int:
        """The number of tokens of a step."""
        return self.batch * self.seq


def _config(hidden_size: int, num_hidden_layers: int, num_attention_heads: int, vocab_size: int, **more) -> dict:
    return dict(hidden_size=hidden_size, num_hidden_layers=num_hidden_layers, vocab_size=vocab_size,
                num_attention_heads=num_attention_heads, intermediate_size=4 * hidden_size,
                max_position_embeddings=512, type_vocab_size=2, **more)


WORKLOADS = {
    "albert_base": Workload(_config(768, 12, 12, 30000, embedding_size=128), batch=16, seq=128, predictions=20),
    "minilm_squad": Workload(_config(384, 6, 12, 30522, hidden_act="gelu"), batch=16, seq=192, predictions=0),
    "hidden_256": Workload(_config(256, 6, 4, 30000, embedding_size=128), batch=32, seq=128, predictions=20),
    "small": Workload(_config(256, 4, 4, 8000, embedding_size=128), batch=32, seq=64, predictions=10),
    "demo": Workload(_config(128, 4, 4, 4000, embedding_size=64), batch=64, seq=64, predictions=10),
}


def with_dropout(config: dict[str, Any], rate: float) -> dict[str, Any]:
    """The config with one rate for hidden and attention dropout."""
    return dict(config, hidden_dropout_prob=rate, attention_probs_dropout_prob=rate)
