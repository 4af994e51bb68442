"""An ALBERT as TensorFlow Lite models: float32, float16 and int8.

    python export_to_tflite.py --init_checkpoint=albert_base_v2 --model=pretrainer --output_dir=tflite

writes output_dir/pretrainer_float32.tflite and so on, and prints their sizes and how far their outputs are from the
model's. int8 is TensorFlow Lite's dynamic range: 8-bit weights, float32 inputs and outputs.
"""

import os

from albert_tf import cli  # isort: split

import tensorflow as tf
from absl import flags

from albert_tf import bounds, flags as shared
from albert_tf.files import check_directory, written_whole
from albert_tf.interchange import tflite
from albert_tf.interchange.heads import MODELS
from albert_tf.required_flags import define_required

shared.define_source_flags()
flags.DEFINE_enum("model", "encoder", list(MODELS), "The encoder alone, or with the head that the weights have.")
shared.define_pooling_flags()
define_required("output_dir", "Where the models go.")
flags.DEFINE_multi_enum("precision", list(tflite.PRECISIONS), tflite.PRECISIONS,
                        "Which models to write. May be given several times.")
flags.DEFINE_integer("max_seq_length", 128, "Tokens of an input, which is padded to that.", *bounds.SEQ_LENGTH)
flags.DEFINE_integer("max_predictions_per_seq", 20, "masked_lm_positions of an input, of a pretrainer.",
                     *bounds.PREDICTIONS)
FLAGS = flags.FLAGS


def main():
    check_directory(FLAGS.output_dir)
    model = shared.pretrained(FLAGS.model, **shared.pooling_arguments(FLAGS.model))
    shared.check_length(FLAGS.max_seq_length, model.config)
    shape = dict(max_seq_length=FLAGS.max_seq_length, max_predictions_per_seq=FLAGS.max_predictions_per_seq)
    for precision in FLAGS.precision:
        flatbuffer = tflite.convert(model, precision, **shape)
        path = os.path.join(FLAGS.output_dir, f"{FLAGS.model}_{precision}.tflite")
        with written_whole(path) as temporary, tf.io.gfile.GFile(temporary, "wb") as file:
            file.write(flatbuffer)
        print(f"{path}: {len(flatbuffer) / 1e6:.1f} MB; largest difference to the model:")
        for name, difference in tflite.differences(flatbuffer, model, **shape).items():
            print(f"    {name:<20}{difference:.2g}")


if __name__ == "__main__":
    cli.run(main)
