"""A run that is stopped, or whose disk fails, leaves neither an output nor a file that could be taken for one;
leftovers do not disturb the next run."""
import os
import re
import signal
import time

import numpy as np
import pytest

from launch import BUILD, FAULTY, PATIENCE, WAYS, run, start
from matrices import at_work, catches, multiply, operands, output_of, read, snapshot, sparse, wait_until

SIZE = (1500, 1500, 500)
SLOW = ["--tile", "16x16x16"]  # many small steps, so that a run takes many seconds


@pytest.fixture
def source(tmp_path):
    operands(tmp_path / "input.h5", *SIZE)
    return tmp_path / "input.h5"


def interrupt(source, number, **how):
    """Send a signal while C is being written; return the remaining files and the exit code."""
    before = snapshot(source.parent)
    with start("dgemm_ooc", source, *SLOW, **how) as process:
        at_work(source, process)
        wait_until(output_of(source).with_name("input-C.h5.journal").exists, process)
        process.send_signal(number)
        out, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode != 0 and "RESULT" not in out
    after = snapshot(source.parent)
    assert before.items() <= after.items()
    return after.keys() - before.keys()


def test_kill_leaves_a_part_that_the_next_run_replaces(source):
    assert interrupt(source, signal.SIGKILL) == {"input-C.h5.part", "input-C.h5.journal"}
    multiply(source)
    assert read(output_of(source)).shape == SIZE[:2]
    assert not list(source.parent.glob("*.part*")) and not list(source.parent.glob("*.journal"))


@pytest.fixture
def indivisible(tmp_path):
    """Operands and a single tile, whose product on one CPU takes far longer than two signals and cannot be
    checkpointed in between."""
    source = sparse(tmp_path / "input.h5", "A", (6000, 8000), "f8")
    return sparse(source, "B", (8000, 6000), "f8"), "--tile", "6000x6000x8000"


def signalled_twice(number, seconds, source, *options, **how):
    """Send a signal twice during the work."""
    with start("dgemm_ooc", source, *options, **how) as process:
        at_work(source, process)
        time.sleep(0.5)
        process.send_signal(number)
        time.sleep(seconds)
        process.send_signal(number)
        out, _ = process.communicate(timeout=PATIENCE)
    assert "RESULT" not in out
    return process.returncode


def test_a_save_that_is_asked_for_while_mpi_starts(source):
    """Whenever it comes, the run ends as without it: an MPI may have other plans for SIGUSR1."""
    for attempt in range(20):
        with start("dgemm_ooc", source, "--force", "-q") as process:
            wait_until(lambda: catches(process.pid, signal.SIGUSR1), process)
            time.sleep(attempt * 0.002)
            process.send_signal(signal.SIGUSR1)
            _, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0 and not err, err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda n: n.name)
def test_a_signal_again_ends_it_at_once(indivisible, number):
    """No checkpoint was taken, so no file is left behind."""
    folder = indivisible[0].parent
    before = snapshot(folder)
    cpu = str(min(os.sched_getaffinity(0)))
    assert signalled_twice(number, 2.1, *indivisible, wrapper=["taskset", "-c", cpu]) == -number
    assert snapshot(folder) == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda n: n.name)
def test_a_signal_sent_twice_is_one(source, number):
    """Slurm sends it twice when it preempts a job."""
    assert signalled_twice(number, 0.01, source, *SLOW) == 75
    assert output_of(source).with_name("input-C.h5.journal").exists()


# Disks that fail, by fault injection; with a launcher, that of rank 1 fails.

@pytest.fixture
def faulty():
    if not (BUILD / FAULTY).exists():
        pytest.skip("the program with faults is not built: make test")
    return FAULTY


NO_FALLOCATE = "fallocate:eopnotsupp@1+"  # as on a file system without it
ON_RANK_1 = {"DGEMM_OOC_TEST_FAULT_RANK": "1"}
FULL, BROKEN = "pwrite:enospc@{0}+,madvise:efault@{0}+", "pread:eio@{0}+"
SHORT = "pread:eintr%20,pread:short%100,pwrite:short%100,madvise:eintr%20"
BY_OFFSET = pytest.mark.parametrize("way", [way for way in WAYS if way != "hdf5"])


@pytest.mark.singly
@BY_OFFSET
@pytest.mark.parametrize("ranks", [0, 3])
@pytest.mark.parametrize("fault, code, words", [(FULL, 4, "No space left"), (BROKEN, 1, "Input/output error")],
                         ids=["full", "broken"])
def test_failing_disk(source, faulty, way, ranks, fault, code, words):
    before = snapshot(source.parent)
    done = run(faulty, source, "--tile", "16x16x500", "--io", way, ranks=ranks, **ON_RANK_1,
               DGEMM_OOC_TEST_FAULTS=f"{NO_FALLOCATE},{fault.format(500)}")
    assert done.returncode == code, done.stderr
    assert len(re.findall(f"dgemm_ooc: .*{words}", done.stderr)) == 1, done.stderr
    assert ranks == 0 or "on rank 1" in done.stderr
    assert "RESULT" not in done.stdout and snapshot(source.parent) == before


@pytest.mark.parametrize("attempt", range(5))
def test_the_disk_of_all_ranks_is_full(source, faulty, attempt):
    """Each rank has a complaint, and may receive others' before or after it; only one is printed."""
    before = snapshot(source.parent)
    done = run(faulty, source, "--tile", "16x16x500", ranks=4,
               DGEMM_OOC_TEST_FAULTS=f"{NO_FALLOCATE},{FULL.format(300)}")
    assert done.returncode == 4, done.stderr
    assert len(re.findall("dgemm_ooc: .*No space left", done.stderr)) == 1, done.stderr
    assert "RESULT" not in done.stdout and snapshot(source.parent) == before


@pytest.mark.parametrize("after", [4, 8, 12])
def test_a_reader_fails_while_its_rank_is_busy_writing(tmp_path, faulty, after):
    """The other rank is notified first, and has no complaint of its own."""
    source = tmp_path / "input.h5"
    operands(source, 4000, 1000, 16)
    done = run(faulty, source, "--alpha", 0, "--beta", 2, "--tile", "64x1000x16", "--grid", "2x1",
               "--io", "buffered", ranks=2, **ON_RANK_1,
               DGEMM_OOC_TEST_FAULTS=f"{BROKEN.format(after)},pwrite:delay%100")
    assert done.returncode == 1 and "RESULT" not in done.stdout
    assert "Input/output error" in done.stderr and "on rank 1" in done.stderr
    assert not output_of(source).exists()


@BY_OFFSET
def test_short_counts_and_interruptions_are_continued(tmp_path, faulty, way):
    source = tmp_path / "input.h5"
    a, b, _ = operands(source, 70, 90, 110)
    done = run(faulty, source, "--tile", "30x40x32", "--io", way,
               DGEMM_OOC_TEST_FAULTS=f"{NO_FALLOCATE},{SHORT}")
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(read(output_of(source)), a @ b, rtol=1e-12, atol=1e-12)
