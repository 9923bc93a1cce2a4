"""The progress line tells what a run does before, in and after the product, and how much of that is done."""
import os
import re
import signal

import h5py
import numpy as np
import pytest

from launch import FAULTY, PATIENCE, run, start
from matrices import operands, random

LIVE = ["--progress", "always"]
LATE = {"DGEMM_OOC_TEST_FAULTS": "preadv:delay%10"}  # chunks; samples of files are single pieces
SHARE = re.compile(r" ([\d.]+)%(?:  eta ([\d:]+|\?)  ([\d.]+ \w+)(?: of ([\d.]+ \w+)| read or written|/s).*)?$")
SO_LONG = re.compile(r"  for (\d+):(\d\d)$")


class Phase:
    """What lines have told of a phase: percentages of what is done, or seconds."""

    def __init__(self, name):
        self.name, self.percents, self.seconds, self.lines = name, [], [], []

    def add(self, line, rest):
        self.lines.append(line)
        if share := SHARE.match(rest):
            self.percents.append(float(share[1]))
        else:
            minutes, seconds = map(int, SO_LONG.match(rest).groups())
            self.seconds.append(60 * minutes + seconds)


def follow(err, *names):
    """The phases of these names, which live lines have shown in that order, one after the other; those that count
    end complete.  \\r is read as \\n."""
    found = []
    for line in re.findall(r"^(\[.*)\x1b\[K", err, re.M):
        assert len(line) < 80, line
        name, rest = re.match(r"\[[\d:]+\] ([A-Z, a-z']+?)( [\d.]+%.*|  for .*)$", line).groups()
        if name in names and not (found and found[-1].name == name):
            found.append(Phase(name))
        if name in names:
            found[-1].add(line, rest)
    assert [phase.name for phase in found] == list(names), err
    for phase in found:
        assert phase.percents == sorted(phase.percents), phase.lines
        assert phase.seconds or phase.percents[-1] == 100, phase.lines
    return found


def scattered(path, **matrices):
    """Operands in chunks that lie here and there in their file: each is a read, so that late reads make a pass last."""
    rng = np.random.default_rng(1)
    with h5py.File(path, "w") as file:
        for name, matrix in matrices.items():
            data = file.create_dataset(name, matrix.shape, matrix.dtype, chunks=(25, 50))
            for chunk in rng.permutation(list(data.iter_chunks())):
                data[tuple(chunk)] = matrix[tuple(chunk)]
    return path


def live(source, *options, ranks=0, **env):
    done = run(FAULTY, source, *LIVE, *options, ranks=ranks, **env)
    assert done.returncode == 0, done.stderr
    assert done.stderr.endswith("\n\x1b[K") and "[" not in done.stderr.rsplit("\n", 1)[1][3:]
    return done.stderr


@pytest.mark.parametrize("ranks", [0, 2])
def test_means_and_the_full_check_tell_what_is_left(tmp_path, ranks):
    source = scattered(tmp_path / "input.h5", A=random((1000, 2000)))
    err = live(source, "--product", "cov", "--nan", "mean", "--verify", "full", ranks=ranks, **LATE)
    means, product, again, check = follow(err, "means and deviations", "product", "means and deviations, again",
                                          "full check of the files")
    assert product.percents[0] == 0
    for phase in means, again, check:
        assert any(0 < percent < 100 for percent in phase.percents), phase.lines
    assert "15.3 MiB of 15.3 MiB" in means.lines[-1] and re.search(r"eta 0:\d\d  \d", "".join(means.lines[:-1]))


def test_the_search_for_the_largest_elements_tells_what_is_left(tmp_path):
    a, b = (np.full(shape, 2**30, "i4") for shape in ((2000, 2000), (2000, 50)))
    source = scattered(tmp_path / "input.h5", A=a, B=b)
    done = run(FAULTY, source, *LIVE, **LATE)
    assert done.returncode == 3 and "int64" in done.stderr, done.stderr
    largest, = follow(done.stderr, "largest elements of A and B")
    assert any(0 < percent < 100 for percent in largest.percents), largest.lines
    assert not re.search(r"[^\n]dgemm_ooc: ", done.stderr.replace("\x1b[K", ""))


def test_a_resumed_run_tells_what_it_reads_back(tmp_path):
    """It is stopped in its second tile: the first one is compared, the sums of the second one are loaded."""
    source = tmp_path / "input.h5"
    operands(source, 400, 400, 500)
    tiles = ["--tile", "200x400x16"]
    with start(FAULTY, source, *LIVE, *tiles, DGEMM_OOC_TEST_FAULTS="pread:delay%10") as process:
        shown = b""
        while not re.search(rb"product (5[1-9]|[6-9]\d)\.", shown):
            shown += (more := os.read(process.stderr.fileno(), 4096))
            assert more, shown
        process.send_signal(signal.SIGUSR2)
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 75, err
    follow(err.replace("\r", "\n"), "saving the sums at work")
    assert re.search(r"^\x1b\[Kdgemm_ooc: stopping", err, re.M)  # on a line of its own
    checking, loading, product = follow(live(source, *tiles), "checking what was saved of C",
                                        "loading what was saved", "product")
    assert "625 KiB of 625 KiB" in checking.lines[-1] and "625 KiB of 625 KiB" in loading.lines[-1]
    assert product.percents[0] >= 50


def test_a_check_of_an_output_tells_what_is_left(tmp_path):
    source = scattered(tmp_path / "input.h5", A=random((1000, 2000)), B=random((2000, 50)))
    assert run("dgemm_ooc", source).returncode == 0
    check, = follow(live(source, "--check-only", **LATE), "full check of the files")
    assert any(0 < percent < 100 for percent in check.percents), check.lines


def test_layers_tell_what_is_left_to_add(tmp_path):
    source = tmp_path / "input.h5"
    operands(source, 200, 300, 1000)
    blocks = {"DGEMM_OOC_TEST_BLOCK": "64", "DGEMM_OOC_TEST_LAYERS": "4"}
    follow(live(source, ranks=4, **blocks), "adding up the layers")


def test_memory_for_a_gpu_tells_what_is_left(tmp_path):
    source = tmp_path / "input.h5"
    operands(source, 200, 300, 400)
    done = run("dgemm_ooc", source, *LIVE, DGEMM_OOC_DEVICE="gpu")
    assert done.returncode == 0, done.stderr
    follow(done.stderr, "preparing memory", "product")


def test_a_long_call_tells_how_long_it_lasts(tmp_path):
    source = tmp_path / "input.h5"
    operands(source, 100, 100, 100)
    late = {"DGEMM_OOC_TEST_FAULTS": "pread:delay@1+", "DGEMM_OOC_TEST_FAULT_FILE": "input.h5"}
    opening, _ = follow(live(source, **late), "opening A and B", "product")
    assert opening.seconds == sorted(opening.seconds) and opening.seconds[-1] >= 1  # 64 samples of 20 ms


def test_one_rank_tells(tmp_path):
    """Others would begin each phase once more."""
    source = scattered(tmp_path / "input.h5", A=random((1000, 2000)))
    follow(live(source, "--product", "cov", "--nan", "mean", ranks=3, **LATE), "means and deviations", "product")
