"""A saved state is resumed, or its work is repeated if it is damaged; and a failed checkpoint never ends a
run."""
import json
import os
import re
import signal
import subprocess
import time
from contextlib import suppress

import h5py
import numpy as np
import pytest

from launch import BUILD, FAULTY, PATIENCE, run, start
from matrices import linked, multiply, operands, output_of, part_of, read, start_late, wait_until
from ranks import pids

M, N, K = 900, 800, 1000
OPTIONS = ["--alpha", "1.5"]
SMALL_TILES = ["--tile", "20x200x125"]
DEEP = (400, 380, 20000)  # all of C is one tile, with a thousand slabs
DEEP_OPTIONS = ["--tile", "400x380x16", "--io", "buffered"]
LONGER_SLABS = ["--tile", "400x380x160", "--io", "buffered"]  # in a tenth of the time
INPUT, RESOURCES, VERIFY, STOPPED = 3, 4, 5, 75


def made(folder, *size):
    source = folder / "input.h5"
    operands(source, *size)
    multiply(source, *OPTIONS)
    return source, read(output_of(source))


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    return made(tmp_path_factory.mktemp("wide"), M, N, K)


@pytest.fixture(scope="module")
def deep(tmp_path_factory):
    return made(tmp_path_factory.mktemp("deep"), *DEEP)


def journal_of(source):
    return source.with_name("input-C.h5.journal")


def sums_of(source):
    return [part_of(source).with_name(f"input-C.h5.part.sums{i}") for i in (0, 1)]


def left(source):
    """The remaining pieces according to the newest complete line of the journal."""
    path = journal_of(source)
    text = path.read_text().split("\n")[:-1] if path.exists() else []
    lines = [line for line in text if '"left"' in line]
    return json.loads(lines[-1].split(" ", 1)[1])["left"] if lines else None


def some_tiles(source):
    pieces = left(source)
    return pieces and pieces[0]["block"][0] > 100  # some rows of tiles are complete


def stop(source, *options, until=some_tiles, ranks=0):
    """Take frequent checkpoints, and stop when `until` is true."""
    with start_late(source, *OPTIONS, "--checkpoint", "0.05s", *options, ranks=ranks) as process:
        wait_until(lambda: until(source), process)
        os.kill(pids(process, ranks)[0], signal.SIGUSR2)
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == STOPPED, err


def bytes_of_c(source):
    """The offset of C's elements in the part file."""
    with h5py.File(part_of(source)) as file:
        return file["C"].id.get_offset()


def flip(source, row, col, n=N):
    with open(part_of(source), "r+b") as file:
        at = bytes_of_c(source) + 8 * (row * n + col) + 6
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 4]))


def go_on(source, *options, ranks=0, program="dgemm_ooc", **env):
    done = run(program, source, *OPTIONS, *options, ranks=ranks, timeout=PATIENCE, **env)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def assert_whole(source, expected):
    assert np.array_equal(read(output_of(source)), expected)
    done = run("dgemm_ooc", "--check-only", source)
    assert done.returncode == 0 and "checksum equal" in done.stdout, done.stderr
    assert {path.name for path in source.parent.iterdir()} <= {"input.h5", "input-C.h5", "r.json"}


@pytest.mark.parametrize("ranks, later, tile", [(0, 0, SMALL_TILES[1]), (2, 3, "40x40x16")])
def test_a_flipped_bit_is_mended(wide, tmp_path, ranks, later, tile):
    source = linked(wide[0], tmp_path)
    stop(source, "--tile", tile, ranks=ranks)
    flip(source, 50, 70)
    flip(source, 3, 799)
    done = go_on(source, "--report", tmp_path / "r.json", ranks=later)
    assert "rows 45 to 59 differs from what was written; it is computed again" in done.stderr
    assert "rows 0 to 14 differs" in done.stderr and len(done.stderr.splitlines()) == 2
    report = json.loads((tmp_path / "r.json").read_text())["restart"]
    assert report["damaged_rows"] == 30 and not report["trusted"] and report["compared_bytes"] > 0
    assert_whole(source, wide[1])


def zeros(source):
    at = bytes_of_c(source)
    with open(part_of(source), "r+b") as file:
        file.seek(at)
        file.write(bytes(8 * M * N))


def exchange_rows(source):
    """Exchange two rows, which the checksum must detect."""
    at = bytes_of_c(source)
    with open(part_of(source), "r+b") as file:
        file.seek(at)
        rows = file.read(16 * N)
        file.seek(at)
        file.write(rows[8 * N:] + rows[:8 * N])


@pytest.mark.parametrize("damage", [zeros, exchange_rows])
def test_other_damage_is_mended(wide, tmp_path, damage):
    source = linked(wide[0], tmp_path)
    stop(source, *SMALL_TILES)
    damage(source)
    done = go_on(source, ranks=2)
    assert done.stderr.count("differs from what was written") == 1, done.stderr
    assert_whole(source, wide[1])


def test_an_older_copy_is_mended(wide, tmp_path):
    source = linked(wide[0], tmp_path)
    stop(source, *SMALL_TILES)
    older = part_of(source).read_bytes()
    first = left(source)
    stop(source, *SMALL_TILES, until=lambda source: left(source)[0]["block"][0] > first[0]["block"][0] + 100)
    part_of(source).write_bytes(older)
    assert "differs from what was written" in go_on(source).stderr
    assert_whole(source, wide[1])


def test_all_of_it_is_there_and_damaged(tmp_path):
    """Only the final check was left to do."""
    source = tmp_path / "input.h5"
    a, b, _ = operands(source, 1500, 1000, 16)
    options = [source, "--verify", "full", "--host-memory", "32M", "--io", "buffered"]
    with start_late(*options, late="100") as process:
        wait_until(lambda: left(source) == [], process)
        process.send_signal(signal.SIGUSR2)
        process.communicate(timeout=PATIENCE)
    assert process.returncode == STOPPED
    flip(source, 1499, 999, 1000)
    done = run("dgemm_ooc", *options)
    assert done.returncode == 0 and "rows 1488 to 1499 differs from what" in done.stderr, done.stderr
    assert np.allclose(read(output_of(source)), a @ b)


@pytest.mark.parametrize("ranks", [0, 2])
def test_c_that_cannot_be_read(wide, tmp_path, ranks):
    """Nothing is discarded."""
    source = linked(wide[0], tmp_path)
    stop(source, *SMALL_TILES)
    done = run(FAULTY, source, *OPTIONS, "--io", "buffered", ranks=ranks,
               DGEMM_OOC_TEST_FAULT_RANK="0",
               **faulty("pread:eio@3+", "input-C.h5.part"))  # after the file's header
    assert done.returncode == 1, done.stdout + done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("dgemm_ooc: ")]
    assert re.search("C cannot be read back: .*Input/output error; give --restart never to start from the beginning", lines[0])
    assert len(lines) == 1
    go_on(source)
    assert_whole(source, wide[1])


def test_a_stop_while_c_is_read(wide, tmp_path):
    source = linked(wide[0], tmp_path)
    stop(source, *SMALL_TILES)
    before = left(source)
    with start(FAULTY, source, *OPTIONS, "--io", "buffered",
               **faulty("pread:delay%100", "input-C.h5.part")) as process:
        wait_until(lambda: journal_of(source).read_text().count('"owner"') == 2, process)
        process.send_signal(signal.SIGUSR2)
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == STOPPED and "% done; the same command resumes" in err, err
    assert left(source) == before
    go_on(source)
    assert_whole(source, wide[1])


def test_trust(wide, tmp_path):
    """With --restart=trust C is not read back, and the run says so; any later check finds the damage."""
    source = linked(wide[0], tmp_path)
    stop(source, *SMALL_TILES)
    flip(source, 50, 70)
    done = go_on(source, "--restart", "trust", "--report", tmp_path / "r.json")
    assert "is not checked for damage (--restart trust)" in done.stderr and "compared" not in done.stdout
    assert json.loads((tmp_path / "r.json").read_text())["restart"]["trusted"]
    done = run("dgemm_ooc", "--check-only", source)
    assert done.returncode == VERIFY and "differs from what was written" in done.stderr


def test_trust_is_remembered(wide, tmp_path):
    source = linked(wide[0], tmp_path)
    stop(source, *SMALL_TILES)
    stop(source, *SMALL_TILES, "--restart", "trust", until=lambda source: '"trusted":true' in
         journal_of(source).read_text())
    done = go_on(source, "--report", tmp_path / "r.json")
    assert "read back and compared" in done.stdout and "trust" not in done.stderr
    assert json.loads((tmp_path / "r.json").read_text())["restart"]["trusted"]
    assert_whole(source, wide[1])


def test_without_checks_there_is_nothing_to_compare(wide, tmp_path):
    source = linked(wide[0], tmp_path)
    stop(source, *SMALL_TILES, "--verify", "off")
    done = go_on(source, "--verify", "off")
    assert "the finished part of C is not checked for damage: --verify off" in done.stderr
    assert np.array_equal(read(output_of(source)), wide[1])


def faulty(faults, file):
    if not (BUILD / FAULTY).exists():
        pytest.skip("the program with faults is not built: make test")
    return {"DGEMM_OOC_TEST_FAULTS": faults, "DGEMM_OOC_TEST_FAULT_FILE": file}


def stop_deep(source, ranks=0):
    stop(source, *DEEP_OPTIONS, until=lambda source: left(source) and left(source)[0]["k"] > 500,
         ranks=ranks)


@pytest.mark.singly
@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("ranks", [0, 3])
def test_sums_are_what_is_read(deep, tmp_path, ranks, number):
    """Sums that are read wrong, at any of the reads, are not used."""
    source = linked(deep[0], tmp_path)
    stop_deep(source)
    done = go_on(source, *DEEP_OPTIONS[:2], "--io", "buffered", ranks=ranks, program=FAULTY,
                 **faulty(f"pread:flip@{number}", ".sums"))
    assert number > 1 or "are damaged; they are computed again" in done.stderr
    assert_whole(source, deep[1])


@pytest.mark.parametrize("fault", ["pread:eio@1+", "pread:flip@1", "pread:flip@4"])
def test_sums_that_are_split_are_what_is_read(deep, tmp_path, fault):
    """A run with smaller tiles hashes each part before it loads it."""
    source = linked(deep[0], tmp_path)
    stop_deep(source)
    go_on(source, "--tile", "200x200x64", "--io", "buffered", program=FAULTY, **faulty(fault, ".sums"))
    assert_whole(source, deep[1])


def test_sums_that_are_gone(deep, tmp_path):
    source = linked(deep[0], tmp_path)
    stop_deep(source)
    for path in sums_of(source):
        path.unlink(missing_ok=True)
    assert "are damaged; they are computed again" in go_on(source, *LONGER_SLABS).stderr
    assert_whole(source, deep[1])


@pytest.mark.singly
@pytest.mark.parametrize("ranks", [0, 2])
@pytest.mark.parametrize("fault, file, says", [
    ("pwrite:enospc@1+", ".sums", "cannot save the partial sums: .*No space left on device"),
    ("pwrite:eio@3", ".sums", "cannot save the partial sums: .*Input/output error"),
    ("pwrite:edquot%50", ".sums", "cannot save the partial sums: .*Disk quota exceeded"),
    ("fdatasync:eio@1+", ".sums", "cannot save the partial sums: .*Input/output error"),
    ("ftruncate:enospc@1+", ".sums", "cannot save the partial sums: .*No space left on device"),
    ("write:enospc@3+", ".journal", "cannot write the journal .*No space left on device"),
    ("fdatasync:eio@3", ".journal", "cannot write the journal .*Input/output error")])
def test_saving_never_ends_a_run(deep, tmp_path, fault, file, says, ranks):
    source = linked(deep[0], tmp_path)
    done = go_on(source, *DEEP_OPTIONS[:2], "--io", "buffered", "--tile", "200x380x64",
                 "--checkpoint", "0.05s", ranks=ranks, program=FAULTY, **faulty(fault, file))
    lost = r"; the run continues, but a stop now would lose the last [\d.:]+( m?s)?$"
    assert re.search(says + ".*" + lost, done.stderr, re.M), done.stderr
    assert_whole(source, deep[1])


@pytest.mark.parametrize("fault, file", [
    ("pwrite:enospc@20+", "input-C.h5.part"), ("fdatasync:eio@2+", "input-C.h5.part")])
def test_c_itself_must_be_written(deep, tmp_path, fault, file):
    source = linked(deep[0], tmp_path)
    done = run(FAULTY, source, *OPTIONS, "--io", "buffered", "--tile", "20x20x20000", "--checkpoint",
               "0.05s", **faulty(fault, file))
    assert done.returncode in (1, RESOURCES), done.stdout + done.stderr
    assert not output_of(source).exists()


def test_a_stop_that_cannot_be_saved(deep, tmp_path):
    """The run stops nevertheless, and reports what is lost."""
    source = linked(deep[0], tmp_path)
    with start(FAULTY, source, *OPTIONS, *DEEP_OPTIONS, **faulty("pwrite:enospc@1+", ".sums")) as process:
        wait_until(part_of(source).exists, process)
        time.sleep(0.3)
        process.send_signal(signal.SIGUSR2)
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == STOPPED, err
    assert re.search(r"cannot save the partial sums: .*; this loses the last [\d.:]+( m?s)?$", err, re.M), err
    assert "stopped by SIGUSR2 before there was anything to save" in err
    assert [path.name for path in tmp_path.iterdir()] == ["input.h5"]
    go_on(source, *LONGER_SLABS)
    assert_whole(source, deep[1])


@pytest.mark.parametrize("faults, file", [
    ("pwrite:enospc%10", ".sums"), ("fdatasync:eio%40", ".sums"),
    ("write:short%30,write:enospc%30", ".journal"), ("fdatasync:eio%40", ".journal")])
def test_killed_after_saves_that_failed(deep, tmp_path, faults, file):
    """The journal mentions successful checkpoints only."""
    source = linked(deep[0], tmp_path)
    for seed in range(4):
        with start(FAULTY, source, *OPTIONS, "--io", "buffered", "--tile", "200x380x16", "--checkpoint",
                   "0.02s", DGEMM_OOC_TEST_SEED=str(seed), **faulty(faults, file)) as process:
            try:
                process.communicate(timeout=0.6 + 0.1 * seed)
            except subprocess.TimeoutExpired:
                process.kill()
            process.communicate()
        assert process.returncode in (0, -signal.SIGKILL, 1, RESOURCES)
    done = go_on(source, "--io", "buffered")
    assert "is damaged" not in done.stderr and "differs from what" not in done.stderr, done.stderr
    assert np.array_equal(read(output_of(source)), deep[1])


def test_room_of_saved_sums(tmp_path):
    """The sums take twice the size of the current tile, however much of C is complete."""
    source, rows, cols = tmp_path / "input.h5", 50, 2048
    operands(source, 20 * rows, cols, 600)
    most = [0, 0]
    with start_late(source, *OPTIONS, "--tile", f"{rows}x{cols}x16", "--checkpoint", "0.001s", "--io",
                    "buffered") as process:
        while process.poll() is None:
            for i, path in enumerate(sums_of(source)):
                with suppress(FileNotFoundError):
                    most[i] = max(most[i], 512 * path.stat().st_blocks)
            time.sleep(0.002)
        out, err = process.communicate()
    assert process.returncode == 0, err
    assert out.count("Saved") > 20, out
    assert 0 < min(most) and max(most) <= rows * cols * 8 + (64 << 10), most


@pytest.mark.parametrize("ranks, filler", [(0, 0), (0, 7 << 20), (2, 7 << 20)])
def test_a_disk_that_is_large_enough_for_c(tmp_path, small_disk, filler, ranks):
    """There is space for C and its checkpoints, or for C only."""
    source, output = tmp_path / "input.h5", small_disk / "c.h5"
    a, b, _ = operands(source, 1200, 1200, 3000)
    (small_disk / "filler").write_bytes(bytes(filler))
    done = run("dgemm_ooc", source, "-o", output, "--tile", "424x424x64", "--checkpoint", "0.02s",
               ranks=ranks)
    assert done.returncode == 0, done.stdout + done.stderr
    assert ("cannot save" in done.stderr) == (filler > 0), done.stderr
    assert np.allclose(read(output), a @ b)
    assert {path.name for path in small_disk.iterdir()} == {"c.h5", "filler"}


def damage_output(source):
    with h5py.File(output_of(source), "r+") as file:
        file["C"][5, 5] += 1


@pytest.mark.parametrize("ranks", [0, 2])
def test_a_full_check_of_what_is_complete(wide, tmp_path, ranks):
    source = linked(wide[0], tmp_path)
    go_on(source)
    done = go_on(source, "--verify", "full", ranks=ranks)
    assert "made from these operands already" in done.stdout and "Full check" in done.stdout
    assert "RESULT: C is checked" in done.stdout.splitlines()[-1]
    damage_output(source)
    done = run("dgemm_ooc", source, *OPTIONS, "--verify", "full", ranks=ranks)
    assert done.returncode == VERIFY and "differs from what was written" in done.stderr, done.stderr
    assert "already" in go_on(source, ranks=ranks).stdout


def test_papers_of_what_is_complete(wide, tmp_path):
    """The run has not multiplied anything that these could show."""
    source, page, trace = linked(wide[0], tmp_path), tmp_path / "p.html", tmp_path / "t.json"
    go_on(source)
    done = go_on(source, "--html", page, "--trace", trace)
    for what, path in ("page", page), ("trace", trace):
        assert f"the {what} {path} is not written, since nothing was multiplied; --force multiplies " \
            "again" in done.stderr
        assert not path.exists()
    done = run("dgemm_ooc", source, *OPTIONS, "--html", tmp_path / "no" / "p.html")
    assert done.returncode == INPUT and "cannot write the page" in done.stderr, done.stderr


def seconds(text):
    """The predicted time, and the number of pieces."""
    found = re.search(r"Predicted   ([\d.]+) (m?s)( for all (\d+) pieces that are left)?,", text)
    return float(found[1]) / (1000 if found[2] == "ms" else 1), int(found[4] or 1)


def test_all_that_is_left_is_predicted(wide, tmp_path):
    source = linked(wide[0], tmp_path)
    stop(source, *SMALL_TILES)
    pieces = left(source)
    share = sum(p["block"][2] * p["block"][3] * (K - p["k"]) / K for p in pieces) / (M * N)
    machine = tmp_path / "r.json"  # so that nothing is probed anew
    machine.write_text(json.dumps({"disk_read_bytes_per_s": 1e12, "gemm_double_flops_per_s": 1e9}))
    whole, one = seconds(go_on(source, *SMALL_TILES, "--machine", machine, "-o", tmp_path / "x.h5").stdout)
    text = go_on(source, *SMALL_TILES, "--machine", machine).stdout
    rest, several = seconds(text)
    assert one == 1 and several == len(pieces) > 1
    assert f"\nPieces      {several} are left; Plan and Links are of the first one\n" in text
    assert 0.8 * share * whole < rest < 1.5 * share * whole + 0.2
