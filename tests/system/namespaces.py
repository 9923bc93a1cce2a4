"""Simulates computers with rate-limited links on one machine.  Each is a network namespace that is connected to
the others only by a shared bridge; its traffic in both directions is limited to the rate.  This requires
root."""
import contextlib
import os
import shutil
import subprocess

AGENT = """\
#!/bin/sh
# What Open MPI takes for ssh: HOST COMMAND...
host=$1
shift
export DGEMM_OOC_TEST_COMPUTER="$host"
exec ip netns exec "$host" unshare --uts sh -c 'hostname "$0" && exec sh -c "$*"' "$host" "$@"
"""
PROGRAMS = ["ip", "tc", "unshare", "hostname", "mpirun"]
QUEUE_S = 0.2  # the time in which a full queue drains


def call(*words, check=True):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if check and done.returncode:
        raise OSError(f"{' '.join(map(str, words))}: {done.stderr.strip()}")


def limit(prefix, device, bytes_per_s):
    call(*prefix, "tc", "qdisc", "add", "dev", device, "root", "tbf", "rate",
         f"{8 * bytes_per_s:.0f}bit", "burst", "128k", "limit", int(QUEUE_S * bytes_per_s) + 262144)


@contextlib.contextmanager
def linked(folder, nodes, bytes_per_s):
    """Create `nodes` of them; yield the environment in which mpirun starts one rank on each."""
    tag = f"d{os.getpid() % 100000}"  # names of interfaces have at most 15 characters
    subnet = f"10.{64 + os.getpid() % 64}.{os.getpid() // 64 % 256}"
    names = [f"{tag}n{i}" for i in range(nodes)]
    missing = [program for program in PROGRAMS if not shutil.which(program)]
    if missing:
        raise OSError(f"there is no {missing[0]}")
    try:
        call("ip", "link", "add", tag, "type", "bridge")
        call("ip", "addr", "add", f"{subnet}.254/24", "dev", tag)
        call("ip", "link", "set", tag, "up")
        for i, name in enumerate(names):
            inside = ["ip", "netns", "exec", name]
            call("ip", "netns", "add", name)
            call("ip", "link", "add", f"{name}o", "type", "veth", "peer", "name", "eth0", "netns",
                 name)
            call("ip", "link", "set", f"{name}o", "master", tag, "up")
            call(*inside, "ip", "addr", "add", f"{subnet}.{i + 1}/24", "dev", "eth0")
            call(*inside, "ip", "link", "set", "lo", "up")
            call(*inside, "ip", "link", "set", "eth0", "up")
            limit(inside, "eth0", bytes_per_s)
            limit([], f"{name}o", bytes_per_s)
        agent, hosts = folder / f"{tag}-agent", folder / f"{tag}-hosts"
        agent.write_text(AGENT)
        agent.chmod(0o755)
        hosts.write_text("".join(f"{name} slots=1\n" for name in names))
        yield {"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "tcp,self",
               "OMPI_MCA_btl_tcp_if_include": f"{subnet}.0/24",
               "OMPI_MCA_oob_tcp_if_include": f"{subnet}.0/24",
               "OMPI_MCA_if_base_do_not_resolve": "1", "OMPI_MCA_plm": "rsh",
               "OMPI_MCA_plm_rsh_agent": str(agent), "OMPI_MCA_orte_default_hostfile": str(hosts)}
    finally:
        for name in names:
            call("ip", "link", "del", f"{name}o", check=False)
            call("ip", "netns", "del", name, check=False)
        call("ip", "link", "del", tag, check=False)
