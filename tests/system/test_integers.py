"""Integer matrices are multiplied exactly, as the bytes that the files hold: NumPy's int64 is the reference."""
import json
import os
import signal

import h5py
import numpy as np
import pytest

from cases import each
from launch import BUILD, FAULTY, PATIENCE, run
from matrices import (multiply, output_of, part_of, random, read, scalars, start_late, wait_until,
                      write)
from ranks import pids

RANGES = {"i1": (-128, 127), "u1": (0, 255), "i2": (-2**15, 2**15 - 1), "u2": (0, 2**16 - 1),
          "i4": (-2**31, 2**31 - 1), "u4": (0, 2**32 - 1)}
TINY = ["--gpu-memory", "300K", "--host-memory", "24M"]
SYMMETRIC = ["-b", "A", "--transb", "T"]


def integers(shape, dtype, seed=0, extreme=False, part=1):
    """Random ones of all there are, or of a part of these; `extreme`: the smallest and the largest only."""
    rng, (least, most) = np.random.default_rng([seed, *shape]), (x // part for x in RANGES[dtype])
    return (rng.choice([least, most], shape) if extreme
            else rng.integers(least, most, shape, endpoint=True)).astype(dtype)


def limits(device):
    """With which there are several tiles and slabs."""
    return TINY if device == "gpu" else ["--tile", "64x48x128", "--host-memory", "24M"]


def make(path, m, n, k, types=("i1", "i1"), trans="NN", **how):
    """A file with A and B, so large that C still fits into int64; returns it with their product."""
    part = 1
    while k * np.prod([max(-(x // part) for x in (least, -most)) for least, most in map(RANGES.get, types)],
                      dtype=object) >= 2**63:
        part *= 2
    parts = [part if t[1] == "4" else 1 for t in types]
    a, b = (integers((m, k), types[0], 1, part=parts[0], **how),
            integers((k, n), types[1], 2, part=parts[1], **how))
    path.unlink(missing_ok=True)
    write(path, A=a if trans[0] == "N" else np.ascontiguousarray(a.T),
          B=b if trans[1] == "N" else np.ascontiguousarray(b.T))
    return path, a.astype("i8") @ b.astype("i8")


def same(problem, *options, dtype="i8", **how):
    """C must be the expected one, and complete; returns the report."""
    source, expected = problem
    report = multiply(source, "--force", *options, **how)
    c = read(output_of(source))
    assert c.dtype == dtype
    np.testing.assert_array_equal(c, expected)
    return report


@pytest.mark.singly
@pytest.mark.parametrize("b_type", RANGES)
@pytest.mark.parametrize("a_type", RANGES)
def test_types_and_transpositions(tmp_path, device, a_type, b_type):
    types = a_type, b_type
    for trans in ["NN", "NT", "TN", "TT"]:
        problem = make(tmp_path / "input.h5", 37, 53, 301, types, trans)
        report = same(problem, *scalars(trans), device=device)
        assert report["problem"]["type"] == "int64" and report["verdict"] == "PASSED"
    names = {"i": "int", "u": "uint"}
    a, b = (names[t[0]] + str(8 * int(t[1])) for t in types)
    assert report["problem"]["exact"] == f"exact integers: {a} x {b} -> int64"


@pytest.mark.singly
@pytest.mark.parametrize("size", [(1, 1, 1), (1, 97, 3), (97, 1, 130), (3, 5, 0), (130, 257, 129)], ids=str)
@pytest.mark.parametrize("types", [("i1", "u1"), ("u2", "i2"), ("i4", "u4")], ids="-".join)
def test_odd_shapes(tmp_path, device, size, types):
    same(make(tmp_path / "input.h5", *size, types), device=device)


@pytest.mark.singly
@pytest.mark.parametrize("b_type", RANGES)
@pytest.mark.parametrize("a_type", RANGES)
def test_extreme_values(tmp_path, device, a_type, b_type):
    same(make(tmp_path / "input.h5", 40, 30, 1000, (a_type, b_type), extreme=True), device=device)


@pytest.mark.singly
@pytest.mark.parametrize("types", [("i1", "i1"), ("u1", "u1"), ("i1", "u1"), ("i2", "i2"), ("i4", "u1")],
                         ids="-".join)
def test_sums_of_more_than_32_bits(tmp_path, device, types):
    k = 140_000  # times the square of 127, which is more than 2^31
    a, b = (np.full((3, k), RANGES[t][1], t) for t in types)
    source = write(tmp_path / "input.h5", A=a, B=b)
    same((source, a.astype("i8") @ b.T.astype("i8")), "--transb", "T", device=device)


@pytest.mark.singly
@pytest.mark.parametrize("ranks", [0, 2, 3, 4])
@pytest.mark.parametrize("types", [("i1", "i1"), ("u1", "i2"), ("u4", "i4")], ids="-".join)
def test_many_tiles_and_ranks(tmp_path, device, ranks, types):
    for trans in ["NT", "TN"]:
        problem = make(tmp_path / "input.h5", 203, 187, 700, types, trans)
        report = same(problem, *scalars(trans), *limits(device), ranks=ranks, device=device)
        plan, stages = report["plan"], report["stages"]
        assert plan["slabs"] > 1
        assert stages["read"]["bytes"] == plan["read_bytes"] and stages["in"]["bytes"] == plan["in_bytes"]


def test_bytes_travel_as_they_are(tmp_path):
    problem = make(tmp_path / "input.h5", 100, 80, 300, ("i1", "u1"))
    report = same(problem)
    assert report["stages"]["read"]["bytes"] == report["stages"]["in"]["bytes"] == 300 * (100 + 80)


@pytest.mark.singly
@pytest.mark.parametrize("storage", [
    {"chunks": (16, 33)}, {"chunks": (40, 64), "compression": "gzip", "shuffle": True}, {"dtype": ">i2"},
    {"dtype": ">i4"}, {"dtype": ">u4", "chunks": (16, 33)}], ids=str)
def test_storage(tmp_path, device, storage):
    storage = dict({"dtype": "i2"}, **storage)
    a, b = integers((61, 130), storage["dtype"].lstrip(">"), 1), integers((130, 45), "u1", 2)
    source = tmp_path / "input.h5"
    with h5py.File(source, "w") as file:
        file.create_dataset("A", data=a, **storage)
        file.create_dataset("B", data=b, chunks="chunks" in storage or None)
    same((source, a.astype("i8") @ b.astype("i8")), "--verify", "full", ranks=2, device=device)


def test_chunks_that_were_never_written(tmp_path):
    with h5py.File(tmp_path / "input.h5", "w") as file:
        a = file.create_dataset("A", (50, 60), "i1", chunks=(10, 10), fillvalue=-3)
        a[:10, :10] = 5
        file["B"] = np.ones((60, 7), "i1")
        expected = a[()].astype("i8") @ file["B"][()].astype("i8")
    same((tmp_path / "input.h5", expected))


@each("fill", [-2**62 - 1, 2**62 + 1])
@each("io", ["auto", "hdf5"])
def test_c0_of_chunks_that_were_never_written(tmp_path, io, fill):
    """Values that no double holds."""
    source, ab = make(tmp_path / "input.h5", 30, 20, 10)
    with h5py.File(source, "a") as file:
        c = file.create_dataset("C", ab.shape, "i8", chunks=(7, 6), fillvalue=fill)
        c[:7, :6] = 5
        c = c[()]
    same((source, ab + c), "--beta", 1, "--io", io)


@pytest.mark.singly
@pytest.mark.parametrize("types", [("i1", "i1"), ("i2", "u2"), ("i4", "i2")], ids="-".join)
@pytest.mark.parametrize("alpha, beta, c0", [(-3, 0, "i8"), (2, -5, "i8"), (0, 7, "i8"), (2, 3, "u1"), (1, 1, ">i4")])
def test_scalars(tmp_path, device, types, alpha, beta, c0):
    source, ab = make(tmp_path / "input.h5", 70, 90, 200, types)
    c = np.random.default_rng(3).integers(0, 200, ab.shape).astype(c0)
    write(source, C=c)
    if alpha == 0:
        ab = 0 * ab
    same((source, alpha * ab + beta * c.astype("i8")), f"--alpha={alpha}", f"--beta={beta}", "--verify", "full",
         *limits(device), device=device)


def test_large_c0_is_exact(tmp_path, device):
    source, ab = make(tmp_path / "input.h5", 20, 30, 40)
    c = np.random.default_rng(4).integers(-2**62, 2**62, ab.shape)
    write(source, C=c)
    same((source, ab - c), "--beta=-1", device=device)


def test_overflow_of_c0_is_detected(tmp_path, device):
    source, ab = make(tmp_path / "input.h5", 20, 30, 40)
    c = np.zeros(ab.shape, "i8")
    c[3, 4] = 2**62
    write(source, C=c)
    done = run("dgemm_ooc", source, "--beta", 2, "--restart", "never", DGEMM_OOC_DEVICE=device)
    assert done.returncode == 3, done.stderr
    assert "element (3, 4) of alpha op(A) op(B) + beta C does not fit into int64; give --type d" in done.stderr
    assert not output_of(source).exists()


@pytest.mark.singly
@pytest.mark.parametrize("types", ["i1", "u1", "i2", "i4", "u4"])
@pytest.mark.parametrize("ranks", [0, 3])
def test_symmetric(tmp_path, device, ranks, types):
    a = integers((230, 400), types, 1, part=64 if types[1] == "4" else 1)
    full = a.astype("i8") @ a.astype("i8").T
    for trans, options in [("T", SYMMETRIC), ("N", ["-b", "A", "--transa", "T"])]:
        source = tmp_path / f"{trans}.h5"
        write(source, A=a if trans == "T" else np.ascontiguousarray(a.T))
        for way, expected in [("on", full), ("off", full), ("lower", np.tril(full))]:
            report = same((source, expected), *options, "--symmetric", way, "--gpu-memory", "600K", "--verify", "full",
                          ranks=ranks, device=device)
            assert report["problem"]["symmetric"] == (way != "off")


def test_gram_is_exact(tmp_path):
    a = integers((60, 90), "u1", 1)
    source = write(tmp_path / "input.h5", A=a)
    same((source, a.astype("i8") @ a.astype("i8").T), *SYMMETRIC, "--product", "gram")


@pytest.mark.parametrize("types", [("i1", "u1"), ("i2", "i2"), ("i4", "u1"), ("i2", "u4")], ids="-".join)
def test_doubles_when_asked_for(tmp_path, device, types):
    source, ab = make(tmp_path / "input.h5", 50, 60, 31, types)
    report = same((source, 0.5 * ab), "--type", "d", "--alpha", 0.5, "--verify", "full", dtype="f8", device=device)
    assert report["problem"]["exact"].endswith("-> double")
    assert report["stages"]["read"]["bytes"] == 31 * (50 * int(types[0][1]) + 60 * int(types[1][1]))


def test_check_only(tmp_path):
    source, _ = problem = make(tmp_path / "input.h5", 40, 50, 60)
    same(problem)
    assert run("dgemm_ooc", source, "--check-only").returncode == 0
    done = run("dgemm_ooc", source, "--check-only", "--type", "d")
    assert done.returncode == 3 and "C is int64, but --type d is given" in done.stderr
    with h5py.File(output_of(source), "a") as file:
        file["C"][7, 8] += 1
    assert run("dgemm_ooc", source, "--check-only").returncode == 5


@pytest.mark.singly
@pytest.mark.parametrize("ranks", [0, 2])
@pytest.mark.parametrize("types", [("i1", "i2"), ("i4", "i4")], ids="-".join)
def test_go_on_after_a_stop(tmp_path, ranks, types):
    problem = source, _ = make(tmp_path / "input.h5", 600, 500, 1000, types, "NT")
    options = ["--transb", "T", "--tile", "40x40x16"]
    with start_late(source, *options, ranks=ranks) as process:
        wait_until(lambda: part_of(source).exists() and part_of(source).stat().st_blocks, process)
        os.kill(pids(process, ranks)[-1], signal.SIGUSR2)
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 75, err
    report = tmp_path / "report.json"
    done = run("dgemm_ooc", source, *options[:2], "--report", report)
    assert done.returncode == 0 and "is done" in done.stdout, done.stderr
    np.testing.assert_array_equal(read(output_of(source)), problem[1])
    said = json.loads(report.read_text())
    assert said["verdict"] == "PASSED"
    assert said["predicted"]["before_s"] == 0 and "Largest" not in done.stdout  # what is known is not searched for
    assert run("dgemm_ooc", source, "--check-only").returncode == 0


@pytest.mark.skipif(not (BUILD / FAULTY).exists(), reason="the program with faults is not built")
def test_a_flipped_element_is_found(tmp_path):
    source, _ = make(tmp_path / "input.h5", 40, 50, 60)
    done = run(FAULTY, source, DGEMM_OOC_TEST_FAULTS="gemm:flip@2", DGEMM_OOC_DEVICE="cpu")
    assert done.returncode == 0 and "computed again" in done.stdout + done.stderr, done.stdout + done.stderr
    np.testing.assert_array_equal(read(output_of(source)), make(source, 40, 50, 60)[1])


@pytest.mark.skipif(not (BUILD / FAULTY).exists(), reason="the program with faults is not built")
@pytest.mark.parametrize("options", [[], ["--tile", "24x24x128"], SYMMETRIC], ids=["one tile", "tiles", "symmetric"])
def test_any_bit_of_any_element_is_found(tmp_path, options):
    """Of sums of up to 63 bits, whose lowest bits doubles would not see."""
    a = integers((40, 600), "i4", 1, part=32)
    source = write(tmp_path / "input.h5", A=a, B=a.T.copy())
    log = tmp_path / "faults"
    for seed in range(12):
        done = run(FAULTY, source, *options, "--force", "--restart", "never", DGEMM_OOC_TEST_FAULTS="gemm:bit@2",
                   DGEMM_OOC_TEST_SEED=str(seed), DGEMM_OOC_DEVICE="cpu", DGEMM_OOC_TEST_FAULT_LOG=log)
        assert done.returncode == 0 and "computed again" in done.stdout + done.stderr, (seed, done.stderr)
        np.testing.assert_array_equal(read(output_of(source)), a.astype("i8") @ a.T.astype("i8"))
    assert log.read_text().count("bit ") == 12


BOUNDS = [  # k elements of A and of B, and alpha: the largest that C may have are below 2^63, or not
    ("i4", -2**31, "i4", 2**31 - 1, 2, 1, True), ("i4", -2**31, "i4", -2**31, 2, 1, False),
    ("i4", -2**31, "i4", -2**31, 1, 1, True), ("i4", -2**31, "i4", -2**31, 1, -2, False),
    ("u4", 2**32 - 1, "u4", 2**31, 1, 1, True), ("u4", 2**32 - 1, "u4", 2**31 + 1, 1, 1, False),
    ("u4", 2**32 - 1, "i4", -2**31, 1, 1, True), ("u4", 2**32 - 1, "i4", -2**31, 2, 1, False),
    ("i4", 2**31 - 1, "i2", -2**15, 2**17, 1, True), ("i4", -2**31, "i2", -2**15, 2**17, 1, False),
    ("u1", 255, "i1", 1, 3, 2**52, True), ("u1", 255, "i1", 3, 3, 2**52, False)]


@pytest.mark.singly
@pytest.mark.parametrize("a, x, b, y, k, alpha, fits", BOUNDS)
@pytest.mark.parametrize("ranks", [0, 3])
def test_what_fits_is_decided_by_the_largest_elements(tmp_path, a, x, b, y, k, alpha, fits, ranks):
    matrices = np.zeros((3, k), a), np.zeros((2, k), b)
    matrices[0][1, :] = x
    matrices[1][0, :] = y
    source = write(tmp_path / "input.h5", A=matrices[0], B=matrices[1])
    options = ["--transb", "T", "--alpha", alpha]
    if fits:
        expected = np.zeros((3, 2), "i8")
        expected[1, 0] = alpha * k * x * y
        same((source, expected), *options, ranks=ranks)
        return
    done = run("dgemm_ooc", source, *options, ranks=ranks)
    assert done.returncode == 3, done.stderr
    assert f"A are up to {abs(x)} in magnitude, of B up to {abs(y)}" in done.stderr
    assert f"with k = {k} " in done.stderr and "give --type d" in done.stderr
    assert not output_of(source).exists() and not part_of(source).exists()
    report = multiply(source, *options, "--type", "d", ranks=ranks)
    np.testing.assert_allclose(read(output_of(source))[1, 0], float(alpha * k * x * y), rtol=1e-15)
    assert (report["problem"]["exact"] == "") == (a[1] == "4")


@pytest.mark.parametrize("matrices, options, size", [
    ("AB", ["-b", "B", "--transb", "T"], 4 * 300 * (200 + 100)),
    ("A", SYMMETRIC, 4 * 300 * 200), ("A", ["-b", "A", "--transb", "T", "--type", "d"], 0)])
def test_the_predicted_time_has_that_of_the_largest_elements(tmp_path, matrices, options, size):
    """Elements of 32 bits could be too large, so they are read first, once if A and B are the same."""
    shapes = {"A": (200, 300), "B": (100, 300)}
    source = write(tmp_path / "input.h5", **{name: np.ones(shapes[name], "i4") for name in matrices})
    rates = tmp_path / "machine.json"
    rates.write_text(json.dumps({"disk_read_bytes_per_s": 1e5, "disk_write_bytes_per_s": 1e9, "threads": 1}))
    dry = ["--machine", rates, "--dry-run"]
    done = run("dgemm_ooc", source, *options, *dry, "--report", "-", "-q")
    predicted = json.loads(done.stdout[done.stdout.index("{"):])["predicted"]
    assert predicted["before_s"] == pytest.approx(size / 1e5, rel=0.01)
    said = run("dgemm_ooc", source, *options, *dry).stdout
    assert ("(before: largest elements)" in said) == (size > 0)
    assert ("of it before the product" in said) == (size > 0), said
    run_said = run("dgemm_ooc", source, *options).stdout
    assert ("\nLargest " in run_said and "(predicted " in run_said) == (size > 0), run_said


@each("matrices, options, code, words", [
    ({"A": np.ones((4, 5), "i1"), "B": np.ones((5, 3), "i1")}, ["--alpha", 0.5], 2,
     "--alpha 0.5 is not an integer below 2^53 in magnitude, as an int64 C needs; give --type d"),
    ({"A": np.ones((4, 5), "i8"), "B": np.ones((5, 3), "i8")}, [], 3, "holds int64 elements; give --type d"),
    ({"A": np.ones((4, 5), "i1"), "B": np.ones((5, 3), "f8")}, [], 3, "give --type d"),
    ({"A": np.ones((4, 5), "i1"), "B": np.ones((5, 3), "i1"), "C": np.ones((4, 3))}, ["--beta", 1], 3,
     "A and B are integers, but C, which is added, is neither int64"),
    ({"A": np.ones((4, 5), "i1"), "B": np.ones((5, 3), "i1"), "C": np.ones((4, 3), "u8")}, ["--beta", 1], 3,
     "A and B are integers, but C, which is added, is neither int64"),
    ({"A": np.ones((1, 1), "i1"), "B": np.ones((1, 1), "i1")}, ["--alpha", 2**53 + 1], 2,
     "is not an integer below 2^53 in magnitude"),
    ({"A": np.ones((4, 5), "i1"), "B": np.ones((5, 3), "i1")}, ["--algo", "ozaki"], 2, "leave --algo out"),
    ({"A": np.ones((4, 5), "i1")}, [*SYMMETRIC, "--product", "cov"], 3, "give --type d"),
])
def test_refused(tmp_path, matrices, options, code, words):
    source = write(tmp_path / "input.h5", **matrices)
    done = run("dgemm_ooc", source, *options)
    assert done.returncode == code and words in done.stderr, done.stderr
    assert not output_of(source).exists() and not part_of(source).exists()


def test_what_is_not_exact_is_multiplied_as_doubles(tmp_path):
    source = write(tmp_path / "input.h5", A=(random((30, 40)) * 2**20).astype("i4"),
                   B=(random((40, 20)) * 2**20).astype("i4"))
    report = multiply(source, "--type", "d", "--verify", "full")
    assert report["problem"]["exact"] == "" and read(output_of(source)).dtype == "f8"
