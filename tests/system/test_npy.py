"""NumPy's files: the products are those of HDF5 files with the same elements, and what cannot be read is refused."""
import subprocess
import sys

import numpy as np
import pytest

from cases import each
from launch import BUILD, ROOT, SANITIZED, WAYS, environment, run
from matrices import multiply, output_of, random, read, write

INPUT = 3
TYPES = ["f8", "f4", "f2", "c16", "c8", "i1", "u1", "i2", "u2", "i4", "u4", "b1"]


def whole(shape, dtype, seed):
    return np.random.default_rng(seed).integers(0, 2, shape).astype(dtype)


def saved(path, array, version=None):
    with open(path, "wb") as file:
        np.lib.format.write_array(file, array, version)
    return path


def product(*words, **how):
    done = run("dgemm_ooc", *words, "--force", **how)
    assert done.returncode == 0, done.stderr
    return done


@each("dtype", [[one] for one in TYPES])
def test_every_type(tmp_path, dtype):
    dtype, = dtype
    a, b = whole((37, 25), dtype, 1), whole((25, 31), dtype, 2)
    names = [saved(tmp_path / "A.npy", a), saved(tmp_path / "B.npy", b)]
    write(tmp_path / "input.h5", A=a, B=b)
    product(*names, "-o", tmp_path / "C.h5", "--verify", "full")
    multiply(tmp_path / "input.h5")
    assert read(tmp_path / "C.h5").tobytes() == read(output_of(tmp_path / "input.h5")).tobytes()


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
@pytest.mark.parametrize("ranks", [0, 3])
def test_out_of_core_on_ranks(tmp_path, version, ranks):
    a, b = random((140, 300), seed=1), random((130, 300), seed=2)
    names = [saved(tmp_path / "A.npy", a, version), saved(tmp_path / "b.NPY", b, version)]
    write(tmp_path / "input.h5", A=a, B=b)
    multiply(tmp_path / "input.h5", "--transb", "T")
    for way in WAYS:
        product(*names, "--transb", "T", "-o", tmp_path / "C.h5", "--tile", "64x64x32", "--io", way, ranks=ranks)
        assert read(tmp_path / "C.h5").tobytes() == read(output_of(tmp_path / "input.h5")).tobytes()


def test_ways_to_name_them(tmp_path):
    a, b = random((9, 8), seed=1), random((8, 7), seed=2)
    saved(tmp_path / "A.npy", a)
    saved(tmp_path / "B.npy", b)
    write(tmp_path / "in.h5", A=a, B=b, C=a @ b)
    expected = a @ b
    for words, c in [(["A.npy", "B.npy", "-o", "C.h5"], expected),
                     (["A.npy", "in.h5:/B", "-o", "C.h5"], expected),
                     (["in.h5:/A", "in.h5:/B", "-o", "C.h5"], expected),
                     (["-a", "A.npy", "-b", "B.npy", "-o", "C.h5"], expected),
                     (["in.h5", "-b", "B.npy", "-o", "C.h5"], expected),
                     (["A.npy", "-b", "B.npy", "-o", "C.h5"], expected),
                     (["A.npy", "--product", "gram", "-o", "C.h5"], a @ a.T)]:
        product(*words, cwd=tmp_path)
        assert np.allclose(read(tmp_path / "C.h5"), c)
        checked = run("dgemm_ooc", "--check-only", "-o", "C.h5", cwd=tmp_path)
        assert checked.returncode == 0, (words, checked.stderr)


def test_one_that_changes_is_noticed(tmp_path):
    """As any operand: what was made from it is not what would be made now."""
    a = saved(tmp_path / "A.npy", random((30, 20), seed=1))
    product(a, "--product", "gram", "-o", tmp_path / "C.h5")
    saved(a, random((30, 20), seed=2))
    done = run("dgemm_ooc", "--check-only", "-o", tmp_path / "C.h5")
    assert done.returncode == 5, done.stderr


def odd(folder):
    """Files, and part of the sentence that refuses them."""
    a = random((5, 4))
    whole_file = saved(folder / "whole.npy", a).read_bytes()
    arrays = {"order": (np.asfortranarray(a), "is in Fortran's order"), "vector": (a[0], "not an array of two dimensions"),
              "cube": (np.zeros((2, 2, 2)), "not an array of two dimensions"), "empty": (np.zeros((0, 3)), "is empty"),
              "ints": (np.ones((3, 3), "i8"), "elements of type <i8"), "big": (a.astype(">f8"), "elements of type >f8"),
              "pairs": (np.zeros((2, 2), [("x", "f8"), ("y", "i4")]), "elements that are structures")}
    for name, (array, says) in arrays.items():
        yield saved(folder / f"{name}.npy", array), says
    for name, data, says in [("cut", whole_file[:-1], "ends before its elements"), ("short", whole_file[:40], "within its header"),
                             ("text", b"1,2,3\n", "is no .npy file"), ("nothing", b"", "is no .npy file"),
                             ("new", whole_file.replace(b"NUMPY\x01", b"NUMPY\x09"), "version 9"),
                             ("lies", whole_file.replace(b"(5, 4)", b"(5,4 ) ").replace(b"(5,4 )", b"(9,99)"), "ends before")]:
        path = folder / f"{name}.npy"
        path.write_bytes(data)
        yield path, says


def test_what_cannot_be_read_is_refused(tmp_path):
    for path, says in odd(tmp_path):
        done = run("dgemm_ooc", path, path, "--transb", "T", "-o", tmp_path / "C.h5")
        assert done.returncode == INPUT and says in done.stderr, (path.name, done.stderr)
        assert not (tmp_path / "C.h5").exists()


BROKEN = f"""
import random, sys
sys.path[:0] = {[str(ROOT / "tests"), str(ROOT / "tests/system")]!r}
from test_library import Product
path, count, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
whole, draw = open(path, "rb").read(), random.Random(seed)
statuses = set()
for number in range(count):
    data = bytearray(whole)
    for _ in range(draw.choice([1, 1, 2, 5])):
        at = draw.randrange(128)
        data[at:at + draw.choice([1, 1, 0, 2])] = draw.choice([bytes([draw.randrange(256)]), b"9" * 20, b"", b"(", b"'"])
    with open(path, "wb") as file:
        file.write(data[:draw.choice([len(data), len(data), draw.randrange(len(data))])])
    with Product("-a", path, "-b", path, "--transb", "T", "-o", path + ".h5", "--device", "cpu") as product:
        status = product.plan()
        assert status in (0, 3) and (status == 0) == (product.said() == ""), (number, status, product.said())
        assert product.said().count("\\n") < 3
        statuses.add(status)
print(statuses)
"""


@pytest.mark.skipif(SANITIZED, reason="Python would have to be linked with the sanitizer")
def test_broken_headers(tmp_path):
    """Hundreds of them: each is refused in a sentence, or is a header."""
    path = saved(tmp_path / "A.npy", random((12, 10)))
    done = subprocess.run([sys.executable, "-c", BROKEN, path, "600", "1"], capture_output=True, text=True,
                          env=environment(DGEMM_OOC_BUILD=str(BUILD)))
    assert done.returncode == 0 and "3" in done.stdout, done.stdout + done.stderr


def test_info(tmp_path):
    path = saved(tmp_path / "A.npy", random((12, 10), "c8"))
    done = run("h5mat", "info", path)
    assert done.returncode == 0 and "12 x 10" in done.stdout and "NumPy c8" in done.stdout, done.stdout + done.stderr
