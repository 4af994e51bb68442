"""The program of the two workers of tests/training/test_strategy.py: the chief writes a file, and worker 1 fails."""

import pathlib

from absl import flags

from albert_tf.commands import app
from albert_tf.training.config import Devices
from albert_tf.training.strategy import chief_first, create_strategy, is_chief, values_of_all, wait_for_all

flags.DEFINE_string("folder", None, "Where the chief writes.", required=True)
FLAGS = flags.FLAGS


def main():
    folder = pathlib.Path(FLAGS.folder)
    strategy = create_strategy(Devices())
    index = strategy.cluster_resolver.task_id
    print("values:", values_of_all(strategy, 10 + index), flush=True)
    with chief_first(strategy):
        print("seen:", sorted(path.name for path in folder.iterdir()), flush=True)
        if is_chief(strategy):
            (folder / "of the chief").write_text("")
    if not is_chief(strategy):
        raise ValueError("this worker fails")
    wait_for_all(strategy)


if __name__ == "__main__":
    app.run(main)
