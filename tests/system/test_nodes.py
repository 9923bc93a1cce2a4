"""On a Slurm of four nodes: the traffic between nodes, and jobs that lose a rank or a node, or are requeued."""
import json
import os
import re
import signal

import pytest

import cluster
import nodes
from launch import BUILD, FAULTY, MPI, SANITIZED, SRUN
from matrices import output_of, part_of, read
from ranks import LIMITS, SCALARS, assert_as_planned, on_one_rank
from scripts import are_at_work, finish, ranks_at_work, submit, submit_array

pytestmark = [pytest.mark.cluster,
              pytest.mark.skipif(SANITIZED, reason="ranks are started as ever under sanitizers"),
              pytest.mark.skipif(not cluster.is_installed(),
                                 reason="no Slurm and munge here (make setup)")]

SIZE = (800, 800, 500)
SLOW, SLOWER = "16x16x16", "2x2x16"  # many small steps, so that a run takes seconds, minutes
# One that is still at work when Slurm looks at its time limit, twice a minute; a step of MPICH takes longer.
MINUTES = "8x8x16" if MPI == "MPICH" else "4x8x16"


@pytest.fixture(scope="module")
def started(tmp_path_factory):
    with nodes.spaces() as (first, why_not):
        if not first:
            pytest.skip(f"no namespaces for nodes here: {why_not}")
        with nodes.started(tmp_path_factory.mktemp("nodes"), first) as slurm:
            yield slurm


@pytest.fixture(scope="module")
def problem(tmp_path_factory):
    return on_one_rank(tmp_path_factory.mktemp("ranks"))


@pytest.mark.parametrize("each", [1, 2])
def test_the_bits_of_one_rank(slurm, problem, each):
    """The ranks of a node share memory; exactly the plan's bytes are sent between nodes."""
    source, output, path = problem[0], problem[0].with_name("many.h5"), problem[0].with_name("report.json")

    def multiplied():
        return slurm.run("srun", "--kill-on-bad-exit=1", "--nodes=4", f"--ntasks-per-node={each}", SRUN,
                         BUILD / FAULTY, source, *SCALARS, *LIMITS, "--report", path, "-o", output, "--force")

    done = once_more_if_mpi_fell_over(multiplied, lambda done: done.stderr + done.stdout)
    assert done.returncode == 0, done.stderr
    report = json.loads(path.read_text())
    assert [rank["host"] for rank in report["ranks"]] == [
        name for name in nodes.NAMES for _ in range(each)]
    assert report["machine"]["ranks_per_node"] == each and report["plan"]["sent_bytes"] > 0
    assert_as_planned(report, output, problem[1])


def saved(source):
    """The percentage of the product that is saved according to the journal."""
    journal = source.with_name("input-C.h5.journal")
    lines = journal.read_text().split("\n")[:-1] if journal.exists() else []
    lines = [line for line in lines if '"left"' in line]
    m, n, k = SIZE
    left = json.loads(lines[-1].split(" ", 1)[1])["left"] if lines else [{"block": [0, 0, m, n], "k": 0}]
    todo = sum((k - piece["k"]) * piece["block"][2] * piece["block"][3] for piece in left)
    return 100 - 100 * todo / (m * n * k)


def mpi_fell_over(text, starts):
    """Under srun Open MPI 4.1 sometimes crashes in MPI_Init, before the program prints anything."""
    return "Segmentation fault" in text and text.count("\nStarted ") < starts


def skip_if_mpi_fell_over(text, starts):
    if mpi_fell_over(text, starts):
        pytest.skip("the MPI fell over as it started")


def once_more_if_mpi_fell_over(begin, text_of):
    """What begin() returns, the first time or the second; text_of() of it is what the run has printed."""
    begun = begin()
    if mpi_fell_over(text_of(begun), 1):
        begun = begin()
    skip_if_mpi_fell_over(text_of(begun), 1)
    return begun


def submit_on(slurm, source, tile, count, each, *options):
    """Submit the production script on `count` nodes with `each` ranks, with a checkpoint every second; return
    its job and its log once the ranks are at work."""
    slow = {"DGEMM_OOC_TILE": tile, "DGEMM_OOC_CHECKPOINT": "1s"}

    def submitted():
        job, log = submit(slurm, source, slow, f"--nodes={count}", f"--ntasks-per-node={each}",
                          f"--gpus-per-node={each}", *options)
        slurm.await_job(job, lambda state: state["JobState"] == "FAILED" or part_of(source).exists() and
                        are_at_work(source, count * each), log)
        return job, log

    return once_more_if_mpi_fell_over(submitted, lambda begun: begun[1].read_text())


def test_a_rank_that_is_killed_alone_on_its_node(slurm, source):
    """The launcher notices the death, and ends the others."""
    job, log = submit_on(slurm, source, SLOWER, 3, 1)
    os.kill(ranks_at_work(source)[-1], signal.SIGKILL)
    assert finish(slurm, job, log) in (128 + signal.SIGKILL, 128 + signal.SIGTERM), log.read_text()
    assert not ranks_at_work(source)


def assert_complete(slurm, job, log, source, reference):
    status = finish(slurm, job, log)
    skip_if_mpi_fell_over(log.read_text(), 2)
    assert status == 0, log.read_text()
    assert read(output_of(source)).tobytes() == reference[1]


def requeue(slurm, job, log):
    slurm.ask("scontrol", "requeue", job)


def preempt(slurm, job, log):
    slurm.submit("--partition=urgent", "--nodes=4", "--exclusive", "--wrap=true", cwd=log.parent)


def reach_the_time_limit(slurm, job, log):
    slurm.ask("scontrol", "update", f"JobId={job}", "TimeLimit=1")
    slurm.await_job(job, lambda state: state["Restarts"] == "1", log)
    slurm.ask("scontrol", "update", f"JobId={job}", "TimeLimit=10")


@pytest.mark.parametrize("how, tile", [
    (requeue, SLOW), (preempt, SLOW),
    (reach_the_time_limit, MINUTES)])
def test_it_goes_on_from_where_it_was_stopped(slurm, reference, source, how, tile):
    job, log = submit_on(slurm, source, tile, 4, 1, "--time=10", "--signal=USR2@57")
    slurm.await_job(job, lambda state: saved(source) >= 0.1, log)  # which is said with one digit
    how(slurm, job, log)
    assert_complete(slurm, job, log, source, reference)
    stopped = re.search(r"stopped by SIG\w+ with ([\d.]+) %", log.read_text())[1]
    assert float(stopped) > 0 and f"\nRestart     {stopped} % is done" in log.read_text()


def test_array(slurm, reference, source):
    submit_array(slurm, reference, source, {"DGEMM_OOC_TILE": SLOW}, "--nodes=2", "--ntasks-per-node=1",
                 "--gpus-per-node=1")


def test_a_node_that_dies(slurm, reference, source):
    """The script's job restarts on other nodes, and loses at most the work since the last checkpoint.  This is
    the last test here, since the node stays dead."""
    job, log = submit_on(slurm, source, "8x8x16", 2, 2)  # long enough to be cut off where the machine is busy
    slurm.await_job(job, lambda state: saved(source) > 0, log)
    slurm.cut(slurm.job(job)["BatchHost"])
    before = saved(source)
    assert_complete(slurm, job, log, source, reference)
    done, = re.findall(r"\nRestart     ([\d.]+) % is done", log.read_text())
    assert float(done) >= before - 0.1
