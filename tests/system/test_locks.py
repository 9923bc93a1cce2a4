"""Several runs for one output on a file system without locks: a lock file replaces them, one run wins, and no
run removes or publishes the files of another."""
import errno
import os
import shutil
import signal
import socket
import time
from pathlib import Path

import pytest

from launch import PATIENCE, run, start
from matrices import (assert_whole, at_work, names, operands, output_of, part_of, read, sparse, start_late,
                      wait_until)

INPUT, RUNTIME = 3, 1
SLOW = ["--tile", "40x40x16"]
NUMBERS = [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL]


@pytest.fixture
def without(no_locks):
    return no_locks(errno.ENOLCK)


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    source = tmp_path_factory.mktemp("reference") / "input.h5"
    operands(source, 500, 400, 300)
    assert run("dgemm_ooc", source).returncode == 0
    return source, read(output_of(source))


@pytest.fixture
def source(reference, tmp_path):
    return Path(shutil.copy2(reference[0], tmp_path / "input.h5"))


@pytest.fixture
def lock(source):
    return source.with_name("input-C.h5.lock")


@pytest.mark.parametrize("number", NUMBERS, ids=errno.errorcode.get)
def test_a_run_without_locks(source, reference, no_locks, number):
    done = run("dgemm_ooc", source, **no_locks(number))
    assert done.returncode == 0, done.stderr
    said = done.stderr.splitlines()
    assert len(said) == 1 and "cannot be locked" in said[0] and "input-C.h5.lock is used as its lock" in said[0]
    assert_whole(source, reference)


def test_ranks_without_locks(source, reference, without):
    done = run("dgemm_ooc", source, ranks=3, **without)
    assert done.returncode == 0 and done.stderr.count("is used as its lock") == 1, done.stderr
    assert_whole(source, reference)


@pytest.mark.singly
@pytest.mark.parametrize("number", NUMBERS[:2], ids=errno.errorcode.get)
@pytest.mark.parametrize("verify", ["off", "online"])
def test_one_run_comes_while_another_is_at_work(source, reference, no_locks, verify, number):
    how = no_locks(number)
    with start_late(source, "--verify", verify, *SLOW, **how) as first:
        at_work(source, first)
        second = run("dgemm_ooc", source, "--verify", verify, **how)
        assert first.poll() is None
        first.communicate(timeout=PATIENCE)
    assert first.returncode == 0 and second.returncode == INPUT
    assert f"another run is writing this output: process {first.pid} on {socket.gethostname()}" \
        in second.stderr
    assert_whole(source, reference)


@pytest.mark.singly
@pytest.mark.parametrize("verify", ["off", "online"])
@pytest.mark.parametrize("count", [2, 3])
def test_runs_that_start_together(source, reference, without, count, verify):
    runs = [start_late(source, "--verify", verify, *SLOW, **without) for _ in range(count)]
    said = [process.communicate(timeout=PATIENCE)[1] for process in runs]
    codes = [process.returncode for process in runs]
    assert codes.count(0) >= 1 and set(codes) <= {0, INPUT}, said
    assert_whole(source, reference)


def test_runs_that_take_over_together(source, reference, without, lock):
    """The lock is left from a killed run."""
    lock.write_text(f"2147483646 {socket.gethostname()} then {boot()} {space()} 1\n")
    runs = [start_late(source, *SLOW, **without) for _ in range(3)]
    said = [process.communicate(timeout=PATIENCE)[1] for process in runs]
    codes = [process.returncode for process in runs]
    assert codes.count(0) >= 1 and set(codes) <= {0, INPUT}, said
    assert_whole(source, reference)


@pytest.mark.parametrize("saved", [False, True])
def test_a_killed_run_s_lock_is_taken_over(source, reference, without, lock, saved):
    journal = source.with_name("input-C.h5.journal")
    with start_late(source, *SLOW, *["--checkpoint", "0.05s"] * saved, **without) as process:
        at_work(source, process)
        wait_until(lambda: not saved or '"left"' in journal.read_text(), process)
        process.kill()
        process.communicate()
    assert lock.exists() and part_of(source).exists()
    done = run("dgemm_ooc", source, **without)
    assert done.returncode == 0, done.stderr
    assert f"{lock} belongs to a run that has died (process {process.pid} on " in done.stderr
    assert ("Restart " in done.stdout) == saved
    assert_whole(source, reference)


def test_a_signal_again_leaves_no_lock(tmp_path, without):
    """No other file is left either, since no checkpoint was taken."""
    source = tmp_path / "input.h5"
    for name in "AB":
        sparse(source, name, (6000, 6000), "f8")
    with start("dgemm_ooc", source, "--tile", "6000x6000x6000", OMP_NUM_THREADS="1", **without) as process:
        at_work(source, process)
        assert names(source) > {"input-C.h5.lock"}
        time.sleep(0.5)
        process.terminate()
        time.sleep(2.1)
        assert process.poll() is None
        process.terminate()
        process.communicate(timeout=PATIENCE)
    assert process.returncode == -signal.SIGTERM and names(source) == {"input.h5"}


def boot():
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def space():
    return os.stat("/proc/self/ns/pid").st_ino


def ticks(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


ELSEWHERE = "00000000-0000-0000-0000-000000000000"


@pytest.mark.parametrize("text, age, holds", [
    (lambda: f"4711 elsewhere then {ELSEWHERE} 1 1\n", 0, True),
    (lambda: f"4711 elsewhere then {ELSEWHERE} 1 1\n", 100, True),
    (lambda: f"4711 elsewhere then {ELSEWHERE} 1 1\n", 200, False),
    (lambda: f"{os.getpid()} here then {boot()} {space()} {ticks(os.getpid())}\n", 9999, True),
    (lambda: f"{os.getpid()} here then {boot()} {space()} {ticks(os.getpid()) - 1}\n", 0, False),
    (lambda: f"{os.getpid()} here then {boot()} {space() + 1} 1\n", 0, True),
], ids=["elsewhere", "elsewhere for long", "elsewhere, dead", "here", "a number used anew", "in a container"])
def test_what_a_lock_holds_for(source, reference, without, lock, text, age, holds):
    lock.write_text(text())
    then = time.time() - age
    os.utime(lock, (then, then))
    done = run("dgemm_ooc", source, **without)
    if not holds:
        assert done.returncode == 0 and "has died" in done.stderr, done.stderr
        assert_whole(source, reference)
        return
    assert done.returncode == INPUT and "another run is writing this output" in done.stderr
    assert len(done.stderr.splitlines()) == 1 and lock.read_text() == text()
    assert names(source) == {"input.h5", "input-C.h5.lock"}


def test_a_lock_counts_where_there_are_locks(source, lock):
    """The lock is from a node that has mounted the file system without locks."""
    lock.write_text(f"4711 elsewhere then {ELSEWHERE} 1 1\n")
    done = run("dgemm_ooc", source)
    assert done.returncode == INPUT and "process 4711 on elsewhere, since then" in done.stderr


@pytest.mark.parametrize("plant", [os.mkfifo, lambda path: path.symlink_to(path.with_name("input.h5"))])
def test_a_lock_that_is_no_file(source, without, lock, plant):
    plant(lock)
    done = run("dgemm_ooc", source, **without)
    assert done.returncode == INPUT and "is a link, or no regular file; remove it" in done.stderr
    assert names(source) == {"input.h5", "input-C.h5.lock"}


NO_LOCK = "is not a run's lock file"
OWNER = f"4711 elsewhere then {ELSEWHERE} 1 1"


@pytest.mark.singly
@pytest.mark.parametrize("age", [0, 9999])
@pytest.mark.parametrize("text, says", [
    ("", "is empty: another run is starting, or died while it started"), ("my list of locks\n", NO_LOCK),
    ("4711 elsewhere", NO_LOCK), (OWNER, NO_LOCK), (f"{OWNER}\nmore\n", NO_LOCK), (f" {OWNER}\n", NO_LOCK),
    (f"0{OWNER}\n", NO_LOCK), (f"{OWNER[4:]}\n", NO_LOCK), ("no such\n" * 1000, NO_LOCK)])
@pytest.mark.parametrize("locks", [True, False])
def test_a_file_that_is_no_lock_is_not_removed(source, no_locks, lock, locks, text, says, age):
    """However old it is.  One that is empty may be of a run that is about to write it."""
    lock.write_text(text)
    then = time.time() - age
    os.utime(lock, (then, then))
    done = run("dgemm_ooc", source, **({} if locks else no_locks(errno.ENOLCK)))
    assert done.returncode == INPUT and f"{lock} {says}" in done.stderr, done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert names(source) == {"input.h5", "input-C.h5.lock"} and lock.read_text() == text


def test_a_lock_is_kept_fresh(source, without, lock):
    with start_late(source, *SLOW, late="100", **without) as process:
        at_work(source, process)
        os.utime(lock, (0, 0))
        wait_until(lambda: lock.stat().st_mtime > time.time() - 100, process)
        process.kill()


@pytest.mark.parametrize("saved", [False, True])
def test_a_run_whose_lock_was_taken_over_touches_nothing(source, without, lock, saved):
    """The run may have been suspended for long."""
    other = f"4711 elsewhere then {ELSEWHERE} 1 1\n"
    with start_late(source, *SLOW, *["--checkpoint", "0.2s"] * saved, **without) as process:
        at_work(source, process)
        lock.write_text(other)
        sums = source.with_name("input-C.h5.part.sums0")
        sums.write_text("another's")
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == RUNTIME, err
    assert ("has taken" if saved else "does not belong to this run any more") in err
    assert lock.read_text() == other and not output_of(source).exists()
    assert part_of(source).exists() and source.with_name("input-C.h5.journal").exists() and sums.exists()


@pytest.mark.parametrize("verify", ["off", "online"])
def test_a_part_that_was_replaced_gets_no_name(source, verify):
    """Another run replaced it, because locks failed; this is detected with locks, too."""
    with start_late(source, "--verify", verify, *SLOW) as process:
        at_work(source, process)
        wait_until(lambda: len(part_of(source).read_bytes().replace(b"\0", b"")) > 1 << 15, process)
        other = source.with_name("other")
        shutil.copy(part_of(source), other)
        other.replace(part_of(source))
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == RUNTIME, err
    assert not output_of(source).exists() and part_of(source).exists()
