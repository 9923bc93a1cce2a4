"""The CPUs that a rank uses under each launcher: a binding to fewer than its share of the computer is widened to
that, where the job has the computer for itself."""
import json
import os
import re
import subprocess
from pathlib import Path

import pytest

import cluster
from cases import each
from launch import BROKEN, BUILD, MPI, PATIENCE, RANK, environment, header_of
from matrices import operands, sparse

ALL = os.sched_getaffinity(0)
FIRST = str(min(ALL))
pytestmark = pytest.mark.skipif(len(ALL) < 2 or len(ALL) < os.cpu_count(),
                                reason="this takes a computer with two CPUs that may all be used")
OPEN_MPI = pytest.mark.skipif(MPI != "Open MPI", reason="what Open MPI's mpirun does and can be told")


def cpus_of(text):
    """0-2,8 -> {0, 1, 2, 8}"""
    ends = [[int(end) for end in part.split("-")] for part in text.split(",")]
    return {cpu for first, *last in ends for cpu in range(first, (last or [first])[0] + 1)}


@pytest.fixture
def launch(tmp_path):
    """Returns a function that starts the program by a launcher, and returns the CPUs of each rank and who bound
    it; `said` is the output."""
    source, report = tmp_path / "input.h5", tmp_path / "report.json"
    operands(source, 60, 50, 40)

    def start(*launcher, options=(), **env):
        done = subprocess.run([*launcher, BUILD / "dgemm_ooc", source, "--force", "--report", report, "-v", *options],
                              env=environment(DGEMM_OOC_DEVICE="cpu", **env), capture_output=True,
                              text=True, timeout=PATIENCE)
        assert done.returncode == 0, done.stderr
        start.said = done.stdout
        said = json.loads(report.read_text())
        assert said["machine"]["threads"] >= 1
        return ([cpus_of(rank["cpus"]) for rank in said["ranks"]],
                {rank["bound_by"] for rank in said["ranks"]}, said["machine"]["threads"])

    return start


def test_alone_it_has_them_all(launch):
    assert launch() == ([ALL], {"nobody"}, len(ALL))
    assert launch("mpirun", "-n", "1") == ([ALL], {"nobody"}, len(ALL))


def test_alone_it_needs_no_mpi(launch):
    """As on a login node, where MPI ends what no launcher has started."""
    assert launch(**BROKEN) == ([ALL], {"nobody"}, len(ALL))
    with pytest.raises(AssertionError):
        launch("mpirun", "-n", "1", **BROKEN)


@pytest.mark.parametrize("words", [[], ["--map-by", "ppr:2:node"], ["--map-by", "slot"],
                                   ["--bind-to", "none"],
                                   pytest.param(["-x", "UNRELATED=1"], marks=OPEN_MPI)], ids=" ".join)
def test_two_ranks_have_them_all_without_sharing_any(launch, words):
    (first, second), by, threads = launch("mpirun", "-n", "2", *words)
    assert first | second == ALL and not first & second and by <= {"program", "launcher"}
    assert threads == min(len(first), len(second))


@OPEN_MPI
def test_what_is_not_to_be_changed_is_not(launch):
    (cpus,), by, threads = launch("mpirun", "-n", "1", options=["--no-bind"])
    assert cpus < ALL and by == {"launcher"} and threads == len(cpus) and "Binding" not in launch.said


WIDENED = "was bound to less than its share of the CPUs: widened"


@OPEN_MPI
@pytest.mark.parametrize("words", [
    [], ["--bind-to", "core"], ["--bind-to", "hwthread"], ["--map-by", "slot:PE=1"], ["--cpu-set", FIRST]], ids=" ".join)
def test_a_narrow_binding_is_widened_and_said_so(launch, words):
    assert launch("mpirun", "-n", "1", *words) == ([ALL], {"nobody"}, len(ALL))
    assert f"\nBinding     rank 0 {WIDENED}" in launch.said


@OPEN_MPI
def test_a_rank_that_is_bound_to_its_share_stays_there(launch):
    """Of two ranks, each on half of the CPUs."""
    half = sorted(ALL)[:len(ALL) // 2]
    (first, second), by, _ = launch("mpirun", "-n", "2", "sh", "-c", split(half), "sh")
    assert (first, second) == (set(half), ALL - set(half)) and by == {"launcher"} and "Binding" not in launch.said


@OPEN_MPI
def test_one_narrow_rank_moves_all(launch):
    """Since its share may be what the others are bound to."""
    (first, second), by, _ = launch("mpirun", "-n", "2", "sh", "-c", split([FIRST], others=FIRST), "sh")
    assert first | second == ALL and not first & second and by == {"program"}
    assert f"rank 0 {WIDENED}" in launch.said


def split(cpus, others=None):
    """A script that binds rank 0 to these CPUs, and other ranks to others, as if its launcher had done so."""
    others = others or ",".join(map(str, sorted(ALL - set(cpus))))
    return f'[ "{RANK}" = 0 ] && exec taskset -c {",".join(map(str, cpus))} "$@"; exec taskset -c {others} "$@"'


def test_a_binding_without_a_launcher_is_kept(launch):
    assert launch("taskset", "-c", FIRST) == ([{int(FIRST)}], {"launcher"}, 1)


@OPEN_MPI
def test_cpus_of_other_jobs_are_left_to_them(launch):
    """Slurm may separate jobs by allocation only, and not by cgroups; Flux by bindings alone."""
    for others in {"SLURM_CPUS_ON_NODE": "1"}, {"FLUX_TASK_RANK": "0"}:
        (cpus,), by, _ = launch("mpirun", "-n", "1", "taskset", "-c", FIRST, **others)
        assert cpus == {int(FIRST)} and by == {"launcher"}


@pytest.mark.skipif(not cluster.makes_cgroups(), reason="no cgroups of CPUs that a test may make")
@pytest.mark.parametrize("hidden", [False, True])
def test_cpus_outside_the_cgroup_are_not_taken(launch, hidden):
    """Whether or not the cgroup's files are to be seen, as in a container."""
    group = Path("/sys/fs/cgroup/cpuset") / f"dgemm_ooc-test-{os.getpid()}"
    group.mkdir()
    try:
        (group / "cpuset.mems").write_text((group.parent / "cpuset.mems").read_text())
        (group / "cpuset.cpus").write_text(FIRST)
        enter = f"echo $$ >{group}/cgroup.procs; " + "mount -t tmpfs none /sys/fs/cgroup; " * hidden + 'exec "$@"'
        ranks, by, threads = launch("unshare", "--mount", "sh", "-c", enter, "sh", "mpirun", "-n", "2",
                                    OMPI_MCA_rmaps_base_oversubscribe="1",
                                    PRTE_MCA_rmaps_default_mapping_policy=":oversubscribe")
        assert ranks == [{int(FIRST)}] * 2 and by == {"nobody"} and threads == 1
    finally:
        group.rmdir()


def seconds(pattern, text):
    found = re.search(pattern + r"\s+((?P<h>\d+):(?P<m>\d+):(?P<s>\d+)|(?P<seconds>[\d.]+) s)", text)
    assert found, text
    if found["seconds"]:
        return float(found["seconds"])
    return int(found["h"]) * 3600 + int(found["m"]) * 60 + int(found["s"])


def test_what_few_cpus_cost_is_said(tmp_path):
    """The stated figures are those of the runs.  Rates are not measured beside other programs."""
    source, machine = tmp_path / "input.h5", tmp_path / "machine.json"
    machine.write_text('{"name": "this"}')
    sparse(source, "A", (3000, 1000000), "f8")
    sparse(source, "B", (1000000, 3000), "f8")
    few = header_of(source, "taskset", "-c", FIRST, DGEMM_OOC_MACHINE=str(machine))
    enough = header_of(source, DGEMM_OOC_MACHINE=str(machine))
    assert f"a rank may use 1 of {len(ALL)} CPUs" in few and "Note" not in enough
    assert seconds("this takes about", few) == pytest.approx(seconds("Predicted", few), rel=0.01)
    said = seconds(f"with {len(ALL)} for each about", few)
    assert said == pytest.approx(seconds("Predicted", enough), rel=0.1)
