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
FAULTY = "tests/faults/dgemm_ooc"  # with fault injection, delays and simulated environments
# What it can simulate: faults, other computers, nodes, a shorter minute, no locks, room, blocks of k, layers of ranks.
PRETENDED = {"DGEMM_OOC_TEST_FAULTS", "DGEMM_OOC_TEST_NODE", "DGEMM_OOC_TEST_NO_LOCKS", "DGEMM_OOC_TEST_COMPUTER",
             "DGEMM_OOC_TEST_WAIT", "DGEMM_OOC_TEST_ROOM", "DGEMM_OOC_TEST_BLOCK", "DGEMM_OOC_TEST_LAYERS",
             "OMPI_MCA_plm_rsh_agent"}
EMULATED = "emulated/dgemm_ooc"  # with an emulated GPU, for machines without one
AS_BUILT = ["--old-file=all", f"BUILD={BUILD}"]  # lets `make install` use this build without rebuilding it
LARGE = os.environ.get("DGEMM_OOC_TEST_LARGE") == "1"
PATIENCE = 300  # seconds that a test waits for a program to end: on a busy machine it takes ten times as long


def mpi():
    """The MPI of this build, as its program reports it."""
    try:
        said = subprocess.run([BUILD / "dgemm_ooc", "-V"], capture_output=True, text=True).stdout
    except FileNotFoundError:
        said = ""
    return "MPICH" if "MPICH" in said else "Open MPI 5" if "Open MPI v5" in said else "Open MPI"


RELEASE = mpi()
MPI = RELEASE.removesuffix(" 5")
if MPI == "MPICH":  # let mpirun be MPICH's launcher, also in scripts
    os.environ["PATH"] = f"{ROOT}/tests/mpich:{os.environ['PATH']}"

SRUN = {"Open MPI": "--mpi=pmix", "MPICH": "--mpi=pmi2"}[MPI]  # the option of srun

# Environment variables of both MPIs: each ignores those of the other.
GOES_ON = {"OMPI_MCA_orte_enable_recovery": "1", "PRTE_MCA_state_base_recoverable": "1",
           "HYDRA_OPTIONS": "-disable-auto-cleanup"}
BROKEN = {"OMPI_MCA_pml": "there_is_no_such_component", "UCX_TLS": "there_is_no_such_transport"}
# Over sockets MPICH 4.0 with UCX 1.13 hangs in MPI_Finalize, in any program, so only its own shared
# memory is disabled there.
SOCKETS = {"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "tcp,self", "MPIR_CVAR_NOLOCAL": "1"}
# UCX's shared memory does not work between ranks in separate namespaces.
APART = SOCKETS if MPI == "Open MPI" else {"UCX_TLS": "tcp,self"}
STOP = signal.SIGUSR2 if MPI == "Open MPI" else signal.SIGTERM  # the signal that mpirun forwards to the ranks
RANK = "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}"  # in a shell


def has_populate():
    """Whether the kernel has MADV_POPULATE_WRITE, which came with Linux 5.14."""
    major, minor = re.match(r"(\d+)\.(\d+)", os.uname().release).groups()
    return (int(major), int(minor)) >= (5, 14)


def has_direct_io():
    """Whether the file system of the scratch directories supports O_DIRECT."""
    with tempfile.NamedTemporaryFile() as file:
        try:
            os.close(os.open(file.name, os.O_RDONLY | os.O_DIRECT))
        except OSError:
            return False
    return True


WAYS = ["auto", "buffered", "hdf5"] + ["mapped"] * has_populate() + ["direct"] * has_direct_io()


def environment(ranks=0, **extra):
    """A user's environment, without variables that set options of the program.  Open MPI needs an
    option for more ranks than CPUs."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("DGEMM_OOC_")}
    if ranks > len(os.sched_getaffinity(0)):
        env["OMPI_MCA_rmaps_base_oversubscribe"] = "1"
        env["PRTE_MCA_rmaps_default_mapping_policy"] = ":oversubscribe"  # the same since Open MPI 5
    if os.getuid() == 0:  # Open MPI requires both to run as root
        env["OMPI_ALLOW_RUN_AS_ROOT"] = env["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
    env.update(extra)
    return env


def built(program, device="cpu", env=()):
    """The path of the program that supports the device and the simulated environment in `env`."""
    if program == "dgemm_ooc" and device == "gpu" and not GPU:
        program = EMULATED
    elif program == "dgemm_ooc" and PRETENDED.intersection(env):
        program = FAULTY
    return BUILD / program


def command(program, *args, ranks=0, wrapper=()):
    launcher = ["mpirun", "-n", str(ranks)] if ranks else []
    return [*wrapper, *launcher, str(BUILD / program), *map(str, args)]


def make(*words, cwd=ROOT, **extra):
    """Run make, which must succeed without warnings.  Returns its output."""
    env = environment(MAKEFLAGS=f"-j{os.cpu_count()}", **extra)
    env.pop("BUILD", None)  # set by the make that runs these tests
    done = subprocess.run(["make", *words], cwd=cwd, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "warning" not in done.stderr, done.stderr
    return done.stdout


class Process(subprocess.Popen):
    """A program that is killed where the `with` block that waits for it fails: a launcher may hang."""

    def __exit__(self, kind, *rest):
        if kind:
            self.kill()
        super().__exit__(kind, *rest)


def start(program, *args, ranks=0, wrapper=(), cwd=None, **extra):
    """Start a program, by default on the CPU device, and printing all that it can; ranks=0: without a launcher."""
    env = environment(ranks, **{"DGEMM_OOC_DEVICE": "cpu", "DGEMM_OOC_VERBOSE": "yes", **extra})
    program = built(program, env["DGEMM_OOC_DEVICE"], env)
    return Process(command(program, *args, ranks=ranks, wrapper=wrapper), cwd=cwd, env=env,
                   text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def run(program, *args, timeout=PATIENCE, **how):
    """Start a program and wait until it ends.  Returns the completed process."""
    with start(program, *args, **how) as process:
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired as late:
            raise AssertionError(f"still running after {timeout} s, with the output:\n"
                                 f"{(late.stdout or b'').decode()}{(late.stderr or b'').decode()}") from None
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def header_of(source, *wrapper, **env):
    """The output of a long run before its work starts; with so little memory its slabs are small, and it stops soon."""
    with subprocess.Popen([*wrapper, BUILD / "dgemm_ooc", source, "--force", "--host-memory", "512M", "-v"],
                          stdout=subprocess.PIPE, env=environment(**{"DGEMM_OOC_DEVICE": "cpu"} | env),
                          text=True) as process:
        lines = []
        for line in process.stdout:
            lines.append(line)
            if line.startswith("Ranks"):
                break
        process.send_signal(signal.SIGUSR2)  # this stops the run in any phase
        return "".join(lines) + process.stdout.read()
