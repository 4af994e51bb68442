"""Questions with choices -> features: a row for each choice, of passage and question with choice (race_utils.py)."""

from __future__ import annotations

import itertools
from typing import Iterable, Iterator

from albert_tf.data.choice_examples import MultipleChoiceExample
from albert_tf.text.normalization import preprocess_text
from albert_tf.text.packing import SPECIAL_TOKENS, PairPacker
from albert_tf.text.tokenization import FullTokenizer

# Examples that are tokenized together.
_CHUNK = 500


def convert_examples_to_features(
    examples: Iterable[MultipleChoiceExample], tokenizer: FullTokenizer, max_seq_length: int, max_qa_length: int,
    num_choices: int | None = None,
) -> Iterator[dict]:
    """The features of each example, in order (release: race_utils.convert_single_example).

    Args:
      examples: the questions.
      tokenizer: its casing also says how texts are normalised.
      max_seq_length: length of each row; the passage is cut to what room is left.
      max_qa_length: of question and option, this many tokens are left, the last ones.
      num_choices: the rows of each example, those of choices that it does not have being nothing but padding; default:
        as many as it has.

    Returns:
      an iterator of dicts: input_ids, input_mask and segment_ids, a list of max_seq_length for each choice; label_id,
      the right choice, or 0 where nobody says; example_id; is_real_example, True.

    Raises:
      ValueError: max_seq_length has no room for text, or max_qa_length is not positive.
    """
    if max_qa_length < 1:
        raise ValueError(f"max_qa_length must be positive. Received: {max_qa_length}")
    packer = _ChoicePacker(PairPacker(tokenizer, max_seq_length), max_seq_length - SPECIAL_TOKENS, max_qa_length)
    return _features(iter(examples), tokenizer, packer, num_choices or 0)


class _ChoicePacker:
    def __init__(self, packer: PairPacker, room: int, max_qa_length: int):
        self._packer, self._room, self._max_qa_length = packer, room, min(max_qa_length, room)

    def rows(self, context_ids: list[int], endings: list[list[int]], num_choices: int) -> dict[str, list]:
        rows = [self._row(context_ids, ending) for ending in endings]
        rows += [self._packer.padding()] * (num_choices - len(rows))
        return {name: [row[name] for row in rows] for name in rows[0]}

    def _row(self, context_ids: list[int], ending: list[int]) -> dict[str, list[int]]:
        ending = ending[-self._max_qa_length:]
        if not context_ids:
            return self._packer.pack(ending)
        return self._packer.pack(context_ids[: self._room - len(ending)], ending)


def _features(
    examples: Iterator[MultipleChoiceExample], tokenizer: FullTokenizer, packer: _ChoicePacker, num_choices: int
) -> Iterator[dict]:
    while chunk := list(itertools.islice(examples, _CHUNK)):
        contexts = list(dict.fromkeys(example.context for example in chunk))
        ids_of = dict(zip(contexts, tokenizer.encode_batch(contexts)))
        endings = iter(tokenizer.encode_batch([ending for example in chunk for ending in _endings(example, tokenizer)]))
        for example in chunk:
            of_example = [ids.tolist() for ids in itertools.islice(endings, len(example.options))]
            rows = packer.rows(ids_of[example.context].tolist(), of_example, num_choices)
            yield dict(rows, label_id=example.label or 0, example_id=example.example_id, is_real_example=True)


def _endings(example: MultipleChoiceExample, tokenizer: FullTokenizer) -> tuple[str, ...]:
    """As the release joins them: normalised before, where there is a SentencePiece model, so that "＿" counts too."""
    if not tokenizer.sp_model:
        return example.endings
    question, *options = (preprocess_text(text, lower=tokenizer.do_lower_case)
                          for text in (example.question, *example.options))
    return example._replace(question=question, options=tuple(options)).endings
