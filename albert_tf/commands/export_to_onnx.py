"""Exports an ALBERT as ONNX models: float32, float16 and int8.

    python -m albert_tf export_to_onnx --init_checkpoint=albert_base_v2 --output_dir=onnx

writes onnx/pretrainer_float32.onnx and so on, and prints the size of each and the largest difference between its
outputs in ONNX Runtime and the model's. The files take batches of any size and length. Weights that layers share are
stored once. It needs the packages onnx and onnxruntime (requirements.txt has them).

With --score_data, the model is scored on a dev file before and after the export, and --max_score_drop=0.005 writes
nothing if a precision loses more than half a per cent of the score. Beside the files are those that reading texts
needs, so that the server can use them:

    python -m albert_tf serve --onnx_model=onnx/pretrainer_int8.onnx
"""

import functools
import os

from absl import flags

from albert_tf.commands import flag_fields as fields, scored_exports, shared_flags as shared, vector_flags
from albert_tf.commands.scored_exports import check_scores
from albert_tf.export.onnx.graph import PRECISIONS
from albert_tf.export.onnx.session import OnnxModel
from albert_tf.export.onnx.writing import (
    check_no_other_model,
    check_packages,
    differences,
    to_onnx,
    write_companions,
)
from albert_tf.export.outputs import write_and_compare
from albert_tf.utils.outputs import model_files, used_alone
from albert_tf.weights.settings import settings_of

FLAGS = flags.FLAGS

# The number of tokens and masked tokens of the inputs on which a file is compared with the model.
_COMPARED_LENGTH, _COMPARED_PREDICTIONS = 64, 8


def define_flags() -> None:
    shared.define_source_flags()
    shared.define_head_flag("exported")
    vector_flags.define_pooling_flags()
    vector_flags.define_vector_flags()
    shared.define_num_layers_flag()
    fields.define_required("output_dir", "Directory of the ONNX files.")
    flags.DEFINE_multi_enum("precision", list(PRECISIONS), PRECISIONS, "Precision of the weights. One file is written "
                            "for each. Repeat the flag for several values.")
    flags.DEFINE_string("int8_in_float32", "", "Regular expression of the names of weights that stay float32 in int8: "
                        "attention_ for the attention, with which a model of many layers that share their weights "
                        "loses less. Default: none but biases, LayerNorms and the last layers of heads.")
    scored_exports.define_score_flags()


def main() -> None:
    with used_alone(FLAGS.output_dir, "export"):
        selected = shared.resolve_model()
        head = selected.head(FLAGS.model)
        model = selected.pretrained(head, **vector_flags.pooling_arguments(selected, head))
        check_packages()
        names = {precision: f"{head}_{precision}.onnx" for precision in FLAGS.precision}
        check_no_other_model(model, FLAGS.output_dir, selected.vocabulary, names.values())
        score = scored_exports.scorer_from_flags(selected, head)
        contents = {precision: to_onnx(model, precision, FLAGS.int8_in_float32) for precision in FLAGS.precision}
        if score:
            settings = settings_of(model)
            check_scores(score, model, (
                (precision, functools.partial(OnnxModel, content, settings))
                for precision, content in contents.items()), FLAGS.max_score_drop)
        length = min(_COMPARED_LENGTH, model.config.max_position_embeddings)
        compared = {precision: differences(content, model, length, _COMPARED_PREDICTIONS)
                    for precision, content in contents.items()}
        with model_files(FLAGS.output_dir, "onnx", {}, names.values()):
            write_companions(model, FLAGS.output_dir, selected.vocabulary)
            for precision, content in contents.items():
                write_and_compare(os.path.join(FLAGS.output_dir, names[precision]), content, compared[precision])
