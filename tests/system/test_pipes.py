"""A log whose reader ends, such as `| head` or a killed tee, does not end a run."""
import os
import signal
import subprocess

import numpy as np
import pytest

from launch import BUILD, PATIENCE, command, environment, run
from matrices import (catches, operands, output_of, part_of, product, read, snapshot, wait_until)

FAILED, STOPPED = 1, 75
SLOW = ["--tile", "16x16x16"]


@pytest.fixture
def problem(tmp_path):
    a, b, _ = operands(tmp_path / "input.h5", 300, 310, 320)
    return tmp_path / "input.h5", product(a, b)


def into_a_closed_pipe(*args, stderr=subprocess.STDOUT, program="dgemm_ooc"):
    """Start the program with a log that has no reader any more."""
    reader, writer = os.pipe()
    os.close(reader)
    try:  # Python ignores SIGPIPE, and restores it for its children
        return subprocess.Popen(command(program, *args), stdout=writer, stderr=stderr, text=True,
                                env=environment(DGEMM_OOC_DEVICE="cpu"))
    finally:
        os.close(writer)


def assert_is_product(source, right):
    assert np.allclose(read(output_of(source)), right, rtol=0, atol=1e-9)
    assert snapshot(source.parent).keys() == {"input.h5", "input-C.h5"}


@pytest.mark.parametrize("options", [[], ["-q"], ["-v", "--progress", "always", *SLOW],
                                     ["--verify", "full", "--checkpoint", "0.001s"]], ids=" ".join)
def test_it_comes_to_its_end(problem, options):
    source, right = problem
    with into_a_closed_pipe(source, *options) as process:
        assert process.wait(timeout=PATIENCE) == FAILED  # the verdict on C could not be printed
    assert_is_product(source, right)
    assert run("dgemm_ooc", source).returncode == 0  # C is complete


def test_it_is_said_where_it_can_be(problem):
    source, right = problem
    with into_a_closed_pipe(source, stderr=subprocess.PIPE) as process:
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == FAILED
    assert "cannot write to standard output; C is complete" in err
    assert_is_product(source, right)


def test_only_standard_error_is_closed(problem):
    source, right = problem
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([BUILD / "dgemm_ooc", source, "--progress", "always", *SLOW], stderr=writer,
                          stdout=subprocess.PIPE, text=True, env=environment(DGEMM_OOC_DEVICE="cpu"))
    os.close(writer)
    assert done.returncode == 0 and "PASSED" in done.stdout
    assert_is_product(source, right)


@pytest.mark.parametrize("closed", [(1,), (1, 2), (0, 1, 2)], ids=str)
def test_streams_that_are_closed(problem, closed):
    """No file takes their place, to which what is printed would go."""
    source, right = problem
    started = ["sh", "-c", f'exec "$@" {" ".join(f"{stream}>&-" for stream in closed)}', "sh"]
    done = subprocess.run([*started, BUILD / "dgemm_ooc", source, *SLOW], stderr=subprocess.PIPE, text=True,
                          env=environment(DGEMM_OOC_DEVICE="cpu"))
    assert done.returncode == 1 and ("cannot write to standard output" in done.stderr) == (2 not in closed)
    assert_is_product(source, right)


def test_it_saves_and_goes_on(tmp_path):
    source = tmp_path / "input.h5"
    a, b, _ = operands(source, 1200, 1000, 1100)
    with into_a_closed_pipe(source, *SLOW) as process:
        wait_until(lambda: part_of(source).exists() and catches(process.pid, signal.SIGTERM), process)
        process.send_signal(signal.SIGUSR2)
        assert process.wait(timeout=PATIENCE) == STOPPED
    done = run("dgemm_ooc", source)
    assert done.returncode == 0, done.stderr
    assert_is_product(source, product(a, b))


def test_what_only_prints_ends_with_its_reader(problem):
    source, _ = problem
    with into_a_closed_pipe("info", source, program="h5mat") as process:
        assert process.wait(timeout=PATIENCE) == -signal.SIGPIPE
