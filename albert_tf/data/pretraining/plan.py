"""How the work of data creation is cut, what is refused, and what a manifest says: the same for both engines."""

from __future__ import annotations

import collections
import dataclasses
import sys

from albert_tf.data.pretraining.corpus import Corpus
from albert_tf.data.pretraining.worker import CreationOptions

# Tokens of small documents that one task of a worker takes. Sentences after which a document is cut, so that workers
# can share it and none has to hold it: about as many tokens.
TASK_TOKENS = 200_000
LONGEST_PART = 8192
# Bytes of records that one bucket holds at most, by a generous estimate.
_BUCKET_BYTES = 32 << 20


def longest_part(options: CreationOptions) -> int:
    """Sentences after which a document is cut. The release draws a short length for a whole document."""
    return sys.maxsize if options.segments.release_compatible else LONGEST_PART


def num_buckets(corpus: Corpus, options: CreationOptions, num_outputs: int) -> int:
    """A multiple of the number of outputs. Short documents make many records that are mostly padding."""
    examples = 2 * options.dupe_factor * (corpus.num_tokens // options.segments.max_seq_length + len(corpus))
    size = examples * (6 * options.segments.max_seq_length + 10 * options.masking.record_predictions)
    return num_outputs * (1 + size // (_BUCKET_BYTES * num_outputs))


def check_corpus(corpus: Corpus, options: CreationOptions) -> None:
    """Raises ValueError where a corpus is too small for the objective."""
    if options.segments.objective == "nsp" and len(corpus) < 2:
        raise ValueError("the next-sentence objective needs at least two documents: B comes from another one")


def check_statistics(statistics: collections.Counter[str]) -> None:
    """Raises ValueError where no example was made."""
    if not statistics["examples"]:
        raise ValueError("no example came out: every document is one word")


def made_from(options: CreationOptions) -> dict:
    """What the manifest of each output says."""
    return dict(dataclasses.asdict(options.segments), **dataclasses.asdict(options.masking),
                dupe_factor=options.dupe_factor, random_seed=options.random_seed)
