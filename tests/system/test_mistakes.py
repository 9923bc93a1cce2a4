"""Mistakes as users make them: each ends with one sentence that says what is wrong, where, and what to do, and with
the documented exit status."""
import os
import re
import shlex
import signal
import subprocess

import h5py
import numpy as np
import pytest

from cases import each
from launch import BUILD, PATIENCE, SANITIZED, environment, run
from matrices import operands, part_of, snapshot, start_late, wait_until, whole, write
from test_bad_input import with_permissions

USAGE, INPUT, RESOURCES = 2, 3, 4

# What users of other programs type: what is meant here.
OTHER_WORDS = {
    "--memory 2G": "did you mean --gpu-memory?", "--max-memory 2G": "did you mean --gpu-memory?",
    "--gpu-mem 2GG": "--gpu-memory 2GG: give a size", "--gpu": "--gpu-memory needs a value",
    "-np 2": "-p is not an option", "-n 4": "mpirun -n 4 dgemm_ooc", "--ranks 2": "by mpirun -n N",
    "--restart": "--restart needs a value: give --restart auto|never",
    "--output-file x.h5": "did you mean --output?", "--max-time-limit 4h": "did you mean --max-time?",
    "--output": "--output needs a value: give --output FILE.h5", "-O x.h5": "did you mean --output?",
    "-i x.h5": "-i is not an option; see --help-all", "--dtype f4": "did you mean --type?",
    "--transA T": "did you mean --transa?", "--A X": "did you mean --a?", "-cov": "-c ov names the C that is added",
    "--no-verify": "did you mean --verify?", "--seed 1": "did you mean --check-seed?",
    "--frobnicate": "see --help-all",
    "-o there/C.csv:/x": "HDF5 and not .csv: name it there/C.h5",
    "-o C.mat": "HDF5 and not .mat: name it C.h5", "-o C.Parquet": "HDF5 and not .Parquet: name it C.h5",
    "-o .": "--output . names a directory: name the file in it, ./C.h5",
    "-o ..": "names a directory: name the file in it, ../C.h5",
}


@pytest.fixture
def source(tmp_path):
    """A valid input of 20 x 30 times 30 x 10."""
    operands(tmp_path / "input.h5", 20, 10, 30, kind=whole)
    return tmp_path / "input.h5"


def desk(folder):
    """What lies in the folder of a user: matrices that can be multiplied, and what cannot."""
    rng = np.random.default_rng(1)
    a, b = rng.random((20, 30)), rng.random((30, 10))
    gaps = a.copy()
    gaps[3, 4] = np.nan
    write(folder / "in.h5", A=a, B=b, Bt=b.T.copy(), gaps=gaps, ints=whole((20, 30), "i8"), f4=b.astype("f4"))
    write(folder / "odd.h5", vector=a[0], cube=rng.random((2, 3, 4)), none=np.zeros((0, 30)),
          words=np.full((20, 30), b"1.5"),
          flags=a > 0.5, pairs=np.zeros((20, 30), [("x", "f8"), ("y", "i4")]))
    write(folder / "b.h5", b=b)
    write(folder / "results.h5", C=a, earlier=b)
    write(folder / "made.h5", C=a @ b)
    with h5py.File(folder / "odd.h5", "a") as file:
        file["group/inner"] = a
    (folder / "cut.h5").write_bytes((folder / "in.h5").read_bytes()[:9000])
    (folder / "text.h5").write_text("1,2,3\n4,5,6\n")
    (folder / "page.h5").write_text("<!DOCTYPE html><html>Please log in</html>")
    (folder / "lfs.h5").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 12\n")
    np.save(folder / "x.npy", a)
    os.link(folder / "x.npy", folder / "array.h5")
    (folder / "notes.txt").write_text("mine")
    (folder / "folder").mkdir()


# What is typed after the program's name, in that folder: the exit status, and what the sentence has.
MISTAKES = {
    # Which matrices.
    "in.h5 -a B -b A": (INPUT, "dimensions 10 and 20 differ", "--transa T --transb T would fit, or A and B exchanged"),
    "in.h5 -b Bt": (INPUT, "inner dimensions 30 and 10 differ", "--transb T would fit"),
    "in.h5 --transb T": (INPUT, "--transb N would fit"),
    "in.h5 -b A --center rows": (INPUT, "one matrix times its own transpose", "--transb T"),
    "in.h5 --product cov -b B": (INPUT, "one matrix times its own transpose", "leave -b out"),
    "in.h5 b.h5": (USAGE, "b.h5 is a second one", "-b b.h5:/B"),
    "in.h5 b.h5 made.h5 odd.h5": (USAGE, "b.h5 is a second one", "-b b.h5:/B"),
    "in.h5 A": (USAGE, "A is a second word and no file", "-a A -b B"),
    "in.h5 -b b.h5": (INPUT, 'no dataset "b.h5"', "of the file b.h5 write b.h5:/NAME"),
    "in.h5 -a a": (INPUT, 'in.h5: no dataset "a"', "/A (f64 20x30)"),
    "b.h5 -a b -b in.h5:/b": (INPUT, 'in.h5: no dataset "/b"', "/B (f64 30x10)"),
    "in.h5 -a odd.h5:/group": (INPUT, '"/group" is a group', "/group/inner (f64 20x30)"),
    "in.h5 -a /A/": (USAGE, '"/A/" names no dataset', "write FILE.h5:/path"),
    "in.h5:/A": (USAGE, "in.h5:/A names a dataset", "give -a in.h5:/A"),
    "in.h5/A": (INPUT, "in.h5 is a file", "for a dataset of it write in.h5:/A"),
    "in.h5 --beta 1": (INPUT, 'no dataset "C"', "the C that --beta adds by -c, or leave --beta out"),
    "in.h5 --beta 1 -c A": (INPUT, "in.h5:A is 20x30, but op(A) op(B) is 20x10", "--beta 0"),
    "in.h5 -c made.h5:/C": (USAGE, "-c made.h5:/C names the C that is added", "give such a --beta"),
    # What is in the files.
    "nothere.h5": (INPUT, "nothere.h5: no such file in ", "give its path"),
    "nowhere/in.h5": (INPUT, "nowhere/in.h5: no such file in ", "give its path"),
    "'in*.h6'": (INPUT, "in*.h6: no such file in ", "give its path"),
    "'~/in.h5'": (USAGE, "~/in.h5: ", "write $HOME"),
    "in.h5 --output='~/C.h5'": (USAGE, "--output", "~/C.h5", "write $HOME"),
    "s3://bucket/in.h5": (USAGE, "is a URL", "copy the file here"),
    "folder": (INPUT, "folder is a directory", "name an HDF5 file"),
    "text.h5": (INPUT, "text.h5 is not an HDF5 file, but text", "store it with h5py"),
    "x.npy": (USAGE, "x.npy is one matrix", "name the other one behind it, or by -b"),
    "x.npy in.h5:/B": (USAGE, "INPUT.h5 is missing", "give -o FILE.h5 or FILE.npy for the output"),
    "x.npy x.npy x.npy -o D.h5": (USAGE, "x.npy is a second one", "-b x.npy:/B"),
    "array.h5": (INPUT, "array.h5 is not an HDF5 file, but a NumPy array", "as array.h5.npy"),
    "page.h5": (INPUT, "page.h5 is not an HDF5 file, but a web page", "download the file again"),
    "lfs.h5": (INPUT, "lfs.h5 is not an HDF5 file, but a pointer of Git LFS", "git lfs pull"),
    "cut.h5": (INPUT, "cut.h5 is cut short", "copy it again"),
    "in.h5 -a odd.h5:/vector": (INPUT, '"/vector" has 1 dimension (30), not two', "give it as a column"),
    "in.h5 -a odd.h5:/cube": (INPUT, '"/cube" has 3 dimensions (2x3x4), not two', "give one matrix of it"),
    "in.h5 -a odd.h5:/flags": (INPUT, "odd.h5:/flags holds int8 elements", "give --type d"),
    "in.h5 -a odd.h5:/pairs": (INPUT, '"/pairs" holds compounds', "store these as"),
    "in.h5 -a odd.h5:/words": (INPUT, '"/words" holds strings', "store it as numbers"),
    "in.h5 -a odd.h5:/none": (INPUT, "C would be 0x10", "name matrices that have rows and columns"),
    "in.h5 -a ints": (INPUT, "in.h5:ints holds int64 elements", "give --type d"),
    "in.h5 -b f4": (INPUT, "B is float but A is double", "give --type d"),
    "in.h5 -a gaps --product cov -q": (INPUT, "in.h5:gaps is NaN in row 3, column 4", "give --nan mean"),
    "in.h5 -a ints --type d --io direct": (INPUT, "cannot be read by offset", "leave --io at auto"),
    # Where C goes.
    "in.h5 -o nowhere/C.h5": (INPUT, "directory nowhere does not exist", "make it, or choose another"),
    "in.h5 -o in.h5": (INPUT, "the output in.h5 is one of the inputs", "choose another with --output"),
    "in.h5 -o in.h5:/C --force": (INPUT, "the output in.h5 is one of the inputs", "choose another with --output"),
    "in.h5 -o made.h5": (INPUT, "the output made.h5 exists", "give --force to replace it"),
    "in.h5 -o results.h5:/new": (INPUT, "holds other objects than /new", "/C, /earlier", "choose another file"),
    "in.h5 -o results.h5 --force": (INPUT, "results.h5 holds other objects than C", "/earlier", "choose another file"),
    "in.h5 -o folder": (INPUT, "folder is a directory", "name a file in it, such as folder/C.h5"),
    "in.h5 -o /dev/null": (INPUT, "/dev/null exists and is not a regular file", "choose another"),
    "in.h5 -o C.h5:C": (USAGE, "--output C.h5:C", "write FILE.h5:/path"),
    "in.h5 -o in.h5/C": (INPUT, "--output in.h5/C", "for a dataset of a file write in.h5:/C"),
    "in.h5 -o -": (USAGE, "--output -", "name it"),
    "in.h5 --report notes.txt": (INPUT, "the report notes.txt exists and is no report", "choose another name"),
    "in.h5 --report nowhere/r.json": (INPUT, "nowhere/r.json", "directory does not exist", "choose another name"),
    "in.h5 --html nowhere/p.html": (INPUT, "nowhere/p.html", "directory does not exist", "choose another name"),
    "in.h5 --html in.h5": (INPUT, "the page in.h5 is one of the inputs", "choose another name"),
    "in.h5 --report r.json --trace r.json": (INPUT, "the trace r.json is the report", "choose another name"),
    "--from-report r.json --html p.html": (INPUT, "r.json", "give a file that --report wrote"),
    "--from-report in.h5 --html p.html": (INPUT, "in.h5: not JSON", "give a file that --report wrote"),
    # Values.
    "in.h5 --alpha 2e": (USAGE, "--alpha 2e", "give a finite number"),
    "in.h5 --alpha 0,5": (USAGE, "--alpha 0,5", "give a finite number"),
    "in.h5 --alpha 1+2i": (USAGE, "alpha or beta is complex", "give --type z"),
    "in.h5 --alpha": (USAGE, "--alpha needs a value", "give --alpha X"),
    "in.h5 --product cov --alpha 2": (USAGE, "have their own alpha", "leave out --alpha"),
    "in.h5 --nan mean": (USAGE, "--nan goes with --center", "give one of these"),
    "in.h5 --type int8": (USAGE, "--type int8", "choose d (double)"),
    "in.h5 --product covariance": (USAGE, "--product covariance", "choose one of cov|cor|gram"),
    "in.h5 --host-memory 20": (RESOURCES, "the limit is 20 B", "give at least --host-memory"),
    "in.h5 --host-memory 20Gigs": (USAGE, "--host-memory 20Gigs", "give a size such as 512M"),
    "in.h5 --host-memory 50%": (USAGE, "--host-memory 50%", "give a size such as 512M"),
    "in.h5 --host-memory 900T": (RESOURCES, "more than this computer has", "give at most"),
    "in.h5 --gpu-memory 100": (RESOURCES, "the limit is 100 B", "give at least --gpu-memory"),
    "in.h5 --device gpu": (RESOURCES, "no GPU can be used here", "--device cpu"),
    "in.h5 --algo strassen": (USAGE, "--algo strassen", "choose one that this build has"),
    "in.h5 --grid 2x2": (USAGE, "--grid 2x2 needs 4 ranks, there is 1", "leave --grid out"),
    "in.h5 --tile 512": (USAGE, "--tile 512", "give MxNxK"),
    "in.h5 --max-time ten": (USAGE, "--max-time ten", "give a time such as"),
    "in.h5 --checkpoint 0": (USAGE, "--checkpoint 0", "give a time above 0"),
    "in.h5 --restart require": (INPUT, "no checkpoint in in-C.h5.journal", "leave --restart out"),
    "in.h5 -n --machine in.h5": (USAGE, "--machine in.h5: not JSON", "name a machine file"),
    "in.h5 --verbose=2": (USAGE, "--verbose takes no value", "leave =2 out"),
    "in.h5 -q=1": (USAGE, "-q takes no value", "leave =1 out"),
    "in.h5 -o=C.h5": (USAGE, "-o takes its value without", "write -o C.h5"),
    "in.h5 $'\\r'": (USAGE, "ends in a carriage return", "dos2unix"),
    # What is checked.
    "in.h5 --check-only": (INPUT, "there is no output in-C.h5", "name C's file by -o"),
    "made.h5 --check-only": (INPUT, "there is no output made-C.h5", "name C's file by -o"),
    "in.h5 --check-only -o results.h5": (INPUT, "results.h5:C is 20x30, but op(A) op(B) is 20x10", "by -a and -b"),
    "in.h5 --check-only --dry-run": (USAGE, "--check-only needs an output", "give one of them"),
}

REMEDIES = re.compile(r"\b(give|write|name|choose|set|start|raise|store|make|remove|leave|use|copy|close|wait|unset|"
                      r"see|would fit|did you mean|convert|compress|download|brings|ask|send|is .* meant|datasets here)\b")


def assert_one_sentence(said, *words):
    """One line of the program's, with these words and something to do, and no word of the program's own code or of a
    library's."""
    lines = said.splitlines()
    assert len(lines) == 1 and re.match(r"(dgemm_ooc|h5mat): ", lines[0]), said
    assert not re.search(r"\berrno\b|\bH5[A-Z][a-z]?\w*\(|\w+\.[ch]:\d+|HDF5-DIAG|\(null\)|\w->|%[sdl]", said), said
    assert REMEDIES.search(said) and len(lines[0]) < 400, said
    for word in words:
        assert word in said, said


@each("words", MISTAKES)
def test_mistake(tmp_path, words):
    desk(tmp_path)
    before = snapshot(tmp_path)
    line = shlex.split(words.replace("$'\\r'", "'-q\r'"))
    done = run("dgemm_ooc", *line, cwd=tmp_path, CUDA_VISIBLE_DEVICES="")
    status, *says = MISTAKES[words]
    assert (done.returncode, done.stdout) == (status, ""), done.stdout + done.stderr
    assert_one_sentence(done.stderr, *says)
    assert snapshot(tmp_path) == before


@each("words", OTHER_WORDS)
def test_words_of_other_programs(source, words):
    before = snapshot(source.parent)
    done = run("dgemm_ooc", source, *shlex.split(words), cwd=source.parent)
    assert (done.returncode, done.stdout) == (USAGE, "")
    assert_one_sentence(done.stderr, OTHER_WORDS[words])
    assert snapshot(source.parent) == before


def test_variables_of_other_names(source):
    for variable, says in ("MEMORY", "is DGEMM_OOC_GPU_MEMORY meant"), ("THREADS", "unset it, or see --help-all"):
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
    assert_one_sentence(done.stderr, "in.npy: what h5mat writes is HDF5 and not .npy: name it in.h5")


# The environment of a shell, a job or a container: variables or a wrapper, the status, and what the sentence has.
PLACES = {
    "limit of an option": ({"DGEMM_OOC_HOST_MEMORY": "lots"}, USAGE, "DGEMM_OOC_HOST_MEMORY=lots", "give a size"),
    "misspelt": ({"DGEMM_OOC_HOSTMEMORY": "2G"}, USAGE, "DGEMM_OOC_HOSTMEMORY", "is DGEMM_OOC_HOST_MEMORY meant"),
    "memory": ({"DGEMM_OOC_MEMORY": "2G"}, USAGE, "DGEMM_OOC_MEMORY is not an option", "is DGEMM_OOC_GPU_MEMORY meant"),
    "threads": ({"DGEMM_OOC_THREADS": "2"}, USAGE, "DGEMM_OOC_THREADS is not an option", "see --help-all"),
    "srun without --mpi": ({"SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "0"}, RESOURCES,
                           "started 4 tasks", "srun --mpi"),
    "files": (["prlimit", "--nofile=30"], RESOURCES, "only 30 files may be open here", "raise the limit (ulimit -n)"),
    "stacks": (["sh", "-c", 'ulimit -s 256; exec "$@"', "sh"], RESOURCES,
               "only 256 KiB", "raise the limit (ulimit -s)"),
    "size of files": (["prlimit", "--fsize=1000"], RESOURCES, "C needs 1.56 KiB", "raise the limit (ulimit -f)"),
    "other folder": (["sh", "-c", 'cd folder; exec "$@"', "sh"], INPUT,
                     "in.h5: no such file in ", "/folder; give its path"),
}


@pytest.mark.skipif(SANITIZED, reason="a sanitizer needs more than these limits")
@each("what", PLACES)
def test_mistake_of_a_place(tmp_path, what):
    how, status, *says = PLACES[what]
    desk(tmp_path)
    before = snapshot(tmp_path)
    env, wrapper = (how, []) if isinstance(how, dict) else ({}, how)
    done = run("dgemm_ooc", "in.h5", "-q", cwd=tmp_path, wrapper=wrapper, **env)
    assert (done.returncode, done.stdout) == (status, ""), done.stdout + done.stderr
    assert_one_sentence(done.stderr, *says)
    assert snapshot(tmp_path) == before


def test_input_that_a_program_has_open(source):
    """As h5py in a notebook has."""
    with h5py.File(source, "a"):
        done = run("dgemm_ooc", source.name, cwd=source.parent)
    assert done.returncode == INPUT
    assert_one_sentence(done.stderr, "input.h5 is open for writing elsewhere", "close it there")


def test_files_that_may_not_be_read_or_written(source):
    wrapper, how = with_permissions(), {"cwd": source.parent}
    source.with_name("closed").mkdir(0o555)
    done = run("dgemm_ooc", source.name, "-o", "closed/C.h5", wrapper=wrapper, **how)
    assert done.returncode == INPUT
    assert_one_sentence(done.stderr, "cannot write to the directory closed", "choose another with --output")
    source.chmod(0)
    done = run("dgemm_ooc", source.name, wrapper=wrapper, **how)
    assert done.returncode == INPUT
    assert_one_sentence(done.stderr, "input.h5: no permission to read it", "ask its owner, or see chmod")


def test_disk_without_room(source, small_disk):
    with open(small_disk / "filled", "wb") as file, pytest.raises(OSError):
        while True:
            file.write(bytes(1 << 20))
            file.flush()
    for extra, status in ([], RESOURCES), (["--dry-run"], 0):
        done = run("dgemm_ooc", source.name, "-o", small_disk / "C.h5", *extra, cwd=source.parent)
        assert done.returncode == status and [path.name for path in small_disk.iterdir()] == ["filled"]
        assert_one_sentence(done.stderr, "C needs 1.56 KiB, but ", "are free in ", "make room there")


@pytest.mark.parametrize("words, status, says", [
    ([":", "-n", "1", BUILD / "dgemm_ooc", "input.h5", "--alpha", "2"], USAGE,
     ["another command line", "start a run for each"]),
    ([":", "-n", "1", "--wdir", "..", BUILD / "dgemm_ooc", "input.h5"], INPUT,
     ["in another folder", "give the files' whole paths"]),
    ([":", "-n", "1", BUILD / "dgemm_ooc", "input.h5", "--alfa"], USAGE, ["--alfa is not an option"])],
    ids=["other words", "other folder", "one is wrong"])
def test_ranks_that_were_started_otherwise(source, words, status, says):
    """The launcher adds its own lines."""
    line = ["mpirun", "-n", "1", BUILD / "dgemm_ooc", "input.h5", *words]
    done = subprocess.run(line, env=environment(2, DGEMM_OOC_DEVICE="cpu"), cwd=source.parent, capture_output=True,
                          text=True, timeout=PATIENCE)
    spoken = [line for line in done.stderr.splitlines() if line.startswith("dgemm_ooc: ")]
    assert done.returncode == status and len(spoken) == 2, done.stderr
    assert spoken[1].startswith("dgemm_ooc: on rank 1 (")
    assert_one_sentence(spoken[0], *says)
    assert os.listdir(source.parent) == ["input.h5"]


def at_work(source):
    """A slow run, when it has written something."""
    process = start_late(source.name, "-q", "--tile", "40x40x16", late=20, cwd=source.parent)
    wait_until(lambda: part_of(source).exists() and part_of(source).stat().st_blocks, process)
    return process


def test_two_runs_on_one_output(tmp_path):
    source = tmp_path / "input.h5"
    operands(source, 400, 400, 300)
    with at_work(source) as first:
        done = run("dgemm_ooc", source.name, "--tile", "50x50x16", cwd=tmp_path)
        checked = run("dgemm_ooc", source.name, "--check-only", cwd=tmp_path)
        first.kill()
    assert done.returncode == checked.returncode == INPUT
    assert_one_sentence(done.stderr, "another run is ", f"process {first.pid} on ", "choose another with --output")
    assert_one_sentence(checked.stderr, "C is not complete in input-C.h5.part", "give the command that makes it")


@pytest.mark.parametrize("change, says", [
    (["--alpha", "2"], "alpha was 1.0 and is 2.0 now"), (["--transb", "T"], " was "), ([], " was ")],
    ids=["alpha", "transb", "input"])
def test_resumed_with_something_else(tmp_path, change, says):
    """What was saved is not lost by a mistake."""
    source = tmp_path / "input.h5"
    operands(source, 300, 300, 300)
    with at_work(source) as process:
        process.send_signal(signal.SIGUSR2)
        assert process.wait(PATIENCE) == 75
    if not change:
        with h5py.File(source, "a") as file:
            file["A"][0, 0] = 7
    before = snapshot(tmp_path)
    done = run("dgemm_ooc", source.name, *change, cwd=tmp_path)
    assert done.returncode == INPUT and snapshot(tmp_path) == before
    assert_one_sentence(done.stderr, "input-C.h5.journal is the journal of another product", says,
                        "give --restart never")


def test_input_that_changed_after_the_end(source):
    how = {"cwd": source.parent}
    assert run("dgemm_ooc", source.name, **how).returncode == 0
    with h5py.File(source, "a") as file:
        file["A"][0, 0] = 7
    done = run("dgemm_ooc", source.name, **how)
    assert done.returncode == INPUT
    assert_one_sentence(done.stderr, "the output input-C.h5 exists", "give --force to replace it", "changed operands")
