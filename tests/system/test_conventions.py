"""What other programs write into HDF5 files: it is read as they mean it, or refused in a sentence that names it and
says what to do; h5mat info says the same as the run."""
import h5py
import numpy as np
import pytest

from cases import each
from launch import ROOT, run
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


@each("layout", [contiguous, chunked, filtered, one_chunk, resizable, compact, virtual,
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
    assert_refused(tmp_path, write(source, B=B), "-o", tmp_path / "other.h5", says=["int8 elements", "--type d"])


@pytest.mark.parametrize("kind", [enumeration(TRUE=1, FALSE=0), enumeration(false=0, true=1),
                                  enumeration(h5py.h5t.STD_U8LE, FALSE=0, TRUE=1)])
def test_booleans_of_others(tmp_path, kind):
    source = typed(tmp_path / "input.h5", kind)
    multiply(source, "--type", "d")
    np.testing.assert_array_equal(read(output_of(source)), TRUTH @ B)


@each("kind, words", [
    (enumeration(RED=0, GREEN=1), "holds an enumeration (RED, GREEN), not numbers; store it as numbers"),
    (enumeration(FALSE=1, TRUE=0), "holds an enumeration (FALSE, TRUE)"),
    (enumeration(FALSE=0, TRUE=1, NA=2), "holds an enumeration (FALSE, TRUE, NA)"),  # R
    (enumeration(**{"x" * 3000: 0, "y" * 3000: 1}), f"holds an enumeration ({'x' * 40}, {'y' * 40}), not"),
    (enumeration(**{f"M{i}": i for i in range(9)}), "holds an enumeration (M0, M1, M2, M3, M4, ...), not numbers"),
    (h5py.h5t.STD_B8LE.copy(), "holds bit fields, as which Julia and PyTables store booleans"),
])
def test_enumerations_and_bit_fields(tmp_path, kind, words):
    source = typed(tmp_path / "input.h5", kind)
    refused(tmp_path, source, [f'dataset "A" {words}', "as numbers, in"], "--type", "d")
    assert words in info_of(source)


# Tables.

@pytest.mark.parametrize("shape", [(), (50,), (20, 40)])
def test_tables(tmp_path, shape):
    """As PyTables and R's data frames are; one of one dimension was said to lack another."""
    source = write(tmp_path / "input.h5", A=np.zeros(shape, [("x", "f8"), ("time", "i8"), ("z", "f4")]), B=B)
    refused(tmp_path, source, ['dataset "A" holds a table (x, time, z), not a matrix', "structured_to_unstructured(a)"])
    write(source, text=np.full(shape, b"word"))
    assert_refused(tmp_path, source, "-a", "text", says=['dataset "text" holds strings, not numbers'])


# Groups that stand for matrices.

def group(attributes, *members):
    def make(path):
        write(path, B=B)
        with h5py.File(path, "a") as file:
            for member in members:
                file[f"A/{member}"] = np.arange(5)
            file.require_group("A").attrs.update(attributes)
        return path
    return make


SPARSE = ("data", "indices", "indptr")
GROUPS = {
    "AnnData": (group({"encoding-type": "csr_matrix", "shape": [20, 40]}, *SPARSE), "a sparse matrix; only dense"),
    "AnnData, before": (group({"h5sparse_format": "csc"}, *SPARSE), "a sparse matrix; only dense"),
    "10x Genomics": (group({}, *SPARSE, "shape", "barcodes", "features/id"), "a sparse matrix; only dense"),
    "MATLAB": (group({"MATLAB_sparse": np.uint64(20)}, "data", "ir", "jc"), "a sparse matrix of MATLAB; only dense"),
    "MATLAB, all 0": (group({"MATLAB_sparse": np.uint64(20)}, "jc"), "a sparse matrix of MATLAB; only dense"),
    "pandas": (group({"pandas_type": "frame", "pandas_version": "0.15.2"}, "axis0", "axis1"),
               "a data frame of pandas; store its numbers with h5py"),
}


@each("what", GROUPS)
def test_groups_that_stand_for_a_matrix(tmp_path, what):
    """They were groups without a two-dimensional dataset, which left the user alone."""
    make, words = GROUPS[what]
    source = make(tmp_path / "input.h5")
    refused(tmp_path, source, [f'"A" is a group, which holds {words}'])
    assert f'/A\n  read:   not at all: {source}: "/A" is a group, which holds {words}' in info_of(source)
    assert_refused(tmp_path, source, "-a", "X", says=[f'no dataset "X"; datasets here: /A (a group, which holds {words.split(";")[0]}), /B'])


def test_other_groups(tmp_path):
    source = group({"pandas_type": "frame"}, "indices")(tmp_path / "input.h5")
    refused(tmp_path, source, ['"A" is a group, not a dataset; give the path of one; there is no two-dimensional'])
    write(source, **{"A/deep/inside": whole((20, 40))})
    refused(tmp_path, source, ['"A" is a group, not a dataset; give the path of one; datasets in it: /A/deep/inside (f64 20x40)'])
    multiply(source, "-a", "A/deep/inside")


def test_sparse_matrices_are_made_dense_as_the_manual_shows(tmp_path):
    manual = (ROOT / "jobs/packages/man/dgemm_ooc.1").read_text()
    lines = manual.split(".SS Sparse matrices")[1].split(".nf\n")[1].split(".fi\n")[0].replace("\\-", "-")
    a = np.where(TRUTH, whole(TRUTH.shape, "f4"), 0)
    rows, cols = np.nonzero(a)
    with h5py.File(tmp_path / "sparse.h5", "w") as f, h5py.File(tmp_path / "input.h5", "w") as g:
        f["X/data"], f["X/indices"] = a[rows, cols], cols
        f["X/indptr"] = np.concatenate([[0], np.cumsum(np.count_nonzero(a, axis=1))])
        exec(lines.replace("2000", "40"), {"f": f, "g": g, "np": np})
        g["B"] = B.astype("f4")
    multiply(tmp_path / "input.h5")
    np.testing.assert_array_equal(read(tmp_path / "input-C.h5"), a @ B)


# MATLAB.

def of_matlab(path, matrix, kind, **attributes):
    write(path, A=matrix, B=B)
    with h5py.File(path, "a") as file:
        file["A"].attrs["MATLAB_class"] = np.bytes_(kind)
        file["A"].attrs.update(attributes)
    return path


@each("dtype, kind", [("f8", "double"), ("f4", "single"), ("u1", "logical"), ("i2", "int16"),
                      ("u8", "uint64")])
def test_numbers_of_matlab(tmp_path, dtype, kind):
    a = np.abs(whole((20, 40))).astype(dtype)
    source = of_matlab(tmp_path / "input.h5", a, kind, MATLAB_int_decode=np.int32(1))
    multiply(source, "--type", "d")
    np.testing.assert_array_equal(read(output_of(source)), a @ B)
    assert "MATLAB: shows the transpose" in info_of(source)
    done = run("dgemm_ooc", source, "--type", "d", "--force")
    assert done.returncode == 0 and done.stdout.count("MATLAB shows its transpose\n") == 1


@each("dtype, kind", [("u2", "char"), ("u4", "string"), ("u4", "table"), ("f8", "x" * 5000)])
def test_what_matlab_stores_as_other_numbers(tmp_path, dtype, kind):
    """They were multiplied."""
    source = of_matlab(tmp_path / "input.h5", np.abs(whole((20, 40))).astype(dtype), kind)
    refused(tmp_path, source, [f'dataset "A" is of MATLAB\'s class {kind[:40]}, which', "double(A)"], "--type", "d")


def test_an_empty_matrix_of_matlab(tmp_path):
    source = of_matlab(tmp_path / "input.h5", np.array([0, 40], "u8"), "double", MATLAB_empty=np.uint8(1))
    refused(tmp_path, source, ['dataset "A" is an empty matrix of MATLAB'])


def test_a_cell_array_of_matlab(tmp_path):
    source = write(tmp_path / "input.h5", B=B)
    with h5py.File(source, "a") as file:
        file["A"] = np.full((20, 40), file["B"].ref, h5py.ref_dtype)
    refused(tmp_path, source, ["references to other datasets, as a cell array of MATLAB does", "cell2mat(A)"])


def test_shapes_that_fit_as_column_major_languages_see_them(tmp_path):
    source = write(tmp_path / "input.h5", A=whole((40, 20)), B=whole((10, 40)))
    assert_refused(tmp_path, source, says=["--transa T --transb T would fit, or A and B exchanged, which gives the C of"])
    multiply(source, "-a", "B", "-b", "A")


# netCDF's attributes in another spelling.

@each("attributes, words", [
    ({"ScaleFactor": 0.5, "Offset": 1.0}, "ScaleFactor = 0.5"), ({"SCALE_FACTOR": 2}, "SCALE_FACTOR = 2"),
    ({"MissingValue": -9.0, "FillValue": -9}, "FillValue = -9, MissingValue = -9"), ({"AddOffset": "3"}, "AddOffset (not one"),
    ({"CodeMissingValue": "-9999.9"}, "CodeMissingValue (not one number)"), ({"fill_value": 7}, "fill_value = 7")])
def test_names_in_another_spelling_are_noted(tmp_path, attributes, words):
    """Nothing was said."""
    source = write(tmp_path / "input.h5", A=whole((20, 40)), B=B)
    with h5py.File(source, "a") as file:
        file["A"].attrs.update(attributes)
    done = run("dgemm_ooc", source)
    assert done.returncode == 0 and f"  its {words}" in done.stdout and done.stdout.count("is not looked at") == 1
    assert f"stored: its {words}" in info_of(source)


@each("attributes", [{"ScaleFactor": 1.0}, {"AddOffset": 0}, {"FillValue": np.nan}, {"scale": 3},
                     {"scale_factors": 3}, {"f" * 5000: 1}])
def test_names_that_say_nothing_are_not(tmp_path, attributes):
    source = write(tmp_path / "input.h5", A=whole((20, 40)), B=B)
    with h5py.File(source, "a") as file:
        file["A"].attrs.update(attributes)
    assert "not looked at" not in run("dgemm_ooc", source).stdout + info_of(source)


@pytest.mark.parametrize("options, b", [(["-b", "A", "--transb", "T", "--type", "d"], ""),
                                        (["--type", "d"], ". B: integers beyond 2^53 are rounded")])
def test_a_plain_run_notes_what_may_not_be_expected(tmp_path, options, b):
    """As the plan of a verbose one does; of one matrix once."""
    source = write(tmp_path / "input.h5", A=whole((20, 40), "i4"), B=whole((40, 10), "i8"))
    with h5py.File(source, "a") as file:
        file["A"].attrs.update({"rhdf5-NA.OK": 1, "ScaleFactor": 2.0, "MATLAB_class": np.bytes_("int32")})
    done = run("dgemm_ooc", source, *options, DGEMM_OOC_VERBOSE="no")
    notes = ("Note A: elements equal to -2147483648 are missing values of R, multiplied as numbers; its ScaleFactor = 2 "
             f"is not looked at: elements are multiplied as stored; MATLAB shows its transpose{b} Plan ")
    assert done.returncode == 0 and notes in " ".join(done.stdout.split())
    assert "Note" not in run("dgemm_ooc", source, *options, "-q", "--force", DGEMM_OOC_VERBOSE="no").stdout


# netCDF's integers of the other sign.

@each("dtype, value", [("i1", "true"), ("i2", np.bytes_("True")), (">i4", "true"), ("i8", "TRUE"),
                       ("u1", "false")])
def test_integers_of_another_sign_than_their_type(tmp_path, dtype, value):
    """200 was multiplied as -56."""
    source = write(tmp_path / "input.h5", A=np.abs(whole((20, 40))).astype(dtype), B=B)
    with h5py.File(source, "a") as file:
        file["A"].attrs["_Unsigned"] = value
        file["A"].attrs["add_offset"] = 3
    word = value if isinstance(value, str) else value.decode()
    for options in [], ["--type", "d"]:
        said = assert_refused(tmp_path, source, *options, says=[
            f"input.h5:A has add_offset = 3, _Unsigned = {word}, by which netCDF packs elements", "xarray"])
    assert f"netCDF: add_offset = 3, _Unsigned = {word};" in info_of(source)
    assert "delete the attribute" not in said


@each("dtype, value", [("i1", "false"), ("u1", "true"), ("f8", "true"), ("i1", ""), ("i2", 1)])
def test_a_sign_that_is_that_of_the_type(tmp_path, dtype, value):
    source = write(tmp_path / "input.h5", A=np.abs(whole((20, 40))).astype(dtype), B=B)
    with h5py.File(source, "a") as file:
        file["A"].attrs["_Unsigned"] = value
    multiply(source, "--type", "d")
    assert "netCDF" not in info_of(source)
