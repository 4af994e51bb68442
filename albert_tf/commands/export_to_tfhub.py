"""Exports a pre-trained ALBERT as TF-Hub modules: encoder and preprocessing.

    python -m albert_tf export_to_tfhub --albert_directory=albert_base_v2 --export_path=albert_hub

writes albert_hub, for hub.load and hub.KerasLayer(trainable=True), and albert_hub_preprocess:

    preprocess = hub.KerasLayer("albert_hub_preprocess")
    encoder = hub.KerasLayer("albert_hub", trainable=True)
    encoder(preprocess(["a sentence"]))["pooled_output"]

(after `import tensorflow_text`, which registers the ops of the preprocessing). With --pooling or --normalize, or from a
folder of sentence-transformers, the module gives sentence_embedding too, also as "default".
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated, Any

from absl import logging

from albert_tf.options import Config
from albert_tf.utils.imports import check_installed
from albert_tf.utils.manifests import check_export
from albert_tf.utils.outputs import used_alone
from albert_tf.weights.pooling import Pooling, replaced_pooling
from albert_tf.weights.source import ReleasedCheckpoint, VocabularySource

if TYPE_CHECKING:
    from albert_tf.modeling.albert_model import AlbertModel
    from albert_tf.modeling.pretrainer import AlbertPretrainer
    from albert_tf.modeling.sentence_encoder import AlbertSentenceEncoder
    from albert_tf.weights.stored_model import StoredModel

# The output "default" of every module.
_POOLED_OUTPUT = dict(pooling="pooler", normalize=False, truncate_dim=None, max_seq_length=None)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(Config):
    pooling: Pooling = Pooling()
    released: ReleasedCheckpoint = ReleasedCheckpoint()
    vocabulary: VocabularySource = VocabularySource()
    albert_directory: Annotated[
        str, "Directory of checkpoint, config and vocabulary, or any other path that --init_checkpoint of the other "
        "scripts accepts."]
    use_einsum: Annotated[bool, "Has no effect. Scripts for the release can set it."] = True
    export_path: Annotated[
        str, "Directory of the encoder's module. The preprocessing is written beside it, to EXPORT_PATH_preprocess."]


def main(options: Options) -> None:
    from albert_tf.export.conversion import write_conversion_card
    from albert_tf.export.tf_hub import PUBLISHED_SEQ_LENGTH, export_encoder, export_preprocessing
    from albert_tf.weights.stored_model import open_model

    preprocess_path = options.export_path.rstrip("/") + "_preprocess"
    check_export(options.export_path, preprocess_path)
    check_installed("export_to_tfhub", "tensorflow_text")
    with used_alone(options.export_path, "export"):
        source = open_model(options.released.checkpoint_in(options.albert_directory))
        model = model_of(source, replaced_pooling(source.settings, options.pooling, **_POOLED_OUTPUT))
        tokenizer = source.vocabulary.with_overrides(options.vocabulary.user_vocabulary).tokenizer(model.config)
        export_encoder(options.export_path, model, tokenizer)
        write_conversion_card(model, options.export_path, "tf_hub", source.path)
        logging.info("%s: the encoder", options.export_path)
        longest = model.settings.max_seq_length or PUBLISHED_SEQ_LENGTH
        export_preprocessing(preprocess_path, tokenizer,
                             min(PUBLISHED_SEQ_LENGTH, longest, model.config.max_position_embeddings))
        logging.info("%s: the preprocessing", preprocess_path)


def model_of(source: StoredModel, pooling: dict[str, Any]) -> AlbertModel | AlbertPretrainer | AlbertSentenceEncoder:
    """The model with its pooling. Without a pooling, it has the heads of pre-training if the weights have both."""
    from albert_tf.weights.from_pretrained import build

    if any(value != _POOLED_OUTPUT.get(name) for name, value in pooling.items()):
        return build(source, "sentence_encoder", **pooling)[0]
    model, report = build(source, "pretrainer")
    if not report.not_restored:
        return model
    if model.albert.has_random_pooler:
        logging.warning("%s has no pooler: the module has no pooled_output", source.path)
    return model.albert
