"""Converts a model and its head between the release's, Hugging Face's and our formats.

    python -m albert_tf convert_checkpoint --init_checkpoint=albert_base_v2.tar.gz --to=hugging_face \\
        --output_dir=albert_hf
    python -m albert_tf convert_checkpoint --init_checkpoint=model_dir --to=tf1 --output_dir=released

    python -m albert_tf convert_checkpoint --init_checkpoint=model_dir --to=hugging_face --output_dir=albert_hf \\
        --upload=org/name

Without weights, it writes random weights of a config or a published size:

    python -m albert_tf convert_checkpoint --albert_config_file=albert_base_v2 --output_dir=random

Optimizer slots are not written. So this script also replaces export_checkpoints of the release, and accepts its flags:

    python -m albert_tf convert_checkpoint --albert_directory=model_dir --checkpoint_name=model.ckpt-best \\
        --export_path=exported
"""

from absl import flags, logging

from albert_tf.commands import flag_fields as fields, shared_flags as shared, vector_flags
from albert_tf.export.conversion import FORMATS, convert, save_random
from albert_tf.weights.hugging_face import hub
from albert_tf.weights.hugging_face.writing import DTYPES
from albert_tf.weights.widening import widened

FLAGS = flags.FLAGS


def define_flags() -> None:
    shared.define_model_flags()
    vector_flags.define_pooling_flags()
    vector_flags.define_vector_flags(with_precision=False)
    shared.define_num_layers_flag()
    flags.DEFINE_enum("to", "tf1", list(FORMATS), "The format to write: the release's TF1 checkpoint (tf1), that of "
                      "google-research/bert (tf1_bert), a checkpoint of this package (ours), a Hugging Face folder, "
                      "or a TF-Hub module.")
    flags.DEFINE_string("output_dir", None, "Directory of the converted model. Another model in it is not "
                        "replaced.")
    fields.define_integer("embedding_size", None, "A larger embedding size (E) for the written model, which then needs "
                          "further training: new columns are random, and what reads them starts at zero.", 1, 2**16)
    flags.DEFINE_enum("dtype", "float32", list(DTYPES), "Data type of the weights that --to=hugging_face writes.")
    shared.define_head_flag("converted")
    flags.DEFINE_string("upload", None, "Repository of the Hugging Face Hub, org/name, to which --output_dir is also "
                        "uploaded, with its model card. It is made if it does not exist.")
    flags.DEFINE_bool("hub_private_repo", True, "Whether the repository of --upload is private.")
    flags.DEFINE_string("albert_directory", None, "Directory of the checkpoint to convert (the release's flag; "
                        "--init_checkpoint replaces it and --checkpoint_name).")
    shared.define_checkpoint_name_flag()
    flags.DEFINE_string("export_path", None, "The release's name for --output_dir. There it is the path of a "
                        "checkpoint without its endings, here it is a directory.")


def main() -> None:
    for ours, releases in (("init_checkpoint", "albert_directory"), ("output_dir", "export_path")):
        if FLAGS[ours].value and FLAGS[releases].value:
            raise ValueError(f"--{ours} and --{releases} exclude each other: set one of them")
    if FLAGS.albert_directory:
        FLAGS.init_checkpoint = shared.checkpoint_in(FLAGS.albert_directory)
    path, output_dir = shared.init_path(), FLAGS.output_dir or FLAGS.export_path
    if not output_dir:
        raise ValueError("--output_dir is missing")
    if not (path or FLAGS.albert_config_file):
        raise ValueError("the model is missing: set --init_checkpoint to weights, or --albert_config_file for random "
                         "weights")
    if FLAGS.upload is not None:
        _check_upload(FLAGS.upload, FLAGS.to)
    selected = shared.resolve_model()
    config, vocabulary = selected.config, selected.vocabulary
    if vocabulary:
        vocabulary.tokenizer(config)  # raises if they belong to different models
    head = selected.head(FLAGS.model) if path else FLAGS.model or "pretrainer"
    arguments = vector_flags.pooling_arguments(selected, head)
    if FLAGS.embedding_size is not None:
        config = config.replace(embedding_size=FLAGS.embedding_size)
    if path is None:
        save_random(config, output_dir, FLAGS.to, head, vocabulary, FLAGS.dtype, **arguments)
    else:
        source = selected.open(path)
        if FLAGS.embedding_size is not None:
            source = widened(source, FLAGS.embedding_size)
        convert(source, output_dir, FLAGS.to, head, config, vocabulary, FLAGS.dtype, **arguments)
    if FLAGS.upload is not None:
        url = hub.upload(output_dir, FLAGS.upload, FLAGS.hub_private_repo)
        logging.info("uploaded to %s", url)


def _check_upload(name: str, to: str) -> None:
    """Checks --upload and --to before anything is written."""
    if to != "hugging_face":
        raise ValueError("--upload needs --to=hugging_face, which programs read from the hub. "
                         f"Received: --to={to}")
    hub.check_upload(name)
