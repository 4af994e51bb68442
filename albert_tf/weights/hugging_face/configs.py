"""The JSON files of Hugging Face's folders: config.json for AlbertConfig, and sentence-transformers' files.

A value that config.json or AlbertConfig cannot express is rejected. A folder is a CrossEncoder of sentence-transformers
if it names the function of the score:

    config_sentence_transformers.json   (from version 6 on) "model_type": "CrossEncoder", "activation_fn"
    config.json                         (before) "sentence_transformers": {"activation_fn": ...}; all versions read it

The pooling of a sentence encoder is in these files, next to weights in any format:

    modules.json                the steps: Transformer, Pooling, Normalize
    1_Pooling/config.json       the pooling
    sentence_bert_config.json   the largest number of tokens of a text, and whether it is lower-cased
    config_sentence_transformers.json   truncate_dim, prompts, default_prompt_name; written if one is set
"""

from __future__ import annotations

import json
import os
import reprlib
from typing import Any, NamedTuple

import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.modeling.settings import ClassifierSettings, LabelSettings, SentenceEncoderSettings, Settings
from albert_tf.modeling.vectors import POOLINGS
from albert_tf.utils.files import (
    check_name,
    check_one_line,
    errors_at,
    read_json_list,
    read_json_object,
    read_yaml_object,
)
from albert_tf.utils.foreign_keys import check_supported
from albert_tf.utils.outputs import write_or_remove
from albert_tf.weights.heads import HEADS, Head
from albert_tf.weights.hugging_face import CONFIG, LENGTH_CONFIG, MODULES, PL_BERT_CONFIG, TOKENIZER_JSON

_CLASS_PREFIXES = {"albert": "Albert", "bert": "Bert"}
# The kind of model (see from_pretrained) of each of Hugging Face's classes.
HEAD_OF_CLASS = {prefix + architecture: head.name
          for prefix in _CLASS_PREFIXES.values() for head in reversed(HEADS) for architecture in head.architectures}
_SEVERAL_LABELS = "multi_label_classification"
_SENTENCE_TRANSFORMERS = "config_sentence_transformers.json"
_OF_VECTORS = ("truncate_dim", "prompts", "default_prompt_name")  # the arguments of a sentence encoder in it
_PATHS = dict(sigmoid="torch.nn.modules.activation.Sigmoid", identity="torch.nn.modules.linear.Identity")
_VERSION = "4.0.1"  # of the form that is written
_BEFORE_VERSION_4 = "sbert_ce_default_activation_function"
# The release's gelu is the tanh approximation; Hugging Face uses that name for the exact function.
_THEIR_ACTS = {"gelu": "gelu_new", "gelu_exact": "gelu"}
_POOLING_FOLDER, _NORMALIZE_FOLDER = "1_Pooling", "2_Normalize"
DENSE_FOLDER = "2_Dense"
_STEPS = ("Transformer", "Pooling", "Dense", "Normalize")
_DENSE_ACTS = dict(tanh="torch.nn.modules.activation.Tanh", linear="torch.nn.modules.linear.Identity",
                   relu="torch.nn.modules.activation.ReLU", gelu_exact="torch.nn.modules.activation.GELU")
_LIBRARY = "sentence_transformers."
# The models in the name of sentence_bert_config.json. The first of these files that exists is read.
_TRANSFORMERS = ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
_THEIRS = ("mean", "max", "cls")
# The keys of sentence-transformers. Only this package has the pooler's key.
_KEYS = {"cls": "pooling_mode_cls_token", "mean": "pooling_mode_mean_tokens", "max": "pooling_mode_max_tokens",
         "pooler": "pooling_mode_pooler"}


class ModelConfig(NamedTuple):
    """The content of config.json."""

    config: AlbertConfig
    model_type: str  # "albert" or "bert"
    architecture: str  # the class that the model was saved from; "" if it is not named
    settings: dict[str, Any]  # label_names (None: LABEL_0, LABEL_1, ...), multi_label, activation_fn


def read_config(folder: str) -> ModelConfig:
    """The content of a folder's config.json, also of Kokoro's, or of the config.yml of PL-BERT."""
    path = os.path.join(folder, CONFIG)
    if not tf.io.gfile.exists(path) and tf.io.gfile.exists(os.path.join(folder, PL_BERT_CONFIG)):
        path = os.path.join(folder, PL_BERT_CONFIG)
        values = _of_pl_bert(path, read_yaml_object(path), "model_params")
    else:
        values = read_json_object(path, "config file")
        if "plbert" in values:
            values = dict(_of_pl_bert(path, values, "plbert"), vocab_size=values.get("n_token"))
    if tf.io.gfile.exists(os.path.join(folder, TOKENIZER_JSON)):
        values.pop("tokenizer_class", None)
    model_type = values.get("model_type") or "albert"
    with errors_at(path):
        config = AlbertConfig.from_dict(dict(values, model_type=model_type))
    architectures = values.get("architectures") or [""]
    if not isinstance(architectures, list) or not isinstance(architectures[0], str):
        raise ValueError(f"{path}: architectures must be a list of class names. "
                         f"Received: {reprlib.repr(architectures)}")
    if model_type == "albert" and _their_groups(config) != _our_groups(config):
        if config.num_hidden_groups != config.num_hidden_layers:
            raise ValueError(f"{path}: {config.num_hidden_layers} layers are assigned to {config.num_hidden_groups} "
                             "groups differently than in the release")
        config = config.replace(num_hidden_groups=1, cross_layer_sharing="none")
    names = values.get("id2label") or {}
    if not isinstance(names, dict) or {*names} != {*map(str, range(len(names)))}:
        raise ValueError(f"{path}: id2label must have a name for each number from 0. Received: {reprlib.repr(names)}")
    ordered = tuple(str(names[str(label)]) for label in range(len(names)))
    problem_type, num_labels = values.get("problem_type"), len(names) or values.get("num_labels", 2)
    if problem_type == "regression" and num_labels != 1:
        raise ValueError(f"{path}: problem_type regression is only supported with one label. Received: {num_labels}")
    for name in ordered:
        check_one_line(name, f"{path}: a name in id2label")
    return ModelConfig(config, model_type, architectures[0], dict(
        label_names=None if ordered == _numbered(len(ordered)) else ordered,
        multi_label=problem_type == _SEVERAL_LABELS, activation_fn=_activation_fn(folder, values)))


def _of_pl_bert(path: str, values: dict[Any, Any], key: str) -> dict[str, Any]:
    """The values with which PL-BERT and Kokoro make transformers' AlbertConfig."""
    parameters = values.get(key)
    if not isinstance(parameters, dict) or not all(isinstance(name, str) for name in parameters):
        raise ValueError(f"{path} has no {key} with names and values, as PL-BERT's has")
    return {name: value for name, value in parameters.items() if name != "dropout"}  # without effect there


def _numbered(num_labels: int) -> tuple[str, ...]:
    """Hugging Face's names of labels without names."""
    return tuple(f"LABEL_{label}" for label in range(num_labels))


def model_type_of(config: AlbertConfig) -> str:
    """Hugging Face's model type of a config."""
    return "bert" if config.is_bert else "albert"


def architecture_of(head: Head, model_type: str) -> str:
    """Hugging Face's class of a model, "AlbertForPreTraining"."""
    if not head.architectures:
        raise ValueError(f"Hugging Face has no model for {head.model.__name__}: set --model=encoder to write the "
                         "encoder alone")
    return _CLASS_PREFIXES[model_type] + head.architectures[0]


def config_values(config: AlbertConfig, architecture: str, num_labels: int | None, settings: Settings) -> dict:
    """The content of config.json for a model. `architecture` is from architecture_of."""
    if config.cross_layer_sharing in ("attention", "ffn"):
        raise ValueError("Hugging Face's ALBERT cannot share only attention or only feed-forward blocks. "
                         f"Received: cross_layer_sharing={config.cross_layer_sharing!r}")
    model_type, ours, config = model_type_of(config), _our_groups(config), config.in_groups()
    if _their_groups(config) != ours:
        raise ValueError(f"Hugging Face assigns {config.num_hidden_layers} layers to {config.num_hidden_groups} groups "
                         "differently than the release")
    values = config.to_bert_dict() if model_type == "bert" else config.to_dict()
    values.pop("cross_layer_sharing", None)  # which transformers does not know
    values.update(model_type=model_type, architectures=[architecture], layer_norm_eps=config.layer_norm_eps,
                  hidden_act=_THEIR_ACTS.get(config.hidden_act, config.hidden_act))
    if num_labels is not None:
        label_names = settings.of_class(LabelSettings).label_names or _numbered(num_labels)
        values["id2label"] = {str(label): name for label, name in enumerate(label_names)}
        values["label2id"] = {name: label for label, name in enumerate(label_names)}
    if num_labels == 1:  # without this, the pipeline of transformers applies a sigmoid
        values["problem_type"] = "regression"
    elif settings.of_class(ClassifierSettings).multi_label:
        values["problem_type"] = _SEVERAL_LABELS
    activation_fn = settings.of_class(ClassifierSettings).activation_fn
    if activation_fn:
        values["sentence_transformers"] = dict(activation_fn=_PATHS[activation_fn], version=_VERSION)
    if activation_fn == "sigmoid":
        values.pop("problem_type", None)  # with it, the pipeline of transformers applies none
    return values


def _our_groups(config: AlbertConfig) -> list[int]:
    return [blocks[0] // config.inner_group_num for blocks in config.attention_blocks]


def _their_groups(config: AlbertConfig) -> list[int]:
    """The groups by Hugging Face's expression. In floating point, its results can differ from the release's."""
    layers_of_a_group = config.num_hidden_layers / config.num_hidden_groups
    return [int(layer / layers_of_a_group) for layer in range(config.num_hidden_layers)]


def is_cross_encoder(folder: str) -> bool:
    """Whether sentence-transformers from version 6 on has saved a CrossEncoder here."""
    return _content(folder, _SENTENCE_TRANSFORMERS).get("model_type") == "CrossEncoder"


def read_transformer_config(folder: str) -> dict[str, Any]:
    """The content of sentence_bert_config.json, or of the file for another model; {} if there is none."""
    for model in _TRANSFORMERS:
        name = f"sentence_{model}_config.json"
        values = _content(folder, name)
        if values:
            _check(folder, name, values, LENGTH_CONFIG)
            return values
    return {}


def _content(folder: str, name: str) -> dict[str, Any]:
    """The content of a file; {} without the file."""
    path = os.path.join(folder, name)
    return read_json_object(path) if tf.io.gfile.exists(path) else {}


def _check(folder: str, name: str, values: dict[str, Any], kind: str | None = None) -> None:
    """Raises ValueError for keys that are refused. `kind` is the file's name in the table, if it is another one."""
    with errors_at(os.path.join(folder, name)):
        check_supported(kind or name, values)


def _activation_fn(folder: str, values: dict[str, Any]) -> str | None:
    """The function of the score, one of ACTIVATIONS, by the content of config.json; None if it is no CrossEncoder."""
    file, path = os.path.join(folder, CONFIG), None
    own = values.get("sentence_transformers")
    if is_cross_encoder(folder):
        file = os.path.join(folder, _SENTENCE_TRANSFORMERS)
        path = read_json_object(file).get("activation_fn", _PATHS["sigmoid"])
    elif isinstance(own, dict):
        path = own.get("activation_fn")
    else:
        path = values.get(_BEFORE_VERSION_4)
    if path is None:
        return None
    name = str(path).rpartition(".")[2].lower()
    if name not in _PATHS:
        raise ValueError(f"{file}: the activation of a CrossEncoder must be one of {', '.join(_PATHS.values())}. "
                         f"Received: {path!r}")
    return name


def pooling_in(folder: str) -> dict[str, Any] | None:
    """The arguments of AlbertSentenceEncoder in the files of sentence-transformers, without the length of rows.

    None if there are no such files, or if they describe a CrossEncoder.
    """
    if not tf.io.gfile.exists(os.path.join(folder, MODULES)):
        return None
    modules, stored = _modules(folder), _content(folder, _SENTENCE_TRANSFORMERS)
    paths = {module["type"]: os.path.join(folder, module["path"]) for module in modules}
    is_normalized, file = "Normalize" in paths, os.path.join(folder, _SENTENCE_TRANSFORMERS)
    is_cosine = is_normalized and not stored.get("truncate_dim") and stored.get("similarity_fn_name") == "dot"
    _check(folder, _SENTENCE_TRANSFORMERS, dict(stored, similarity_fn_name="cosine") if is_cosine else stored)
    if is_cross_encoder(folder):
        if stored.get("default_prompt_name") is not None:
            raise ValueError(f"{file}: a CrossEncoder with a default_prompt_name is not supported")
        return None
    for name in (_POOLING_FOLDER, _NORMALIZE_FOLDER, DENSE_FOLDER):
        if path := paths.get(name[2:]):  # Dense has the keys of Normalize that name its input and output
            _check(path, CONFIG, _content(path, CONFIG), f"{name.replace('Dense', 'Normalize')}/{CONFIG}")
    values = {name: stored[name] for name in _OF_VECTORS if stored.get(name) is not None}
    with errors_at(file):
        SentenceEncoderSettings(**values)
    if "Dense" in paths:
        values.update(_dense(os.path.join(paths["Dense"], CONFIG)))
    return dict(values, pooling=_pooling(os.path.join(paths["Pooling"], CONFIG)), normalize=is_normalized)


def _dense(path: str) -> dict[str, Any]:
    """The size and the activation of a dense layer, by the config.json of its module."""
    values = read_json_object(path)
    acts = {theirs: ours for ours, theirs in _DENSE_ACTS.items()}
    act = values.get("activation_function", _DENSE_ACTS["tanh"])
    if "out_features" not in values or not isinstance(act, str) or act not in acts:
        raise ValueError(f"{path} must have out_features, and activation_function must be one of {', '.join(acts)}. "
                         f"Received: {reprlib.repr(act)}")
    with errors_at(path):
        SentenceEncoderSettings(dense_size=values.get("out_features"))
    return dict(dense_size=values["out_features"], dense_act=acts[act])


def dense_folder(folder: str) -> str | None:
    """The folder of the weights of a dense layer behind the pooling, in a folder of sentence-transformers."""
    paths = {module["type"]: module["path"] for module in _modules(folder)}
    return os.path.join(folder, paths["Dense"]) if "Dense" in paths else None


def transformer_folder(folder: str) -> str:
    """The folder of the weights in a folder of sentence-transformers: that folder itself, or a subfolder."""
    path = _modules(folder)[0]["path"]
    return os.path.join(folder, path) if path else folder


def write_pooling(settings: SentenceEncoderSettings, config: AlbertConfig, folder: str) -> None:
    """Writes the files of a pooling."""
    names = [*_STEPS[:2], *(["Dense"] if settings.dense_size else ()), *(["Normalize"] if settings.normalize else ())]
    modules = [dict(idx=number, name=str(number), path=f"{number}_{name}" if number else "",
                    type=f"sentence_transformers.models.{name}") for number, name in enumerate(names)]
    modes = {key: name == settings.pooling for name, key in _KEYS.items() if name in (*_THEIRS, settings.pooling)}
    files: dict[str, Any] = {
        f"{_POOLING_FOLDER}/{CONFIG}": dict(word_embedding_dimension=config.hidden_size, **modes)}
    files[f"{DENSE_FOLDER}/{CONFIG}"] = settings.dense_size and dict(
        in_features=config.hidden_size, out_features=settings.dense_size, bias=True,
        activation_function=_DENSE_ACTS.get(settings.dense_act, settings.dense_act))
    # null is all positions. sentence-transformers 6 does not compare a number with the positions.
    length = settings.max_seq_length and min(settings.max_seq_length, config.max_position_embeddings)
    files[LENGTH_CONFIG] = dict(max_seq_length=length, do_lower_case=False)
    values = {name: getattr(settings, name) for name in _OF_VECTORS if getattr(settings, name) is not None}
    if settings.prompts:
        values["prompts"] = dict(settings.prompts)
    files[_SENTENCE_TRANSFORMERS] = values and dict(values, model_type="SentenceTransformer")
    files[MODULES] = modules
    for name, content in files.items():
        write_or_remove(os.path.join(folder, name),
                        json.dumps(content, indent=2, ensure_ascii=False) + "\n" if content else None)


def _modules(folder: str) -> list[dict[str, str]]:
    """The steps of modules.json as path and type (the name of the class): one for a CrossEncoder, else two to four."""
    file = os.path.join(folder, MODULES)
    modules = []
    for module in read_json_list(file):
        path, kind = module.get("path"), str(module.get("type"))
        name = kind.rpartition(".")[2]
        if not isinstance(path, str) or name not in _STEPS or not kind.startswith(_LIBRARY):
            raise ValueError(f"{file}: only {', '.join(_STEPS)} of sentence-transformers are supported. "
                             f"Received: {reprlib.repr(module)}")
        if path:
            check_name(path, f"{file}: path")
        modules.append(dict(path=path, type=name))
    steps = [module["type"] for module in modules]
    if is_cross_encoder(folder) and steps != ["Transformer"]:
        raise ValueError(f"{file}: the only step of a CrossEncoder must be Transformer. Received: {', '.join(steps)}")
    if not is_cross_encoder(folder) and steps != [step for step in _STEPS if step in (*_STEPS[:2], *steps)]:
        raise ValueError(f"{file}: the steps must be Transformer, Pooling and, if there are any, Dense and Normalize, "
                         f"in this order. Received: {', '.join(steps)}")
    return modules


def _pooling(path: str) -> str:
    """The pooling of 1_Pooling/config.json of any version of sentence-transformers."""
    values = read_json_object(path)
    modes = values.get("pooling_mode", [key for key, is_used in values.items()
                                        if key.startswith("pooling_mode_") and is_used is True])
    modes = [modes] if isinstance(modes, str) else modes
    names = {key: name for name, key in _KEYS.items()}
    known = [names.get(mode, mode) for mode in modes] if isinstance(modes, list) else []
    if len(known) != 1 or known[0] not in POOLINGS:
        raise ValueError(f"{path}: the pooling must be one of {', '.join(POOLINGS)}. Received: {reprlib.repr(modes)}")
    return known[0]
