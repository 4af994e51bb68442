"""Flags of the commands that fine-tune: the recipes, and the default of --max_seq_length."""

import json

import pytest
from absl import flags as absl_flags
from absl.testing import flagsaver
from in_process import loaded
from script_process import arguments_of

from albert_tf.commands import flags
from albert_tf.commands.flags import RECIPES
from albert_tf.config import AlbertConfig
from albert_tf.export.conversion import save
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.tasks.classification.config import ClassifierConfig
from albert_tf.tasks.classification.data import TASKS
from albert_tf.tasks.fine_tuning import prepare
from albert_tf.tasks.multiple_choice.config import MultipleChoiceConfig
from albert_tf.tasks.sentence_vectors.config import SentenceVectorsConfig
from albert_tf.tasks.squad.config import SquadConfig
from albert_tf.tasks.tagging.config import TaggingConfig
from albert_tf.weights.vocabulary import VocabularyFiles

RELEASE = {"run_classifier": 512, "run_squad": 384, "run_race": 512, "run_tagging": 128,
           "run_sentence_embeddings": 128}
CONFIG = dict(vocab_size=2000, embedding_size=4, hidden_size=4, num_hidden_layers=1, num_attention_heads=1,
              intermediate_size=4)


CONFIGS = {"run_classifier": ClassifierConfig, "run_squad": SquadConfig, "run_race": MultipleChoiceConfig,
           "run_tagging": TaggingConfig, "run_sentence_embeddings": SentenceVectorsConfig}


def options_of(script, **values):
    """The config that a script makes from flags."""
    with loaded(script), flagsaver.flagsaver():
        absl_flags.FLAGS([script, *arguments_of({name: value for name, value in values.items()
                                                 if name in absl_flags.FLAGS})])
        return flags.read(CONFIGS[script])


def length_of(script="run_classifier", **values):
    """The length of rows that a script uses with these flags."""
    files = dict(data_dir="data", train_file="data")
    files.update(dict(task_name="rte") if script == "run_classifier" else dict(predict_file="data"))
    purpose = {} if "do_train" in values or "do_predict" in values else dict(do_predict=True)
    options = options_of(script, **{**files, **purpose, **values})
    return prepare((), options).max_seq_length


@pytest.fixture
def trained(tmp_path, tiny_spm):
    """The directory of a run that was trained with 24 tokens; the model has 64 positions."""
    model = AlbertModel(AlbertConfig(**CONFIG, max_position_embeddings=64), max_seq_length=24)
    save(model, str(tmp_path / "trained"), "ours", VocabularyFiles(tiny_spm))
    return tmp_path / "trained"


@pytest.mark.parametrize("script", RELEASE)
def test_a_run_keeps_its_length_and_a_new_one_has_the_releases_or_all_positions_of_the_model(script, trained, tiny_spm,
                                                                                           tmp_path):
    assert length_of(script, output_dir=trained) == length_of(script, output_dir=trained, do_train=True) == 24
    for positions in (64, 512):
        (tmp_path / "config.json").write_text(json.dumps(dict(CONFIG, max_position_embeddings=positions)))
        length = length_of(script, albert_config_file=tmp_path / "config.json", output_dir=tmp_path / "new",
                           do_train=True, spm_model_file=tiny_spm)
        assert length == min(RELEASE[script], positions)


def test_the_command_line_and_then_a_recipe_have_precedence(trained, tmp_path):
    recipe = tmp_path / "recipe.json"
    recipe.write_text('{"max_seq_length": 32}')
    for purpose in (dict(do_train=True), dict(do_predict=True)):
        new = dict(purpose, output_dir=tmp_path / "new", init_checkpoint=trained, recipe=recipe)
        assert length_of(**new) == 32
        assert length_of(max_seq_length=16, **new) == 16
    recipe.write_text('{"train_step": 3}')
    assert length_of(output_dir=trained, recipe=recipe) == 24


def test_a_recipe_may_have_lists_and_other_names_of_flags(tmp_path):
    (tmp_path / "mine.json").write_text('{"matryoshka_dims": [8, 4], "seed": 7}')
    values = dict(output_dir="new", data_dir="data", do_eval=True, recipe=tmp_path / "mine.json")
    options = options_of("run_sentence_embeddings", **values)
    assert (options.matryoshka_dims, options.training.random_seed) == ((8, 4), 7)
    assert options_of("run_sentence_embeddings", random_seed=9, **values).training.random_seed == 9


def test_weights_that_predict_keep_their_length_and_weights_that_a_run_starts_from_do_not(trained, tmp_path):
    new = dict(output_dir=tmp_path / "new", do_predict=True)
    assert length_of(init_checkpoint=trained, **new) == length_of(ensemble_checkpoints=trained, **new) == 24
    assert length_of(init_checkpoint=trained, do_train=True, **new) == 64


def test_several_runs_that_were_interrupted_keep_their_length(trained, tmp_path):
    (tmp_path / "runs/seed_7").mkdir(parents=True)  # has no checkpoint yet
    trained.rename(tmp_path / "runs/seed_8")
    assert length_of(output_dir=tmp_path / "runs", num_runs=2, do_train=True) == 24


def test_a_stored_length_that_is_none_is_named_and_without_one_there_is_the_default(trained):
    for length in ("3", '"24"'):
        (trained / "albert_tf.json").write_text(f'{{"head": "classifier", "max_seq_length": {length}}}')
        with pytest.raises(ValueError, match="albert_tf.json: max_seq_length must be a whole number from 4"):
            length_of(output_dir=trained)
    (trained / "albert_tf.json").unlink()
    assert length_of(output_dir=trained) == 64


# Learning rate, batch, ALBERT dropout, classifier dropout, steps, warm-up, length (Lan et al., 2020, table 14).
TABLE_14 = {
    "cola": (1e-5, 16, 0, 0.1, 5336, 320, 512), "sts-b": (2e-5, 16, 0, 0.1, 3598, 214, 512),
    "sst-2": (1e-5, 32, 0, 0.1, 20935, 1256, 512), "mnli": (3e-5, 128, 0, 0.1, 10000, 1000, 512),
    "qnli": (1e-5, 32, 0, 0.1, 33112, 1986, 512), "qqp": (5e-5, 128, 0.1, 0.1, 14000, 1000, 512),
    "rte": (3e-5, 32, 0.1, 0.1, 800, 200, 512), "mrpc": (2e-5, 32, 0, 0.1, 800, 200, 512),
    "wnli": (2e-5, 16, 0.1, 0.1, 2000, 250, 512), "squad_v1": (5e-5, 48, 0, 0.1, 3649, 365, 384),
    "squad_v2": (3e-5, 48, 0, 0.1, 8144, 814, 512), "race": (2e-5, 32, 0.1, 0.1, 12000, 1000, 512),
    "race_v2": (1e-5, 32, 0, 0.1, 12000, 1000, 512),  # of the release's README
}


def test_the_recipes_are_the_papers():
    for task, expected in TABLE_14.items():
        recipe = json.loads((RECIPES / f"{task}.json").read_text())
        of_the_head = "classifier_dropout_prob" if task in TASKS else "dropout_prob"
        names = ("learning_rate", "train_batch_size", "hidden_dropout_prob", of_the_head, "train_step", "warmup_step",
                 "max_seq_length")
        assert tuple(recipe[name] for name in names) == expected
        assert recipe["attention_probs_dropout_prob"] == recipe["hidden_dropout_prob"]


@pytest.mark.parametrize("values, expected", [
    (dict(task_name="rte"), (1000, 0)), (dict(task_name="rte", train_step=50), (50, 0)),
    (dict(task_name="rte", recipe="rte"), (800, 200)), (dict(task_name="rte", recipe="rte", train_step=50), (50, 5)),
    (dict(task_name="rte", num_train_epochs=2), (13, 1)), (dict(task_config="mine.json"), (20, 2)),
    (dict(script="run_race"), (12000, 1000)), (dict(script="run_race", data_format="jsonl"), (20, 2)),
    (dict(script="run_tagging", train_file="train.conll"), (20, 2))], ids=str)
def test_the_release_says_how_long_its_tasks_are_trained_and_others_are_read_three_times(values, expected, tmp_path,
                                                                                          monkeypatch):
    (tmp_path / "mine.json").write_text(json.dumps(dict(
        name="mine", files=dict(train="train.csv"), columns=dict(text_a=0, label=1), labels=["bad", "good"])))
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    monkeypatch.chdir(tmp_path)
    defaults = dict(albert_config_file="config.json", output_dir="new", do_train=True, script="run_classifier",
                    train_batch_size=32)
    options = options_of(**{**dict(data_dir="data"), **defaults, **values})
    length = options.training.schedule(220, "text", options.release_steps, options.LARGEST_INTERVAL)
    assert (length.num_train_steps, length.num_warmup_steps) == expected


@pytest.mark.parametrize("values, steps, warmup_steps", [
    (dict(), 8144, 814), (dict(num_train_epochs=2), 60, 6), (dict(train_step=50), 50, 5),
    (dict(train_step=50, warmup_step=20), 50, 20), (dict(warmup_proportion=0.5), 8144, 4072)])
def test_a_recipes_warm_up_is_kept_only_with_its_number_of_steps(values, steps, warmup_steps):
    options = options_of("run_squad", train_file="train.json", output_dir="out", do_train=True, recipe="squad_v2",
                         train_batch_size=1, **values)
    schedule = options.training.schedule(30, "question")
    assert (schedule.num_train_steps, schedule.num_warmup_steps) == (steps, warmup_steps)
