"""Finds the lines of a file that are nearest to a query, by sentence vectors.

    python -m albert_tf search_sentences --init_checkpoint=all-MiniLM-L6-v2 --input_file=lines.txt \\
        --vectors_file=vectors.npy --query="Who sold the boat?"

prints the nearest lines of each query, each with its cosine and its line number in the file. extract_embeddings writes
the vectors of the lines. With --rerank_checkpoint, a model that ranks (run_classifier with "regression": true, or a
CrossEncoder of sentence-transformers) orders the nearest lines by its scores.
"""

from __future__ import annotations

import dataclasses

from albert_tf import keras, options as fields
from albert_tf.data.rows import read_texts, text_column_option
from albert_tf.text.lines import read_standard_input
from albert_tf.training.config import Precision
from albert_tf.utils import bounds
from albert_tf.utils.files import check_characters
from albert_tf.weights.source import Pooling, Prompt, Source, Texts


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(Source, Pooling, Prompt, Texts, Precision):
    input_file: str = fields.required("Path of the UTF-8 text file to search. Empty lines are skipped.")
    text_column: str | None = text_column_option("text")
    vectors_file: str = fields.required(
        "Path of the vectors of the lines that extract_embeddings has written, with the same model, --pooling, "
        "--truncate_dim and --max_seq_length.")
    query: tuple[str, ...] = fields.texts(
        "A text to search for. Repeat the flag for several queries. Default: the lines of standard input that "
        "are not empty.")
    top_k: int = fields.integer(5, "Number of lines to print for each query.", bounds.CANDIDATES)
    rerank_checkpoint: str | None = fields.string(
        None, "A model that ranks, which orders the nearest lines again: any path that --init_checkpoint accepts. "
        "Default: lines are ordered by their cosines.")
    num_candidates: int = fields.integer(
        50, "Number of nearest lines of a query that --rerank_checkpoint scores.", bounds.CANDIDATES)


def main(options: Options) -> None:
    from albert_tf.tasks.classification.answers import RelevanceScorer
    from albert_tf.tasks.sentence_vectors.vectors import made_with, nearest_lines, open_vectors, unit_vectors_function
    from albert_tf.weights.from_pretrained import from_pretrained, tokenizer_from_pretrained
    from albert_tf.weights.resolved_model import resolve, sentence_pooling

    for query in options.query or ():
        check_characters(query, "--query")
    keras.mixed_precision.set_global_policy(options.precision)
    lines = list(read_texts(options.input_file, options.text_column))
    if not any(map(str.strip, lines)):
        raise ValueError(f"{options.input_file} has no lines")
    selected = resolve(options)
    model = selected.pretrained("sentence_encoder", **sentence_pooling(selected, options))
    tokenizer = selected.vocabulary.tokenizer(model.config)
    scorer = RelevanceScorer(
        from_pretrained(options.rerank_checkpoint, model="classifier"),
        tokenizer_from_pretrained(options.rerank_checkpoint), options.batch_size) if options.rerank_checkpoint else None
    vectors, precision = open_vectors(options.vectors_file, len(lines), model.vector_size, made_with(model, tokenizer))
    queries = list(options.query or filter(None, map(str.strip, read_standard_input())))
    if not queries:
        raise ValueError("there are no queries")
    results = nearest_lines(unit_vectors_function(model, tokenizer, options.batch_size)(queries), lines, vectors,
                            precision, max(options.top_k, options.num_candidates) if scorer else options.top_k)
    for query, neighbours in zip(queries, results):
        print(query)
        scores = [neighbour.cosine for neighbour in neighbours]  # the best first
        if scorer:
            scores = scorer([query] * len(neighbours), [neighbour.text for neighbour in neighbours]).tolist()
        by_score = sorted(zip(scores, neighbours), key=lambda scored: -scored[0])
        for score, neighbour in by_score[: options.top_k]:
            print(f"    {score:.4f}  {neighbour.line}  {neighbour.text}")
