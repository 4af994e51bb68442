"""A page without a server, beside a folder of ONNX models: files that any static host serves.

It is the page of serve. Instead of the server, page/browser.js computes the answers in the reader's browser, with ONNX
Runtime and the tokenizers of transformers.js, which npm installs.
"""

from __future__ import annotations

import importlib.resources
import json
import os
from typing import Any

from albert_tf.export.onnx.session import OnnxModel
from albert_tf.modeling.settings import ClassifierSettings, MultipleChoiceSettings, SentenceEncoderSettings
from albert_tf.server.models import served_model
from albert_tf.server.signatures import SENTENCE_ORDER, described, description_of
from albert_tf.tasks.multiple_choice.data import MAX_QA_LENGTH
from albert_tf.tasks.sentence_vectors.vectors import prompted
from albert_tf.tasks.squad.answers import AnswerOptions, feature_options as squad_options
from albert_tf.tasks.tagging.text_tags import feature_options as tagging_options, tag_names
from albert_tf.text.tokenization import FullTokenizer
from albert_tf.utils.files import read_bytes, read_json_object

_VERSIONS = {"onnxruntime-web": "1.30.0", "@huggingface/tokenizers": "0.2.0"}
_INSTALL = f"npm install --ignore-scripts {' '.join(f'{name}@{version}' for name, version in _VERSIONS.items())}"
_FROM_NPM = {"onnxruntime.js": "onnxruntime-web/dist/ort.wasm.bundle.min.mjs",
             "onnxruntime.wasm": "onnxruntime-web/dist/ort-wasm-simd-threaded.wasm",
             "tokenizers.js": "@huggingface/tokenizers/dist/tokenizers.min.mjs",
             "tokenizers.LICENSE": "@huggingface/tokenizers/LICENSE"}
_PAGE = {"index.html": "index.html", "style.css": "style.css", "page.js": "page.js", "backend.js": "browser.js"}
_TOP_K = 5


def scripts(node_modules: str) -> dict[str, bytes]:
    """The files of npm's packages by their names beside the page. Raises ValueError without these versions of them."""
    for package, version in _VERSIONS.items():
        path = os.path.join(node_modules, package, "package.json")
        if not os.path.isfile(path):
            raise ValueError(f"{path} does not exist: run `{_INSTALL}`, and name npm's folder with --node_modules")
        received = read_json_object(path).get("version")
        if received != version:
            raise ValueError(f"{path} must have version {version}. Received: {received}. Run `{_INSTALL}`")
    return {name: read_bytes(os.path.join(node_modules, path)) for name, path in _FROM_NPM.items()}


def page_files(name: str, model: OnnxModel, file: str, has_sentence_order: bool = True) -> dict[str, bytes]:
    """The other files of the page, by their names. Raises ValueError if the page does not support the model.

    The model has Hugging Face's layout and its vocabulary, and is at `file` from the page. has_sentence_order is
    whether the head that tells whether two texts are in order has been trained.
    """
    if model.settings.of_class(ClassifierSettings).max_windows > 1:
        raise ValueError("the page cannot split long texts into windows (--long_texts): use serve for this model")
    tokenizer = model.tokenizer
    served = described(served_model(name, model, tokenizer, _TOP_K))
    signatures = {key: signature for key, signature in served["signatures"].items()
                  if signature["view"] != "json" and (has_sentence_order or signature["view"] != SENTENCE_ORDER)}
    if not signatures:
        raise ValueError(f"the page has no form for a model with the head {model.head.name} and outputs "
                         f"{', '.join(model.output_names)}: use serve for this model")
    description = f"{description_of(model.head.name, name, model.config)}. It runs in your browser and sends nothing."
    content = dict(models=[dict(served, description=description, signatures=signatures)],
                   settings=dict(_settings(model, tokenizer), file=file))
    page = importlib.resources.files("albert_tf.server") / "page"
    return {"models.json": (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode(),
            **{written: (page / own).read_bytes() for written, own in _PAGE.items()}}


def _settings(model: OnnxModel, tokenizer: FullTokenizer) -> dict[str, Any]:
    """The settings of the model that browser.js reads."""
    head, stored = model.head.name, model.settings
    if not tokenizer.special_tokens.are_berts:
        raise ValueError(f"rows of the page are [CLS] text [SEP] text [SEP], and {tokenizer.vocabulary_file} makes "
                         "others: use serve for this model")
    settings: dict[str, Any] = {key: getattr(tokenizer, key) for key in ("cls_id", "sep_id", "pad_id", "unk_id")}
    settings["row_length"] = model.config.max_position_embeddings if head == "pretrainer" else model.row_length
    if head == "pretrainer":
        settings.update(mask_id=tokenizer.mask_id, vocab_size=tokenizer.vocab_size, top_k=_TOP_K)
    elif isinstance(stored, ClassifierSettings):
        activation = "sigmoid" if stored.multi_label else "softmax"
        if model.num_labels == 1 and not stored.multi_label:
            activation = stored.activation_fn or "identity"
        settings.update(activation=activation, temperature=stored.temperature)
    elif head == "span":
        options, answers = squad_options(model), AnswerOptions("1.1")
        settings.update(max_seq_length=options.max_seq_length, doc_stride=options.doc_stride,
                        max_query_length=options.max_query_length, n_best_size=answers.n_best_size,
                        max_answer_length=answers.max_answer_length)
    elif isinstance(stored, MultipleChoiceSettings):
        settings.update(max_qa_length=stored.max_qa_length or MAX_QA_LENGTH)
    elif head == "token_classifier":
        windows = tagging_options(model)
        settings.update(max_seq_length=windows.max_seq_length, doc_stride=windows.stride,
                        label_names=tag_names(model))
    elif isinstance(stored, SentenceEncoderSettings):
        settings.update(prompt=prompted(stored, [""])[0])
    else:
        raise ValueError(f"albert_tf/server/web.py has no settings of the head {head}: use serve for this model")
    return settings
