"""The speed of data creation compared with SentencePiece alone, and its memory as the corpus grows.

    python -m benchmarks.create_pretraining_data --input_file=text.txt --spm_model_file=30k-clean.model

Speed is bytes of text times dupe_factor per second. The time with dupe_factor 1 is subtracted from the time with
dupe_factor 10, so that start-up and tokenisation do not count. SentencePiece encodes the same lines in one thread.
Memory is the largest proportional set size (PSS) of all processes together, which Linux reports.
"""

import contextlib
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import sentencepiece
from absl import flags

from albert_tf.commands import app
from benchmarks import common_flags
from benchmarks.alternation import ROOT

flags.DEFINE_string("input_file", None, "Path of a text: one sentence on each line, a blank line between documents.",
                    required=True)
common_flags.define_spm_model_file()
common_flags.define_rounds(3)
flags.DEFINE_integer("num_workers", 2, "Number of processes of create_pretraining_data.py.", lower_bound=1)
FLAGS = flags.FLAGS

WANTED_RATIO, WANTED_MEGABYTES, WANTED_GROWTH = 0.4, 2000, 1.1
FEW, MANY = 1, 10  # dupe_factor
LONGER = 5  # corpora
_SAMPLE_SECONDS = 0.05


def main():
    with tempfile.TemporaryDirectory() as folder:
        speed_table(folder)
        memory_table(folder)


def speed_table(folder: str) -> None:
    size = os.path.getsize(FLAGS.input_file)
    rounds = []
    for _ in range(FLAGS.rounds):
        few, many = (create(FLAGS.input_file, folder, dupe_factor) for dupe_factor in (FEW, MANY))
        bare = encode(FLAGS.input_file)
        rounds.append((size / bare, (MANY - FEW) * size / (many - few), (MANY - FEW) * bare / (many - few)))
    bare, ours, ratio = (statistics.median(column) for column in zip(*rounds))
    print(f"\n{'MB of text x dupe a second, median':36}{'SentencePiece':>16}{'ours':>8}{'ratio':>8}{'wanted':>8}")
    what = f"{FLAGS.num_workers} workers, 512 tokens"
    print(f"{what:36}{bare / 1e6:16.2f}{ours / 1e6:8.2f}{ratio:8.2f}{WANTED_RATIO:8.2f}")


def memory_table(folder: str) -> None:
    longer = os.path.join(folder, "longer.txt")
    with open(FLAGS.input_file, "rb") as source, open(longer, "wb") as file:
        file.write((source.read().rstrip(b"\n") + b"\n\n") * LONGER)
    print(f"\n{'largest PSS of all processes':36}{'MB':>16}{'ratio':>8}{'wanted':>16}")
    first = None
    for name, path, dupe_factor in (("corpus", FLAGS.input_file, FEW),
                                    (f"corpus, dupe_factor {MANY}", FLAGS.input_file, MANY),
                                    (f"{LONGER} times the corpus", longer, FEW)):
        peak = peak_memory(command(path, folder, dupe_factor)) / 1e6
        first = first or peak
        print(f"{name:36}{peak:16.0f}{peak / first:8.2f}{f'< {WANTED_MEGABYTES}, {WANTED_GROWTH}':>16}")


def command(path: str, folder: str, dupe_factor: int) -> list[str]:
    return [sys.executable, str(ROOT / "create_pretraining_data.py"), f"--input_file={path}",
            f"--output_file={folder}/made.tfrecord", f"--spm_model_file={FLAGS.spm_model_file}", "--max_seq_length=512",
            "--max_predictions_per_seq=77", f"--dupe_factor={dupe_factor}", f"--num_workers={FLAGS.num_workers}"]


def create(path: str, folder: str, dupe_factor: int) -> float:
    """The seconds that the script takes."""
    start = time.perf_counter()
    subprocess.run(command(path, folder, dupe_factor), check=True, stderr=subprocess.DEVNULL)
    return time.perf_counter() - start


def encode(path: str) -> float:
    """The seconds that SentencePiece takes in one thread."""
    model = sentencepiece.SentencePieceProcessor(model_file=FLAGS.spm_model_file)
    with open(path, encoding="utf-8") as file:
        lines = [line.strip().lower() for line in file]
    start = time.perf_counter()
    for first in range(0, len(lines), 1000):
        model.encode(lines[first : first + 1000], num_threads=1)
    return time.perf_counter() - start


def peak_memory(arguments: list[str]) -> int:
    """The largest PSS in bytes of a command and all its children, measured a few times a second."""
    process = subprocess.Popen(arguments, stderr=subprocess.DEVNULL)
    peak = 0
    while process.poll() is None:
        peak = max(peak, sum(map(pss, family(process.pid))))
        time.sleep(_SAMPLE_SECONDS)
    if process.returncode:
        raise ValueError(f"{' '.join(arguments)} ended with status {process.returncode}")
    return peak


def family(pid: int) -> list[int]:
    """A process and all its descendants."""
    children = []
    for path in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # it has just ended
            children += path.read_text().split()
    return [pid, *(descendant for child in children for descendant in family(int(child)))]


def pss(pid: int) -> int:
    try:
        lines = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


if __name__ == "__main__":
    app.run(main)
