"""Pseudo-log-likelihoods of sentences under a masked language model (Salazar et al., 2020).

Each piece of a sentence is masked once; the score is the sum of the log-probabilities of the masked pieces.

Minimal pairs are a grammatical sentence, and an ungrammatical one that differs from it in one thing. Files are JSON
lines as in BLiMP (Warstadt et al., 2020)::

    {"sentence_good": "The cats annoy Tim.", "sentence_bad": "The cats annoys Tim.", "field": "morphology"}

"field" is optional. Other keys are ignored. Scores and accuracies are those of the BabyLM challenge's evaluation of
masked language models, except that a tie counts as half: there, the first sentence, which is the good one, wins.
"""

from __future__ import annotations

import collections
import os
import reprlib
from typing import Any, Callable, Iterable, Iterator, NamedTuple, Sequence

import numpy as np
import tensorflow as tf

from albert_tf.data.rows import is_parquet, read_objects
from albert_tf.modeling.pretrainer import AlbertPretrainer
from albert_tf.text.packing import SpecialTokens
from albert_tf.text.tokenization import FullTokenizer, list_of_strings, word_starts
from albert_tf.utils.files import expand_globs, names_in
from albert_tf.utils.progress import count_of
from albert_tf.weights.heads import check_vocabulary


class MaskedCopies(NamedTuple):
    """Masked copies of sentences of the same length. Each copy has one piece to predict."""

    rows: np.ndarray  # [copies], the index of each copy's sentence
    ids: np.ndarray  # int32 [copies, seq]
    positions: np.ndarray  # int32 [copies], of the piece to predict
    targets: np.ndarray  # int32 [copies], its id


def score_sentences(
    model: AlbertPretrainer, tokenizer: FullTokenizer, sentences: Sequence[str], within_word_l2r: bool = False,
    tokens_per_batch: int = 8192, places: Sequence[str] | None = None, done: Callable[[int], None] | None = None
) -> np.ndarray:
    """The pseudo-log-likelihood of each sentence, in nats, float64 [sentences].

    Sentences with the same pieces have exactly the same score. A sentence without pieces has the score 0.

    Args:
      within_word_l2r: whether to mask also the pieces to the right of the predicted one in the same word, so that the
        pieces of a rare word do not make each other likely (Kauf and Ivanova, 2023). Words are those of whole-word
        masking (see word_starts).
      tokens_per_batch: the largest number of tokens of a batch of masked copies; a batch has at least one copy.
      places: the name of each sentence in error messages; None for "sentence 1", ...

    Example::

      model = albert_tf.from_pretrained("albert_base_v2", model="pretrainer")
      tokenizer = albert_tf.FullTokenizer(spm_model_file="albert_base_v2/30k-clean.model")
      good, bad = score_sentences(model, tokenizer, ["The cats annoy Tim.", "The cats annoys Tim."])
    """
    if not isinstance(model, AlbertPretrainer):
        raise ValueError('the model must have the masked-LM head: from_pretrained(path, model="pretrainer"). Received: '
                         f"{type(model).__name__}")
    check_vocabulary(tokenizer, model.config)
    rows = tokenizer.encode_batch(list_of_strings("sentences", sentences))
    for number, row in enumerate(rows):
        if len(row) + 2 > model.config.max_position_embeddings:
            place = places[number] if places else f"sentence {number + 1}"
            raise ValueError(f"{place}: {count_of(len(row), 'piece')}, [CLS] and [SEP] exceed the model's "
                             f"{model.config.max_position_embeddings} positions")
    first_of = {row.tobytes(): number for number, row in reversed(list(enumerate(rows)))}
    unique = sorted(first_of.values())
    starts_word = word_starts(tokenizer) if within_word_l2r else None
    special_tokens = SpecialTokens(tokenizer)
    framed = [special_tokens.around(rows[number]) for number in unique]

    @tf.function(autograph=False, input_signature=[tf.TensorSpec([None] * rank, tf.int32) for rank in (2, 1, 1)])
    def log_probabilities(ids, positions, targets):  # [copies, seq], [copies], [copies]; float32 [copies]
        outputs = model(dict(input_ids=ids, input_mask=tf.ones_like(ids), segment_ids=tf.zeros_like(ids),
                             masked_lm_positions=positions[:, None]))
        logits = outputs["mlm_logits"][:, 0]  # [copies, V]
        return -tf.nn.sparse_softmax_cross_entropy_with_logits(labels=targets, logits=logits)

    scores = np.zeros(len(rows))
    for copies in masked_copies(framed, tokenizer.mask_id, starts_word, tokens_per_batch):
        values = log_probabilities(*map(tf.constant, (copies.ids, copies.positions, copies.targets))).numpy()
        np.add.at(scores, np.array(unique)[copies.rows], values)
        if done:
            done(int(np.count_nonzero(copies.positions == copies.ids.shape[1] - 2)))
    if done:
        done(len(rows) - sum(len(row) > 2 for row in framed))  # repeated sentences, and those without pieces
    return scores[[first_of[row.tobytes()] for row in rows]]


def masked_copies(
    rows: Sequence[np.ndarray], mask_id: int, starts_word: np.ndarray | None, tokens_per_batch: int
) -> Iterator[MaskedCopies]:
    """One masked copy for each piece of each row, shortest rows first. The copies of a batch have the same length.

    Rows are [CLS] pieces [SEP], int32 [seq] each. With starts_word (bool [vocab], whether a piece starts a word), the
    pieces of the same word to the right of the predicted one are masked too.
    """
    lengths = np.array([len(row) for row in rows])
    for seq in np.unique(lengths[lengths > 2]):
        numbers = np.flatnonzero(lengths == seq)
        ids = np.stack([rows[number] for number in numbers])  # [rows of this length, seq]
        starts = np.ones(ids.shape, bool) if starts_word is None else starts_word[ids]
        starts[:, -1] = True  # [SEP] is a word of its own
        words = np.cumsum(starts, axis=1)  # the index of each token's word
        pieces, size = seq - 2, max(1, tokens_per_batch // seq)
        for start in range(0, len(ids) * pieces, size):
            copy = np.arange(start, min(start + size, len(ids) * pieces))
            row, position = copy // pieces, 1 + copy % pieces
            is_masked = (words[row] == words[row, position][:, None]) & (np.arange(seq) >= position[:, None])
            masked = np.where(is_masked, np.int32(mask_id), ids[row])
            yield MaskedCopies(numbers[row], masked, position.astype(np.int32), ids[row, position])


# --- minimal pairs ----------------------------------------------------------------------------------------------------


_ENDING = ".jsonl"


class MinimalPair(NamedTuple):
    """A grammatical and an ungrammatical sentence."""

    good: str
    bad: str
    file: str  # its name without the extension
    field: str | None  # the field of linguistics, as in BLiMP
    place: str  # file and line


def read_minimal_pairs(paths: str) -> list[MinimalPair]:
    """Reads the pairs of a comma-separated list of files, globs and folders. Of a folder, all .jsonl files are read."""
    pairs: list[MinimalPair] = []
    path_of: dict[str, str] = {}
    parts = filter(None, (part.strip() for part in paths.split(",")))
    patterns = (pattern for part in parts for pattern in (
        [os.path.join(part, name) for name in sorted(names_in(part)) if name.endswith(_ENDING)]
        or [os.path.join(part, f"*{_ENDING}") if tf.io.gfile.isdir(part) else part]))
    for path in expand_globs(",".join(patterns)):
        name = os.path.splitext(os.path.basename(path))[0] if is_parquet(path) else (
            os.path.basename(path).removesuffix(_ENDING))
        if name in path_of:
            raise ValueError(f"{path_of[name]} and {path} have the same name: accuracies are reported by file name, so "
                             "rename one of them")
        path_of[name] = path
        file_pairs = [_pair(values, name, f"{path} line {line}") for line, values in read_objects(path)]
        if not file_pairs:
            raise ValueError(f"{path} has no pairs")
        pairs += file_pairs
    return pairs


def _pair(values: dict[str, Any], file: str, place: str) -> MinimalPair:
    good, bad, field = (values.get(key) for key in ("sentence_good", "sentence_bad", "field"))
    if not isinstance(good, str) or not isinstance(bad, str):
        raise ValueError(f"{place}: sentence_good and sentence_bad must be strings. "
                         f"Received: {reprlib.repr([good, bad])}")
    if field is not None:  # one of BLiMP's files spells it in the second way
        field = str(field).replace("syntax_semantics", "syntax/semantics")
    return MinimalPair(good, bad, file, field, place)


def accuracies(pairs: Sequence[MinimalPair], good: Sequence[float], bad: Sequence[float]) -> dict:
    """Accuracy over all pairs, by file and by field; a tie counts as half. "mean_of_files" weighs all files equally.

      {"all": 0.75, "mean_of_files": 0.75, "files": {"anaphor_number_agreement": 0.75}, "fields": {"morphology": 0.75}}
    """
    credit = (1 + np.sign(np.subtract(good, bad))) / 2  # 1, 0.5 for a tie, or 0
    files = _means((pair.file for pair in pairs), credit)
    return {"all": float(np.mean(credit)), "mean_of_files": float(np.mean(list(files.values()))), "files": files,
            "fields": _means((pair.field for pair in pairs), credit)}


def _means(names: Iterable[str | None], credit: np.ndarray) -> dict[str, float]:
    values = collections.defaultdict(list)
    for name, value in zip(names, credit):
        if name is not None:
            values[name].append(value)
    return {name: float(np.mean(values[name])) for name in values}
