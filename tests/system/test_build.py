"""The ways to build and install: without nvcc, with a parallel HDF5, from a tarball, into a prefix."""
import os
import subprocess
import tarfile

import pytest

from launch import BUILD, ROOT, SANITIZED, environment
from matrices import operands

pytestmark = pytest.mark.skipif(SANITIZED, reason="builds are the same under sanitizers")


def make(*words, cwd=ROOT):
    env = environment(MAKEFLAGS=f"-j{os.cpu_count()}")
    env.pop("BUILD", None)  # of the make that runs these tests
    done = subprocess.run(["make", *words], cwd=cwd, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "warning" not in done.stderr, done.stderr
    return done.stdout


def multiplies(build, folder):
    """Both programs of a build do their job."""
    source = folder / "input.h5"
    operands(source, 50, 40, 30)
    done = subprocess.run([build / "dgemm_ooc", source, "--device", "cpu"], env=environment(),
                          capture_output=True, text=True)
    assert done.returncode == 0 and "PASSED" in done.stdout, done.stderr
    done = subprocess.run([build / "h5mat", "info", source], capture_output=True, text=True)
    assert done.returncode == 0 and "50" in done.stdout, done.stderr


def version(build):
    return subprocess.run([build / "dgemm_ooc", "--version"], capture_output=True, text=True).stdout


def test_without_nvcc(tmp_path):
    out = make("CUDA=0", f"BUILD={tmp_path}/build")
    assert "runs on the CPU only" in out
    assert "no CUDA" in version(tmp_path / "build")
    multiplies(tmp_path / "build", tmp_path)


def test_parallel_hdf5(tmp_path):
    if subprocess.run(["pkg-config", "--exists", "hdf5-openmpi"]).returncode:
        pytest.skip("no parallel HDF5 here (libhdf5-openmpi-dev)")
    make("CUDA=0", f"BUILD={tmp_path}/build", "HDF5=hdf5-openmpi")
    assert "parallel" in version(tmp_path / "build")
    multiplies(tmp_path / "build", tmp_path)


def test_install_and_uninstall(tmp_path):
    where = [f"DESTDIR={tmp_path}", "PREFIX=/opt/x", f"BUILD={BUILD}"]
    make("install", *where)
    installed = {str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file()}
    assert installed == {f"opt/x/bin/{name}" for name in ("dgemm_ooc", "gemm_bench", "h5mat")}
    multiplies(tmp_path / "opt/x/bin", tmp_path)
    make("uninstall", *where)
    assert not list((tmp_path / "opt").rglob("*/bin/*"))


def test_dist_builds_without_git(tmp_path):
    if not (ROOT / ".git").exists():
        pytest.skip("no git repository here to make a tarball from")
    make("dist", f"DIST={tmp_path}")
    tarball, = tmp_path.glob("*.tar.gz")
    with tarfile.open(tarball) as archive:
        archive.extractall(tmp_path)
    folder = tmp_path / tarball.name.removesuffix(".tar.gz")
    make("CUDA=0", cwd=folder)
    assert "no git" in version(folder / "build")
    multiplies(folder / "build", tmp_path)
