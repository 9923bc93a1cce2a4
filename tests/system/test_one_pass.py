"""Covariances and correlations that read A once: the bits are those of a run that reads it for the means before."""
import json

import numpy as np
import pytest

from cases import each
from launch import run
from matrices import multiply, output_of, part_of, random, read, sparse, start_late, wait_until
from test_prepare import TALL, assert_near, assert_statistics, exact, far, make, result

BEFORE = {"f8": ["--gpu-memory", "120K"], "f4": ["--gpu-memory", "70K"]}  # C in several super-blocks


@pytest.mark.singly
@pytest.mark.gpu
@each("product, trans, dtype, more", [
    ("cov", TALL, "f8", []), ("cov", [], "f8", []), ("cor", TALL, "f8", []), ("cor", [], "f4", []),
    ("cov", TALL, "f4", ["--nan", "zero"]), ("cor", TALL, "f8", ["--symmetric", "lower"])])
@pytest.mark.parametrize("ranks", [0, 3])
def test_it_is_read_once_or_twice_with_the_same_bits(tmp_path, device, product, trans, dtype, more, ranks):
    a = far(700, 150, dtype, 100)
    if "--nan" in more:
        a[::7, ::5] = np.nan
    source = make(tmp_path / "input.h5", a if trans else np.ascontiguousarray(a.T))
    words = ["--product", product, *trans, *more]
    once, report = result(source, *words, ranks=ranks, device=device)
    twice, other = result(source, *words, *BEFORE[dtype], ranks=ranks, device=device)
    assert once == twice and report["verdict"] == other["verdict"] == "PASSED"
    assert report["statistics"]["bytes"] == 0 and report["stages"]["read"]["bytes"] == a.nbytes
    assert report["predicted"]["before_s"] == 0
    assert other["statistics"]["bytes"] == a.nbytes


def test_the_run_says_so(tmp_path):
    source = make(tmp_path / "input.h5", far(300, 40))
    done = run("dgemm_ooc", source, "--product", "cov", *TALL, "-v")
    assert "deviations of 40 columns of A, added up while they were read for the product" in done.stdout
    assert "before: means" not in done.stdout


@each("variables, passes", [(20000, 1), (20001, 2)])
def test_so_many_variables_are_read_once(tmp_path, variables, passes):
    source = tmp_path / "input.h5"
    sparse(source, "A", (30000, variables), "f8")
    words = ["--product", "cov", *TALL, "--symmetric", "on", "--host-memory", "64G", "--device", "cpu"]
    done = run("dgemm_ooc", source, *words, "--dry-run", "--report", "-", "-q")
    assert done.returncode == 0, done.stderr
    predicted = json.loads(done.stdout[done.stdout.index("{"):])["predicted"]
    assert (predicted["before_s"] > 0) == (passes == 2)


def deceived(rows, cols, at, size=1.0):
    """Elements where a sample looks are others than nearly all (src/check/sample.c)."""
    a = random((rows, cols), seed=3)
    part = rows // max(1, min(rows >> 14, 16))
    for first in range(0, rows - part + 1, part):
        a[first + part // 2 - 32:first + part // 2 + 32] = at
    return a * size


def saves(source):
    journal = source.with_name("input-C.h5.journal")
    return journal.exists() and '"left"' in journal.read_text()


FAR = "have a mean or deviation that is far from that of a sample"


@pytest.mark.singly
@each("product, at, rows, size", [
    ("cov", 1e6, 64000, 1), ("cor", 1e6, 64000, 1), ("cor", 1e6, 64000, 1e200), ("cor", 1e6, 64000, 1e-200),
    ("cor", 0, 2000, 1e200)])
@pytest.mark.parametrize("ranks", [0, 2])
@pytest.mark.parametrize("more", [[], ["--tile", "16x16x64"]], ids=["once", "twice"])
def test_a_sample_that_deceives_is_left(tmp_path, product, at, rows, size, ranks, more):
    """By it alone, digits would be lost, or squares be too large."""
    a = deceived(rows, 32, at, size)
    source = make(tmp_path / "input.h5", a)
    done = run("dgemm_ooc", source, "--product", product, *TALL, "--verify", "full", *more, ranks=ranks)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (f"32 columns of A {FAR}" in done.stderr) == (not more)
    z, mean, deviation = exact(a, 0, scale=product == "cor")
    assert_near(read(output_of(source)), z.T, 1 / np.longdouble(rows - 1))
    assert_statistics(output_of(source), mean, deviation)


@pytest.mark.parametrize("stops", [False, True])
def test_sums_of_a_sample_that_deceives_are_left(tmp_path, stops):
    """Those that a checkpoint has saved before that was known."""
    source = make(tmp_path / "input.h5", deceived(24000, 32, 1e6))
    words = ["--product", "cov", *TALL, "--gpu-memory", "300K"]
    reference, _ = result(source, *words)
    with start_late(source, *words, "--checkpoint", "0.02s", late="20") as process:
        wait_until(lambda: saves(source), process)
        if stops:
            process.kill()
        out, err = process.communicate()
    if not stops:
        assert process.returncode == 0 and FAR in err, err
    else:
        done = run("dgemm_ooc", source, *words, "--restart", "trust")
        err = done.stderr
        assert done.returncode == 0, err
    assert "are of a sample's shifts, which are too far from the means" in err
    assert tuple(read(output_of(source), name).tobytes() for name in ("C", "C_mean", "C_deviation")) == reference


def test_means_are_there_only_when_they_are_known(tmp_path):
    """A run that is killed has NaN in their place; the next one knows them."""
    source = make(tmp_path / "input.h5", far(60000, 32))
    words = ["--product", "cov", *TALL, "--gpu-memory", "300K"]
    reference, _ = result(source, *words)
    with start_late(source, *words, "--checkpoint", "0.02s", late="20") as process:
        wait_until(lambda: saves(source), process)
        process.kill()
        process.communicate()
    assert np.isnan(read(part_of(source), "C_mean")).all() and np.isnan(read(part_of(source), "C_deviation")).all()
    report = multiply(source, *words)
    assert report["statistics"]["bytes"] > 0 and "compared_bytes" in report["restart"]
    assert tuple(read(output_of(source), name).tobytes() for name in ("C", "C_mean", "C_deviation")) == reference


def kinds(rows, cols):
    rng, where = np.random.default_rng(4), np.arange(rows)[:, None]
    normal = rng.standard_normal((rows, cols))
    yield "normal", normal
    yield "far", normal + 1e8
    yield "drift", normal + np.linspace(0, 50, rows)[:, None]
    yield "outlier", np.where(where == 0, 1e6 * normal, normal)
    yield "constant first", np.where(where < rows // 100, 1e4, normal)
    yield "two levels", normal + 1e3 * (where > rows // 3)
    yield "heavy tails", rng.standard_cauchy((rows, cols))
    yield "counts", rng.poisson(0.1, (rows, cols)).astype("f8")
    yield "waves", np.sin(where * 2 * np.pi * 16 / rows) + 1e-3 * normal
    yield "small", 1e-160 * normal + 1e-158


SMALL = 9  # of kinds: whose covariances are no numbers


@pytest.mark.parametrize("product, kind", [
    (product, kind) for product in ("cov", "cor") for kind in range(10) if (product, kind) != ("cov", SMALL)])
def test_errors_are_small_whatever_the_data(tmp_path, product, kind):
    name, a = list(kinds(4000, 24))[kind]
    source = make(tmp_path / "input.h5", a)
    report = multiply(source, "--product", product, *TALL, "--verify", "full")
    assert report["full_check"]["verdict"] == "PASSED" and report["statistics"]["bytes"] == 0
    z, _, _ = exact(a, 0, scale=product == "cor")
    norms = np.sqrt((z * z).sum(0))
    error = np.abs(read(output_of(source)) - z.T @ z / np.longdouble(3999)) / np.outer(norms, norms) * 3999
    assert error.max() <= 1e-13, (name, error.max())
