"""Fine-tunes sentence vectors; evaluates them by Spearman's correlation; exports.

    python -m albert_tf run_sentence_embeddings --objective=sts --data_dir=glue --init_checkpoint=albert_base_v2 \\
        --output_dir=sentences --do_train --do_eval

--objective=sts trains on the scores of STS-B, pairs on texts that belong together (two columns of --train_file, and
hard negatives after them), and simcse on single lines of text (--train_file). From --teacher_checkpoint, or vectors in
--teacher_vectors, distillation learns the vectors of such lines, and tokens the hidden states of all their tokens. If
the script is started again with the same flags, training continues from the latest checkpoint.
"""

from albert_tf.tasks.sentence_vectors.config import SentenceVectorsConfig as Options
from albert_tf.utils.imports import loader_of
from albert_tf.utils.processes import command_line

__getattr__ = loader_of(__name__)


def main(options: Options) -> None:
    from albert_tf.tasks.fine_tuning import fine_tune
    from albert_tf.tasks.sentence_vectors.task import SentenceEmbeddings

    fine_tune(SentenceEmbeddings, options, command_line())
