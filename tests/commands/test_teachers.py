"""Teachers of the commands as a user names them: other tokenizers, alpha 0, resumed runs, teachers that are refused."""

import shutil

import numpy as np
import pytest
from synthetic_records import VOCAB_SIZE, write_records
from tiny import TINY_TEXT
from tuning import TEXTS, TRAINING, are_equal, end_of

from albert_tf import save_pretrained
from albert_tf.modeling.classifier import AlbertClassifier
from albert_tf.text.tokenization import FullTokenizer
from albert_tf.training.teacher import Teacher
from albert_tf.weights.from_pretrained import from_pretrained, tokenizer_from_pretrained

CONFIG = TINY_TEXT.replace(initializer_range=0.1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, golden):
    folder = tmp_path_factory.mktemp("distillation")
    (folder / "config.json").write_text(CONFIG.to_json_string())
    (folder / "wide.json").write_text(CONFIG.replace(hidden_size=24).to_json_string())
    pieces = len((golden / "wordpiece/vocab.txt").read_text("utf-8").splitlines())
    (folder / "words.json").write_text(CONFIG.replace(vocab_size=pieces).to_json_string())
    (folder / "lines.txt").write_text("".join(f"{text}\n\n" for text in TEXTS))
    (folder / "tags.conll").write_text("".join(f"{word}\t{'AB'[len(word) % 2]}\n" for word in TEXTS[1].split()))
    return folder


@pytest.fixture(scope="module")
def run(session, golden, tiny_spm, folder):
    """A function that trains with a command, and writes to a folder."""
    flags = dict(TRAINING, albert_config_file=folder / "config.json", spm_model_file=tiny_spm, max_seq_length=24,
                 cached_dir=folder / "cached", do_train=True)
    own = dict(run_classifier=dict(task_name="rte", data_dir=golden / "glue"),
               run_sentence_embeddings=dict(data_dir=golden / "glue"),
               run_tagging=dict(train_file=folder / "tags.conll"))
    return lambda script, name, **changed: session.run(
        script=script, output_dir=folder / name, **{**flags, **own[script], **changed})


def of_words(folder, golden):
    """Flags of a model with a WordPiece vocabulary."""
    return dict(albert_config_file=folder / "words.json", spm_model_file=None,
                vocab_file=golden / "wordpiece/vocab.txt")


@pytest.fixture(scope="module")
def teacher(run, folder, golden):
    """A classifier of RTE with another vocabulary than its students."""
    run("run_classifier", "teacher", **of_words(folder, golden))
    return folder / "teacher"


def test_a_teacher_with_another_tokenizer_answers_once_and_a_resumed_run_takes_the_same_steps(run, teacher, folder):
    flags = dict(teacher_checkpoint=teacher, distillation_alpha=0.9, train_step=4)
    assert "the teacher reads" in run("run_classifier", "whole", **flags, cached_dir=folder / "own")
    run("run_classifier", "parts", **flags)
    for file in (folder / "parts").glob("model.ckpt-[34].*"):  # as if the run had been killed
        file.unlink()
    printed = run("run_classifier", "parts", **flags)
    for line in ("training from step 2 to 4, ", "; saved every 1 step; ", "the teacher's answers are read from"):
        assert line in printed
    assert are_equal(end_of(folder / "whole", 4), end_of(folder / "parts", 4))


@pytest.mark.parametrize("script, option, output, flags", [
    ("run_classifier", "teacher_scores", "logits", dict(distillation_alpha=0.9)),
    ("run_sentence_embeddings", "teacher_vectors", "sentence_embedding",
     dict(objective="distillation", train_file="lines.txt"))])
def test_stored_outputs_teach_as_the_model_that_made_them(run, teacher, folder, monkeypatch, script, option, output,
                                                          flags):
    monkeypatch.chdir(folder)
    computed, stored = f"{script}_computed", f"{script}_stored"
    run(script, computed, teacher_checkpoint=teacher, cached_dir=folder / computed, **flags)
    values = np.load(next((folder / computed).glob(f"teacher_{output}_*.npy")))
    if "train_file" in flags:  # a blank line follows each text, and has a row, too
        values = np.insert(values, np.arange(len(values)) + 1, 0, axis=0)
    np.save(folder / f"{option}.npy", values)
    printed = run(script, stored, **{option: folder / f"{option}.npy"}, **flags)
    assert "the teacher" not in printed
    assert are_equal(end_of(folder / computed), end_of(folder / stored))


def test_probabilities_in_the_place_of_logits_are_warned_of(run, folder, golden):
    examples = len((golden / "glue/RTE/train.tsv").read_text("utf-8").splitlines()) - 1
    np.save(folder / "probabilities.npy", np.full([examples, 2], 0.5))
    printed = run("run_classifier", "of_probabilities", teacher_scores=folder / "probabilities.npy")
    assert "all of --teacher_scores are from 0 to 1: they must be logits" in printed


@pytest.fixture(scope="module")
def others(run, folder, teacher):
    """Teachers of a score and of tags, and one without a vocabulary."""
    run("run_classifier", "scores", task_name="sts-b")
    run("run_tagging", "tags")
    shutil.copytree(teacher, folder / "bare", ignore=shutil.ignore_patterns("vocab*", "tokenizer_config.json"))


@pytest.mark.parametrize("script, name, flags, message", [
    ("run_classifier", "scores", {}, "scores: the model has 1 outputs, but the task has 2"),
    ("run_tagging", "teacher", {}, "is classification, and this is tagging"),
    ("run_tagging", "tags", "words", "has another vocabulary than the model to train"),
    ("run_classifier", "bare", {}, "no vocabulary comes with --teacher_checkpoint=")])
def test_a_teacher_that_does_not_fit_is_refused(run, others, folder, golden, script, name, flags, message):
    flags = of_words(folder, golden) if flags == "words" else flags
    assert message in run(script, "refused", expect=1, teacher_checkpoint=folder / name, **flags).splitlines()[-1]


def test_a_teacher_of_another_kind_of_answer_is_refused(teacher, folder, tmp_path):
    names = ["entailment", "not_entailment"]
    checked = Teacher(str(teacher), "classifier", {})
    checked.check_labels(names)
    with pytest.raises(ValueError, match="trained with the labels entailment, not_entailment, but those of the task"):
        checked.check_labels(["0", "1"])
    with pytest.raises(ValueError, match="the model gives a text one label, but the task several labels"):
        checked.check_labels(names, multi_label=True)
    model = AlbertClassifier(from_pretrained(str(teacher), "classifier").config, 1, activation_fn="sigmoid")
    save_pretrained(model, str(tmp_path / "cross_encoder"))
    with pytest.raises(ValueError, match="the model's score is the sigmoid of its logit"):
        Teacher(str(tmp_path / "cross_encoder"), "classifier", {}).check_labels(None)


def test_answers_for_tokens_need_the_pieces_and_the_casing_of_the_model(teacher, golden, tmp_path):
    """Also if there are as many pieces."""
    checked = Teacher(str(teacher), "classifier", {})
    words = str(golden / "wordpiece/vocab.txt")
    checked.check_tokens(FullTokenizer(words), checked.config, 24)
    lines = (golden / "wordpiece/vocab.txt").read_text("utf-8").splitlines()
    (tmp_path / "vocab.txt").write_text("\n".join([*lines[:-2], lines[-1], lines[-2]]) + "\n", "utf-8")
    for other in (FullTokenizer(words, do_lower_case=False), FullTokenizer(str(tmp_path / "vocab.txt"))):
        with pytest.raises(ValueError, match="has another vocabulary than the model to train, or other casing"):
            checked.check_tokens(other, checked.config, 24)


def test_a_tagger_learns_from_a_narrower_one_with_the_same_vocabulary(run, others, folder):
    printed = run("run_tagging", "student", teacher_checkpoint=folder / "tags", albert_config_file=folder / "wide.json")
    assert "the teacher reads" in printed


@pytest.mark.long
def test_sentence_vectors_come_near_those_of_a_teacher_with_another_tokenizer_and_width(run, folder, golden):
    flags = dict(train_file=folder / "lines.txt", train_step=1)
    run("run_sentence_embeddings", "vectors", objective="simcse", normalize=True, **flags, **of_words(folder, golden))
    flags.update(objective="distillation", teacher_checkpoint=folder / "vectors",
                 albert_config_file=folder / "wide.json")
    run("run_sentence_embeddings", "near", do_eval=True, hidden_dropout_prob=0, attention_probs_dropout_prob=0,
        **{**flags, "train_step": 40}, save_checkpoints_steps=40)
    stored = (folder / "near/teacher_projection.npy").read_bytes()
    printed = run("run_sentence_embeddings", "near", **{**flags, "train_step": 41})
    assert "training from step 40 to 41" in printed  # without the initial weights
    assert (folder / "near/teacher_projection.npy").read_bytes() == stored
    cosines = []
    for path in (folder / "vectors", folder / "near"):
        model = from_pretrained(str(path), model="sentence_encoder", normalize=True)
        vectors = model(tokenizer_from_pretrained(str(path))(TEXTS))["sentence_embedding"].numpy()
        cosines.append(vectors @ vectors.T)
    assert np.abs(cosines[0] - cosines[1]).max() < 0.1


@pytest.mark.long
def test_pre_training_learns_from_a_teacher_with_as_many_pieces(session, folder):
    config = CONFIG.replace(vocab_size=VOCAB_SIZE, max_position_embeddings=16)
    (folder / "pretrained.json").write_text(config.to_json_string())
    flags = dict(input_file=write_records(folder / "train.tfrecord", 8, objective="sop"), max_seq_length=16,
                 albert_config_file=folder / "pretrained.json", max_predictions_per_seq=3, train_batch_size=4,
                 num_train_steps=2, num_warmup_steps=0, save_checkpoints_steps=1, optimizer="adamw")

    def pretrain(name, random_seed=2, **changed):
        return session.run(script="run_pretraining", output_dir=folder / name, random_seed=random_seed, **flags,
                           **changed)

    pretrain("pretrained", random_seed=1)
    pretrain("untaught")
    pretrain("taught_0", distillation_alpha=0, teacher_checkpoint=folder / "pretrained")
    pretrain("taught_lm", do_eval=True, teacher_checkpoint=folder / "pretrained")
    printed = pretrain("tiny", expect=1, teacher_checkpoint="albert_tiny_en")
    assert are_equal(end_of(folder / "untaught"), end_of(folder / "taught_0"))
    assert not are_equal(end_of(folder / "untaught"), end_of(folder / "taught_lm"))
    assert "--teacher_checkpoint=albert_tiny_en has another vocabulary" in printed.splitlines()[-1]
