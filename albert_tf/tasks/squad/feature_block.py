"""Blocks of SQuAD features.

A block is a few flat arrays, which can be sent between processes and written to records without a Python object per
token. A SquadFeature is a view of one feature, with the release's field names.
"""

from __future__ import annotations

import dataclasses
from typing import Iterable, Iterator, NamedTuple, Sequence

import numpy as np

from albert_tf.tasks.squad.alignment import AlignedParagraph
from albert_tf.tasks.squad.reading import SquadExample
from albert_tf.text.packing import SpecialTokens
from albert_tf.text.tokenization import FullTokenizer
from albert_tf.text.windows import Window

# The span, in pieces of the paragraph, of a question that has no answer.
NO_ANSWER = (-1, -1)


@dataclasses.dataclass
class FeatureBlock:
    """Several features as flat arrays.

    Args:
      qas_ids: [features], the id of each feature's question.
      example_index, doc_span_index: int32 [features], the index of the question, and of the window in its paragraph.
      lengths, doc_offset: int32 [features], the number of tokens without padding, and the index of the paragraph's
        first token.
      start_position, end_position: int32 [features], the answer's first and last token; 0 if the window does not have
        the answer. Undefined in prediction.
      is_impossible: int32 [features], 1 if the window does not have the answer. Undefined in prediction.
      token_ids: int32 [tokens of all features].
      starts, ends, is_max_context: int32 and bool [pieces of all windows]; see AlignedParagraph and Window.
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
        after_query = place >= doc_offset
        p_mask = ~(after_query & (place < lengths - 1))
        p_mask[:, 0] = False  # [CLS] means no answer
        masks = dict(input_mask=is_token, segment_ids=after_query & is_token, p_mask=p_mask)
        return dict({name: mask.astype(np.int32) for name, mask in masks.items()}, input_ids=input_ids)

    def features(
        self, tokenizer: FullTokenizer, max_seq_length: int, first_unique_id: int, is_training: bool
    ) -> Iterator[SquadFeature]:
        """The features one by one."""
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
    """Builds a block.

    Args:
      tokenizer: provides the ids of [CLS] and [SEP].
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
        """Adds a feature per window. `answer` is its first and last piece of the paragraph, `query` int32 [pieces]."""
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
        """The block of all features that were added."""
        scalars = np.array(self._scalars, np.int32).reshape(-1, 7)  # [0, 7] if there are none
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
    return np.concatenate([np.zeros(0, dtype), *arrays])  # the empty array is for no arrays


@dataclasses.dataclass
class SquadFeature:
    """A question and a window of its paragraph, with the release's field names.

    Args:
      unique_id: id of the feature.
      qas_id: id of the question.
      example_index: index of the question; None in training, as in the release.
      doc_span_index: index of the window in its paragraph.
      token_ids: int32 [tokens], without padding.
      doc_offset: index of the paragraph's first token.
      starts, ends, is_max_context: [pieces of the window]; see AlignedParagraph and Window.
      start_position, end_position: first and last token of the answer, 0 if the window does not have it; None in
        prediction.
      is_impossible: in training, whether the window does not have the answer.
      tokenizer, max_seq_length: used by the properties below, which pad token_ids and convert them to pieces.
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
        """The number of tokens without padding."""
        return len(self.token_ids)

    @property
    def tok_start_to_orig_index(self) -> list[int]:
        """The offset of the first original character of each piece of the window."""
        return self.starts.tolist()

    @property
    def tok_end_to_orig_index(self) -> list[int]:
        """The offset of the last original character of each piece of the window."""
        return self.ends.tolist()

    @property
    def token_is_max_context(self) -> dict[int, bool]:
        """is_max_context by the index of the token."""
        return dict(enumerate(self.is_max_context.tolist(), start=self.doc_offset))

    @property
    def tokens(self) -> list[str]:
        """The pieces of input_ids, including padding."""
        return self.tokenizer.convert_ids_to_tokens(self.input_ids)

    @property
    def input_ids(self) -> list[int]:
        """The padded token ids, [max_seq_length]."""
        return self.token_ids.tolist() + [self.tokenizer.pad_id] * self._padding

    @property
    def input_mask(self) -> list[int]:
        """1 for tokens and 0 for padding, [max_seq_length]."""
        return [1] * self.paragraph_len + [0] * self._padding

    @property
    def segment_ids(self) -> list[int]:
        """1 for the paragraph and its [SEP], 0 for other tokens, [max_seq_length]."""
        return [0] * self.doc_offset + [1] * (self.paragraph_len - self.doc_offset) + [0] * self._padding

    @property
    def p_mask(self) -> list[int]:
        """1 for tokens where no answer may start or end: question, [SEP] and padding. [CLS] (no answer) has 0."""
        return [0] + [1] * (self.doc_offset - 1) + [0] * len(self.starts) + [1] * (1 + self._padding)

    @property
    def _padding(self) -> int:
        return self.max_seq_length - self.paragraph_len


class QuestionWindows(NamedTuple):
    """A question with the windows of its paragraph.

    Args:
      qas_id: id of the question.
      paragraph_text: the question's paragraph.
      windows: its features; empty if the paragraph is empty or the question was left out.
    """

    qas_id: str
    paragraph_text: str
    windows: list[SquadFeature]


def question_windows(
    paragraphs: Iterable[list[SquadExample]], features: Iterable[SquadFeature]
) -> list[QuestionWindows]:
    """Each question with its features.

    Args:
      paragraphs: the questions of each paragraph.
      features: the features of all these questions.
    """
    windows: dict[str, list[SquadFeature]] = {}
    for feature in features:
        windows.setdefault(feature.qas_id, []).append(feature)
    return [QuestionWindows(example.qas_id, example.paragraph_text, windows.get(example.qas_id, []))
            for examples in paragraphs for example in examples]
