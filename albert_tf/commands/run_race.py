"""Fine-tunes ALBERT on RACE or other multiple choice; evaluates, predicts, exports.

    python -m albert_tf run_race --data_dir=data --init_checkpoint=albert_base_v2 --output_dir=race --recipe=race_v2 \\
        --do_predict

    python -m albert_tf run_race --data_dir=mine --data_format=jsonl --init_checkpoint=albert_base_v2 \\
        --output_dir=mine_trained

If it is started again with the same flags, training continues from the latest checkpoint.
albert_tf/tasks/multiple_choice/data.py shows the JSON lines.
"""

from albert_tf.commands import flags, usage
from albert_tf.tasks.multiple_choice.config import MultipleChoiceConfig


def define_flags() -> None:
    flags.define(MultipleChoiceConfig, seed="random_seed", num_keep_checkpoint="keep_checkpoint_max")


def main() -> None:
    from albert_tf.tasks.multiple_choice.fine_tuning import MultipleChoice

    MultipleChoice(flags.read(MultipleChoiceConfig, has_recipe=True), usage.command_line()).run()
