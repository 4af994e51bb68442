"""Turns a BERT into an ALBERT of a fraction of its size, which learns its vectors of tokens and sentences.

    python -m albert_tf bert_to_albert --init_checkpoint=all-MiniLM-L6-v2 --text=lines.txt --output_dir=small

The layers become one shared layer, and the word table becomes a table of 128 columns with a projection
(convert_checkpoint --kept_layers --share_layers --embedding_size). Then the model learns the hidden states and the
vectors that the BERT makes of the lines of --text and of pairs of them (run_sentence_embeddings --objective=tokens); in
every second line, words are replaced. The result is in --output_dir/model, in Hugging Face's format. It compares
sentences; with --kept_layers instead of one shared layer, it is also a start for fine-tuning. If the script is started
again with the same flags, it continues where it stopped.
"""

from __future__ import annotations

import dataclasses
import os
from typing import Annotated

from albert_tf.commands.command_runs import run_script
from albert_tf.data.rows import text_column_help
from albert_tf.devices import PRECISIONS, fast_precision
from albert_tf.training.config import RUNTIMES
from albert_tf.utils import bounds
from albert_tf.utils.bounds import OneOf, Range
from albert_tf.weights.source import FirstLayers, Sharing


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(FirstLayers, Sharing):
    share_layers: int = 1
    embedding_size: int = 128
    init_checkpoint: Annotated[
        str, "The BERT, or an ALBERT that shares no weights, in any format of --init_checkpoint of the other commands."]
    text: Annotated[str, "Path of the text, one sentence per line, or of a table with --text_column."]
    text_column: Annotated[str | None, text_column_help("text")] = None
    output_dir: Annotated[
        str, "Directory of the initial model (start), the training texts (lines.txt), the training (training) and the "
        "result (model)."]
    teacher_vectors: Annotated[
        str | None, "Path of vectors of the lines or rows of --text by any other model, which the result learns "
        "instead of what the BERT computes (--objective=distillation). Formats as in run_sentence_embeddings."] = None
    replaced_words: Annotated[
        float | None, Range(0.0, 1.0), "Fraction, from 0 to 1, of the words of every second line of --text that are "
        "replaced by random words of the BERT's vocabulary. So the model also learns words that are not in the text. "
        "Default: 0.3, or 0 with --teacher_vectors, which belong to the unchanged text."] = None
    cached_dir: Annotated[
        str | None, "Directory in which several trainings share what is made of the text. Default: the directory of "
        "the training."] = None
    data_dir: Annotated[
        str | None, "Directory that holds GLUE's STS-B. The training is scored on its dev set. Default: it is not "
        "scored, and the result is the last step."] = None
    max_seq_length: Annotated[
        int | None, bounds.ROW_LENGTH, "Largest number of tokens of a text, during the training and afterwards. "
        "Default: the number of the BERT, or 128 if it stores none."] = None
    train_batch_size: Annotated[int, bounds.BATCH_SIZE, "Number of texts in a training step."] = 32
    num_train_epochs: Annotated[float, Range(0.0), "Number of passes over the text."] = 4.0
    learning_rate: Annotated[float, Range(0.0), "The peak learning rate, after the warm-up."] = 0.001
    random_seed: Annotated[int, bounds.SEED, "Seed of the order of the texts and of the replaced words."] = 12345
    runtime: Annotated[str, OneOf(RUNTIMES), "Runtime of the training, as in run_sentence_embeddings."] = "tensorflow"
    precision: Annotated[
        str | None, OneOf(PRECISIONS), "Data type of the training's computations. Default: mixed_bfloat16, or float32 "
        "if TensorFlow computes on a processor without instructions for bfloat16."] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.teacher_vectors and self.replaced_words:
            raise ValueError(f"--replaced_words={self.replaced_words} and --teacher_vectors exclude each other: the "
                             "vectors belong to the unchanged text")


def main(options: Options) -> None:
    run_script("convert_checkpoint", init_checkpoint=learn(options, convert(options)), to="hugging_face",
               output_dir=os.path.join(options.output_dir, "model"))


def convert(options: Options) -> str:
    """Makes the ALBERT that has not learned yet, and returns its path."""
    start = os.path.join(options.output_dir, "start")
    run_script("convert_checkpoint", init_checkpoint=options.init_checkpoint, to="ours", model="sentence_encoder",
               output_dir=start, kept_layers=",".join(map(str, options.kept_layers)) or None,
               **{name: getattr(options, name) for name in ("num_layers", "share_layers", "embedding_size")})
    return start


def learn(options: Options, start: str) -> str:
    """Trains the model at `start`, or continues, and returns the path of the training."""
    from albert_tf.tasks.sentence_vectors.data import read_single_texts, with_replaced_words
    from albert_tf.utils.outputs import write_text
    from albert_tf.weights.from_pretrained import tokenizer_from_pretrained
    from albert_tf.weights.stored_model import open_model

    training, lines = (os.path.join(options.output_dir, name) for name in ("training", "lines.txt"))
    precision = options.precision or ("mixed_bfloat16" if options.runtime == "jax" else fast_precision())
    if options.teacher_vectors:
        taught = dict(objective="distillation", teacher_vectors=options.teacher_vectors, train_file=options.text,
                      text_column=options.text_column)
    else:
        taught = dict(objective="tokens", teacher_checkpoint=options.init_checkpoint, train_file=lines)
        texts = read_single_texts(options.text, options.text_column)
        share = 0.3 if options.replaced_words is None else options.replaced_words
        write_text(lines, "".join(f"{line}\n" for line in with_replaced_words(
            texts, tokenizer_from_pretrained(start), share, options.random_seed)))
    run_script("run_sentence_embeddings", init_checkpoint=start, output_dir=training,
               do_train=True, do_eval=options.data_dir is not None, hidden_dropout_prob=0.0,
               attention_probs_dropout_prob=0.0, **taught,
               max_seq_length=options.max_seq_length or open_model(start).settings.max_seq_length,
               precision=precision, bias_correction=True,
               **{name: getattr(options, name) for name in (
                   "cached_dir", "data_dir", "runtime", "train_batch_size", "num_train_epochs", "learning_rate",
                   "random_seed")})
    return training
