"""Data creation: sizes of tasks and buckets, checks, and the manifest's content. Both engines (local, Beam) use it."""

from __future__ import annotations

import collections
import dataclasses
import sys

from albert_tf.data.feature_cache import tokenizer_key
from albert_tf.pretraining.corpus import Corpus
from albert_tf.pretraining.worker import CreationOptions
from albert_tf.text.tokenization import FullTokenizer

# Tokens of a worker's task that has several small documents.
TASK_TOKENS = 200_000
# Sentences (about as many tokens as TASK_TOKENS) after which a document is split, so that several workers share it and
# none has all of it in memory.
LONGEST_PART = 8192
# The largest size of a bucket of records in bytes, by a generous estimate.
_BUCKET_BYTES = 32 << 20


def longest_part(options: CreationOptions) -> int:
    """Sentences after which a document is split: never if release_compatible, which draws one length per document."""
    return sys.maxsize if options.segments.release_compatible else LONGEST_PART


def num_buckets(corpus: Corpus, options: CreationOptions, num_outputs: int) -> int:
    """The number of buckets, a multiple of num_outputs. Padding counts, since short documents make padded records."""
    examples = 2 * options.dupe_factor * (corpus.num_tokens // options.segments.max_seq_length + len(corpus))
    size = examples * (6 * options.segments.max_seq_length + 10 * options.masking.record_predictions)
    return num_outputs * (1 + size // (_BUCKET_BYTES * num_outputs))


def check_corpus(corpus: Corpus, options: CreationOptions) -> None:
    """Raises ValueError if a corpus is too small for the objective."""
    if options.segments.objective == "nsp" and len(corpus) < 2:
        raise ValueError("the next-sentence objective needs at least two documents, since segment B is from another "
                         "one: separate documents by a blank line")


def check_statistics(statistics: collections.Counter[str]) -> None:
    """Raises ValueError if no example was made."""
    if not statistics["examples"]:
        raise ValueError("no examples were made: every document has one word only")


def made_from(options: CreationOptions, tokenizer: FullTokenizer) -> dict:
    """The made_from entry in the manifest of each output."""
    splitting = {} if options.split_lines is None else dict(split_lines=options.split_lines)
    return dict(dataclasses.asdict(options.segments), **dataclasses.asdict(options.masking), **splitting,
                dupe_factor=options.dupe_factor, random_seed=options.random_seed, vocab_size=tokenizer.vocab_size,
                **tokenizer_key(tokenizer))
