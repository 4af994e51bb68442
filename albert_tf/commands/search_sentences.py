"""Finds the lines of a file that are nearest to a query, by sentence vectors.

    python -m albert_tf search_sentences --init_checkpoint=all-MiniLM-L6-v2 --input_file=lines.txt \\
        --query="Who sold the boat?"

prints the nearest lines of each query, each with its cosine and its line number in the file. The file is read in
blocks, and only the vectors of one block are in memory.
"""

import dataclasses

from absl import flags

from albert_tf import keras
from albert_tf.commands import shared_flags as shared
from albert_tf.data.texts import read_texts
from albert_tf.tasks.sentence_vectors.search import nearest_lines
from albert_tf.text.lines import read_standard_input
from albert_tf.utils import bounds
from albert_tf.utils.json_files import check_characters

FLAGS = flags.FLAGS


def define_flags() -> None:
    shared.define_source_flags()
    shared.define_vocabulary_flags()
    shared.define_pooling_flags(with_normalize=False)
    shared.define_required("input_file", "Path of the UTF-8 text file whose lines are searched. Empty lines are "
                           "skipped.")
    shared.define_text_column_flag()
    flags.DEFINE_multi_string("query", None, "A text to search for. Repeat the flag for several queries. Default: the "
                              "lines of standard input that are not empty.")
    shared.define_integer("top_k", 5, "Number of lines to print for each query.", *bounds.CANDIDATES)
    shared.define_integer("max_seq_length", None, "Largest number of tokens of a text; longer texts are truncated. "
                          "Default: the number stored with the weights, or the model's max_position_embeddings if none "
                          "is stored.", *bounds.SEQ_LENGTH.at_least(3))
    shared.define_integer("batch_size", 32, "Number of lines in a batch.", *bounds.BATCH_SIZE)
    shared.define_integer("block_size", 4096, "Number of lines whose vectors are in memory at a time.",
                          *bounds.BATCH_SIZE)
    shared.define_precision_flag()


def main() -> None:
    for query in FLAGS.query or ():
        check_characters(query, "--query")
    keras.mixed_precision.set_global_policy(FLAGS.precision)
    lines = read_texts(FLAGS.input_file, FLAGS.text_column)
    selected = shared.resolve_model()
    model = selected.pretrained("sentence_encoder", **dataclasses.asdict(shared.sentence_pooling(selected)))
    tokenizer = selected.vocabulary.tokenizer(model.config)
    queries = list(FLAGS.query or filter(None, map(str.strip, read_standard_input())))
    results = nearest_lines(model, tokenizer, queries, lines, FLAGS.top_k, FLAGS.batch_size, FLAGS.block_size)
    if not any(results):
        raise ValueError(f"{FLAGS.input_file} has no lines")
    for query, neighbours in zip(queries, results):
        print(query)
        for neighbour in neighbours:
            print(f"    {neighbour.cosine:.4f}  {neighbour.line}  {neighbour.text}")
