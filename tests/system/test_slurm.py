"""On a Slurm: the ways to start ranks, and the scripts of jobs/ from the first attempt to the end."""
import os
import re
import signal
import sys

import numpy as np
import pytest

import cluster
from launch import BUILD, ROOT, SANITIZED, SRUN, header_of
from matrices import output_of, part_of, read, sparse
from ranks import ALIGNED
from scripts import SMALL, are_at_work, edited, finish, slowed, submit, submit_array

pytestmark = [pytest.mark.skipif(SANITIZED, reason="ranks are started as ever under sanitizers"),
              pytest.mark.skipif(not cluster.is_installed(),
                                 reason="no Slurm and munge here (make setup)")]

ALL = sorted(os.sched_getaffinity(0))
SIZE = (800, 800, 500)
SLOW, SLOWER = slowed("50x50x125", 10), slowed("50x50x125", 80)  # seconds, more than a minute


@pytest.fixture(scope="module")
def started(tmp_path_factory):
    with cluster.started(tmp_path_factory.mktemp("slurm")) as slurm:
        yield slurm


@pytest.mark.parametrize("interface", ["none", "cray_shasta"])
def test_srun_needs_pmi(slurm, source, interface):
    """Otherwise each task is a singleton; this is reported once."""
    done = slurm.run("srun", "-n2", f"--mpi={interface}", BUILD / "dgemm_ooc", source)
    assert done.returncode == 4
    said = [line for line in done.stderr.splitlines() if not line.startswith("srun: ")]
    assert len(said) == 1 and "started 2 tasks" in said[0] and f"srun {SRUN}" in said[0]
    assert not output_of(source).exists()


@pytest.mark.parametrize("ranks, words", [
    (2, ["srun", "-n2", SRUN]), (1, ["srun", "-n1", "--mpi=none"]),
    (2, ["salloc", "-n2", "mpirun", "-n", "2"]), (1, ["salloc", "-n2"])],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None)
def test_ways_to_start(slurm, reference, source, ranks, words):
    done = slurm.run(*words, BUILD / "dgemm_ooc", source, "-v")
    assert done.returncode == 0 and f"; {ranks} rank" in done.stdout, done.stderr
    assert read(output_of(source)).tobytes() == reference[1]


@pytest.mark.skipif(len(ALL) < 2, reason="a task cannot have fewer than all CPUs")
def test_a_binding_is_widened_within_the_allocation(slurm, source):
    """Even if no control group keeps the task there."""
    def say(*words):
        return slurm.run("srun", "-n1", *words, SRUN, BUILD / "dgemm_ooc", source, "--force", "-v").stdout

    few, narrow = say("-c1", "--exact"), say(f"-c{len(ALL)}", f"--cpu-bind=map_cpu:{ALL[0]}")
    assert re.search(r"^Ranks .* CPUs \d+, bound by the launcher$", few, re.M) and "Binding" not in few
    assert "\nBinding     rank 0 was bound to less than its share of the CPUs: widened" in narrow


@pytest.mark.skipif(not cluster.makes_cgroups(), reason="no cgroups of CPUs that Slurm may make")
@pytest.mark.skipif(len(ALL) < 2, reason="a task cannot have fewer than all CPUs")
def test_tasks_in_cgroups(tmp_path):
    """What one CPU a task costs is said with the remedy; where the kernel lets tasks have more, they take them."""
    source = tmp_path / "input.h5"
    sparse(source, "A", (3000, 1000000), "f8")
    sparse(source, "B", (1000000, 3000), "f8")
    with cluster.started(tmp_path, cgroups=True) as slurm:
        few = slurm.run("srun", "-n1", "-c1", "taskset", "-c", ",".join(map(str, ALL)), "nproc")
        assert few.stdout.strip() == "1"  # of the cgroup, whatever else is asked for
        said = {cpus: header_of(source, "srun", "-n1", f"-c{cpus}", SRUN, **slurm.env) for cpus in (1, len(ALL))}
    assert f"a rank may use 1 of {len(ALL)} CPUs" in said[1] and f"with {len(ALL)} for each about" in said[1]
    assert "Note" not in said[len(ALL)]


IN_PYTHON = f"""
import sys
sys.path.insert(0, {str(ROOT / "src/python")!r})
import numpy, dgemm_ooc
for ranks in None, 2:
    try:
        result = dgemm_ooc.matmul(numpy.eye(9), numpy.eye(9), ranks=ranks, program={str(BUILD / "dgemm_ooc")!r})
        print(result.report["machine"]["ranks"], numpy.array_equal(result, numpy.eye(9)), flush=True)
    except dgemm_ooc.UsageError as error:
        print(error, flush=True)
"""


@pytest.mark.parametrize("words", [["salloc", "-n2"], ["sbatch", "--wait", "-n2", "--output=log"], ["srun", "-n2"]],
                         ids=lambda words: words[0])
def test_python(slurm, tmp_path, words):
    """The Python package starts ranks by srun in an allocation; Pythons that srun has started are refused."""
    script = tmp_path / "script.py"
    script.write_text(f"#!{sys.executable}{IN_PYTHON}")
    script.chmod(0o755)
    done = slurm.run(*words, script, cwd=tmp_path)
    said = (tmp_path / "log").read_text() if words[0] == "sbatch" else done.stdout
    if words[0] == "srun":
        assert said.count("start one Python without a launcher") == 4, said + done.stderr
    else:
        assert done.returncode == 0 and said == "1 True\n2 True\n", said + done.stderr


def test_three_restarts(slurm, reference, source):
    """The script requeues itself whenever it is told to stop, until it has the bits of an uninterrupted run."""
    job, log = submit(slurm, source, SLOW)
    for stop in range(3):
        slurm.await_job(job, lambda state: are_at_work(source), log)
        slurm.ask("scancel", "--signal=USR2", job)
        slurm.await_job(job, lambda state: state["Restarts"] == str(stop + 1), log)
    assert finish(slurm, job, log) == 0, log.read_text()
    assert log.read_text().count("\nRestart ") == 3
    assert read(output_of(source)).tobytes() == reference[1]
    assert not list(source.parent.glob("*.stalls"))


def test_the_time_limit(slurm, source):
    """The time limit comes before the signal's lead time, and the script is requeued."""
    job, log = submit(slurm, source, SLOWER, "--time=10", "--signal=USR2@110")
    slurm.await_job(job, lambda state: are_at_work(source), log)
    slurm.ask("scontrol", "update", f"JobId={job}", "TimeLimit=2")
    slurm.await_job(job, lambda state: state["Restarts"] == "1", log)
    assert "stopped by SIGUSR2" in log.read_text()


def is_under_way(source):
    """Whether a hundredth of C has been written."""
    part, size = part_of(source), SIZE[0] * SIZE[1]
    if not part.exists() or part.stat().st_size < ALIGNED + 8 * size:
        return False
    return np.count_nonzero(np.fromfile(part, count=size, offset=ALIGNED)) > size / 100


def test_preempted(slurm, reference, source):
    """Slurm then sends SIGTERM twice; the work until then is saved, and resumed."""
    job, log = submit(slurm, source, SLOW)
    slurm.await_job(job, lambda state: is_under_way(source), log)
    slurm.submit("--partition=urgent", "--exclusive", "--wrap=true", cwd=source.parent)
    slurm.await_job(job, lambda state: state["Restarts"] == "1", log)
    assert finish(slurm, job, log) == 0, log.read_text()
    stopped = re.search(r"stopped by SIG\w+ with ([\d.]+) %", log.read_text())[1]
    assert float(stopped) > 0 and f"\nRestart     {stopped} % is done" in log.read_text()
    assert read(output_of(source)).tobytes() == reference[1]


def test_array(slurm, reference, source):
    submit_array(slurm, reference, source, SLOW)


def test_a_rank_dies(slurm, source):
    """No other rank on its computer can notice the death, but srun does, and ends the others."""
    program = source.with_name("program")
    program.write_text("#!/bin/sh\n[ $SLURM_PROCID = 1 ] && kill -KILL $$; exec sleep 1000\n")
    program.chmod(0o755)
    job, log = submit(slurm, source, SLOW, PROGRAM=program)
    killed, ended = 128 + signal.SIGKILL, 128 + signal.SIGTERM
    assert finish(slurm, job, log) in (killed, ended), log.read_text()


def test_self_test(slurm, tmp_path):
    script = edited("slurm-selftest.sh", tmp_path, FOLDER=tmp_path)
    job = slurm.submit(*SMALL, script, cwd=tmp_path)
    log = tmp_path / f"dgemm_ooc-selftest-{job}.log"
    assert finish(slurm, job, log) == 0, log.read_text()
    assert log.read_text().splitlines()[-1] == "SELF-TEST: PASSED"
    assert {path.name for path in tmp_path.iterdir()} == {script.name, log.name}
