"""PredictingModel: what functions that predict from text need of a model.

A Keras model of this package has it, and so has an exported file in its runtime (export/onnx/session.py). So one
function classifies texts, fills masks or answers questions with either.
"""

from __future__ import annotations

from typing import Any, Mapping, Protocol

from albert_tf.config import AlbertConfig
from albert_tf.modeling.pooling import LongTexts


class PredictingModel(Protocol):
    """A model that is called with token ids and returns its outputs."""

    @property
    def config(self) -> AlbertConfig:
        """The model's config."""

    @property
    def max_seq_length(self) -> int | None:
        """The largest number of tokens of a row that it was trained with; None if unknown."""

    @property
    def row_length(self) -> int:
        """The largest number of tokens of a row."""

    @property
    def num_labels(self) -> int:
        """Of a classifier or a tagger: the number of logits."""

    @property
    def label_names(self) -> tuple[str, ...] | None:
        """Of a classifier or a tagger: the names of the labels."""

    @property
    def multi_label(self) -> bool:
        """Of a classifier: whether a text can have several labels."""

    def probabilities(self, logits: Any) -> Any:
        """Of a classifier: the probabilities of its labels."""

    @property
    def label_thresholds(self) -> Any:
        """Of a classifier for several labels: the least probability of each label that is predicted."""

    @property
    def long_texts(self) -> LongTexts:
        """Of a classifier: how it reads texts that are longer than a row."""

    @property
    def single_texts(self) -> bool:
        """Of a classifier: whether it was trained on single texts."""

    @property
    def label_all_pieces(self) -> bool:
        """Of a tagger: whether it reads a word's tag from all of its pieces."""

    @property
    def num_choices(self) -> int:
        """Of a multiple-choice model: the number of options."""

    @property
    def doc_stride(self) -> int | None:
        """Of a model of SQuAD or a tagger: pieces from the start of a window to that of the next; None if unknown."""

    @property
    def max_query_length(self) -> int | None:
        """Of a model of SQuAD: the largest number of pieces of a question; None if unknown."""

    @property
    def max_qa_length(self) -> int | None:
        """Of a multiple-choice model: the largest number of pieces of question and option; None if unknown."""

    def __call__(self, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """The outputs by name, arrays or tensors, for int32 inputs by name, [batch, seq] each."""
