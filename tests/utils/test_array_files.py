"""Arrays as .npy files, row by row."""

import pathlib
import subprocess
import sys

import numpy as np
import pytest

from albert_tf.utils.writing import array_writer, write_array

ROOT = str(pathlib.Path(__file__).parents[2])


@pytest.mark.parametrize("shape, dtype", [
    ((5, 3), np.float32), ((5,), np.int64), ((5, 2, 2), np.int32), ((0, 3), float)])
def test_rows_come_back_whatever_their_order(tmp_path, shape, dtype):
    array = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    with array_writer(str(tmp_path / "x.npy"), shape, dtype) as write:
        for first, last in ((3, 5), (0, 1), (1, 3)):
            write(min(first, len(array)), array[first:last])
    read = np.load(tmp_path / "x.npy")
    assert read.dtype == dtype
    np.testing.assert_array_equal(read, array)
    write_array(str(tmp_path / "x.npy"), array[::-1])
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), array[::-1])


@pytest.mark.parametrize("first, shape", [(4, (2, 3)), (-1, (1, 3)), (0, (1, 4)), (0, (3,))])
def test_values_that_do_not_fit_are_refused_and_leave_nothing(tmp_path, first, shape):
    with pytest.raises(ValueError, match="do not fit at row"):
        with array_writer(str(tmp_path / "x.npy"), (5, 3)) as write:
            write(first, np.zeros(shape))
    assert not list(tmp_path.iterdir())


@pytest.mark.long
def test_a_full_disk_is_an_error_that_leaves_nothing(tmp_path):
    program = f"""
import os, sys
sys.path.insert(0, {ROOT!r})
import numpy as np
from albert_tf.utils.writing import array_writer
folder = {str(tmp_path)!r}
try:
    with array_writer(f"{{folder}}/x.npy", (1000, 1000)) as write:
        for row in range(999, -1, -1):
            write(row, np.ones((1, 1000)))
except OSError as error:
    print(error.strerror, os.listdir(folder))
"""
    disk = ["unshare", "-rm", "sh", "-c", f'mount -t tmpfs -o size=256k none "{tmp_path}" && exec "$@"', "-"]
    try:
        subprocess.run([*disk, "true"], check=True, capture_output=True, timeout=60)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no file system can be mounted here")
    done = subprocess.run([*disk, sys.executable, "-c", program], capture_output=True, text=True, timeout=100)
    assert done.stdout == "No space left on device []\n", (done.returncode, done.stderr)
