"""Fine-tunes ALBERT on SQuAD 1.1 or 2.0; scores, predicts, answers questions, exports.

    python -m albert_tf run_squad --train_file=train-v2.0.json --predict_file=dev-v2.0.json \\
        --init_checkpoint=albert_base_v2 --output_dir=squad --recipe=squad_v2 --do_train --do_predict

    python -m albert_tf run_squad --output_dir=squad --ask --context_file=text.txt

If it is started again with the same flags, training continues from the latest checkpoint. The script accepts the flags
of the release's run_squad_v1.py and run_squad_v2.py.
"""

from albert_tf.tasks.squad.config import SquadConfig as Options
from albert_tf.utils.imports import loader_of
from albert_tf.utils.processes import command_line

_MODULE_OF = {
    "SquadExample": "reading",
    "SquadFeature": "features",
    "read_squad_examples": "reading",
    "convert_examples_to_features": "features",
    "evaluate_v1": "metrics",
    "evaluate_v2": "metrics",
}
__all__ = sorted(_MODULE_OF)
__getattr__ = loader_of(__name__, _MODULE_OF)


def main(options: Options) -> None:
    from albert_tf.tasks.fine_tuning import fine_tune
    from albert_tf.tasks.squad.task import QuestionAnswering

    fine_tune(QuestionAnswering, options, command_line())
