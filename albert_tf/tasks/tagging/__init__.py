"""Fine-tunes ALBERT to tag words, such as names; evaluates, predicts, exports.

    python -m albert_tf run_tagging --train_file=train.conll --eval_file=dev.conll --predict_file=test.conll \\
        --init_checkpoint=albert_base_v2 --output_dir=tagger --recipe=tagging --do_train --do_eval --do_predict

albert_tf/tasks/tagging/reading.py describes the files. If the script is started again with the same flags, training
continues from the latest checkpoint.
"""

from albert_tf.tasks.tagging.config import TaggingConfig as Options
from albert_tf.utils.imports import loader_of
from albert_tf.utils.processes import command_line

__getattr__ = loader_of(__name__)


def main(options: Options) -> None:
    from albert_tf.tasks.fine_tuning import fine_tune
    from albert_tf.tasks.tagging.task import Tagging

    fine_tune(Tagging, options, command_line())
