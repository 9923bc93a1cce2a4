"""Runs on several ranks: checks that hold for all of them, and long runs to be disturbed."""
import hashlib
import os
import re
import signal
from pathlib import Path

from launch import start
from matrices import multiply, operands, part_of, read, wait_until

M, N, K = 203, 187, 350
SCALARS = ["--alpha", "1.7", "--beta", "-0.3", "--transb", "T"]
LIMITS = ["--gpu-memory", "90K", "--host-memory", "12M"]
SLOW = ["--tile", "24x24x16"]  # many small steps, so that a run takes many seconds
ALIGNED = 1 << 20  # the offset of a new contiguous dataset in its file
SOON = 10  # seconds until a run that cannot continue has ended


def limits(device):
    return LIMITS if device == "cpu" else ["--gpu-memory", "200K"]


def bits(output):
    return hashlib.sha256(read(output).tobytes()).hexdigest()


def on_one_rank(folder):
    """A file of random operands, and the bits of their product on one rank."""
    source = folder / "input.h5"
    operands(source, M, N, K, "f8", "NT")
    multiply(source, *SCALARS, "-o", source.with_name("one.h5"))
    return source, bits(source.with_name("one.h5"))


def assert_as_planned(report, output, reference):
    """C has the bits of one rank, and the byte counts are those of the plan."""
    plan, stages = report["plan"], report["stages"]
    assert bits(output) == reference
    assert stages["read"]["bytes"] == plan["read_bytes"]
    assert stages["network"]["bytes"] == plan["sent_bytes"]
    assert stages["in"]["bytes"] == plan["in_bytes"]
    assert stages["write"]["bytes"] == plan["write_bytes"] == 8 * M * N


def same_product(problem, *options, **how):
    """Multiply on several ranks; the bits must be those of one rank, and the byte counts those of the plan."""
    source, reference = problem
    output = source.with_name("many.h5")
    report = multiply(source, *SCALARS, *options, "-o", output, "--force", **how)
    assert_as_planned(report, output, reference)
    return report


def begin(source, **how):
    """Start a long run on four ranks, and return when a part of C has been written."""
    m, n = 1200, 1000
    operands(source, m, n, 1100)
    process = start("dgemm_ooc", source, *SLOW, ranks=4, **how)
    part, c = part_of(source), slice(ALIGNED, ALIGNED + 8 * m * n)
    try:
        wait_until(lambda: part.exists() and part.read_bytes()[c].strip(b"\0"), process)
    except BaseException:
        process.kill()
        raise
    return process


def children(pid):
    """Those of all its threads."""
    lists = [task / "children" for task in Path(f"/proc/{pid}/task").iterdir()]
    return [int(child) for path in lists if path.exists() for child in path.read_text().split()]


def descendants(pid):
    """The running descendants of a process."""
    try:
        return [x for child in children(pid) for x in (child, *descendants(child))]
    except (FileNotFoundError, ProcessLookupError):
        return []  # it has ended


def environment_in(pid):
    """The initial environment of a process; empty if the process has ended."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


def processes(launcher):
    """The ranks that the launcher started, by rank number."""
    found = {pid: re.search(rb"\0(OMPI_COMM_WORLD|PMI)_RANK=(\d+)\0", b"\0" + environment_in(pid))
             for pid in descendants(launcher.pid)}
    return {int(match[2]): pid for pid, match in found.items() if match}


def pids(process, ranks):
    """The process ids of what start() has started, by rank; ranks=0 means no launcher."""
    return [pid for _, pid in sorted(processes(process).items())] if ranks else [process.pid]


def kill(launcher, rank):
    os.kill(processes(launcher)[rank], signal.SIGKILL)


def complaints(process):
    """Wait for its end, which must come soon; return the lines of its complaints."""
    with process:
        try:
            out, text = process.communicate(timeout=SOON)
        except BaseException:
            process.kill()
            raise
    assert "RESULT" not in out
    return [line for line in text.splitlines() if line.startswith("dgemm_ooc:")]
