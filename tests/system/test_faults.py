"""Disks, memory and devices that fail.  A run with an injected fault either succeeds with the same bits, or
reports once what failed, with the right exit code; then there is neither an output nor a file that could be
taken for one.  Inputs are unchanged, and nothing hangs.

DGEMM_OOC_TEST_SEEDS=N tests N calls instead of one."""
import collections
import os
import random as chance
import re

import h5py
import pytest

from launch import BUILD, FAULTY, WAYS, run
from matrices import random, read, snapshot

SEEDS = int(os.environ.get("DGEMM_OOC_TEST_SEEDS", "1"))
SIZE = (70, 90, 110)
OPTIONS = ["--tile", "30x40x32", "--beta", "0.5", "-c", "C"]
RUNTIME, INPUT, RESOURCES, VERIFY = 1, 3, 4, 5

CASES = {way: ["--io", way] for way in WAYS if way != "auto"} | {
    "chunks": ["-a", "A chunks", "-b", "B chunks"],
    "plain chunks": ["-a", "A plain", "-b", "B plain"],
}
# The faults of each call, and the exit codes of runs that fail by them.
FAULTS = {
    "pread": {"eio": RUNTIME, "eof": RUNTIME},
    "preadv": {"eio": RUNTIME, "eof": RUNTIME},
    "pwrite": {"eio": RUNTIME, "enospc": RESOURCES, "edquot": RESOURCES},
    "write": {"eio": RUNTIME, "enospc": RESOURCES},
    "fallocate": {"enospc": RESOURCES, "eopnotsupp": None},
    "fdatasync": {"eio": RUNTIME, "enospc": RESOURCES},
    "fsync": {"eio": RUNTIME, "enospc": RESOURCES},
    "rename": {"eio": RUNTIME, "enospc": RESOURCES},
    "open": {"emfile": RUNTIME},
    "ftruncate": {"enospc": RESOURCES},
    "madvise": {"efault": RESOURCES},
    "malloc": {"enomem": RESOURCES},
    "mmap": {"enomem": RESOURCES},
    "thread": {"eagain": RESOURCES},
    "alloc": {"fail": RESOURCES},
}
SYSTEM = set(FAULTS)
FAULTS |= {name: {"fail": RUNTIME} for name in (
    "pin", "event", "record", "wait", "sync", "copy", "gemm", "combine", "project")}
# A file that cannot be opened counts as bad input at first, as does a failed mapping if it was requested; and
# HDF5 does not report that it ran out of memory while opening a file.
ALSO = {"open": {INPUT, RESOURCES}, "mmap": {INPUT}, "madvise": {INPUT},
        "pread": {INPUT}, "malloc": {INPUT}}
# Calls whose failure must end the run.
MUST = ("pwrite", "fdatasync", "rename", "alloc", "copy", "gemm", "combine", "project")
MILD = ",".join(f"{call}:{fault}%{share}" for call in ("pread", "preadv", "pwrite")
                for fault, share in (("eintr", 20), ("short", 40), ("delay", 1))) + ",fallocate:eintr@1"


@pytest.fixture(scope="module")
def problem(tmp_path_factory):
    """A file of operands, stored in several ways, and the bits of their product."""
    if not (BUILD / FAULTY).exists():
        pytest.skip("the program with faults is not built: make test")
    m, n, k = SIZE
    source = tmp_path_factory.mktemp("faults") / "input.h5"
    with h5py.File(source, "w") as file:
        for name, shape in ("A", (m, k)), ("B", (k, n)), ("C", (m, n)):
            file[name] = random(shape)
            file.create_dataset(f"{name} chunks", data=file[name], chunks=(16, 24), shuffle=True,
                                compression="gzip", fletcher32=True)
            file.create_dataset(f"{name} plain", data=file[name], chunks=(16, 24))
    done = run("dgemm_ooc", source, *OPTIONS, "-o", source.with_name("good.h5"))
    assert done.returncode == 0, done.stderr
    return source, bits_of(source.with_name("good.h5"))


def bits_of(output):
    return read(output).tobytes()


def meet(problem, faults, *options, ranks=0, seed=0, **env):
    """Run with injected faults, check the invariants of all runs, and return the process and the log."""
    source, bits = problem
    folder = source.parent
    output, log = folder / "out.h5", folder / "log"
    log.unlink(missing_ok=True)
    before = snapshot(folder)
    done = run(FAULTY, source, *OPTIONS, *options, "-o", output, ranks=ranks,
               DGEMM_OOC_TEST_FAULTS=faults, DGEMM_OOC_TEST_SEED=str(seed),
               DGEMM_OOC_TEST_FAULT_LOG=str(log), **env)
    lines = log.read_text().splitlines() if log.exists() else []
    log.unlink(missing_ok=True)
    what = f"{faults} {options} ranks={ranks} seed={seed}\n{done.stdout}{done.stderr}"
    assert ("RESULT: C complete" in done.stdout) == (done.returncode == 0), what
    if done.returncode == 0:
        assert bits_of(output) == bits, what
        output.unlink()
    if "C is complete in it" in done.stderr:  # if the final rename fails, C is kept
        for ending in ".part", ".journal":
            output.with_name(output.name + ending).unlink()
    assert snapshot(folder) == before, what
    said = [line for line in done.stderr.splitlines() if line.startswith("dgemm_ooc: ")]
    causes = [line for line in said if not line.startswith("dgemm_ooc: on rank ")
              and not line.endswith("it is computed again") and "cannot watch the others" not in line]
    assert bool(causes) == (done.returncode != 0), what
    assert len(causes) <= 1 or re.match("open:|malloc:", faults), what  # each file has its own complaint
    return done, lines


@pytest.fixture(scope="module")
def counts(problem):
    """The number of times that a run makes each call."""
    known = {}

    def count(case, ranks):
        if (case, ranks) not in known:
            _, lines = meet(problem, "", *CASES[case], ranks=ranks)
            known[case, ranks] = collections.Counter()
            for call, number in (line.split() for line in lines):
                known[case, ranks][call] = max(known[case, ranks][call], int(number))
        return known[case, ranks]
    return count


def some(number, key):
    """Which calls fail: a random sample with a fixed seed."""
    rng = chance.Random(repr(key))
    return [rng.randint(1, number) for _ in range(SEEDS)]


@pytest.mark.parametrize("case, call", [
    (case, call) for case in CASES for call in FAULTS if call in SYSTEM or case == "buffered"])
def test_a_call_that_fails(problem, counts, case, call):
    """The call fails once, or from then on."""
    number = counts(case, 0)[call]
    if number == 0:
        pytest.skip("not called here")
    for fault, code in FAULTS[call].items():
        for at in some(number, (case, call, fault)):
            again = chance.Random(at).choice(["", "+"])
            done, lines = meet(problem, f"{call}:{fault}@{at}{again}", *CASES[case])
            assert done.returncode in {0, code} | ALSO.get(call, set()), done.stderr
            assert done.returncode or call not in MUST, done.stderr


@pytest.mark.parametrize("case, call, fault", [
    ("buffered", "pread", "eio"), ("buffered", "pwrite", "enospc"), ("chunks", "preadv", "eio"),
    ("chunks", "malloc", "enomem"), ("mapped", "madvise", "efault"), ("buffered", "thread", "eagain"),
    ("buffered", "mmap", "enomem"), ("buffered", "open", "emfile"), ("buffered", "fdatasync", "eio"),
    ("buffered", "ftruncate", "enospc"), ("buffered", "event", "fail"), ("buffered", "copy", "fail"),
    ("buffered", "gemm", "fail"), ("buffered", "combine", "fail"), ("buffered", "sync", "fail"),
    ("buffered", "project", "fail"), ("buffered", "record", "fail"), ("buffered", "pin", "fail")])
def test_a_rank_whose_call_fails(problem, counts, case, call, fault):
    """All ranks end with the exit code and the message of the failed rank."""
    if case not in CASES or not counts(case, 2)[call]:
        pytest.skip("not called here")
    for at in some(counts(case, 2)[call], (case, call, fault)):
        rank = chance.Random(at).choice([0, 1])
        done, _ = meet(problem, f"{call}:{fault}@{at}+", *CASES[case], ranks=2,
                       DGEMM_OOC_TEST_FAULT_RANK=str(rank))
        assert done.returncode in {0, FAULTS[call][fault]} | ALSO.get(call, set()), done.stderr


@pytest.mark.singly
@pytest.mark.parametrize("ranks, rank", [(3, 2), (3, 0), (2, 1)])
@pytest.mark.parametrize("at", [3, 6, 9])
def test_a_reader_that_fails_while_its_rank_waits_for_others(problem, ranks, rank, at):
    """With three ranks the last one has no tile: it reads for the others and waits for them."""
    done, _ = meet(problem, f"pread:eio@{at}+", "--io", "buffered", "--grid", "2x1", ranks=ranks,
                   DGEMM_OOC_TEST_FAULT_RANK=str(rank))
    assert done.returncode in {0, RUNTIME}, done.stderr


@pytest.mark.singly
@pytest.mark.parametrize("ranks", [0, 2])
@pytest.mark.parametrize("case", CASES)
def test_what_is_short_or_late_leaves_the_same_bits(problem, case, ranks):
    for seed in range(SEEDS):
        done, lines = meet(problem, MILD, *CASES[case], ranks=ranks, seed=seed)
        assert done.returncode == 0, done.stderr
        assert any("fault in pwrite" in line for line in lines) or case == "mapped"


@pytest.mark.singly
@pytest.mark.parametrize("ranks", [0, 2])
@pytest.mark.parametrize("when", ["combine:delay@1", "copy:delay%15", "gemm:delay%10",
                                  "combine:delay%30", "project:delay%10",
                                  "copy:delay%8,gemm:delay%5,combine:delay%15,project:delay%5"])
def test_what_is_late_on_the_device_leaves_the_same_bits(problem, when, ranks):
    """Work that depends on a delayed operation waits for it, however long it takes."""
    for seed in range(SEEDS):
        done, lines = meet(problem, when, "--io", "buffered", ranks=ranks, seed=seed)
        assert done.returncode == 0 and lines, done.stderr


def test_a_flipped_bit_of_a_chunk_with_a_checksum_is_seen(problem, counts):
    number = counts("chunks", 0)["preadv"]
    for at in some(number, "flip"):
        done, _ = meet(problem, f"preadv:flip@{at}", *CASES["chunks"])
        assert done.returncode == INPUT and "is damaged" in done.stderr


@pytest.mark.parametrize("ranks", [0, 2])
def test_a_sum_that_the_device_gets_wrong_once(problem, counts, ranks):
    """The tile is computed again."""
    number = counts("buffered", ranks)["gemm"]
    for at in some(number - 1, ("gemm", ranks)):  # the first is not that of a tile
        done, _ = meet(problem, f"gemm:flip@{at + 1}", *CASES["buffered"], ranks=ranks,
                       DGEMM_OOC_TEST_FAULT_RANK="0")
        assert done.returncode == 0, done.stdout + done.stderr
        assert re.search(r"rank 0 .*failed its check.*; it is computed again", done.stderr)


def test_a_sum_of_floats_that_is_wrong_is_far_off(problem, tmp_path):
    """The error is as large as with doubles: the flipped bit is in a number of the right type."""
    done = run(FAULTY, problem[0], *OPTIONS, "--type", "s", "-o", tmp_path / "out.h5",
               DGEMM_OOC_TEST_FAULTS="gemm:flip@3")
    assert done.returncode == 0, done.stderr
    assert float(re.search(r"failed its check: it differs by ([\d.e+]+) times", done.stderr)[1]) > 1e4


def test_a_flipped_bit_of_a_sum_is_where_the_seed_says(problem, tmp_path):
    log, lines = tmp_path / "log", []
    for seed in "1", "1", "2", "3":
        run(FAULTY, problem[0], *OPTIONS, "-o", tmp_path / "out.h5", "--force", "--restart", "never",
            DGEMM_OOC_TEST_FAULTS="gemm:bit@3", DGEMM_OOC_TEST_SEED=seed, DGEMM_OOC_TEST_FAULT_LOG=str(log))
        lines += re.findall(r"bit \d+ of element .*", log.read_text())
        log.unlink()
    assert len(lines) == 4 and len(set(lines)) == 3 and lines[0] == lines[1]


@pytest.mark.parametrize("ranks", [0, 2])
def test_sums_that_the_device_always_gets_wrong(problem, ranks):
    done, _ = meet(problem, "gemm:flip@2+", *CASES["buffered"], ranks=ranks,
                   DGEMM_OOC_TEST_FAULT_RANK="0")
    assert done.returncode == VERIFY and "failed its check" in done.stderr


def test_a_wrong_tile_that_cannot_be_read_back(problem, counts):
    """Then that part of C's checksum is unknown."""
    samples = 64  # reads of operand samples at the end of a successful run
    reads = counts("buffered", 0)["pread"] - samples
    done, _ = meet(problem, f"gemm:flip@2,pread:eio@{reads + 1}", *CASES["buffered"])
    assert done.returncode == RUNTIME and "C cannot be read back" in done.stderr


@pytest.mark.parametrize("number", range(2, 12))
def test_a_rank_without_memory_says_so(problem, number):
    """Also where the others wait for it, and it has to end them: some of these ends had no words."""
    done = run(FAULTY, problem[0], *OPTIONS, "-o", problem[0].parent / "none.h5", ranks=3,
               DGEMM_OOC_TEST_FAULTS=f"malloc:enomem@{number}")
    assert done.returncode in (0, INPUT, RESOURCES)
    assert done.returncode == 0 or re.search("^dgemm_ooc: ", done.stderr, re.M), done.stderr


@pytest.mark.singly
@pytest.mark.parametrize("ranks", [0, 2])
@pytest.mark.parametrize("call", ["pwrite:enospc", "pwrite:eio", "fdatasync:eio",
                                  "ftruncate:enospc", "sync:fail", "copy:fail",
                                  "open:emfile", "malloc:enomem"])
def test_a_run_that_saves_goes_on_after_a_fault(problem, call, ranks):
    """The next run ends with the same bits, wherever the checkpoint failed."""
    source, bits = problem
    output = source.parent / "saved.h5"
    saving = [source, *OPTIONS, "--io", "buffered", "--checkpoint", "0.001s", "-o", output]
    rng = chance.Random(call + str(ranks))
    for _ in range(2 * SEEDS):
        fault = f"{call}@{rng.randint(1, 60)}"
        done = run(FAULTY, *saving, ranks=ranks, DGEMM_OOC_TEST_FAULTS=fault)
        assert done.returncode in (0, RUNTIME, INPUT, RESOURCES), f"{fault}\n{done.stderr}"
        assert (done.returncode == 0) == output.exists(), f"{fault}\n{done.stderr}"
    done = run(FAULTY, *saving, ranks=ranks)
    assert done.returncode == 0, done.stderr
    done = run(FAULTY, source, *OPTIONS, "--check-only", "-o", output)
    assert done.returncode == 0, done.stderr
    assert bits_of(output) == bits
    output.unlink()
    assert not list(source.parent.glob("saved*"))
