"""Roots of Debian that have nothing but sudo, in which text runs as if it were pasted into a terminal."""
import contextlib
import fcntl
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

CACHE = Path(os.environ.get("DGEMM_OOC_TEST_ROOTS", "/var/tmp/dgemm_ooc-roots"))
PATIENCE = 1200
USER = "sci"
HOMES = {"root": "root", USER: f"home/{USER}"}
OPEN_MPI_5_LEAVES = "ompi.fresh.0"  # an empty folder in TMPDIR
# What a session must not say.  Debian's packages ask for an apt-utils, which is no error; and a library with thread-local
# variables needs the loader, which libc6 diverts.
ERRORS = re.compile(r"^E: .*|.*\b[Ee]rror: .*|.*\*\*\*.*|.*\bwarning: (?!diversions involved).*|.*Traceback.*|.*: not found$|.*No such file.*", re.M)
# With an empty root at $1/root, a base at $2 and a user $3: run what comes by standard input in the user's login shell.
ENTER = r"""
set -e
root=$1/root
mount -t overlay overlay -o "lowerdir=$2,upperdir=$1/upper,workdir=$1/work" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for name in null zero full random urandom tty; do
    touch "$root/dev/$name"
    mount --bind "/dev/$name" "$root/dev/$name"
done
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
for fd in 0:stdin 1:stdout 2:stderr; do ln -s "/proc/self/fd/${fd%:*}" "$root/dev/${fd#*:}"; done
hostname fresh
exec chroot "$root" su - "$3" -c 'exec bash -es'
"""


def mirror():
    """The URI of Debian's packages that this machine is configured with."""
    if shutil.which("apt-get"):
        targets = subprocess.run(["apt-get", "indextargets", "--format", "$(REPO_URI) $(ORIGIN) $(LABEL)", "Created-By: Packages"],
                                 capture_output=True, text=True).stdout
        for line in targets.splitlines():
            if line.endswith(" Debian Debian"):
                return line.split()[0]
    pytest.skip("no mirror of Debian is configured")


def require_rights():
    """Roots are mounted; a container may not."""
    if os.getuid() or subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True).returncode:
        pytest.skip("no root can be made: only root may mount, and a container may not")
    if not shutil.which("mmdebstrap"):
        pytest.skip("no mmdebstrap here: make setup test-fresh")


def base(suite):
    """The folder of a root with sudo and the user, made once and kept in CACHE."""
    require_rights()
    CACHE.mkdir(exist_ok=True)
    with open(CACHE / f"{suite}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        folder = CACHE / suite
        if not folder.exists():
            making = CACHE / f"{suite}.part"
            shutil.rmtree(making, ignore_errors=True)
            done = subprocess.run(
                ["mmdebstrap", "--quiet", "--variant=minbase", "--mode=root", "--include=sudo,ca-certificates",
                 # dpkg need not wait for a disk, and a mirror may be a snapshot
                 "--dpkgopt=force-unsafe-io", "--aptopt=Acquire::Check-Valid-Until false", "--aptopt=Acquire::Check-Date false",
                 suite, making, f"deb {mirror()} {suite} main"], capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            shutil.copy("/etc/resolv.conf", making / "etc/resolv.conf")
            (making / "etc/hosts").write_text("127.0.0.1 localhost fresh\n")
            subprocess.run(["chroot", making, "useradd", "-m", "-s", "/bin/bash", USER], check=True)
            (making / f"etc/sudoers.d/{USER}").write_text(f"{USER} ALL=(ALL) NOPASSWD: ALL\n")
            making.rename(folder)
    return folder


class Session:
    """What one text has printed, and its exit status."""

    def __init__(self, done):
        self.status, self.said = done.returncode, done.stdout

    def check(self):
        assert self.status == 0, self.said[-4000:]
        assert not ERRORS.findall(self.said), "\n".join(ERRORS.findall(self.said))
        return self.said


class Root:
    """A machine of its own: the base, and above it what has changed since."""

    def __init__(self, suite, folder):
        self.base, self.folder = base(suite), folder
        for name in ("root", "upper", "work"):
            (folder / name).mkdir()

    def path(self, name):
        """Where a file that a session has made lies outside."""
        return self.folder / "upper" / str(name).lstrip("/")

    def put(self, source, name, user):
        """A copy of a folder or file in the root, or in the user's home there, which belongs to the user."""
        target = self.path(name if name.startswith("/") else f"{HOMES[user]}/{name}")
        target.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cp", "-r", source, target], check=True)
        owner = 1000 if user == USER else 0
        subprocess.run(["chown", "-R", f"{owner}:{owner}", target], check=True)

    def run(self, text, user="root"):
        return Session(subprocess.run(
            ["unshare", "--mount", "--pid", "--fork", "--uts", "--kill-child", "sh", "-c", ENTER, "sh", self.folder, self.base, user],
            input=text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=PATIENCE))

    def files(self):
        """What lies in the folders in which runs and builds might leave something."""
        return {str(path.relative_to(self.folder / "upper")) for place in ("tmp", "var/tmp", *HOMES.values())
                for path in self.path(place).glob("*") if path.name != OPEN_MPI_5_LEAVES}


@contextlib.contextmanager
def root(suite, folder):
    try:
        yield Root(suite, folder)
    finally:
        for name in ("upper", "work"):
            shutil.rmtree(folder / name, ignore_errors=True)
