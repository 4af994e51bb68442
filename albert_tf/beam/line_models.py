"""Computes sentence vectors, or scores of sentences, of lines of text with Beam workers."""

from __future__ import annotations

import functools
import json
from typing import Any, Callable

import numpy as np
import tensorflow as tf
from apache_beam.options.pipeline_options import PipelineOptions

from albert_tf import keras
from albert_tf.beam.prediction import Arrays, Block, predict_lines
from albert_tf.modeling.pretrainer import AlbertPretrainer
from albert_tf.modeling.sentence_encoder import AlbertSentenceEncoder
from albert_tf.tasks.masked_lm.sentence_scores import log_probabilities_function, score_by
from albert_tf.tasks.sentence_vectors.embeddings import (
    companions,
    embed_by,
    token_ids,
    vectors_function,
    write_token_files,
)
from albert_tf.text.tokenization import FullTokenizer
from albert_tf.utils.arrays import array_writer
from albert_tf.utils.outputs import write_text


def extract_embeddings(
    input_files: list[str], output_files: list[str], model: AlbertSentenceEncoder, tokenizer: FullTokenizer,
    max_seq_length: int, batch_size: int, per_token: bool, made_from: dict, options: PipelineOptions,
    text_column: str | None = None,
) -> int:
    """Writes the vectors of all lines to .npy files, one per shard. Returns the number of lines.

    Args:
      input_files: UTF-8 text files.
      output_files: paths of the .npy files. With per_token, each has its own token_files.
      model: the encoder with its pooling.
      tokenizer: the model's tokenizer.
      max_seq_length: the largest number of tokens of a line; longer lines are truncated.
      batch_size: number of lines in a batch.
      per_token: whether to write one vector per token.
      made_from: the made_from entry of the manifests.
      options: the pipeline's options.
      text_column: see predict_lines.

    Raises:
      ValueError, OSError: see predict_lines.
    """
    predict = functools.partial(_embed, tokenizer=tokenizer, max_seq_length=max_seq_length, batch_size=batch_size,
                                per_token=per_token)
    write = functools.partial(_write_vectors, per_token=per_token,
                              size=model.config.hidden_size if per_token else model.vector_size)
    return predict_lines(input_files, output_files, _saver(model, vectors_function(model)), predict, write, made_from,
                         options, functools.partial(companions, per_token=per_token), text_column)


def score_lines(
    input_files: list[str], output_files: list[str], model: AlbertPretrainer, tokenizer: FullTokenizer,
    within_word_l2r: bool, tokens_per_batch: int, made_from: dict, options: PipelineOptions,
    text_column: str | None = None,
) -> int:
    """Writes the pseudo-log-likelihoods of all lines to JSON files, {"scores": [...]}. Returns the number of lines.

    Args:
      input_files: UTF-8 text files.
      output_files: paths of the JSON files, one per shard.
      model: the model with its masked-LM head.
      tokenizer: the model's tokenizer.
      within_word_l2r, tokens_per_batch: see score_sentences.
      made_from: the made_from entry of the manifests.
      options: the pipeline's options.
      text_column: see predict_lines.

    Raises:
      ValueError, OSError: see predict_lines.
    """
    predict = functools.partial(_score, longest=model.config.max_position_embeddings, tokenizer=tokenizer,
                                within_word_l2r=within_word_l2r, tokens_per_batch=tokens_per_batch)
    return predict_lines(input_files, output_files, _saver(model, log_probabilities_function(model)), predict,
                         _write_scores, made_from, options, text_column=text_column)


def _saver(model: keras.Model, function: Callable) -> Callable[[str], None]:
    """Returns a function that writes a SavedModel whose `predict` is a tf.function of a model."""

    def save(folder: str) -> None:
        module = tf.Module()
        module.variables_of_model, module.predict = model.variables, function
        tf.saved_model.save(module, folder)

    return save


# --- what the workers call -------------------------------------------------------------------------------------------


def _embed(model: Any, block: Block, tokenizer: FullTokenizer, max_seq_length: int, batch_size: int, per_token: bool
           ) -> Arrays:
    rows = token_ids(tokenizer, block.lines, max_seq_length) if block.lines else []
    vectors = sorted(embed_by(model.predict, rows, batch_size), key=lambda vectors: vectors.text)
    if not vectors:
        return {}
    if not per_token:
        return dict(vectors=np.stack([vector.pooled for vector in vectors]))
    return dict(vectors=np.concatenate([vector.tokens for vector in vectors]), input_ids=np.concatenate(rows),
                lengths=np.array([len(row) for row in rows], np.int64))


def _write_vectors(path: str, blocks: list[Arrays], size: int, per_token: bool) -> None:
    first = 0
    with array_writer(path, (sum(len(block["vectors"]) for block in blocks), size)) as write:
        for block in blocks:
            write(first, block["vectors"])
            first += len(block["vectors"])
    if per_token:
        lengths = [np.empty(0, np.int64), *(block["lengths"] for block in blocks)]
        input_ids = [np.empty(0, np.int32), *(block["input_ids"] for block in blocks)]
        write_token_files(path, np.concatenate(lengths), np.concatenate(input_ids))


def _score(model: Any, block: Block, longest: int, tokenizer: FullTokenizer, within_word_l2r: bool,
           tokens_per_batch: int) -> Arrays:
    if not block.lines:
        return {}
    places = [block.line_name(index) for index in range(len(block.lines))]
    return dict(scores=score_by(model.predict, longest, tokenizer, block.lines, within_word_l2r, tokens_per_batch,
                                places))


def _write_scores(path: str, blocks: list[Arrays]) -> None:
    scores = [score for block in blocks for score in block["scores"].tolist()]
    write_text(path, json.dumps(dict(scores=scores), indent=2) + "\n")
