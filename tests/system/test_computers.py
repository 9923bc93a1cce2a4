"""Several computers, as seen by the program: each has its own name and ranks, and they communicate through
sockets.  All of them are this computer: the launch agent of the MPI, normally ssh, gives each daemon another
name and starts it locally."""
import contextlib
import os
import select
import shutil
import signal
import subprocess
import time

import pytest

from launch import BUILD, FAULTY, GOES_ON, MPI, PATIENCE, RELEASE, SOCKETS, environment, start
from matrices import operands, output_of
from ranks import (SOON, begin, complaints, descendants, environment_in, kill, limits, on_one_rank,
                   processes, same_product)

NAMES = ["first", "second", "third"]
AGENT = """\
#!/bin/sh
host=$1
shift
export DGEMM_OOC_TEST_COMPUTER="$host"
exec unshare {user} --uts sh -c 'hostname "$0" && exec sh -c "$*"' "$host" "$@"
"""
BETWEEN = {**SOCKETS, "OMPI_MCA_btl_tcp_if_include": "lo", "OMPI_MCA_oob_tcp_if_include": "lo",
           "OMPI_MCA_if_base_do_not_resolve": "1", "OMPI_MCA_plm": "rsh", "PRTE_MCA_plm": "ssh",
           "HYDRA_IFACE": "lo", "HYDRA_LAUNCHER": "rsh"}


def environment_of(folder, slots, policy="slot"):
    """The environment in which either MPI starts so many ranks on each computer, filling one after the other
    ("slot") or in turns ("node")."""
    hosts = folder / "-".join(map(str, slots))
    hosts.write_text("".join(f"{name} slots={n}\n" for name, n in zip(NAMES, slots)))
    turns = [f"{name}:1" for turn in range(max(slots)) for name, n in zip(NAMES, slots) if turn < n]
    filled = [f"{name}:{n}" for name, n in zip(NAMES, slots)]
    order = folder / f"{hosts.name}-{policy}"
    order.write_text("\n".join(turns if policy == "node" else filled))
    return {**BETWEEN, "OMPI_MCA_plm_rsh_agent": str(folder / "agent"),
            "OMPI_MCA_orte_default_hostfile": str(hosts),
            "OMPI_MCA_rmaps_base_mapping_policy": policy,
            "PRTE_MCA_plm_ssh_agent": str(folder / "agent"), "PRTE_MCA_prte_default_hostfile": str(hosts),
            "PRTE_MCA_rmaps_default_mapping_policy": policy,
            "HYDRA_LAUNCHER_EXEC": str(folder / "agent"), "HYDRA_HOST_FILE": str(order)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder with the agent; skips if the agent does not work."""
    folder = tmp_path_factory.mktemp("computers")
    agent = folder / "agent"
    agent.write_text(AGENT.format(user="" if os.getuid() == 0 else "--map-root-user"))
    agent.chmod(0o755)
    for program in "unshare", "hostname", "mpirun":
        if not shutil.which(program):
            pytest.skip(f"no {program} here")
    done = subprocess.run([agent, "first", "hostname"], capture_output=True, text=True, timeout=PATIENCE)
    if done.stdout != "first\n":
        pytest.skip(f"a process cannot have a host name of its own here: {done.stderr.strip()}")
    done = subprocess.run(["mpirun", "-n", "2", "hostname"], capture_output=True, text=True,
                          timeout=PATIENCE, env=environment(**environment_of(folder, (1, 1))))
    if sorted(done.stdout.split()) != ["first", "second"]:
        pytest.skip(f"this mpirun starts nothing by another agent: {done.stderr.strip()}")
    return folder


@pytest.fixture(scope="module")
def problem(tmp_path_factory):
    return on_one_rank(tmp_path_factory.mktemp("ranks"))


def product(problem, folder, slots, shared, policy="slot", device="cpu"):
    """Multiply on `slots` ranks of each computer; `shared` of them share memory."""
    report = same_product(problem, *limits(device), ranks=sum(slots), device=device,
                          **environment_of(folder, slots, policy))
    assert [rank["host"] for rank in report["ranks"]] == [
        name for name, n in zip(NAMES, slots) for _ in range(n)]
    assert report["machine"]["ranks_per_node"] == shared
    assert report["plan"]["sent_bytes"] > 0


@pytest.mark.parametrize("policy, slots, shared", [
    ("slot", (2, 2), 2), ("slot", (2, 1), 2), ("slot", (1, 1, 1), 1), ("slot", (3, 2), 3),
    ("slot", (4, 2), 4), ("slot", (2, 3), 2), ("slot", (1, 3), 1), ("slot", (2, 2, 1), 2),
    ("slot", (4, 2, 3), 2), ("slot", (2, 3, 1), 1), ("node", (2, 2), 2), ("node", (3, 2), 3)])
def test_the_bits_of_one_rank(problem, folder, policy, slots, shared):
    """Ranks are numbered by computer, however they were started.  The number of ranks per node divides that of
    every computer but the last."""
    product(problem, folder, slots, shared, policy)


@pytest.mark.parametrize("slots, shared", [((2, 2), 2), ((2, 1), 2), ((1, 2), 1)])
def test_an_mpi_that_mixes_up_computers(problem, folder, slots, shared, monkeypatch):
    """With this setting Open MPI 4.1 believes that ranks of other computers share memory."""
    monkeypatch.setenv("PMIX_MCA_gds", "hash")
    product(problem, folder, slots, shared)


@pytest.mark.gpu
@pytest.mark.parametrize("slots, shared", [((2, 2), 2), ((2, 1), 2), ((1, 2), 1)])
def test_gpus_of_computers(problem, folder, gpu, slots, shared):
    product(problem, folder, slots, shared, device=gpu)


def await_that(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def left_of(pids, folder):
    """The running ones of these processes; their environment distinguishes them from reused ids."""
    return [pid for pid in pids if bytes(folder) in environment_in(pid)]


@contextlib.contextmanager
def cleared(process, folder):
    """Kill everything that this process has started, in the end."""
    started = descendants(process.pid)
    with process:
        try:
            yield process
        finally:
            for pid in left_of({*started, *descendants(process.pid)}, folder):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            process.kill()


def long_run(tmp_path, folder, policy="slot", slots=(2, 2), **how):
    """A long run on four ranks of two computers."""
    how |= environment_of(folder, slots, policy)
    return cleared(begin(tmp_path / "input.h5", **how), folder)


@pytest.mark.parametrize("rank, fault, code", [
    (3, "gemm:fail@2+", 1), (2, "pwrite:enospc@1+", 4), (3, "pread:eio@4+", 1)])
def test_an_error_on_another_computer(tmp_path, folder, rank, fault, code):
    """There is one complaint, with the location; the code is that of the failed rank; no file is left
    behind."""
    if not (BUILD / FAULTY).exists():
        pytest.skip("the program with faults is not built: make test")
    source, log = tmp_path / "input.h5", folder / "log"
    operands(source, 300, 280, 260)
    log.write_text("")
    process = start(FAULTY, source, "--tile", "64x64x16", "--io", "buffered", ranks=4,
                    DGEMM_OOC_TEST_FAULTS=fault, DGEMM_OOC_TEST_FAULT_RANK=str(rank),
                    DGEMM_OOC_TEST_FAULT_LOG=str(log), **environment_of(folder, (2, 2)))
    with cleared(process, folder):
        await_that(lambda: process.poll() is not None or "fault in" in log.read_text())
        lines = complaints(process)
    assert process.returncode == code
    assert lines[1:] == [f"dgemm_ooc: on rank {rank} (second)"], lines
    assert list(tmp_path.iterdir()) == [source]


@pytest.mark.parametrize("slots, rank", [((2, 2), 0), ((2, 2), 3), ((3, 1), 3)])
def test_a_killed_rank_ends_the_job(tmp_path, folder, slots, rank):
    """The job ends on both computers; if the rank is alone on its computer, the launcher notices its death."""
    with long_run(tmp_path, folder, slots=slots) as process:
        started = processes(process).values()
        assert len(started) == 4
        kill(process, rank)
        complaints(process)
        assert process.returncode != 0
        await_that(lambda: not left_of(started, folder), SOON)
    assert not output_of(tmp_path / "input.h5").exists()


def await_words(process, words):
    """Wait until the process prints the words, which must be soon."""
    text, deadline = "", time.monotonic() + SOON
    while words not in text:
        left = max(deadline - time.monotonic(), 0)
        assert select.select([process.stderr], [], [], left)[0], text
        more = os.read(process.stderr.fileno(), 65536).decode()
        assert more, text
        text += more


@pytest.mark.skipif(MPI == "MPICH", reason="what a rank says last is lost where hydra goes on")
@pytest.mark.skipif(RELEASE == "Open MPI 5", reason="the MPI itself ends the ranks of other computers")
@pytest.mark.parametrize("policy, started_as, rank, other", [
    ("slot", 3, 3, 2), ("node", 2, 1, 0)])
def test_a_killed_rank_is_named_where_the_launcher_goes_on(tmp_path, folder, policy, started_as,
                                                           rank, other):
    """The other rank of its computer names it by its global rank number, and ends."""
    with long_run(tmp_path, folder, policy, **GOES_ON) as process:
        pids = processes(process)
        os.kill(pids[started_as], signal.SIGKILL)
        await_words(process, f"dgemm_ooc: rank {rank} (process {pids[started_as]}) has died")
        await_that(lambda: not left_of([pids[other]], folder), SOON)
    assert not output_of(tmp_path / "input.h5").exists()
