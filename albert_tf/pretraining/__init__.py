"""Pre-trains ALBERT on records of create_pretraining_data.py, and evaluates it.

    python -m albert_tf run_pretraining --albert_config_file=albert_base_v2 --input_file='data/train*.tfrecord' \\
        --eval_input_file=data/dev.tfrecord --do_eval --output_dir=model --spm_model_file=30k-clean.model

If it is started again with the same flags, it continues from the latest checkpoint, and ends with exactly the same
weights as without the interruption. The vocabulary is optional: it is copied to --output_dir, where other scripts find
it.
"""

from albert_tf.pretraining.config import PretrainingConfig as Options
from albert_tf.utils.imports import loader_of
from albert_tf.utils.processes import command_line

__getattr__ = loader_of(__name__)


def main(options: Options) -> None:
    from albert_tf.pretraining.pretrain import pretrain

    pretrain(options, command_line())
