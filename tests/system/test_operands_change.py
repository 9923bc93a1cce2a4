"""Operands that change while they are read: a product of mixed data does not get the final name, and the
complaint says what has changed; changes without effect on the operands are accepted."""
import os
import re
import signal

import h5py
import numpy as np
import pytest

from launch import BUILD, FAULTY, PATIENCE, run, start
from matrices import multiply, output_of, part_of, random, read, start_late, wait_until, write
from ranks import pids
from test_bad_input import INPUT
from test_verify import VERIFY

M, N, K = 400, 320, 400
SLOW = ["--tile", "40x40x16"]
LARGE = 5000  # columns of B, most of which are not sampled
SOON = 15  # seconds; the run would last a minute


def b_of(source):
    return source.with_name("b.h5")


def operands_apart(source, m, n, k):
    write(b_of(source), B=random((k, n)))
    write(source, A=random((m, k)))
    with h5py.File(source, "a") as file:
        file["B"] = h5py.ExternalLink("b.h5", "B")


@pytest.fixture
def source(tmp_path):
    """A and B are in separate files, so that one can be changed without the other."""
    source = tmp_path / "input.h5"
    operands_apart(source, M, N, K)
    return source


def overwrite(path):
    with h5py.File(path, "r+") as file:
        file["B"][:] = 7


def replace(path):
    write(path.with_name("new.h5"), B=random((K, N), seed=9)).replace(path)


def truncate(path):
    os.truncate(path, path.stat().st_size // 2)


def grow(path):
    with path.open("ab") as file:
        file.write(b"more")


def overwrite_unnoticed(path):
    before = path.stat()
    overwrite(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


CHANGES = {overwrite: r"its modification time was [\d-]+ [\d:.]+ and is [\d-]+ [\d:.]+;",
           os.utime: r"its modification time was .* and is .*;",
           replace: r"its (size was \d+ bytes and is|modification time was)",
           truncate: r"its size was \d+ bytes and is \d+;",
           grow: r"its size was \d+ bytes and is \d+;",
           os.unlink: r"it cannot be found any more \(No such file or directory\)",
           overwrite_unnoticed: r"its size and modification time are the same, but its content has changed;"}


def begun(source):
    """Whether some tiles of C have been written."""
    part = part_of(source)
    return part.exists() and len(part.read_bytes().replace(b"\0", b"")) > (1 << 18)


def begin(source, *options, late="2", tile=SLOW, **how):
    """Start a slow run; return when it is halfway."""
    process = start_late(source, *tile, *options, late=late, **how)
    try:
        wait_until(lambda: begun(source), process)
    except BaseException:
        process.kill()
        raise
    return process


def assert_given_up(process, how, file="b.h5", operand="B is", timeout=PATIENCE):
    with process:
        try:
            out, err = process.communicate(timeout=timeout)
        except BaseException:
            process.kill()
            raise
    assert process.returncode == INPUT, out + err
    assert "RESULT" not in out
    complaint = next(line for line in err.splitlines() if line.startswith("dgemm_ooc: "))
    assert re.search(rf"/{file}, which {operand} read from, changed while it was in use: {how}", complaint)
    assert err.count("changed while it was in use") == 1, err


@pytest.mark.singly
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
@pytest.mark.parametrize("ranks", [0, 3])
def test_a_change_in_the_middle(source, change, ranks):
    process = begin(source, ranks=ranks)
    running = pids(process, ranks)
    for number in signal.SIGSTOP, signal.SIGCONT:  # nobody looks while it is changed
        for pid in running:
            os.kill(pid, number)
        if number == signal.SIGSTOP:
            change(b_of(source))
    assert_given_up(process, CHANGES[change])
    assert {path.name for path in source.parent.iterdir()} <= {"input.h5", "b.h5"}


def test_a_change_is_noticed_soon(source):
    """The change is noticed before all has been multiplied."""
    process = begin(source, late="50")
    overwrite(b_of(source))
    assert_given_up(process, CHANGES[overwrite], timeout=SOON)


@pytest.mark.parametrize("options", [["--alpha", "2"], ["--beta", "1", "-c", "D"]], ids=str)
def test_files_of_several_operands(source, options):
    write(source, D=random((M, N)))
    process = begin(source, *options)
    os.utime(source)
    names = "A and C are" if "-c" in options else "A is"
    assert_given_up(process, CHANGES[os.utime], "input.h5", names)


@pytest.mark.parametrize("by_link", [False, True])
def test_what_a_virtual_dataset_is_drawn_from(source, by_link):
    virtual = source.with_name("virtual.h5")
    layout = h5py.VirtualLayout((K, N), "f8")
    layout[:] = h5py.VirtualSource("." if by_link else "b.h5", "L" if by_link else "B", (K, N))
    with h5py.File(virtual, "w") as file:
        file["L"] = h5py.ExternalLink("b.h5", "B")
        file.create_virtual_dataset("B", layout)
    process = begin(source, "-b", f"{virtual}:/B")
    replace(b_of(source))
    assert_given_up(process, CHANGES[replace])


def saved(source):
    journal = output_of(source).with_name(output_of(source).name + ".journal")
    return journal.exists() and b'"left"' in journal.read_bytes()


def test_what_was_saved_before_is_for_the_operands_as_they_were(source):
    """The saved state is refused with changed operands, and accepted with the original ones."""
    kept, status = b_of(source).read_bytes(), b_of(source).stat()
    multiply(source, "-o", source.with_name("expected.h5"))
    process = begin(source, "--checkpoint", "0.2s")
    wait_until(lambda: saved(source), process)
    overwrite(b_of(source))
    assert_given_up(process, CHANGES[overwrite])
    assert part_of(source).exists() and not output_of(source).exists()
    done = run("dgemm_ooc", source)
    assert done.returncode == INPUT and "B's file's modification time" in done.stderr
    b_of(source).write_bytes(kept)
    os.utime(b_of(source), ns=(status.st_atime_ns, status.st_mtime_ns))
    done = run("dgemm_ooc", source)
    assert done.returncode == 0 and "Restart     " in done.stdout, done.stderr
    assert read(output_of(source)).tobytes() == read(source.with_name("expected.h5")).tobytes()


def flip_unnoticed(path):
    """Flip one bit of an element in the first column, where no sample is taken, and restore the time."""
    before = path.stat()
    with h5py.File(path) as file:
        at = file["B"].id.get_offset() + 2 * LARGE * 8 + 6
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 16]))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def stop_with_something_saved(source, m, n, k):
    operands_apart(source, m, n, k)
    with begin(source, "--checkpoint", "0.2s") as process:
        wait_until(lambda: saved(source), process)
        process.send_signal(signal.SIGUSR2)
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 75, out + err


@pytest.fixture
def corrupted(tmp_path):
    """A stopped run, one operand of which was corrupted silently."""
    source = tmp_path / "input.h5"
    stop_with_something_saved(source, M, LARGE, K)
    flip_unnoticed(b_of(source))
    return source


@pytest.mark.parametrize("ranks", [0, 2])
def test_a_change_between_runs_that_no_sample_shows(corrupted, ranks):
    """The runs have read different operands, so C is a product of neither version."""
    done = run("dgemm_ooc", corrupted, ranks=ranks)
    assert "several runs computed parts of C, so the files are read back" in done.stdout, done.stderr
    assert done.returncode == VERIFY and "the full check failed" in done.stderr, done.stderr
    assert done.stderr.count("the same command starts from the beginning") == 1 and "PASSED" not in done.stdout
    assert {path.name for path in corrupted.parent.iterdir()} == {"input.h5", "b.h5"}
    again = run("dgemm_ooc", corrupted, ranks=ranks)
    assert again.returncode == 0 and "read back" not in again.stdout, again.stderr


@pytest.mark.parametrize("ranks", [0, 2, 3])
def test_a_change_in_the_middle_that_no_sample_shows(tmp_path, ranks):
    source = tmp_path / "input.h5"
    operands_apart(source, M, LARGE, K)
    with begin(source, "--verify", "full", tile=["--tile", "40x400x100"], ranks=ranks) as process:
        flip_unnoticed(b_of(source))
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == VERIFY and "the full check failed" in err, out + err
    assert {path.name for path in tmp_path.iterdir()} == {"input.h5", "b.h5"}


def test_trust_does_without_reading_back(corrupted):
    done = run("dgemm_ooc", corrupted, "--restart", "trust")
    assert done.returncode == 0 and "read back" not in done.stdout, done.stderr


def test_without_memory_to_read_back_the_risk_is_said(tmp_path):
    source = tmp_path / "input.h5"
    stop_with_something_saved(source, 100000, 60, 16)
    done = run("dgemm_ooc", source, "--host-memory", "7M")
    assert done.returncode == 0 and "PASSED" in done.stdout, done.stderr
    assert "is not detected: the full check needs at least --host-memory" in done.stderr


def begin_check(source, *options, log, after):
    """Start a slow run, and return after that many delayed reads."""
    if not (BUILD / FAULTY).exists():
        pytest.skip("the program with faults is not built: make test")
    process = start(FAULTY, source, "--io", "buffered", *options,
                    DGEMM_OOC_TEST_FAULTS="pread:delay%100", DGEMM_OOC_TEST_FAULT_LOG=str(log))
    wait_until(lambda: log.exists() and len(log.read_text().splitlines()) > after, process)
    return process


@pytest.mark.parametrize("change", [overwrite, truncate, overwrite_unnoticed],
                         ids=lambda change: change.__name__)
def test_a_change_while_all_is_checked(source, change):
    """There is no verdict, whatever the check has found."""
    multiply(source)
    process = begin_check(source, "--check-only", "--host-memory", "1M", log=source.with_name("log"),
                          after=150)
    change(b_of(source))
    assert_given_up(process, CHANGES[change])
    assert output_of(source).exists()


def test_what_is_no_change(source):
    process = begin(source)
    b = b_of(source)
    b.read_bytes()
    os.utime(b, ns=(0, b.stat().st_mtime_ns))  # the access time
    b.chmod(0o400)
    b.with_name("link.h5").hardlink_to(b)
    with h5py.File(b, "r") as file:
        file["B"][()]
    with process:
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0 and "PASSED" in out, out + err
    np.testing.assert_allclose(read(output_of(source)), read(source, "A") @ read(b, "B"), atol=1e-9)
