"""A run that is stopped, or that its disk fails, leaves no output and nothing that could be taken
for one; the next run does not mind what it left."""
import os
import re
import shutil
import signal
import subprocess
import time

import numpy as np
import pytest

from launch import SANITIZED, WAYS, run, start
from matrices import multiply, operands, output_of, part_of, read, snapshot, sparse, wait_until

SIZE = (1500, 1500, 500)
SLOW = ["--tile", "16x16x16"]  # so many small steps that this takes many seconds


@pytest.fixture
def source(tmp_path):
    operands(tmp_path / "input.h5", *SIZE)
    return tmp_path / "input.h5"


def interrupt(source, number, **how):
    """Send a signal while C is being written; return what was left behind, and the exit code."""
    before = snapshot(source.parent)
    with start("dgemm_ooc", source, *SLOW, **how) as process:
        wait_until(lambda: part_of(source).exists() and part_of(source).stat().st_blocks, process)
        time.sleep(0.3)
        process.send_signal(number)
        out, _ = process.communicate(timeout=60)
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
    """Operands, and a tile whose product takes one CPU far longer than the two signals, in which
    nothing can be saved."""
    source = sparse(tmp_path / "input.h5", "A", (6000, 8000), "f8")
    return sparse(source, "B", (8000, 6000), "f8"), "--tile", "6000x6000x8000"


def signalled_twice(number, seconds, source, *options, **how):
    """In the middle of the work."""
    with start("dgemm_ooc", source, *options, **how) as process:
        wait_until(lambda: part_of(source).exists() and part_of(source).stat().st_blocks, process)
        time.sleep(0.5)
        process.send_signal(number)
        time.sleep(seconds)
        process.send_signal(number)
        out, _ = process.communicate(timeout=60)
    assert "RESULT" not in out
    return process.returncode


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda n: n.name)
def test_a_signal_again_ends_it_at_once(indivisible, number):
    """Nothing was saved, so nothing is left."""
    folder = indivisible[0].parent
    before = snapshot(folder)
    cpu = str(min(os.sched_getaffinity(0)))
    assert signalled_twice(number, 2.1, *indivisible, wrapper=["taskset", "-c", cpu]) == -number
    assert snapshot(folder) == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda n: n.name)
def test_a_signal_sent_twice_is_one(source, number):
    """As Slurm does when it preempts a job."""
    assert signalled_twice(number, 0.01, source, *SLOW) == 75
    assert output_of(source).with_name("input-C.h5.journal").exists()


# Failing disks: a library that comes between the program and the system.

FAULTS = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

typedef ssize_t read_function(int, void *, size_t, off_t);
typedef ssize_t write_function(int, const void *, size_t, off_t);
typedef int advise_function(void *, size_t, int);
enum { POPULATE_WRITE = 23 };
static int writes, reads;

static int is_due(const char *name, int count) /* under a launcher rank 1 has the bad disk */
{
    const char *text = getenv(name), *rank = getenv("OMPI_COMM_WORLD_RANK");
    rank = rank ? rank : getenv("PMI_RANK");
    return text && count >= atoi(text) && (!getenv("FAULT_RANKS") || (rank && atoi(rank) == 1));
}

int fallocate(int fd, int mode, off_t offset, off_t bytes) /* of a file system that has none */
{
    (void)fd, (void)mode, (void)offset, (void)bytes;
    errno = EOPNOTSUPP;
    return -1;
}

ssize_t pwrite(int fd, const void *from, size_t bytes, off_t offset)
{
    static write_function *next;
    next = next ? next : (write_function *)dlsym(RTLD_NEXT, "pwrite");
    if (is_due("FAULT_DISK_FULL", __sync_add_and_fetch(&writes, 1))) {
        errno = ENOSPC;
        return -1;
    }
    if (is_due("FAULT_SLOW", 1))
        usleep(20000);
    return next(fd, from, getenv("FAULT_SHORT") && bytes > 100 ? bytes / 3 : bytes, offset);
}

int madvise(void *at, size_t bytes, int advice) /* pages of a mapping: a write, too */
{
    static advise_function *next;
    next = next ? next : (advise_function *)dlsym(RTLD_NEXT, "madvise");
    if (advice == POPULATE_WRITE && is_due("FAULT_DISK_FULL", __sync_add_and_fetch(&writes, 1))) {
        errno = EFAULT;
        return -1;
    }
    if (advice == POPULATE_WRITE && getenv("FAULT_SHORT") && writes % 5 == 0) {
        errno = EINTR;
        return -1;
    }
    return next(at, bytes, advice);
}

ssize_t pread(int fd, void *to, size_t bytes, off_t offset)
{
    static read_function *next;
    next = next ? next : (read_function *)dlsym(RTLD_NEXT, "pread");
    if (is_due("FAULT_READ_ERROR", __sync_add_and_fetch(&reads, 1))) {
        errno = EIO;
        return -1;
    }
    if (getenv("FAULT_SHORT") && bytes > 100 && reads % 5 == 0) {
        errno = EINTR;
        return -1;
    }
    return next(fd, to, getenv("FAULT_SHORT") && bytes > 100 ? bytes / 3 : bytes, offset);
}
"""


@pytest.fixture(scope="module")
def faults(tmp_path_factory):
    if SANITIZED:
        pytest.skip("sanitizers want to come first themselves")
    if not shutil.which("cc"):
        pytest.skip("no compiler for the library that makes the disk fail")
    library = tmp_path_factory.mktemp("faults") / "faults.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-o", library, "-", "-ldl"], input=FAULTS,
                   text=True, check=True)
    return {"LD_PRELOAD": str(library), "UCX_MEM_EVENTS": "n"}  # MPICH's UCX would come first


BY_OFFSET = pytest.mark.parametrize("way", [way for way in WAYS if way != "hdf5"])


@BY_OFFSET
@pytest.mark.parametrize("ranks", [0, 3])
@pytest.mark.parametrize("fault, code, words", [
    ("FAULT_DISK_FULL", 4, "No space left"),
    ("FAULT_READ_ERROR", 1, "Input/output error"),
])
def test_failing_disk(source, faults, way, ranks, fault, code, words):
    before = snapshot(source.parent)
    one_rank = {"FAULT_RANKS": "one"} if ranks else {}
    done = run("dgemm_ooc", source, "--tile", "16x16x500", "--io", way, ranks=ranks, **faults,
               **one_rank, **{fault: "500"})
    assert done.returncode == code, done.stderr
    assert len(re.findall(f"dgemm_ooc: .*{words}", done.stderr)) == 1, done.stderr
    assert ranks == 0 or "on rank 1" in done.stderr
    assert "RESULT" not in done.stdout and snapshot(source.parent) == before


@pytest.mark.parametrize("attempt", range(5))
def test_the_disk_of_all_ranks_is_full(source, faults, attempt):
    """Each has a complaint, and hears of others' before or after it; one is said."""
    before = snapshot(source.parent)
    done = run("dgemm_ooc", source, "--tile", "16x16x500", ranks=4, **faults, FAULT_DISK_FULL="300",
               timeout=60)
    assert done.returncode == 4, done.stderr
    assert len(re.findall("dgemm_ooc: .*No space left", done.stderr)) == 1, done.stderr
    assert "RESULT" not in done.stdout and snapshot(source.parent) == before


@pytest.mark.parametrize("after", [4, 8, 12])
def test_a_reader_fails_while_its_rank_is_busy_writing(tmp_path, faults, after):
    """The other rank hears of it first, and has no complaint of its own."""
    source = tmp_path / "input.h5"
    operands(source, 4000, 1000, 16)
    done = run("dgemm_ooc", source, "--alpha", 0, "--beta", 2, "--tile", "64x1000x16", "--grid",
               "2x1", "--io", "buffered", ranks=2, **faults, FAULT_RANKS="one", FAULT_SLOW="1",
               FAULT_READ_ERROR=str(after))
    assert done.returncode == 1 and "RESULT" not in done.stdout
    assert "Input/output error" in done.stderr and "on rank 1" in done.stderr
    assert not output_of(source).exists()


@BY_OFFSET
def test_short_counts_and_interruptions_are_continued(tmp_path, faults, way):
    source = tmp_path / "input.h5"
    a, b, _ = operands(source, 70, 90, 110)
    multiply(source, "--tile", "30x40x32", "--io", way, **faults, FAULT_SHORT="1")
    np.testing.assert_allclose(read(output_of(source)), a @ b, rtol=1e-12, atol=1e-12)
