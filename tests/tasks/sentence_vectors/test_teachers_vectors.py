"""The vectors that a teacher's file has for the lines to train on."""

import types

import numpy as np
import pytest
from tiny import TINY_TEXT

from albert_tf.tasks.sentence_vectors import task as module
from albert_tf.tasks.sentence_vectors.config import SentenceVectorsConfig
from albert_tf.tasks.sentence_vectors.objective import SentenceVectorObjective
from albert_tf.tasks.sentence_vectors.task import PROJECTION, SentenceEmbeddings
from albert_tf.training.teacher import StoredTeacher


@pytest.mark.parametrize("is_chief", [True, False], ids=["the chief", "another worker"])
def test_of_several_workers_the_chief_alone_writes_the_projection_that_all_use(is_chief, tmp_path, monkeypatch):
    (tmp_path / "lines.txt").write_text("one\n\ntwo\nthree\n")
    np.save(tmp_path / "vectors.npy", np.random.RandomState(0).normal(size=(4, 24)).astype(np.float32))
    monkeypatch.setattr(module, "is_chief", lambda strategy: is_chief)
    options = SentenceVectorsConfig(output_dir=str(tmp_path / "run"), do_train=True, objective="distillation",
                                    train_file=str(tmp_path / "lines.txt"),
                                    teacher_vectors=str(tmp_path / "vectors.npy"))
    task = types.SimpleNamespace(options=options, pooling=dict(truncate_dim=None), config=TINY_TEXT,
                                 setup=types.SimpleNamespace(strategy=None))
    teacher = StoredTeacher("teacher_vectors", str(tmp_path / "vectors.npy"), SentenceVectorObjective.TEACHER_OUTPUTS)
    outputs = SentenceEmbeddings.teacher_outputs(task, teacher, None, None)
    assert outputs["sentence_embedding"].shape == (3, TINY_TEXT.hidden_size)
    assert (tmp_path / "run" / PROJECTION).exists() == is_chief
