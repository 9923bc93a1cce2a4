"""Many ranks act as one machine: each byte is read once, and the bits are those of one rank, for any number of
ranks and nodes and any grid.  Nodes are groups of ranks of this machine."""
import json
import os
import re
import select
import signal
import subprocess
import time

import h5py
import numpy as np
import pytest

from launch import (APART, BUILD, FAULTY, GOES_ON, MPI, PATIENCE, RANK, SOCKETS, STOP, environment,
                    run)
from matrices import multiply, operands, output_of, part_of, read, wait_until, whole
from ranks import (K, LIMITS, M, N, SLOW, begin, complaints, kill, limits, on_one_rank, processes,
                   same_product)


@pytest.fixture(scope="module")
def problem(tmp_path_factory):
    return on_one_rank(tmp_path_factory.mktemp("ranks"))


def product(problem, ranks, node, *options, **how):
    """Multiply on nodes of `node` ranks."""
    return same_product(problem, *options, ranks=ranks, DGEMM_OOC_TEST_NODE=str(node), **how)


@pytest.mark.singly
@pytest.mark.parametrize("ranks, node", [
    (ranks, node) for ranks in (2, 3, 5, 8) for node in (1, 2, 3, 8) if node <= max(3, ranks)])
def test_any_ranks_and_nodes(problem, device, ranks, node):
    report = product(problem, ranks, node, *limits(device), device=device)
    assert (report["plan"]["sent_bytes"] > 0) == (ranks > node)


@pytest.mark.singly
@pytest.mark.parametrize("grid", ["1x6", "6x1", "2x3", "3x2", "2x2", "1x5", "1x1"])
@pytest.mark.parametrize("node", [1, 2, 4, 6])
def test_any_grid(problem, device, grid, node):
    product(problem, 6, node, *limits(device), "--grid", grid, device=device)


GRIDS = [(7, "7x1"), (7, "1x7"), (8, "8x1"), (8, "1x8"), (8, "2x4"), (8, "4x2"), (8, "3x1")]


@pytest.mark.singly
@pytest.mark.parametrize("ranks, grid", GRIDS)
@pytest.mark.parametrize("node", [3, 5, 7])
def test_grids_across_nodes(problem, ranks, grid, node):
    """Nodes begin within rows of the grid, and the last node has fewer ranks."""
    product(problem, ranks, node, *LIMITS, "--grid", grid)


@pytest.mark.gpu
@pytest.mark.parametrize("ranks, grid, node", [(7, "7x1", 3), (8, "2x4", 3), (8, "4x2", 5)])
def test_gpus_of_grids_across_nodes(problem, gpu, ranks, grid, node):
    product(problem, ranks, node, *limits(gpu), "--grid", grid, device=gpu)


@pytest.mark.parametrize("node", [4, 13])
def test_a_rank_that_the_planner_leaves_out(problem, tmp_path, node):
    """With 13 ranks and a slow bus, a grid of a single row or column would take longer over the bus."""
    machine = tmp_path / "machine.json"
    machine.write_text(json.dumps({"in_bytes_per_s": 1e6}))
    report = product(problem, 13, node, "--machine", machine, "--host-memory", "24M")
    rows, cols = report["plan"]["grid"]
    assert rows * cols == 12


@pytest.mark.singly
@pytest.mark.parametrize("m, n, options, said", [
    (3, 2, ["--grid", "4x1"], "1 rank without a tile: C is too small"), (3, 2, [], None),
    (1, 1, [], "3 ranks without a tile: left out of the grid"),
    (40, 30, ["--grid", "1x2"], "2 ranks without a tile: left out of the grid"), (40, 30, [], None)])
@pytest.mark.parametrize("node", [1, 4])
def test_more_ranks_than_tiles(tmp_path, m, n, options, said, node):
    """The plan states how many ranks have no tile; they wait for the others, and the product is right."""
    source = tmp_path / "input.h5"
    a, b, _ = operands(source, m, n, 50, kind=whole)
    done = run("dgemm_ooc", source, *options, ranks=4, DGEMM_OOC_TEST_NODE=str(node))
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if "without a tile" in line]
    assert len(lines) == (said is not None) and all(said in line for line in lines)
    assert np.array_equal(read(output_of(source)), a @ b)


@pytest.mark.singly
@pytest.mark.parametrize("node", [1, 2, 4])
@pytest.mark.parametrize("options", [
    ["--tile", "37x41x32"], ["--tile", "30x187x16", "--grid", "4x1"],
    ["--tile", "203x9x350", "--grid", "1x4"], ["--tile", "9x9x48", "--grid", "2x2"]],
    ids=lambda options: " ".join(options))
@pytest.mark.parametrize("memory", ["8M", "12M", "64M"])
def test_ragged_tiles_and_kept_panels(problem, node, options, memory):
    """Some ranks have no tile in some super-blocks; hosts cache some panels, or all."""
    product(problem, 4, node, *options, "--host-memory", memory)


def test_a_node_reads_once(problem):
    """If the panels fit the cache, four ranks together read everything once, as one rank does."""
    report = product(problem, 4, 4, "--gpu-memory", "90K", "--host-memory", "64M")
    assert report["plan"]["read_bytes"] == 8 * (M * K + N * K + M * N)


def test_nodes_read_once_between_them(problem):
    report = product(problem, 4, 1, "--grid", "2x2", "--host-memory", "64M")
    assert report["plan"]["read_bytes"] == 8 * (M * K + N * K + M * N)
    assert report["plan"]["sent_bytes"] == 8 * (M * K + N * K)


def test_nodes_over_tcp(problem):
    """Nodes communicate through sockets, as between computers."""
    report = product(problem, 4, 2, *LIMITS, "--grid", "2x2", **SOCKETS)
    assert report["plan"]["sent_bytes"] > 0


@pytest.mark.smoke
@pytest.mark.parametrize("node", [1, 2])
def test_chunked(tmp_path, node):
    source = tmp_path / "input.h5"
    a, b = np.random.rand(300, 200), np.random.rand(200, 250)
    with h5py.File(source, "w") as file:
        file.create_dataset("A", data=a, chunks=(64, 48), compression="gzip", shuffle=True)
        file.create_dataset("B", data=b, chunks=(16, 250))
    multiply(source, "--host-memory", "40M", ranks=4, DGEMM_OOC_TEST_NODE=str(node))
    assert np.allclose(read(output_of(source)), a @ b, rtol=1e-12)


@pytest.mark.parametrize("node", [1, 2, 4])
def test_an_error_ends_all_ranks(tmp_path, node):
    """Whichever rank fails first, there is one message and one exit code, soon."""
    source = tmp_path / "input.h5"
    process = begin(source, DGEMM_OOC_TEST_NODE=str(node))
    os.truncate(source, 8192)
    lines = complaints(process)
    assert process.returncode == 3
    assert len(lines) == 1 and "input.h5, which A and B are read from, changed" in lines[0]
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.parametrize("node, victim, says", [
    (4, 2, r"has waited .*; on its node:\n(  rank . .*\n)*  rank 2 .* has been stopped for"),
    (2, 0, r"has waited .*; on its node:\n  rank 0 .* has been stopped for"),
    (1, 3, r"rank [0-2] .*has waited . s for (., step .*, from rank 3|rank 3 to (take|send)|other ranks)")],
    ids=["one node", "two", "four"])
def test_who_waits_for_whom_is_said(tmp_path, node, victim, says):
    """A rank is suspended and reported as the cause of the stall; when it continues, so does the run, until it
    is stopped with a checkpoint."""
    process = begin(tmp_path / "input.h5", DGEMM_OOC_TEST_NODE=str(node), DGEMM_OOC_TEST_WAIT="1")
    said, rank = "", processes(process)[victim]
    os.kill(rank, signal.SIGSTOP)
    try:
        while not re.search(says, said):
            assert select.select([process.stderr], [], [], 60)[0], said
            said += os.read(process.stderr.fileno(), 4096).decode()
    finally:
        os.kill(rank, signal.SIGCONT)
    process.send_signal(STOP)
    with process:
        assert "resumes from there" in process.communicate(timeout=PATIENCE)[1]
    assert process.returncode == 75 or (MPI == "MPICH" and process.returncode == 0)  # hydra loses it after TERM


def test_it_is_said_who_keeps_the_others_from_the_end(tmp_path):
    """One rank is still writing when all others have finished."""
    if not (BUILD / FAULTY).exists():
        pytest.skip("the program with faults is not built: make test")
    operands(tmp_path / "input.h5", 300, 200, 300)
    done = run(FAULTY, tmp_path / "input.h5", "--tile", "50x50x48", "--grid", "2x2",
               "--io", "buffered", ranks=4, DGEMM_OOC_TEST_WAIT="1",
               DGEMM_OOC_TEST_FAULT_RANK="3", DGEMM_OOC_TEST_FAULTS="pwrite:delay%100")
    assert done.returncode == 0
    assert re.search(r"rank 0 has waited . s for other ranks .*; on its node:\n"
                     r"  rank 1 .* for other ranks .*\n  rank 2 .* for other ranks", done.stderr), done.stderr


@pytest.mark.singly
@pytest.mark.parametrize("node", [2, 4])
@pytest.mark.parametrize("at", [3, 4, 5, 6])
def test_a_read_that_fails_ends_all_ranks(tmp_path, node, at):
    """This includes ranks that wait in a vote for the ranks that need the data."""
    if not (BUILD / FAULTY).exists():
        pytest.skip("the program with faults is not built: make test")
    source, machine = tmp_path / "input.h5", tmp_path / "machine.json"
    operands(source, 300, 280, 260)
    machine.write_text(json.dumps({"gemm_double_flops_per_s": 1e5}))  # they vote at every slab
    before = set(tmp_path.iterdir())
    done = run(FAULTY, source, "--machine", machine, "--tile", "64x64x16", "--io", "buffered",
               ranks=4, DGEMM_OOC_TEST_NODE=str(node), DGEMM_OOC_TEST_FAULT_RANK="3",
               DGEMM_OOC_TEST_FAULTS=f"pread:eio@{at}+,pread:delay%100")
    lines = [line for line in done.stderr.splitlines() if line.startswith("dgemm_ooc:")]
    assert done.returncode in (1, 3) and len(lines) == 2, done.stderr
    assert "Input/output error" in lines[0] and "on rank 3 " in lines[1]
    assert set(tmp_path.iterdir()) == before


def test_ranks_that_are_numbered_apart_are_not_taken_for_dead(tmp_path):
    """Each rank has its own PID namespace, as in containers."""
    apart = ["unshare", "--fork", "--pid", "--mount-proc"]
    if subprocess.run([*apart, "true"], capture_output=True).returncode:
        pytest.skip("a process cannot have a process space of its own here")
    operands(tmp_path / "input.h5", 800, 700, 800)
    line = ["mpirun", "-n", "2", *apart, "sh", "-c",  # the two ranks have different process ids
            f'[ "{RANK}" = 0 ] || for i in 1 2 3 4; do true & wait; done; "$@"; exit $?',
            "sh", BUILD / "dgemm_ooc", tmp_path / "input.h5", *SLOW]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(
            DGEMM_OOC_DEVICE="cpu", **APART)) as process:
        wait_until(part_of(tmp_path / "input.h5").exists, process)
        rank = processes(process)[1]
        os.kill(rank, signal.SIGSTOP)  # the other one waits, and looks for it once a second
        time.sleep(2.5)
        os.kill(rank, signal.SIGCONT)
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0 and "RESULT: C complete" in out and "has died" not in err, err


def test_ranks_with_host_names_of_their_own_share(tmp_path):
    """The ranks have different host names on one computer, as in containers."""
    named = ["unshare", "--uts", "sh", "-c", f'hostname "own{RANK}" && exec "$@"', "sh"]
    if subprocess.run([*named, "true"], capture_output=True).returncode:
        pytest.skip("a process cannot have a host name of its own here")
    source, report = tmp_path / "input.h5", tmp_path / "report.json"
    operands(source, 300, 200, 250)
    done = subprocess.run(["mpirun", "-n", "2", *named, BUILD / "dgemm_ooc", source, "--report", report],
                          capture_output=True, text=True, timeout=PATIENCE,
                          env=environment(DGEMM_OOC_DEVICE="cpu"))
    assert done.returncode == 0, done.stderr
    report = json.loads(report.read_text())
    assert [rank["host"] for rank in report["ranks"]] == ["own0", "own1"]
    assert report["machine"]["ranks_per_node"] == 2


@pytest.mark.singly
@pytest.mark.parametrize("node", [1, 2, 4])
@pytest.mark.parametrize("victim", [0, 3])
def test_a_killed_rank_ends_the_job(tmp_path, node, victim):
    source = tmp_path / "input.h5"
    process = begin(source, DGEMM_OOC_TEST_NODE=str(node))
    kill(process, victim)
    complaints(process)
    assert process.returncode != 0
    assert not output_of(source).exists()


@pytest.mark.skipif(MPI == "MPICH", reason="what a rank says last is lost where hydra goes on")
@pytest.mark.parametrize("victim", [0, 2])
def test_a_killed_rank_is_named_where_the_launcher_goes_on(tmp_path, victim):
    source = tmp_path / "input.h5"
    process = begin(source, **GOES_ON)
    kill(process, victim)
    lines = complaints(process)
    assert [line for line in lines if f"rank {victim} (process" in line and "has died" in line]
    assert not output_of(source).exists()
    assert victim == 0 or not list(tmp_path.glob("*.part"))  # rank 0 has created it
