"""Tiny configs, rows and graphs that tests share. A test names only what matters: TINY.replace(num_hidden_layers=4).

The fixtures `config_file` and `tiny_spm` of conftest.py are TINY_TEXT as the file of a command, and its vocabulary.
"""

import functools

import numpy as np

from albert_tf.config import AlbertConfig

# For rows of ids, as `rows` makes them.
TINY = AlbertConfig(vocab_size=20, embedding_size=4, hidden_size=8, num_hidden_layers=2, num_attention_heads=2,
                    intermediate_size=16, max_position_embeddings=16)
# For texts. golden/tiny_spm/tiny.model has 2,000 pieces.
TINY_TEXT = TINY.replace(vocab_size=2000, embedding_size=8, hidden_size=16, num_hidden_layers=1,
                         max_position_embeddings=64)


def rows(*lengths: int, vocab_size: int = TINY.vocab_size, seed: int = 0) -> dict[str, np.ndarray]:
    """Random rows of so many ids, padded to the longest, with a second segment: what a model takes."""
    random, shape = np.random.default_rng(seed), (len(lengths), max(lengths))
    mask = np.arange(shape[1]) < np.array(lengths)[:, None]
    ids, segments = random.integers(5, vocab_size, shape), np.arange(shape[1]) > shape[1] // 2
    return {name: np.where(mask, values, 0).astype(np.int32)
            for name, values in dict(input_ids=ids, input_mask=1, segment_ids=segments).items()}


def values_of(model) -> dict[str, np.ndarray]:
    """The values of a model's variables by their names in the release."""
    from albert_tf.modeling.layers import release_name

    return {release_name(variable): variable.numpy() for variable in model.weights}


@functools.lru_cache(maxsize=None)
def graph_of(tokenizer):
    """The GraphTokenizer of a tokenizer, whose tables take seconds to make."""
    from albert_tf.text.graph.tokenization import GraphTokenizer

    return GraphTokenizer(tokenizer)
