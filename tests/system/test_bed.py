"""Genotypes of PLINK: each element is what the file's two bits say, on all paths that read them."""
import numpy as np
import pytest

from launch import run
from matrices import genotypes, read, write_bed

INPUT = 3


def made(path, *words, out="C.npy", **how):
    done = run("dgemm_ooc", path, *words, "--force", "-o", path.parent / out, **how)
    assert done.returncode == 0, done.stderr
    return np.load(path.parent / out) if out.endswith("npy") else read(path.parent / out)


def filled(g):
    return np.where(np.isnan(g), np.nanmean(g, 0), g)


@pytest.mark.singly
@pytest.mark.parametrize("samples", [52, 53, 54, 55])
@pytest.mark.parametrize("ranks", [0, 3])
def test_kinship(tmp_path, samples, ranks):
    g = genotypes(samples, 611)
    path = write_bed(tmp_path / "g.bed", g)
    z = filled(g)
    z = (z - z.mean(0)) / z.std(0, ddof=1)
    words = ["--product", "gram", "--center", "cols", "--scale", "cols", "--nan", "mean"]
    for tile in [], ["--tile", "17x13x96"]:
        doubles = made(path, *words, "--type", "d", "--verify", "full", *tile, ranks=ranks)
        assert np.allclose(doubles, z @ z.T, atol=1e-10) and doubles.dtype == np.float64
        floats = made(path, *words, *tile, out="C.h5", ranks=ranks)
        assert np.allclose(floats, z @ z.T, rtol=1e-4, atol=1e-3) and floats.dtype == np.float32
    checked = run("dgemm_ooc", "--check-only", "-o", tmp_path / "C.h5")
    assert checked.returncode == 0, checked.stderr


@pytest.mark.parametrize("ranks", [0, 2])
def test_products_with_others(tmp_path, ranks):
    """Scores of samples, sums of variants: sums of small integers, so exact."""
    g, weights = genotypes(75, 40, missing=0), np.random.default_rng(2).integers(-9, 9, (40, 7)).astype("f4")
    path = write_bed(tmp_path / "g.bed", g)
    np.save(tmp_path / "w.npy", weights)
    np.save(tmp_path / "v.npy", np.ascontiguousarray(weights[:, :1].repeat(75, 1).T))
    for tile in [], ["--tile", "7x3x16"]:
        assert np.array_equal(made(path, tmp_path / "w.npy", *tile, ranks=ranks), g @ weights)
        assert np.array_equal(made(path, tmp_path / "v.npy", "--transa", "T", *tile, ranks=ranks),
                              g.T @ weights[:, :1].repeat(75, 1).T)
        assert np.array_equal(made(path, "--product", "gram", "--transa", "T", *tile, ranks=ranks), g.T @ g)


def test_missing_ones(tmp_path):
    g = genotypes(30, 20, missing=0)
    g[7, 5] = np.nan
    path = write_bed(tmp_path / "g.bed", g)
    done = run("dgemm_ooc", path, "--product", "cov", "-o", tmp_path / "C.npy")
    assert done.returncode == INPUT and "NaN in row 7, column 5" in done.stderr and "--nan mean" in done.stderr
    assert np.allclose(made(path, "--product", "cov", "--transa", "T", "--nan", "zero", "--type", "d"), np.cov(np.nan_to_num(g).T))
    assert np.array_equal(np.isnan(made(path, "--product", "gram")), np.isnan(g.sum(1)[:, None] + g.sum(1)))
    info = run("h5mat", "info", path)
    assert "30 x 20 float" in info.stdout and "two bits an element" in info.stdout, info.stdout


def test_one_that_changes_is_noticed(tmp_path):
    path = write_bed(tmp_path / "g.bed", genotypes(30, 20, missing=0))
    made(path, "--product", "gram")
    write_bed(path, genotypes(30, 20, missing=0, seed=2))
    assert run("dgemm_ooc", "--check-only", "-o", tmp_path / "C.npy").returncode == 5


@pytest.mark.parametrize("spoil, says", [
    (lambda path: path.write_bytes(path.read_bytes()[:-1]), "is it truncated"),
    (lambda path: path.write_bytes(path.read_bytes() + b"x"), "is it truncated"),
    (lambda path: path.write_bytes(b"\x6c\x1b\x00" + path.read_bytes()[3:]), "a row a variant"),
    (lambda path: path.write_bytes(b""), "a row a variant"),
    (lambda path: path.with_suffix(".fam").unlink(), "g.fam"),
    (lambda path: path.with_suffix(".bim").unlink(), "g.bim"),
    (lambda path: path.with_suffix(".bim").write_text(""), "no variant"),
    (lambda path: path.with_suffix(".fam").write_text("one\n"), "20 variants of 1 samples")])
def test_what_cannot_be_read_is_refused(tmp_path, spoil, says):
    path = write_bed(tmp_path / "g.bed", genotypes(30, 20))
    spoil(path)
    done = run("dgemm_ooc", path, "--product", "gram", "-o", tmp_path / "C.h5")
    assert done.returncode == INPUT and says in done.stderr and not (tmp_path / "C.h5").exists(), done.stderr


def test_blank_lines_are_no_samples(tmp_path):
    g = genotypes(30, 20, missing=0)
    path = write_bed(tmp_path / "g.bed", g)
    for suffix, more in (".fam", "\n  \n\n"), (".bim", "\n\n"):
        path.with_suffix(suffix).write_text(path.with_suffix(suffix).read_text() + more)
    assert np.array_equal(made(path, "--product", "gram"), g @ g.T)


def test_no_part_of_it_is_taken(tmp_path):
    path = write_bed(tmp_path / "g.bed", genotypes(30, 20))
    done = run("dgemm_ooc", "-a", f"{path}[0:3]", "-b", f"{path}[0:3]", "--transb", "T", "-o", tmp_path / "C.h5")
    assert done.returncode == INPUT and "no part is read" in done.stderr, done.stderr


def test_it_is_not_written(tmp_path):
    path = write_bed(tmp_path / "g.bed", genotypes(30, 20))
    done = run("dgemm_ooc", path, "--product", "gram", "-o", tmp_path / "C.bed")
    assert done.returncode == 2 and "name it" in done.stderr and "C.h5" in done.stderr, done.stderr
    done = run("dgemm_ooc", path, "--product", "gram", "--transa", "T", "--nan", "zero", "--center", "rows")
    assert done.returncode == 0 and (tmp_path / "g-C.h5").exists(), done.stderr
