"""Starts the programs of this build, alone or on several ranks, and other builds."""
import os
import re
import signal
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / os.environ.get("DGEMM_OOC_BUILD", "build")
GPU = os.environ.get("DGEMM_OOC_TEST_GPU") == "1"
SANITIZED = os.environ.get("DGEMM_OOC_SANITIZED") == "1"
FAULTY = "tests/faults/dgemm_ooc"  # whose calls fail, or are late, when told to, and which can pretend
# What the faulty program can pretend: other computers, nodes, a shorter minute.
PRETENDED = {"DGEMM_OOC_TEST_NODE", "DGEMM_OOC_TEST_COMPUTER", "DGEMM_OOC_TEST_WAIT", "OMPI_MCA_plm_rsh_agent"}
EMULATED = "emulated/dgemm_ooc"  # whose GPU is the CPU: where there is none
AS_BUILT = ["--old-file=all", f"BUILD={BUILD}"]  # makes `make install` take this build as it is
LARGE = os.environ.get("DGEMM_OOC_TEST_LARGE") == "1"


def mpi():
    """That of this build, as its program says."""
    try:
        said = subprocess.run([BUILD / "dgemm_ooc", "-V"], capture_output=True, text=True).stdout
    except FileNotFoundError:
        said = ""
    return "MPICH" if "MPICH" in said else "Open MPI"


MPI = mpi()
if MPI == "MPICH":  # mpirun is its launcher then, for scripts too
    os.environ["PATH"] = f"{ROOT}/tests/mpich:{os.environ['PATH']}"

SRUN = {"Open MPI": "--mpi=pmix", "MPICH": "--mpi=pmi2"}[MPI]  # how Slurm starts its ranks

# For the environment, in the words of both: what one of them says the other does not understand.
GOES_ON = {"OMPI_MCA_orte_enable_recovery": "1", "HYDRA_OPTIONS": "-disable-auto-cleanup"}
BROKEN = {"OMPI_MCA_pml": "there_is_no_such_component", "UCX_TLS": "there_is_no_such_transport"}
# Over sockets MPICH 4.0 with UCX 1.13 hangs in MPI_Finalize, whatever the program: no shared memory
# of its own must do there.
SOCKETS = {"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "tcp,self", "MPIR_CVAR_NOLOCAL": "1"}
# Between ranks in process spaces of their own UCX's shared memory does not do.
APART = SOCKETS if MPI == "Open MPI" else {"UCX_TLS": "tcp,self"}
STOP = signal.SIGUSR2 if MPI == "Open MPI" else signal.SIGTERM  # that its mpirun passes on to the ranks
RANK = "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}"  # for a shell


def has_populate():
    """Whether the kernel makes pages of a mapping on request: Linux 5.14."""
    major, minor = re.match(r"(\d+)\.(\d+)", os.uname().release).groups()
    return (int(major), int(minor)) >= (5, 14)


def has_direct_io():
    """Whether the file system of the scratch directories does without the page cache."""
    with tempfile.NamedTemporaryFile() as file:
        try:
            os.close(os.open(file.name, os.O_RDONLY | os.O_DIRECT))
        except OSError:
            return False
    return True


WAYS = ["auto", "buffered", "hdf5"] + ["mapped"] * has_populate() + ["direct"] * has_direct_io()


def environment(ranks=0, **extra):
    """That of a user, but for what the program takes its options from.  Open MPI wants to be asked
    for more ranks than CPUs."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("DGEMM_OOC_")}
    if ranks > len(os.sched_getaffinity(0)):
        env["OMPI_MCA_rmaps_base_oversubscribe"] = "1"
    if os.getuid() == 0:  # Open MPI wants to hear twice that root may run it
        env["OMPI_ALLOW_RUN_AS_ROOT"] = env["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
    env.update(extra)
    return env


def built(program, device="cpu", env=()):
    """The program that can use such a device, and pretend what the environment wants."""
    if program == "dgemm_ooc" and device == "gpu" and not GPU:
        program = EMULATED
    elif program == "dgemm_ooc" and PRETENDED.intersection(env):
        program = FAULTY
    return BUILD / program


def command(program, *args, ranks=0, wrapper=()):
    launcher = ["mpirun", "-n", str(ranks)] if ranks else []
    return [*wrapper, *launcher, str(BUILD / program), *map(str, args)]


def make(*words, cwd=ROOT, **extra):
    """Run make, which must end well and without a warning.  Returns what it printed."""
    env = environment(MAKEFLAGS=f"-j{os.cpu_count()}", **extra)
    env.pop("BUILD", None)  # of the make that runs these tests
    done = subprocess.run(["make", *words], cwd=cwd, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "warning" not in done.stderr, done.stderr
    return done.stdout


def start(program, *args, ranks=0, wrapper=(), cwd=None, **extra):
    """Start it, on the CPU unless told otherwise; ranks=0 is without a launcher."""
    env = environment(ranks, **{"DGEMM_OOC_DEVICE": "cpu", **extra})
    program = built(program, env["DGEMM_OOC_DEVICE"], env)
    return subprocess.Popen(command(program, *args, ranks=ranks, wrapper=wrapper), cwd=cwd, env=env,
                            text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def run(program, *args, timeout=300, **how):
    """Run to the end; as start.  Returns the finished process."""
    with start(program, *args, **how) as process:
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired as late:
            process.kill()
            raise AssertionError(f"still at work after {timeout} s, and has said:\n"
                                 f"{(late.stdout or b'').decode()}{(late.stderr or b'').decode()}") from None
        except BaseException:
            process.kill()
            raise
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)
