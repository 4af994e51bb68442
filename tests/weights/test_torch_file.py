"""Files of torch.save are read without torch, and pickles that weights do not need run nothing."""

import os
import pickle
import random
import resource
import struct
import zipfile
from collections import Counter, OrderedDict

import ml_dtypes
import numpy as np
import pytest
from peers import run_client
from torch_files import MAGIC, SYSTEM, View, save

from albert_tf.weights.torch_file import TorchTensor, read_torch
from albert_tf.weights.torch_writer import write_torch

BASE = np.arange(48, dtype=np.float32)


def without_tensors(value):
    """As in torch_client.py."""
    if isinstance(value, dict):
        return {key: without_tensors(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(without_tensors, value))
    return value.shape if isinstance(value, TorchTensor) else value


def arrays(value, place=""):
    """The tensors of an object by their places."""
    if isinstance(value, TorchTensor):
        return {place: value.read()}
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, (list, tuple)) else ()
    return {name: array for key, item in items for name, array in arrays(item, f"{place}/{key}").items()}


def refused(path):
    """The one line that refuses a file."""
    with pytest.raises(ValueError) as error:
        read_torch(str(path))
    text = str(error.value)
    assert text.startswith(f"{path} cannot be read as weights of torch.save: ") and len(text.splitlines()) == 1, text
    return text.partition("torch.save: ")[2]


def test_what_torch_saves_in_both_formats_is_read_bit_for_bit(tmp_path):
    run_client("transformers", "torch_client.py", "write", tmp_path)
    files = [path for ending in ("zip", "older") for path in tmp_path.glob(f"*.{ending}")
             if path.with_suffix(".npz").exists()]
    assert len(files) >= 30
    for path in files:
        value, expected = read_torch(str(path)), np.load(path.with_suffix(".npz"))
        assert repr(without_tensors(value)) == path.with_suffix(".txt").read_text(), path
        tensors = arrays(value)
        assert tensors.keys() == {*expected}, path
        for name, array in tensors.items():
            np.testing.assert_array_equal(array.astype(expected[name].dtype), expected[name], err_msg=str(path))
    assert read_torch(str(tmp_path / "protocol.4"))["step"] == 1_000_000
    assert arrays(read_torch(str(tmp_path / "checksum.none"))).keys() == arrays(
        read_torch(str(tmp_path / "state_dict.zip"))).keys()
    assert "TorchScript" in refused(tmp_path / "program.jit")
    assert "torch.nn.modules.container Sequential" in refused(tmp_path / "module.zip")
    assert "torch._utils _rebuild_qtensor" in refused(tmp_path / "quantized.zip")
    assert "torch._utils _rebuild_sparse_tensor" in refused(tmp_path / "sparse.zip")
    assert "torch ComplexFloatStorage" in refused(tmp_path / "complex.zip")


def test_torch_reads_what_is_written(tmp_path):
    values = dict(a=BASE.reshape(6, 8).T, b=np.float32(3), none=np.zeros((0, 3)), half=BASE.astype(np.float16),
                  brain=BASE.astype(ml_dtypes.bfloat16), positions=np.arange(9)[None], flags=np.array([True, False]))
    path = tmp_path / "written.pt"
    write_torch(dict(net=values, step=[1, -1, 255, -2**31, 2**40, 0.5, "\u00e9"], more=(None, True, ())), str(path))
    read = read_torch(str(path))
    assert read["step"] == [1, -1, 255, -2**31, 2**40, 0.5, "\u00e9"] and read["more"] == (None, True, ())
    for name, value in values.items():
        assert read["net"][name].storage.dtype == value.dtype
        np.testing.assert_array_equal(read["net"][name].read(), value)
    write_torch(read, str(tmp_path / "again.pt"))
    assert (tmp_path / "again.pt").read_bytes() == path.read_bytes()
    run_client("transformers", "torch_client.py", "read", path, tmp_path / "values.npz")
    for name, value in np.load(tmp_path / "values.npz").items():
        np.testing.assert_array_equal(value, values[name.removeprefix("/net/")].astype(value.dtype))


@pytest.mark.parametrize("protocol", [2, 4, 5])
@pytest.mark.parametrize("older", [False, True])
def test_views_share_a_storage(tmp_path, older, protocol):
    views = dict(whole=View(BASE, 0, (6, 8), (8, 1)), transposed=View(BASE, 0, (8, 6), (1, 8)),
                 part=View(BASE, 10, (2, 3), (16, 2)), repeated=View(BASE, 47, (3, 1), (0, 1)),
                 scalar=View(BASE, 5, (), ()), none=View(BASE, 0, (0, 7), (7, 1)))
    save(OrderedDict(views, text="x", step=[1, 2.5, None]), tmp_path / "views.pt", older, protocol=protocol)
    value = read_torch(str(tmp_path / "views.pt"))
    whole = BASE.reshape(6, 8)
    expected = dict(whole=whole, transposed=whole.T, part=[[10, 12, 14], [26, 28, 30]], repeated=[[47]] * 3, scalar=5,
                    none=np.zeros((0, 7)))
    for name, values in expected.items():
        np.testing.assert_array_equal(value[name].read(), np.asarray(values, np.float32), err_msg=name)
    assert (value["text"], value["step"]) == ("x", [1, 2.5, None])
    assert len({id(value[name].storage) for name in views}) == 1


@pytest.mark.parametrize("older", [False, True])
@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", "i8", "i4", "i2", "i1", "u1", "?"])
def test_each_type_of_numbers(tmp_path, dtype, older):
    values = np.array([[0, 1, 2], [3, 4, 100]]).astype(dtype)
    save(dict(a=values), tmp_path / "a.pt", older)
    array = read_torch(str(tmp_path / "a.pt"))["a"].read()
    assert array.dtype == values.dtype
    np.testing.assert_array_equal(array, values)


@pytest.mark.parametrize("change, named", [
    (dict(order="big"), "big-endian"), (dict(older=True, system=dict(SYSTEM, little_endian=False)), "big-endian"),
    (dict(older=True, system=7), ""), ({"constants.pkl": b""}, "TorchScript")])
def test_other_machines_and_programs_are_refused(tmp_path, change, named):
    save(dict(a=BASE), tmp_path / "a.pt", **change)
    assert named in refused(tmp_path / "a.pt")


@pytest.mark.parametrize("view", [
    View(BASE, 0, (7, 8), (8, 1)), View(BASE, 1, (48,), (1,)), View(BASE, 49, (), ()), View(BASE, -1, (3,), (1,)),
    View(BASE, 0, (6, 8), (-8, 1)), View(BASE, 0, (6, -8), (8, 1)), View(BASE, 0, (6, 8), (8,)),
    View(BASE, 0, (2**40,), (0,)), View(BASE, 0, (2**40, 2**40, 0), (1, 1, 1)), View(BASE, 0, (2,) * 40, (0,) * 40),
    View(BASE, 0, (2.0,), (1,)), View(BASE, 0, (True,), (1,)), View(BASE, 0, [2], [1]), View(BASE, 0, (2**70,), (1,)),
    View(BASE, None, (2,), (1,)), View(BASE, 0, "ab", "cd")], ids=lambda view: str((view.offset, view.shape))[:40])
@pytest.mark.parametrize("older", [False, True])
def test_a_tensor_outside_its_storage_is_refused(tmp_path, view, older):
    save(dict(a=view), tmp_path / "a.pt", older)
    assert "a tensor" in refused(tmp_path / "a.pt")


@pytest.mark.parametrize("older", [False, True])
def test_a_file_that_is_cut_anywhere_is_refused(tmp_path, older):
    path = tmp_path / "a.pt"
    save(dict(a=BASE, b=BASE[:4].copy()), path, older)
    content = path.read_bytes()
    for size in range(0, len(content), 3):
        path.write_bytes(content[:size])
        refused(path)


@pytest.mark.parametrize("older", [False, True])
def test_a_changed_byte_gives_numbers_or_one_line(tmp_path, older):
    path, chance = tmp_path / "a.pt", random.Random(1)
    save(dict(a=BASE, b=[View(BASE, 3, (2, 2), (4, 1)), "text"]), path, older)
    content = path.read_bytes()
    for _ in range(1_000):
        changed = bytearray(content)
        for _ in range(chance.choice([1, 1, 2, 8])):
            changed[chance.randrange(len(content))] = chance.randrange(256)
        path.write_bytes(changed)
        try:
            value = read_torch(str(path))
            for array in arrays(value).values():
                assert array.size <= len(content)
        except ValueError as error:
            assert len(str(error).splitlines()) == 1


def test_a_file_that_becomes_shorter_is_named(tmp_path):
    path = tmp_path / "a.pt"
    save(dict(a=BASE), path, older=True)
    tensor = read_torch(str(path))["a"]
    os.truncate(path, path.stat().st_size - 1)
    with pytest.raises(ValueError, match="a.pt has become shorter"):
        tensor.read()


# Instructions of pickle.
PROTO, MARK, REDUCE, STOP, EMPTY, ONE = b"\x80\x02", b"(", b"R", b".", b")", b"K\x01"
NAMES = [(b"os", b"system"), (b"posix", b"system"), (b"builtins", b"eval"), (b"__builtin__", b"getattr"),
         (b"subprocess", b"Popen"), (b"torch", b"load"), (b"torch.hub", b"load"), (b"torch._utils", b"_rebuild_tensor"),
         (b"torch", b"Size"), (b"collections", b"OrderedDict.fromkeys"), (b"collections", b"defaultdict"),
         (b"numpy", b"load"), (b"numpy.core.multiarray", b"scalar"), (b"runpy", b"run_path"), (b"pathlib", b"Path"),
         (b"albert_tf.weights.torch_file", b"read_torch"), (b"torch", b"FloatStorage.mro"), (b"", b""),
         (b"torch.nn.parameter", b"Parameter"), (b"torch", b"device"), (b"torch.storage", b"UntypedStorage")]


def text(value, kind=b"X"):
    return kind + struct.pack("<I" if kind == b"X" else "B", len(value)) + value


def place(*parts):
    """A persistent id with these parts, and the instruction that asks for its object."""
    return MARK + b"".join(parts) + b"tQ"


def hostile(marker):
    """Pickles that would run code (and make the file `marker`), use much memory or time, or have no use for weights."""
    command = f"touch {marker}".encode()
    argument = text(command) + b"\x85"
    for module, name in NAMES:
        named, stacked = b"c" + module + b"\n" + name + b"\n", text(module) + text(name) + b"\x93"
        for reference in (named, stacked):
            yield reference  # alone
            yield reference + argument + REDUCE
            yield reference + argument + b"\x81"  # NEWOBJ
            yield reference + argument + b"}\x92"  # NEWOBJ_EX
            yield EMPTY + reference + argument + REDUCE + b"b"
            yield b"]" + reference + argument + REDUCE + b"a"
            yield b"}" + reference + argument + REDUCE + ONE + b"s"
            yield b"ccollections\nOrderedDict\n" + reference + argument + REDUCE + REDUCE
        yield MARK + text(command) + b"i" + module + b"\n" + name + b"\n"  # INST
        yield MARK + named + text(command) + b"o"  # OBJ
        yield place(text(b"storage"), named, text(b"0"), text(b"cpu"), ONE)
    known = [b"ccollections\nOrderedDict\n", b"ctorch._utils\n_rebuild_tensor_v2\n", b"ctorch\nFloatStorage\n",
             b"ctorch._utils\n_rebuild_parameter\n"]
    for name in known:
        yield name + (argument if name != known[3] else EMPTY) + REDUCE  # a parameter is what it is made of
        yield name + argument + b"\x81"
        yield name + argument + b"}\x92"
        yield name + text(b"x") + REDUCE
        yield name + b"}b"
        yield name + EMPTY + REDUCE + text(b"attribute") + b"b" * 3
        yield name + b"N" * 500 + b"(" + b"N" * 500 + b"t" + REDUCE
        yield MARK + name + EMPTY + b"o"
        yield b"}" + name + ONE + b"s" + b"a"
        yield text(b"os") + name + b"\x93"
    storage = text(b"storage"), b"ctorch\nFloatStorage\n", text(b"0"), text(b"cpu")
    for parts in [(), (ONE,), storage, (*storage, b"N"), (text(b"module"), *storage[1:], ONE),
                  (*storage, b"J\xff\xff\xff\xff"), (*storage, b"J\xff\xff\xff\x7f"),
                  (*storage, b"\x8a\x09" + b"\xff" * 8 + b"\x7f"), (*storage[:2], ONE, storage[3], ONE),
                  (*storage[:2], text(b"../../x"), storage[3], ONE), (*storage[:2], b"]", storage[3], ONE),
                  (storage[0], text(b"torch FloatStorage"), *storage[2:], ONE),
                  (storage[0], b"N", *storage[2:], ONE), [b"]"] * 5, (*storage, ONE, ONE), (*storage, b"G" + bytes(8))]:
        yield place(*parts) + b"]\x94b"
        yield place(*parts) + EMPTY + REDUCE
    yield text(b"storage") + b"Q"
    yield b"N" + b"Q"
    yield b"Pstorage\n"  # PERSID
    for code in (b"\x82\x01", b"\x83\x01\x00", b"\x84\x01\x00\x00\x00"):  # EXT
        yield code
        yield code + argument + REDUCE
    for code in b"012gpdlSVILF\x8b\x8c\x8d\x8e\x8f\x90\x91\x92\x96\x97\x98BCTU":  # those of no use, and cut ones
        yield bytes([code])
        yield bytes([code]) + b"\xff" * 9
    for length in (2**31 - 1, 2**32 - 1, 2**40, 2**62, 2**63 - 1, 2**64 - 1):
        for code in (b"\x8d", b"\x8e", b"\x96", b"\x95"):  # BINUNICODE8, BINBYTES8, BYTEARRAY8, FRAME
            yield code + struct.pack("<Q", length) + (b"Q" if code == b"\x95" else b"")
        for code in (b"X", b"B", b"T", b"\x8b"):
            yield code + struct.pack("<I", length % 2**32 or 2**30)
    for index in (1, 255, 2**31 - 1, 2**32 - 1):  # a list of this length would be tens of gigabytes
        yield b"Nr" + struct.pack("<I", index) + b"j" + struct.pack("<I", index) + b"Q"
        yield b"j" + struct.pack("<I", index)
    yield b"g" + b"9" * 5_000 + b"\n"
    yield b"I" + b"9" * 5_000 + b"\n"
    yield b"L" + b"9" * 100_000 + b"L\n"
    yield b"(" * 100_000 + b"t" * 100_001
    yield b"]" * 100_000 + b"a" * 100_000
    yield b"N" + b"2\x86" * 60
    copied = b"Nq\x00" + b"h\x00h\x00\x86q\x00" * 64  # 2^64 values, each in two tuples
    for use in (b"}h\x00Ns", b"h\x00Q", b"h\x00h\x00\x93", b"}(h\x00h\x00u", b"ctorch\nFloatStorage\nh\x00R",
                b"h\x00N" + REDUCE, b"h\x00h\x00b", b"ccollections\nOrderedDict\nh\x00R"):
        yield copied + use
    many = b"(" + b"N" * 100_000 + b"tq\x00"
    yield many + b"ctorch._utils\n_rebuild_parameter\nq\x01" + b"h\x01h\x00R" * 100_000
    yield many + b"h\x00Q" * 100_000
    yield b"cos\nsystem\n" + b"\x80\x05" * 10
    yield bytes(range(128, 256))
    yield b""


def test_hostile_pickles_run_nothing_and_are_refused_in_one_line(tmp_path):
    marker, path = tmp_path / "ran", tmp_path / "hostile.bin"
    seen, before = Counter(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for program in hostile(marker):
        for older in (False, True):
            if older:
                head = b"".join(pickle.dumps(each, 2) for each in (MAGIC, 1001, SYSTEM))
                path.write_bytes(head + PROTO + program + STOP + pickle.dumps([], 2))
            else:
                with zipfile.ZipFile(path, "w") as archive:
                    archive.writestr("archive/data.pkl", PROTO + program + STOP)
                    archive.writestr("archive/data/0", b"")
            seen[refused(path)[:40]] += 1
    assert sum(seen.values()) >= 600 and len(seen) > 20
    assert not marker.exists()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # kB
