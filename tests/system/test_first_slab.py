"""Where op(A) comes step by step of k, the first products do not wait for the whole slab."""
import json

import h5py
import numpy as np
import pytest

from launch import run
from matrices import bound, multiply, operands, output_of, product, random, read, whole, write

M, N, K = 200, 30, 4200
NOT_CHECKED = 6
KINDS = {"f8": random, "f4": random, "i1": whole,
         "c16": lambda shape, _, seed: random(shape, "f8", seed) + 1j * random(shape, "f8", seed + 10)}


def result(source, *options, **how):
    report = multiply(source, "-f", *options, **how)
    return read(output_of(source)), report


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("trans", ["TN", "TT"])
@pytest.mark.parametrize("ranks", [0, 3])
def test_the_same_bits(tmp_path, gpu, dtype, trans, ranks):
    """As in slabs that are too short for that."""
    source = tmp_path / "input.h5"
    a, b, _ = operands(source, M, N, K, dtype, trans, KINDS[dtype])
    options = ["--transa", trans[0], "--transb", trans[1], "--io", "buffered", "--host-memory", "32M"]
    expected, report = result(source, *options, "--tile", f"{M}x{N}x512")
    assert report["plan"]["slab"] == 512
    if dtype == "i1":
        assert (expected == product(a, b, trans=trans)).all()
    elif dtype != "c16":
        assert (abs(expected - product(a, b, trans=trans)) <= bound(a, b, trans=trans, eps=np.finfo(dtype).eps)).all()
    for slab in (K, 2112):
        got, report = result(source, *options, "--tile", f"{M}x{N}x{slab}", ranks=ranks, device=gpu)
        assert report["plan"]["slab"] >= slab and got.tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype, chunks", [("f8", None), ("f8", (700, 64)), ("f4", None), ("c16", (300, 128))])
@pytest.mark.parametrize("faults", ["copy:delay@1+", "copy:delay%20,gemm:delay%20", "gemm:delay@1+"])
@pytest.mark.parametrize("ranks", [0, 2])
def test_nothing_is_read_that_has_not_come(tmp_path, dtype, chunks, faults, ranks):
    source = tmp_path / "input.h5"
    a, _, _ = operands(source, M, N, K, dtype, "TN", KINDS[dtype])
    if chunks:
        with h5py.File(source, "r+") as file:
            del file["A"]
            file.create_dataset("A", data=a, chunks=chunks)
    line = [source, "--transa", "T", "--host-memory", "64M" if dtype == "c16" else "32M"]
    expected, _ = result(*line, "--tile", f"{M}x{N}x512")
    got, _ = result(*line, "--tile", f"{M}x{N}x{K}", ranks=ranks, DGEMM_OOC_TEST_FAULTS=faults)
    assert got.tobytes() == expected.tobytes()


@pytest.mark.gpu
def test_the_check_sees_all_peaks(tmp_path, gpu):
    """Sums that are large after some of the first products, and cancel later, count for its limit."""
    a, b = random((8192, 32), "f4", 1) / 100, random((8192, 256), "f4", 2)
    a[:1024] *= 10000
    a[1024:2048], b[1024:2048] = -a[:1024], b[:1024]
    found = {}
    for trans, stored in ("T", a), ("N", a.T):
        source, report = write(tmp_path / f"{trans}.h5", A=stored, B=b), tmp_path / "report.json"
        done = run("dgemm_ooc", source, "--transa", trans, "--tile", "32x256x8192", "--host-memory", "64M", "--algo",
                   "tensor", "--check-seed", "7", "--report", report, DGEMM_OOC_DEVICE=gpu)
        assert done.returncode == NOT_CHECKED, done.stdout + done.stderr
        found[trans] = json.loads(report.read_text())["detectable"]
    assert found["T"] == found["N"] > 400


def test_products_begin_while_op_a_comes(tmp_path):
    """The first one when not even half of op(A) is on the device."""
    source, trace = tmp_path / "input.h5", tmp_path / "trace.json"
    operands(source, M, N, K, trans="TT")
    _, report = result(source, "--transa", "T", "--transb", "T", "--tile", f"{M}x{N}x{K}", "--host-memory", "32M",
                       "--trace", trace, DGEMM_OOC_TEST_FAULTS="copy:delay@1+")
    assert report["plan"]["slabs"] == 1
    spans = [span for span in json.loads(trace.read_text())["traceEvents"] if span["ph"] == "X"]
    comes = sorted(span["ts"] for span in spans if span["name"] == "copy in A")
    begins = sorted(span["ts"] for span in spans if span["name"] == "multiply")
    assert len(comes) > 16 and begins[0] < comes[len(comes) // 2]
