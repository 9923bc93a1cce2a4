"""What other programs write into HDF5 files: it is read as they mean it, or refused in a sentence that names it and
says what to do; h5mat info says the same as the run."""
import h5py
import numpy as np
import pytest

from launch import run
from matrices import multiply, output_of, read, whole, write
from test_bad_input import assert_refused
from test_layouts import (chunked, compact, contiguous, external_link, external_storage, filtered, one_chunk, resizable,
                          virtual)

B = whole((40, 10), seed=2)
TRUTH = np.random.default_rng(1).random((20, 40)) < 0.5


def info_of(name):
    done = run("h5mat", "info", name)
    assert done.returncode == 0, done.stderr
    return done.stdout


def refused(folder, source, words, *options):
    """By the run and by h5mat info, with the same sentence."""
    said = assert_refused(folder, source, *options, says=words)
    done = run("h5mat", "info", f"{source}:/A")
    assert done.returncode == 3 and done.stderr.split(": ", 1)[1] == said.split(": ", 1)[1].replace(
        'dataset "A"', 'dataset "/A"').replace(': "A" is', ': "/A" is')
    return said


# Booleans.

def typed(path, kind, name="A"):
    """TRUTH with a type of the HDF5 library that NumPy has no dtype for."""
    write(path, B=B)
    with h5py.File(path, "a") as file:
        data = h5py.h5d.create(file.id, name.encode(), kind, h5py.h5s.create_simple(TRUTH.shape))
        memory = h5py.h5t.NATIVE_B8 if isinstance(kind, h5py.h5t.TypeBitfieldID) else kind
        data.write(h5py.h5s.ALL, h5py.h5s.ALL, TRUTH.astype("u1"), memory)
    return path


def enumeration(base=h5py.h5t.STD_I8LE, **members):
    kind = h5py.h5t.enum_create(base)
    for name, value in members.items():
        kind.enum_insert(name.encode(), value)
    return kind


@pytest.mark.parametrize("layout", [contiguous, chunked, filtered, one_chunk, resizable, compact, virtual,
                                    external_storage, external_link])
def test_booleans_of_h5py_are_integers(tmp_path, layout):
    """They were refused.  The product is exact, and not NumPy's "or"."""
    source = tmp_path / "input.h5"
    with h5py.File(source, "w") as file:
        layout(file, "A", TRUTH)
        file["B"], file["D"] = whole((40, 10), "i2"), B
    multiply(source)
    exact = read(output_of(source))
    assert exact.dtype == np.int64
    np.testing.assert_array_equal(exact, TRUTH.astype("i8") @ whole((40, 10), "i2"))
    multiply(source, "-b", "D", "--type", "d", "--force")
    np.testing.assert_array_equal(read(output_of(source)), TRUTH @ B)
    assert "20 x 40 integer, 800 bytes" in info_of(source) and "boolean i8" in info_of(source)


def test_booleans_that_were_never_written(tmp_path):
    source = write(tmp_path / "input.h5", B=whole((40, 10), "i2"))
    with h5py.File(source, "a") as file:
        file.create_dataset("A", (20, 40), "?", chunks=(8, 8), fillvalue=True)
    for way in "auto", "hdf5":
        multiply(source, "--io", way, "--force")
        np.testing.assert_array_equal(read(output_of(source)), np.ones((20, 40), "i8") @ whole((40, 10), "i2"))


def test_a_boolean_of_every_two_datasets(tmp_path):
    """An adjacency matrix: how many neighbours two have in common."""
    source = write(tmp_path / "input.h5", A=TRUTH)
    multiply(source, "--product", "gram")
    np.testing.assert_array_equal(read(output_of(source)), TRUTH.astype("i8") @ TRUTH.T)
    assert_refused(tmp_path, write(source, B=B), "-o", tmp_path / "other.h5", says=["integer", "--type d"])


@pytest.mark.parametrize("kind", [enumeration(TRUE=1, FALSE=0), enumeration(false=0, true=1),
                                  enumeration(h5py.h5t.STD_U8LE, FALSE=0, TRUE=1)])
def test_booleans_of_others(tmp_path, kind):
    source = typed(tmp_path / "input.h5", kind)
    multiply(source, "--type", "d")
    np.testing.assert_array_equal(read(output_of(source)), TRUTH @ B)


@pytest.mark.parametrize("kind, words", [
    (enumeration(RED=0, GREEN=1), "holds an enumeration (RED, GREEN), not numbers; store it as numbers"),
    (enumeration(FALSE=1, TRUE=0), "holds an enumeration (FALSE, TRUE)"),
    (enumeration(FALSE=0, TRUE=1, NA=2), "holds an enumeration (FALSE, TRUE, NA)"),  # R
    (enumeration(**{"x" * 3000: 0, "y" * 3000: 1}), f"holds an enumeration ({'x' * 40}, {'y' * 40}), not"),
    (enumeration(**{f"M{i}": i for i in range(9)}), "holds an enumeration (M0, M1, M2, M3, M4, ...), not numbers"),
    (h5py.h5t.STD_B8LE.copy(), "holds bit fields, as which Julia and PyTables store booleans"),
], ids=range(6))
def test_enumerations_and_bit_fields(tmp_path, kind, words):
    source = typed(tmp_path / "input.h5", kind)
    refused(tmp_path, source, [f'dataset "A" {words}', "as numbers, in"], "--type", "d")
    assert words in info_of(source)
