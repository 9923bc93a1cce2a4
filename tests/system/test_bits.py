"""The bits are the same for any ranks, grid, tile, limits and I/O method."""
import hashlib

import numpy as np
import pytest

from launch import GPU, WAYS
from matrices import bound, multiply, operands, product, read, scalars

M, N, K = 203, 187, 501
PROBLEM = dict(trans="NT", alpha=1.7, beta=-0.3)
VARIANTS = {
    "1 rank": dict(ranks=1),
    "2 ranks": dict(ranks=2),
    "3 ranks": dict(ranks=3),
    "5 ranks": dict(ranks=5),
    "40K": dict(options=["--gpu-memory", "40K", "--host-memory", "16M"]),
    "200K": dict(options=["--gpu-memory", "200K", "--host-memory", "16M"]),
    "3 ranks of 90K": dict(ranks=3, options=["--gpu-memory", "90K", "--host-memory", "16M"]),
    "grid 1x3": dict(ranks=3, options=["--grid", "1x3"]),
    "grid 4x1 of 5": dict(ranks=5, options=["--grid", "4x1"]),
    "one quantum": dict(options=["--tile", f"{M}x{N}x16"]),
    "ragged tile": dict(options=["--tile", "37x41x208"]),
    "thin tile": dict(options=["--tile", f"1x{N}x{K}"]),
    "tile on 2 ranks": dict(ranks=2, options=["--tile", "64x50x96"]),
    **{f"io {way}": dict(options=["--io", way, "--gpu-memory", "100K"]) for way in WAYS},
    **{f"io {way} on 2 ranks": dict(options=["--io", way], ranks=2) for way in WAYS},
    "unchecked": dict(options=["--verify", "off"]),
    "2 threads": dict(OMP_NUM_THREADS="2"),
    "2 threads, 60K": dict(OMP_NUM_THREADS="2",
                           options=["--gpu-memory", "60K", "--host-memory", "32M"]),
}
GPU_VARIANTS = {
    "whole": dict(),
    "100K": dict(options=["--gpu-memory", "100K"]),
    "1 rank, 400K": dict(ranks=1, options=["--gpu-memory", "400K"]),
    "2 ranks": dict(ranks=2, options=["--gpu-memory", "300K"]),
    "3 ranks": dict(ranks=3, options=["--gpu-memory", "200K"]),
    "ragged tile": dict(options=["--tile", "37x41x208"]),
}


@pytest.fixture(scope="module", params=["f4", "f8"])
def problem(request, tmp_path_factory):
    """A file of random operands, the operands, and the bits of their product on the CPU."""
    source = tmp_path_factory.mktemp("bits") / "input.h5"
    matrices = operands(source, M, N, K, request.param, PROBLEM["trans"])
    return source, matrices, bits(source)


def result(source, options=(), **how):
    output = source.with_name("result.h5")
    multiply(source, *scalars(**PROBLEM), *options, "-o", output, "--force", **how)
    return read(output)


def bits(source, **how):
    return hashlib.sha256(result(source, **how).tobytes()).hexdigest()


def assert_is_product(got, matrices):
    limit = bound(*matrices, eps=np.finfo(got.dtype).eps, **PROBLEM)
    assert (np.abs(got - product(*matrices, **PROBLEM)) <= limit).all()


@pytest.mark.singly
@pytest.mark.smoke
@pytest.mark.parametrize("variant", VARIANTS)
def test_cpu(problem, variant):
    source, _, reference = problem
    assert bits(source, **VARIANTS[variant]) == reference


def test_reference_is_the_product(problem):
    source, matrices, _ = problem
    assert_is_product(result(source), matrices)


@pytest.mark.singly
@pytest.mark.gpu
@pytest.mark.parametrize("algorithm", ["naive", "shared", "register"])
@pytest.mark.parametrize("variant", GPU_VARIANTS)
def test_gpu_gives_the_bits_of_the_cpu(problem, gpu, algorithm, variant):
    source, _, reference = problem
    how = dict(GPU_VARIANTS[variant])
    options = ["--algo", algorithm, *how.pop("options", [])]
    assert bits(source, options=options, device=gpu, **how) == reference


@pytest.mark.gpu
@pytest.mark.skipif(not GPU, reason="cuBLAS needs a real GPU: make test-gpu")
@pytest.mark.parametrize("ranks", [0, 2])
def test_cublas_gives_the_product(problem, ranks):
    source, matrices, _ = problem
    assert_is_product(result(source, ["--algo", "cublas"], ranks=ranks, device="gpu"), matrices)
