"""Keys of other libraries' files that are refused unless their values change nothing.

docs/foreign_keys.csv lists the keys that are followed, refused and ignored.
"""

from __future__ import annotations

import reprlib
from typing import Any, Mapping, NamedTuple


class _Refused(NamedTuple):
    """Why values are refused, and the values that change nothing. A missing key and null do not either."""

    reason: str
    accepted: tuple[Any, ...] = ()


_CODE = _Refused("it is code, which is not run", ({},))
_TOKENIZER = _Refused("others are read by tokenizer.json, which is missing", (
    *(f"{name}Tokenizer{ending}" for name in ("Albert", "Bert", "DistilBert", "Electra") for ending in ("", "Fast")),
    "PreTrainedTokenizerFast", "TokenizersBackend"))
_ARGUMENTS = _Refused("arguments of transformers are not followed", ({},))
_TASK_LENGTH = _Refused("all texts have the same largest length, max_seq_length")
_TOKENS = _Refused("rows have [CLS] first, and [SEP] after each text")
_MODALITIES = tuple({"text": {"method": "forward", "method_output_name": name}} for name in (
    "last_hidden_state", "logits"))
_NAMES_OF_TOKENS = {f"{name.lower()}_token": _Refused(f"the token must be [{name}]", (f"[{name}]",))
                    for name in ("CLS", "SEP", "MASK")} | {
                        "unk_token": _Refused("the token must be [UNK] or <unk>", ("[UNK]", "<unk>"))}
# By the file's name in its library.
REFUSED: dict[str, dict[str, _Refused]] = {
    "config.json": {
        "model_type": _Refused("only albert and bert can be read", ("albert", "bert")),
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
        "tokenizer_class": _TOKENIZER,
    },
    "tokenizer_config.json": {
        "tokenizer_class": _TOKENIZER,
        "auto_map": _CODE,
        "tokenize_chinese_chars": _Refused("each Chinese character is always a word", (True,)),
        "add_prefix_space": _Refused("texts always begin with the mark of a word", (True,)),
        "add_bos_token": _TOKENS,
        "add_eos_token": _TOKENS,
        "padding_side": _Refused("rows are padded at their end", ("right",)),
        "truncation_side": _Refused("long texts are cut at their end", ("right",)),
        "split_special_tokens": _Refused("texts are cut at added tokens", (False,)),
        **_NAMES_OF_TOKENS,
    },
    "special_tokens_map.json": _NAMES_OF_TOKENS,
    "tokenizer.json": {  # the directions
        "truncation": _Refused("long texts are cut at their end", ("Right",)),
        "padding": _Refused("rows are padded at their end", ("Right",)),
    },
    "sentence_bert_config.json": {
        "transformer_task": _Refused("only vectors and scores can be computed", (
            "feature-extraction", "sequence-classification")),
        "modality_config": _Refused("only the last layer's vectors, and logits, can be computed", _MODALITIES),
        "module_output_name": _Refused("only vectors of tokens, and scores, can be computed", (
            "token_embeddings", "scores")),
        "processing_kwargs": _ARGUMENTS,
        **dict.fromkeys(("model_args", "model_kwargs", "tokenizer_args", "processor_kwargs", "config_args",
                         "config_kwargs"), _ARGUMENTS),
        "query_length": _TASK_LENGTH,
        "document_length": _TASK_LENGTH,
        "query_expansion": _Refused("mask tokens are not added to queries"),
        "tokenizer_name_or_path": _Refused("the tokenizer must be in the folder"),
    },
    "config_sentence_transformers.json": {
        "model_type": _Refused("only SentenceTransformer and CrossEncoder can be read", (
            "SentenceTransformer", "CrossEncoder")),
        "similarity_fn_name": _Refused("texts are compared by cosines; without the key, the vectors alone are read", (
            "cosine",)),
    },
    "1_Pooling/config.json": {
        "include_prompt": _Refused("the tokens of a prompt are always part of the pooling", (True,)),
    },
    "2_Normalize/config.json": {
        name: _Refused("only the vectors of texts can be normalized", ("sentence_embedding",))
        for name in ("module_input_name", "module_output_name")
    },
    "keras-hub's task.json": {
        "activation": _Refused("only logits and their softmax can be computed", ("linear", "softmax")),
    },
    "keras-hub's preprocessor.json": {
        "truncate": _Refused("of a pair that is too long, the longer text is cut first", ("round_robin",)),
    },
    "keras-hub's tokenizer.json": {
        "add_bos": _Refused("the preprocessor adds [CLS]", (False,)),
        "add_eos": _Refused("the preprocessor adds [SEP]", (False,)),
        "sequence_length": _Refused("the preprocessor has the length of rows"),
    },
}


def check_supported(file: str, values: Mapping[str, Any]) -> None:
    """Raises ValueError, which names the key, if a value of a file, by its name in its library, is not supported."""
    for key, (reason, accepted) in REFUSED[file].items():
        value = values.get(key)
        if value is not None and value not in accepted:
            raise ValueError(f"{key} {reprlib.repr(value)} is not supported: {reason}")
