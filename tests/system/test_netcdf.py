"""netCDF attributes for packed and missing elements are not ignored: such operands are refused, with the
attributes and a remedy, and h5mat reports them; attribute values without effect are accepted."""
import h5py
import numpy as np

from cases import each
from launch import run
from matrices import multiply, output_of, read, whole, write
from test_bad_input import assert_refused

A, B = whole((20, 30), seed=1), whole((30, 10), seed=2)
DEFAULT = 9.9692099683868690e36


def with_attributes(path, dtype="f8", **attributes):
    write(path, A=A.astype(dtype), B=B)
    with h5py.File(path, "a") as file:
        for name, value in attributes.items():
            file["A"].attrs.create(name, value)
    return path


def info_of(source):
    done = run("h5mat", "info", source)
    assert done.returncode == 0, done.stderr
    return done.stdout


REFUSED = [
    ({"scale_factor": 0.5}, "scale_factor = 0.5", "packs"),
    ({"add_offset": np.float32(273.15)}, "add_offset = 273.149994", "packs"),
    ({"_FillValue": -999.0}, "_FillValue = -999", "marks"),
    ({"_FillValue": 0.0}, "_FillValue = 0", "marks"),
    ({"missing_value": np.array([1e20])}, "missing_value = 1e+20", "marks"),
    ({"missing_value": np.inf}, "missing_value = inf", "marks"),
    ({"_FillValue": np.int16(-32768), "scale_factor": 2, "add_offset": np.uint8(3)},
     "scale_factor = 2, add_offset = 3, _FillValue = -32768", "packs"),
    ({"scale_factor": 1.0, "add_offset": 0, "_FillValue": np.nan, "missing_value": -1},
     "missing_value = -1,", "marks"),
    ({"scale_factor": "0.5"}, "scale_factor (not one number)", "packs"),
    ({"scale_factor": np.array([1.0, 1.0])}, "scale_factor (not one number)", "packs"),
    ({"missing_value": np.zeros((400,))}, "missing_value (not one number)", "marks"),
    ({"_FillValue": np.array((1, 2), "i4,i4")}, "_FillValue (not one number)", "marks"),
    ({"_FillValue": h5py.Empty("f8")}, "_FillValue (not one number)", "marks"),
]


@each("attributes, words, does", REFUSED)
def test_packed_and_missing(tmp_path, attributes, words, does):
    source = with_attributes(tmp_path / "input.h5", **attributes)
    said = assert_refused(tmp_path, source, says=[f"input.h5:A has {words}", f"by which netCDF {does}", "xarray"])
    assert ("delete the attribute" in said) == (does == "marks")
    assert f"netCDF: {words.rstrip(',')};" in info_of(source)
    assert run("h5mat", "diff", f"{source}:/A", f"{source}:/A").returncode == 0  # compared as stored


def test_a_number_of_very_many_bytes(tmp_path):
    source = with_attributes(tmp_path / "input.h5")
    kind = h5py.h5t.IEEE_F64LE.copy()
    kind.set_size(60000)
    with h5py.File(source, "a", libver="latest") as file:
        h5py.h5a.create(file["A"].id, b"scale_factor", kind, h5py.h5s.create(h5py.h5s.SCALAR))
    assert_refused(tmp_path, source, says=["scale_factor (not one number)"])


@each("attributes", [
    {"scale_factor": 1.0, "add_offset": 0.0}, {"scale_factor": np.int8(1), "add_offset": np.float32(0)},
    {"_FillValue": np.nan}, {"missing_value": np.float32(np.nan), "_FillValue": np.array([np.nan])},
    {"units": "K", "scale": 3.0, "fill_value": 7}])
def test_what_says_nothing(tmp_path, attributes):
    source = with_attributes(tmp_path / "input.h5", **attributes)
    multiply(source)
    np.testing.assert_array_equal(read(output_of(source)), A @ B)
    assert "netCDF" not in info_of(source)


def test_every_operand_that_is_read(tmp_path):
    source = write(tmp_path / "input.h5", A=A, B=B, C=whole((20, 10)))
    with h5py.File(source, "a") as file:
        for name in "BC":
            file[name].attrs["add_offset"] = 1.5
    assert_refused(tmp_path, source, "--beta", "1", says=["input.h5:B has", "input.h5:C has"], complaints=2)
    assert_refused(tmp_path, source, says=["input.h5:B has"])
    multiply(source, "--alpha", "0")
    assert not read(output_of(source)).any()


def test_packed_integers_are_not_advised_to_be_converted(tmp_path):
    source = with_attributes(tmp_path / "input.h5", "i2", scale_factor=0.5)
    said = assert_refused(tmp_path, source, says=["scale_factor = 0.5"])
    assert "--type" not in said
    assert_refused(tmp_path, source, "--type", "d", says=["scale_factor = 0.5"])


FILLS = {"f8": DEFAULT, "f4": DEFAULT, "i2": -32767, "u2": 65535, "i4": -2147483647, "u4": 4294967295,
         "i8": -9223372036854775806, "u8": 18446744073709551614}


def filled(path, dtype, fill, marks=("_NCProperties",)):
    """A netCDF-4 variable: its fill value is in the dataset's properties."""
    with h5py.File(path, "w") as file:
        file["B"] = B
        file.create_dataset("A", data=np.abs(A).astype(dtype), fillvalue=fill)
        for mark in marks:
            (file if mark == "_NCProperties" else file["A"]).attrs[mark] = 1
    return path


@each("dtype, mark", [*((dtype, "_NCProperties") for dtype in FILLS), ("f8", "_Netcdf4Dimid"),
                      ("f4", "DIMENSION_LIST")])
def test_elements_that_are_missing_by_default_are_noted(tmp_path, dtype, mark):
    source = filled(tmp_path / "input.h5", dtype, FILLS[dtype], [mark])
    words = f"elements equal to {float(FILLS[dtype]):.10g} are missing"
    assert f"netCDF: {words}" in info_of(source)
    done = run("dgemm_ooc", source, "--type", "d")
    assert done.returncode == 0 and f"{words} values of netCDF, multiplied as numbers" in done.stdout
    assert done.stdout.count("netCDF") == 1


def of_r(path, dtype, mark):
    with h5py.File(path, "w") as file:
        file["A"], file["B"] = np.abs(A).astype(dtype), B
        file["A"].attrs["rhdf5-NA.OK"] = mark
    return path


def test_what_r_takes_for_missing_is_noted(tmp_path):
    """It was multiplied, and nothing was said."""
    source, words = of_r(tmp_path / "input.h5", "i4", np.int32(1)), "elements equal to -2147483648 are missing"
    assert f"R: {words}" in info_of(source)
    done = run("dgemm_ooc", source, "--type", "d")
    assert done.returncode == 0 and f"{words} values of R, multiplied as numbers" in done.stdout


@each("dtype, mark", [("i4", 0), ("i4", "no number"), ("f8", 1), ("u4", 1), ("i2", 1)])
def test_other_numbers_of_r_are_not(tmp_path, dtype, mark):
    assert "missing" not in info_of(of_r(tmp_path / "input.h5", dtype, mark))


@each("how", [("f8", DEFAULT, []), ("f8", 0), ("f8", 1e20), ("i1", -127), ("i4", -2147483648)])
def test_other_fill_values_are_not(tmp_path, how):
    source = filled(tmp_path / "input.h5", *how)
    assert "netCDF" not in info_of(source)
