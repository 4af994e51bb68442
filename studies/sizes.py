"""Variables, compute and pre-training cost of models, beside the paper's figures (Lan et al., 2020, tables 1, 3, 4).

    python -m studies sizes
"""

from __future__ import annotations

from typing import Any, Iterable

from albert_tf.config import AlbertConfig

# The paper's long run (section 4.1): 125,000 steps of 4,096 sequences of 512 tokens.
PRETRAINING_TOKENS = 125_000 * 4096 * 512
_LEGEND = f"""\
compute   number of weights that a token is multiplied with; shared weights count once per layer
x tokens  times {PRETRAINING_TOKENS:.1e} tokens (125,000 steps of 4,096 x 512)
FLOPs     6 per weight and token, forward and backward"""

_BASE, _BASE_E768 = "albert_base_v2", dict(embedding_size=768)

Row = tuple[str, str, dict[str, Any], str]  # name, preset, changes to it, number of variables in the paper
# The rows of the paper's table 1, and of its tables 3 and 4.
NAMED_SIZES: tuple[Row, ...] = (
    ("albert base", "albert_base_v2", {}, "12M"),
    ("albert large", "albert_large_v2", {}, "18M"),
    ("albert xlarge", "albert_xlarge_v2", {}, "60M"),
    ("albert xxlarge", "albert_xxlarge_v2", {}, "235M"),
    ("bert base", "bert_base", {}, "108M"),
    ("bert large", "bert_large", {}, "334M"),
)
BASE_VARIANTS: tuple[Row, ...] = (
    ("all shared, E 64", _BASE, dict(embedding_size=64), "10M"),
    ("all shared, E 128", _BASE, {}, "12M"),
    ("all shared, E 256", _BASE, dict(embedding_size=256), "16M"),
    ("all shared, E 768", _BASE, _BASE_E768, "31M"),
    ("attention shared, E 128", _BASE, dict(cross_layer_sharing="attention"), "64M"),
    ("attention shared, E 768", _BASE, dict(_BASE_E768, cross_layer_sharing="attention"), "83M"),
    ("ffn shared, E 128", _BASE, dict(cross_layer_sharing="ffn"), "38M"),
    ("ffn shared, E 768", _BASE, dict(_BASE_E768, cross_layer_sharing="ffn"), "57M"),
    ("not shared, E 64", _BASE, dict(cross_layer_sharing="none", embedding_size=64), "87M"),
    ("not shared, E 128", _BASE, dict(cross_layer_sharing="none"), "89M"),
    ("not shared, E 256", _BASE, dict(cross_layer_sharing="none", embedding_size=256), "93M"),
    ("not shared, E 768", _BASE, dict(_BASE_E768, cross_layer_sharing="none"), "108M"),
)


def print_sizes() -> None:
    """Prints all sizes, and base with other E and sharing."""
    print(table(published(NAMED_SIZES)), table(published(BASE_VARIANTS)), _LEGEND, sep="\n\n")


def published(rows: Iterable[Row]) -> list[tuple[str, AlbertConfig, str]]:
    """The rows of NAMED_SIZES or BASE_VARIANTS with configs, as arguments of `table`."""
    return [(what, AlbertConfig.preset(preset).replace(**changes), paper) for what, preset, changes, paper in rows]


def variable_count(config: AlbertConfig, with_heads: bool = False) -> int:
    """The number of trainable values of an AlbertModel (including the pooler), or with_heads of an AlbertPretrainer."""
    # The paper's letters.
    V, E, H, I = config.vocab_size, config.embedding_size, config.hidden_size, config.intermediate_size  # noqa: E741
    layer_norm = 2
    embeddings = (V + config.type_vocab_size + config.max_position_embeddings + layer_norm) * E
    mapping = (E + 1) * H if E != H else 0
    attention = config.num_attention_blocks * (4 * (H + 1) * H + layer_norm * H)
    ffn = config.num_ffn_blocks * ((H + 1) * I + (I + 1) * H + layer_norm * H)
    pooler = (H + 1) * H
    encoder = embeddings + mapping + attention + ffn + pooler
    if not with_heads:
        return encoder
    masked_lm = (H + 1) * E + layer_norm * E + V
    sentence_order = (H + 1) * 2
    return encoder + masked_lm + sentence_order


def compute_parameters(config: AlbertConfig, share_predicted: float = 1.0) -> float:
    """The number of weights that a token is multiplied with: V*E + E*H + L*12*H*H + H*H. Shared ones count per layer.

    Args:
      config: the model's config.
      share_predicted: share of the tokens whose logits are computed; V*E counts only for these.
    """
    V, E, H = config.vocab_size, config.embedding_size, config.hidden_size
    return V * E * share_predicted + E * H + config.num_hidden_layers * 12 * H * H + H * H


def table(rows) -> str:
    """A text table for rows of (name, config, number of variables in the paper)."""
    lines = [f"{'':<26}{'variables':>13}{'with heads':>13}{'paper':>7}{'compute':>10}{'x tokens':>10}{'FLOPs':>9}"]
    for what, config, paper in rows:
        compute = compute_parameters(config)
        cost = compute * PRETRAINING_TOKENS
        lines.append(f"{what:<26}{variable_count(config):>13,}{variable_count(config, with_heads=True):>13,}{paper:>7}"
                     f"{compute / 1e6:>9,.1f}M{cost:>10.1e}{6 * cost:>9.1e}")
    return "\n".join(lines)
