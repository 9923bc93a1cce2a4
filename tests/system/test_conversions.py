"""Elements that --type converts while they are read: rounded as NumPy's astype rounds them, and refused where a finite
one is too large for the type, which HDF5 and NumPy make infinite."""
import h5py
import numpy as np
import pytest

from cases import each
from launch import run
from matrices import multiply, output_of, random, read, write
from test_bad_input import assert_refused
from test_layouts import (chunked, chunked_big_endian, compact, contiguous, big_endian, external_storage, filtered, one_chunk,
                          row_chunks, virtual)

A, B = random((61, 83)), random((83, 47))
NOT_CHECKED = 6
LAYOUTS = [contiguous, chunked, filtered, row_chunks, one_chunk, chunked_big_endian, big_endian, compact, virtual,
           external_storage]
WHERE = [(60, 82), (33, 50)]


def make(path, a, b, layout=contiguous):
    with h5py.File(path, "w") as file:
        layout(file, "A", a)
        layout(file, "B", b)
    return path


def with_one(matrix, where, value):
    matrix = matrix.copy()
    matrix[where] = value
    return matrix


@each("way", ["auto", "hdf5"])
@each("layout", LAYOUTS)
def test_a_double_that_is_too_large_for_a_float(tmp_path, layout, way):
    """It was infinite, and the report said that C was so "as A and B make it"."""
    for i, where in enumerate(WHERE):
        source = make(tmp_path / f"{i}.h5", with_one(A, where, -1e300), B, layout)
        assert_refused(tmp_path, source, "--type", "s", "--io", way, says=[
            f"{i}.h5:A has an element that is too large for a float, at row {where[0]}, column {where[1]} (from 0); "
            "give --type d"])


@each("layout", LAYOUTS)
def test_what_was_infinite_stays_so(tmp_path, layout):
    a = with_one(with_one(A, (1, 2), -np.inf), (3, 4), np.nan)
    for way in "auto", "hdf5":
        source = make(tmp_path / "input.h5", a, B, layout)
        multiply(source, "--type", "s", "--io", way, "--force")
        c = read(output_of(source))
        assert np.isinf(c[1]).all() and np.isnan(c[3]).all() and np.isfinite(np.delete(c, [1, 3], 0)).all()


@each("part", [1e39, 1e39j])
@each("layout", [contiguous, chunked, one_chunk])
def test_a_part_of_a_complex_number(tmp_path, layout, part):
    source = make(tmp_path / "input.h5", with_one(A + 1j * A, (40, 9), part), B + 0j, layout)
    for way in "auto", "hdf5":
        assert_refused(tmp_path, source, "--type", "c", "--io", way,
                       says=["input.h5:A has an element that is too large for a float, at row 40, column 9 (from 0); "
                             "give --type z"])
    multiply(source, "--type", "z")


@pytest.mark.skipif(np.finfo(np.longdouble).max <= np.finfo("f8").max, reason="long doubles are doubles here")
def test_a_long_double(tmp_path):
    large = A.astype(np.longdouble)
    large[7, 8] = np.longdouble(10) ** 400
    source = make(tmp_path / "input.h5", large, B)
    for name, word in ("d", "double"), ("s", "float"):
        assert_refused(tmp_path, source, "--type", name, says=[f"too large for a {word}, at row 7, column 8"])
    large[7, 8] = np.inf
    multiply(make(tmp_path / "infinite.h5", large, B), "--type", "d")
    assert np.isinf(read(tmp_path / "infinite-C.h5")[7]).all()


@each("how", [{}, {"chunks": (16, 7)}, {"chunks": (16, 7), "compression": "gzip"}])
@each("written", [0, 10])
def test_a_fill_value(tmp_path, how, written):
    source = write(tmp_path / "input.h5", B=B)
    with h5py.File(source, "a") as file:
        data = file.create_dataset("A", A.shape, "f8", fillvalue=1e300, **how)
        if written:
            data[:written] = 1.0
    for way in "auto", "hdf5":
        assert_refused(tmp_path, source, "--type", "s", "--io", way, says=["input.h5:A has an element that is too large"])
    with h5py.File(source, "a") as file:
        file["A"][:] = A
    multiply(source, "--type", "s")
    np.testing.assert_allclose(read(output_of(source)), A @ B, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("options", [["--product", "cov"], ["--product", "gram", "--nan", "zero", "--center", "cols"]])
def test_before_means_are_taken(tmp_path, options):
    """A row with it "has infinite elements" was said of its mean."""
    source = write(tmp_path / "input.h5", A=with_one(A, (2, 3), 1e300))
    assert_refused(tmp_path, source, *options, "--type", "s", says=["A has an element that is too large for a float"])


def test_an_added_c(tmp_path):
    source = write(tmp_path / "input.h5", A=A, B=B, C=with_one(A @ B, (9, 5), 1e300))
    assert_refused(tmp_path, source, "--beta", 1, "--type", "s", says=["C has an element that is too large for a float, at row 9"])


@pytest.mark.parametrize("layout", [contiguous, one_chunk])
def test_elements_are_rounded_as_numpy_rounds_them(tmp_path, layout):
    """Also to subnormal floats, to 0, and to the largest float."""
    a = random((20, 1)) * 10.0 ** np.linspace(-60, 30, 20)[:, None]
    a[-1] = np.finfo("f4").max
    source = make(tmp_path / "input.h5", a, np.ones((1, 3)), layout)
    assert run("dgemm_ooc", source, "--type", "s").returncode in (0, NOT_CHECKED)
    np.testing.assert_array_equal(read(output_of(source)), np.repeat(a.astype("f4"), 3, axis=1))


@each("dtype, name, limit", [("i8", "d", "2^53"), ("u8", "d", "2^53"), ("i8", "s", "2^24"),
                             ("i4", "s", "2^24"), ("i4", "d", None), ("i2", "s", None)])
def test_integers_that_are_rounded(tmp_path, dtype, name, limit):
    a = np.iinfo(dtype).max - np.arange(20, dtype=dtype).reshape(20, 1)
    source = write(tmp_path / "input.h5", A=a, B=np.ones((1, 3)))
    done = run("dgemm_ooc", source, "--type", name)
    assert done.returncode == 0, done.stderr
    assert (f"            integers beyond {limit} are rounded\n" in done.stdout) == bool(limit)
    assert done.stdout.count("are rounded") == bool(limit)
    to = "f8" if name == "d" else "f4"
    np.testing.assert_array_equal(read(output_of(source)), np.repeat(a.astype(to), 3, axis=1))
