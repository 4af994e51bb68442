"""Features of SQuAD side by side.

They are flat arrays, which go from process to process, and to records, without a Python object for each token. A
SquadFeature is a view of one of them, with the release's field names.
"""

from __future__ import annotations

import dataclasses
from typing import Iterator, Sequence

import numpy as np

from albert_tf.data.squad.alignment import AlignedParagraph
from albert_tf.data.windows import Window
from albert_tf.text.packing import SpecialTokens
from albert_tf.text.tokenization import FullTokenizer

# The span, in pieces of the paragraph, of a question that has no answer.
NO_ANSWER = (-1, -1)


@dataclasses.dataclass
class FeatureBlock:
    """Features side by side.

    Args:
      qas_ids: [features], the question of each.
      example_index, doc_span_index: int32 [features], the places of the question and of the window.
      lengths, doc_offset: int32 [features], the tokens without padding, and the first of them that is the paragraph's.
      start_position, end_position, is_impossible: int32 [features], the answer's tokens, 0 where it is not in the
        window; they mean nothing in prediction.
      token_ids: int32 [tokens of all features].
      starts, ends, is_max_context: int32 and bool [pieces of all windows], see AlignedParagraph and Window.
    """

    qas_ids: list[str]
    example_index: np.ndarray
    doc_span_index: np.ndarray
    lengths: np.ndarray
    doc_offset: np.ndarray
    start_position: np.ndarray
    end_position: np.ndarray
    is_impossible: np.ndarray
    token_ids: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    is_max_context: np.ndarray

    def __len__(self) -> int:
        return len(self.qas_ids)

    def padded(self, max_seq_length: int, pad_id: int) -> dict[str, np.ndarray]:
        """input_ids, input_mask, segment_ids and p_mask, int32 [features, max_seq_length]."""
        place = np.arange(max_seq_length, dtype=np.int32)
        lengths, doc_offset = self.lengths[:, None], self.doc_offset[:, None]
        is_token = place < lengths
        input_ids = np.full(is_token.shape, pad_id, np.int32)
        input_ids[is_token] = self.token_ids
        behind_query = place >= doc_offset
        p_mask = ~(behind_query & (place < lengths - 1))
        p_mask[:, 0] = False  # [CLS] stands for no answer
        masks = dict(input_mask=is_token, segment_ids=behind_query & is_token, p_mask=p_mask)
        return dict({name: mask.astype(np.int32) for name, mask in masks.items()}, input_ids=input_ids)

    def features(
        self, tokenizer: FullTokenizer, max_seq_length: int, first_unique_id: int, is_training: bool
    ) -> Iterator[SquadFeature]:
        """Each feature by itself."""
        tokens = np.cumsum([0, *self.lengths])
        pieces = np.cumsum([0, *(self.lengths - self.doc_offset - 1)])
        for i, qas_id in enumerate(self.qas_ids):
            of_window = slice(pieces[i], pieces[i + 1])
            yield SquadFeature(
                unique_id=first_unique_id + i,
                qas_id=qas_id,
                example_index=None if is_training else int(self.example_index[i]),
                doc_span_index=int(self.doc_span_index[i]),
                token_ids=self.token_ids[tokens[i] : tokens[i + 1]],
                doc_offset=int(self.doc_offset[i]),
                starts=self.starts[of_window],
                ends=self.ends[of_window],
                is_max_context=self.is_max_context[of_window],
                start_position=int(self.start_position[i]) if is_training else None,
                end_position=int(self.end_position[i]) if is_training else None,
                is_impossible=is_training and bool(self.is_impossible[i]),
                tokenizer=tokenizer,
                max_seq_length=max_seq_length,
            )


class BlockBuilder:
    """Puts a block together.

    Args:
      tokenizer: gives the ids of [CLS] and [SEP].
    """

    def __init__(self, tokenizer: FullTokenizer):
        self._special_tokens = SpecialTokens(tokenizer)
        self._qas_ids: list[str] = []
        self._scalars: list[tuple[int, ...]] = []  # the fields of FeatureBlock from example_index to is_impossible
        self._token_ids: list[np.ndarray] = []
        self._starts: list[np.ndarray] = []
        self._ends: list[np.ndarray] = []
        self._is_max_context: list[np.ndarray] = []

    def add(self, qas_id: str, example_index: int, query: np.ndarray, paragraph: AlignedParagraph,
            answer: tuple[int, int], windows: Sequence[Window]) -> None:
        """Adds a feature for each window. The answer is in pieces of the paragraph; query is int32 [pieces]."""
        doc_offset = len(query) + 2
        for doc_span_index, window in enumerate(windows):
            of_window = slice(window.first, window.first + window.length)
            has_answer = window.first <= answer[0] and answer[1] < of_window.stop
            start, end = (doc_offset - window.first + piece if has_answer else 0 for piece in answer)
            self._qas_ids.append(qas_id)
            self._scalars.append((example_index, doc_span_index, doc_offset + window.length + 1, doc_offset, start, end,
                                  not has_answer))
            self._token_ids.append(self._special_tokens.around(query, paragraph.ids[of_window]))
            self._starts.append(paragraph.starts[of_window])
            self._ends.append(paragraph.ends[of_window])
            self._is_max_context.append(window.is_max_context)

    def block(self) -> FeatureBlock:
        """The features that were added."""
        scalars = np.array(self._scalars, np.int32).reshape(-1, 7)  # also where there are none
        example_index, doc_span_index, lengths, doc_offset, start_position, end_position, is_impossible = scalars.T
        return FeatureBlock(
            qas_ids=self._qas_ids,
            example_index=example_index,
            doc_span_index=doc_span_index,
            lengths=lengths,
            doc_offset=doc_offset,
            start_position=start_position,
            end_position=end_position,
            is_impossible=is_impossible,
            token_ids=_flat(self._token_ids, np.int32),
            starts=_flat(self._starts, np.int32),
            ends=_flat(self._ends, np.int32),
            is_max_context=_flat(self._is_max_context, bool),
        )


def _flat(arrays: list[np.ndarray], dtype: type) -> np.ndarray:
    return np.concatenate([np.zeros(0, dtype), *arrays])  # also where there are none


@dataclasses.dataclass
class SquadFeature:
    """A question and a window of its paragraph, with the release's field names.

    Args:
      unique_id: of the feature.
      qas_id: the question's.
      example_index: the question's place; None in training, as in the release.
      doc_span_index: the window's place.
      token_ids: int32 [tokens], without padding.
      doc_offset: the first token of the paragraph.
      starts, ends, is_max_context: [pieces of the window], see AlignedParagraph and Window.
      start_position, end_position: tokens of the answer, 0 where it is not in the window; None in prediction.
      is_impossible: in training, whether there is no answer in the window.
      tokenizer, max_seq_length: of the lists below, which are made when they are asked for.
    """

    unique_id: int
    qas_id: str
    example_index: int | None
    doc_span_index: int
    token_ids: np.ndarray
    doc_offset: int
    starts: np.ndarray
    ends: np.ndarray
    is_max_context: np.ndarray
    start_position: int | None
    end_position: int | None
    is_impossible: bool
    tokenizer: FullTokenizer = dataclasses.field(repr=False)
    max_seq_length: int

    @property
    def paragraph_len(self) -> int:
        """Tokens without padding."""
        return len(self.token_ids)

    @property
    def tok_start_to_orig_index(self) -> list[int]:
        """The first original character of each piece of the window."""
        return self.starts.tolist()

    @property
    def tok_end_to_orig_index(self) -> list[int]:
        """The last original character of each piece of the window."""
        return self.ends.tolist()

    @property
    def token_is_max_context(self) -> dict[int, bool]:
        """By token."""
        return dict(enumerate(self.is_max_context.tolist(), start=self.doc_offset))

    @property
    def tokens(self) -> list[str]:
        """The pieces of input_ids, padding included."""
        return self.tokenizer.convert_ids_to_tokens(self.input_ids)

    @property
    def input_ids(self) -> list[int]:
        """[max_seq_length], padded."""
        return self.token_ids.tolist() + [self.tokenizer.pad_id] * self._padding

    @property
    def input_mask(self) -> list[int]:
        """[max_seq_length], 1 at tokens and 0 at padding."""
        return [1] * self.paragraph_len + [0] * self._padding

    @property
    def segment_ids(self) -> list[int]:
        """1 on the paragraph and its [SEP]."""
        return [0] * self.doc_offset + [1] * (self.paragraph_len - self.doc_offset) + [0] * self._padding

    @property
    def p_mask(self) -> list[int]:
        """1 where no answer may start or end: question, [SEP], padding; [CLS] stands for no answer."""
        return [0] + [1] * (self.doc_offset - 1) + [0] * len(self.starts) + [1] * (1 + self._padding)

    @property
    def _padding(self) -> int:
        return self.max_seq_length - self.paragraph_len
