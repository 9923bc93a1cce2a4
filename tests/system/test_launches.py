"""The CPUs that a rank uses under each launcher: a default binding is widened to the rank's share of the
computer, and other bindings are kept."""
import json
import os
import re
import shutil
import subprocess

import pytest

from launch import BUILD, MPI, PATIENCE, RANK, RELEASE, environment, header_of
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
    it."""
    source, report = tmp_path / "input.h5", tmp_path / "report.json"
    operands(source, 60, 50, 40)

    def start(*launcher, options=(), **env):
        done = subprocess.run([*launcher, BUILD / "dgemm_ooc", source, "--force", "--report", report, *options],
                              env=environment(DGEMM_OOC_DEVICE="cpu", **env), capture_output=True,
                              text=True, timeout=PATIENCE)
        assert done.returncode == 0, done.stderr
        said = json.loads(report.read_text())
        assert said["machine"]["threads"] >= 1
        return ([cpus_of(rank["cpus"]) for rank in said["ranks"]],
                {rank["bound_by"] for rank in said["ranks"]}, said["machine"]["threads"])

    return start


def test_alone_it_has_them_all(launch):
    assert launch() == ([ALL], {"nobody"}, len(ALL))
    assert launch("mpirun", "-n", "1") == ([ALL], {"nobody"}, len(ALL))


@pytest.mark.skipif(RELEASE == "Open MPI 5", reason="Open MPI 5 has a folder for each process, and needs it")
def test_many_at_once_without_a_launcher(tmp_path):
    """They need no folder of MPI's, which they would share: where such a folder would be is a file."""
    operands(tmp_path / "input.h5", 60, 50, 40)
    env = environment(DGEMM_OOC_DEVICE="cpu", TMPDIR=str(tmp_path / "input.h5"))
    for _ in range(5):
        runs = [subprocess.Popen([BUILD / "dgemm_ooc", tmp_path / "input.h5", "-o", tmp_path / f"{i}.h5", "--force"],
                                 env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for i in range(6)]
        for process in runs:
            _, err = process.communicate(timeout=PATIENCE)
            assert process.returncode == 0 and not err, err


@pytest.mark.parametrize("words", [[], ["--map-by", "ppr:2:node"], ["--map-by", "slot"],
                                   ["--bind-to", "none"],
                                   pytest.param(["-x", "UNRELATED=1"], marks=OPEN_MPI)], ids=" ".join)
def test_two_ranks_have_them_all_without_sharing_any(launch, words):
    (first, second), by, threads = launch("mpirun", "-n", "2", *words)
    assert first | second == ALL and not first & second and by == {"program"}
    assert threads == min(len(first), len(second))


@OPEN_MPI
def test_what_is_not_to_be_changed_is_not(launch):
    (cpus,), by, threads = launch("mpirun", "-n", "1", options=["--no-bind"])
    assert cpus < ALL and by == {"launcher"} and threads == len(cpus)


@OPEN_MPI
@pytest.mark.parametrize("words", [
    ["--bind-to", "core"], ["--bind-to", "hwthread"], ["--map-by", "slot:PE=1"], ["--map-by", "core"],
    ["--cpu-set", FIRST], ["--mca", "hwloc_base_binding_policy", "core"]], ids=" ".join)
def test_a_binding_that_was_asked_for_is_kept(launch, words):
    (cpus,), by, threads = launch("mpirun", "-n", "1", *words)
    assert cpus < ALL and by == {"launcher"} and threads == len(cpus)


@OPEN_MPI
def test_a_rank_file_is_kept(launch, tmp_path):
    (tmp_path / "ranks").write_text(f"rank 0=localhost slot={FIRST}\n")
    (cpus,), by, _ = launch("mpirun", "-n", "1", "--rankfile", tmp_path / "ranks")
    assert cpus < ALL and by == {"launcher"}


@OPEN_MPI
def test_a_binding_asked_for_in_a_file_is_kept(launch, tmp_path):
    for folder, name in (".openmpi", "hwloc_base_binding_policy"), (".prte", "hwloc_default_binding_policy"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mca-params.conf").write_text(f"{name} = core\n")
    (cpus,), by, _ = launch("mpirun", "-n", "1", HOME=str(tmp_path))
    assert cpus < ALL and by == {"launcher"}


@pytest.fixture
def shell(tmp_path):
    """A shell of the name of Open MPI 5's launcher, whose words and environment tell ranks who bound them."""
    return shutil.copy(shutil.which("sh"), tmp_path / "prterun")


@pytest.fixture
def prterun(tmp_path, launch, shell):
    """Returns a function that starts one rank by that shell, on one CPU, and returns who bound it."""
    def start(*words, **env):
        script = f'shift {len(words)}; PRTE_LAUNCHED=1 taskset -c {FIRST} "$@"; exit $?'
        (cpus,), (by,), _ = launch(shell, "-c", script, "prterun", *words, HOME=str(tmp_path), **env)
        assert cpus == ({int(FIRST)} if by == "launcher" else ALL)
        return by

    return start


@pytest.mark.parametrize("words", [
    [], ["--map-by", "slot"], ["--map-by=ppr:1:node"], ["-x", "UNRELATED=1"],
    ["--prtemca", "rmaps_default_mapping_policy", ":oversubscribe"]], ids=" ".join)
def test_a_default_of_prterun_is_widened(prterun, words):
    assert prterun(*words) == "nobody"


@pytest.mark.parametrize("words", [
    ["--bind-to", "core"], ["--bind-to=hwthread"], ["--map-by", "slot:PE=1"], ["--map-by=core"], ["--cpu-set", FIRST],
    ["--rankfile", "ranks"], ["-rf", "ranks"], ["--prtemca", "hwloc_default_binding_policy", "core"]], ids=" ".join)
def test_what_prterun_was_asked_for_is_kept(prterun, words):
    assert prterun(*words) == "launcher"


def test_what_prterun_was_asked_for_elsewhere_is_kept(prterun, tmp_path):
    assert prterun(PRTE_MCA_hwloc_default_binding_policy="core") == "launcher"
    (tmp_path / ".prte").mkdir()
    (tmp_path / ".prte" / "mca-params.conf").write_text("# none\nhwloc_default_binding_policy = core\n")
    assert prterun() == "launcher"


def test_without_a_prterun_on_this_computer_the_binding_is_kept(launch):
    assert launch("taskset", "-c", FIRST, PRTE_LAUNCHED="1") == ([{int(FIRST)}], {"launcher"}, 1)


@pytest.mark.skipif(RELEASE == "Open MPI 5", reason="all ranks have a prterun among their ancestors")
@pytest.mark.parametrize("known", [True, False])
def test_one_rank_tells_the_others_what_prterun_was_asked_for(launch, tmp_path, shell, known):
    """As ranks on other computers, the second one has no prterun among its ancestors."""
    below = f'[ "{RANK}" != 0 ] || set -- {shell} -c \'"$@"; exit $?\' prterun "$@"; ' if known else ""
    script = f'{below}exec taskset -c {FIRST} "$@"'
    ranks, by, _ = launch("mpirun", "-n", "2", "sh", "-c", script, "sh", PRTE_LAUNCHED="1", HOME=str(tmp_path))
    assert by == ({"program"} if known else {"launcher"})
    assert set().union(*ranks) == (ALL if known else {int(FIRST)})


def test_a_binding_asked_for_without_a_launcher_is_kept(launch):
    assert launch("taskset", "-c", FIRST) == ([{int(FIRST)}], {"launcher"}, 1)


@OPEN_MPI
def test_cpus_of_other_jobs_are_left_to_them(launch):
    """Slurm may separate jobs by allocation only, and not by cgroups."""
    (cpus,), by, _ = launch("mpirun", "-n", "1", SLURM_CPUS_ON_NODE="1")
    assert len(cpus) == 1 and by == {"launcher"}


def seconds(pattern, text):
    found = re.search(pattern + r"\s+((?P<h>\d+):(?P<m>\d+):(?P<s>\d+)|(?P<seconds>[\d.]+) s)", text)
    assert found, text
    if found["seconds"]:
        return float(found["seconds"])
    return int(found["h"]) * 3600 + int(found["m"]) * 60 + int(found["s"])


def test_what_few_cpus_cost_is_said(tmp_path):
    """The stated figures are those of the runs."""
    source = tmp_path / "input.h5"
    sparse(source, "A", (3000, 1000000), "f8")
    sparse(source, "B", (1000000, 3000), "f8")
    few = header_of(source, "taskset", "-c", FIRST, SLURM_STEP_ID="0")
    enough = header_of(source)
    assert f"a rank may use 1 of {len(ALL)} CPUs" in few and "Note" not in enough
    assert seconds("this takes about", few) == pytest.approx(seconds("Predicted", few), rel=0.01)
    said = seconds(f"--cpus-per-task={len(ALL)} about", few)
    assert said == pytest.approx(seconds("Predicted", enough), rel=0.1)
