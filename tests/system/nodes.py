"""A Slurm of four nodes on this computer.  Each node has its own name, network address, link to a bridge and
private temporary files, so the program treats each as a computer.

Names, addresses, ports and processes belong to namespaces that end with one process of ours: nothing of them is
visible outside or left behind, however the tests end, and several clusters do not interfere.  This requires
root."""
import contextlib
import os
import subprocess

import cluster
from ranks import children

NAMES = [f"node{i}" for i in range(1, 5)]

# The script of process 1 of the namespaces, which also reaps orphaned processes.
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
    "epilog": "rm -f /dev/shm/*",  # else Open MPI would reuse what a killed rank left behind
}


class Nodes(cluster.Slurm):
    """Slurm's commands, and faults of a node."""

    def __init__(self, folder, first, stack):
        way = ["nsenter", f"--target={first}", "--net", "--uts"]
        super().__init__(folder, way)
        self.inner, self.stack = [*way, "--mount", "--pid"], stack

    def begin(self, name):
        cluster.begin(self.stack, self, *self.inner, "nsenter", f"--net=/run/netns/{name}", "unshare",
                      "--uts", "--mount", "sh", "-c", NODE, name, self.folder / "private")

    def cut(self, name):
        """Make a node fail: cut its link and kill all its processes."""
        self.ask(*self.inner, "sh", "-c", f"ip link set {name} down; kill -KILL $(ip netns pids {name})")


@contextlib.contextmanager
def spaces():
    """Start process 1 of the namespaces, or return the reason why this fails."""
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
    """A running cluster in the namespaces of this process."""
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
