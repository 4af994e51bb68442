"""Keys of other libraries' files that are refused unless their values change nothing.

The page docs/from_hugging_face_and_keras_hub.md has the table of all keys: followed, refused, ignored.
"""

from __future__ import annotations

import reprlib
from typing import Any, Mapping, NamedTuple


class _Refused(NamedTuple):
    """Why values are refused, and the values that change nothing. A missing key and null do not either."""

    reason: str
    accepted: tuple[Any, ...] = ()


_CODE = _Refused("the model is code of its own, which is not run", ({},))
# By the file's name in its library.
REFUSED: dict[str, dict[str, _Refused]] = {
    "config.json": {
        "model_type": _Refused("only albert and bert can be read", ("albert", "bert")),
        "layer_norm_eps": _Refused("only the release's 1e-12 can be computed", (1e-12,)),
        "position_embedding_type": _Refused("only absolute positions can be computed", ("absolute",)),
        "tie_word_embeddings": _Refused("only tied word embeddings can be computed", (True,)),
        "is_decoder": _Refused("only encoders can be read", (False,)),
        "add_cross_attention": _Refused("only encoders can be read", (False,)),
        "pruned_heads": _Refused("layers must have all of their heads", ({},)),
        "per_layer_config": _Refused("all layers must have the same settings", ({},)),
        "quantization_config": _Refused("save the model with weights that are not quantized", ({},)),
        "auto_map": _CODE,
        "configuration_files": _Refused("rename the file for your version to config.json", ([],)),
        "transformers_weights": _Refused("rename the file of weights to model.safetensors", ("model.safetensors",)),
    },
}


def check_supported(file: str, values: Mapping[str, Any]) -> None:
    """Raises ValueError, which names the key, if a key of a file has a value that is not supported.

    Args:
      file: the file's name in its library.
      values: the content of the file.
    """
    for key, (reason, accepted) in REFUSED[file].items():
        value = values.get(key)
        if value is not None and value not in accepted:
            raise ValueError(f"{key} {reprlib.repr(value)} is not supported: {reason}")
