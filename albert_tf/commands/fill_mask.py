"""Fills each [MASK] of a text with the most likely pieces.

    python -m albert_tf fill_mask --init_checkpoint=model_dir --text="the capital of [MASK] ."

A piece is printed as the vocabulary has it: with SentencePiece, one that begins a word begins with "\u2581".

Without --text, texts are read from standard input, one per line. ONNX Runtime computes them on a CPU if the extra
`onnx` is installed. With --export_dir the model is written as a SavedModel that does the same with raw text, for
processes that have only tensorflow and tensorflow_text:

    python -m albert_tf fill_mask --init_checkpoint=model_dir --export_dir=served
"""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, Annotated, Callable, Sequence

from absl import logging

from albert_tf.config import check_length
from albert_tf.devices import is_cpu_alone
from albert_tf.options import NO_PATHS
from albert_tf.tasks.config import SavedModelExport
from albert_tf.text.lines import read_standard_input
from albert_tf.utils import bounds
from albert_tf.utils.files import check_characters
from albert_tf.utils.imports import check_installed
from albert_tf.utils.manifests import check_export
from albert_tf.weights.source import Source

if TYPE_CHECKING:
    from albert_tf.modeling.pretrainer import AlbertPretrainer
    from albert_tf.tasks.masked_lm import Filling
    from albert_tf.text.tokenization import FullTokenizer


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(Source, SavedModelExport):
    text: Annotated[
        tuple[str, ...], NO_PATHS, "A text with at least one [MASK]. Repeat the flag for several texts. Default: the "
        "lines of standard input; no text with --export_dir."] = ()
    top_k: Annotated[int, bounds.CANDIDATES, "Number of pieces to show for each mask."] = 5
    max_seq_length: Annotated[
        int | None, bounds.SEQ_LENGTH, "Number of tokens of the tf.Examples that the SavedModel of --export_dir "
        "accepts besides text. Default: the model's max_position_embeddings."] = None
    max_predictions_per_seq: Annotated[
        int, bounds.PREDICTIONS, "Number of masked_lm_positions of the tf.Examples that the SavedModel of --export_dir "
        "accepts besides text."] = 20


def main(options: Options) -> None:
    from albert_tf.export.onnx.writing import in_onnx_runtime
    from albert_tf.export.saved_model import with_precision
    from albert_tf.tasks.masked_lm import export_mask_filling, fill_masks

    for text in options.text or ():
        check_characters(text, "--text")
    check_export(options.export_dir)
    if options.export_dir:
        check_installed("--export_dir", "tensorflow_text")
    model, tokenizer = masked_lm(options)
    check_length(options.max_seq_length, model.config)
    if options.export_dir:
        export_mask_filling(options.export_dir, with_precision(model, options.export_precision), tokenizer,
                            options.top_k, options.max_seq_length, options.max_predictions_per_seq)
        logging.info("%s: a SavedModel that fills masks", options.export_dir)
    for text in options.text or ():
        print_filled(text, fill_masks(model, tokenizer, text, options.top_k))
    if not (options.text or options.export_dir):
        for_many_texts = is_cpu_alone() and in_onnx_runtime(model) or model
        fill_standard_input(functools.partial(fill_masks, for_many_texts, tokenizer, top_k=options.top_k))


def masked_lm(source: Source) -> tuple[AlbertPretrainer, FullTokenizer]:
    """The pretrainer that a source selects, for its masked-LM head, and its tokenizer."""
    from albert_tf.weights.choice import choose

    selected = choose(source)
    model, report = selected.build_initial("pretrainer")
    missing = [name for name in report.not_restored if name.startswith("cls/predictions/")]
    if missing:
        raise ValueError(f"{source.init_path} has no masked-LM head: {', '.join(missing)} are missing")
    return model, selected.vocabulary.tokenizer(model.config)


def fill_standard_input(fill: Callable[[str], list]) -> None:
    """Fills the masks of each line. A line without a mask, or a line that is too long, is reported and left out."""
    has_text = False
    for number, text in enumerate(map(str.strip, read_standard_input()), start=1):
        if not text:
            continue
        has_text = True
        try:
            print_filled(text, fill(text))
        except ValueError as error:
            logging.warning("line %d: %s", number, error)
    if not has_text:
        raise ValueError("there is no text: set --text, or write lines to the standard input")


def print_filled(text: str, fillings_by_mask: Sequence[Sequence[Filling]]) -> None:
    print(text)
    for fillings in fillings_by_mask:
        print("   ", "   ".join(f"{filling.piece} {filling.probability:.3f}" for filling in fillings))
