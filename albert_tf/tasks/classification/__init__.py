"""Fine-tunes ALBERT on a GLUE task or on your data; evaluates, predicts, exports.

    python -m albert_tf run_classifier --task_name=rte --data_dir=glue --init_checkpoint=albert_base_v2 \\
        --output_dir=rte --recipe=rte --do_train --do_eval --do_predict

If it is started again with the same flags, training continues from the latest checkpoint. run_glue.py runs all tasks of
a folder.
"""

from albert_tf.tasks.classification.config import ClassifierConfig as Options
from albert_tf.utils.imports import loader_of
from albert_tf.utils.processes import command_line

_MODULE_OF = {
    "read_examples": "data",
    "convert_examples_to_features": "data",
}
__all__ = sorted(_MODULE_OF)
__getattr__ = loader_of(__name__, _MODULE_OF)


def main(options: Options) -> None:
    from albert_tf.tasks.classification.task import TextClassification
    from albert_tf.tasks.fine_tuning import fine_tune

    fine_tune(TextClassification, options, command_line())
