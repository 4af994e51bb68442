"""Files, sets, folders and checkpoints appear whole or not at all, whenever a process is killed; only one writes."""

import contextlib
import errno
import functools
import json
import os
import pathlib
import re
import stat
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.commands.app import _one_line
from albert_tf.utils import outputs
from albert_tf.utils.files import check_directory
from albert_tf.utils.manifests import (
    check_export,
    check_output,
    checked_manifest,
    is_replaceable,
    made_from_of,
    manifest_of,
    model_files,
    output_folder,
    output_set,
    shard_paths,
)
from albert_tf.utils.outputs import (
    local_copy,
    locked,
    output,
    output_checkpoint,
    used_alone,
    write_array,
    write_text,
)

ROOT = str(pathlib.Path(__file__).parents[2])


@pytest.fixture(autouse=True)
def fast_disk(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda file: None)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def content(path):
    with tf.io.gfile.GFile(str(path)) as file:
        return file.read()


def killed_before(number, function, monkeypatch):
    """Runs a function in a child, which ends just before its change `number` of a folder. Returns whether it did."""
    if child := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    left = [number]

    def counted(change):
        def changed(*args, **kwargs):
            left[0] -= 1
            if left[0] < 0:
                os._exit(9)
            return change(*args, **kwargs)
        return changed

    for module, changes in ((tf.io.gfile, ("rename", "remove", "rmtree")), (os, ("replace", "remove", "mkdir"))):
        for name in changes:
            monkeypatch.setattr(module, name, counted(getattr(module, name)))
    monkeypatch.setattr(outputs, "_RENAMING_THREADS", 1)
    function()
    os._exit(0)


def each_kill(tmp_path, function, monkeypatch):
    """Yields a new folder for each change of a folder that a function makes, after it was killed just before it."""
    number, killed = 0, True
    while killed:
        folder = tmp_path / f"{number}"
        folder.mkdir()
        function(folder, "first")
        killed = killed_before(number, lambda folder=folder: function(folder, "second"), monkeypatch)
        yield folder
        number += 1
    assert number > 3


def write_shards(folder, text):
    path = str(folder / "x.tfrecord")
    with output_set({path: shard_paths(path, 1 if text == "third" else 2)}) as written:
        for file in written.temporary:
            write_text(written.temporary[file], text)
        written.made_from = dict(text=text)


def read_shards(folder):
    checked_manifest(str(folder / "x.manifest.json"))
    text, = {content(path) for path in folder.glob("x*.tfrecord")}
    assert text != "third" or made_from_of(str(folder / "x.tfrecord")) == dict(text=text)
    return text


SHARDS = ["x-00000-of-00002.tfrecord", "x-00001-of-00002.tfrecord", "x.manifest.json"]


def write_model(folder, text, last="saved_model.pb"):
    with output_folder(str(folder / "model")) as temporary:
        write_text(os.path.join(temporary, last), text)
        write_text(os.path.join(temporary, f"assets/{text}"), text)


def read_model(folder, last="saved_model.pb"):
    if not (folder / "model" / last).exists():
        return "refused"
    assert names(folder / "model/assets") == [content(folder / "model" / last)]
    return content(folder / "model" / last)


def write_checkpoint(folder, text):
    with output_checkpoint(str(folder / "model.ckpt-7")) as prefix:
        for part in ("data-00000-of-00001", "index"):
            write_text(f"{prefix}.{part}", text)


def read_checkpoint(folder):
    data, index = folder / "model.ckpt-7.data-00000-of-00001", folder / "model.ckpt-7.index"
    assert not index.exists() or content(data) == content(index)
    return content(index) if index.exists() else "refused"


@pytest.mark.parametrize("write, read, files", [
    (write_shards, read_shards, ["x.manifest.json", "x.tfrecord"]), (write_model, read_model, ["model"]),
    (*(functools.partial(each, last="model.onnx") for each in (write_model, read_model)), ["model"]),
    (write_checkpoint, read_checkpoint, ["model.ckpt-7.data-00000-of-00001", "model.ckpt-7.index"])])
def test_an_output_is_the_earlier_or_the_new_one_or_refused_after_every_kill_and_can_be_made_again(
        tmp_path, monkeypatch, write, read, files):
    states = []
    for folder in each_kill(tmp_path, write, monkeypatch):
        try:
            states.append(read(folder))
        except ValueError as error:
            assert "x.manifest.json says that its files are not complete" in str(error)
            states.append("refused")
        write(folder, "third")
        assert names(folder) == files and read(folder) == "third"
    assert list(dict.fromkeys(states)) == ["first", "refused", "second"]


def write_two_outputs(folder, text):
    paths = [str(folder / name) for name in ("a.npy", "b.npy")]
    with output_set({path: [path] for path in paths}) as written:
        for path in paths:
            write_text(written.temporary[path], text)
        written.made_from = dict(text=text)


WRITERS = [write_shards, write_model, write_checkpoint, write_two_outputs, lambda folder, text: write_text(
    str(folder / "x.txt"), text)]


def contents(folder):
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("write", WRITERS)
def test_files_are_on_the_disk_before_they_are_renamed_and_folders_afterwards(tmp_path, monkeypatch, write):
    steps, replace, fsync = [], os.replace, os.fsync
    monkeypatch.setattr(os, "replace", lambda old, new: (steps.append((old, new)), replace(old, new)))
    monkeypatch.setattr(os, "fsync", lambda file: (steps.append(os.readlink(f"/proc/self/fd/{file}")), fsync(file)))
    write(tmp_path, "first")
    final = [i for i, step in enumerate(steps) if type(step) is tuple and ".tmp/" not in step[1]]
    assert {steps[i][1] for i in final} >= set(map(str, filter(pathlib.Path.is_file, tmp_path.rglob("*"))))
    for i, following in zip(final, [*final[1:], None]):
        old, new = steps[i]
        until = following if new.endswith(".manifest.json") else None
        assert old in steps[:i] and os.path.dirname(new) in steps[i:until]


@pytest.mark.parametrize("earlier", [True, False])
@pytest.mark.parametrize("write", WRITERS)
def test_a_step_that_fails_leaves_the_earlier_output_or_the_new_one(tmp_path, monkeypatch, write, earlier):
    for name in ("expected", "other"):
        (tmp_path / name).mkdir()
        write(tmp_path / name, "second" if name == "expected" else "first")
    before = contents(tmp_path / "other") if earlier else {}
    steps = [*((os, name) for name in ("replace", "fsync", "mkdir", "remove")),
             *((tf.io.gfile, name) for name in ("remove", "rmtree"))]
    for number in range(100):
        left, folder = [number], tmp_path / f"{number}"
        folder.mkdir()
        if earlier:
            write(folder, "first")

        def failing(function, left=left, folder=folder):
            def step(*args, **kwargs):
                left[0] -= 1
                if left[0] == -1:
                    paths = [part for path in args if type(path) is str for part in (path, None)]
                    raise OSError(errno.EIO, "Input/output error", *paths[:3])
                return function(*args, **kwargs)
            return step

        with monkeypatch.context() as patch:
            for module, name in steps:
                patch.setattr(module, name, failing(getattr(module, name)))
            try:
                write(folder, "second")
                message = None
            except OSError as error:
                message = _one_line(error)
        after = {name: text for name, text in contents(folder).items() if not re.match(r"\..*(tmp/|\.lock$)", name)}
        assert after in ([contents(tmp_path / "expected")] if message is None else
                         [before, contents(tmp_path / "expected")])
        place = rf"{folder}(/(\.export|\.checkpoints|[a-z])\S*)?"
        assert message is None or re.fullmatch(f"{place}: Input/output error", message), message
        write(folder, "second")
        assert contents(folder) == contents(tmp_path / "expected")
        if left[0] >= 0:
            break
    assert number > 3


def test_a_temporary_folder_that_cannot_be_removed_is_a_warning(tmp_path, monkeypatch, caplog):
    with monkeypatch.context() as patch:
        patch.setattr(os, "rmdir", lambda *_: None)

        def fails(path):
            raise tf.errors.PermissionDeniedError(None, None, f"{path}; Permission denied")

        patch.setattr(tf.io.gfile, "rmtree", fails)
        write_text(str(tmp_path / "x"), "whole")
    assert content(tmp_path / "x") == "whole" and f"{tmp_path}/.x.tmp cannot be removed" in caplog.text


def test_a_model_without_its_last_file_is_not_complete_and_may_be_made_again(tmp_path):
    folder, made_from = str(tmp_path / "model"), dict(source="a")
    for error in (None, KeyboardInterrupt):
        with contextlib.suppress(KeyboardInterrupt), model_files(folder, "ours", made_from, ["weights"]):
            assert not os.path.exists(f"{folder}/weights")
            write_text(f"{folder}/config", "config")
            if error:
                raise error
            write_text(f"{folder}/weights", "weights")
        same, other = (is_replaceable(folder, "ours", source) for source in (made_from, dict(source="b")))
        assert same and other == bool(error) and not is_replaceable(folder, "onnx", made_from)


@pytest.mark.parametrize("before", [[], ["notes.txt"]])
def test_an_error_leaves_no_folder_of_settings_without_a_model(tmp_path, before):
    for name in before:
        (tmp_path / name).touch()
    with pytest.raises(OSError), model_files(str(tmp_path), "ours", {}, ["weights"]):
        write_text(f"{tmp_path}/config", "config")
        write_text(f"{tmp_path}/onnx/half", "half")
        raise OSError("disk full")
    assert [name for name in names(tmp_path) if not name.startswith(".")] == (
        ["config", "notes.txt", "onnx"] if before else [])  # new files beside others may be somebody else's
    assert before or not names(tmp_path)


@pytest.mark.parametrize("folder", ["ram://written", "{tmp_path}/new"])
def test_a_file_appears_when_it_is_whole_and_an_error_leaves_what_was_there(tmp_path, folder):
    path = f"{folder.format(tmp_path=tmp_path)}/x.txt"
    for text in ("first", "second"):
        with output(path) as temporary:
            with tf.io.gfile.GFile(temporary, "w") as file:
                file.write(text)
            assert not tf.io.gfile.exists(path) or content(path) == "first"
    with pytest.raises(KeyboardInterrupt), output(path) as temporary:
        with tf.io.gfile.GFile(temporary, "w") as file:
            file.write("half of")
        raise KeyboardInterrupt
    assert content(path) == "second" and tf.io.gfile.listdir(os.path.dirname(path)) == ["x.txt"]


def test_what_a_killed_process_left_is_replaced_and_does_not_keep_a_folder_in_use(tmp_path):
    program = f"""
import os, sys
sys.path.insert(0, {ROOT!r})
from albert_tf.utils.manifests import output_set
from albert_tf.utils.outputs import output, used_alone
path = {str(tmp_path / "x")!r}
with used_alone({str(tmp_path)!r}, "training"), output(path), output_set({{path + "y": [path + "y"]}}) as written:
    open(written.temporary[path + "y"], "w").close()
    os.kill(os.getpid(), 9)
"""
    assert subprocess.run([sys.executable, "-c", program], timeout=100).returncode == -9
    assert names(tmp_path) == [".training.lock", ".x.lock", ".x.tmp", ".xy.lock", ".xy.tmp"]
    path = str(tmp_path / "xy")
    with used_alone(str(tmp_path), "training"), output_set({path: [path]}) as written:
        write_text(written.temporary[path], "y")
        write_text(str(tmp_path / "x"), "x")
    assert names(tmp_path) == ["x", "xy", "xy.manifest.json"]


def test_a_second_writer_is_refused_before_it_works_and_short_writes_wait(tmp_path):
    path = str(tmp_path / "x")
    with output_set({path: [path]}), pytest.raises(ValueError, match="x is being written by another command: wait"):
        with output_set({path: [path]}):
            raise AssertionError
    with used_alone(path, "training"):
        with pytest.raises(ValueError, match="x is in use by another training: wait until it has ended, or choose"):
            with used_alone(path, "training"):
                raise AssertionError
        with used_alone(path, "search"):
            write_text(f"{path}/other", "whole")
    assert names(tmp_path / "x") == ["other"]
    program = f"import sys; sys.path.insert(0, {ROOT!r}); from albert_tf.utils.outputs import write_text; "
    with locked(f"{path}/other", wait=True):
        writer = subprocess.Popen([sys.executable, "-c", f"{program}write_text({path!r} + '/other', 'later')"])
        with pytest.raises(subprocess.TimeoutExpired):
            writer.wait(3)
        assert content(f"{path}/other") == "whole"
    assert writer.wait(60) == 0 and content(f"{path}/other") == "later"


def test_a_block_waits_for_another_that_removes_the_folder_of_its_lock(tmp_path, monkeypatch):
    import filelock

    acquire, calls = filelock.FileLock.acquire, []

    def acquired_later(lock, **arguments):
        calls.append(lock)
        if len(calls) == 1:
            (tmp_path / "new").rmdir()
        return acquire(lock, **arguments)

    monkeypatch.setattr(filelock.FileLock, "acquire", acquired_later)
    with used_alone(str(tmp_path / "new"), "training") as is_locked:
        assert is_locked and len(calls) <= 2 and (tmp_path / "new").is_dir()
    assert not names(tmp_path)  # it was made for the lock alone


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP])
def test_nothing_is_refused_on_file_systems_without_locks_and_remote_ones(tmp_path, monkeypatch, number):
    import filelock

    def no_locks(*_, **__):
        raise OSError(number, "No locks available")

    monkeypatch.setattr(filelock.FileLock, "acquire", no_locks)
    for folder in (str(tmp_path), "ram://uses"):
        with used_alone(folder, "training"), used_alone(folder, "training"):
            pass
    monkeypatch.setattr(outputs.tempfile, "gettempdir", lambda: str(tmp_path))
    assert os.path.isdir(outputs.folder_of_this_process()) and os.path.isdir(outputs.folder_of_this_process())
    assert len(list(tmp_path.glob("albert_tf.*"))) == 2  # of which no lock tells whether they are in use
    assert not tf.io.gfile.exists("ram://uses")


# --- manifests -------------------------------------------------------------------------------------------------------


def test_a_manifest_has_sizes_and_what_a_set_was_made_from(tmp_path):
    write_shards(tmp_path, "four")
    manifest = manifest_of(str(tmp_path / SHARDS[0]))
    assert json.loads(content(manifest)) == dict(
        complete=True, made_from=dict(text="four"), files={name: dict(size=4) for name in SHARDS[:2]})
    (tmp_path / SHARDS[0]).unlink()
    with pytest.raises(ValueError, match="x-00000-of-00002.tfrecord is missing, which .*x.manifest.json lists"):
        checked_manifest(manifest)
    (tmp_path / SHARDS[0]).write_text("cut")
    with pytest.raises(ValueError, match="x-00000-of-00002.tfrecord has 3 bytes but its manifest says 4"):
        checked_manifest(manifest)


def test_files_that_were_not_written_again_are_removed_and_no_others(tmp_path):
    (tmp_path / "x.other.npy").write_text("precious")
    files = [str(tmp_path / name) for name in ("x.npy", "x.a.npy", "x.b.npy")]
    for written in (files, files[::2], files[:1]):
        with output_set({files[0]: files}) as new:
            for file in written:
                write_text(new.temporary[file], file)
        assert names(tmp_path) == sorted([*map(os.path.basename, written), "x.npy.manifest.json", "x.other.npy"])


@pytest.mark.parametrize("text", ["", "\0" * 300, '{\n  "complete": true,\n  "files": {\n' + "\0" * 200])
def test_a_damaged_manifest_is_that_of_an_output_that_is_made_again(tmp_path, text):
    write_shards(tmp_path, "first")
    write_model(tmp_path, "first")
    for manifest in (tmp_path / SHARDS[2], tmp_path / "model/.export.manifest.json"):
        manifest.write_text(text)
        with pytest.raises(ValueError, match="manifest.json says that its files are not complete"):
            checked_manifest(str(manifest))
    assert is_replaceable(str(tmp_path / "model"), "export", {})
    write_shards(tmp_path, "second")
    write_model(tmp_path, "first")
    assert made_from_of(str(tmp_path / SHARDS[0])) == dict(text="second")


def test_arrays_are_compared_with_their_checksums(tmp_path):
    write_two_outputs(tmp_path, "first text")
    path = tmp_path / "a.npy"
    assert made_from_of(str(path)) == dict(text="first text")
    path.write_text("first\0\0\0\0\0")
    with pytest.raises(ValueError, match="a.npy is damaged or was changed: its checksum is not that in .*a.npy.manif"):
        made_from_of(str(path))


def test_a_new_path_and_an_empty_file_and_an_earlier_output_may_be_written(tmp_path):
    (tmp_path / "empty").touch()
    for name in ("new", "empty"):
        check_output(str(tmp_path / name), [str(tmp_path / name)])
    write_shards(tmp_path, "first")
    for folder in (tmp_path, f"{tmp_path}//", f"{tmp_path}/./"):
        assert check_output(f"{folder}/x.tfrecord", [f"{folder}/{SHARDS[0]}"]) == SHARDS[:2]


@pytest.mark.parametrize("name", ["../precious", "{}/precious", "a/../../precious", "link/precious"])
def test_a_strangers_manifest_cannot_name_files_outside_of_its_folder(tmp_path, name):
    (tmp_path / "precious").write_text("mine")
    folder = tmp_path / "downloaded"
    (folder / "a").mkdir(parents=True)
    (folder / "x.npy").touch()
    (folder / "link").symlink_to(tmp_path)
    content = dict(complete=True, made_from={}, files={name.format(tmp_path): dict(size=4)})
    for manifest in ("x.npy.manifest.json", ".export.manifest.json"):
        (folder / manifest).write_text(json.dumps(content))
    if not name.startswith("link"):
        with pytest.raises(ValueError, match="x.npy.manifest.json names .*precious"):
            checked_manifest(str(folder / "x.npy.manifest.json"))
    with contextlib.suppress(ValueError), output_set({f"{folder}/x.npy": [f"{folder}/x.npy"]}) as outputs:
        write_text(outputs.temporary[f"{folder}/x.npy"], "array")
    with contextlib.suppress(ValueError), output_folder(str(folder)) as temporary:
        write_text(f"{temporary}/y", "export")
    assert (tmp_path / "precious").read_text() == "mine"


@pytest.mark.parametrize("length", [234, 242, 255, 300])
def test_a_name_for_which_a_manifest_would_be_too_long_is_refused_before_the_work(tmp_path, length):
    path = str(tmp_path / ("x" * (length - 4) + ".npy"))
    with pytest.raises(ValueError, match="x.npy.*too long"), output_set({path: [path]}):
        pytest.fail("the work has begun")
    with pytest.raises(ValueError, match="x is too long"):
        check_export(str(tmp_path / ("x" * (length + 20))))
    assert not list(tmp_path.iterdir())


def test_the_longest_name_can_be_written_twice(tmp_path):
    path = str(tmp_path / ("x" * 229 + ".npy"))
    for _ in range(2):
        with output_set({path: [path]}) as outputs:
            write_array(outputs.temporary[path], np.zeros(1))
    assert made_from_of(path) == {}


@pytest.mark.parametrize("paths, named", [
    (["text"], "text exists"), (["new", "text"], "text exists"), (["folder"], "folder is a directory"),
    (["x.tfrecord"], "x.manifest.json exists")])
@pytest.mark.parametrize("content", ["precious", "[]", '{"size": 3}', "\ufffd"])
def test_a_file_of_someone_else_is_refused_by_name(tmp_path, paths, named, content):
    (tmp_path / "folder").mkdir()
    for name in ("text", "x.manifest.json"):
        (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=f"^{tmp_path}/{named}"):
        check_output(str(tmp_path / paths[0]), [str(tmp_path / path) for path in paths])


# --- folders ---------------------------------------------------------------------------------------------------------


def test_a_link_stays_and_its_target_is_replaced(tmp_path):
    targets = tmp_path / "targets"
    for name in ("file", "folder", "records"):
        targets.mkdir(exist_ok=True)
        (targets / name).mkdir() if name == "folder" else (targets / name).touch()
        (tmp_path / name).symlink_to(targets / name)
    for text in ("first", "second"):
        write_text(str(tmp_path / "file"), text)
        with output_folder(f"{tmp_path}/folder/") as temporary:
            write_text(os.path.join(temporary, "saved_model.pb"), text)
        records = str(tmp_path / "records")
        with output_set({records: [records]}) as written:
            write_text(written.temporary[records], text)
            assert ".records.tmp" in names(targets)
        assert content(targets / "file") == content(targets / "records") == text
        assert content(targets / "folder/saved_model.pb") == text
        assert made_from_of(str(tmp_path / "records")) == {}
    assert all((tmp_path / name).is_symlink() for name in ("file", "folder", "records"))
    assert names(targets) == ["file", "folder", "records"]


@pytest.mark.parametrize("target", ["nowhere", "link"])
def test_a_link_that_leads_nowhere_or_to_itself_is_refused_in_one_line(tmp_path, target):
    link = tmp_path / "link"
    link.symlink_to(tmp_path / target)
    for write in (write_text, lambda path, _: check_output(path, [path]), lambda path, _: check_export(path),
                  lambda path, _: check_directory(f"{path}/x"), lambda path, _: write_text(f"{path}/x", "x")):
        with pytest.raises(ValueError, match=f"link is a symbolic link to {tmp_path}/{target}, which cannot be"):
            write(str(link), "x")
    assert link.is_symlink() and names(tmp_path) == ["link"]


@contextlib.contextmanager
def umask(mask):
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def test_files_and_folders_have_the_permissions_that_the_umask_leaves(tmp_path):
    module = tf.Module()
    module.w = tf.Variable(1.0)
    with umask(0o002):
        write_text(str(tmp_path / "new/inner/x.txt"), "x")
        write_shards(tmp_path, "x")
        with output_folder(str(tmp_path / "model")) as temporary:
            tf.saved_model.save(module, temporary)
    modes = {stat.S_IMODE(path.stat().st_mode): path.is_dir() for path in tmp_path.rglob("*")}
    assert modes == {0o775: True, 0o664: False}


@pytest.mark.parametrize("file", ["model.ckpt-7.index", "assets/mine.txt", "run/eval_results.txt"])
def test_a_file_that_was_added_to_an_export_stays(tmp_path, file):
    for place in (str(tmp_path / "model"), "ram://added/model"):
        for text in ("first", "second"):
            with output_folder(place) as temporary:
                write_text(os.path.join(temporary, "saved_model.pb"), text)
                write_text(os.path.join(temporary, text), text)
                write_text(f"{place}/{file}", "precious")
            check_export(place)
        assert content(f"{place}/{file}") == "precious" and content(f"{place}/saved_model.pb") == "second"
        assert tf.io.gfile.exists(f"{place}/second") and not tf.io.gfile.exists(f"{place}/first")
        with pytest.raises(ValueError, match=f"{re.escape(f'{place}/{file}')} exists, and no .*: choose another path"):
            with output_folder(place) as temporary:
                write_text(os.path.join(temporary, file), "new")
        assert content(f"{place}/{file}") == "precious" and content(f"{place}/saved_model.pb") == "second"


@pytest.mark.parametrize("place", ["ram://exports", "{tmp_path}"])
def test_a_folder_that_is_no_export_is_not_replaced(tmp_path, place):
    place = place.format(tmp_path=tmp_path)
    for name in ("text.txt", "saved_model.pb"):
        write_text(f"{place}/mine/{name}", "mine")
        with pytest.raises(ValueError, match=f"{place}/mine exists and is not an earlier export"):
            with output_folder(f"{place}/mine"):
                pass
        assert content(f"{place}/mine/{name}") == "mine"


# --- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error_of, message", [
    (lambda _: OSError(errno.ENOSPC, "No space left on device"), "{path}: No space left on device"),  # of an open file
    (lambda temporary: tf.errors.ResourceExhaustedError(
        None, None, f"{temporary}/variables/x.data; No space left on device"), "{path}: No space left on device"),
    (lambda temporary: OSError(f"Unable to synchronously write {temporary}"), "Unable to synchronously write {path}")],
    ids=["system", "TensorFlow", "HDF5"])
def test_an_error_of_writing_names_the_output(tmp_path, error_of, message):
    path = str(tmp_path / "x y.txt")
    with pytest.raises(OSError) as error, output(path) as temporary:
        raise error_of(temporary)
    assert _one_line(error.value) == message.format(path=path)
    with pytest.raises(OSError) as error, output_set({path: [path]}) as written:
        raise error_of(os.path.dirname(written.temporary[path]))
    assert _one_line(error.value) == message.format(path=path)
    assert not names(tmp_path)


def test_a_folder_that_cannot_be_written_is_an_error_that_names_the_output(tmp_path, monkeypatch):
    def permission_denied(path, *_):
        raise PermissionError(errno.EACCES, "Permission denied", path)

    monkeypatch.setattr("os.open", permission_denied)
    with pytest.raises(OSError) as error:
        write_text(str(tmp_path / "x.txt"), "x")
    assert _one_line(error.value) == f"{tmp_path}/x.txt: Permission denied"


def test_other_errors_in_the_block_stay_as_they_are(tmp_path):
    missing = FileNotFoundError(errno.ENOENT, "No such file or directory", "input.txt")
    memory = tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor")
    for error in (missing, memory, OSError("no path"), BrokenPipeError(errno.EPIPE, "Broken pipe")):
        with pytest.raises(type(error)) as raised, output(str(tmp_path / "x")):
            raise error
        assert raised.value is error and str(tmp_path) not in str(error)


# --- local copies ----------------------------------------------------------------------------------------------------


def test_a_local_file_is_its_own_copy_and_a_remote_one_is_copied_once_for_each_version(tmp_path):
    assert local_copy(str(tmp_path / "x")) == str(tmp_path / "x")
    write_text("ram://copies/x.txt", "first")
    copy = local_copy("ram://copies/x.txt")
    assert content(copy) == "first" and os.path.basename(copy) == "x.txt"
    assert local_copy("ram://copies/x.txt") == copy
    write_text("ram://copies/x.txt", "second")
    assert content(local_copy("ram://copies/x.txt")) == "second" and content(copy) == "first"


def test_folders_of_killed_processes_are_removed_and_those_of_others_are_not(tmp_path, monkeypatch):
    monkeypatch.setattr(outputs.tempfile, "gettempdir", lambda: str(tmp_path))
    (tmp_path / "albert_tf.0123456789abcdef").mkdir()
    first = outputs.folder_of_this_process()
    second = outputs.folder_of_this_process()
    assert [path for path in names(tmp_path) if not path.startswith(".")] == sorted(
        map(os.path.basename, (first, second)))
    assert stat.S_IMODE(os.stat(first).st_mode) == 0o700


def test_a_forked_child_does_not_remove_the_folder_of_its_parent(tmp_path):
    program = f"""
import os, sys, tempfile
sys.path.insert(0, {ROOT!r})
tempfile.tempdir = {str(tmp_path)!r}
from albert_tf.utils.outputs import folder_of_this_process, locked
folder = folder_of_this_process()
with locked({str(tmp_path / "x")!r}):
    if os.fork() == 0:
        sys.exit(0)
    os.wait()
    print(os.path.isdir(folder), sorted(name[:10] for name in os.listdir({str(tmp_path)!r})))
"""
    ended = subprocess.run([sys.executable, "-c", program], timeout=100, capture_output=True, text=True)
    assert ended.stdout == "True ['.albert_tf', '.x.lock', 'albert_tf.']\n", ended.stderr
    assert not names(tmp_path)


def test_a_new_remote_file_is_written_beside_its_manifest_whose_name_begins_as_its_own():
    path = "ram://new_set/x"
    with output_set({path: [path]}) as written:
        write_text(written.temporary[path], "content")
    assert tf.io.gfile.GFile(path).read() == "content"
