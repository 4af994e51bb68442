"""What a fine-tuning run trains if not all weights: the head, the head and the last layers, or low-rank adapters.

Weights that are not trained have no gradients and no slots in the optimizer.
"""

from __future__ import annotations

from typing import Callable

from absl import logging

from albert_tf import keras
from albert_tf.config import AlbertConfig
from albert_tf.modeling.adapters import LoraOptions, add_adapters
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.encoder import block_variable
from albert_tf.modeling.layers import ReleaseLayer, release_name
from albert_tf.training.options import ALL, HEAD, LAST
from albert_tf.utils.progress import count_of

_POOLER = "bert/pooler/"


def restrict_training(model: keras.Model, trainable: str, lora: LoraOptions | None) -> None:
    """Freezes the weights that a run does not train, and adds adapters.

    Args:
      model: any model of albert_tf.modeling with a head. It is called in the strategy's scope, before the optimizer
        makes its slots.
      trainable: "head": the head, with the pooler if the head reads it; or "last_K": also the last K layers.
      lora: adapters, which train together with the head; None for none.
    """
    if isinstance(model.albert, AlbertModel):
        is_trained = _selection(model, trainable)
        for layer in model.submodules:
            # Only the innermost layers are frozen: Keras takes no weights of a layer that is within a frozen one.
            if isinstance(layer, ReleaseLayer) and not any(map(is_trained, map(release_name, layer.weights))):
                layer.trainable = False
        if lora:
            logging.info("%s of rank %d", count_of(len(add_adapters(model.albert, lora)), "adapter"), lora.rank)
    elif trainable != HEAD or lora:
        raise ValueError("--trainable=last_K and --lora_rank do not work with a TF-Hub module that runs its own graph: "
                         f"only --trainable={HEAD} does")
    else:
        model.albert.trainable = False
    if not model.trainable_weights:
        raise ValueError(f"--trainable={trainable} leaves nothing to train: a {type(model).__name__} has no weights "
                         "besides its encoder's. Set --trainable=last_K or --lora_rank")


def _selection(model: keras.Model, trainable: str) -> Callable[[str], bool]:
    """Whether the variable with a name is trained."""
    match = LAST.fullmatch(trainable)
    attention, ffn = _last_blocks(model.config, int(match[1])) if match else (set(), set())

    def is_trained(name: str) -> bool:
        if not name.startswith("bert/"):
            return True
        if name.startswith(_POOLER):
            return model.uses_pooler
        block = block_variable(name)
        if block is None:
            return False
        blocks = attention if block.is_of_attention else ffn
        return block.group * model.config.inner_group_num + block.inner in blocks

    return is_trained


def _last_blocks(config: AlbertConfig, count: int) -> tuple[set[int], set[int]]:
    """The indices of the attention and of the feed-forward blocks of the last layers."""
    possible = [k for k in range(1, config.num_hidden_layers + 1)  # no earlier layer uses a block of the last k ones
                if all(_blocks(layers[-k:]).isdisjoint(_blocks(layers[:-k]))
                       for layers in (config.attention_blocks, config.ffn_blocks))]
    if count in possible:
        return _blocks(config.attention_blocks[-count:]), _blocks(config.ffn_blocks[-count:])
    if count > config.num_hidden_layers:
        reason = f"the model has {count_of(config.num_hidden_layers, 'layer')}"
    else:
        reason = ("layers of this model share their weights, so that the last ones cannot be trained without earlier "
                  "ones: this needs groups of layers, or --unshare_layers")
    raise ValueError(f"--trainable=last_{count}: {reason}. Possible here: "
                     f"{', '.join(f'last_{k}' for k in possible)}, {HEAD}, {ALL}")


def _blocks(layers: tuple[tuple[int, ...], ...]) -> set[int]:
    return {block for layer in layers for block in layer}
