"""albert_tf's preparation of SQuAD for training: from the JSON to features in memory, or to records that are read back.

    python -m benchmarks.workers.squad_ours train-v1.1.json 30k-clean.model MAX_SEQ_LENGTH DOC_STRIDE memory|records
"""

import sys
import tempfile

from albert_tf import FullTokenizer
from albert_tf.data.feature_table import FeatureCache
from albert_tf.tasks.squad.features import FeatureOptions, feature_blocks, training_table
from albert_tf.tasks.squad.reading import read_paragraphs, read_squad_file
from benchmarks.workers.serving import serve

_WORKERS = 2


def make_step():
    path, spm_model_file, max_seq_length, doc_stride, kind = sys.argv[1:6]
    options = FeatureOptions(int(max_seq_length), int(doc_stride), max_query_length=64, is_training=True)
    file, tokenizer = read_squad_file(path), FullTokenizer(spm_model_file=spm_model_file)

    def in_memory():
        return list(feature_blocks(read_paragraphs(file, is_training=True), tokenizer, options, _WORKERS))

    def as_records():
        with tempfile.TemporaryDirectory() as folder:
            return training_table(FeatureCache(tokenizer, folder), file, options, _WORKERS)

    return in_memory if kind == "memory" else as_records


if __name__ == "__main__":
    serve(make_step, first_steps=1)
