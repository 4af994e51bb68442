"""Writes how the words of a text sound, for an encoder of phonemes (docs/phonemes.md).

    python -m albert_tf phonemize --input_file='text/*.txt' --language=de --output_file=phonemes.jsonl

The text has one sentence per line and a blank line between documents. Each different word is phonemized once, by
espeak-ng. Finished words are kept in OUTPUT_FILE.LANGUAGE.words until the end, so that an interrupted run continues
where it stopped.
"""

from __future__ import annotations

import dataclasses
import os
from typing import Iterator, Mapping

from absl import logging

from albert_tf import options as fields
from albert_tf.data.rows import text_column_option
from albert_tf.data.worker_pool import chunks, worker_pool
from albert_tf.pretraining.corpus import line_batches
from albert_tf.text.phonemes import Phonemizer, split_words, write_line
from albert_tf.utils import bounds
from albert_tf.utils.files import errors_naming, expand_globs
from albert_tf.utils.outputs import locked, output
from albert_tf.utils.progress import count_of, progress

_WORDS_OF_TASK = 2000
_LINES_OF_TASK = 200


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(fields.Config):
    input_file: str = fields.required("Comma-separated list of paths and globs of text files, with one sentence per "
                                      "line. Files that end in .gz or .bz2 are decompressed.")
    text_column: str | None = text_column_option("document, with a sentence on each line")
    language: str = fields.required("Language of espeak-ng, such as de, fi or en-us.")
    output_file: str = fields.required("Path of the JSON lines to write: the words of each sentence, and their "
                                       "phonemes.")
    in_context: bool = fields.boolean(
        False, "Whether a word sounds as it does beside its neighbours, such as the English 'the' before a vowel. Each "
        "sentence is then phonemized, which takes longer.")
    num_workers: int = fields.integer(
        min(os.cpu_count() or 1, bounds.WORKERS.upper), "Number of processes.", bounds.WORKERS)


def main(options: Options) -> None:
    paths, kept = expand_globs(options.input_file), f"{options.output_file}.{options.language}.words"
    Phonemizer(options.language)  # a wrong language is told before the text is read
    with worker_pool(options.num_workers, Phonemizer, options.language) as run, locked(kept):
        table = _read_table(kept)
        if table:
            logging.info("%s: %s of an earlier run", kept, count_of(len(table), "word"))
        words: dict[str, None] = {}
        with progress("reading words", None, " lines") as done:
            for lines in line_batches(paths, options.text_column):
                for line in lines:
                    words.update(dict.fromkeys(split_words(line)))
                done(len(lines))
        missing = [word for word in words if word not in table]
        with errors_naming(kept), open(kept, "a", encoding="utf-8", newline="\n") as file, progress(
                "phonemizing", len(missing), " words") as done:
            for new, phonemes in run(_phonemize_words, ((part,) for part in chunks(missing, _WORDS_OF_TASK))):
                table.update(zip(new, phonemes))
                file.writelines(f"{word}\t{sound}\n" for word, sound in zip(new, phonemes))
                file.flush()
                done(len(new))
        silent = sum(not table[word] for word in words)
        with output(options.output_file) as temporary, open(temporary, "w", encoding="utf-8", newline="\n") as file:
            with progress("writing", None, " lines") as done:
                for lines in _phonemized(run, paths, table, options):
                    file.writelines(lines)
                    done(len(lines))
        os.remove(kept)
    logging.info("%s: %s%s", options.output_file, count_of(len(words), "different word"),
                 f"; {silent:,} of them have no sound and are left out" if silent else "")


def _phonemized(run, paths: list[str], table: Mapping[str, str], options: Options) -> Iterator[list[str]]:
    """The lines of the output, in batches."""
    for batch in line_batches(paths, options.text_column):
        sentences = [[word for word in split_words(line) if table[word]] for line in batch]
        if options.in_context:
            tasks = ((part, {word: table[word] for words in part for word in words})
                     for part in chunks(sentences, _LINES_OF_TASK))
            sounds = [phonemes for part in run(Phonemizer.sentences, tasks) for phonemes in part]
        else:
            sounds = [[table[word] for word in words] for words in sentences]
        yield [write_line(words, phonemes) + "\n" if words else "\n" for words, phonemes in zip(sentences, sounds)]


def _phonemize_words(phonemizer: Phonemizer, words: list[str]) -> tuple[list[str], list[str]]:
    return words, phonemizer.words(words)


def _read_table(path: str) -> dict[str, str]:
    """The words of an earlier run, without a last line that was not written whole."""
    if not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8", newline="\n") as file:
        return dict(line[:-1].split("\t") for line in file if line.endswith("\n"))
