"""Where op(A) comes step by step of k, the first products do not wait for the whole slab."""
import json

import numpy as np
import pytest

from matrices import bound, multiply, operands, output_of, product, random, read, whole

M, N, K = 200, 30, 4200
KINDS = {"f8": random, "f4": random, "i1": whole, "c16": lambda *how: random(*how) + 1j * random(*how)}


def result(source, *options, **how):
    report = multiply(source, "-f", "--host-memory", "32M", *options, **how)
    return read(output_of(source)), report


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("trans", ["TN", "TT"])
@pytest.mark.parametrize("ranks", [0, 3])
def test_the_same_bits(tmp_path, gpu, dtype, trans, ranks):
    """As in slabs that are too short for that."""
    source = tmp_path / "input.h5"
    kind = KINDS[dtype] if dtype != "c16" else lambda shape, _, seed: KINDS["c16"](shape, "f8", seed)
    a, b, _ = operands(source, M, N, K, dtype, trans, kind)
    options = ["--transa", trans[0], "--transb", trans[1], "--io", "buffered"]
    expected, report = result(source, *options, "--tile", f"{M}x{N}x512")
    assert report["plan"]["slab"] == 512
    if dtype == "i1":
        assert (expected == product(a, b, trans=trans)).all()
    elif dtype != "c16":
        assert (abs(expected - product(a, b, trans=trans)) <= bound(a, b, trans=trans, eps=np.finfo(dtype).eps)).all()
    for slab in (K, 2112):
        got, report = result(source, *options, "--tile", f"{M}x{N}x{slab}", ranks=ranks, device=gpu)
        assert report["plan"]["slab"] >= slab and got.tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("faults", ["copy:delay@1+", "copy:delay%20,gemm:delay%20", "gemm:delay@1+"])
@pytest.mark.parametrize("ranks", [0, 2])
def test_nothing_is_read_that_has_not_come(tmp_path, dtype, faults, ranks):
    source = tmp_path / "input.h5"
    operands(source, M, N, K, dtype, "TN")
    expected, _ = result(source, "--transa", "T", "--tile", f"{M}x{N}x512")
    got, _ = result(source, "--transa", "T", "--tile", f"{M}x{N}x{K}", ranks=ranks, DGEMM_OOC_TEST_FAULTS=faults)
    assert got.tobytes() == expected.tobytes()


def test_products_begin_while_op_a_comes(tmp_path):
    """The first one when not even half of op(A) is on the device."""
    source, trace = tmp_path / "input.h5", tmp_path / "trace.json"
    operands(source, M, N, K, trans="TT")
    _, report = result(source, "--transa", "T", "--transb", "T", "--tile", f"{M}x{N}x{K}", "--trace", trace,
                       DGEMM_OOC_TEST_FAULTS="copy:delay@1+")
    assert report["plan"]["slabs"] == 1
    spans = [span for span in json.loads(trace.read_text())["traceEvents"] if span["ph"] == "X"]
    comes = sorted(span["ts"] for span in spans if span["name"] == "copy in A")
    begins = sorted(span["ts"] for span in spans if span["name"] == "multiply")
    assert len(comes) > 16 and begins[0] < comes[len(comes) // 2]
