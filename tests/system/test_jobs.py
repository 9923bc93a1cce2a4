"""The scripts of jobs/ for batch systems that are not installed here, with stand-ins for their commands: from
the first attempt through restarts to the end.  Slurm's scripts are tested on a Slurm (test_slurm.py)."""
import json
import os
import shutil
import signal
import subprocess

import pytest

import standin
from cases import each
from launch import BUILD, FAULTY, MPI, ROOT, SANITIZED, STOP, environment, run
from matrices import output_of, read, wait_until
from scripts import are_at_work, edited, slowed

pytestmark = pytest.mark.skipif(SANITIZED, reason="ranks are started as ever under sanitizers")

HAND_IN = {"pbs-alps": ["qsub"], "pbs-pals": ["qsub"], "lsf": ["bsub"], "flux": ["flux", "batch"]}
SIZE = (500, 500, 400)
SLOW = slowed("50x50x125", 8)  # a run takes seconds


def stop(process, source, number):
    """Send a signal during the work."""
    wait_until(lambda: are_at_work(source), process)
    process.send_signal(number)


class Batch:
    """A batch system, which runs jobs when the test says so."""

    def __init__(self, folder):
        self.queue, self.log = folder / "queue", folder / "log"
        for command in standin.COMMANDS:
            (folder / command.__name__).symlink_to(standin.__file__)
        self.env = environment(STANDIN=str(folder), PATH=f"{folder}:{os.environ['PATH']}",
                               DGEMM_OOC_DEVICE="cpu", **SLOW)

    def hand_in(self, system, script):
        subprocess.run([*HAND_IN[system], script.name], env=self.env, cwd=script.parent, check=True)

    def run(self, source=None, stops=0, number=signal.SIGUSR2):
        """Run all jobs one after the other, and signal the first `stops` of them; return their statuses.  After
        the last signal the rest of the work need not be slow."""
        statuses = []
        while self.queue.exists() and len(statuses) < 5:
            job = json.loads(self.queue.read_text())
            self.queue.unlink()
            env = {**self.env, **job["environment"]}
            if stops and len(statuses) == stops:
                env = {name: value for name, value in env.items() if name not in SLOW}
            with open(self.log, "a") as log:
                with subprocess.Popen(["bash", job["script"]], cwd=job["folder"], env=env, stdout=log,
                                      stderr=log) as process:
                    if len(statuses) < stops:
                        stop(process, source, number)
                    statuses.append(process.wait(120))
            if statuses[-1] == job["requeue"]:
                self.queue.write_text(json.dumps(job))
        return statuses


@pytest.fixture
def batch(tmp_path_factory):
    return Batch(tmp_path_factory.mktemp("batch"))


def production(system, source, **variables):
    return edited(f"{system}.sh", source.parent, INPUT=source, OUTPUT=output_of(source), PROGRAM=BUILD / FAULTY,
                  **variables)


@pytest.mark.parametrize("system", HAND_IN)
def test_restarts(batch, reference, source, system):
    """The script resubmits itself whenever the batch system tells it to stop.  Its options reach the program."""
    stops = 2 if system == next(iter(HAND_IN)) else 1
    batch.hand_in(system, production(system, source, OPTIONS="(--alpha 2)"))
    assert batch.run(source, stops=stops) == [*[75] * stops, 0], batch.log.read_text()
    said = batch.log.read_text()
    assert said.count("\nRestart ") == stops and f"lfs setstripe -c -1 -S 16M {source.parent}" in said
    assert (read(output_of(source)) / 2).tobytes() == reference[1]
    assert not list(source.parent.glob("*.stalls"))


@pytest.mark.parametrize("system, last", [("pbs-alps", 75), ("lsf", 1)])
def test_no_progress(batch, source, system, last):
    """There is no room for saved sums, so every attempt starts anew."""
    batch.env.update(DGEMM_OOC_TILE="500x500x16", DGEMM_OOC_TEST_FAULTS="ftruncate:enospc@1+",
                     DGEMM_OOC_TEST_FAULT_FILE=".sums")
    batch.hand_in(system, production(system, source, MAX_TIME="0.001s"))
    assert batch.run() == [75, 75, last], batch.log.read_text()
    assert "giving up: the last 3 attempts made no progress" in batch.log.read_text()
    assert not list(source.parent.glob("*.stalls"))


@pytest.mark.parametrize("system, status", [("pbs-alps", 75), ("lsf", 1)])
def test_cancelled(batch, source, system, status):
    """A cancelled job takes a checkpoint, and is not requeued."""
    batch.hand_in(system, production(system, source))
    assert batch.run(source, stops=1, number=signal.SIGTERM) == [status], batch.log.read_text()
    assert output_of(source).with_name("input-C.h5.journal").exists()


@pytest.mark.parametrize("system", HAND_IN)
def test_self_test(batch, tmp_path, system):
    batch.hand_in(system, edited(f"{system}-selftest.sh", tmp_path, FOLDER=tmp_path))
    assert batch.run() == [0], batch.log.read_text()
    assert batch.log.read_text().splitlines()[-1] == "SELF-TEST: PASSED"
    assert [path.name for path in tmp_path.iterdir()] == [f"{system}-selftest.sh"]


def test_self_test_of_a_program_that_fails(batch, tmp_path):
    batch.env.update(DGEMM_OOC_HOST_MEMORY="1000")
    batch.hand_in("pbs-alps", edited("pbs-alps-selftest.sh", tmp_path, FOLDER=tmp_path))
    assert batch.run() == [4], batch.log.read_text()
    assert batch.log.read_text().splitlines()[-1] == "SELF-TEST: FAILED, status 4"
    assert [path.name for path in tmp_path.iterdir()] == ["pbs-alps-selftest.sh"]


def launcher(folder, name, text):
    """A script that starts its command like mpirun, or with differences."""
    (folder / name).write_text(f"#!/bin/bash\n{text}\n")
    (folder / name).chmod(0o755)
    return folder / name


# Like MPICH's, which ends at USR2; its ranks are in another session and end with it.
LIKE_HYDRA = """setsid "$@" &
trap 'pkill -TERM -s $! -x dgemm_ooc' TERM
trap 'kill -KILL -- -$!; exit 140' USR2
while kill -0 $! 2>/dev/null; do wait $!; done"""


@pytest.mark.parametrize("other, said", [
    (None, STOP.name),
    pytest.param(LIKE_HYDRA, "SIGTERM", marks=pytest.mark.skipif(MPI == "MPICH", reason="hydra itself is there"))],
    ids=["mpirun", "hydra"])
def test_workstation(reference, source, other, said):
    """After USR2 the script resumes the run at once; after Ctrl-C it ends."""
    other = [launcher(source.parent, "hydra", other)] if other else []
    words = map(str, ["setsid", *other, "mpirun", "-n", "2", "--bind-to", "none"])
    script = production("workstation", source, LAUNCHER=f"({' '.join(words)})")
    log = source.with_name("log")
    env = environment(DGEMM_OOC_DEVICE="cpu", **SLOW)
    with open(log, "w") as out:
        with subprocess.Popen([script], env=env, stdout=out, stderr=out,
                              start_new_session=True) as process:
            stop(process, source, signal.SIGUSR2)
            wait_until(lambda: " is done; resuming\n" in log.read_text(), process)
            wait_until(lambda: are_at_work(source), process)
            os.killpg(process.pid, signal.SIGINT)
            assert process.wait(120) == 75, log.read_text()
    assert log.read_text().count(" is done; resuming\n") == 1
    assert log.read_text().count(f"stopped by {said}") == 2  # not by the signal that mpirun sends at Ctrl-C
    done = subprocess.run([script], env=env, capture_output=True, text=True)
    assert done.returncode == 0 and "\nRestart " in done.stdout, done.stderr
    assert read(output_of(source)).tobytes() == reference[1]


def test_ranks_that_fall_over_as_they_start(source):
    """Some launchers' ranks occasionally crash at startup: the start is retried once."""
    first = '[ -e "$0.d" ] || { mkdir "$0.d"; kill -SEGV $$; }; "$@"'
    for text, status in (first, 0), ("kill -SEGV $$", 139):
        faulty = launcher(source.parent, "faulty", text)
        script = production("workstation", source, LAUNCHER=f"({faulty})")
        done = subprocess.run([script], env=environment(DGEMM_OOC_DEVICE="cpu"), capture_output=True,
                              text=True)
        assert done.returncode == status and done.stderr.count("; starting them again") == 1, done.stderr
    assert output_of(source).exists()


def test_workstation_self_test(tmp_path):
    script = edited("workstation-selftest.sh", tmp_path, FOLDER=tmp_path)
    done = subprocess.run([script], env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "SELF-TEST: PASSED"
    without = "no CUDA" in run("dgemm_ooc", "--version").stdout
    assert ("This build cannot use GPUs: it ran on CPUs." in done.stdout) == without


def test_self_test_with_another_h5mat(tmp_path):
    """As of a program that is in a container."""
    program = tmp_path / "dgemm_ooc"
    program.symlink_to(BUILD / "dgemm_ooc")
    script = edited("workstation-selftest.sh", tmp_path, FOLDER=tmp_path, PROGRAM=program)
    for extra, last in ({}, "SELF-TEST: FAILED, status 127"), ({"H5MAT": f"env {BUILD}/h5mat"}, "SELF-TEST: PASSED"):
        done = subprocess.run([script], env=environment(**extra), capture_output=True, text=True)
        assert done.stdout.splitlines()[-1] == last, done.stdout + done.stderr


@pytest.mark.skipif(not shutil.which("shellcheck"), reason="no shellcheck here (make setup)")
def test_shellcheck():
    scripts = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "jobs").glob("*.sh"))
    done = subprocess.run(["shellcheck", "-x", *scripts, "tests/setup.sh"], cwd=ROOT,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@each("name", sorted(path.name for path in (ROOT / "jobs").glob("*-*.sh")) +
                         ["slurm.sh", "lsf.sh", "flux.sh", "workstation.sh"])
def test_scripts_that_bash_starts(tmp_path, name):
    """One sentence says what to do, in place of bash's about a variable or a file."""
    variables = ("SLURM_JOB_ID", "SLURM_CPUS_PER_TASK", "PBS_JOBID", "LSB_JOBID", "FLUX_URI")
    env = {key: value for key, value in environment().items() if key not in variables}
    script = edited(name, tmp_path)
    alone = shutil.copy(ROOT / "jobs" / name, tmp_path / "unedited.sh")
    said = subprocess.run(["bash", alone], env={**env, "HOME": str(tmp_path)}, capture_output=True, text=True)
    assert (said.returncode, said.stdout) == (2, "")
    assert said.stderr == (f"{alone}: set DGEMM_OOC to the folder of a clone: there is no "
                           f"{tmp_path}/dgemm_ooc/jobs/common.sh\n")
    if "workstation" in name:
        return
    said = subprocess.run(["bash", script], env=env, capture_output=True, text=True)
    assert (said.returncode, said.stdout, len(said.stderr.splitlines())) == (2, "", 1), said.stderr
    command = HAND_IN.get(name.removesuffix(".sh").removesuffix("-selftest"), ["sbatch"])[0]
    assert f"is not set: submit this script by {command} " in said.stderr


def test_slurm_without_cpus_per_task(tmp_path):
    said = subprocess.run(["bash", edited("slurm.sh", tmp_path)], capture_output=True, text=True,
                          env=environment(SLURM_JOB_ID="1"))
    assert said.returncode == 2 and said.stderr.endswith(": SLURM_CPUS_PER_TASK is not set: give --cpus-per-task\n")
