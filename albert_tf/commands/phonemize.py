"""Writes how the words of a text sound, for an encoder of phonemes (docs/phonemes.md).

    python -m albert_tf phonemize --input_file='text/*.txt' --language=de --output_file=phonemes.jsonl

The text has one sentence per line and a blank line between documents. Each different word is phonemized once, by
espeak-ng. Finished words are kept in OUTPUT_FILE.LANGUAGE.words until the end, so that an interrupted run continues
where it stopped.
"""

from __future__ import annotations

import collections
import dataclasses
import os
import re
import unicodedata
from typing import Annotated, Iterable, Iterator, Mapping, Sequence

from absl import logging

from albert_tf.data.rows import text_column_help
from albert_tf.data.worker_pool import Run, chunks, worker_pool
from albert_tf.options import Config
from albert_tf.pretraining.corpus import line_batches
from albert_tf.text.phonemes import SEPARATOR, Phonemizer, split_words, write_line
from albert_tf.utils import bounds
from albert_tf.utils.files import decode_utf8, errors_naming, expand_globs
from albert_tf.utils.outputs import locked, output
from albert_tf.utils.progress import count_of, progress

_WORDS_OF_TASK = 2000
_LINES_OF_TASK = 200
_WHOLE_LINE = re.compile(rb"[^\t\n\0]+\t[^\t\n\0]*\n")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(Config):
    input_file: Annotated[
        str, "Comma-separated list of paths and globs of text files, with one sentence per line. Files that end in .gz "
        "or .bz2 are decompressed."]
    text_column: Annotated[str | None, text_column_help("document, with a sentence on each line")] = None
    language: Annotated[str, "Language of espeak-ng, such as de, fi or en-us."]
    output_file: Annotated[str, "Path of the JSON lines to write: the words of each sentence, and their phonemes."]
    in_context: Annotated[
        bool, "Whether a word sounds as it does beside its neighbours, such as the English 'the' before a vowel. "
        "Recommended for languages with words of one letter, which alone have the letter's name. Each sentence is then "
        "phonemized, which takes longer."] = False
    num_workers: Annotated[int, bounds.WORKERS, "Number of processes."] = min(os.cpu_count() or 1, bounds.WORKERS.upper)


def main(options: Options) -> None:
    paths, kept = expand_globs(options.input_file), f"{options.output_file}.{options.language}.words"
    phonemizer = Phonemizer(options.language)  # a wrong language is told before the text is read
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
        _warn_of_other_scripts(words)
        if not options.in_context:
            _recommend_context(phonemizer, next(line_batches(paths, options.text_column))[:_LINES_OF_TASK], table)
        with output(options.output_file) as temporary, open(temporary, "w", encoding="utf-8", newline="\n") as file:
            with progress("writing", None, " lines") as done:
                for lines in _phonemized(run, paths, table, options):
                    file.writelines(lines)
                    done(len(lines))
        os.remove(kept)
    logging.info("%s: %s%s", options.output_file, count_of(len(words), "different word"),
                 f"; {silent:,} of them have no sound and are left out" if silent else "")


def _phonemized(
    run: Run, paths: list[str], table: Mapping[str, str], options: Options
) -> Iterator[list[str]]:
    """The lines of the output, in batches."""
    for batch in line_batches(paths, options.text_column):
        sentences = [[word for word in split_words(line) if table[word]] for line in batch]
        if options.in_context:
            tasks = ((part, {word: table[word] for words in part for word in words})
                     for part in chunks(sentences, _LINES_OF_TASK))
            sounds = [phonemes for part in run(Phonemizer.sentences, tasks) for phonemes in part]
        else:
            sounds = [[table[word].replace(SEPARATOR, "") for word in words] for words in sentences]
        yield [write_line(words, phonemes) + "\n" if words else "\n" for words, phonemes in zip(sentences, sounds)]


def _warn_of_other_scripts(words: Iterable[str]) -> None:
    """Warns of words with letters of another script than the first letters of most words."""
    def script(letter: str) -> str:
        return unicodedata.name(letter, "").partition(" ")[0]

    spelled = [word for word in words if word[0].isalpha()]
    most = collections.Counter(script(word[0]) for word in spelled).most_common(1)
    usual = {"LATIN", *(name for name, _ in most)}
    other = [word for word in spelled if len(word) > 1 and not word.isascii()
             and not usual.issuperset(script(letter) for letter in word if letter.isalpha())]
    if other:
        logging.warning("%s with letters of another script, such as %s: espeak-ng may spell them, or name the script. "
                        "Remove them from the text if they matter", count_of(len(other), "word"), ", ".join(other[:3]))


def _recommend_context(phonemizer: Phonemizer, lines: Sequence[str], table: Mapping[str, str]) -> None:
    """Recommends --in_context if most words of one letter sound otherwise beside their neighbours."""
    sentences = [[word for word in split_words(line) if table[word]] for line in lines]
    letters = [pair for pairs in map(zip, sentences, phonemizer.sentences(sentences, table)) for pair in pairs
               if len(pair[0]) == 1 and pair[0].isalpha()]
    others = collections.Counter((word, sound) for word, sound in letters if sound != table[word])
    if others.total() > len(letters) / 2:
        word, sound = others.most_common(1)[0][0]
        logging.info("--in_context is recommended: %r sounds %s alone, but %s beside its neighbours", word, table[word],
                     sound)


def _phonemize_words(phonemizer: Phonemizer, words: list[str]) -> tuple[list[str], list[str]]:
    return words, phonemizer.spoken(words)


def _read_table(path: str) -> dict[str, str]:
    """The words of an earlier run. What follows a line that was not written whole is cut off."""
    table: dict[str, str] = {}
    if os.path.exists(path):
        with open(path, "r+b") as file:
            for number, line in enumerate(file, start=1):
                if not _WHOLE_LINE.fullmatch(line):
                    file.truncate(file.tell() - len(line))
                    break
                word, sound = decode_utf8(line, path, number)[:-1].split("\t")
                table[word] = sound
    return table
