"""Limits of the system that the process itself has (ulimit): each is met with a sentence, or not at all."""
import itertools
import json
import os
import re
import signal

import numpy as np
import pytest

from launch import BUILD, PATIENCE, SANITIZED, run
from matrices import at_work, operands, output_of, product, read, start_late

ENDED = "dgemm_ooc: a library has ended this process"


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "input.h5"
    return path, *operands(path, 300, 200, 250)


def limited(source, limits, *options, **env):
    return run("dgemm_ooc", source, *options, wrapper=["sh", "-c", f'{limits}; exec "$@"', "sh"], **env)


def loadable(source):
    """Kilobytes of addresses with which the libraries, CUDA's too, can just be loaded; with less, the system ends the
    program before its start, by a signal, too."""
    return next(kilobytes for kilobytes in itertools.count(20_000, 4_000)
                if limited(source, f"ulimit -v {kilobytes}", "--version").returncode == 4)


def test_small_stacks_that_may_grow(source):
    path, a, b, _ = source
    done = limited(path, "ulimit -Ss 128", "--verify", "full", OMP_NUM_THREADS="4")
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(read(output_of(path)), product(a, b), rtol=1e-12, atol=1e-12)


@pytest.mark.skipif(SANITIZED, reason="a sanitizer's stacks are larger")
@pytest.mark.parametrize("program, words", [("dgemm_ooc", []), ("dgemm_ooc", ["-n"]), ("h5mat", ["info"])])
def test_small_stacks(source, program, words):
    path = source[0]
    done = run(program, *words, path, wrapper=["sh", "-c", 'ulimit -s 256; exec "$@"', "sh"])
    assert done.returncode == 4 and "a stack may have only 256 KiB here" in done.stderr and "ulimit -s" in done.stderr
    assert os.listdir(path.parent) == ["input.h5"]


def test_few_files(source):
    """MPI would fill the screen, or a dataset be said to need other files."""
    path = source[0]
    for number in 12, 40, 63:
        done = run("dgemm_ooc", path, wrapper=["prlimit", f"--nofile={number}"])
        assert done.returncode == 4 and len(done.stderr.splitlines()) == 1, done.stderr
        assert f"only {number} files may be open here, and 64 are needed: raise the limit (ulimit -n)" in done.stderr
    assert os.listdir(path.parent) == ["input.h5"]
    assert run("dgemm_ooc", path, wrapper=["prlimit", "--nofile=64"]).returncode == 0


@pytest.mark.singly
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("layout", [[], ["--product", "cor"]])
def test_files_that_may_not_grow(source, share, layout):
    """A limit of the size of files is a lack of room, wherever C meets it."""
    path = source[0]
    assert run("dgemm_ooc", path, *layout, "--verify", "off").returncode == 0
    size = int(output_of(path).stat().st_size * share)
    output_of(path).unlink()
    done = run("dgemm_ooc", path, *layout, wrapper=["prlimit", f"--fsize={size}"])
    assert done.returncode == 4 and ("File too large" in done.stderr and output_of(path).name in done.stderr or
                                     "C needs " in done.stderr and "a file may have only " in done.stderr), done.stderr
    assert "ulimit -f" in done.stderr
    assert run("dgemm_ooc", path, *layout).returncode == 0


@pytest.mark.skipif(SANITIZED, reason="a sanitizer needs terabytes of addresses")
@pytest.mark.parametrize("threads", ["2", "64"])
def test_few_addresses(source, threads):
    """Libraries would crash with too few, and libgomp ends the process where it can start no thread: each time with
    a sentence, and nothing is left."""
    path, a, b, _ = source
    least = loadable(path)
    ended, said = set(), ""
    for more in (*range(0, 120_000, 10_000), *range(130_000, 500_000, 40_000), 2_000_000):
        done = limited(path, f"ulimit -v {least + more}", OMP_NUM_THREADS=threads, OMP_STACKSIZE="8M")
        ended.add(done.returncode)
        said += done.stderr
        if done.returncode == 0:
            np.testing.assert_allclose(read(output_of(path)), product(a, b), rtol=1e-12, atol=1e-12)
            output_of(path).unlink()
        else:
            assert done.returncode == 4 and "dgemm_ooc: " in done.stderr, (more, done.returncode, done.stderr)
        assert os.listdir(path.parent) == ["input.h5"], more
    assert ended == {0, 4} and "libraries, and at least" in said
    assert (threads == "64") == ("libgomp: Thread creation failed" in said) == (ENDED in said)


@pytest.mark.skipif(SANITIZED, reason="a sanitizer needs terabytes of addresses")
def test_mpi_is_not_started_with_what_it_crashes_with(source):
    path = source[0]
    for more in 0, 10_000, 20_000:
        done = run("/bin/sh", "-c", f'ulimit -v {loadable(path) + more}; exec "$@"', "sh", BUILD / "dgemm_ooc", path,
                   ranks=2)
        assert done.returncode == 4 and "and at least 80 are needed" in done.stderr, (more, done.stderr)
    assert os.listdir(path.parent) == ["input.h5"]


@pytest.mark.skipif(SANITIZED, reason="a sanitizer needs terabytes of addresses")
@pytest.mark.parametrize("option", ["v", "d"])
def test_limits_of_addresses_are_counted(tmp_path, option):
    """Without a limit of its own a run plans with what they leave; where that is too little, it names them."""
    path, report = tmp_path / "input.h5", tmp_path / "report.json"
    a, b, _ = operands(path, 3000, 1500, 4000)
    ended = []
    for kilobytes in (150_000, 250_000, 350_000, 600_000):
        done = limited(path, f"ulimit -{option} {kilobytes}", "--force", "--report", report, OMP_NUM_THREADS="2")
        ended.append(done.returncode)
        if done.returncode == 0:
            assert json.loads(report.read_text())["machine"]["host_memory_bytes"] < kilobytes << 9
        elif "error while loading shared libraries" not in done.stderr:
            assert done.returncode == 4 and f"ulimit -{option}" in done.stderr, (kilobytes, done.stderr)
    assert ended[-1] == 0
    np.testing.assert_allclose(read(output_of(path)), product(a, b), rtol=1e-12, atol=1e-10)


@pytest.mark.skipif(SANITIZED, reason="a sanitizer needs terabytes of addresses")
def test_more_memory_than_addresses_is_refused(source):
    limit = "ulimit -v 1200000"
    done = limited(source[0], limit, "--host-memory", "1190M", OMP_NUM_THREADS="2")
    assert done.returncode == 4 and "--host-memory of 1.16 GiB is more than this process's own limit leaves" in done.stderr
    most = re.search("give at most ([0-9]+M), or raise ulimit -v, which is 1200000 KiB$", done.stderr, re.M)[1]
    assert limited(source[0], limit, "--host-memory", most, OMP_NUM_THREADS="2").returncode == 0


def test_a_library_that_aborts(source):
    path = source[0]
    with start_late(path, "--tile", "16x16x16", late="20") as process:
        at_work(path, process)
        process.send_signal(signal.SIGABRT)
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == -signal.SIGABRT and ENDED in err
    assert os.listdir(path.parent) == ["input.h5"]
