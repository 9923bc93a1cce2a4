"""Centred and scaled products: covariance, correlation and kinship, beside NumPy and exact values.

Exact means: in long doubles, whose rounding is 2^-11 of that of doubles."""
import json
import os
import re
import signal
import time
import warnings
from fractions import Fraction

import h5py
import numpy as np
import pytest

from cases import each
from launch import BUILD, FAULTY, run
from matrices import digest, multiply, names, output_of, part_of, random, read, snapshot, start_late, wait_until, write
from ranks import pids

U = {"f8": 2.0**-53, "f4": 2.0**-24}
TALL = ["--transa", "T"]  # variables are columns


def far(rows, cols, dtype="f8", ratio=1e6):
    """Columns whose means are `ratio` times their deviation."""
    return (ratio * (1.5 + random((1, cols), seed=5)) + random((rows, cols), seed=7)).astype(dtype)


def make(path, a, **storage):
    with h5py.File(path, "w") as file:
        file.create_dataset("A", data=a, **storage)
    return path


def exact(a, axis, scale=False):
    """(x - mean) / deviation of the lines along an axis of the array, and what was subtracted and divided by."""
    a = a.astype(np.longdouble)
    mean = a.mean(axis, keepdims=True)
    deviation = np.sqrt(((a - mean)**2).sum(axis, keepdims=True) / max(a.shape[axis] - 1, 1))
    z = (a - mean) / np.where(deviation == 0, 1, deviation) if scale else a - mean
    return z, mean.ravel(), deviation.ravel()


def products(z):
    """Of rows; and the product of their norms, beside which errors are small."""
    norms = np.sqrt((z * z).sum(1))
    return z @ z.T, np.outer(norms, norms)


def assert_near(c, z, alpha=1, u=U["f8"]):
    """Within 4 k u of the products of the norms."""
    expected, norms = products(z)
    k = z.shape[1]
    error = np.abs(c - alpha * expected) / np.where(norms == 0, 1, abs(alpha) * norms)
    assert error.max() <= 4 * k * u, error.max() / u


def assert_statistics(output, mean, deviation):
    """To the last digit."""
    np.testing.assert_allclose(read(output, "C_mean"), mean.astype("f8"), rtol=2 * U["f8"])
    np.testing.assert_allclose(read(output, "C_deviation"), deviation.astype("f8"), rtol=3 * U["f8"])


def result(source, *more, **how):
    """The bits of C, its means and its deviations, and the report."""
    output = source.with_name("result.h5")
    report = multiply(source, *more, "-o", output, "--force", **how)
    return tuple(read(output, name).tobytes() for name in ("C", "C_mean", "C_deviation")), report


@pytest.mark.pairwise
@pytest.mark.parametrize("rows, cols", [(501, 37), (2, 5), (300, 1), (64, 128)])
@pytest.mark.parametrize("tall", [True, False])
@pytest.mark.parametrize("ratio", [1e6, 1e8])
def test_covariance(tmp_path, rows, cols, tall, ratio):
    """Where A^T A - k mean mean^T has few digits or none; as numpy.cov with rowvar=False, or of rows."""
    a = far(rows, cols, ratio=ratio)
    source = make(tmp_path / "input.h5", a if tall else a.T)
    report = multiply(source, "--product", "cov", *(TALL if tall else []), "--verify", "full")
    z, mean, deviation = exact(a, 0)
    c = read(output_of(source))
    assert_near(c, z.T, 1 / (rows - 1))
    assert_statistics(output_of(source), mean, deviation)
    assert np.array_equal(c, c.T) and report["verdict"] == report["full_check"]["verdict"] == "PASSED"
    scale = np.sqrt(np.outer(c.diagonal(), c.diagonal()))
    if ratio == 1e6:  # NumPy's rounded means cost digits beyond that
        assert (np.abs(np.cov(a, rowvar=False) - c) <= 8 * rows * U["f8"] * scale).all()
    if rows > 100 and cols > 1:
        m = a.mean(0)
        naive = (a.T @ a - rows * np.outer(m, m)) / (rows - 1)
        assert (np.abs(naive - c) / scale).max() > (1e-5 if ratio == 1e6 else 0.5)


def test_correlation(tmp_path):
    """As numpy.corrcoef, but not clipped; a variable that does not vary has none."""
    a = far(400, 30)
    a[:, 7] = 1e6
    source = make(tmp_path / "input.h5", a)
    done = run("dgemm_ooc", source, "--product", "cor", *TALL)
    assert done.returncode == 0 and "column 7 of A, counted from 0, does not vary" in done.stderr, done.stderr
    assert "--product cov" in done.stderr
    c, others = read(output_of(source)), np.arange(30) != 7
    assert np.isnan(c[7]).all() and np.isnan(c[:, 7]).all()
    c = c[np.ix_(others, others)]
    z, _, _ = exact(a[:, others], 0, scale=True)
    assert_near(c, z.T, 1 / np.longdouble(399))
    assert np.abs(c.diagonal() - 1).max() <= 400 * U["f8"]
    assert np.abs(c - np.corrcoef(a[:, others], rowvar=False)).max() <= 400 * U["f8"]


@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_kinship(tmp_path, dtype):
    """Individuals are rows, markers are columns, which are centred, scaled and may be missing; one is the same of
    all, and has no part in it."""
    rng = np.random.default_rng(3)
    a = rng.binomial(2, rng.uniform(0.05, 0.5, 333), (57, 333)).astype(dtype)
    a[:, 11] = 2
    a[rng.random(a.shape) < 0.02] = np.nan
    source = make(tmp_path / "input.h5", a)
    words = ["-b", "A", "--transb", "T", "--center", "cols", "--scale", "cols", "--alpha", str(1 / 333)]
    assert run("dgemm_ooc", source, *words).returncode == 3
    report = multiply(source, *words, "--nan", "mean", "--verify", "full")
    filled = np.where(np.isnan(a), np.nanmean(a.astype(np.longdouble), 0), a)
    z, mean, deviation = exact(filled, 0, scale=True)
    assert_near(read(output_of(source)), z, 1 / np.longdouble(333), U[dtype])
    np.testing.assert_allclose(read(output_of(source), "C_mean"), mean.astype("f8"), rtol=4 * U["f8"])
    np.testing.assert_allclose(read(output_of(source), "C_deviation"), deviation.astype("f8"), rtol=4 * U["f8"])
    assert report["statistics"]["missing"] == np.isnan(a).sum() and report["statistics"]["constant"] == 1
    assert report["statistics"]["lines"] == 333 and report["statistics"]["bytes"] == a.nbytes
    assert report["full_check"]["verdict"] == "PASSED"


def test_floats_are_centred_in_double(tmp_path):
    """And rounded once: of floats that are 1000 deviations away from 0, ten bits are left of each."""
    a = far(600, 20, "f4", 1e3)
    source = make(tmp_path / "input.h5", a)
    multiply(source, "--product", "cov", *TALL)
    z, mean, deviation = exact(a, 0)
    assert read(output_of(source)).dtype == "f4" and read(output_of(source), "C_mean").dtype == "f8"
    assert_near(read(output_of(source)), z.T, 1 / np.longdouble(599), U["f4"])
    assert_statistics(output_of(source), mean, deviation)


@pytest.mark.pairwise
@pytest.mark.parametrize("missing", ["zero", "mean"])
@pytest.mark.parametrize("axis", ["rows", "cols"])
@pytest.mark.parametrize("tall", [True, False])
def test_missing_elements_are_as_if_they_were_filled(tmp_path, missing, axis, tall):
    a, along = far(41, 63, ratio=3), 1 if axis == "rows" else 0
    a[3, 5] = a[3, 9] = a[20, 5] = np.nan
    a[17 if axis == "rows" else slice(None), slice(None) if axis == "rows" else 17] = np.nan
    source = make(tmp_path / "input.h5", a)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fill = 0 if missing == "zero" else np.nan_to_num(np.nanmean(a.astype(np.longdouble), along, keepdims=True))
    filled = np.where(np.isnan(a), fill, a)
    multiply(source, "-b", "A", *(TALL if tall else ["--transb", "T"]), "--center", axis, "--nan", missing)
    z, mean, deviation = exact(filled, along)
    assert_near(read(output_of(source)), z.T if tall else z)
    assert_statistics(output_of(source), mean, deviation)


@each("ranks", [0, 3])
@each("chunks", [None, (16, 16)])
def test_the_first_nan_is_named(tmp_path, ranks, chunks):
    a = far(200, 50)
    a[150, 3] = np.nan
    a[77, 41] = a[199, 0] = np.nan
    source = make(tmp_path / "input.h5", a, chunks=chunks)
    before = snapshot(tmp_path)
    done = run("dgemm_ooc", source, "--product", "cov", *TALL, ranks=ranks)
    assert done.returncode == 3 and "input.h5:A is NaN in row 77, column 41, counted from 0" in done.stderr
    assert "--nan mean" in done.stderr and snapshot(tmp_path) == before


@pytest.mark.singly
@pytest.mark.parametrize("ranks", [0, 3])
@pytest.mark.parametrize("dtype, large", [("f8", 1.7e308), ("f4", 3e38)])
def test_differences_that_may_overflow_are_refused(tmp_path, dtype, large, ranks):
    """Before there is an output; half of that size is as good as any other."""
    a = far(60, 9, dtype, 10)
    a[50, 4], a[3, 4], a[7, 6] = large, -large, large
    source = make(tmp_path / "input.h5", a)
    done = run("dgemm_ooc", source, "--product", "cov", *TALL, ranks=ranks)
    assert done.returncode == 3 and f"size {large:g} in column 4, counted from 0" in done.stderr, done.stderr
    assert "divide the matrix by 4" in done.stderr and names(source) == {"input.h5"}
    source = make(tmp_path / "input.h5", a / 4)
    multiply(source, "--product", "cor", *TALL, ranks=ranks)
    z, _, _ = exact(a / 4, 0, scale=True)
    assert_near(read(output_of(source)), z.T, 1 / np.longdouble(59), U[dtype])


def test_elements_that_spread_over_all_exponents(tmp_path):
    """Each column has rows that are added one by one, and others; so have parts of them."""
    rng = np.random.default_rng(5)
    a = rng.standard_normal((2100, 12)) * 2.0**rng.integers(-400, 400, (2100, 12))
    a[:900] = rng.standard_normal((900, 12))
    a[900:1500] = rng.integers(-9, 9, (600, 12))
    source = make(tmp_path / "input.h5", a)
    words = ["--product", "cor", *TALL]
    reference, _ = result(source, *words)
    for ranks, memory in [(0, "8M"), (2, "8M"), (3, "1G")]:
        assert result(source, *words, "--host-memory", memory, ranks=ranks)[0] == reference
    mean = [float(sum(map(Fraction, column)) / 2100) for column in a.T.tolist()]
    assert np.array_equal(read(source.with_name("result.h5"), "C_mean"), mean)


def test_what_can_be_known_before_is_said_before(tmp_path):
    """Before A is read for means, which may take long: where the output cannot be, and what computes."""
    a = far(60, 9)
    a[5, 2] = np.nan
    source = make(tmp_path / "input.h5", a)
    done = run("dgemm_ooc", source, "--product", "cov", *TALL, "-o", tmp_path / "nowhere" / "c.h5")
    assert done.returncode == 3 and "nowhere" in done.stderr and "NaN" not in done.stderr, done.stderr
    done = run("dgemm_ooc", source, "--product", "cov", *TALL, "--nan", "mean")
    assert done.returncode == 0 and done.stdout.index("\nRanks ") < done.stdout.index("\nStatistics ")


@each("output, says", [
    ("c.h5", "the output {}/c.h5 exists; give --force to replace it"),
    ("input.h5/c.h5", "for a dataset of a file write {}/input.h5:/c.h5"),
    (f"new.h5:/{'C' * 505}", "is too long, since the run appends _deviation; choose a shorter one"),
    ("new.h5:/group/.", "names no dataset; write FILE.h5:/path")])
def test_an_output_that_cannot_be_is_refused_before_the_pass(tmp_path, output, says):
    """No element of A is read: the first one would be refused."""
    source = make(tmp_path / "input.h5", np.full((60, 9), np.nan))
    write(tmp_path / "c.h5", C=far(3, 3))
    before = snapshot(tmp_path)
    done = run("dgemm_ooc", source, "--product", "cov", *TALL, "-o", f"{tmp_path}/{output}")
    assert done.returncode in (2, 3) and says.format(tmp_path) in done.stderr, done.stderr
    assert "NaN" not in done.stderr and snapshot(tmp_path) == before
    if "_deviation" in says:
        done = run("dgemm_ooc", source, "--product", "cov", *TALL, "-o", f"{tmp_path}/{output}", "--dry-run")
        assert done.returncode == 3 and says in done.stderr, done.stderr


PASSES = pytest.mark.parametrize("a, words", [  # what is read before anything is multiplied
    (far(40000, 300), ["--product", "cov", *TALL]),
    ((random((40000, 600)) * 2**20).astype("i4"), ["-b", "A", *TALL])], ids=["means", "largest"])


@pytest.mark.singly
@PASSES
@pytest.mark.parametrize("ranks", [0, 2])
def test_one_of_two_runs_is_refused_before_the_pass(tmp_path, a, words, ranks):
    """While the first one is at its own pass, and has no output yet."""
    source = make(tmp_path / "input.h5", a)
    journal, words = tmp_path / "input-C.h5.journal", [*words, "--host-memory", "16M"]
    with start_late(source, *words, late="100", ranks=ranks) as first:
        wait_until(lambda: journal.exists() and '"owner"' in journal.read_text(), first)
        second = run("dgemm_ooc", source, *words)
        assert names(source) == {"input.h5", journal.name}
        out, _ = first.communicate()
    assert second.returncode == 3 and "another run is writing this output: process " in second.stderr
    assert f"process {pids(first, 0)[0]} on" in second.stderr or ranks
    assert "Started" not in second.stdout and first.returncode == 0
    assert ("\nStatistics " in out or "\nLargest " in out) and names(source) == {"input.h5", "input-C.h5"}


def test_what_is_saved_stays_until_the_pass_is_over(tmp_path):
    """Of another product, which --restart never would discard; here a pass before the product finds NaN."""
    source = write(tmp_path / "input.h5", A=far(1000, 300), X=np.full((60, 9), np.nan))
    reference, _ = result(source, "--product", "cor", *TALL)
    words, journal = ["--product", "cor", *TALL, "-o", tmp_path / "c.h5"], tmp_path / "c.h5.journal"
    with start_late(source, *words, "--tile", "20x20x16", "--checkpoint", "0.05s", late="100") as process:
        wait_until(lambda: journal.exists() and '"left"' in journal.read_text(), process)
        process.kill()
        process.communicate()
    saved = journal.read_text()
    other = ["-a", "X", "-b", "X", *TALL, "--center", "rows", "-o", tmp_path / "c.h5"]
    done = run("dgemm_ooc", source, *other, "--restart", "never")
    assert done.returncode == 3 and "X is NaN in row 0" in done.stderr, done.stderr
    assert journal.read_text().startswith(saved)
    report = multiply(source, *words, "--restart", "require")
    assert "compared_bytes" in report["restart"]
    assert tuple(read(tmp_path / "c.h5", name).tobytes() for name in ("C", "C_mean", "C_deviation")) == reference
    assert not journal.exists()


def test_the_predicted_time_has_that_of_means(tmp_path):
    source = make(tmp_path / "input.h5", far(3000, 20))
    rates = tmp_path / "machine.json"
    rates.write_text(json.dumps({"disk_read_bytes_per_s": 1e5, "disk_write_bytes_per_s": 1e9, "threads": 1}))
    seconds = 3000 * 20 * 8 / 1e5
    first = ["--product", "cov", "--nan", "mean"]
    for words, before in (first, seconds), (["--product", "cov"], 0), (["--product", "gram"], 0):
        done = run("dgemm_ooc", source, *words, *TALL, "--machine", rates, "--dry-run", "--report", "-", "-q")
        predicted = json.loads(done.stdout[done.stdout.index("{"):])["predicted"]
        assert predicted["before_s"] == pytest.approx(before, rel=0.01)
        assert predicted["wall_s"] == pytest.approx(before + seconds, rel=0.1)
    done = run("dgemm_ooc", source, *first, *TALL, "--machine", rates, "--dry-run")
    assert "of it before the product" in done.stdout and "(before: means)" in done.stdout
    done = run("dgemm_ooc", source, *first, *TALL)
    assert re.search(r"Statistics  means and deviations of 20 columns of A, .* in .* \(predicted ", done.stdout)


def test_infinity_makes_its_line_nan(tmp_path):
    a = far(60, 9)
    a[5, 2] = np.inf
    source = make(tmp_path / "input.h5", a)
    done = run("dgemm_ooc", source, "--product", "cov", *TALL)
    assert done.returncode == 0 and "column 2 of A, counted from 0, has infinite elements" in done.stderr
    c = read(output_of(source))
    assert (np.isnan(c) == np.logical_or.outer(np.arange(9) == 2, np.arange(9) == 2)).all()
    assert np.isnan(read(output_of(source), "C_mean")[2])


KINDS = pytest.mark.parametrize("words", [
    ["--product", "cor", *TALL], ["--product", "cov"], ["-b", "A", "--transb", "T", "--center", "cols"],
    ["-b", "A", *TALL, "--center", "rows", "--scale", "rows", "--nan", "mean", "--alpha", "0.3"],
    ["--product", "gram", "--scale", "cols", "--nan", "zero"]])


def make_kind(path, words, dtype):
    a = far(207, 155, dtype, 1e6 if dtype == "f8" else 30)
    if "--nan" in words:
        a[::7, ::5] = np.nan
    return make(path, a)


@pytest.mark.singly
@KINDS
@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_the_same_bits_everywhere(tmp_path, words, dtype):
    """On any ranks, in any memory, as half or all of the products."""
    source = make_kind(tmp_path / "input.h5", words, dtype)
    reference, report = result(source, *words, "--symmetric", "on")
    z = report["problem"]
    assert (z["center"], z["scale"]) != ("none", "none") and z["symmetric"]
    small = ["--gpu-memory", "150K", "--host-memory", "8M"]
    for ranks, more in [(0, small), (3, ["--symmetric", "off", *small]), (4, []), (8, small)]:
        got, report = result(source, *words, *more, ranks=ranks)
        assert got == reference and report["verdict"] == "PASSED", (ranks, more)


@pytest.mark.singly
@pytest.mark.gpu
@KINDS
@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_a_gpu_gives_the_bits_of_the_cpu(tmp_path, gpu, words, dtype):
    source = make_kind(tmp_path / "input.h5", words, dtype)
    reference, _ = result(source, *words)
    for more in [], ["--gpu-memory", "400K"], ["--symmetric", "off"]:
        assert result(source, *words, *more, device=gpu)[0] == reference


@pytest.mark.parametrize("storage", [
    {"chunks": (30, 40), "compression": "gzip"}, {"dtype": ">f8"}, {"chunks": (207, 1)}])
def test_however_it_is_stored(tmp_path, storage):
    a = far(207, 155)
    reference, _ = result(make(tmp_path / "plain.h5", a), "--product", "cov", *TALL)
    for ranks in 0, 3:
        got, _ = result(make(tmp_path / "input.h5", a, **storage), "--product", "cov", *TALL, ranks=ranks)
        assert got == reference


@pytest.mark.parametrize("rows, cols", [(1, 3001), (3001, 1), (1, 1), (7, 60000), (60000, 7)])
def test_long_and_short(tmp_path, rows, cols):
    """Vectors, and more lines than the memory holds sums of."""
    source = make(tmp_path / "input.h5", far(rows, cols))
    trans = ["--transb", "T"] if rows <= cols else TALL
    for axis in "rows", "cols":
        words = ["-b", "A", *trans, "--center", axis]
        reference, _ = result(source, *words, "--host-memory", "1G")
        for ranks in 0, 3:
            got, report = result(source, *words, "--host-memory", "10M", ranks=ranks)
            assert got == reference and report["statistics"]["lines"] == (rows if axis == "rows" else cols)
            z, mean, deviation = exact(far(rows, cols), 1 if axis == "rows" else 0)
            assert_statistics(source.with_name("result.h5"), mean, deviation)


def test_other_nodes_and_parts_of_k(tmp_path):
    if not (BUILD / FAULTY).exists():
        pytest.skip("the program with faults is not built: make test")
    a = far(300, 90)
    source = make(tmp_path / "input.h5", a)
    reference, _ = result(source, "--product", "cov", *TALL)
    assert result(source, "--product", "cov", *TALL, ranks=4, DGEMM_OOC_TEST_NODE="2")[0] == reference
    blocks = {"DGEMM_OOC_TEST_BLOCK": "80"}
    reference, _ = result(source, "--product", "cov", *TALL, **blocks)
    bits, report = result(source, "--product", "cov", *TALL, ranks=2, **blocks, DGEMM_OOC_TEST_LAYERS="2")
    z, _, _ = exact(a, 0)
    assert report["verdict"] == "PASSED" and report["plan"]["layers"] == 2 and bits == reference
    assert_near(read(tmp_path / "result.h5"), z.T, 1 / np.longdouble(299))


def test_residues(tmp_path):
    """Their scales are of what is multiplied; a sample of A as it is stored says nothing of that."""
    a = far(300, 90)
    source = make(tmp_path / "input.h5", a)
    _, report = result(source, "--product", "cor", *TALL, "--algo", "ozaki:15")
    z, _, _ = exact(a, 0, scale=True)
    assert report["verdict"] == "PASSED"
    assert_near(read(tmp_path / "result.h5"), z.T, 1 / np.longdouble(299))
    done = run("dgemm_ooc", source, "--product", "cor", *TALL, "--algo", "ozaki")
    assert done.returncode == 2 and "give the number of moduli, as in ozaki:14" in done.stderr


@each("words, code, complaint", [
    ([], 0, ""),
    (["--transb", "N"], 3, "need one matrix times its own transpose"),
    (["-b", "B"], 3, "need one matrix times its own transpose"),
    (["--center", "cols"], 2, "leave out --center and --scale"),
    (["--alpha", "2"], 2, "have their own alpha"),
    (["--product", "gram", "--center", "rows", "--scale", "cols"], 2, "both are of rows, or both of cols"),
    (["--product", "gram", "--nan", "zero"], 2, "--nan goes with"),
    (["--product", "gram", "--scale", "cols", "--nan", "mean"], 2, "--nan mean goes with --center"),
    (["-a", "T"], 3, "variables need two observations or more")])
def test_what_does_not_go_together(tmp_path, words, code, complaint):
    source = write(tmp_path / "input.h5", A=far(5, 5), B=far(5, 5), T=far(5, 1))
    done = run("dgemm_ooc", source, "--product", "cov", *words)
    assert done.returncode == code and complaint in done.stderr, done.stderr
    assert names(source) == ({"input.h5", "input-C.h5"} if code == 0 else {"input.h5"})


def test_what_a_user_adds_to_the_output_is_kept(tmp_path):
    """Whatever it is called, and whatever attributes it has."""
    source = make(tmp_path / "input.h5", far(20, 5))
    multiply(source, "--product", "cov", *TALL)
    with h5py.File(output_of(source), "r+") as file:
        file["C_tstat"] = [1.0, 2.0]
        file["C_tstat"].attrs["statistic"] = "t"
    before = snapshot(tmp_path)
    done = run("dgemm_ooc", source, "--product", "cov", *TALL, "--force")
    assert done.returncode == 3 and "C_tstat" in done.stderr
    assert snapshot(tmp_path) == before


def test_a_variable_that_is_missing_has_no_correlation(tmp_path):
    a = far(20, 5)
    a[:, 3] = np.nan
    source = make(tmp_path / "input.h5", a)
    multiply(source, "--product", "cor", *TALL, "--nan", "mean")
    odd = np.isnan(read(output_of(source)))
    assert odd[3].all() and odd[:, 3].all() and odd.sum() == 9


def test_outputs_know_how_they_were_made(tmp_path):
    """They are replaced, resumed and checked as what they are, and made anew byte by byte."""
    a = far(120, 30)
    source = make(tmp_path / "input.h5", a)
    cov, output = ["--product", "cov", *TALL], output_of(source)
    multiply(source, *cov)
    first = digest(output)
    time.sleep(1.1)
    multiply(source, *cov, "--force", ranks=2)
    assert digest(output) == first
    with h5py.File(output) as file:
        assert set(file) == {"C", "C_mean", "C_deviation"} and file["C"].attrs["center"] == "cols"
        assert file["C_mean"].attrs["statistic"] == "means of the columns of A"
    assert "was made from these operands already" in run("dgemm_ooc", source, *cov).stdout
    assert "exists; give --force" in run("dgemm_ooc", source, "--product", "cor", *TALL).stderr
    for words in ["-b", "A"], cov:
        done = run("dgemm_ooc", "--check-only", source, *words, ranks=2)
        assert done.returncode == 0 and "checksum equal" in done.stdout, done.stderr
    done = run("dgemm_ooc", "--check-only", source, "--product", "cor", *TALL)
    assert done.returncode == 3 and "C was made with --center cols --scale none" in done.stderr
    multiply(source, "--product", "cor", *TALL, "--force")
    with h5py.File(output, "r+") as file:
        file["C_other"] = 1
    done = run("dgemm_ooc", source, *cov, "--force")
    assert done.returncode == 3 and "/C_other;" in done.stderr
    with h5py.File(output, "r+") as file:
        del file["C_other"]
        file["C"][3, 4] += 1e-3
        file["C"].attrs.__delitem__("checksum")
    assert run("dgemm_ooc", "--check-only", source, "-b", "A").returncode == 5


@pytest.mark.parametrize("ranks, later", [(0, 3), (3, 0)])
def test_restart(tmp_path, ranks, later):
    """The journal knows what is multiplied; what is resumed has the same bits, also after a death, and after a stop
    while means are read."""
    source = make(tmp_path / "input.h5", far(30000, 300))
    cor = ["--product", "cor", *TALL]
    reference, _ = result(source, *cor)
    (tmp_path / "result.h5").unlink()
    with start_late(source, *cor, "--gpu-memory", "2M", "--host-memory", "12M", "--checkpoint", "0.1s", late="100",
                    ranks=ranks) as process:
        journal = source.with_name("input-C.h5.journal")
        wait_until(lambda: journal.exists() and '"left"' in journal.read_text(), process)
        os.kill(pids(process, ranks)[-1], signal.SIGKILL)
        process.communicate()
    assert part_of(source).exists()
    done = run("dgemm_ooc", source, "--product", "cov", *TALL)
    assert done.returncode == 3 and "is the journal of another product" in done.stderr
    with start_late(source, *cor, "--host-memory", "12M", "--max-time", "0.5s", late="100") as process:
        _, err = process.communicate()
    assert process.returncode == 75 and "% done; the same command" in err, err
    report = multiply(source, *cor, ranks=later)
    assert report["restart"]["compared_bytes"] >= 0 and report["full_check"]["verdict"] == "PASSED"
    assert tuple(read(output_of(source), name).tobytes() for name in ("C", "C_mean", "C_deviation")) == reference


def test_the_statistics_stop_when_asked(tmp_path):
    """Before there is an output."""
    source = make(tmp_path / "input.h5", far(40000, 300))
    words = ["--product", "cov", *TALL, "--host-memory", "8M", "--max-time", "0.5s"]
    with start_late(source, *words, late="100") as process:
        out, err = process.communicate()
    assert process.returncode == 75 and "stopped by --max-time before there was anything to save" in err, err
    assert "Statistics" not in out and names(source) == {"input.h5"}


@pytest.mark.parametrize("fault", ["standardize:fail@2", "pread:eio%100"])
def test_what_fails_ends_the_run(tmp_path, fault):
    if not (BUILD / FAULTY).exists():
        pytest.skip("the program with faults is not built: make test")
    source = make(tmp_path / "input.h5", far(500, 400))
    done = run(FAULTY, source, "--product", "cov", *TALL, "--gpu-memory", "400K", DGEMM_OOC_TEST_FAULTS=fault)
    assert done.returncode == 1 and names(source) == {"input.h5"}, done.stderr


def test_the_plan_counts_means_and_deviations(tmp_path):
    """They are on the host and on the device."""
    source = make(tmp_path / "input.h5", far(3, 20000))
    words = ["-b", "A", "--transb", "T", "--dry-run", "--report", "-"]
    plans = [json.loads(run("dgemm_ooc", source, *words, *more).stdout)["plan"]
             for more in ([], ["--center", "cols"], ["--center", "cols", "--scale", "cols"])]
    device, host = ([plan[key] for plan in plans] for key in ("device_bytes", "host_bytes"))
    assert np.diff(device).min() >= 160000 and np.diff(host)[0] >= 2 * 160000
