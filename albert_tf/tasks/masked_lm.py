"""Uses a masked-LM head on raw text: fills [MASK], in Python and in exported models, and scores sentences.

Scores of sentences are pseudo-log-likelihoods (Salazar et al., 2020): each piece of a sentence is masked once, and the
score is the sum of the log-probabilities of the masked pieces.

Minimal pairs are a grammatical sentence, and an ungrammatical one that differs from it in one thing. Files are JSON
lines as in BLiMP (Warstadt et al., 2020)::

    {"sentence_good": "The cats annoy Tim.", "sentence_bad": "The cats annoys Tim.", "field": "morphology"}

"field" is optional. Other keys are ignored. Scores and accuracies are as in the BabyLM challenge's evaluation of
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
from albert_tf.export.saved_model import TextSignature, export_model, sequence_features
from albert_tf.modeling.pretrainer import AlbertPretrainer
from albert_tf.modeling.settings import PretrainerSettings
from albert_tf.text.graph.packing import numbers_in_rows, pack_ids
from albert_tf.text.graph.tokenization import GraphTokenizer
from albert_tf.text.packing import SpecialTokens, padded_rows
from albert_tf.text.pieces import WORD_START
from albert_tf.text.tokenization import FullTokenizer, list_of_strings, word_starts
from albert_tf.utils.files import expand_globs, names_in
from albert_tf.utils.progress import count_of
from albert_tf.weights.heads import checked_settings
from albert_tf.weights.vocabulary import check_vocabulary

MASK = "[MASK]"


class Filling(NamedTuple):
    """A piece of the vocabulary and its probability at the mask."""

    piece: str
    probability: float


def fill_masks(model, tokenizer, text: str, top_k: int = 5) -> list[list[Filling]]:
    """The top_k most likely pieces for each [MASK] of a text, best first.

    Args:
      model: an AlbertPretrainer, or an exported one (from_onnx).
      tokenizer: the model's tokenizer.
      text: raw text with at least one [MASK].
      top_k: number of pieces per mask.

    Raises:
      ValueError: the model has no masked-LM head, the tokenizer is not the model's, text is not a string, it has no
        [MASK], or it has more tokens than max_position_embeddings.
    """
    checked_settings(model, tokenizer, PretrainerSettings)
    if not isinstance(text, str):
        raise ValueError(f"text must be a string: call fill_masks once for each text. Received: {type(text).__name__}")
    ids = masked_ids(tokenizer, text)
    if tokenizer.mask_id not in ids:
        raise ValueError(f"there is no {MASK}, in capitals and square brackets, in the text: {text[:80]!r}")
    longest = model.config.max_position_embeddings
    if len(ids) > longest:
        raise ValueError(f"the text has {len(ids)} tokens, but the model takes {longest} at most: {text[:80]!r}")
    return _fillings(model, tokenizer, [ids], top_k)[0]


def fill_texts(model, tokenizer, texts: Sequence[str], top_k: int = 5) -> list[list[list[Filling]]]:
    """fill_masks for a batch. A text may have no [MASK], and a text that is too long for the model is truncated."""
    longest = model.config.max_position_embeddings
    rows = []
    for text in texts:
        ids = masked_ids(tokenizer, text)
        rows.append(ids if len(ids) <= longest else [*ids[: longest - 1], tokenizer.sep_id])
    return _fillings(model, tokenizer, rows, top_k)


def _fillings(model, tokenizer, rows: Sequence[Sequence[int]], top_k: int) -> list[list[list[Filling]]]:
    """The best pieces of each mask of each row of ids."""
    positions = [[i for i, piece_id in enumerate(ids) if piece_id == tokenizer.mask_id] for ids in rows]
    if not any(positions):
        return [[] for _ in rows]
    ids = padded_rows(rows, tokenizer.pad_id)  # [rows, seq]
    outputs = model(dict(input_ids=ids, input_mask=padded_rows([[1] * len(row) for row in rows], 0),
                         segment_ids=np.zeros_like(ids), masked_lm_positions=padded_rows(positions, 0)))
    logits = np.asarray(outputs["mlm_logits"], np.float32)  # [rows, masks, vocab]
    return [[best_pieces(mask, tokenizer, top_k) for mask in row[: len(places)]]
            for row, places in zip(logits, positions)]


def masked_ids(tokenizer, text: str) -> list[int]:
    """The ids of [CLS] text [SEP], with the id of [MASK] for each "[MASK]" in the text.

    The parts between masks are tokenized separately, and SentencePiece adds a word-start mark before each part. A part
    that follows a mask without a space continues the mask's word (the full stop in "a [MASK]."), so there the mark is
    removed.
    """
    before, *after = text.split(MASK)
    ids = tokenizer.encode(before)
    for part in after:
        ids.append(tokenizer.mask_id)
        pieces = tokenizer.convert_ids_to_tokens(tokenizer.encode(part))
        if pieces and not part[0].isspace():
            pieces[:1] = filter(None, [inside_word(tokenizer, pieces[0])])
        ids += tokenizer.convert_tokens_to_ids(pieces)
    return SpecialTokens(tokenizer).around(ids).tolist()


def inside_word(tokenizer, piece: str) -> str:
    """The piece without its word-start mark, if the vocabulary has it; "" for a piece that is only the mark."""
    inside = piece[len(WORD_START):] if piece.startswith(WORD_START) else piece
    return inside if not inside or inside in tokenizer.vocab else piece


def best_pieces(logits: np.ndarray, tokenizer, top_k: int) -> list[Filling]:
    """The top_k most likely pieces of a mask, best first, from its logits [vocab]."""
    # A model may have more rows than pieces, for a round number. They have no text.
    probabilities = softmax(logits)[: tokenizer.vocab_size]
    least = np.partition(probabilities, -min(top_k, len(probabilities)))[-min(top_k, len(probabilities))]
    candidates = np.flatnonzero(probabilities >= least)  # sorting these alone is 30 times as fast as sorting all
    best = candidates[np.argsort(-probabilities[candidates], kind="stable")[:top_k]]
    pieces = tokenizer.convert_ids_to_tokens(best.tolist())
    return [Filling(piece, float(probabilities[i])) for piece, i in zip(pieces, best)]


def softmax(logits: np.ndarray) -> np.ndarray:
    """The softmax over the last axis, without scipy, which takes time to import (see imports.py)."""
    shifted = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return shifted / shifted.sum(axis=-1, keepdims=True)


# --- exported models --------------------------------------------------------------------------------------------------


def export_mask_filling(
    export_dir: str, model: AlbertPretrainer, tokenizer: FullTokenizer, top_k: int = 5,
    max_seq_length: int | None = None, max_predictions_per_seq: int = 20,
) -> None:
    """Writes a SavedModel that fills each [MASK] (see export_model for the signatures).

    The input as raw text is `text`, string [batch]. The outputs are pieces, string, and probabilities, float32 [batch,
    masks, top_k] each, best first. For texts with fewer masks than others they are padded with "" and 0. A text with
    more tokens than max_position_embeddings is truncated.

    tf.Examples for the signature `examples` have max_seq_length tokens (None: max_position_embeddings) and
    max_predictions_per_seq masked_lm_positions.
    """
    longest = model.config.max_position_embeddings
    masks = GraphMasks(tokenizer, longest, top_k)
    positions = tf.io.FixedLenFeature([max_predictions_per_seq], tf.int64)
    export_model(export_dir, model, tokenizer,
                 dict(sequence_features(max_seq_length or longest), masked_lm_positions=positions), masks.fillings,
                 TextSignature(dict(text=[None]), masks.pack, masks.answer))


# str.isspace as a regular expression.
_BEGINS_WITH_SPACE = r"(?s)[\t-\r\x1c-\x1f\x{85}\pZ].*"
_LEFT_OUT = -1


class GraphMasks(tf.Module):
    """Converts raw texts with [MASK] to the model's inputs, and its outputs to the top_k pieces of each mask."""

    def __init__(self, tokenizer: FullTokenizer, max_seq_length: int, top_k: int):
        super().__init__()
        self._max_seq_length, self._top_k = max_seq_length, top_k
        pieces = dict(zip(tokenizer.vocab.values(), tokenizer.vocab))
        self._pieces = tf.constant([pieces.get(i, "") for i in range(max(pieces) + 1)])
        inside = [inside_word(tokenizer, pieces.get(i, "")) for i in range(max(pieces) + 1)]
        # The id of each piece within a word; a piece that is only a word-start mark is left out there.
        self._inside_word = tf.constant([tokenizer.vocab[piece] if piece else _LEFT_OUT for piece in inside])

    def pack(self, tokenizer: GraphTokenizer, text: tf.Tensor) -> dict:
        """Packs texts, string [batch], as fill_mask.masked_ids does.

        Returns input_ids, input_mask, segment_ids, int32 [batch, seq]; masked_lm_positions, int32 [batch, masks], and
        is_mask, bool [batch, masks]. Both are padded with zeros for texts that have fewer masks.
        """
        parts = tf.strings.split(text, MASK)  # [batch, (parts)]
        is_after_mask = numbers_in_rows(parts) > 0
        ids = tokenizer.tokenize(parts.values)  # [parts, (pieces)]
        continues_word = is_after_mask & ~tf.strings.regex_full_match(parts.values, _BEGINS_WITH_SPACE)
        changes = tf.gather(continues_word, ids.value_rowids()) & (numbers_in_rows(ids) == 0)
        changed = tf.where(changes, tf.gather(self._inside_word, ids.values), ids.values)
        ids = tf.ragged.boolean_mask(ids.with_values(changed), ids.with_values(changed != _LEFT_OUT))
        masks = tf.RaggedTensor.from_row_lengths(tf.fill([tf.math.count_nonzero(is_after_mask)], tokenizer.mask_id),
                                                 tf.cast(is_after_mask, tf.int64))
        rows = parts.with_values(tf.concat([masks, ids], axis=1)).merge_dims(1, 2)  # [batch, (pieces)]
        packed = pack_ids(tokenizer, self._max_seq_length, rows)
        places = tf.where(packed["input_ids"] == tokenizer.mask_id)  # [masks, 2]: row and position
        positions = tf.RaggedTensor.from_value_rowids(
            tf.cast(places[:, 1], tf.int32), places[:, 0], nrows=parts.nrows())
        is_mask = tf.ones_like(positions, tf.bool)
        return dict(packed, masked_lm_positions=positions.to_tensor(0), is_mask=is_mask.to_tensor())

    def fillings(self, outputs: dict) -> dict:
        """The most likely pieces, string [batch, masks, top_k], and their probabilities, from the model's outputs."""
        probabilities = tf.nn.softmax(outputs["mlm_logits"])[..., : self._pieces.shape[0]]  # see fill_mask
        probabilities, ids = tf.math.top_k(probabilities, min(self._top_k, probabilities.shape[-1]))
        return dict(pieces=tf.gather(self._pieces, ids), probabilities=probabilities)

    def answer(self, texts: dict, inputs: dict, fillings: dict) -> dict:
        """The fillings of raw texts. For texts that have fewer masks, the padding is "" and probability 0."""
        is_mask = inputs["is_mask"][..., None]
        return dict(pieces=tf.where(is_mask, fillings["pieces"], ""),
                    probabilities=tf.where(is_mask, fillings["probabilities"], 0.0))


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
        pieces of a rare word do not make each other likely (Kauf and Ivanova, 2023). Words are as in whole-word
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
        starts[:, -1] = True  # [SEP] is a word
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
