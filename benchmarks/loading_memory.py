"""The memory that loading a model takes, compared with the size of its weights: albert_xxlarge, from each format.

    python -m benchmarks.loading_memory

The weights are random. Each load is a separate process. Memory is the largest resident memory, as Linux reports it,
less the resident memory after the imports.
"""

import tempfile

from absl import flags

from albert_tf.commands import app
from albert_tf.config import PRESETS
from benchmarks.alternation import json_of
from benchmarks.processor import naming_processor

flags.DEFINE_enum("size", "albert_xxlarge_v2", list(PRESETS), "Name of the model size.")
FLAGS = flags.FLAGS

FORMS = {"tf1": "TF1 checkpoint", "hugging_face": "safetensors", "ours": "our checkpoint"}


def main():
    print(f"{FLAGS.size + ', both heads':36}{'MB of weights':>16}{'peak MB':>10}{'ratio':>8}")
    for form, name in FORMS.items():
        with tempfile.TemporaryDirectory() as folder:
            json_of("memory", "make", folder, form, FLAGS.size)
            weights, peak = json_of("memory", "load", folder)
        print(f"{name:36}{weights / 1e6:16.0f}{peak / 1e6:10.0f}{peak / weights:8.2f}")


if __name__ == "__main__":
    app.run(naming_processor(main))
