"""Questions per second when SQuAD is prepared for training, compared with Hugging Face's run_qa.py and fast tokenizer.

    python -m benchmarks.squad_features --train_file=train-v1.1.json --spm_model_file=30k-clean.model \\
        --peer_vocab_file=30k-clean.vocab --peer_python=/path/to/bin/python

Features have 384 tokens and a stride of 128. Ours uses two processes, the fast tokenizer two threads. The peer's
environment needs torch and transformers.
"""


from absl import flags

from albert_tf.commands import app
from albert_tf.tasks.squad.reading import read_squad_file
from benchmarks import common_flags
from benchmarks.alternation import Worker, latencies
from benchmarks.processor import naming_processor

flags.DEFINE_string("train_file", None, "Path of SQuAD's training file, JSON.", required=True)
common_flags.define_spm_model_file()
flags.DEFINE_string("peer_vocab_file", None, "Path of the SentencePiece model's .vocab file, from which the peer makes "
                    "its tokenizer.", required=True)
common_flags.define_peer_python("transformers")
common_flags.define_rounds(5)
FLAGS = flags.FLAGS

LENGTHS = ("384", "128")
MEMORY, RECORDS, PEER = "ours, in memory", "ours, to records and back", "Hugging Face, in memory"


def main():
    questions = read_squad_file(FLAGS.train_file).summary.questions
    rates = {name: questions / seconds for name, seconds in compare().items()}
    print(f"\n{'questions per second, median':36}{'':8}{'/ Hugging Face':>16}")
    for name, rate in rates.items():
        print(f"{name:36}{rate:8,.0f}{rate / rates[PEER]:16.2f}")


def compare() -> dict[str, float]:
    """The median seconds of each program for the file. In a round each program has one turn."""
    ours = (FLAGS.train_file, FLAGS.spm_model_file, *LENGTHS)
    programs = {
        MEMORY: lambda: Worker("squad_ours", *ours, "memory"),
        RECORDS: lambda: Worker("squad_ours", *ours, "records"),
        PEER: lambda: Worker("squad_hugging_face", FLAGS.train_file, FLAGS.peer_vocab_file, *LENGTHS,
                             python=FLAGS.peer_python),
    }
    return latencies(programs, FLAGS.rounds)


if __name__ == "__main__":
    app.run(naming_processor(main))
