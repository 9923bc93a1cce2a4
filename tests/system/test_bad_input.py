"""Invalid input is refused before any work: all errors are reported once, in one sentence each; no file is left
behind and the inputs are unchanged."""
import fcntl
import itertools
import os
import re
import shutil
import struct
import subprocess
import zlib

import h5py
import numpy as np
import pytest

from cases import each
from launch import BROKEN, BUILD, PATIENCE, RANK, SRUN, environment, run
from matrices import (digest, multiply, operands, output_of, random, read, snapshot, sparse, whole,
                      write)

USAGE, INPUT, RESOURCES = 2, 3, 4


@pytest.fixture
def source(tmp_path):
    """A valid input of 20 x 30 times 30 x 10."""
    operands(tmp_path / "input.h5", 20, 10, 30, kind=whole)
    return tmp_path / "input.h5"


def assert_refused(folder, *args, code=INPUT, says=(), complaints=1, **how):
    """Run and expect a refusal that contains `says`.  Returns its text."""
    before = snapshot(folder)
    done = run("dgemm_ooc", *args, **how)
    assert done.returncode == code, done.stdout + done.stderr
    assert "RESULT" not in done.stdout
    assert snapshot(folder) == before
    spoken = [line for line in done.stderr.splitlines() if line.startswith("dgemm_ooc: ")]
    assert len(spoken) == complaints, done.stderr
    if not how.get("ranks"):  # mpirun adds its own text
        assert done.stderr.splitlines() == spoken
    without_folder = done.stderr.replace(str(folder), "")  # it bears the test's name, whose words prove nothing
    for words in says:
        assert words in (done.stderr if str(folder) in words else without_folder)
    return done.stderr


# The contents of the files.

def not_hdf5(path):
    path.write_bytes(b"A matrix, honestly" * 100)


def truncated(path):
    write(path, A=random((20, 30)), B=random((30, 1000)))
    os.truncate(path, path.stat().st_size - 10_000)


def cut_behind_the_back_of_hdf5(path):
    """Truncate a file whose recorded end of file matches the truncated length."""
    truncated(path)
    hide_the_cut(path)


def hide_the_cut(path):
    with open(path, "r+b") as file:  # in superblock version 0 the end of file is at byte 40
        file.seek(40)
        file.write(path.stat().st_size.to_bytes(8, "little"))


def content(a, b=None):
    b = whole((30, 10)) if b is None else b
    return lambda path: write(path, A=a, B=b)


def null(path):
    with h5py.File(path, "w") as file:
        file["A"], file["B"] = h5py.Empty("f8"), whole((30, 10))


def missing_plugin(path):
    with h5py.File(path, "w") as file:
        file.create_dataset("A", data=random((20, 30)), compression="lzf")
        file["B"] = whole((30, 10))


def damaged_chunk(path):
    write(path, A=whole((20, 30)))
    with h5py.File(path, "a") as file:
        data = file.create_dataset("B", data=random((30, 10)), chunks=(7, 4), compression="gzip")
        at = data.id.get_chunk_info_by_coord((14, 4)).byte_offset
    with open(path, "r+b") as file:
        file.seek(at + 50)
        file.write(b"damaged?" * 4)


def chunks_cut_behind_the_back_of_hdf5(path):
    with h5py.File(path, "w") as file:
        file["A"] = whole((20, 30))
        file.create_dataset("B", data=whole((30, 1000)), chunks=(30, 1000), shuffle=True)
    os.truncate(path, path.stat().st_size - 10_000)
    hide_the_cut(path)


def group(path):
    with h5py.File(path, "w") as file:
        file["A/within"], file["B"] = whole((20, 30)), whole((30, 10))


def newer(path):
    """A file of a future library: its layout message has a version above all known ones."""
    write(path, A=whole((20, 30)), B=whole((30, 10)))
    layouts = list(re.finditer(rb"\x08\x00\x18\x00....\x03\x01", path.read_bytes(), re.DOTALL))
    with open(path, "r+b") as file:
        file.seek(layouts[-1].start() + 8)
        file.write(b"\x09")


def dangling(path):
    with h5py.File(path, "w") as file:
        file["A"], file["B"] = h5py.ExternalLink("nowhere.h5", "A"), whole((30, 10))


BAD_FILES = {
    "missing": (lambda path: None, ["input.h5: no such file"]),
    "folder": (lambda path: path.mkdir(), ["is a directory"]),
    "pipe": (os.mkfifo, ["pipe"]),
    "empty": (lambda path: path.touch(), ["is not an HDF5 file", "empty"]),
    "not HDF5": (not_hdf5, ["is not an HDF5 file"]),
    "truncated": (truncated, ["cut short"]),
}
BAD_MATRICES = {
    "truncated data": (cut_behind_the_back_of_hdf5, ['"B" ends at byte', "cut short"]),
    "truncated chunks": (chunks_cut_behind_the_back_of_hdf5, ['"B" is damaged or cut short', "0 of its 1 chunks"]),
    "damaged chunk": (damaged_chunk, ['dataset "B"', "row 14, column 4 is damaged"]),
    "rank 1": (content(whole((30,))), ['"A"', "1 dimension", "not two"]),
    "rank 3": (content(whole((2, 10, 30))), ["3 dimensions (2x10x30)", "not two"]),
    "scalar": (content(np.float64(1)), ["is a scalar"]),
    "null": (null, ["null"]),
    "no rows": (content(np.zeros((0, 30))), ["C would be 0x10", "nothing to compute"]),
    "no columns": (content(whole((20, 30)), np.zeros((30, 0))), ["20x0", "nothing to compute"]),
    "integer": (content(whole((20, 30), "i4")), ["input.h5:A", "int32 elements", "--type d"]),
    "long double": (content(whole((20, 30), np.longdouble)), ["input.h5:A", "other floating-point elements", "--type d"]),
    "mixed": (content(whole((20, 30)), whole((30, 10), "f4")),
              ["B is float but A is double", "--type d"]),
    "text": (content(np.full((20, 30), b"word")), ["string"]),
    "compound": (content(np.zeros((20, 30), [("x", "f8"), ("y", "f4")])), ["compound"]),
    "no plug-in": (missing_plugin, ["lzf", "store the dataset without it"]),
    "newer": (newer, ['"B" cannot be opened', "a newer HDF5 than", "h5repack --high=2"]),
    "group": (group, ['"A" is a group', "A/within (f64 20x30)"]),
    "dangling link": (dangling, ['"A", a link to nowhere.h5:A, cannot be opened']),
    "shapes, B turned": (content(whole((20, 30)), whole((10, 30))),
                         ["20x30", "10x30", "--transb T"]),
    "shapes, A turned": (content(whole((30, 20))), ["30x20", "30x10", "--transa T"]),
    "shapes, both turned": (content(whole((30, 20)), whole((10, 30))), ["--transa T --transb T"]),
    "shapes, hopeless": (content(whole((20, 31)), whole((32, 10))), ["transposing does not help"]),
}


@each("what", BAD_FILES)
def test_bad_file(tmp_path, what):
    make, says = BAD_FILES[what]
    make(tmp_path / "input.h5")
    assert_refused(tmp_path, tmp_path / "input.h5", says=says)


OTHER_FILES = {
    b"\x93NUMPY\x01\x00": "as /input.h5.npy",
    b"MATLAB 5.0 MAT-file, Platform: GLNXA64": "save it in MATLAB with -v7.3",
    b"CDF\x01\x00": "nccopy -k nc4",
    b"CDF\x05\x00": "nccopy -k nc4",
    b"\x0e\x03\x13\x01\x00": "h4toh5",
    b"\x1f\x8b\x08": "gunzip",
    b"BZh91AY": "bunzip2",
    b"\xfd7zXZ\x00": "unxz",
    b"\x28\xb5\x2f\xfd\x00": "unzstd",
    b"PK\x03\x04": "ZIP archive",
    b"PAR1\x15\x04": "pandas.read_parquet(",
    b"ARROW1\x00\x00": "pandas.read_feather(",
    b"SIMPLE  =                    T / conforms": "astropy.io.fits.getdata(",
    b"%%MatrixMarket matrix coordinate real general\n3 3 1\n": "mmread(",
    b"X\n\x00\x00\x00\x03\x00\x04": "readRDS(",
    b"RDX3\nX\n\x00": "load(",
    b"II*\x00\x08": "tifffile.imread(",
    b"MM\x00*\x00": "tifffile.imread(",
    b"\x80\x04\x95\x03": "pickle",
    b"1,2,3\n4,5,6\n": "input.h5\", delimiter=\",\")",
}


@each("first", OTHER_FILES)
def test_files_of_other_kinds(tmp_path, first):
    """The format is recognized by the first bytes."""
    (tmp_path / "input.h5").write_bytes(first)
    assert_refused(tmp_path, tmp_path / "input.h5", says=["is not an HDF5 file, but", OTHER_FILES[first]])
    (tmp_path / "input.h5").write_bytes(b"\x00" + first)
    said = assert_refused(tmp_path, tmp_path / "input.h5")
    assert said.endswith("3000x2000\n")


@pytest.mark.parametrize("name", [".zarray", ".zgroup", "zarr.json"])
def test_a_zarr_store(tmp_path, name):
    (tmp_path / "in.zarr").mkdir()
    (tmp_path / "in.zarr" / name).write_text("{}")
    assert_refused(tmp_path, tmp_path / "in.zarr", says=[
        "in.zarr is a Zarr store, not an HDF5 file; store it with dask: dask.array.from_zarr("])
    done = run("h5mat", "info", tmp_path / "in.zarr")
    assert done.returncode == INPUT and "is a Zarr store" in done.stderr


def test_a_vector_shown_as_a_matrix(tmp_path):
    """A virtual dataset shows a vector as a matrix; so does a slice, as the complaint says."""
    source, a, vector = tmp_path / "input.h5", whole((20, 30)), whole((30,))
    write(source, A=a, b=vector)
    assert_refused(tmp_path, source, "-b", "b", says=["1 dimension (30), not two", "b[:, None]"])
    with h5py.File(source, "a") as file:
        v = h5py.VirtualLayout((30, 1), "f8")
        v[:, 0] = h5py.VirtualSource(file["b"])
        file.create_virtual_dataset("B", v)
    multiply(source)
    np.testing.assert_array_equal(read(output_of(source))[:, 0], a @ vector)


def test_names_that_are_files_or_have_colons(source):
    other = write(source.with_name("other.h5"), **{"x:y": whole((30, 10))})
    how = {"cwd": source.parent}
    assert_refused(source.parent, "input.h5", "-b", "other.h5", **how, says=[
        'no dataset "other.h5"', "; for a dataset of the file other.h5 write other.h5:/NAME"])
    assert_refused(source.parent, "other.h5", "-a", "input.h5:/A", "-b", "x:y", **how, says=[
        "x:y: no such file; if it is a dataset, write FILE.h5:/x:y"])
    multiply(source, "-b", f"{other}:/x:y")
    assert_refused(source.parent, source, "-b", f"{other}:x:z", "-o", f"{other}.h5", says=['other.h5: no dataset "x:z"'])
    folder = source.with_name("folder")
    folder.mkdir()
    assert_refused(source.parent, "input.h5", "-o", "folder", **how, says=["name a file in it, such as folder/C.h5"])


def test_a_live_writer(source):
    """The complaint does not suggest to clear the mark of a file that is being written."""
    live = source.with_name("live.h5")
    with h5py.File(live, "w", libver="latest") as file:
        file.create_dataset("B", data=whole((30, 10)), chunks=(10, 10), maxshape=(None, 10))
        file.swmr_mode = True
        said = assert_refused(source.parent, source, "-b", f"{live}:/B", says=[
            "marked as open for writing: close it in the program that writes it"])
    assert "only if that died, h5clear" in said
    multiply(source, "-b", f"{live}:/B")


@each("what", BAD_MATRICES)
def test_bad_matrix(tmp_path, what):
    make, says = BAD_MATRICES[what]
    make(tmp_path / "input.h5")
    assert_refused(tmp_path, tmp_path / "input.h5", says=says, HDF5_PLUGIN_PATH=str(tmp_path / "missing"))


@each("shape", [(1 << 32, 1 << 30), (1 << 31, 1 << 31), (3, 1 << 30, 1 << 30)])
def test_a_matrix_whose_bytes_are_beyond_all_files(tmp_path, shape):
    """It takes no space, since no chunk of it was ever written."""
    with h5py.File(tmp_path / "input.h5", "w") as file:
        file.create_dataset("A", shape, "f4", chunks=(*[1] * (len(shape) - 2), 64, 64))
        file["B"] = whole((30, 10))
    assert_refused(tmp_path, tmp_path / "input.h5", says=["is too large: its size in bytes exceeds 63 bits"])


@pytest.mark.parametrize("shape_a, shape_b, given, would_fit", [
    ((20, 30), (30, 10), ["--transb", "T"], "--transb N"),
    ((20, 30), (30, 10), ["--transa", "T"], "--transa N"),
    ((20, 30), (30, 10), ["--transa", "T", "--transb", "T"], "--transa N --transb N"),
])
def test_transposition_too_many(tmp_path, shape_a, shape_b, given, would_fit):
    source = write(tmp_path / "input.h5", A=whole(shape_a), B=whole(shape_b))
    assert_refused(tmp_path, source, *given, says=[f"{would_fit} would fit"])
    multiply(source, *would_fit.split())


@pytest.mark.smoke
def test_missing_dataset_lists_what_is_there(source):
    write(source, **{"deep/inside": random((3, 4), "f4"), "vector": random((5,))})
    said = assert_refused(source.parent, source, "-a", "X", says=[
        'no dataset "X"', "/A (f64 20x30)", "/B (f64 30x10)", "/deep/inside (f32 3x4)"])
    assert "vector" not in said


def test_c_is_missing(source):
    with h5py.File(source, "a") as file:
        del file["C"]
    assert_refused(source.parent, source, "--beta", 1, says=['no dataset "C"'])


@pytest.mark.parametrize("option", [[], ["--dry-run"]])
def test_c_is_larger_than_any_file(tmp_path, option):
    with h5py.File(tmp_path / "input.h5", "w") as file:
        for name, shape in ("A", (1 << 32, 1)), ("B", (1, 1 << 32)):
            file.create_dataset(name, shape, "f8", chunks=True)
    assert_refused(tmp_path, tmp_path / "input.h5", *option, says=["4294967296x4294967296",
                                                                   "--transa"])


def test_chunks_of_a_size_beyond_64_bits(tmp_path):
    """A damaged header may claim such sizes; HDF5 itself opens it."""
    source = tmp_path / "input.h5"
    with h5py.File(source, "w", libver="earliest") as file:
        file["B"] = whole((16, 16))
        a = file.create_dataset("A", (16, 16), "f8", chunks=(16, 16), maxshape=(None, None),
                                compression="gzip")
        a.id.write_direct_chunk((0, 0), zlib.compress(b""))
    extents, data = struct.pack("<III", 16, 16, 8), source.read_bytes()
    assert data.count(extents) == 1
    source.write_bytes(data.replace(extents, struct.pack("<III", 1 << 31, 1 << 30, 8)))
    assert_refused(tmp_path, source, says=["input.h5:A", "impossible size"])


def test_c_has_another_shape(source):
    with h5py.File(source, "a") as file:
        del file["C"]
        file["C"] = random((10, 20))
    assert_refused(source.parent, source, "--beta", 1, says=["10x20", "20x10", "--beta 0"])


def test_c_has_another_type(source):
    with h5py.File(source, "a") as file:
        del file["C"]
        file["C"] = random((20, 10), "f4")
    assert_refused(source.parent, source, "--beta", 1, says=["C is float but A is double"])


def test_buffered_needs_plain_datasets(source):
    with h5py.File(source, "a") as file:
        file.create_dataset("scaled", data=file["A"][:], chunks=(4, 4), scaleoffset=0)
    assert_refused(source.parent, source, "-a", "scaled", "--io", "buffered",
                   says=["chunked 4x4 scaleoffset", "cannot be read by offset", "--io"])


def test_input_open_for_writing_elsewhere(source):
    with h5py.File(source, "a"):
        done = run("dgemm_ooc", source)
    assert done.returncode == INPUT and "is open for writing elsewhere" in done.stderr
    assert not output_of(source).exists()


# Permissions.

def with_permissions():
    """A wrapper in which file permissions apply, even to root."""
    if os.getuid():
        return []
    wrapper = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"]
    if not shutil.which("setpriv") or subprocess.run([*wrapper, "true"]).returncode:
        pytest.skip("permissions do not bind root, and setpriv cannot take its powers away here")
    return wrapper


def test_unreadable_file(source):
    source.chmod(0)
    done = run("dgemm_ooc", source, wrapper=with_permissions())
    assert done.returncode == INPUT and "no permission to read it" in done.stderr
    assert os.listdir(source.parent) == ["input.h5"]


def test_unwritable_directory(source):
    wrapper = with_permissions()
    source.parent.chmod(0o555)
    try:
        assert_refused(source.parent, source, wrapper=wrapper, says=[
            f"cannot write to the directory {source.parent}", "Permission denied", "--output"])
    finally:
        source.parent.chmod(0o755)


def test_directory_that_is_none(source):
    assert_refused(source.parent, source, "--output", source / "C.h5", complaints=1, says=[
        f"--output {source}/C.h5: for a dataset of a file write {source}:/C.h5"])


def test_directory_that_is_not_there(source):
    assert_refused(source.parent, source, "-o", source.parent / "no" / "where.h5", says=[
        f"the output's directory {source.parent}/no does not exist; make it", "--output"])


# The output.

def test_existing_output(source):
    write(output_of(source), C=random((3, 3)))
    assert_refused(source.parent, source, says=["input-C.h5 exists", "--force"])
    multiply(source, "--force")
    assert read(output_of(source)).shape == (20, 10)


def test_existing_output_survives_a_failure_under_force(source):
    write(output_of(source), C=random((3, 3)))
    assert_refused(source.parent, source, "--force", "-a", "X", says=['no dataset "X"'])


def test_output_is_a_folder(source):
    output_of(source).mkdir()
    assert_refused(source.parent, source, "--force", says=["is a directory; name a file in it"])


def alias(source, how):
    path = source.with_name("alias.h5")
    {"itself": lambda: None, "symlink": lambda: path.symlink_to(source),
     "hard link": lambda: path.hardlink_to(source)}[how]()
    return source if how == "itself" else path


@pytest.mark.parametrize("how", ["itself", "symlink", "hard link"])
def test_output_is_an_input(source, how):
    assert_refused(source.parent, source, "--force", "-o", alias(source, how),
                   says=["is one of the inputs", "--output"])


@pytest.mark.parametrize("operand", ["-a", "-b", "-c"])
def test_output_is_the_file_of_one_operand(source, operand):
    other = shutil.copy(source, source.with_name("other.h5"))
    assert_refused(source.parent, source, operand, f"{other}:/{operand[1].upper()}", "--beta", 1,
                   "-o", other, "--force", says=["is one of the inputs"])


PAPERS = {"--report": "report", "--trace": "trace", "--html": "page"}
beside = pytest.mark.parametrize("option", PAPERS)


@pytest.mark.singly
@beside
@pytest.mark.parametrize("how", ["itself", "symlink", "hard link"])
def test_paper_is_an_input(source, how, option):
    path = alias(source, how)
    before = digest(source)
    done = run("dgemm_ooc", source, option, path)
    assert digest(path) == digest(source) == before
    assert done.returncode in (USAGE, INPUT), done.stderr


@beside
def test_paper_is_the_output(source, option):
    done = run("dgemm_ooc", source, option, output_of(source))
    assert done.returncode in (USAGE, INPUT), done.stderr


@pytest.mark.singly
@beside
@pytest.mark.parametrize("name", ["./input-C.h5", "./input-C.h5.part", "./input-C.h5.journal",
                                  "./input-C.h5.lock"])
def test_paper_is_a_name_of_the_output(source, option, name):
    """The name is refused in any spelling, and before the file exists."""
    assert_refused(source.parent, source, option, f"{source.parent}/{name}", says=[PAPERS[option]])


def test_report_of_a_check_is_a_name_of_the_output(source):
    """A later run would take it for its own."""
    multiply(source)
    assert_refused(source.parent, source, "--check-only", "--report", f"{source.parent}/input-C.h5.journal",
                   says=[PAPERS["--report"]])


@beside
def test_paper_is_no_file(source, option):
    path = source.with_name("pipe")
    os.mkfifo(path)
    assert_refused(source.parent, source, option, path, says=["is not a regular file or a link to one; choose another name"])


@beside
def test_paper_cannot_be_written(source, option):
    """The complaint comes before hours of work."""
    assert_refused(source.parent, source, option, source.parent / "no" / "where.json",
                   says=[PAPERS[option], "no/where.json"])


@pytest.mark.parametrize("one, other", [*itertools.combinations(PAPERS, 2)])
def test_paper_is_another(source, one, other):
    path = source.parent / "x.json"
    assert_refused(source.parent, source, one, path, other, path,
                   says=[f"the {PAPERS[other]}", f"is the {PAPERS[one]}; choose another name"])
    assert_refused(source.parent, source, one, path, other, f"{source.parent}/./x.json",
                   says=[f"the {PAPERS[other]}", f"is the {PAPERS[one]}; choose another name"])


@pytest.mark.parametrize("dataset", [".", "A//", "/"])
def test_output_dataset_without_a_name(source, dataset):
    before = snapshot(source.parent)
    done = run("dgemm_ooc", source, "-o", f"{source.parent}/out.h5:/{dataset}")
    assert done.returncode in (USAGE, INPUT) and len(done.stderr) > 0
    assert snapshot(source.parent) == before


def part_of(source):
    return source.with_name("input-C.h5.part")


@pytest.mark.parametrize("victim", ["victim", "input.h5"])
def test_planted_symlink_is_not_written_through(source, victim):
    (source.parent / "victim").write_text("precious")
    part_of(source).symlink_to(source.parent / victim)
    assert_refused(source.parent, source, says=["is a symbolic link"])


def test_part_is_being_written_by_another_run(source):
    with open(part_of(source), "w") as part:
        part.write("another's work")
        part.flush()
        fcntl.flock(part, fcntl.LOCK_EX)
        assert_refused(source.parent, source, says=["another run is writing", "--output"])


def test_stale_part_is_replaced(source):
    part_of(source).write_text("left behind by a run that was killed")
    source.with_name("input-C.h5.journal").touch()
    multiply(source)
    assert not part_of(source).exists() and read(output_of(source)).shape == (20, 10)


# Several errors.

@pytest.mark.parametrize("ranks", [0, 3])
def test_all_complaints_at_once_and_once(tmp_path, ranks):
    source = write(tmp_path / "input.h5", A=random((5,)), C=whole((2, 2), "i4"))
    output_of(source).touch()
    said = assert_refused(tmp_path, source, "--beta", 1, ranks=ranks, complaints=3, says=[
        "1 dimension", 'no dataset "B"', "exists"])
    assert said.count("no dataset") == said.count("exists") == 1


def test_shapes_types_and_output_at_once(tmp_path):
    source = write(tmp_path / "input.h5", A=whole((4, 5), "i4"), B=whole((6, 7)), C=whole((2, 2)))
    output_of(source).touch()
    assert_refused(tmp_path, source, "--beta", 1, complaints=4, says=[
        "int32 elements", "the inner dimensions 5 and 6", "is 2x2", "exists"])


@pytest.mark.parametrize("options, words", [
    (["--output", "missing/out.h5"], "the output's directory missing does not exist"),
    (["-a", "nothing"], 'no dataset "nothing"'),
    (["--host-memory", "1K"], "at least --host-memory"),
])
def test_one_rank_speaks_for_all(source, options, words):
    code = RESOURCES if "--host-memory" in options else INPUT
    said = assert_refused(source.parent, source, *options, ranks=3, cwd=source.parent, code=code, says=[words])
    assert said.count(words) == 1


# Usage.

USAGE_ERRORS = {
    "--no-such-option": "--no-such-option is not an option; see --help-all",
    "--transA T": "--transA is not an option; did you mean --transa?",
    "--alpah=2": "did you mean --alpha?",
    "--chek": "--chek is not an option; see --help-all",
    "--tran T": "--tran may be several options; give one of --transa, --transb",
    "--force=1": "--force takes no value",
    "--alpha": "--alpha needs a value: give --alpha X",
    "-o": "--output needs a value: give --output FILE.h5",
    "-fz": "-z is not an option",
    "--alpha one": "--alpha one: give a finite number",
    "--alpha nan": "finite",
    "--beta inf": "finite",
    "--transa X": "choose one of N|T",
    "--type i": "--type i: choose d (double), s (single, float), or complex numbers of them: z, c",
    "--gpu-memory 12Q": "--gpu-memory 12Q: give a size such as 512M",
    "--gpu-memory -1": "give a size",
    "--host-memory 0": "give a size",
    "--host-memory 5Mx": "give a size",
    "--grid 2": "give PxQ",
    "--grid 0x1": "give PxQ",
    "--grid 7x9": "needs 63 ranks, there is 1; start so many, or leave --grid out",
    "--tile 10x10": "give MxNxK",
    "--tile 10x10x": "give MxNxK",
    "--tile 100x10x16": "C is only 20x10; give no more than that, or leave --tile out",
    "--ranks 2": "--dry-run",
    "--ranks-per-node 2": "--dry-run",
    "--dry-run --ranks 0": "--ranks 0: give a positive number",
    "--algo strassen": "this build has",
    "--device tpu": "choose one of auto|gpu|cpu",
    "--device gpu --algo cpu": "runs on the CPU",
    "--io mmap": "choose one of auto|direct|buffered|mapped|hdf5",
    "--verify twice": "choose one of off|online|full",
    "--check-only --dry-run": "give one of them",
    "--check-only --trace x.json": "cannot be given with --check-only",
    "--dry-run --trace x.json": "cannot be given with --dry-run",
    "--check-only --html x.html": "--html shows a run",
    "--dry-run --html x.html": "--html shows a run",
    "--from-report x.json --html x.html": "--from-report shows an earlier run: it goes with --html alone",
    "--restart maybe": "choose one of auto|never|require",
    "--checkpoint soon": "give a time",
    "--max-time 1:2:3:4": "give a time",
    "--max-time 3m2h": "give a time",
    "--max-time 0": "--max-time 0: give a time above 0, or leave the option out",
    "--checkpoint 0s": "give a time above 0",
    "another.h5": "another.h5 is a second one: name an operand of another file as -b another.h5:/B",
    "-o there/:/C": "--output there/ names a directory: name the file in it, there/C.h5",
    "-o there/": "names a directory",
    "-o new.h5:C": "--output new.h5:C: write FILE.h5:/path for a dataset of a new file",
    "--a=": "an operand's name is empty; give a dataset of INPUT.h5",
    "-o :/C": "--output: \":/C\" names no file; write FILE.h5 or FILE.h5:/path",
}


@each("words", USAGE_ERRORS)
def test_usage_error(source, words):
    before = snapshot(source.parent)
    done = run("dgemm_ooc", source, *words.split())
    assert done.returncode == USAGE, done.stderr
    assert USAGE_ERRORS[words] in done.stderr and done.stderr.count("dgemm_ooc: ") == 1
    assert len(done.stderr.splitlines()) == 1
    assert (done.stdout, snapshot(source.parent)) == ("", before)


def test_no_operands_is_a_usage_error():
    done = run("dgemm_ooc")
    assert done.returncode == USAGE and "dgemm_ooc input.h5" in done.stderr


@pytest.mark.parametrize("words, complaints", [
    (["--alpha", "x", "--grid", "7", "--type", "q"], ["--alpha x", "--grid 7", "--type q"]),
    (["--alpha", "x", "--trnsa", "T", "-o", "there/"], ["--alpha x", "--transa?", "a directory"]),
    (["--frce", "--quick", "--alpha"], ["--force?", "--quiet?", "--alpha needs a value"]),
    (["--check-only", "--dry-run", "--ranks", "2", "--html", "x.html"], ["give one", "--html shows"])])
def test_all_wrong_options_are_said(source, words, complaints):
    """The value of a misspelt option is not taken for INPUT."""
    done = run("dgemm_ooc", source, *words)
    assert done.returncode == USAGE and done.stderr.count("dgemm_ooc: ") == len(complaints)
    for complaint in complaints:
        assert complaint in done.stderr


@each("words, says", [
    (["-alpha", "2", "INPUT"], "-alpha is not an option; did you mean --alpha?"),
    (["-host-memory", "4G", "INPUT"], "-host-memory is not an option; did you mean --host-memory?"),
    (["-transA", "T", "INPUT"], "-transA is not an option; did you mean --transa?"),
    (["INPUT", "-o=y.h5"], "write -o y.h5 or --output=y.h5"),
    (["INPUT", "-o", "-"], "C is a file, which is written in no order; name it"),
    (["INPUT:/A"], "names a dataset, and INPUT.h5 is a file: give -a"),
    (["INPUT", "A"], "A is a second word and no file: name datasets as -a A -b B"),
    (["INPUT", "INPUT"], "-b INPUT:/B, and the output with -o")])
def test_words_that_mean_something_else(source, words, says):
    """One complaint: no value is taken for the input, and nothing is multiplied."""
    assert_refused(source.parent, *(word.replace("INPUT", str(source)) for word in words), code=USAGE,
                   says=[says.replace("-b INPUT:", f"-b {source}:")])


@pytest.mark.singly
@pytest.mark.parametrize("url", ["s3://bucket/in.h5", "https://example.org/in.h5:/A", "file:///INPUT"])
@pytest.mark.parametrize("words", [["dgemm_ooc", "URL"], ["dgemm_ooc", "INPUT", "-a", "URL"],
                                   ["dgemm_ooc", "INPUT", "-o", "URL"], ["h5mat", "info", "URL"],
                                   ["h5mat", "gen", "URL", "--rows", "2", "--cols", "2"],
                                   ["h5mat", "diff", "URL", "INPUT"]], ids=" ".join)
def test_urls_are_not_read(source, words, url):
    """It was taken for a file and its dataset, with advice that led nowhere."""
    url = url.replace("/INPUT", str(source))
    done = run(*(word.replace("URL", url).replace("INPUT", str(source)) for word in words))
    assert done.returncode == USAGE and done.stderr.count("is a URL") == 1
    assert f"{url} is a URL, and URLs are neither read nor written: copy the file here" in done.stderr


def test_a_path_that_looks_like_a_url(source, tmp_path):
    """A file without a dot in its name, and a dataset's path that begins twice."""
    source.rename(tmp_path / "data")
    done = run("dgemm_ooc", "-a", "data://A", "-b", "data://B", "-o", tmp_path / "c.h5", cwd=tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("wrong", [{0}, {1}, {0, 1}], ids=str)
def test_options_of_one_rank_that_are_wrong(source, wrong):
    """No rank waits for one that has ended."""
    line = ["mpirun"]
    for rank in range(2):
        line += [":"] * rank + ["-n", "1", BUILD / "dgemm_ooc", source, *["--alfa"] * (rank in wrong)]
    done = subprocess.run(line, env=environment(2), capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == USAGE, done.stdout + done.stderr
    assert done.stderr.count("--alfa is not an option; did you mean --alpha?") == 1
    assert ("on rank 1" in done.stderr) == (wrong == {1})
    assert not output_of(source).exists()


@pytest.mark.parametrize("words, loud", [(["-q", "-v"], True), (["-v", "-q"], False), (["-v"], True), ([], False)])
def test_the_last_of_quiet_and_verbose_counts(source, words, loud):
    """Of both on the command line, and of it after the environment."""
    done = run("dgemm_ooc", source, *words, DGEMM_OOC_QUIET="1", DGEMM_OOC_VERBOSE="")
    assert done.returncode == 0 and ("Predicted" in done.stdout) == loud, done.stdout


def test_paths_into_files(source):
    """As h5dump has them."""
    assert_refused(source.parent, f"{source}/A",
                   says=[f"{source} is a file; for a dataset of it write {source}:/A"])
    for file in source, source.with_name("new.h5"):
        assert_refused(source.parent, source, "-o", f"{file}/C", says=[f"for a dataset of a file write {file}:/C"])


def test_tasks_of_a_job_that_are_left(source):
    said = run("dgemm_ooc", source, SLURM_JOB_ID="1", SLURM_NTASKS="8", SLURM_PROCID="0").stdout
    assert "this Slurm job has 8 tasks" in said and "srun" in said
    said = run("dgemm_ooc", source, "--force", SLURM_JOB_ID="1", SLURM_NTASKS="1", SLURM_PROCID="0").stdout
    assert "RESULT" in said and "this Slurm job" not in said


def test_operands_of_other_files_need_no_input(source):
    """No INPUT is needed if operands and output are named; otherwise the missing names are reported."""
    output = source.with_name("product.h5")
    names = ["-a", f"{source}:/A", "-b", f"{source}:/B"]
    for words in names, [*names, "-o", output, "--beta", 1], [*names[:2], "-o", output]:
        done = run("dgemm_ooc", *words)
        assert done.returncode == USAGE and "INPUT.h5 is missing" in done.stderr
    done = run("dgemm_ooc", *names, "-o", output)
    assert done.returncode == 0, done.stderr
    done = run("dgemm_ooc", *names, "-o", output, "--check-only")
    assert done.returncode == 0, done.stderr
    multiply(source)
    np.testing.assert_array_equal(read(output), read(output_of(source)))


@pytest.mark.parametrize("late", [0, 1, 2])
def test_usage_error_is_said_once_by_three_ranks(source, late):
    wait = f'[ "{RANK}" != {late} ] || sleep 0.3; exec "$0" "$@"'
    done = subprocess.run(["mpirun", "-n", "3", "sh", "-c", wait, BUILD / "dgemm_ooc", source,
                           "--alpha", "x"], env=environment(3), capture_output=True, text=True)
    assert done.returncode == USAGE
    assert done.stderr.count("--alpha x: give a finite number") == 1


def test_bad_environment_is_a_usage_error(source):
    done = run("dgemm_ooc", source, DGEMM_OOC_GPU_MEMORY="much")
    assert done.returncode == USAGE and "DGEMM_OOC_GPU_MEMORY=much: give a size" in done.stderr
    done = run("dgemm_ooc", source, "--gpu-memory", "1G", DGEMM_OOC_GPU_MEMORY="much")
    assert done.returncode == 0  # the command line wins


@each("option, words", [
    ("--help", ["Usage: dgemm_ooc", "--gpu-memory", "DGEMM_OOC_", "Exit status: 0 complete"]),
    ("-h", ["Usage: dgemm_ooc"]),
    ("--version", ["dgemm_ooc ", "HDF5 "]),
    ("-V", ["dgemm_ooc "]),
])
def test_help_and_version_need_no_mpi(option, words):
    done = run("dgemm_ooc", option, **BROKEN)
    assert (done.returncode, done.stderr) == (0, "")
    assert all(word in done.stdout for word in words)
    assert all(len(line) <= 100 for line in done.stdout.splitlines())


# Launchers, memory, devices and disk.

@pytest.mark.parametrize("rank, complaints", [(0, 1), (2, 0)])
def test_singletons_of_a_launcher(source, rank, complaints):
    """srun starts N singletons on the same files if MPI and Slurm lack a common interface."""
    assert_refused(source.parent, source, code=RESOURCES, complaints=complaints,
                   says=["started 4 tasks", f"srun {SRUN}"] if complaints else [],
                   SLURM_STEP_NUM_TASKS="4", SLURM_PROCID=str(rank))


def test_the_launcher_of_mvapich(source):
    """Its ranks are not taken for runs of their own, whatever MPI this is."""
    assert_refused(source.parent, source, code=RESOURCES, says=["started 4 tasks"], MV2_COMM_WORLD_SIZE="4",
                   MV2_COMM_WORLD_RANK="0")


@pytest.mark.singly
@pytest.mark.parametrize("option, threads", [("--gpu-memory", 1), ("--host-memory", 1),
                                             ("--host-memory", 64)])
@pytest.mark.parametrize("ranks, more", [(0, []), (0, ["--beta", "2"]), (0, ["--io", "hdf5"]),
                                         (0, ["--tile", "17x9x30"]), (2, [])])
def test_memory_limit_too_small_names_one_that_works(source, ranks, option, more, threads):
    how = dict(ranks=ranks, OMP_NUM_THREADS=str(threads))
    said = assert_refused(source.parent, source, option, 1000, *more, code=RESOURCES,
                          says=["the limit is 1000"], **how)
    smallest = int(re.search(f"give at least {option} ([0-9]+)K$", said, re.M).group(1))
    multiply(source, option, f"{smallest}K", *more, **how)
    assert_refused(source.parent, source, option, f"{smallest - 1}K", *more, "--force", code=RESOURCES, **how)


def test_gpu_that_is_not_there(source):
    done = run("dgemm_ooc", source, "--device", "gpu", CUDA_VISIBLE_DEVICES="")
    assert done.returncode == RESOURCES and "--device cpu" in done.stderr
    assert not output_of(source).exists()


def small_disk(folder, size):
    """A wrapper that mounts a disk of this size at `folder`, runs the command, and lists the remaining
    files."""
    script = f'mount -t tmpfs -o size={size} tmpfs "$0" && "$@"; code=$?; ls -A "$0"; exit $code'
    wrapper = ["unshare", "--mount", "--map-root-user", "sh", "-c", script, folder]
    if not shutil.which("unshare") or subprocess.run([*wrapper, "true"]).returncode:
        pytest.skip("no small file system can be mounted here")
    return wrapper


def on_small_disk(tmp_path, size, rows, *options):
    """Write C of `rows` x 512 doubles, one page per row, to a disk of this size."""
    source, disk = tmp_path / "input.h5", tmp_path / "disk"
    operands(source, rows, 512, 3)
    disk.mkdir()
    return run("dgemm_ooc", source, "-o", disk / "C.h5", *options, wrapper=small_disk(disk, size))


def test_too_little_disk(tmp_path):
    done = on_small_disk(tmp_path, "1m", 300)
    assert done.returncode == RESOURCES
    assert "C needs 1.17 MiB, but 1.00 MiB are free" in done.stderr and done.stdout == ""


def test_disk_that_has_no_room_for_the_header(tmp_path):
    """The lack of space is detected when the output is allocated, before the work."""
    done = on_small_disk(tmp_path, "1m", 256)
    assert done.returncode == RESOURCES and "needs 1.00 MiB, but" in done.stderr
    assert "RESULT" not in done.stdout and not done.stdout.endswith(".part\n")


def test_disk_that_just_has_room(tmp_path):
    done = on_small_disk(tmp_path, "1028k", 248)  # including the journal
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "C.h5"


def test_what_a_killed_run_has_left_takes_no_room(tmp_path):
    """Its space is freed before the new part file is created."""
    source, disk = tmp_path / "input.h5", tmp_path / "disk"
    operands(source, 248, 512, 3)
    disk.mkdir()
    leave = ["sh", "-c", f'head -c 1000000 /dev/zero >{disk}/C.h5.part; >{disk}/C.h5.journal; "$@"', "sh"]
    done = run("dgemm_ooc", source, "-o", disk / "C.h5", wrapper=[*small_disk(disk, "1028k"), *leave])
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "C.h5"


def test_more_output_than_any_disk_holds(tmp_path):
    sparse(tmp_path / "input.h5", "A", (1 << 20, 1 << 20), "f8")
    sparse(tmp_path / "other.h5", "B", (1 << 20, 1 << 20), "f8")
    done = run("dgemm_ooc", tmp_path / "input.h5", "-b", f"{tmp_path / 'other.h5'}:/B")
    assert done.returncode == RESOURCES and "C needs 8.00 TiB" in done.stderr
    assert sorted(os.listdir(tmp_path)) == ["input.h5", "other.h5"]
