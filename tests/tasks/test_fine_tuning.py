"""Fine-tuning runs: seeds, the best checkpoint, ensembles; prediction in the table's order."""

import json
import logging
import os
import tarfile

import numpy as np
import pytest
import tensorflow as tf
from feature_tables import MAX_SEQ_LENGTH, VOCAB_SIZE, table
from tiny import TINY_TEXT

from albert_tf import keras
from albert_tf.config import AlbertConfig
from albert_tf.data.batching import table_to_evaluate
from albert_tf.modeling.classifier import AlbertClassifier
from albert_tf.modeling.pretrainer import AlbertPretrainer
from albert_tf.tasks import fine_tuning
from albert_tf.tasks.classification.task import ClassificationObjective
from albert_tf.tasks.config import FineTuningConfig
from albert_tf.tasks.task import Setup, Task, TrainedModels
from albert_tf.training import loop
from albert_tf.training.config import Devices, FineTuningTraining, Schedule
from albert_tf.training.optimizer import create_optimizer
from albert_tf.training.prediction import Predictor, mean_of
from albert_tf.training.trainer import Trainer
from albert_tf.weights.choice import Candidates, ChosenModel
from albert_tf.weights.runs import saved_step
from albert_tf.weights.source import TrainedSource
from albert_tf.weights.tf1 import save_tf1_checkpoint

CONFIG = TINY_TEXT.replace(vocab_size=VOCAB_SIZE, max_position_embeddings=MAX_SEQ_LENGTH)
BUCKETS = (16, MAX_SEQ_LENGTH)


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    return table(folder, 64), table(folder, 21, seed=1)


@pytest.fixture(scope="module")
def strategy():
    return tf.distribute.OneDeviceStrategy("CPU:0")


@pytest.fixture
def eagerly():
    """For tests of the files that a run reads and writes: a few training steps take less time without tracing."""
    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


@pytest.fixture(autouse=True)
def no_descriptions(monkeypatch):
    """Neither settings nor cards are written."""
    for name in ("write_settings", "write_run_card"):
        monkeypatch.setattr(loop, name, lambda *arguments: None)


def new_objective(config=CONFIG):
    return ClassificationObjective(AlbertClassifier(config, 2, 0.0))


class AnyTask(Task):
    """A task whose tables and scores the test gives."""

    best_metric, buckets, vocabulary = "accuracy", BUCKETS, None
    objective = training_table = dev_tables = predictions = score = None

    def __init__(self, options, strategy, schedule, objective, buckets):
        model = ChosenModel(CONFIG, candidates=Candidates(options.source))
        super().__init__(options, Setup(model, strategy, None, MAX_SEQ_LENGTH, None))
        self.buckets, self.objective, self.schedule, self.trained = buckets, objective, schedule, TrainedModels(self)

    def train(self, table, score=None):
        self.training_set = table, self.schedule
        fine_tuning.train_runs(self, fine_tuning.runs_of(self.options), self.dev_sets_of(score))

    def evaluate_runs(self, score):
        fine_tuning.evaluate_runs(self, self.trained, self.dev_sets_of(score))

    def dev_sets_of(self, score):
        self.score = score
        return [self.batches_of(getattr(score, "table", None), 8)] if score else []

    def predict(self, table):
        return self.trained.predict(self.batches_of(table, 8))


def finetuning(strategy, output_dir, steps=6, every=2, seeds=(1,), buckets=BUCKETS, objective=new_objective,
               **options):
    config = FineTuningConfig(
        output_dir=str(output_dir), do_train=True, num_runs=len(seeds),
        source=TrainedSource(init_checkpoint=options.pop("init_checkpoint", None)), devices=Devices(cpu_parts=1),
        training=FineTuningTraining(learning_rate=0.01, train_batch_size=8, random_seed=seeds[0]), **options)
    return AnyTask(config, strategy, Schedule(steps, save_checkpoints_steps=every), objective, buckets)


def accuracy_on(examples):
    """A score: the share of right answers of the mean of the predictions."""
    labels = examples.scalars["label_ids"].numpy()

    def score(predictions):
        probabilities = mean_of(predictions[0], "probabilities")
        return dict(accuracy=float(np.mean(probabilities.argmax(axis=1) == labels)), loss=0.0, sets=len(predictions[0]))

    score.table = examples
    return score


def scripted(values):
    """A score: these values, one after the other."""
    values = iter(values)
    return lambda predictions: dict(accuracy=next(values), loss=0.0)


def results(directory):
    return json.loads((directory / "eval_results.json").read_text())


def history(directory):
    return [json.loads(line) for line in (directory / "eval_history.jsonl").read_text().splitlines()]


def test_predictions_are_in_the_tables_order_and_do_not_depend_on_padding_or_replicas(tables, strategy, mirrored):
    keras.utils.set_random_seed(1)
    with mirrored.scope():
        task = new_objective()
    examples = tables[1]

    def predict(where, batch_size, buckets):
        return Predictor(task.model, task.predictions, where)(table_to_evaluate(examples, batch_size, buckets))

    short = predict(strategy, 4, BUCKETS)["probabilities"]
    padded = predict(strategy, 8, (MAX_SEQ_LENGTH,))["probabilities"]
    on_two = predict(mirrored, 4, BUCKETS)["probabilities"]
    batch = examples.batch(tf.range(21, dtype=tf.int64), tf.constant(MAX_SEQ_LENGTH))
    expected = tf.nn.softmax(task.model(batch)["logits"]).numpy()
    for found in (short, padded, on_two):
        np.testing.assert_allclose(np.stack(found), expected, atol=1e-5)


@pytest.mark.usefixtures("eagerly")
def test_initial_weights_that_can_do_the_task_are_evaluated_first_and_may_be_the_best(
        tables, strategy, tmp_path, caplog):
    """Those whose head is new are not."""
    finetuning(strategy, tmp_path / "first", steps=4).train(tables[0], scripted([0.4, 0.6]))
    assert [row["global_step"] for row in history(tmp_path / "first")] == [2, 4]
    later = tmp_path / "later"

    def train(steps, values):
        run = finetuning(strategy, later, steps=steps, init_checkpoint=str(tmp_path / "first"))
        run.train(tables[0], scripted(values))
        return run

    run = train(2, [0.7, 0.5])
    assert [(row["global_step"], row["accuracy"]) for row in history(later)] == [(0, 0.7), (2, 0.5)]
    assert (later / "best_trial.txt").read_text() == "2:0:0.7\n" and results(later)["global_step"] == 0
    assert "no step was better than the initial weights" in caplog.text
    best, first = (run.trained.load(str(folder)).predictor(run.batches_of(tables[1], 8))
                   for folder in (later, tmp_path / "first"))
    np.testing.assert_array_equal(best["probabilities"], first["probabilities"])
    train(4, [0.8])  # a run that continues does not evaluate them again
    assert [row["global_step"] for row in history(later)] == [0, 2, 4] and results(later)["global_step"] == 4


@pytest.mark.usefixtures("eagerly")
def test_a_run_that_ended_after_its_first_evaluation_starts_again_and_keeps_it(tables, strategy, tmp_path):
    finetuning(strategy, tmp_path / "first", steps=2).train(tables[0], scripted([0.6]))

    def train(score):
        run = finetuning(strategy, tmp_path / "run", steps=2, init_checkpoint=str(tmp_path / "first"))
        run.train(tables[0], score)

    def stopped(predictions):
        if (tmp_path / "run/model.ckpt-best.index").exists():
            raise KeyboardInterrupt
        return dict(accuracy=0.9, loss=0.0)

    with pytest.raises(KeyboardInterrupt):
        train(stopped)
    for path in (tmp_path / "run").glob("model.ckpt-2.*"):
        path.unlink()
    train(scripted([0.3]))
    assert [(row["global_step"], row["accuracy"]) for row in history(tmp_path / "run")] == [(0, 0.9), (2, 0.3)]


@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize("steps, ending", [(6, "step 6 of 6 is done"), (1, "step 6 is done, after")])
def test_a_finished_run_that_is_started_again_shows_its_scores(tables, strategy, tmp_path, caplog, steps, ending):
    finetuning(strategy, tmp_path).train(tables[0], scripted([0.4, 0.9, 0.6]))
    caplog.set_level(logging.INFO, logger="absl")
    finetuning(strategy, tmp_path, steps=steps).train(tables[0], scripted([]))
    finished, best = caplog.messages[-2:]
    assert finished.startswith(f"nothing to train: {ending}") and "step 4: accuracy 0.9000, loss 0.0000" in best


@pytest.mark.usefixtures("eagerly")
def test_runs_are_found_whatever_seeds_the_command_names(tables, strategy, tmp_path):
    finetuning(strategy, tmp_path / "two", steps=2, seeds=(5, 6)).train(tables[0], scripted([0.4, 0.9]))
    finetuning(strategy, tmp_path / "one", steps=2, seeds=(5,)).train(tables[0], scripted([0.4]))
    of_two = finetuning(strategy, tmp_path / "two", init_checkpoint=str(tmp_path / "one"))
    of_one = finetuning(strategy, tmp_path / "one", seeds=(5, 6))
    assert of_two.trained.best_path() == str(tmp_path / "two" / "seed_6" / "model.ckpt-best")
    assert of_one.trained.best_path() == str(tmp_path / "one" / "model.ckpt-best")
    of_two.evaluate_runs(scripted([0.8, 0.2]))
    assert results(tmp_path / "two") == dict(accuracy=0.5, loss=0.0)  # the median
    assert [results(tmp_path / "two" / seed)["accuracy"] for seed in ("seed_5", "seed_6")] == [0.8, 0.2]
    assert of_two.trained.best_path() == str(tmp_path / "two" / "seed_5" / "model.ckpt-best")
    of_one.evaluate_runs(scripted([0.3]))
    assert results(tmp_path / "one") == dict(accuracy=0.3, loss=0.0, global_step=2)


@pytest.mark.usefixtures("eagerly")
def test_evaluation_alone_reports_what_it_measured_and_keeps_the_best_checkpoint_of_it(tables, strategy, tmp_path):
    finetuning(strategy, tmp_path).train(tables[0], scripted([0.4, 0.8, 0.9]))
    finetuning(strategy, tmp_path).evaluate_runs(scripted([0.3, 0.7, 0.6]))  # on other data
    assert results(tmp_path) == dict(accuracy=0.7, loss=0.0, global_step=4)
    assert saved_step(str(tmp_path / "model.ckpt-best")) == 4
    for path in tmp_path.glob("model.ckpt-[0-9]*"):
        path.unlink()
    finetuning(strategy, tmp_path).evaluate_runs(scripted([0.25]))
    assert results(tmp_path) == dict(accuracy=0.25, loss=0.0, global_step=4)


@pytest.mark.usefixtures("eagerly")
def test_the_step_of_a_run_is_known_from_its_archive(tables, strategy, tmp_path):
    finetuning(strategy, tmp_path / "run", steps=2).train(tables[0])
    with tarfile.open(tmp_path / "run.tar.gz", "w:gz") as file:
        file.add(tmp_path / "run", "run")
    run = finetuning(strategy, tmp_path / "evaluated", init_checkpoint=str(tmp_path / "run.tar.gz"))
    run.evaluate_runs(accuracy_on(tables[1]))
    assert results(tmp_path / "evaluated")["global_step"] == run.trained.checkpoint().step == 2


def test_a_checkpoint_that_was_not_fine_tuned_does_not_predict(golden, strategy, tables, tmp_path):
    config = AlbertConfig.from_json_file(str(golden / "model_a" / "albert_config.json"))
    run = finetuning(strategy, tmp_path, init_checkpoint=str(golden / "model_a" / "model.ckpt-best"),
                     objective=lambda _: ClassificationObjective(AlbertClassifier(config, 2)))
    with pytest.raises(ValueError, match=r"was not fine-tuned for this task: it has no output_weights, output_bias"):
        run.predict(tables[1])


@pytest.mark.usefixtures("eagerly")
def test_a_run_that_continues_or_predicts_does_not_load_the_initial_checkpoint(strategy, tables, tmp_path, caplog):
    caplog.set_level(logging.INFO, logger="absl")
    released = str(tmp_path / "released" / "model.ckpt")
    save_tf1_checkpoint(AlbertPretrainer(CONFIG), released)

    def run(use, **options):
        caplog.clear()
        use(finetuning(strategy, tmp_path / "run", every=1, init_checkpoint=released, **options))
        return caplog.text

    score = accuracy_on(tables[1])
    assert f"{released}: " in run(lambda run: run.train(tables[0], score), steps=1)
    for use in (lambda run: run.train(tables[0], score), lambda run: run.evaluate_runs(score),
                lambda run: run.predict(tables[1])):
        printed = run(use, steps=2)
        assert released not in printed and "new, random" not in printed


@pytest.mark.long
def test_each_bucket_compiles_with_xla_in_training_and_prediction(tables, strategy):
    trainers = []
    for jit_compile in (False, True):
        keras.utils.set_random_seed(1)
        with strategy.scope():
            optimizer = create_optimizer("adamw", 0.01, 10, 0)
            trainers.append(Trainer(new_objective(), optimizer, 1, jit_compile=jit_compile))
    for bucket in (8, 16):
        batch = {name: values[:4] for name, values in
                 tables[0].batch(tf.range(64, dtype=tf.int64), tf.constant(MAX_SEQ_LENGTH)).items()}
        batch = {name: values[:, :bucket] if values.shape.rank == 2 else values for name, values in batch.items()}
        plain, compiled = (trainer.step(iter(tf.data.Dataset.from_tensors(batch)))
                           for trainer in trainers)
        np.testing.assert_allclose(compiled["loss"], plain["loss"], rtol=1e-4)
        np.testing.assert_allclose(compiled["gradient_norm"], plain["gradient_norm"], rtol=1e-3)
    trainer = trainers[1]
    data = table_to_evaluate(tables[1], 4, BUCKETS)
    found = Predictor(trainer.model, trainer.objective.predictions, strategy, jit_compile=True)(data)
    plain = Predictor(trainer.model, trainer.objective.predictions, strategy)(data)
    np.testing.assert_allclose(np.stack(found["probabilities"]), np.stack(plain["probabilities"]), atol=1e-5)


@pytest.mark.long
def test_mirrored_training_equals_one_device(tables, strategy, mirrored, tmp_path):
    ends = []
    for name, where in (("one", strategy), ("two", mirrored)):
        run = finetuning(where, tmp_path / name, steps=4)
        run.train(tables[0], accuracy_on(tables[1]))
        ends.append(tf.train.load_checkpoint(str(tmp_path / name / "model.ckpt-4")))
        assert os.path.exists(tmp_path / name / "model.ckpt-best.index")
    names = [name for name in ends[0].get_variable_to_shape_map() if name.startswith("model/") and "SLOT" not in name]
    for name in names:
        np.testing.assert_allclose(ends[0].get_tensor(name), ends[1].get_tensor(name), atol=2e-4)
