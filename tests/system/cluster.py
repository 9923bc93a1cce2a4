"""A Slurm of one node (nodes.py has more) with two fake GPUs, for the duration of a test.

The daemons are those of Debian's packages, with their own configuration, key, ports and state, so they neither
use nor disturb a Slurm or munge of this computer; root is not needed."""
import contextlib
import getpass
import os
import re
import shutil
import signal
import socket
import subprocess
import time

from launch import PATIENCE, environment

PROGRAMS = ["munged", "slurmctld", "slurmd", "sbatch"]

CONFIGURATION = """\
ClusterName=test
SlurmctldHost={host}({address})
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
MailProg=/bin/true
ProctrackType=proctrack/linuxproc
TaskPlugin=task/affinity
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=batch_sched_delay=1,sched_interval=1
KillWait=10
GresTypes=gpu
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
{nodes} Gres=gpu:2
PartitionName=all Nodes=ALL Default=YES PriorityTier=1
PartitionName=urgent Nodes=ALL PriorityTier=2
"""


# Tasks have the CPUs that they asked for, and no others.
CGROUPS = {"ProctrackType=proctrack/linuxproc": "ProctrackType=proctrack/cgroup",
           "TaskPlugin=task/affinity": "TaskPlugin=task/cgroup,task/affinity"}
CGROUP_CONFIGURATION = """\
CgroupPlugin=cgroup/v1
CgroupMountpoint=/sys/fs/cgroup
ConstrainCores=yes
"""


def makes_cgroups():
    return os.access("/sys/fs/cgroup/cpuset/cgroup.procs", os.W_OK)


def is_installed():
    return all(shutil.which(program, path=search_path()) for program in PROGRAMS)


def search_path():
    return f"{os.environ['PATH']}:/usr/sbin:/sbin"


def free_ports(count):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0)))
                   for _ in range(count)]
        return [s.getsockname()[1] for s in sockets]


def configure(folder, host, address, names, nodes):
    """Write the configuration for all daemons to the folder: names, addresses and nodes."""
    for name in ("state", *(f"spool-{name}" for name in names)):
        (folder / name).mkdir()
    key = folder / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o600)
    (folder / "gres.conf").write_text("Name=gpu File=/dev/null\nName=gpu File=/dev/zero\n")
    (folder / "slurm.conf").write_text(CONFIGURATION.format(
        host=host, address=address, user=getpass.getuser(), folder=folder, ports=free_ports(2),
        nodes=nodes))


def await_that(condition, seconds, complaint):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, complaint()
        time.sleep(0.1)


class Slurm:
    """Runs Slurm's commands, through a wrapper that enters the daemons' environment."""

    def __init__(self, folder, way=()):
        self.folder, self.way = folder, way
        self.env = environment(SLURM_CONF=str(folder / "slurm.conf"), PATH=search_path(),
                               DGEMM_OOC_DEVICE="cpu")

    def run(self, *words, cwd=None):
        return subprocess.run([*self.way, *map(str, words)], cwd=cwd, env=self.env, capture_output=True,
                              text=True, timeout=PATIENCE)

    def ask(self, *words, cwd=None):
        """Run a command up to five times: a busy controller closes a connection before it has read the request,
        which ends the command by SIGPIPE or with an error message about its connection."""
        for _ in range(5):
            done = self.run(*words, cwd=cwd)
            if done.returncode != -signal.SIGPIPE and not re.search("[Ss]ocket|Connection", done.stderr):
                break
            time.sleep(1)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def submit(self, *words, cwd):
        return self.ask("sbatch", "--parsable", *words, cwd=cwd)

    def job(self, number):
        """All fields that Slurm reports for a job."""
        return dict(re.findall(r"(\w+)=(\S+)", self.ask("scontrol", "show", "job", number)))

    def await_job(self, number, condition, log):
        """Some jobs run until a time limit of minutes, and then once more."""
        await_that(lambda: condition(self.job(number)), 2 * PATIENCE,
                   lambda: f"{self.job(number)}\n{log.exists() and log.read_text()}")

    def clear(self):
        """Cancel all jobs."""
        self.run("scancel", "--user", getpass.getuser())
        await_that(lambda: not self.ask("squeue", "--noheader"), 30,
                   lambda: self.run("squeue").stdout)

    def await_idle(self, count):
        def states():
            return self.run("sinfo", "-hN", "-p", "all", "-o", "%t").stdout.split()

        await_that(lambda: states() == ["idle"] * count, 60,
                   lambda: f"{states()}\n{(self.folder / 'slurmctld.log').read_text()}")


def begin(stack, slurm, *command):
    """Start a daemon, which runs until the stack is closed."""
    with open(slurm.folder / "daemons.log", "a") as log:
        process = stack.enter_context(subprocess.Popen([*map(str, command)], env=slurm.env, stdout=log,
                                                       stderr=log))
    stack.callback(process.terminate)


def begin_controller(stack, slurm):
    folder = slurm.folder
    files = [f"--{name}-file={folder}/munge.{name}" for name in ("key", "pid", "log", "seed")]
    begin(stack, slurm, *slurm.way, "munged", "--foreground", "--force", "--num-threads=1",
          "--origin=127.0.0.1", *files, f"--socket={folder}/munge.socket")
    await_that((folder / "munge.socket").exists, 20, (folder / "daemons.log").read_text)
    begin(stack, slurm, *slurm.way, "slurmctld", "-D")


def constrain(folder):
    """Let tasks be in cgroups: in the configuration, before the daemons start."""
    configuration = (folder / "slurm.conf").read_text()
    for line, other in CGROUPS.items():
        assert line in configuration
        configuration = configuration.replace(line, other)
    (folder / "slurm.conf").write_text(configuration)
    (folder / "cgroup.conf").write_text(CGROUP_CONFIGURATION)


@contextlib.contextmanager
def started(folder, cgroups=False):
    """A running cluster; it is removed completely afterwards."""
    host = socket.gethostname().split(".")[0]
    cpus = len(os.sched_getaffinity(0))
    configure(folder, host, "127.0.0.1", [host], f"NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus}")
    if cgroups:
        constrain(folder)
    slurm = Slurm(folder)
    with contextlib.ExitStack() as stack:
        begin_controller(stack, slurm)
        begin(stack, slurm, "slurmd", "-D")
        try:
            slurm.await_idle(1)
            yield slurm
        finally:
            slurm.clear()
