"""Exports a pre-trained ALBERT as TF-Hub modules: encoder and preprocessing.

    python -m albert_tf export_to_tfhub --albert_directory=albert_base_v2 --export_path=albert_hub

writes albert_hub, which hub.load and hub.KerasLayer(trainable=True) take, and albert_hub_preprocess:

    preprocess = hub.KerasLayer("albert_hub_preprocess")
    encoder = hub.KerasLayer("albert_hub", trainable=True)
    encoder(preprocess(["a sentence"]))["pooled_output"]

(after `import tensorflow_text`, which registers the ops of the preprocessing). With --pooling or --normalize, or from a
folder of sentence-transformers, the module gives sentence_embedding too, also as "default".
"""

from __future__ import annotations

from typing import Any

from absl import flags, logging

from albert_tf.commands import flag_fields as fields, shared_flags as shared, vector_flags
from albert_tf.export.conversion import write_conversion_card
from albert_tf.export.tf_hub import PUBLISHED_SEQ_LENGTH, export_encoder, export_preprocessing
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.pretrainer import AlbertPretrainer
from albert_tf.modeling.sentence_encoder import AlbertSentenceEncoder
from albert_tf.utils.files import is_inside
from albert_tf.utils.outputs import check_export, used_alone
from albert_tf.weights.from_pretrained import build
from albert_tf.weights.stored_model import StoredModel, open_source

FLAGS = flags.FLAGS
# The output "default" of every module.
_POOLED_OUTPUT = dict(pooling="pooler", normalize=False, truncate_dim=None, max_seq_length=None)


def define_flags() -> None:
    fields.define_required("albert_directory", "Directory of checkpoint, config and vocabulary, or any other path that "
                           "--init_checkpoint of the other scripts accepts.")
    shared.define_checkpoint_name_flag()
    shared.define_vocabulary_flags()
    flags.DEFINE_bool("use_einsum", True, "Has no effect. Scripts for the release can set it.")
    vector_flags.define_pooling_flags("pooler")
    vector_flags.define_vector_flags(with_precision=False)
    fields.define_required("export_path", "Directory of the encoder's module.")
    flags.DEFINE_string("preprocess_export_path", None, "Directory of the preprocessing module. Default: the value of "
                        "--export_path with _preprocess appended.")


def main() -> None:
    preprocess_path = FLAGS.preprocess_export_path or FLAGS.export_path.rstrip("/") + "_preprocess"
    check_export(FLAGS.export_path, preprocess_path)
    if is_inside(FLAGS.export_path, preprocess_path) or is_inside(preprocess_path, FLAGS.export_path):
        raise ValueError(f"--preprocess_export_path={preprocess_path} and --export_path={FLAGS.export_path} must be "
                         "two folders, neither inside the other: each export has its own")
    with used_alone(FLAGS.export_path, "export"):
        source = open_source(shared.checkpoint_in(FLAGS.albert_directory))
        model = model_of(source, vector_flags.pooling_from_flags(source.settings, **_POOLED_OUTPUT))
        tokenizer = source.vocabulary.replaced_by(shared.vocabulary_from_flags()).tokenizer(model.config)
        export_encoder(FLAGS.export_path, model, tokenizer)
        write_conversion_card(model, FLAGS.export_path, "tf_hub", source.path)
        logging.info("%s: the encoder", FLAGS.export_path)
        longest = model.max_seq_length or PUBLISHED_SEQ_LENGTH
        export_preprocessing(preprocess_path, tokenizer,
                             min(PUBLISHED_SEQ_LENGTH, longest, model.config.max_position_embeddings))
        logging.info("%s: the preprocessing", preprocess_path)


def model_of(source: StoredModel, pooling: dict[str, Any]) -> AlbertModel | AlbertPretrainer | AlbertSentenceEncoder:
    """The model with its pooling. Without a pooling, it has the heads of pre-training if the weights have both."""
    if pooling != _POOLED_OUTPUT:
        return build(source, "sentence_encoder", **pooling)[0]
    model, report = build(source, "pretrainer")
    if not report.not_restored:
        return model
    if model.albert.has_random_pooler:
        logging.warning("%s has no pooler: the module has no pooled_output", source.path)
    return model.albert
