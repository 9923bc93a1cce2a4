"""Covariances and correlations of two matrices, and products of one that is centred with another."""
import json
import shutil
from itertools import product as cartesian

import h5py
import numpy as np
import pytest

from cases import each
from launch import run
from matrices import multiply, output_of, read, start_late, wait_until
from test_one_pass import FAR, deceived, saves
from test_prepare import exact, far

NAMES = ("C", "C_mean", "C_deviation", "C_mean_b", "C_deviation_b")


def make(path, x, y, turned="", **storage):
    """Variables are rows of x and y; those that are named by letters are stored in columns."""
    with h5py.File(path, "w") as file:
        for name, z in (("A", x), ("B", y)):
            file.create_dataset(name, data=z.T if name in turned else z, **storage)
    return path


def words_of(kind, turned):
    return ["--product", kind, "--transa", "T" if "A" in turned else "N", "--transb", "N" if "B" in turned else "T"]


def result(source, *more, **how):
    output = source.with_name("result.h5")
    report = multiply(source, *more, "-o", output, "--force", **how)
    return tuple(read(output, name).tobytes() for name in NAMES), report


def assert_right(output, kind, x, y, u):
    """Within 4 k u of the products of the norms, and means and deviations to the last digits."""
    scale, k = kind == "cross-cor", x.shape[1]
    (zx, mean, deviation), (zy, mean_b, deviation_b) = exact(x, 1, scale), exact(y, 1, scale)
    norms = np.sqrt(np.outer((zx * zx).sum(1), (zy * zy).sum(1)))
    assert (np.abs(read(output) * np.longdouble(k - 1) - zx @ zy.T) <= 4 * k * u * norms).all()
    for name, expected in zip(NAMES[1:], (mean, deviation, mean_b, deviation_b)):
        np.testing.assert_allclose(read(output, name), expected.astype("f8"), rtol=2**-51)


@pytest.mark.gpu
@pytest.mark.pairwise
@pytest.mark.parametrize("kind", ["cross-cov", "cross-cor"])
@pytest.mark.parametrize("turned", ["", "A", "B", "AB"])
@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("ranks", [0, 3])
@pytest.mark.parametrize("more", [[], ["--nan", "zero"], ["--nan", "mean"]], ids=" ".join)
@pytest.mark.parametrize("storage", [{}, {"chunks": (50, 60), "compression": "gzip"}], ids=["contiguous", "chunked"])
def test_values_and_bits(tmp_path, device, kind, turned, dtype, ranks, more, storage):
    """Read once or twice, in one super-block or several, the bits are the same."""
    x, y = far(600, 70, dtype, 100).T, far(600, 130, dtype, 30).T
    if more:
        x[3, ::7] = y[5, 9] = np.nan
    source = make(tmp_path / "input.h5", x, y, turned, **storage)
    words = [*words_of(kind, turned), *more, "--verify", "full"]
    once, report = result(source, *words, ranks=ranks, device=device)
    twice, other = result(source, *words, "--tile", "32x48x64", ranks=ranks, device=device)
    assert once == twice
    assert report["verdict"] == other["verdict"] == report["full_check"]["verdict"] == "PASSED"
    assert (report["statistics"]["bytes"] == 0) == (more != ["--nan", "mean"])
    assert other["statistics"]["bytes"] == x.nbytes + y.nbytes
    for z in (x, y):
        means = np.nanmean(z, 1, keepdims=True, dtype="f8").astype(dtype)
        z[:] = np.where(np.isnan(z), means if "mean" in more else 0, z)
    if more != ["--nan", "mean"]:  # whose means have more digits than such a float
        assert_right(source.with_name("result.h5"), kind, x, y, {"f8": 2.0**-53, "f4": 2.0**-24}[dtype])


def test_it_is_the_corner_of_numpys(tmp_path):
    x, y = np.random.default_rng(1).normal(3, 2, (2, 40, 500))
    source = make(tmp_path / "input.h5", x, y)
    for kind, numpys in (("cross-cov", np.cov), ("cross-cor", np.corrcoef)):
        multiply(source, "--product", kind, "-o", tmp_path / "C.h5", "--force")
        np.testing.assert_allclose(read(tmp_path / "C.h5"), numpys(x, y)[:40, 40:], rtol=0, atol=1e-13)


def test_of_a_matrix_with_itself_it_is_symmetric(tmp_path):
    x = far(300, 40).T
    source = make(tmp_path / "input.h5", x, x[:3])
    for kind in ("cov", "cor"):
        multiply(source, "--product", kind)
        assert run("dgemm_ooc", source, "--product", f"cross-{kind}", "-b", "A", "-o", tmp_path / "C.h5", "-f").returncode == 0
        assert read(tmp_path / "C.h5").tobytes() == read(output_of(source)).tobytes()
        output_of(source).unlink()


@pytest.mark.parametrize("form", ["npy", "slice"])
def test_other_forms_of_operands(tmp_path, form):
    """In Fortran's order rows of the file are columns of the matrix; slices have their own means."""
    x, y = np.random.default_rng(2).normal(5, 1, (30, 400)), np.random.default_rng(3).normal(-5, 1, (50, 400))
    if form == "npy":
        np.save(tmp_path / "X.npy", np.asfortranarray(x))
        np.save(tmp_path / "Y.npy", np.asfortranarray(y.T))
        words = [tmp_path / "X.npy", tmp_path / "Y.npy", "--transb", "N"]
    else:
        source = make(tmp_path / "input.h5", np.repeat(x, 2, 0), y, "B")
        words = [source, "-a", f"{source}:/A[::2]", "--transb", "N"]
    done = run("dgemm_ooc", *words, "--product", "cross-cor", "-o", tmp_path / "C.h5", "--verify", "full", "-v")
    assert done.returncode == 0, done.stderr
    assert "rows of A and columns of B centred and scaled" in done.stdout
    np.testing.assert_allclose(read(tmp_path / "C.h5"), np.corrcoef(x, y)[:30, 30:], atol=1e-13)
    assert dict(h5py.File(tmp_path / "C.h5")["C_mean_b"].attrs)["statistic"] == "means of the columns of B"


@each("kind, words", [("cross-cov", []), ("cross-cor", []), ("plain", ["--center", "cols", "--scale", "cols"])])
def test_it_is_checked_later(tmp_path, kind, words):
    """By the file alone; and what is damaged is found."""
    source = make(tmp_path / "input.h5", far(300, 40).T, far(300, 20).T)
    words = ["--product", kind] if kind != "plain" else ["--transb", "T", *words]
    multiply(source, *words)
    output = output_of(source)
    check = ["--check-only", source] if kind == "plain" else ["--check-only", "-o", output]
    done = run("dgemm_ooc", *check)
    assert done.returncode == 0 and "PASSED" in done.stdout, done.stderr
    for name in ["C", "C_mean"] + (["C_deviation_b"] if kind != "plain" else []):
        with h5py.File(output, "r+") as file:
            old, file[name][...] = file[name][...], file[name][...] * (1 + 2.0**-20)
        assert run("dgemm_ooc", *check).returncode == 5
        with h5py.File(output, "r+") as file:
            file[name][...] = old
    if kind != "plain":
        done = run("dgemm_ooc", *check, source, "--product", "cross-cov" if kind == "cross-cor" else "cross-cor")
        assert done.returncode == 3 and "C was made with --center" in done.stderr, done.stderr


def test_copies_of_one_matrix_are_checked_as_it(tmp_path):
    """Later it may be there twice, by other names."""
    source = make(tmp_path / "input.h5", far(300, 40).T, far(300, 40).T)
    shutil.copy(source, tmp_path / "copy.h5")
    for words in (["--product", "cor"], ["--product", "gram", "--center", "cols"]):
        multiply(source, *words, "--force")
        done = run("dgemm_ooc", "--check-only", "-a", f"{source}:/A", "-b", f"{tmp_path}/copy.h5:/A", "-o", output_of(source))
        assert done.returncode == 0 and "PASSED" in done.stdout, done.stderr


@each("words, change", [
    (["--center", "cols"], lambda a: a - a.mean(0)), (["--center", "rows"], lambda a: a - a.mean(1, keepdims=True)),
    (["--scale", "cols"], lambda a: a / a.std(0, ddof=1)),
    (["--center", "cols", "--scale", "cols"], lambda a: (a - a.mean(0)) / a.std(0, ddof=1)),
    (["--center", "cols", "--nan", "mean"], lambda a: np.nan_to_num(a - np.nanmean(a, 0)))])
@pytest.mark.gpu
@pytest.mark.parametrize("trans", ["N", "T"])
@pytest.mark.parametrize("ranks", [0, 2])
def test_one_matrix_is_centred(tmp_path, device, words, change, trans, ranks):
    """A X of principal components, A^T Y of regressions: B is as it is."""
    rng = np.random.default_rng(4)
    a, b = rng.normal(100, 1, (200, 60)), rng.normal(0, 1, (200 if trans == "T" else 60, 9))
    if "--nan" in words:
        a[::11, ::3] = np.nan
    source = make(tmp_path / "input.h5", a, b)
    report = multiply(source, "--transa", trans, *words, "--verify", "full", ranks=ranks, device=device)
    z = change(a)
    np.testing.assert_allclose(read(output_of(source)), (z.T if trans == "T" else z) @ b, rtol=0, atol=2e-10)
    assert report["full_check"]["verdict"] == "PASSED"
    assert report["statistics"]["bytes"] == a.nbytes
    with h5py.File(output_of(source)) as file:
        assert set(file) == {"C", "C_mean", "C_deviation"}


def test_sums_are_resumed(tmp_path):
    """A run that is killed has saved sums of shifted elements; the next one knows the means."""
    x, y = far(50000, 30).T, far(50000, 20).T
    source = make(tmp_path / "input.h5", x, y, "AB")
    words = [*words_of("cross-cor", "AB"), "--gpu-memory", "300K"]
    reference, _ = result(source, *words)
    with start_late(source, *words, "--checkpoint", "0.02s", late="20") as process:
        wait_until(lambda: saves(source), process)
        process.kill()
        process.communicate()
    report = multiply(source, *words, ranks=2)
    assert "compared_bytes" in report["restart"] and report["statistics"]["bytes"] == x.nbytes + y.nbytes
    assert tuple(read(output_of(source), name).tobytes() for name in NAMES) == reference


@pytest.mark.parametrize("letter", "AB")
def test_a_sample_that_deceives_is_left(tmp_path, letter):
    bad, good = deceived(64000, 32, 1e6).T, far(64000, 20, ratio=2).T
    x, y = (bad, good) if letter == "A" else (good, bad)
    source = make(tmp_path / "input.h5", x, y, "AB")
    done = run("dgemm_ooc", source, *words_of("cross-cov", "AB"), "--verify", "full")
    assert done.returncode == 0 and FAR in done.stderr, done.stdout + done.stderr
    assert_right(output_of(source), "cross-cov", x, y, 2.0**-53)


def test_what_lines_of_b_lack_is_said_of_b(tmp_path):
    x, y = far(300, 40).T, far(300, 20).T
    y[7] = 5
    source = make(tmp_path / "input.h5", x, y, "B")
    done = run("dgemm_ooc", source, *words_of("cross-cor", "B"))
    assert done.returncode == 0 and "column 7 of B, counted from 0, does not vary" in done.stderr
    c = read(output_of(source))
    assert np.isnan(c[:, 7]).all() and np.isfinite(np.delete(c, 7, 1)).all()
    output_of(source).unlink()
    y[4, 9] = np.nan
    source = make(tmp_path / "input.h5", x, y, "B")
    done = run("dgemm_ooc", source, *words_of("cross-cor", "B"))
    assert done.returncode == 3 and "input.h5:B is NaN in row 9, column 4, counted from 0" in done.stderr
    assert not output_of(source).exists()


@each("words, status, text", [
    (["--product", "cov", "-b", "B"], 3, "or give --product cross-cov or cross-cor"),
    (["--product", "cross-cov", "-b", "short"], 3, "op(A) is 40x300, op(B) is 299x20"),
    (["--product", "cross-cor", "--alpha", "2"], 2, "have their own alpha"),
    (["--product", "cross-cor", "--center", "rows"], 2, "leave out --center and --scale"),
    (["--product", "cross-cov", "-a", "ints", "-b", "ints2"], 3, "give --type d"),
    (["--product", "cross-cov", "-a", "z", "-b", "z2"], 3, "are for real matrices"),
    (["--product", "cross-cov", "--symmetric", "lower"], 3, "op(B) is not the transpose of op(A)"),
    (["--product", "cross-cov", "-a", "square", "-b", "square", "--transb", "N"], 3, "give -b the dataset that A is, and either"),
    (["-a", "square", "-b", "square", "--center", "rows"], 3, "give -b the dataset that A is, and either"),
    (["--product", "cross-cov", "--algo", "ozaki"], 2, "give the number of moduli")])
def test_mistakes(tmp_path, words, status, text):
    source = make(tmp_path / "input.h5", far(300, 40).T, far(300, 20).T)
    with h5py.File(source, "r+") as file:
        file["short"], file["square"] = np.ones((20, 299)), np.ones((8, 8))
        file["ints"], file["ints2"] = np.ones((5, 6), "i1"), np.ones((7, 6), "i1")
        file["z"], file["z2"] = np.ones((5, 6), "c16"), np.ones((7, 6), "c16")
    done = run("dgemm_ooc", source, *words)
    assert (done.returncode, text in done.stderr) == (status, True), done.stderr
    assert not output_of(source).exists()


def test_the_plan_says_what_is_read_before(tmp_path):
    source = make(tmp_path / "input.h5", far(300, 40).T, far(300, 20).T, "B")
    before = {}
    for more, crossed in cartesian([[], ["--tile", "16x16x64"]], [False, True]):
        kind = words_of("cross-cov", "B") if crossed else ["--product", "cov"]
        done = run("dgemm_ooc", source, *kind, *more, "--dry-run", "--report", "-")
        assert done.returncode == 0, done.stderr
        before[bool(more), crossed] = json.loads(done.stdout[done.stdout.index("{"):])["predicted"]["before_s"]
    assert before[False, True] == 0 and before[True, True] > 0
