"""The Python package: products as NumPy makes them, of all that may be an operand, and what goes wrong."""
import doctest
import gc
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import h5py
import numpy as np
import pytest

from cases import each
from launch import BUILD, FAULTY, MPI, PATIENCE, ROOT, SANITIZED, environment, make
from matrices import genotypes, part_of, random, wait_until, whole, write, write_bed

SOURCE = ROOT / "src/python"
sys.path.insert(0, str(SOURCE))
import dgemm_ooc as oc  # noqa: E402
from dgemm_ooc import _api, _errors, _operands, _progress  # noqa: E402

pytestmark = pytest.mark.skipif(SANITIZED, reason="the program is started as ever under sanitizers")

M, N, K = 30, 25, 40
LATE = {"DGEMM_OOC_TEST_FAULTS": "pread:delay%2"}
SLOW = ["--tile", "100x100x50"]


@pytest.fixture(autouse=True)
def scratch(tmp_path, monkeypatch):
    """The environment of this build, and a folder for what is temporary, in which nothing may be left."""
    for name in [name for name in os.environ if name.startswith("DGEMM_OOC")]:
        monkeypatch.delenv(name)
    own = {"DGEMM_OOC": str(BUILD / "dgemm_ooc"), "DGEMM_OOC_DEVICE": "cpu", "TMPDIR": str(tmp_path / "temporary")}
    for name, value in environment(ranks=9, **own).items():
        monkeypatch.setenv(name, value)
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    monkeypatch.setattr(_operands, "_MEMORY", "/nowhere")
    monkeypatch.chdir(tmp_path)
    yield folder
    gc.collect()
    assert not list(folder.glob(".dgemm_ooc*"))  # a launcher may have files there, too


@pytest.fixture
def slow(monkeypatch):
    """Keywords of a run that reads late, so that it lasts for seconds."""
    if not (BUILD / FAULTY).exists():
        pytest.skip("the program with faults is not built: make test")
    for name, value in LATE.items():
        monkeypatch.setenv(name, value)
    return {"program": BUILD / FAULTY, "options": SLOW}


@pytest.fixture
def ab():
    return random((M, K), seed=1), random((K, N), seed=2)


@pytest.fixture
def file(tmp_path, ab):
    return write(tmp_path / "input.h5", A=ab[0], B=ab[1])


@pytest.fixture
def large(tmp_path):
    """Operands of a run that lasts, where it is slow."""
    a, b = random((450, 500), seed=1), random((500, 400), seed=2)
    return write(tmp_path / "input.h5", A=a, B=b), a @ b


def names(folder):
    return {path.name for path in folder.iterdir()}


# Products.

def in_file(array, path, locking=True):
    write(path, only=array)
    return h5py.File(path, "r" if locking else "r+", locking=locking)["only"]


def mapped(array, path):
    result = np.lib.format.open_memmap(path, "w+", array.dtype, array.shape)
    result[:] = array
    return result


KINDS = {
    "rows": lambda a, p: a,
    "columns": lambda a, p: np.asfortranarray(a),
    "strided": lambda a, p: np.repeat(np.repeat(a, 2, 0), 3, 1)[::2, ::3],
    "backwards": lambda a, p: a[::-1].copy()[::-1],
    "big-endian": lambda a, p: a.astype(">f8"),
    "memmap": lambda a, p: mapped(a, p),
    "a string": lambda a, p: f"{write(p, X=a, Y=a)}:/X",
    "a string without /": lambda a, p: f"{write(p, X=a, Y=a)}:X",
    "a path": lambda a, p: write(p, X=a),
    "a path of A and B": lambda a, p: write(p, A=a, B=a),
    "a name": lambda a, p: os.path.relpath(write(p, X=a)),
    "a dataset": lambda a, p: in_file(a, p),
    "a dataset of a file open for writing without locks": lambda a, p: in_file(a, p, locking=False),
    "a result": lambda a, p: oc.matmul(a, np.eye(a.shape[1])),
}


@pytest.mark.smoke
@each("kind", KINDS)
def test_operands(tmp_path, kind):
    a, b = random((M, K), seed=1), random((K, N), seed=2)
    left, right = KINDS[kind](a, tmp_path / "a.h5"), KINDS[kind](b, tmp_path / "b.h5")
    result = oc.matmul(left, right, tmp_path / "out.h5")
    assert np.allclose(result, a @ b, rtol=1e-13, atol=1e-12) and result.verdict == "PASSED"
    assert result.path == f"{tmp_path}/out.h5:/C"


@each("types, dtype, expected", [
    (("f4", "f4"), None, "f4"), (("f2", "f2"), None, "f4"), (("i1", "u2"), None, "i8"), (("?", "?"), None, "i8"),
    (("f4", "f8"), float, "f8"), (("i8", "f8"), np.float64, "f8"), (("c8", "c8"), None, "c8"),
    (("f8", "c16"), None, "c16"), (("i4", "i4"), "complex128", "c16"), (("u8", "u4"), "f4", "f4")])
def test_types(types, dtype, expected):
    a, b = (np.abs(whole(shape, seed=i)).astype(t) for i, (shape, t) in enumerate(zip([(M, K), (K, N)], types)))
    array = oc.matmul(a, b, dtype=dtype).array
    assert array.dtype == expected and np.array_equal(array, a.astype(expected) @ b.astype(expected))


@each("trans_a, trans_b, order", [(a, b, order) for a, b in [("N", "T"), ("C", "N"), (True, "C"), (False, True)]
                                  for order in "CF"])
def test_transpositions(trans_a, trans_b, order):
    def turned(x, trans):
        return x if trans in ("N", False) else x.T if trans in ("T", True) else x.conj().T

    for dtype in "f8", "c16":
        x = [np.asarray(random(s, dtype) + (1j * random(s, seed=3) if dtype == "c16" else 0), order=order)
             for s in ((K, K - 1), (K, K - 1))]
        a, b = x[0], x[1] if (trans_a in ("N", False)) != (trans_b in ("N", False)) else x[1].T
        assert np.allclose(oc.matmul(a, b, trans_a=trans_a, trans_b=trans_b),
                           turned(a, trans_a) @ turned(b, trans_b))


def test_alpha_and_beta(ab, file):
    c = np.asfortranarray(random((M, N), seed=3))
    assert np.allclose(oc.matmul(*ab, alpha=np.float32(1.5), beta=-2, c=c), 1.5 * (ab[0] @ ab[1]) - 2 * c)
    z = c + 1j
    a, b = (x.astype("c16") for x in ab)
    assert np.allclose(oc.matmul(a, b, alpha=1.5 - 2j, beta=1e-5j, c=z), (1.5 - 2j) * (a @ b) + 1e-5j * z)
    write(file, C=c)
    assert np.allclose(oc.matmul(file, file, beta=1, c=file), ab[0] @ ab[1] + c)


def test_the_same_array_twice_is_a_symmetric_product(tmp_path):
    a = random((M, K))
    for b, keywords in (a.T, {}), (a, {"trans_b": True}), (np.asfortranarray(a), {"trans_b": True}):
        result = oc.matmul(a, b, tmp_path / "c.h5", overwrite=True, **keywords)
        assert np.allclose(result, a @ a.T)
        assert result.report["problem"]["symmetric"] == (b.base is not None or b is a)


@each("axis, order, dtype", [(-1, "C", "i2"), *((axis, order, dtype) for axis in (0, 1) for order in "CF"
                                                for dtype in ("f8", "c16"))])
def test_gram(axis, order, dtype):
    a = np.asarray(whole((M, N), "f8") * (1 + 2j if dtype == "c16" else 1), dtype, order=order)
    expected = a.conj().T @ a if axis == 0 else a @ a.conj().T
    assert np.array_equal(oc.gram(a, axis=axis), expected)
    if order == "C":
        assert np.array_equal(oc.gram(a, axis=axis, triangle="lower"), np.tril(expected))
        assert np.array_equal(oc.gram(a, axis=axis, triangle="packed"), expected[np.tril_indices(len(expected))])


@each("axis, order, center", [(0, "C", "rows"), (0, "F", "cols"), (1, "F", "rows"), (1, "C", "cols")])
def test_kinship(tmp_path, axis, order, center):
    a = random((M, N))
    z = a - a.mean(axis=0 if center == "cols" else 1, keepdims=True)
    z /= a.std(axis=0 if center == "cols" else 1, keepdims=True, ddof=1)
    given = np.asarray(a, order=order)
    for operand in given, write(tmp_path / "a.h5", X=a):
        result = oc.gram(operand, axis=axis, center=center, scale=center, alpha=0.5)
        assert np.allclose(result, 0.5 * (z.T @ z if axis == 0 else z @ z.T))


def test_missing_elements():
    a = random((M, N))
    a[3, 4] = np.nan
    filled = np.where(np.isnan(a), np.nanmean(a, axis=0), a)
    assert np.allclose(oc.gram(a, axis=1, center="cols", nan="mean"), oc.gram(filled, axis=1, center="cols"))


@each("rowvar, ddof, order", [(True, 0, "C"), (False, 0, "F"), (True, 1, "F"), (False, 1, "C")])
def test_cov(tmp_path, rowvar, ddof, order):
    m = np.asarray(random((M, N)) + 5, order=order)
    for operand in m, write(tmp_path / "m.h5", A=m, B=m):
        assert np.allclose(oc.cov(operand, rowvar=rowvar, ddof=ddof), np.cov(m, rowvar=rowvar, ddof=ddof))
    assert np.allclose(oc.corrcoef(m, rowvar=rowvar), np.corrcoef(m, rowvar=rowvar))


def test_cov_of_integers():
    m = whole((M, N), "i2")
    assert np.allclose(oc.cov(m, dtype=float), np.cov(m))
    with pytest.raises(oc.InputError, match="--type d"):
        oc.cov(m)


# Results.

def test_where_c_goes(file, ab, tmp_path):
    """As the program does, or as named, or for arrays to a file that goes with the result."""
    assert oc.matmul(file, f"{file}:/B").path == f"{tmp_path}/input-C.h5:/C"
    assert oc.matmul(ab[0], f"{file}:/B", overwrite=True).path == f"{tmp_path}/input-C.h5:/C"
    assert oc.matmul(*ab, "named.h5:/group/D").path == f"{tmp_path}/named.h5:/group/D"
    result = oc.matmul(*ab)
    path = Path(result.path[:-3])
    assert path.exists() and names(path.parent) == {"C.h5"}
    array = result.array
    del result
    gc.collect()
    assert not path.parent.exists() and np.allclose(array, ab[0] @ ab[1])


def test_a_forked_process_removes_nothing(ab):
    result = oc.matmul(*ab)
    child = os.fork()
    if not child:
        del result
        gc.collect()
        os._exit(0)
    os.waitpid(child, 0)
    assert np.allclose(result, ab[0] @ ab[1])


def test_names_of_files(ab, tmp_path):
    folder = tmp_path / "a folder: ü"
    folder.mkdir()
    file = write(folder / "it's an input, isn't it.h5", **{"a group/x y": ab[0], "B": ab[1]})
    result = oc.matmul(f"{file}:/a group/x y", f"{file}:/B")
    assert np.allclose(result, ab[0] @ ab[1]) and result.path == f"{file.with_suffix('')}-C.h5:/C"
    assert names(folder) == {file.name, f"{file.stem}-C.h5"}


def test_result(ab, file):
    result = oc.matmul(file, file, "c.h5", overwrite=True)
    assert isinstance(result.array, np.memmap) and not result.array.flags.writeable
    with result.open() as data:
        assert isinstance(data, h5py.Dataset) and np.array_equal(data[()], result.array)
    assert not data
    assert np.asarray(result, "f4").dtype == "f4" and np.asarray(result).shape == (M, N)
    assert result.seconds == result.report["wall_s"] > 0
    assert repr(result) == f"<dgemm_ooc.Result {result.path}, {M}x{N}, {result.seconds:.2f} s, PASSED>"
    page = result._repr_html_()
    assert page.startswith("<iframe srcdoc=") and 50_000 < len(page) < 200_000
    again = oc.matmul(file, file, "c.h5")
    assert again.seconds == 0 and again.verdict is None and again._repr_html_() is None
    assert repr(again) == f"<dgemm_ooc.Result {result.path}, {M}x{N}, made earlier>"
    assert np.array_equal(again, result)


def test_complex_numbers_of_another_language(tmp_path):
    a = np.zeros((M, M), [("real", "f8"), ("imag", "f8")])
    a["imag"] = np.eye(M)
    assert np.array_equal(oc.matmul(write(tmp_path / "a.h5", A=a), np.eye(M)).array, 1j * np.eye(M))


def test_nothing_to_multiply():
    result = oc.matmul(np.zeros((3, 0)), np.zeros((0, 4)))
    assert np.array_equal(result, np.zeros((3, 4))) and result.verdict is None
    with pytest.raises(oc.InputError, match="nothing to compute"):
        oc.gram(np.zeros((3, 0)))


def test_memory_or_disk(ab, monkeypatch):
    """Arrays are written to memory if that has room for them and C."""
    free = 8 * M * N + sum(x.nbytes for x in ab)
    for there, expected in (2 * free, "/dev/shm"), (2 * free - 2, os.environ["TMPDIR"]):
        monkeypatch.setattr(_operands, "_MEMORY", "/dev/shm")
        monkeypatch.setattr("shutil.disk_usage", lambda path: type("Usage", (), {"free": there}))
        result = oc.matmul(*ab)
        assert result.path.startswith(expected)
        del result


def test_not_checked(ab):
    with pytest.warns(oc.NotCheckedWarning, match="is not checked: ") as caught:
        result = oc.matmul(ab[0], ab[1] * 1e145)
    assert result.verdict == "NOT CHECKED" and np.allclose(result, ab[0] @ (ab[1] * 1e145))
    assert caught[0].filename == __file__


# Plans and checks.

def test_plan(ab, file):
    plan = oc.plan(oc.matmul, file, file, ranks=4, host_memory="100M", alpha=2)
    assert plan.report["machine"]["ranks"] == 4 and plan.report["problem"]["alpha"] == 2
    assert plan.seconds > 0 and str(plan) == plan.text and "\nPredicted " in plan.text
    assert re.fullmatch(r"<dgemm_ooc.Plan \S+ s, limited by .*>", repr(plan))
    for function in oc.gram, oc.cov, oc.corrcoef:
        assert oc.plan(function, ab[0]).report["problem"]["symmetric"]
    huge = np.lib.stride_tricks.as_strided(np.zeros(1), (100000, 100000), (0, 0))
    assert oc.plan(oc.matmul, huge, huge, algo="cpu").report["problem"]["k"] == 100000
    assert names(file.parent) == {"input.h5", "temporary"}
    with pytest.raises(oc.InputError, match="op.A. is 30x40, op.B. is 30x40"):
        oc.plan(oc.matmul, ab[0], ab[0])
    with pytest.raises(TypeError, match=r"plan\(matmul, a, b\)"):
        oc.plan(np.matmul, *ab)


def test_check(file):
    result = oc.matmul(file, file)
    for out in result, result.path, file.with_name("input-C.h5"):
        checked = oc.check(out)
        assert checked.verdict == "PASSED" and checked.path == result.path and checked.seconds > 0
    with h5py.File(file.with_name("input-C.h5"), "r+") as opened:
        opened["C"][3, 4] += 1
    with pytest.raises(oc.CheckError) as wrong:
        oc.check(result)
    assert wrong.value.status == 5 and isinstance(wrong.value, ArithmeticError)


# Runs.

def test_stop_and_resume(large, slow, monkeypatch, tmp_path):
    source, expected = large
    with pytest.raises(oc.Stopped, match="the same command resumes") as stopped:
        oc.matmul(source, source, max_time=1, checkpoint=60, progress=False, **slow)
    assert 0 <= stopped.value.done < 1 and stopped.value.status == 75
    assert part_of(source).exists() and not list((tmp_path / "temporary").glob("*/C.h5"))
    with pytest.raises(oc.InputError, match="not complete"):
        oc.check(source.with_name("input-C.h5"))
    monkeypatch.delenv("DGEMM_OOC_TEST_FAULTS")
    with pytest.raises(TypeError, match="did you mean max_time"):
        stopped.value.resume(maxtime=None)
    result = stopped.value.resume(max_time=None, host_memory="50M")
    assert np.allclose(result, expected) and result.report["restart"]["compared_bytes"] >= 0
    assert names(tmp_path) == {"input.h5", "input-C.h5", "temporary"}


def test_arrays_last_until_a_run_is_resumed(scratch, slow, monkeypatch):
    a, b = random((450, 500), seed=1), random((500, 400), seed=2)
    for resumes in True, False:
        monkeypatch.setenv("DGEMM_OOC_TEST_FAULTS", LATE["DGEMM_OOC_TEST_FAULTS"])
        with pytest.raises(oc.Stopped) as stopped:
            oc.matmul(a, b, max_time=1, **slow)
        kept, = scratch.iterdir()
        assert {"a.h5", "b.h5", "C.h5.part"} <= names(kept)
        monkeypatch.delenv("DGEMM_OOC_TEST_FAULTS")
        if resumes:
            assert np.allclose(stopped.value.resume(max_time=None), a @ b)
        del stopped
        gc.collect()
        assert not list(scratch.iterdir())


CHILD = f"""
import gc, logging, os, sys
sys.path.insert(0, {str(SOURCE)!r})
import numpy, dgemm_ooc as oc
logging.basicConfig(level="INFO", stream=sys.stdout)
gc.disable()
try:
    oc.matmul(*ARGUMENTS)
except oc.Stopped as stopped:
    print("stopped:", stopped.done)
except KeyboardInterrupt:
    print("interrupted")
assert ".dgemm_ooc" not in str(os.listdir(os.environ["TMPDIR"]))  # since nobody has the exception any more
"""


def child(arguments, **env):
    """Python in a process of its own, which multiplies."""
    return subprocess.Popen([sys.executable, "-c", CHILD.replace("*ARGUMENTS", arguments)], text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, **env})


def running(process):
    """The processes below a process that are still there."""
    said = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True).stdout
    return [int(word) for word in said.split()]


def await_end_of(session):
    """The ranks of an mpirun that was killed notice it soon."""
    deadline = time.monotonic() + PATIENCE
    while subprocess.run(["pgrep", "-s", str(session)], stdout=subprocess.DEVNULL).returncode == 0:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_slices_of_datasets(tmp_path, monkeypatch):
    """Whose extents count where observations do."""
    monkeypatch.chdir(tmp_path)
    a, b = random((M, K)), random((3, K, N))
    write(tmp_path / "in.h5", A=a, B=b, **{"A[0:3]": a[:9]})
    assert np.allclose(oc.matmul("in.h5:/A[::2, 3:]", "in.h5:/B[1, 3:]", "C.h5"), a[::2, 3:] @ b[1, 3:])
    assert np.allclose(oc.cov("in.h5:/A[2:9, :]", "C1.h5", ddof=2), np.cov(a[2:9], ddof=2))
    assert np.allclose(oc.cov("in.h5:/B[2, :, 7, None]", "C2.h5", ddof=0, rowvar=False), np.cov(b[2, :, 7], ddof=0))
    assert np.allclose(oc.cov("in.h5:/A[0:3]", "C3.h5", ddof=0), np.cov(a[:9], ddof=0))
    with pytest.raises(oc.InputError, match="more indices than dimensions"):
        oc.matmul("in.h5:/A[0:3, :, 0]", "in.h5:/B[1]", "C4.h5")


def test_files_of_numpy(ab, tmp_path):
    a, b = ab
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "b.npy", b)
    assert np.allclose(oc.matmul("a.npy", Path("b.npy"), "C.h5"), a @ b)
    assert np.allclose(oc.cov("a.npy", "cov.h5", ddof=0), np.cov(a, ddof=0))
    np.save(tmp_path / "a.npy", np.asfortranarray(a).astype("f4"))
    made = oc.matmul("a.npy", "b.npy", "C.npy", dtype=float)
    assert made.path == str(tmp_path / "C.npy") and np.allclose(np.load(made.path), a.astype("f4") @ b)
    with made.open() as c:
        assert np.array_equal(c, made.array) and not made.array.flags.writeable
    assert oc.check(made).verdict == "PASSED"
    assert np.allclose(oc.matmul(made, made, "D.h5", trans_a="T"), made.array.T @ made.array)


def test_slices_behind_the_names_of_files(ab, tmp_path):
    a, b = ab
    write(tmp_path / "in.h5", A=a)
    np.save(tmp_path / "a.npy", a)
    for name in "a.npy[3:9, ::2]", "in.h5[3:9, ::2]", "in.h5:/A[3:9, ::2]":
        part = a[3:9, ::2]
        assert np.allclose(oc.matmul(name, b[::2], "C.npy", overwrite=True), part @ b[::2])
        assert np.allclose(oc.cov(name, "C.npy", ddof=0, overwrite=True), np.cov(part, ddof=0))


def test_genotypes(tmp_path):
    g = genotypes(30, 40)
    write_bed(tmp_path / "g.bed", g)
    z = np.where(np.isnan(g), np.nanmean(g, 0), g)
    made = oc.gram("g.bed", "C.npy", axis=1, center="cols", nan="mean", dtype=float)
    assert np.allclose(made, (z - z.mean(0)) @ (z - z.mean(0)).T)


@pytest.mark.parametrize("mode", ["r", "r+", "c"])
def test_a_memmap_is_read_where_it_is(ab, tmp_path, mode):
    """Also a part of it, or its transpose; what is only in memory is written first."""
    a, b = ab
    np.save(tmp_path / "a.npy", a)
    (tmp_path / "b.bin").write_bytes(bytes(5000) + b.tobytes())
    x = np.load(tmp_path / "a.npy", mmap_mode=mode)
    y = np.memmap(tmp_path / "b.bin", "f8", mode, 5000, b.shape)
    if mode != "r":
        x[1, 1] = 5
    for left, right in [(x, y), (y.T, x.T), (x[3:9], y), (x[:, 2:], y[2:]), (x[::2], y)]:
        made = oc.matmul(left, right)
        assert np.allclose(made, np.array(left) @ np.array(right))
        assert (made.report["matrices"]["B"]["file"] == str(right.filename)) == (mode != "c")
    assert np.allclose(oc.cov(x), np.cov(x)) and np.allclose(oc.cov(x.T), np.cov(x.T))
    for left, right, trans in [(x, x.T, None), (x, x, "T"), (x[:9], x, "T"), (x, x[:9], "T")]:
        words = {"trans_b": trans} if trans else {}
        assert np.allclose(oc.matmul(left, right, **words), np.array(left) @ np.array(right.T if trans else right))
    assert np.allclose(oc.matmul(x, x.T, beta=1, c=np.asfortranarray(x @ x.T)), 2 * x @ x.T)


def test_a_memmap_whose_file_is_another_or_gone(ab, tmp_path):
    a, b = ab
    np.save(tmp_path / "a.npy", a)
    x = np.load(tmp_path / "a.npy", mmap_mode="r")
    np.save(tmp_path / "other.npy", a + 1)
    os.replace(tmp_path / "other.npy", tmp_path / "a.npy")
    assert np.allclose(oc.matmul(x, b), a @ b)
    (tmp_path / "a.npy").unlink()
    assert np.allclose(oc.matmul(x, b), a @ b)
    assert np.allclose(oc.matmul(oc.matmul(a, b).array, b.T), a @ b @ b.T)
    assert np.allclose(oc.matmul(oc.matmul(a, b), b.T).array, a @ b @ b.T)
    assert np.allclose(oc.gram(x.T, center="cols"), (x.T - x.T.mean(0)).T @ (x.T - x.T.mean(0)))


@pytest.mark.parametrize("ranks", [None, 2])
def test_ctrl_c_saves_and_stops(large, slow, ranks):
    source, _ = large
    call = f"{str(source)!r}, {str(source)!r}, program={str(slow['program'])!r}, options={SLOW}, ranks={ranks}"
    with child(call) as process:
        wait_until(lambda: part_of(source).exists() and part_of(source).stat().st_blocks, process)
        session, = running(process)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0 and not err, err
    assert out.splitlines()[-1].startswith("stopped: 0") and "the same command resumes" in out, out
    await_end_of(session)


RANKS = f"""
import sys
sys.path.insert(0, {str(SOURCE)!r})
import numpy, dgemm_ooc
BLOCK
said = []
assert result.report["machine"]["ranks"] == 3 and result.verdict == "PASSED"
dgemm_ooc.plan(dgemm_ooc.gram, "input.h5:/A", comm=MPI.COMM_WORLD)
again = dgemm_ooc.matmul("input.h5:/A", "input.h5:/B", "comm.h5", comm=MPI.COMM_WORLD, overwrite=True,
                         progress=lambda *now: None)
assert numpy.array_equal(again.array, result.array)
for kind, call in [(dgemm_ooc.InputError, lambda: dgemm_ooc.gram("none.h5:/A", comm=MPI.COMM_WORLD)),
                   (dgemm_ooc.UsageError, lambda: dgemm_ooc.gram(numpy.eye(3), comm=MPI.COMM_WORLD)),
                   (dgemm_ooc.UsageError, lambda: dgemm_ooc.gram("input.h5:/A", comm=MPI.COMM_WORLD, ranks=3)),
                   (TypeError, lambda: dgemm_ooc.gram("input.h5:/A", comm=3))]:
    try:
        call()
    except kind as error:
        said.append(str(error))
everyone = MPI.COMM_WORLD.gather(said)
if MPI.COMM_WORLD.rank == 0:
    print(everyone[0] == everyone[1] == everyone[2], *said, sep="\\n")
"""


def test_ranks_of_mpi4py(file):
    """The example of README.md on three ranks, all of which get the result, and errors."""
    if MPI == "MPICH" or subprocess.run([sys.executable, "-c", "import mpi4py"], capture_output=True).returncode:
        pytest.skip("no mpi4py of this MPI here")
    block, = (block for block in blocks() if "mpi4py" in block)
    run = subprocess.run(["mpirun", "-n", "3", sys.executable, "-c", RANKS.replace("BLOCK", block)], capture_output=True,
                         text=True, timeout=PATIENCE)
    assert run.returncode == 0 and not run.stderr, run.stderr
    alike, missing, arrays, ranks, kind = run.stdout.splitlines()
    assert alike == "True" and "none.h5" in missing and "write the arrays" in arrays
    assert "leave ranks=" in ranks and "mpi4py" in kind
    assert sorted(names(file.parent)) == ["comm.h5", file.name, "temporary"]


@pytest.mark.parametrize("ranks", [None, 2])
def test_a_second_ctrl_c_ends_it(tmp_path, ranks):
    """A program that takes long to stop."""
    stand_in = tmp_path / "program"
    stand_in.write_text(f"""#!/bin/sh
        [ "$1" != --version ] || exec {BUILD}/dgemm_ooc --version
        trap 'echo stopping' USR2 {"TERM" if MPI == "MPICH" and ranks else ""}
        echo running; while :; do sleep 0.1; done""")
    stand_in.chmod(0o755)
    with child(f"numpy.eye(2), numpy.eye(2), program={str(stand_in)!r}, ranks={ranks}") as process:
        for state in "running", "stopping":
            wait_until(lambda: state in process.stdout.readline(), process)
            session, = running(process)
            process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0 and not err and out.splitlines()[-1] == "interrupted", out + err
    await_end_of(session)


def test_progress(large, slow):
    told = []
    source, expected = large
    oc.matmul(source, source, progress=lambda *now: told.append(now), **slow)
    fractions = [fraction for fraction, _ in told]
    assert fractions == sorted(fractions) and len(fractions) > 3 and fractions[-1] == 1
    assert any(left is not None and left >= 0 for _, left in told)


def test_a_callback_that_raises_stops_the_run(large, slow, tmp_path):
    source, _ = large

    def fail(fraction, left):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        oc.matmul(source, source, progress=fail, **slow)
    assert part_of(source).exists() and not source.with_name("input-C.h5").exists()


def test_a_bar(large, slow, monkeypatch, capsys):
    """Where somebody looks, after a moment, and not in a log; tqdm's if that is installed."""
    source, _ = large
    monkeypatch.setattr(_progress, "_PATIENCE", 0.0)
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    for seen, progress in (False, None), (True, False), (True, None):
        monkeypatch.setattr("sys.stderr.isatty", lambda seen=seen: seen, raising=False)
        assert _progress.display(progress).live == (seen and progress is None)
    oc.matmul(source, source, **slow)
    err = capsys.readouterr().err
    assert re.search(r"\rproduct +\d+% \|#* *\| \S+( s)? left\x1b\[K", err) and err.endswith("\r\x1b[K")


def test_the_bar_of_tqdm(large, slow, monkeypatch):
    drawn, closed = [], []

    class Tqdm:
        def __init__(self, **_):
            self.n = 0

        def set_description_str(self, text, refresh):
            drawn.append(text)

        def set_postfix_str(self, text, refresh):
            assert re.fullmatch(r"(\?|\d+ s) left", text)

        def refresh(self):
            assert 0 <= self.n <= 1

        def close(self):
            closed.append(True)

    source, _ = large
    monkeypatch.setattr(_progress, "_PATIENCE", 0.0)
    monkeypatch.setitem(sys.modules, "tqdm", type(sys)("tqdm"))
    monkeypatch.setitem(sys.modules, "tqdm.auto", type("auto", (), {"tqdm": Tqdm}))
    oc.matmul(source, source, progress=True, **slow)
    assert "product" in drawn and closed == [True]


def test_log(file, caplog, capfd):
    caplog.set_level(logging.INFO, "dgemm_ooc")
    oc.matmul(file, file)
    with pytest.raises(oc.InputError):
        oc.matmul(f"{file}:/X", file, "x.h5")
    said = {record.levelname: record.getMessage() for record in caplog.records if record.name == "dgemm_ooc"}
    assert said["INFO"].startswith("RESULT: C complete") and 'no dataset "/X"' in said["WARNING"]
    assert capfd.readouterr() == ("", "")


def test_ranks(ab, file):
    for how in {"ranks": 2}, {"ranks": 2, "launcher": "mpirun --bind-to none"}, {"launcher": ["mpirun", "-n", "2"]}:
        if MPI == "Open MPI" or "bind" not in str(how):
            result = oc.matmul(*ab, **how)
            assert result.report["machine"]["ranks"] == 2 and np.allclose(result, ab[0] @ ab[1])
            assert how.get("launcher", "auto") == "auto" or Path(result.path[:-3]).parent.parent == file.parent
            del result
    assert oc.matmul(*ab, ranks=1).report["machine"]["ranks"] == 1


UNDER = f"""
import sys
sys.path.insert(0, {str(SOURCE)!r})
import numpy, dgemm_ooc as oc
try:
    print(oc.matmul(numpy.eye(9), numpy.eye(9), **HOW).report["machine"]["ranks"], "rank", flush=True)
except oc.UsageError as error:
    print(error, flush=True)
"""


def test_under_a_launcher():
    """Each Python would start a run of its own."""
    for how, expected in ("{}", "start one Python without a launcher"), ("{'launcher': 'none'}", "1 rank"):
        done = subprocess.run(["mpirun", "-n", "2", sys.executable, "-c", UNDER.replace("HOW", how[0:])],
                              capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 0 and done.stdout.count(expected) == 2, done.stdout + done.stderr


def test_launchers(monkeypatch, tmp_path):
    """In an allocation of Slurm ranks are started by srun, elsewhere by the mpirun of the program's MPI."""
    for name in "srun", "mpirun.openmpi", "mpirun.mpich":
        (tmp_path / name).write_text("#!/bin/sh\nprintf '%s ' \"$0\" \"$@\" >&2\n exit 1\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")

    def words(**keywords):
        with pytest.raises(oc.Error) as error:
            oc.matmul(np.eye(2), np.eye(2), ranks=3, **keywords)
        return str(error.value).replace(f"{tmp_path}/", "")

    mpirun, srun = {"Open MPI": ("mpirun.openmpi", "pmix"), "MPICH": ("mpirun.mpich", "pmi2")}[MPI]
    assert words().startswith(f"{mpirun} -n 3 {BUILD}/dgemm_ooc --transa N")
    monkeypatch.setenv("SLURM_JOB_ID", "1")
    assert words().startswith(f"srun --mpi={srun} --kill-on-bad-exit=1 -n 3 {BUILD}/dgemm_ooc")
    monkeypatch.setenv("SLURM_STEP_ID", "0")
    assert words().startswith(f"{mpirun} -n 3")
    assert words(launcher="srun -A 'my account'").startswith("srun -A my account -n 3 ")


def test_threads(ab):
    found = {}

    def multiply(i):
        found[i] = np.array(oc.matmul(ab[0] + i, ab[1]))

    threads = [threading.Thread(target=multiply, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(np.allclose(found[i], (ab[0] + i) @ ab[1]) for i in range(3))


# What is wrong.

def closed(path):
    with h5py.File(write(path, A=np.eye(2)), "r") as file:
        return file["A"]


def in_memory():
    return h5py.File("x.h5", "w", driver="core", backing_store=False).create_dataset("A", data=np.eye(2))


def open_for_writing(path):
    return h5py.File(write(path, A=np.eye(2)), "r+")["A"]


E2 = np.eye(2)
MISTAKES = {  # what is raised, what its text names, and the call, with a folder
    "no file": (oc.InputError, "no such file", lambda p: oc.matmul(p / "x.h5", E2)),
    "no dataset": (oc.InputError, 'datasets here: /A', lambda p: oc.matmul(f"{write(p / 'a.h5', A=E2)}:/X", E2)),
    "shapes": (oc.InputError, "--transb T would fit", lambda p: oc.matmul(np.ones((2, 3)), np.ones((2, 3)))),
    "types": (oc.InputError, "give --type d", lambda p: oc.matmul(E2.astype("f4"), E2)),
    "int64": (oc.InputError, "give --type d", lambda p: oc.gram(E2.astype("i8"))),
    "not HDF5": (oc.InputError, "not an HDF5 file", lambda p: oc.gram(text(p / "a.h5"))),
    "a URL": (oc.UsageError, "copy the file here", lambda p: oc.gram("s3://bucket/a.h5:/A")),
    "a vector": (oc.UsageError, r"a\.reshape\(-1, 1\)", lambda p: oc.matmul(np.ones(2), E2)),
    "a vector of a file": (oc.InputError, "as a column", lambda p: oc.gram(write(p / "a.h5", A=np.ones(3)))),
    "long doubles": (oc.UsageError, r"a\.astype\('f8'\)", lambda p: oc.gram(E2.astype("longdouble"))),
    "objects": (oc.UsageError, "elements of type object", lambda p: oc.gram(E2.astype(object))),
    "masked": (oc.UsageError, r"x\.filled\(numpy\.nan\)", lambda p: oc.corrcoef(np.ma.masked_array(E2))),
    "a list": (TypeError, "b is a list: .*numpy.asarray", lambda p: oc.matmul(E2, [[1.0]])),
    "a file of h5py": (TypeError, r'f\["A"\]', lambda p: oc.gram(h5py.File(write(p / "a.h5", A=E2), "r"))),
    "a closed file": (oc.UsageError, "name it by FILE.h5:/path", lambda p: oc.gram(closed(p / "a.h5"))),
    "a file in memory": (oc.UsageError, r"give a\[\(\)\]", lambda p: oc.gram(in_memory())),
    "a file open for writing": (oc.InputError, "close it", lambda p: oc.gram(open_for_writing(p / "a.h5"))),
    "an output that exists": (oc.InputError, "--force", lambda p: [oc.gram(x, p / "c.h5") for x in (E2, 2 * E2)]),
    "no folder": (oc.InputError, "does not exist", lambda p: oc.gram(E2, p / "none/c.h5")),
    "an array as output": (TypeError, "out is a numpy.ndarray", lambda p: oc.matmul(E2, E2, E2)),
    "an unknown keyword": (TypeError, "did you mean trans_a", lambda p: oc.matmul(E2, E2, transa=True)),
    "a keyword that is like none": (TypeError, "known are .*ranks", lambda p: oc.matmul(E2, E2, qqq=1)),
    "an unknown keyword of a check": (TypeError, "did you mean verify", lambda p: oc.check("c.h5", verfy="full")),
    "no operand": (TypeError, "missing 1 required", lambda p: oc.matmul(E2)),
    "a transposition": (oc.UsageError, "trans_a='H'", lambda p: oc.matmul(E2, E2, trans_a="H")),
    "an axis": (oc.UsageError, "axis=2", lambda p: oc.gram(E2, axis=2)),
    "a triangle": (oc.UsageError, "give 'full', 'lower' or 'packed'", lambda p: oc.gram(E2, triangle="upper")),
    "a type": (oc.UsageError, "give float64", lambda p: oc.gram(E2, dtype="i4")),
    "no type": (oc.UsageError, "give float64", lambda p: oc.gram(E2, dtype="double double")),
    "observations of a vector": (oc.InputError, "two dimensions",
                                 lambda p: oc.cov(write(p / "a.h5", A=np.ones(3)), ddof=0)),
    "observations of no file": (oc.InputError, "two dimensions", lambda p: oc.cov(p / "a.h5", ddof=0)),
    "too few observations": (oc.UsageError, "below that of the observations, 2", lambda p: oc.cov(E2, ddof=2)),
    "one observation": (oc.InputError, "two observations", lambda p: oc.cov(np.ones((3, 1)))),
    "beta without C": (oc.UsageError, "needs the matrix to add, c=", lambda p: oc.matmul(E2, E2, beta=1)),
    "C without beta": (oc.UsageError, "--beta", lambda p: oc.matmul(E2, E2, c=E2)),
    "alpha": (TypeError, "alpha is a str: give a number", lambda p: oc.matmul(E2, E2, alpha="2")),
    "infinite alpha": (oc.UsageError, "finite", lambda p: oc.matmul(E2, E2, alpha=np.inf)),
    "memory": (oc.ResourceError, "give at least --host-memory", lambda p: oc.matmul(E2, E2, host_memory=1000)),
    "a size": (oc.UsageError, "such as 512M", lambda p: oc.matmul(E2, E2, gpu_memory="much")),
    "a kernel": (oc.UsageError, "choose one", lambda p: oc.matmul(E2, E2, algo="fast")),
    "ranks": (oc.UsageError, "at least 1", lambda p: oc.matmul(E2, E2, ranks=0)),
    "ranks of no number": (TypeError, "number of ranks", lambda p: oc.matmul(E2, E2, ranks="2")),
    "ranks without a launcher": (oc.UsageError, "leave out", lambda p: oc.matmul(E2, E2, ranks=2, launcher="none")),
    "a launcher": (oc.UsageError, "cannot be started", lambda p: oc.matmul(E2, E2, ranks=2, launcher="mpirum")),
    "a program": (oc.UsageError, "name the file dgemm_ooc", lambda p: oc.matmul(E2, E2, program=p)),
    "an option": (oc.UsageError, "did you mean --t", lambda p: oc.matmul(E2, E2, options=["--tyle", "8x8x8"])),
    "an option of the package": (oc.UsageError, "Result.report", lambda p: oc.matmul(E2, E2, options=["--report=x"])),
    "an option that computes nothing": (oc.UsageError, "computed nothing", lambda p: oc.gram(E2, options=["--help"])),
    "options as text": (TypeError, "list of words", lambda p: oc.matmul(E2, E2, options="--io direct")),
    "a check of nothing": (TypeError, "give a Result", lambda p: oc.check(None)),
    "a check of no file": (oc.InputError, "there is no output", lambda p: oc.check(p / "none.h5")),
    "a plan of no function": (TypeError, "plan.matmul, a, b", lambda p: oc.plan("matmul", E2, E2)),
}


def text(path):
    path.write_text("no matrix\n" * 100)
    return f"{path}:/A"


@each("mistake", MISTAKES)
def test_mistakes(tmp_path, scratch, mistake):
    """Each is refused with the exception of its kind and what helps, and leaves nothing behind."""
    kind, said, call = MISTAKES[mistake]
    with pytest.raises(kind, match=f"(?s){said}") as error:
        call(tmp_path)
    assert "Traceback" not in str(error.value) and ".dgemm_ooc-" not in str(error.value)
    assert type(error.value) is kind and error.value.__suppress_context__ | (error.value.__context__ is None)
    del error
    gc.collect()
    assert not list(scratch.iterdir()) and not list(tmp_path.glob("*.part"))


def test_no_program(monkeypatch):
    monkeypatch.delenv("DGEMM_OOC")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(oc.Error, match="install it, or name it by program= or in .DGEMM_OOC"):
        oc.matmul(E2, E2)


def test_no_room(small_disk, monkeypatch):
    """The disk of the temporary files is full while an array is written, or while C is."""
    monkeypatch.setattr("tempfile.tempdir", str(small_disk))
    for shape in (2000, 2000), (10, 200000):
        with pytest.raises(oc.ResourceError):
            oc.gram(np.ones(shape))
        gc.collect()
        assert not list(small_disk.iterdir())


# The package.

def test_examples(tmp_path):
    """Of the docstrings."""
    write(tmp_path / "input.h5", A=random((30, 20)), B=random((20, 10)))
    for module in oc, _api:
        done = doctest.testmod(module, optionflags=doctest.ELLIPSIS, extraglobs={"numpy": np, "dgemm_ooc": oc})
        assert done.attempted >= 3 and not done.failed


def blocks():
    return re.findall(r"^```python\n(.*?)^```", (SOURCE / "README.md").read_text(), re.M | re.S)


def test_readme(tmp_path, monkeypatch):
    """The examples of README.md, one after the other; srun stands for a cluster."""
    srun = tmp_path / "srun"
    srun.write_text('#!/bin/sh\nuntil [ -x "$1" ]; do shift; done\nexec "$@"\n')
    srun.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    known = {}
    for block in blocks():
        if "mpi4py" not in block:
            exec(block, known)
    assert np.allclose(known["kinship"], known["kinship"].array.T) and known["checked"].verdict == "PASSED"
    a = known["a"]
    assert np.allclose(known["c"], (a - a.mean(0)).T @ known["scores"])
    known.clear()


def test_every_error_of_the_program_is_known():
    """Each exit status has a class, and each class is also one that Python has."""
    bases = {2: ValueError, 3: OSError, 4: MemoryError, 5: ArithmeticError, 75: oc.Error, 1: RuntimeError,
             -9: RuntimeError}
    for status, base in bases.items():
        error = _errors.error_of(status, "")
        assert isinstance(error, base) and isinstance(error, oc.Error) and error.status == status
    assert "SIGKILL" in str(error)


def test_version():
    """One version: of the package, of the Makefile and of the program."""
    makefile = re.search(r"^VERSION +:= (\S+)", (ROOT / "Makefile").read_text(), re.M)[1]
    said = subprocess.run([BUILD / "dgemm_ooc", "--version"], capture_output=True, text=True).stdout
    assert oc.__version__ == makefile and f"dgemm_ooc {makefile} " in said


def test_types_are_checked():
    """By mypy, as strictly as it can."""
    mypy = shutil.which("mypy") or shutil.which("mypy", path=str(Path(sys.executable).parent))
    if not mypy:
        pytest.skip("no mypy here")
    done = subprocess.run([mypy, "--strict", "--python-executable", sys.executable, "--cache-dir", "cache",
                           "--config-file", SOURCE / "pyproject.toml", SOURCE / "dgemm_ooc"], capture_output=True,
                          text=True)
    assert done.returncode == 0, done.stdout


MULTIPLIES = ("import dgemm_ooc, numpy; a = numpy.random.rand(9, 8); "
              "assert numpy.allclose(dgemm_ooc.matmul(a, a.T), a @ a.T); print(dgemm_ooc.__file__)")


def test_installed(prefix, monkeypatch):
    """With the program, which it finds."""
    monkeypatch.delenv("DGEMM_OOC")
    monkeypatch.setenv("PYTHONPATH", f"{prefix}/lib/python3/dist-packages")
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    done = subprocess.run([sys.executable, "-c", MULTIPLIES], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith(str(prefix)), done.stderr


def test_wheel(tmp_path, monkeypatch):
    """In a virtual environment that sees the system's NumPy and h5py; nothing is written into the sources."""
    if subprocess.run([sys.executable, "-c", "import setuptools, wheel, pip"], capture_output=True).returncode:
        pytest.skip("no setuptools, wheel and pip here: make setup test")
    before = names(SOURCE)
    make("wheel", f"BUILD={tmp_path}/build", f"PYTHON={sys.executable}")
    wheel, = (tmp_path / "build/dist").iterdir()
    assert wheel.name == f"dgemm_ooc-{oc.__version__}-py3-none-any.whl" and names(SOURCE) == before
    subprocess.run([sys.executable, "-m", "venv", "--system-site-packages", "--without-pip", "venv"], check=True)
    python = tmp_path / "venv/bin/python"
    subprocess.run([sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-index", "--no-deps", wheel],
                   check=True)
    done = subprocess.run([python, "-c", MULTIPLIES], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith(str(tmp_path / "venv")), done.stderr
