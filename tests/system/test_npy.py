"""Files of elements in one piece, NumPy's and raw ones: the products are those of HDF5 files with the same elements,
and what cannot be read is refused."""
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from cases import each
from launch import BUILD, PATIENCE, ROOT, SANITIZED, WAYS, environment, run
from matrices import multiply, output_of, random, read, start_late, wait_until, write

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


@pytest.mark.singly
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
    arrays = {"vector": (a[0], "vector.npy[:, None] for a column"), "cube": (np.zeros((2, 2, 2)), "cube.npy[0] for the first part"),
              "turned": (np.asfortranarray(random((2, 3, 4))), "and has 3 dimensions, not two"), "number": (np.float64(3), "one to eight dimensions"),
              "deep": (np.zeros((1,) * 9), "one to eight dimensions"), "hollow": (np.zeros((3, 0, 2)), "is empty"), "empty": (np.zeros((0, 3)), "is empty"),
              "ints": (np.ones((3, 3), "i8"), "give --type d"), "large": (np.ones((3, 3), "u8"), "elements of type <u8"),
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


def matrices_of(folder, dtype):
    """A and B in HDF5, as .npy files in both orders, and as raw files in both; their words."""
    rng, numbers = np.random.default_rng(5), {"A": (37, 25), "B": (25, 31)}
    words, arrays = {}, {}
    for name, shape in numbers.items():
        one = rng.integers(-3, 4, shape).astype(dtype)
        if one.dtype.kind == "c":
            one = (one + 1j * rng.integers(-3, 4, shape)).astype(dtype)
        turned = np.asfortranarray(one)
        (folder / f"{name}.bin").write_bytes(b"header" + one.tobytes())
        (folder / f"{name}f.raw").write_bytes(one.T.tobytes())
        rows, cols = shape
        arrays[name] = one
        words[name] = [saved(folder / f"{name}.npy", one), saved(folder / f"{name}f.npy", turned),
                       f"{folder}/{name}.bin:{dtype}:{rows}x{cols}@6", f"{folder}/{name}f.raw:{dtype}:{rows}x{cols}:F"]
    write(folder / "input.h5", **arrays)
    return words


@pytest.mark.parametrize("dtype", ["f8", "f4", "c16", "c8", "i2", "f2"])
def test_either_order_of_either_file(tmp_path, dtype):
    words = matrices_of(tmp_path, dtype)
    multiply(tmp_path / "input.h5")
    expected = read(output_of(tmp_path / "input.h5")).tobytes()
    for i in range(4):
        for j in {i, 0, 3}:
            for end in "npy", "h5":
                product(words["A"][i], words["B"][j], "-o", tmp_path / f"C.{end}", "--verify", "full")
            assert np.load(tmp_path / "C.npy").tobytes() == expected == read(tmp_path / "C.h5").tobytes(), (i, j)
            checked = run("dgemm_ooc", "--check-only", "-o", tmp_path / "C.npy")
            assert checked.returncode == 0, checked.stderr


@pytest.mark.singly
@pytest.mark.parametrize("words, value", [
    (["--product", "gram"], lambda a: a @ a.T), (["--product", "gram", "--transa", "T"], lambda a: a.T @ a),
    (["--product", "cov"], np.cov), (["--product", "cov", "--transa", "T"], lambda a: np.cov(a.T)),
    (["--product", "cor"], np.corrcoef), (["--product", "gram", "--center", "cols"], lambda a: (a - a.mean(0)) @ (a - a.mean(0)).T),
    (["--product", "gram", "--center", "rows", "--nan", "mean"], lambda a: np.cov(a) * (a.shape[1] - 1))])
@pytest.mark.parametrize("ranks", [0, 3])
def test_rows_are_rows_in_either_order(tmp_path, words, value, ranks):
    a = random((40, 70), seed=3)
    made = {}
    for name, array in {"plain": a, "turned": np.asfortranarray(a)}.items():
        path = saved(tmp_path / f"{name}.npy", array)
        for out in "C.npy", "C.h5":
            product(path, *words, "-o", tmp_path / out, "--verify", "full", "--report", tmp_path / "r.json", ranks=ranks)
        made[name] = np.load(tmp_path / "C.npy")
        assert made[name].tobytes() == read(tmp_path / "C.h5").tobytes()
        assert np.allclose(made[name], value(a))
        report = json.loads((tmp_path / "r.json").read_text())
        assert (report["matrices"]["A"]["rows"], report["matrices"]["A"]["cols"]) == a.shape
        assert report["problem"]["trans_a"] == ("--transa" in words)
        checked = run("dgemm_ooc", "--check-only", "-o", tmp_path / "C.h5")
        assert checked.returncode == 0, checked.stderr
    assert made["plain"].tobytes() == made["turned"].tobytes()


def test_messages_count_as_the_user_does(tmp_path):
    a = random((6, 9), seed=3)
    a[4, 7] = np.nan
    path = saved(tmp_path / "A.npy", np.asfortranarray(a))
    done = run("dgemm_ooc", path, "--product", "cov", "-o", tmp_path / "C.npy")
    assert done.returncode == INPUT and "row 4, column 7" in done.stderr, done.stderr
    done = run("dgemm_ooc", path, path, "-o", tmp_path / "C.npy")
    assert done.returncode == INPUT and "op(A) is 6x9, op(B) is 6x9" in done.stderr and "--transb T" in done.stderr
    done = run("dgemm_ooc", path, path, "--transb", "T", "-c", path, "--beta", "1", "-o", tmp_path / "C.npy")
    assert done.returncode == INPUT and "Fortran's order, which is not read of a C" in done.stderr, done.stderr
    path = saved(tmp_path / "Z.npy", np.asfortranarray(a[:4, :5] + 1j))
    done = run("dgemm_ooc", path, path, "--transb", "C", "-o", tmp_path / "C.npy")
    assert done.returncode == INPUT and "where it is conjugated" in done.stderr, done.stderr
    info = run("h5mat", "info", path)
    assert "4 x 5" in info.stdout and "in Fortran's order" in info.stdout, info.stdout


@pytest.mark.parametrize("dtype", ["f4", "f2", "i8", "i2", "b1", ">f8", ">f4", ">i4", "c8", ">c16"])
def test_conversions(tmp_path, dtype):
    """As HDF5 converts them, in either order; C is that of the converted elements."""
    a = (np.random.default_rng(2).random((30, 20)) * 4).astype(dtype)
    b = random((20, 10), "c16" if a.dtype.kind == "c" else "f8")
    type_ = "z" if a.dtype.kind == "c" else "d"
    write(tmp_path / "input.h5", A=a.astype(b.dtype), B=b)
    multiply(tmp_path / "input.h5")
    a.tofile(tmp_path / "a.bin")
    for operand in (saved(tmp_path / "A.npy", a), saved(tmp_path / "F.npy", np.asfortranarray(a)), f"{tmp_path}/a.bin:{dtype}:30x20"):
        product(operand, f"{tmp_path}/input.h5:/B", "--type", type_, "-o", tmp_path / "C.npy", ranks=2)
        assert np.load(tmp_path / "C.npy").tobytes() == read(output_of(tmp_path / "input.h5")).tobytes(), operand


def test_c_is_added_and_multiplied_on(tmp_path):
    """What a product has made is the operand of another, and added to one."""
    a, b = random((30, 20), seed=1), random((20, 30), seed=2)
    names = [saved(tmp_path / "A.npy", a), saved(tmp_path / "B.npy", b)]
    product(*names, "-o", tmp_path / "C.npy")
    product(tmp_path / "C.npy", names[0], "-o", tmp_path / "D.npy")
    product(*names, "-c", tmp_path / "C.npy", "--beta", "-1", "-o", tmp_path / "Z.npy", "--alpha", "1")
    assert np.allclose(np.load(tmp_path / "D.npy"), a @ b @ a) and not np.load(tmp_path / "Z.npy").any()
    product(names[0], "--product", "gram", cwd=tmp_path)
    assert np.allclose(np.load(tmp_path / "A-C.npy", mmap_mode="r"), a @ a.T)


def test_a_run_to_npy_is_resumed(tmp_path):
    a, b = random((450, 500), seed=1), random((500, 400), seed=2)
    names = [saved(tmp_path / "A.npy", a), saved(tmp_path / "B.npy", np.asfortranarray(b))]
    words, part = [*names, "-o", tmp_path / "C.npy", "--tile", "40x40x16"], tmp_path / "C.npy.part"
    with start_late(*words, late="2") as process:
        wait_until(lambda: part.exists() and part.stat().st_blocks > 20, process)
        time.sleep(0.3)
        os.kill(process.pid, signal.SIGUSR2)
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 75, err
    unfinished = run("dgemm_ooc", tmp_path / "C.npy.part", names[0], "-o", tmp_path / "D.npy")
    assert unfinished.returncode == INPUT and "unfinished" in unfinished.stderr, unfinished.stderr
    done = run("dgemm_ooc", *words, "--verify", "full", ranks=2)
    assert done.returncode == 0 and "Restart" in done.stdout, done.stdout + done.stderr
    assert np.allclose(np.load(tmp_path / "C.npy"), a @ b)
    again = run("dgemm_ooc", *names, "-o", tmp_path / "C.npy")
    assert again.returncode == 0 and "already" in again.stdout, again.stdout
    taken = run("dgemm_ooc", *names, "-o", tmp_path / "C.npy", "--alpha", "2")
    assert taken.returncode == INPUT and "--force" in taken.stderr, taken.stderr
    data = bytearray((tmp_path / "C.npy").read_bytes())
    data[5003] ^= 64
    (tmp_path / "C.npy").write_bytes(data)
    assert run("dgemm_ooc", "--check-only", "-o", tmp_path / "C.npy").returncode == 5


@pytest.mark.parametrize("name, says", [
    ("a.bin:f8", "say which"), ("a.bin:f8:3", "say which"), ("a.bin:f8:3x", "say which"), ("a.bin:f8:3x4:G", "say which"),
    ("a.bin:f8:0x4", "say which"), ("a.bin:f8:-3x4", "say which"), ("a.bin:f8:3x4@-1", "say which"), ("a.bin:f8:3x4@1", "ends before"),
    ("a.bin:f8:99999999999999999999x4", "say which"), ("a.bin:f8:4000000000x4000000000", "ends before"),
    ("b.bin:f8:3x4", "no such file"), ("a.bin:f9:3x4", "say which"), ("a.bin:/A", "say which")])
def test_mistakes_in_raw_names(tmp_path, name, says):
    (tmp_path / "a.bin").write_bytes(bytes(96))
    done = run("dgemm_ooc", "-a", name, "-b", "a.bin:f8:4x3", "-o", "C.h5", cwd=tmp_path)
    assert done.returncode == INPUT and says in done.stderr, done.stderr
    assert not (tmp_path / "C.h5").exists()


def test_two_views_of_one_file_are_two_matrices(tmp_path):
    """Of other extents, order, type or byte order: no product of a matrix with its own transpose."""
    s = np.random.default_rng(1).integers(1, 100, (20, 20)).astype("i4")
    s.tofile(tmp_path / "s.bin")
    for a, b, words in [("i4:20x20", "i4:20x20:F", []), ("i4:20x20:F", "i4:20x20", []), ("i4:10x20", "i4:20x20", []),
                        ("i4:20x20", "i4:10x20", []), ("i4:20x20@0", "i4:19x20@80", []), ("i4:20x20", ">i4:20x20", ["--type", "d"]),
                        ("i4:20x20", "u2:20x20", []), ("i4:20x20", "i4:20x20", [])]:
        of = []
        for name in a, b:
            type_, _, rest = name.partition(":")
            shape = [int(n) for n in rest.split("@")[0].split(":")[0].split("x")]
            flat = np.frombuffer((tmp_path / "s.bin").read_bytes()[int((rest + "@0").split("@")[1]):], type_)[:shape[0] * shape[1]]
            of.append(flat.reshape(shape, order="F" if rest.endswith("F") else "C").astype("f8"))
        product("-a", f"{tmp_path}/s.bin:{a}", "-b", f"{tmp_path}/s.bin:{b}", "--transb", "T", *words, "-o", tmp_path / "C.npy")
        assert np.allclose(np.load(tmp_path / "C.npy"), of[0] @ of[1].T, rtol=1e-12), (a, b)
    done = run("dgemm_ooc", "-a", f"{tmp_path}/s.bin:f8:10x10", "-b", f"{tmp_path}/s.bin:f8:20x10", "--product", "cov",
               "-o", tmp_path / "D.npy")
    assert done.returncode == INPUT and "one matrix times its own transpose" in done.stderr


def test_places_and_a_c_in_fortrans_order(tmp_path):
    a = random((5, 9), seed=1)
    a[2, 7] = 1e300
    done = run("dgemm_ooc", saved(tmp_path / "A.npy", np.asfortranarray(a)), "--product", "gram", "--type", "s", "-o", tmp_path / "C.npy")
    assert done.returncode == INPUT and "row 2, column 7" in done.stderr, done.stderr
    a, b = random((8, 8), seed=1), random((8, 8), seed=2)
    names = ["-a", saved(tmp_path / "A.npy", a), "-b", saved(tmp_path / "B.npy", b)]
    for c in a @ b, (a @ b).T:
        made = saved(tmp_path / "made.npy", np.asfortranarray(c))
        done = run("dgemm_ooc", "--check-only", *names, "-o", made)
        assert done.returncode == INPUT and "in which C is not checked" in done.stderr, done.stderr
        done = run("h5mat", "diff", made, tmp_path / "A.npy")
        assert done.returncode == INPUT and "in which h5mat compares nothing" in done.stderr, done.stderr


@pytest.mark.parametrize("out", ["C.npy.part", "C.h5:f8:3x4", "C.npy:f8:3x4"])
def test_outputs_that_would_not_be_found_again(tmp_path, out):
    a = saved(tmp_path / "A.npy", random((8, 6)))
    (tmp_path / "C.h5").touch()
    (tmp_path / "C.npy").touch()
    done = run("dgemm_ooc", a, "--product", "gram", "-o", out, "--force", cwd=tmp_path)
    assert done.returncode == 2 and "name it" in done.stderr, done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"A.npy", "C.h5", "C.npy"}
