"""Low-rank adapters (Hu et al., 2021): small matrices that are trained instead of the encoder's kernels.

A kernel W [inputs, outputs] becomes W + alpha / rank * A B, with A [inputs, rank] and B [rank, outputs]. B starts as
zeros, so an adapted model computes what it did before. All kernels of the attention and feed-forward blocks have
adapters: either one each, which all layers with the block share, or one for each layer that uses the block.

The sum is computed once per step, so activations need no more memory or time than without adapters. A checkpoint of a
run has both, and is read as the sum (weights/stored_model.py), so code that loads it need not know about adapters.
"""

from __future__ import annotations

import dataclasses
import functools
import re

import tensorflow as tf

from albert_tf import keras
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.layers import ReleaseDense, ReleaseLayer, release_name
from albert_tf.utils import bounds
from albert_tf.utils.bounds import check_finite

# The names of adapters: the scope of the kernel, and the number of the layer unless all layers share the adapter.
ADAPTER_NAME = re.compile(r"(.+)/lora_[ab](?:_(\d+))?")


@dataclasses.dataclass(frozen=True)
class LoraOptions:
    """How an encoder is adapted. Raises ValueError if the rank or alpha is out of range."""

    rank: int  # the number of columns of A
    alpha: float | None = None  # the update is multiplied by alpha / rank; None: the rank, so that the factor is 1
    per_layer: bool = False  # whether each layer has separate adapters, also where layers share a block

    def __post_init__(self):
        bounds.WIDTH.check("lora_rank", self.rank)
        if self.alpha is not None:
            check_finite("lora_alpha", self.alpha, 0.0)

    @property
    def scale(self) -> float:
        """The factor of the update."""
        return 1.0 if self.alpha is None else self.alpha / self.rank


class LowRankAdapter(ReleaseLayer):
    """The matrices A and B of a kernel [inputs, outputs] with the name `scope`/kernel.

    It belongs to the layer (and inner group) with the number `layer`; None: to all that use the kernel.
    """

    def __init__(self, scope: str, kernel: tf.Variable, options: LoraOptions, layer: int | None = None):
        super().__init__()
        ending = "" if layer is None else f"_{layer}"
        inputs, outputs = kernel.shape
        # U(-1 / sqrt(inputs), 1 / sqrt(inputs)), as in the library peft.
        uniform = keras.initializers.VarianceScaling(1 / 3, "fan_in", "uniform")
        self.a = self.variable(f"{scope}/lora_a{ending}", [inputs, options.rank], uniform)
        self.b = self.variable(f"{scope}/lora_b{ending}", [options.rank, outputs], "zeros")
        self.scale = options.scale

    def update(self) -> tf.Tensor:
        """The update that is added to the kernel, float32 [inputs, outputs]."""
        return self.scale * tf.matmul(self.a, self.b)


def add_adapters(encoder: AlbertModel, options: LoraOptions) -> list[LowRankAdapter]:
    """Adds adapters to all kernels of an encoder's blocks. Returns them. Call it in the strategy's scope."""
    transformer = encoder.encoder
    uses = _uses(encoder) if options.per_layer else {}
    adapters: list[LowRankAdapter] = []
    block: keras.layers.Layer
    for blocks in (transformer.attention_blocks, transformer.ffn_blocks):
        for index, block in enumerate(blocks):
            layers = uses[blocks is transformer.ffn_blocks, index] if options.per_layer else [None]
            for dense in (layer for layer in block.submodules if isinstance(layer, ReleaseDense)):
                scope = release_name(dense.kernel).rpartition("/")[0]
                own = {layer: LowRankAdapter(scope, dense.kernel, options, layer) for layer in layers}
                adapters += own.values()
                # A function, since Keras would track the adapters as parts of a layer that is not trained.
                dense.kernel_update = functools.partial(_update, own)
    transformer.adapters = adapters
    transformer.has_layer_adapters |= options.per_layer
    return adapters


def merge_adapters(encoder: AlbertModel) -> None:
    """Adds the updates of an encoder's adapters to its kernels, and removes the adapters, so that it can be saved.

    Raises:
      ValueError: layers that share a kernel have separate adapters.
    """
    by_scope: dict[str, LowRankAdapter] = {}
    for adapter in encoder.encoder.adapters:
        scope = ADAPTER_NAME.sub(r"\1", release_name(adapter.a))
        if by_scope.setdefault(scope, adapter) is not adapter:
            raise ValueError(f"adapters of several layers (per_layer) cannot be merged into one kernel: {scope}/kernel")
    for dense in encoder.submodules:
        if isinstance(dense, ReleaseDense) and (scope := release_name(dense.kernel).rpartition("/")[0]) in by_scope:
            dense.kernel.assign_add(by_scope[scope].update())
            dense.kernel_update = None
    encoder.encoder.adapters = []


def _update(adapters: dict[int | None, LowRankAdapter], layer: int) -> tf.Tensor:
    return adapters[layer if layer in adapters else None].update()


def _uses(encoder: AlbertModel) -> dict[tuple[bool, int], list[int | None]]:
    """The numbers of the layers that use each block, by (whether it is a feed-forward block, its index)."""
    uses: dict[tuple[bool, int], list[int | None]] = {}
    for number, indices in enumerate(encoder.encoder.blocks_in_order()):
        for is_ffn, index in enumerate(indices):
            uses.setdefault((bool(is_ffn), index), []).append(number)
    return uses
