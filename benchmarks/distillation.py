"""What a teacher adds to pre-training: losses of students with and without one, over seeds.

    python -m benchmarks.distillation --teacher=albert_tiny_en --data=data --output_dir=out --seeds=3

The teacher is a model with pre-training heads and a vocabulary. The student has half of its layers, starts from its
weights, and is pre-trained on novels: without a teacher, and with its logits. Results are those of held-out novels.
They are printed and written to distillation.csv in --output_dir.
The benchmark continues where it stopped if it is run again.
"""

import itertools
import os

from absl import flags

from albert_tf.commands.command_runs import run_script
from albert_tf.commands.flags import define_float, define_required
from albert_tf.text.lines import read_lines
from albert_tf.training.evaluation import read_history
from albert_tf.utils.files import read_json_object
from albert_tf.utils.outputs import write_csv, write_text
from albert_tf.weights.stored_model import open_model
from benchmarks import common

define_required("teacher", "Weights with pre-training heads, such as albert_tiny_en.")
define_required("data", "Folder that has corpus/.")
common.define_output_dir()
flags.DEFINE_integer("seeds", 1, "Number of runs of each student, each with another seed.", lower_bound=1)
flags.DEFINE_integer("steps", 200, "Number of training steps.", lower_bound=1)
define_float("learning_rate", 5e-4, "Peak learning rate.", lower_bound=0.0)
FLAGS = flags.FLAGS

LENGTH, PREDICTIONS = 32, 5  # tokens and masked tokens of an example
METRICS = ("masked_lm_accuracy", "masked_lm_loss")


def main():
    os.makedirs(FLAGS.output_dir, exist_ok=True)
    rows = list(of_teacher_and_students())
    write_csv(os.path.join(FLAGS.output_dir, "distillation.csv"),
              [("student", "seed", "step", "metric", "score"), *rows])


def of_teacher_and_students():
    """The rows of the teacher, then of the students by seed."""
    source, config_file = open_model(FLAGS.teacher), os.path.join(FLAGS.output_dir, "half.json")
    records = {split: records_of_novels(source, split, lines) for split, lines in (("train", 20_000), ("dev", 1_000))}
    write_text(config_file,
               source.config.replace(num_hidden_layers=source.config.num_hidden_layers // 2).to_json_string())
    common = dict(input_file=records["train"], eval_input_file=records["dev"], init_checkpoint=FLAGS.teacher,
                  do_eval=True, max_eval_steps=0, max_seq_length=LENGTH, max_predictions_per_seq=PREDICTIONS,
                  precision="mixed_bfloat16", verbosity=-1)
    students = dict(alone={}, logits=dict(teacher_checkpoint=FLAGS.teacher, distillation_temperature=1.0,
                                          distillation_alpha=0.5))
    folder = os.path.join(FLAGS.output_dir, "teacher")
    run_script("run_pretraining", output_dir=folder, do_train=False, **common)
    yield from rows_of("teacher", 1, [read_json_object(os.path.join(folder, "eval_results.json"))])
    for seed, (name, distillation) in itertools.product(range(1, FLAGS.seeds + 1), students.items()):
        folder = os.path.join(FLAGS.output_dir, f"{name}_{seed}")
        run_script("run_pretraining", output_dir=folder, albert_config_file=config_file, random_seed=seed,
                   dynamic_masking=True, optimizer="adamw", learning_rate=FLAGS.learning_rate, train_batch_size=32,
                   num_train_steps=FLAGS.steps, num_warmup_steps=FLAGS.steps // 10,
                   save_checkpoints_steps=FLAGS.steps, **common, **distillation)
        yield from rows_of(name, seed, read_history(folder, METRICS[0]))


def records_of_novels(source, split, lines):
    """The path of the records of a split, with the teacher's vocabulary."""
    novels = read_lines(os.path.join(FLAGS.data, "corpus", f"novels_{split}.txt"))
    text, path = (os.path.join(FLAGS.output_dir, f"{split}.{ending}") for ending in ("txt", "tfrecord"))
    write_text(text, "".join(f"{line}\n" for line in itertools.islice(novels, lines)))
    if not os.path.exists(path):
        run_script("create_pretraining_data", input_file=text, output_file=path,
                   spm_model_file=source.vocabulary.spm_model_file, max_seq_length=LENGTH, dupe_factor=1,
                   max_predictions_per_seq=PREDICTIONS, verbosity=-1)
    return path


def rows_of(student, seed, history):
    """A row for each metric of each evaluation, which is printed, too."""
    for results, metric in itertools.product(history, METRICS):
        step, score = results["global_step"], results[metric]
        print(f"{student:8} seed {seed} step {step:5} {metric:14} {score:.4f}", flush=True)
        yield student, seed, step, metric, f"{score:.4f}"


if __name__ == "__main__":
    common.run(main)
