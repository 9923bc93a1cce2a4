"""Limits of the system that the process itself has (ulimit): each is met with a sentence, or not at all."""
import os
import signal

import numpy as np
import pytest

from launch import PATIENCE, SANITIZED, run
from matrices import at_work, operands, output_of, product, read, start_late

ENDED = "dgemm_ooc: a library has ended this process"


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "input.h5"
    return path, *operands(path, 300, 200, 250)


def limited(source, limits, *options, **env):
    return run("dgemm_ooc", source, *options, wrapper=["sh", "-c", f'{limits}; exec "$@"', "sh"], **env)


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


@pytest.mark.skipif(SANITIZED, reason="a sanitizer needs terabytes of addresses")
@pytest.mark.parametrize("threads, step", [(2, 40_000), (64, 200_000)])
def test_few_addresses(source, threads, step):
    """With two threads the program's own cannot be started, with many libgomp's, which ends the process then: each
    time with a sentence, and nothing is left."""
    path, a, b, _ = source
    said = set()
    for kilobytes in range(200_000, 1_000_000, step):
        done = limited(path, f"ulimit -v {kilobytes}", OMP_NUM_THREADS=str(threads))
        if done.returncode == 0:
            np.testing.assert_allclose(read(output_of(path)), product(a, b), rtol=1e-12, atol=1e-12)
            output_of(path).unlink()
        elif "error while loading shared libraries" not in done.stderr:
            assert done.returncode == 4 and "dgemm_ooc: " in done.stderr, (kilobytes, done.returncode, done.stderr)
            said.add(ENDED in done.stderr)
        assert os.listdir(path.parent) == ["input.h5"], kilobytes
    assert (threads == 64) in said


def test_a_library_that_aborts(source):
    path = source[0]
    with start_late(path, "--tile", "16x16x16", late="20") as process:
        at_work(path, process)
        process.send_signal(signal.SIGABRT)
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == -signal.SIGABRT and ENDED in err
    assert os.listdir(path.parent) == ["input.h5"]
