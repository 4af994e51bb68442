"""Fine-tunes ALBERT on RACE or other multiple choice; evaluates, predicts, exports.

    python -m albert_tf run_race --data_dir=data --init_checkpoint=albert_base_v2 --output_dir=race --recipe=race_v2 \\
        --do_predict

    python -m albert_tf run_race --data_dir=mine --data_format=jsonl --init_checkpoint=albert_base_v2 \\
        --output_dir=mine_trained

If it is started again with the same flags, training continues from the latest checkpoint.
albert_tf/tasks/multiple_choice/data.py shows the JSON lines.
"""

from albert_tf.tasks.multiple_choice.config import MultipleChoiceConfig as Options
from albert_tf.utils.imports import loader_of
from albert_tf.utils.processes import command_line

_MODULE_OF = {
    "read_examples": "data",
    "convert_examples_to_features": "data",
}
__all__ = sorted(_MODULE_OF)
__getattr__ = loader_of(__name__, _MODULE_OF)


def main(options: Options) -> None:
    from albert_tf.tasks.fine_tuning import fine_tune
    from albert_tf.tasks.multiple_choice.task import MultipleChoice

    fine_tune(MultipleChoice, options, command_line())
