"""Many ranks as one machine: each byte is read once, whoever needs it, and the bits are those of one
rank, on any number of ranks and nodes and any grid.  Nodes are groups of ranks of this machine."""
import hashlib
import os
import re
import select
import signal
import time

import h5py
import numpy as np
import pytest

from launch import start
from matrices import children, multiply, operands, output_of, part_of, read, wait_until

M, N, K = 203, 187, 350
SCALARS = ["--alpha", "1.7", "--beta", "-0.3", "--transb", "T"]
LIMITS = ["--gpu-memory", "90K", "--host-memory", "12M"]


@pytest.fixture(scope="module")
def problem(tmp_path_factory):
    """A file of random operands, and the bits of their product on one rank."""
    source = tmp_path_factory.mktemp("ranks") / "input.h5"
    operands(source, M, N, K, "f8", "NT")
    multiply(source, *SCALARS, "-o", source.with_name("one.h5"))
    return source, bits(source.with_name("one.h5"))


def bits(output):
    return hashlib.sha256(read(output).tobytes()).hexdigest()


def product(problem, ranks, node, *options, device="cpu", **how):
    """Multiply on nodes of so many ranks; the bits must be those of one rank, the bytes those
    that the plan promised."""
    source, reference = problem
    output = source.with_name(f"{ranks}-{node}.h5")
    report = multiply(source, *SCALARS, *options, "-o", output, "--force", ranks=ranks,
                      device=device, DGEMM_OOC_TEST_NODE=str(node), **how)
    plan, stages = report["plan"], report["stages"]
    assert bits(output) == reference
    assert stages["read"]["bytes"] == plan["read_bytes"]
    assert stages["network"]["bytes"] == plan["sent_bytes"]
    assert stages["in"]["bytes"] == plan["in_bytes"]
    assert stages["write"]["bytes"] == plan["write_bytes"] == 8 * M * N
    return report


def limits(device):
    return LIMITS if device == "cpu" else ["--gpu-memory", "200K"]


@pytest.mark.parametrize("ranks, node", [
    (ranks, node) for ranks in (2, 3, 4, 5, 7, 8) for node in (1, 2, 3, 8) if node <= max(3, ranks)])
def test_any_ranks_and_nodes(problem, device, ranks, node):
    report = product(problem, ranks, node, *limits(device), device=device)
    assert (report["plan"]["sent_bytes"] > 0) == (ranks > node)


@pytest.mark.parametrize("grid", ["1x6", "6x1", "2x3", "3x2", "2x2", "1x5", "1x1"])
@pytest.mark.parametrize("node", [1, 2, 4, 6])
def test_any_grid(problem, device, grid, node):
    product(problem, 6, node, *limits(device), "--grid", grid, device=device)


@pytest.mark.parametrize("node", [1, 2, 4])
@pytest.mark.parametrize("options", [
    ["--tile", "37x41x32"], ["--tile", "30x187x16", "--grid", "4x1"],
    ["--tile", "203x9x350", "--grid", "1x4"], ["--tile", "9x9x48", "--grid", "2x2"]],
    ids=lambda options: " ".join(options))
@pytest.mark.parametrize("memory", ["8M", "12M", "64M"])
def test_ragged_tiles_and_kept_panels(problem, node, options, memory):
    """Ranks that have no tile in some super-blocks; hosts that keep some panels, or all."""
    product(problem, 4, node, *options, "--host-memory", memory)


def test_a_node_reads_once(problem):
    """With room to keep panels, four ranks read from the disk what one does: all of it, once."""
    report = product(problem, 4, 4, "--gpu-memory", "90K", "--host-memory", "64M")
    assert report["plan"]["read_bytes"] == 8 * (M * K + N * K + M * N)


def test_nodes_read_once_between_them(problem):
    report = product(problem, 4, 1, "--grid", "2x2", "--host-memory", "64M")
    assert report["plan"]["read_bytes"] == 8 * (M * K + N * K + M * N)
    assert report["plan"]["sent_bytes"] == 8 * (M * K + N * K)


def test_nodes_over_tcp(problem):
    """What nodes send each other goes through sockets, as between computers."""
    report = product(problem, 4, 2, *LIMITS, "--grid", "2x2", OMPI_MCA_pml="ob1",
                     OMPI_MCA_btl="tcp,self")
    assert report["plan"]["sent_bytes"] > 0


@pytest.mark.parametrize("node", [1, 2])
def test_chunked(tmp_path, node):
    source = tmp_path / "input.h5"
    a, b = np.random.rand(300, 200), np.random.rand(200, 250)
    with h5py.File(source, "w") as file:
        file.create_dataset("A", data=a, chunks=(64, 48), compression="gzip", shuffle=True)
        file.create_dataset("B", data=b, chunks=(16, 250))
    multiply(source, "--host-memory", "40M", ranks=4, DGEMM_OOC_TEST_NODE=str(node))
    assert np.allclose(read(output_of(source)), a @ b, rtol=1e-12)


SLOW = ["--tile", "64x64x16"]  # so many small steps that this takes many seconds


def begin(source, node, **how):
    """Start a long run on four ranks, and come back when something of C is there."""
    operands(source, 1200, 1000, 1100)
    process = start("dgemm_ooc", source, *SLOW, ranks=4, DGEMM_OOC_TEST_NODE=str(node), **how)
    part = part_of(source)
    wait_until(lambda: part.exists() and part.read_bytes()[8192:].strip(b"\0"), process)
    return process


def complaints(process):
    """What it says when it ends, which it does soon."""
    began = time.monotonic()
    with process:
        out, text = process.communicate(timeout=60)
    assert time.monotonic() - began < 10 and "RESULT" not in out
    return [line for line in text.splitlines() if line.startswith("dgemm_ooc:")]


@pytest.mark.parametrize("node", [1, 2, 4])
def test_an_error_ends_all_ranks(tmp_path, node):
    """Whichever rank meets it first: one message, one code, soon."""
    source = tmp_path / "input.h5"
    process = begin(source, node)
    os.truncate(source, 8192)
    lines = complaints(process)
    assert process.returncode == 1
    assert "input.h5" in lines[0]
    assert len(lines) == 2 and re.match(r"dgemm_ooc: on rank \d \(", lines[1])
    assert not list(tmp_path.glob("*.part"))


def kill(process, victim):
    os.kill(children(process.pid)[victim], signal.SIGKILL)


@pytest.mark.parametrize("node, victim, says", [
    (4, 2, r"has waited .*; on its node:\n(  rank . .*\n)*  rank 2 .* has been stopped for"),
    (2, 0, r"has waited .*; on its node:\n  rank 0 .* has been stopped for"),
    (1, 3, r"rank [0-2] has waited . s for (., slab .*, from rank|other ranks)")],
    ids=["one node", "two", "four"])
def test_who_waits_for_whom_is_said(tmp_path, node, victim, says):
    """Of a rank that is stopped; when it runs again the run comes to its end."""
    process = begin(tmp_path / "input.h5", node, DGEMM_OOC_TEST_WAIT="1")
    said, rank = "", children(process.pid)[victim]
    os.kill(rank, signal.SIGSTOP)
    try:
        while not re.search(says, said):
            assert select.select([process.stderr], [], [], 60)[0], said
            said += os.read(process.stderr.fileno(), 4096).decode()
    finally:
        os.kill(rank, signal.SIGCONT)
    with process:
        assert "RESULT: C complete" in process.communicate(timeout=60)[0]


@pytest.mark.parametrize("node", [1, 2, 4])
@pytest.mark.parametrize("victim", [0, 3])
def test_a_killed_rank_ends_the_job(tmp_path, node, victim):
    source = tmp_path / "input.h5"
    process = begin(source, node)
    kill(process, victim)
    complaints(process)
    assert process.returncode != 0
    assert not output_of(source).exists()


@pytest.mark.parametrize("victim", [0, 2])
def test_a_killed_rank_is_named_where_the_launcher_goes_on(tmp_path, victim):
    source = tmp_path / "input.h5"
    process = begin(source, 4, OMPI_MCA_orte_enable_recovery="1")
    kill(process, victim)
    lines = complaints(process)
    assert [line for line in lines if f"rank {victim} (process" in line and "has died" in line]
    assert not output_of(source).exists()
    assert victim == 0 or not list(tmp_path.glob("*.part"))  # rank 0 has made it
