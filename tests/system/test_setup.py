"""What `make setup` does on other machines, with programs that stand in for theirs."""
import os
import shutil
import subprocess

import pytest

from cases import each
from launch import ROOT

STANDINS = {
    "dpkg-query": "exit 1", "apt-cache": "exit 0", "clang": "exit 1", "chromium": "exit 0", "sleep": "exit 0",
    "id": "echo 0", "sudo": 'shift 0; echo "sudo $*" >>"$DONE"; exec "$@"',
    "apt-get": 'echo "$DEBIAN_FRONTEND $*" >>"$DONE"', "mpicc": "exit 1"}
TOOLS = ["sh", "env", "grep", "sed", "cat", "tail", "mktemp", "rm", "sort"]


@pytest.fixture
def setup(tmp_path):
    """Runs setup.sh on a machine that has these programs alone.  Returns its end and the commands of apt-get."""
    def there(*goals, without=(), **others):
        folder, done = tmp_path / "bin", tmp_path / "done"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for name in TOOLS:
            (folder / name).symlink_to(subprocess.run(["which", name], capture_output=True, text=True).stdout.strip())
        for name, text in {**STANDINS, **others}.items():
            if name not in without:
                (folder / name).write_text(f"#!/bin/sh\n{text}\n")
                (folder / name).chmod(0o755)
        done.write_text("")
        end = subprocess.run([folder / "sh", ROOT / "tests/setup.sh", *goals], capture_output=True, text=True,
                             env={"PATH": str(folder), "DONE": str(done), "TMPDIR": str(tmp_path)})
        assert sorted(os.listdir(tmp_path)) == ["bin", "done"]
        return end, done.read_text().splitlines()
    return there


def test_all_is_installed_at_once(setup):
    end, done = setup("test")
    assert end.returncode == 0, end.stderr
    assert done[0] == "noninteractive update -qq" and len(done) == 2
    assert all(f" {name}" in done[1] for name in ("libopenmpi-dev", "libcmocka-dev", "debhelper", "libclang-rt-dev"))


UNITS = {"libcmocka-dev", "python3-pytest"}
NEEDS = {"libcmocka-dev", "python3-pytest", "libopenblas-dev", "debhelper", "clang", "mpich", "mmdebstrap", "slurmd"}


@each("goals, needs", [
    ([], set()), (["all"], set()), (["demo", "install"], set()), (["bench"], {"libopenblas-dev"}),
    (["all", "deb"], UNITS | {"debhelper"}), (["check"], UNITS), (["check-clang"], UNITS | {"clang"}), (["fuzz"], UNITS | {"clang"}),
    (["check", "bench"], UNITS | {"libopenblas-dev"}), (["test-fresh"], UNITS | {"mmdebstrap"}), (["test-cluster"], NEEDS), (["test"], NEEDS)])
def test_what_the_goals_need(setup, goals, needs):
    end, done = setup("--list", *goals)
    packages = end.stdout.split()
    assert end.returncode == 0 and done == [] and "libhdf5-dev" in packages and len(packages) == len(set(packages))
    assert NEEDS & set(packages) == needs


def test_users_ask_sudo(setup):
    end, done = setup(id="echo 1000")
    assert end.returncode == 0
    assert done[0] == "sudo env DEBIAN_FRONTEND=noninteractive NEEDRESTART_MODE=a apt-get update -qq"
    assert any(line.startswith("noninteractive -o DPkg::Lock::Timeout=300 install") for line in done)


def test_without_sudo_the_packages_are_named(setup):
    end, done = setup(id="echo 1000", without=["sudo"])
    assert end.returncode == 1 and done == []
    assert "Ask for: apt-get install" in end.stderr and "libhdf5-dev" in end.stderr


def test_other_systems(setup):
    end, done = setup(without=["apt-get"])
    assert end.returncode == 1 and "neither Debian nor Ubuntu" in end.stderr and "libhdf5-dev" in end.stderr


def test_another_apt_is_waited_for(setup):
    busy = """echo "$*" >>"$DONE"; n=0; while read -r _; do n=$((n + 1)); done <"$DONE"
        [ "$n" -gt 3 ] || { echo "E: Could not get lock /var/lib/apt/lists/lock." >&2; exit 100; }"""
    end, done = setup(**{"apt-get": busy})
    assert end.returncode == 0 and end.stdout.count("waiting for another apt") == 1
    assert [line.split()[0] for line in done] == ["update"] * 4 + ["-o"]


def test_an_apt_that_never_ends(setup):
    end, done = setup(**{"apt-get": """echo "$*" >>"$DONE"
        echo "E: Could not get lock /var/lib/dpkg/lock" >&2; exit 100"""})
    assert end.returncode == 1 and "Could not get lock" in end.stderr and len(done) == 61


def test_a_broken_repository_is_left_alone(setup):
    end, done = setup(**{"apt-get": """echo "$*" >>"$DONE"
        [ "$1" != update ] || { echo "E: The repository 'http://x x InRelease' is not signed." >&2; exit 100; }"""})
    assert end.returncode == 0 and "is not signed" in end.stderr and "going on" in end.stderr
    assert done[-1].startswith("-o DPkg")


def test_a_package_that_cannot_be_installed(setup):
    end, _ = setup(**{"apt-get": '[ "$1" = update ] || { echo "E: Unable to locate package x"; exit 100; }'})
    assert end.returncode == 1 and "Unable to locate" in end.stderr


@pytest.mark.parametrize("goal", ["all", "test"])
def test_another_mpi_stays(setup, goal):
    """Open MPI became mpicc and mpirun of a machine that had MPICH."""
    end, done = setup(goal, mpicc='case $1 in -E) echo "#define MPI_VERSION 4";; *) exit 1;; esac')
    assert end.returncode == 0 and "stays what it is" in end.stderr and "openmpi" not in "".join(done)
