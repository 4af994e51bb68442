"""Files with the outputs of a teacher: their formats, and those that are refused."""

import hashlib

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from safetensors.numpy import save_file

from albert_tf.training.teacher import StoredTeacher

VALUES = np.arange(12, dtype=np.float16).reshape(4, 3)


@pytest.fixture
def source(tmp_path):
    (tmp_path / "lines.txt").write_text("a\nb\nc\nd\n")
    return str(tmp_path / "lines.txt")


def write(path, values, digest=None, **others):
    if path.suffix == ".npy":
        np.save(path, values)
    elif path.suffix == ".safetensors":
        save_file(dict(vectors=values, **others), path, metadata=digest and dict(text_sha256=digest))
    else:
        rows = values.tolist() if isinstance(values, np.ndarray) else values
        pyarrow.parquet.write_table(pyarrow.table(dict(vectors=rows, **others)), path)
    return StoredTeacher("teacher_vectors", str(path), {})


@pytest.mark.parametrize("name, others", [
    ("a.npy", {}), ("a.safetensors", {}), ("a.parquet", {}), ("b.parquet", dict(text=["a", "b", "c", "d"]))])
def test_each_format_gives_its_rows(tmp_path, source, name, others):
    rows = write(tmp_path / name, VALUES, **others).rows(4, source)
    assert rows.dtype == np.float32
    np.testing.assert_array_equal(rows, VALUES)


def test_scores_may_have_one_dimension(tmp_path, source):
    for name in ("scores.npy", "scores.parquet"):
        np.testing.assert_array_equal(write(tmp_path / name, VALUES[:, 0]).rows(4, source, 1), VALUES[:, :1])


def test_a_digest_is_that_of_the_text(tmp_path, source):
    with open(source, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    write(tmp_path / "right.safetensors", VALUES, digest).rows(4, source)
    with pytest.raises(ValueError, match="wrong.safetensors was made from another text than .*lines.txt"):
        write(tmp_path / "wrong.safetensors", VALUES, digest[::-1]).rows(4, source)


@pytest.mark.parametrize("name, values, others, message", [
    ("a.npy", VALUES[:3], {}, "--teacher_vectors=.*a.npy has 3 rows, but .*lines.txt has 4: make a row for each"),
    ("a.npy", VALUES.astype(np.int8), {}, "has numbers of the type int8: write them as float32"),
    ("a.npy", np.where(VALUES == 7, np.nan, VALUES), {}, "numbers that are not finite in float32, first in row 3"),
    ("a.npy", np.where(VALUES == 4, np.inf, VALUES), {}, "numbers that are not finite in float32, first in row 2"),
    *((name, np.where(VALUES == 4, 1e39, VALUES.astype(np.float64)), {}, "not finite in float32, first in row 2")
      for name in ("a.npy", "a.safetensors", "a.parquet")),
    ("a.npy", VALUES[:, 0], {}, r"has an array of the shape \[4\], but must have one of \[4, 3\]"),
    ("a.npy", VALUES[:, :2], {}, r"has an array of the shape \[4, 2\], but must have one of \[4, 3\]"),
    ("a.safetensors", VALUES, dict(more=VALUES), "must have one array. It has more, vectors"),
    ("a.parquet", [[1.0, 2.0], [1.0]], {}, "the rows of 'vectors' are not numbers, as many in each"),
    ("a.parquet", [[1.0]] * 4, dict(more=[[2.0]] * 4), "must have one column of lists. It has vectors, more"),
    ("a.parquet", ["a"], dict(more=["b"]), "must have one column of lists. It has none"),
])
def test_what_is_no_teacher_is_refused(tmp_path, source, name, values, others, message):
    with pytest.raises(ValueError, match=message):
        write(tmp_path / name, values, **others).rows(4, source, 3)


def test_other_formats_are_refused(tmp_path, source):
    with pytest.raises(ValueError, match="lines.txt must end in .npy, .safetensors or .parquet"):
        StoredTeacher("teacher_vectors", source, {}).rows(4, source)
