"""Converts a model between the release's TF1 checkpoints, ours, Hugging Face's folders and TF-Hub modules, with heads.

    python convert_checkpoint.py --init_checkpoint=albert_base_v2.tar.gz --to=hugging_face --output_dir=albert_hf
    python convert_checkpoint.py --init_checkpoint=model_dir --to=tf1 --output_dir=released

Optimizer slots stay behind, so this is export_checkpoints of the release too, whose flags are taken:

    python convert_checkpoint.py --albert_directory=model_dir --checkpoint_name=model.ckpt-best --export_path=exported
"""

import os

from albert_tf import cli  # isort: split

from absl import flags

from albert_tf import flags as shared
from albert_tf.interchange.conversion import FORMATS, convert
from albert_tf.interchange.heads import MODELS
from albert_tf.interchange.hugging_face.writing import DTYPES
from albert_tf.interchange.open_source import open_source

shared.define_model_flags()
shared.define_vocabulary_flags()
flags.DEFINE_enum("to", "tf1", list(FORMATS), "The form that is written.")
flags.DEFINE_string("output_dir", None, "Where it goes.")
flags.DEFINE_enum("dtype", "float32", list(DTYPES), "Type of the weights that --to=hugging_face writes.")
flags.DEFINE_enum("model", None, list(MODELS), "Which model it is; default: what its variables tell.")
flags.DEFINE_string("albert_directory", None, "The release's name for the directory of --init_checkpoint.")
flags.DEFINE_string("checkpoint_name", "model.ckpt-best", "The checkpoint in --albert_directory.")
flags.DEFINE_string("export_path", None, "The release's name for --output_dir.")
FLAGS = flags.FLAGS


def main():
    if FLAGS.albert_directory:
        FLAGS.init_checkpoint = os.path.join(FLAGS.albert_directory, FLAGS.checkpoint_name)
    path, output_dir = shared.starting_point(), FLAGS.output_dir or FLAGS.export_path
    if not (path and output_dir):
        raise ValueError("--init_checkpoint and --output_dir are wanted")
    config, vocabulary = shared.config(), shared.vocabulary()
    if vocabulary:
        shared.check_vocabulary(vocabulary.tokenizer(), config)
    convert(open_source(path, shared.is_trusted(path)), output_dir, FLAGS.to, FLAGS.model, config, vocabulary,
            FLAGS.dtype)


if __name__ == "__main__":
    cli.run(main)
