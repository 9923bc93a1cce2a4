"""Mistakes as users make them: each ends with one sentence that says what is wrong, where, and what to do, and with
the documented exit status."""
import re
import shlex

import pytest

from launch import run
from matrices import operands, snapshot, whole

USAGE, INPUT, RESOURCES, VERIFY = 2, 3, 4, 5

# What users of other programs type: what is meant here.
OTHER_WORDS = {
    "--memory 2G": "--host-memory SIZE", "--max-memory 2G": "--host-memory SIZE", "--mem=2G": "--host-memory SIZE",
    "-m 2G": "--host-memory SIZE", "--gpu-mem 2GG": "--gpu-memory 2GG: give a size",
    "--threads 4": "OMP_NUM_THREADS=N", "-j 4": "OMP_NUM_THREADS=N", "--num_threads 4": "OMP_NUM_THREADS=N",
    "--cpu": "--device cpu", "--gpu": "--device gpu", "--use-gpu": "--device gpu",
    "--gpus 2": "mpirun -n N dgemm_ooc", "--nproc 2": "mpirun -n N dgemm_ooc", "-np 2": "mpirun -n N dgemm_ooc",
    "-n 4": "mpirun -n 4 dgemm_ooc", "--ranks 2": "the launcher decides the ranks",
    "--overwrite": "--force", "--Replace": "--force", "--resume": "the same command again",
    "--restart": "--restart needs a value: give --restart auto|never", "--output-file x.h5": "--output FILE.h5",
    "--output": "--output needs a value: give --output FILE.h5", "-O x.h5": "did you mean --output?",
    "--input x.h5": "INPUT.h5 without an option", "-i x.h5": "INPUT.h5 without an option",
    "--precision single": "--type d or s", "--dtype f4": "did you mean --type?", "--float32": "--type d or s",
    "--transA T": "did you mean --transa?", "--transpose A": "--transa T", "--A X": "did you mean --a?",
    "-cov": "--product cov", "--correlation": "--product cov", "--no-verify": "--verify off",
    "--timeout 4h": "--max-time TIME", "--seed 1": "--check-seed N", "--compress": "h5repack", "--block-size 5": "--tile",
    "--frobnicate": "see --help-all",
    "-o C.npy": 'name it C.h5, and then, in Python, numpy.save("C.npy", h5py.File("C.h5")["C"][:])',
    "-o there/C.csv:/x": 'numpy.savetxt("there/C.csv", h5py.File("there/C.h5")["/x"][:])',
    "-o C.mat": "HDF5 and not .mat: name it C.h5", "-o C.Parquet": "HDF5 and not .Parquet: name it C.h5",
    "-o .": "--output . names a directory: name the file in it, ./C.h5",
    "-o ..": "names a directory: name the file in it, ../C.h5",
}


@pytest.fixture
def source(tmp_path):
    """A valid input of 20 x 30 times 30 x 10."""
    operands(tmp_path / "input.h5", 20, 10, 30, kind=whole)
    return tmp_path / "input.h5"


def assert_one_sentence(said, *words):
    """One line of the program's, which has the words, and no word of the program's own code or of a library's."""
    lines = said.splitlines()
    assert len(lines) == 1 and re.match(r"(dgemm_ooc|h5mat): ", lines[0]), said
    assert not re.search(r"\berrno\b|\bH5[A-Z][a-z]?\w*\(|\w+\.[ch]:\d+|HDF5-DIAG|\(null\)|\bnan\b", said), said
    for word in words:
        assert word in said, said


@pytest.mark.parametrize("words", OTHER_WORDS)
def test_words_of_other_programs(source, words):
    before = snapshot(source.parent)
    done = run("dgemm_ooc", source, *shlex.split(words), cwd=source.parent)
    assert (done.returncode, done.stdout) == (USAGE, "")
    assert_one_sentence(done.stderr, OTHER_WORDS[words])
    assert snapshot(source.parent) == before


def test_variables_of_other_names(source):
    for variable, says in ("MEMORY", "unset it and give --host-memory"), ("THREADS", "set OMP_NUM_THREADS"):
        done = run("dgemm_ooc", source, **{f"DGEMM_OOC_{variable}": "2G"})
        assert done.returncode == USAGE
        assert_one_sentence(done.stderr, f"DGEMM_OOC_{variable} is not an option", says)


def test_input_that_is_named_as_another_format(source):
    """MATLAB's .mat is HDF5, too; what is written beside it is named as what it is."""
    done = run("dgemm_ooc", source.rename(source.with_name("input.mat")))
    assert done.returncode == 0 and source.with_name("input-C.h5").exists()


def test_generated_matrix_that_is_named_as_another_format(tmp_path):
    done = run("h5mat", "gen", "in.npy", "--rows", 2, "--cols", 2, cwd=tmp_path)
    assert done.returncode == USAGE and not list(tmp_path.iterdir())
    assert_one_sentence(done.stderr, "in.npy: what is written is HDF5 and not .npy: name it in.h5")
