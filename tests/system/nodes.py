"""A Slurm of four nodes on this computer.  Each has a name, a network address and a link to a bridge of
its own, and temporary files that no other sees; the program takes each for a computer.

Names, addresses, ports and processes are those of namespaces which end with one process of ours: nothing
of them is seen outside or left, however the tests end, and several clusters do not meet.  It takes root."""
import contextlib
import os
import subprocess

import cluster
from ranks import children

NAMES = [f"node{i}" for i in range(1, 5)]

# Of process 1 there, which also waits for processes that nobody else waits for.
SPACES = """
set -e
hostname control
mount -t tmpfs tmpfs /run
ip link set lo up
ip link add bridge type bridge
ip address add 10.0.0.254/24 dev bridge
ip link set bridge up
for i in 1 2 3 4; do
    ip netns add node$i
    ip link add node$i type veth peer name eth0 netns node$i
    ip link set node$i master bridge up
    ip -n node$i address add 10.0.0.$i/24 dev eth0
    ip -n node$i link set eth0 up
    ip -n node$i link set lo up
done
echo there
while sleep 1; do :; done
"""
NODE = 'hostname "$0"; mount -t tmpfs tmpfs "$1"; mount -t tmpfs tmpfs /dev/shm; exec slurmd -D'
CONFIGURATION = """\
SlurmctldTimeout=30
SlurmdTimeout=6
MessageTimeout=5
SlurmdParameters=config_overrides
ReturnToService=2
TaskProlog={folder}/prolog
Epilog={folder}/epilog
"""
SCRIPTS = {
    "prolog": "echo export DGEMM_OOC_TEST_COMPUTER=$SLURMD_NODENAME; echo export TMPDIR={folder}/private",
    "epilog": "rm -f /dev/shm/*",  # Open MPI takes what a killed rank left for one of its own
}


class Nodes(cluster.Slurm):
    """The commands, and what can be done to a node."""

    def __init__(self, folder, first, stack):
        way = ["nsenter", f"--target={first}", "--net", "--uts"]
        super().__init__(folder, way)
        self.inner, self.stack = [*way, "--mount", "--pid"], stack

    def begin(self, name):
        cluster.begin(self.stack, self, *self.inner, "nsenter", f"--net=/run/netns/{name}", "unshare",
                      "--uts", "--mount", "sh", "-c", NODE, name, self.folder / "private")

    def cut(self, name):
        """It dies: its link, and all its processes."""
        self.ask(*self.inner, "sh", "-c", f"ip link set {name} down; kill -KILL $(ip netns pids {name})")


@contextlib.contextmanager
def spaces():
    """Process 1 of the namespaces, or why there are none."""
    with subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "--uts", "--mount",
                           "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", SPACES],
                          env=os.environ | {"PATH": cluster.search_path()}, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            there = process.stdout.readline() == "there\n"
            yield (children(process.pid)[0], None) if there else (None, process.communicate()[1])
        finally:
            process.kill()


@contextlib.contextmanager
def started(folder, first):
    """The cluster, in the namespaces of this process, at work."""
    nodes = "NodeName=node[1-4] NodeAddr=10.0.0.[1-4] CPUs=2"
    cluster.configure(folder, "control", "10.0.0.254", NAMES, nodes)
    with open(folder / "slurm.conf", "a") as file:
        file.write(CONFIGURATION.format(folder=folder))
    (folder / "private").mkdir()
    (folder / "mpi.conf").write_text(f"PMIxCliTmpDirBase={folder}/private\n")
    for name, script in SCRIPTS.items():
        (folder / name).write_text(f"#!/bin/sh\n{script.format(folder=folder)}\n")
        (folder / name).chmod(0o755)
    with contextlib.ExitStack() as stack:
        slurm = Nodes(folder, first, stack)
        cluster.begin_controller(stack, slurm)
        for name in NAMES:
            slurm.begin(name)
        slurm.await_idle(len(NAMES))
        yield slurm
