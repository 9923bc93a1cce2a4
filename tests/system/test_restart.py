"""Runs that are stopped or killed, and resumed by any number of ranks with any tiles, give the bits of an
uninterrupted run.  `make soak` kills many runs at random."""
import fcntl
import json
import os
import re
import shutil
import signal
import socket
import time
from functools import partial

import h5py
import numpy as np
import pytest

from launch import BUILD, FAULTY, PATIENCE, run, start
from matrices import (catches, linked, multiply, operands, output_of, part_of, read, snapshot, start_late,
                      wait_until)
from ranks import pids

M, N, K = 450, 400, 500
SCALARS = ["--alpha", "1.5", "--beta", "-2", "--transa", "T"]
SLOW = ["--tile", "40x40x16"]
LATE = "2"  # of 100 reads: a run that computes for a moment lasts for seconds


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    source = tmp_path_factory.mktemp("restart") / "input.h5"
    operands(source, M, N, K, "f8", "TN")
    finish(source)
    return source, read(output_of(source))


@pytest.fixture
def source(reference, tmp_path):
    """A copy of the operands with its original times, which identify it as the same file."""
    return shutil.copy2(reference[0], tmp_path / "input.h5") and tmp_path / "input.h5"


def finish(source, *options, ranks=0, **env):
    done = run("dgemm_ooc", source, *SCALARS, *options, ranks=ranks, **env)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def stop(source, *options, number=signal.SIGUSR2, ranks=0, after=0.3, tile=SLOW, late=LATE, **env):
    """Start a run, signal one rank while C is being written, and wait for its end."""
    with start_late(source, *SCALARS, *tile, *options, ranks=ranks, late=late, **env) as process:
        wait_until(lambda: part_of(source).exists() and part_of(source).stat().st_blocks, process)
        time.sleep(after)
        running = pids(process, ranks)
        if process.poll() is None and running:
            os.kill(running[-1], number)
        out, err = process.communicate(timeout=PATIENCE)
    return process.returncode, out, err


def done_percent(text):
    return float(re.search(r"with ([\d.]+) % done", text)[1])


def assert_whole(source, expected):
    """C has the expected bits and their checksum, and no other file is left behind."""
    assert np.array_equal(read(output_of(source)), expected)
    done = run("dgemm_ooc", "--check-only", source)
    assert done.returncode == 0 and "checksum equal" in done.stdout, done.stderr
    assert {path.name for path in source.parent.iterdir()} == {"input.h5", "input-C.h5"}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR2],
                         ids=lambda number: number.name)
def test_stop_and_go_on(source, reference, number):
    code, _, err = stop(source, "--progress", "always", number=number)
    assert code == 75 and f"stopped by {number.name}" in err
    urged = "" if number == signal.SIGUSR2 else r"\. Signal again after 2 seconds to quit without saving; that loses .*"
    says = rf"^dgemm_ooc: stopping \({number.name}\): the checkpoint takes (less than a second|about [\d.]+ s){urged}$"
    lines = re.split(r"\n(?:\x1b\[K)?", err)  # the progress line has been cleared; \r is read as \n
    assert sum(bool(re.search(says, line)) for line in lines) == 1, err
    done = done_percent(err)
    out = finish(source, *SLOW)
    assert 0 < done < 100 and f"Restart     {done} % is done" in out
    assert_whole(source, reference[1])


def test_a_stop_of_several_ranks_is_said_once(source):
    _, _, err = stop(source, ranks=2)
    assert err.count("dgemm_ooc: stopping (") == 1 and err.index("stopping (") < err.index("stopped by")


def test_a_stop_of_ranks_that_are_slower_than_planned(source):
    """A run that is planned to end before a second vote, and reads for seconds."""
    machine = source.with_name("machine.json")
    machine.write_text(json.dumps({"disk_read_bytes_per_s": 1e12, "disk_write_bytes_per_s": 1e12}))
    code, _, err = stop(source, "--machine", machine, ranks=2, after=2, tile=["--tile", "75x50x64"], late="20")
    assert code == 75, err


def test_a_stop_without_restart_promises_none(source):
    code, _, err = stop(source, "--restart", "never")
    assert code == 75 and "without --restart never the same command resumes from there" in err


@pytest.mark.parametrize("ranks, later, tile", [
    (1, 3, "150x150x64"), (2, 2, "50x50x16"), (4, 1, f"{M}x{N}x16"), (3, 4, f"50x{N}x{K}")])
def test_go_on_with_other_ranks_and_tiles(source, reference, ranks, later, tile):
    code, _, err = stop(source, ranks=ranks, after=0.5)
    assert code == 75, err
    finish(source, "--tile", tile, "--checkpoint", "0.1s", ranks=later)
    assert_whole(source, reference[1])


@pytest.mark.gpu
@pytest.mark.parametrize("first, ranks, later", [("gpu", 0, 2), ("gpu", 3, 2), ("cpu", 2, 0)])
def test_go_on_with_another_device(source, reference, gpu, first, ranks, later):
    begin = partial(start_late, late=LATE) if first == "cpu" else partial(start, "dgemm_ooc")
    with begin(source, *SCALARS, "--tile", "20x20x16", ranks=ranks,
               DGEMM_OOC_DEVICE=first) as process:
        part = part_of(source)

        def some_tiles_are_there():
            data = part.read_bytes() if part.exists() else b""
            return len(data) - data.count(0) > 16 * 20 * 20 * 8

        wait_until(some_tiles_are_there, process)
        os.kill(pids(process, ranks)[-1], signal.SIGUSR2)
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 75 and 0 < done_percent(err) < 100, err
    out = finish(source, ranks=later, DGEMM_OOC_DEVICE="gpu" if first == "cpu" else "cpu")
    assert "% is done" in out
    assert_whole(source, reference[1])


DEEP = (400, 380, 20000)
WHOLE = ["--tile", "400x380x16", "--alpha", "0.5"]
LONGER_SLABS = ["--tile", "400x380x160", *WHOLE[2:]]  # in a tenth of the time


@pytest.fixture(scope="module")
def deep(tmp_path_factory):
    """The operands of a product with one tile and a thousand slabs."""
    source = tmp_path_factory.mktemp("deep") / "input.h5"
    operands(source, *DEEP)
    multiply(source, "--alpha", "0.5")
    return source, read(output_of(source))


def signalled_twice(source, number):
    """The exit status of a run that is signalled again while it saves its sums; None where it had saved
    them before it could be signalled."""
    sums = part_of(source).with_name(part_of(source).name + ".sums0")
    journal = part_of(source).with_suffix(".journal")
    with start(FAULTY, source, *WHOLE, "--io", "buffered",
               DGEMM_OOC_TEST_FAULTS="pwrite:delay%100,fdatasync:delay%100") as process:
        wait_until(part_of(source).exists, process)
        time.sleep(0.3)
        before = journal.stat().st_size
        process.send_signal(number)
        while not sums.exists() and process.poll() is None:
            time.sleep(0.001)
        process.send_signal(signal.SIGSTOP)
        time.sleep(2.1)
        saved = process.poll() is not None or journal.stat().st_size != before
        for one in number, signal.SIGCONT:
            process.send_signal(one)
        process.communicate(timeout=PATIENCE)
    return None if saved else process.returncode


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_again_leaves_nothing(tmp_path, number):
    """No file is left, since no checkpoint was taken, not even the sums that are being written."""
    if not (BUILD / FAULTY).exists():
        pytest.skip("the program with faults is not built: make test")
    for attempt in range(10):
        source = tmp_path / str(attempt) / "input.h5"
        source.parent.mkdir()
        operands(source, *DEEP)
        status = signalled_twice(source, number)
        if status is not None:
            break
    assert status == -number
    assert list(source.parent.iterdir()) == [source]


def test_a_save_that_failed_leaves_nothing_to_a_signal_again(tmp_path):
    """Nothing could be resumed from its files, which fill the disk."""
    source = tmp_path / "input.h5"
    operands(source, *DEEP)
    if not (BUILD / FAULTY).exists():
        pytest.skip("the program with faults is not built: make test")
    with start(FAULTY, source, *WHOLE, "--io", "buffered", "--checkpoint", "0.1s", "--host-memory", "16M",
               DGEMM_OOC_TEST_FAULTS="gemm:delay%30,write:enospc@3+", DGEMM_OOC_TEST_FAULT_FILE=".journal") as process:
        line = next(line for line in process.stderr if "cannot write the journal" in line)
        process.send_signal(signal.SIGTERM)
        next(line for line in process.stderr if "stopping (SIGTERM)" in line)
        process.send_signal(signal.SIGSTOP)
        time.sleep(2.1)
        for number in signal.SIGTERM, signal.SIGCONT:
            process.send_signal(number)
        _, err = process.communicate(timeout=PATIENCE)
    assert "the run continues" in line and process.returncode == -signal.SIGTERM, err
    assert list(tmp_path.iterdir()) == [source]


def stop_within_k(source, ranks, *options, **env):
    """Stop a run after at least two checkpoints; return the remaining pieces."""
    with start("dgemm_ooc", source, *options, "--checkpoint", "0.05s", ranks=ranks,
               **env) as process:
        sums = [part_of(source).with_name(f"input-C.h5.part.sums{i}") for i in (0, 1)]
        wait_until(lambda: all(path.exists() for path in sums), process)
        for rank in pids(process, ranks):
            os.kill(rank, signal.SIGUSR2)
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 75, err
    newest = source.with_name("input-C.h5.journal").read_text().splitlines()[-1]
    return json.loads(newest.split(" ", 1)[1])["left"]


@pytest.mark.parametrize("ranks, node, grid, later", [
    (0, 1, "1x1", 2), (3, 3, "3x1", 3), (4, 1, "4x1", 4), (4, 2, "2x2", 1)])
def test_sums_of_a_long_tile(deep, tmp_path, ranks, node, grid, later):
    """The run stops within k, and resumes there."""
    source = linked(deep[0], tmp_path)
    env = {"DGEMM_OOC_TEST_NODE": str(node)}
    left = stop_within_k(source, ranks, *WHOLE[2:], "--grid", grid, "--tile", "400x380x16"
                         if ranks < 2 else "200x190x16" if grid == "2x2" else "134x380x16", **env)
    assert len(left) == 1 and left[0]["block"] == [0, 0, *DEEP[:2]] and 0 < left[0]["k"] < DEEP[2]
    done = run("dgemm_ooc", source, *LONGER_SLABS, "--restart", "require", ranks=later, **env)
    assert done.returncode == 0, done.stderr
    assert f"{100 * left[0]['k'] / DEEP[2]:.1f} % is done" in done.stdout
    assert_whole(source, deep[1])


def test_sums_by_ranks_with_less_memory(deep, tmp_path):
    """Sums saved for one tile are resumed with many tiles; that run is stopped once more."""
    source = linked(deep[0], tmp_path)
    stop_within_k(source, 0, *WHOLE)
    journal = source.with_name("input-C.h5.journal")

    def left():
        whole = journal.read_text().split("\n")[:-1]
        newest = [line for line in whole if '"left"' in line][-1]
        return json.loads(newest.split(" ", 1)[1])["left"]
    with start("dgemm_ooc", source, *WHOLE[2:], "--tile", "100x100x16", "--checkpoint",
               "0.01s") as process:
        wait_until(lambda: len(left()) > 1, process)
        process.send_signal(signal.SIGUSR2)
        process.communicate(timeout=PATIENCE)
    assert process.returncode == 75
    assert len(left()) > 1 and all(piece["hashed"] for piece in left() if piece["k"])
    done = run("dgemm_ooc", source, *LONGER_SLABS, ranks=2)
    assert done.returncode == 0, done.stderr
    assert_whole(source, deep[1])


def test_damaged_sums_are_not_used(deep, tmp_path):
    source = linked(deep[0], tmp_path)
    stop_within_k(source, 0, *WHOLE)
    for path in source.parent.glob("*.sums*"):
        with open(path, "r+b") as file:
            file.seek(8 * (DEEP[1] * 13 + 7))
            byte = file.read(1)
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte[0] ^ 1]))
    done = run("dgemm_ooc", source, *LONGER_SLABS)
    assert done.returncode == 0 and "are damaged; they are computed again" in done.stderr
    assert_whole(source, deep[1])


def test_a_stop_while_it_starts(source):
    """The signal is handled before any file has been created."""
    with start("dgemm_ooc", source, *SCALARS, *SLOW) as process:
        wait_until(lambda: catches(process.pid, signal.SIGUSR2), process)
        assert not part_of(source).exists()
        process.send_signal(signal.SIGUSR2)
        process.communicate(timeout=PATIENCE)
    assert process.returncode == 75
    finish(source)


def test_a_stop_of_a_check(source):
    """The check says that it was stopped, and gives no verdict on what it did not read."""
    finish(source)
    path = source.with_name("check.json")
    with start("dgemm_ooc", source, "--check-only", "--report", path) as process:
        wait_until(lambda: catches(process.pid, signal.SIGUSR2), process)
        process.send_signal(signal.SIGUSR2)
        _, err = process.communicate(timeout=PATIENCE)
    report = json.loads(path.read_text())
    path.unlink()
    assert process.returncode == 75 and "SIGUSR2 before all was read" in err, err
    assert report["status"] == "stopped" and "full_check" not in report


@pytest.mark.smoke
def test_save_and_go_on(source, reference):
    """SIGUSR1 takes a checkpoint; work saved in it is not repeated after a kill."""
    with start_late(source, *SCALARS, "--tile", "20x20x16", late=LATE) as process:
        journal, saved = source.with_name("input-C.h5.journal"), set()

        def saved_thrice():  # the first ones may come before a tile is done, of which there are 460
            process.send_signal(signal.SIGUSR1)
            time.sleep(0.3)
            saved.add(journal.read_text() if journal.exists() else "")
            known = [text for text in saved if '"left"' in text]
            return len(known) >= 3 and any('"block":[0,0,' not in text.rsplit('"left"')[-1] for text in known)

        wait_until(lambda: catches(process.pid, signal.SIGUSR1), process)
        wait_until(saved_thrice, process)
        process.kill()
        process.communicate()
    out = finish(source, *SLOW)
    assert float(re.search(r"Restart     ([\d.]+) % is done", out)[1]) > 0
    assert_whole(source, reference[1])


def test_saves_where_a_rank_has_no_tile_now_and_then(tmp_path):
    """C is three tiles wide and the grid two: the second rank has no tile at the right edge, but has one at
    once on the way back.  Its first panels fill the ring while a checkpoint waits for both ranks."""
    path = tmp_path / "input.h5"
    a, b, _ = operands(path, 256, 192, 8192)
    done = run("dgemm_ooc", path, "--grid", "1x2", "--tile", "64x64x4096", "--host-memory", "16M",
               "--checkpoint", "0.001s", ranks=2)
    assert done.returncode == 0 and "Saved" in done.stdout, done
    assert np.allclose(read(output_of(path)), a @ b)


def test_time_limit(source, reference):
    with start_late(source, *SCALARS, "--tile", "32x32x16", "--max-time", "1s", ranks=2, late=LATE) as process:
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 75 and "stopped by --max-time" in err, err
    finish(source)
    assert_whole(source, reference[1])


def test_end_of_the_job(source):
    with start_late(source, *SCALARS, "--tile", "32x32x16", late=LATE,
                    SLURM_JOB_END_TIME=str(int(time.time()) + 6)) as process:
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 75 and "stopped by the end of the job" in err


@pytest.mark.parametrize("ranks, then", [(0, "online"), (0, "full"), (2, "full")])
def test_a_stop_while_files_are_read_back(tmp_path, ranks, then):
    """All of C is multiplied, checked and kept; reads are delayed, so that there is time for the signal."""
    source = tmp_path / "input.h5"
    operands(source, 1500, 1000, 16)
    options = [source, "--verify", "full", "--host-memory", "32M", "--io", "buffered"]
    journal = source.with_name("input-C.h5.journal")
    with start_late(*options, ranks=ranks, late="100") as process:
        wait_until(lambda: journal.exists() and '"left":[]' in journal.read_text(), process)
        os.kill(pids(process, ranks)[-1], signal.SIGUSR2)
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 75 and "with 100.0 % done" in err, err
    assert not output_of(source).exists() and part_of(source).exists()
    done = run("dgemm_ooc", *options, "--verify", then, ranks=ranks)
    assert done.returncode == 0, done.stderr
    assert "Full check" in done.stdout and "disk read" not in done.stdout
    assert re.search(r"RESULT: C complete, checked for errors down to [\d.e+-]+ of a typical element: PASSED", done.stdout)
    assert {path.name for path in tmp_path.iterdir()} == {"input.h5", "input-C.h5"}


def test_a_finished_run_says_so(source, reference):
    finish(source)
    before = output_of(source).stat()
    for ranks in (0, 2):
        assert "made from these operands already" in finish(source, ranks=ranks)
    assert output_of(source).stat().st_mtime_ns == before.st_mtime_ns
    done = run("dgemm_ooc", source, *SCALARS, "--alpha", "2")
    assert done.returncode == 3 and "exists; give --force" in done.stderr
    assert "made from other or since changed operands, or with other options" in done.stderr
    done = run("dgemm_ooc", source, *SCALARS, "--restart", "never")
    assert done.returncode == 3 and "exists; give --force" in done.stderr
    assert "not made of these" not in done.stderr


def test_what_is_saved_of_another_product_stays(source, reference):
    """A complete output does not use the state of the run that was to replace it."""
    finish(source)
    other = [*SCALARS, "--alpha", "3", "--force"]
    journal = source.with_name("input-C.h5.journal")
    with start_late(source, *other, *SLOW, "--checkpoint", "0.05s", late=LATE) as process:
        wait_until(lambda: journal.exists() and '"left"' in journal.read_text(), process)
        process.send_signal(signal.SIGUSR2)
        process.communicate(timeout=PATIENCE)
    assert process.returncode == 75
    before = snapshot(source.parent)
    assert "made from these operands already" in finish(source)
    assert snapshot(source.parent) == before
    done = run("dgemm_ooc", source, *other)
    assert done.returncode == 0 and "Restart " in done.stdout, done.stderr


@pytest.mark.parametrize("change, says", [
    (["--alpha", "2"], "alpha was 1.5 and is 2.0 now"), (["--beta", "0"], "another product"),
    (["--type", "s"], 'type was "double" and is "float" now'), ("touch", "A's file's modification time")])
def test_another_product_is_refused(source, reference, change, says):
    assert stop(source)[0] == 75
    before = snapshot(source.parent)
    if change == "touch":
        os.utime(source)
        change = []
    done = run("dgemm_ooc", source, *SCALARS, *change)
    assert done.returncode == 3 and says in done.stderr, done.stderr
    assert snapshot(source.parent).keys() == before.keys()
    finish(source, "--restart", "never")
    assert_whole(source, reference[1])


def test_restart_must_be_there(source):
    done = run("dgemm_ooc", source, *SCALARS, "--restart", "require")
    assert done.returncode == 3 and "leave --restart out to start" in done.stderr
    assert stop(source)[0] == 75
    finish(source, "--restart", "require")


def test_a_run_that_has_not_said_who_it_is(source):
    """The journal is locked by another run and still empty."""
    with open(source.with_name("input-C.h5.journal"), "w") as journal:
        fcntl.flock(journal, fcntl.LOCK_EX)
        done = run("dgemm_ooc", source, *SCALARS)
    assert done.returncode == 3 and "another run is writing this output (" in done.stderr
    assert "is locked)" in done.stderr and "process" not in done.stderr


def test_two_runs_one_output(source):
    with start_late(source, *SCALARS, "--tile", "80x80x16", late=LATE) as process:
        wait_until(lambda: part_of(source).exists() and part_of(source).stat().st_blocks, process)
        done = run("dgemm_ooc", source, *SCALARS)
        process.communicate(timeout=PATIENCE)
    assert done.returncode == 3 and f"another run is writing this output: process {process.pid} on " \
        f"{socket.gethostname()}" in done.stderr
    assert process.returncode == 0 and len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("cut", [1, 20, 200])
def test_a_torn_journal(source, reference, cut):
    """The last line is incomplete; the one before it is used."""
    assert stop(source)[0] == 75
    journal = source.with_name("input-C.h5.journal")
    text = journal.read_bytes()
    journal.write_bytes(text + text.splitlines()[-1][:-cut])
    finish(source, *SLOW)
    assert_whole(source, reference[1])


def test_the_journal_is_no_link(source):
    target = source.with_name("target")
    target.write_text("mine")
    source.with_name("input-C.h5.journal").symlink_to(target)
    done = run("dgemm_ooc", source, *SCALARS)
    assert done.returncode == 3 and "symbolic link" in done.stderr
    assert target.read_text() == "mine"


@pytest.mark.parametrize("link", ["symlink_to", "hardlink_to"])
def test_saved_sums_go_to_no_other_file(deep, tmp_path, link):
    source = linked(deep[0], tmp_path)
    target = tmp_path / "target"
    target.write_text("mine")
    getattr(tmp_path / "input-C.h5.part.sums0", link)(target)
    done = run("dgemm_ooc", source, *WHOLE, "--checkpoint", "0.05s")
    assert done.returncode == 3 and "is a link" in done.stderr, done.stderr
    assert target.read_text() == "mine"


@pytest.mark.parametrize("name", ["journal", "part.sums0", "part.sums1", "part", "lock"])
def test_an_input_is_not_taken_for_the_runs_own(tmp_path, name):
    source, other = tmp_path / "input.h5", tmp_path / f"out.h5.{name}"
    operands(source, 40, 30, 50)
    shutil.copy(source, other)
    before = snapshot(tmp_path)
    done = run("dgemm_ooc", source, "-b", f"{other}:/B", "-o", tmp_path / "out.h5")
    assert done.returncode == 3 and "one of the inputs" in done.stderr
    done = run("dgemm_ooc", source, "-o", tmp_path / "out.h5", "--report", other)
    assert done.returncode == 3 and str(other) in done.stderr
    assert snapshot(tmp_path).items() >= before.items()


@pytest.fixture
def virtual(tmp_path):
    """A file to which a virtual A maps, and the arguments of a stopped run."""
    source, journal = tmp_path / "input.h5", tmp_path / "out.h5.journal"
    operands(source, 40, 30, 50)
    with h5py.File(tmp_path / "virtual.h5", "w") as file:
        layout = h5py.VirtualLayout((40, 50), "f8")
        layout[:] = h5py.VirtualSource(source, "A", (40, 50))
        file.create_virtual_dataset("A", layout)
    options = [tmp_path / "virtual.h5", "-b", f"{source}:/B", "-o", tmp_path / "out.h5"]
    with start_late(*options, "--tile", "8x8x16", "--checkpoint", "0.01s", late="20") as process:
        wait_until(lambda: journal.exists() and '"left"' in journal.read_text(), process)
        process.send_signal(signal.SIGUSR2)
    assert process.returncode == 75
    return source, options


def test_a_virtual_operand_goes_on(virtual):
    done = run("dgemm_ooc", *virtual[1])
    assert done.returncode == 0 and "several runs computed parts of C" in done.stdout, done.stderr


def test_a_source_of_a_virtual_operand_changes(virtual):
    """The file with the virtual dataset does not change, so the source itself must be identified."""
    source, options = virtual
    os.utime(source)
    done = run("dgemm_ooc", *options)
    assert done.returncode == 3 and "--restart never to discard" in done.stderr, done.stderr
    assert run("dgemm_ooc", *options, "--restart", "never").returncode == 0
    done = run("dgemm_ooc", *options)
    assert done.returncode == 0 and "was made from these operands already" in done.stdout
    os.utime(source)
    done = run("dgemm_ooc", *options)
    assert done.returncode == 3 and "exists; give --force" in done.stderr


def test_nothing_to_multiply_goes_on(tmp_path):
    """A product with k = 0 is resumed."""
    source = tmp_path / "input.h5"
    operands(source, 900, 800, 0)
    with start("dgemm_ooc", source, "--beta", "2", "--tile", "8x8x16") as process:
        wait_until(lambda: part_of(source).exists() and part_of(source).stat().st_blocks, process)
        process.send_signal(signal.SIGUSR2)
        process.communicate(timeout=PATIENCE)
    done = run("dgemm_ooc", source, "--beta", "2")
    assert done.returncode == 0, done.stderr
    assert np.array_equal(read(output_of(source)), 2 * read(source, "C"))


def test_elements_that_are_nan_are_counted_once(tmp_path):
    source = tmp_path / "input.h5"
    a, b, _ = operands(source, 200, 150, 900)
    with h5py.File(source, "r+") as file:
        file["A"][7, 3] = np.nan
    report = multiply(source, "--tile", "200x150x16", "--checkpoint", "0.001s")
    assert report["elements_not_finite"] == 150


# The stated rates are so low that ranks vote after every slab.
SLOW_MACHINE = {"gemm_double_flops_per_s": 1e5, "gemm_float_flops_per_s": 1e5}


@pytest.mark.singly
@pytest.mark.parametrize("scalars", [[], ["--beta", "2"]], ids=["", "beta"])
@pytest.mark.parametrize("ranks, options", [
    (3, ["--grid", "1x3", "--tile", "64x64x16"]),  # idle at the edge of each row, and busy after it
    (3, ["--grid", "3x1", "--tile", "50x90x16", "--checkpoint", "0.001s"]),
    (4, ["--tile", "256x250x16"]),  # four layers, the last of which has fewer slabs
    (5, ["--tile", "20x30x16", "--checkpoint", "0.001s"])])
@pytest.mark.parametrize("node", [1, 2])
def test_meetings_wait_for_nobody(tmp_path, ranks, options, node, scalars):
    source = tmp_path / "input.h5"
    operands(source, 256, 250, 250)
    machine = tmp_path / "machine.json"
    machine.write_text(json.dumps(SLOW_MACHINE))
    blocks = {"DGEMM_OOC_TEST_BLOCK": "32", "DGEMM_OOC_TEST_LAYERS": "4"} if ranks == 4 else {}
    done = run("dgemm_ooc", source, "--machine", machine, *options, *scalars, ranks=ranks,
               DGEMM_OOC_TEST_NODE=str(node), **blocks)
    assert done.returncode == 0, done.stderr
    assert not blocks or "4 layers of 1 rank" in done.stdout
    done = run("dgemm_ooc", "--check-only", source)
    assert done.returncode == 0, done.stderr
