"""The ways to build: from a tarball without git, nvcc or a serial HDF5, and as a Debian package."""
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from cases import are_few
from launch import ROOT, SANITIZED, environment, make
from matrices import multiplies

pytestmark = [
    pytest.mark.skipif(SANITIZED, reason="builds are the same under sanitizers"),
    pytest.mark.skipif(not (ROOT / ".git").exists(), reason="no git repository here for a tarball")]

PARALLEL_HDF5 = subprocess.run(["pkg-config", "--exists", "hdf5-openmpi"]).returncode == 0
BARE = {"CUDA": "0", "CFLAGS": "-O2"} | ({"HDF5": "hdf5-openmpi"} if PARALLEL_HDF5 else {})


def commit():
    return subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], check=True,
                          capture_output=True, text=True).stdout.strip()


def version(build):
    return subprocess.run([build / "dgemm_ooc", "--version"], capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    """The files of the release, and the output of its build."""
    where = tmp_path_factory.mktemp("release")
    make("dist", f"DIST={where}")
    tarball, = where.glob("*.tar.gz")
    with tarfile.open(tarball) as archive:
        archive.extractall(where)
    folder = where / tarball.name.removesuffix(".tar.gz")
    return folder, make(cwd=folder, **BARE)


def test_tarball_builds_without_git_and_nvcc(unpacked, tmp_path):
    folder, out = unpacked
    assert "runs on the CPU only" in out
    built = version(folder / "build")
    assert f"(git {commit()})" in built and "no CUDA" in built
    multiplies(folder / "build", tmp_path)


def test_from_the_tarball_to_the_page(unpacked):
    """The five commands of jobs/README.md; the build has been done already."""
    text = (ROOT / "jobs/README.md").read_text()
    commands, = re.findall(r"\n\n((?:    .*\n)+)\n", text[text.index("From a release"):])[:1]
    assert len(commands.splitlines()) == 5
    folder = unpacked[0]
    done = subprocess.run(["bash", "-euc", commands], cwd=folder.parent, capture_output=True, text=True,
                          env=environment(DGEMM_OOC_DEVICE="cpu", **BARE))
    assert done.returncode == 0, done.stderr
    assert "  CC  " not in done.stdout and done.stdout.splitlines()[-1].endswith("PASSED")
    assert "PASSED" in (folder / "page.html").read_text()


@pytest.mark.skipif(not PARALLEL_HDF5, reason="no parallel HDF5 here (libhdf5-openmpi-dev)")
def test_parallel_hdf5(unpacked):
    assert "parallel" in version(unpacked[0] / "build")


def test_tarball_makes_no_tarball(unpacked):
    done = subprocess.run(["make", "dist"], cwd=unpacked[0], capture_output=True, text=True)
    assert done.returncode and "only in a git repository" in done.stderr


@pytest.mark.parametrize("wrong, missing", [
    ("HDF5_HOME", r"does not find.* hdf5\.h"), ("MPICC", "MPI compiler {} is missing")])
def test_what_the_build_needs_is_missed_at_once(tmp_path, wrong, missing):
    build, nothing = tmp_path / "build", tmp_path / "nothing"
    done = subprocess.run(["make", "CUDA=0", f"BUILD={build}", f"{wrong}={nothing}"], cwd=ROOT, capture_output=True,
                          text=True)
    assert done.returncode and re.search(f"{missing.format(nothing)}.*make setup", done.stderr)
    assert "  CC  " not in done.stdout and not build.exists()


@pytest.mark.parametrize("goal, wrong, says", [
    ("check", "TESTPYTHON=false", "pytest is missing: make setup test"),
    ("demo", "PYTHON=false", "NumPy is missing: make setup demo"),
    ("check-clang", "CLANG=no-clang", "clang is missing: make setup fuzz"), ("test-gpu", "CUDA=0", "nvcc is missing")])
def test_a_target_names_what_it_lacks(tmp_path, goal, wrong, says):
    done = subprocess.run(["make", f"BUILD={tmp_path}/build", wrong, goal], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode and says in done.stderr


def test_a_dry_run_of_make_writes_nothing(tmp_path):
    out = make("-n", "CUDA=0", f"BUILD={tmp_path}/build", "CFLAGS=-O1")
    assert "-O1" in out and not (tmp_path / "build").exists()


def test_several_goals_are_one_make(tmp_path):
    """Two that built at a time wrote the same files."""
    out = make("-n", "CUDA=0", f"BUILD={tmp_path}/build", "setup", "all", "install")
    assert out.count('echo "  CC      src/base/error.c"') == 1 and out.count("tests/setup.sh all install") == 1


def test_what_was_built_is_installed(tmp_path):
    """sudo drops the environment: with what is left another program was built, and installed."""
    error = f"{tmp_path}/build/src/base/error.c.o"
    make("CUDA=0", f"BUILD={tmp_path}/build", "CFLAGS=-O1 -g3", error)
    done = subprocess.run(["make", "CUDA=0", f"BUILD={tmp_path}/build", f"PREFIX={tmp_path}/there", "CFLAGS=-O2",
                           "install"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode and "other settings" in done.stderr and "\n--O1\n--g3\n+-O2\n" in done.stderr
    assert "  CC  " not in done.stdout and not (tmp_path / "there").exists()


def test_first_python_that_has_the_packages(tmp_path):
    """A virtual environment without h5py comes first on PATH; the demo needs no pytest, tests do."""
    lacks = {"venv": "*", "user": "*pytest*"}
    for name, modules in lacks.items():
        python = tmp_path / name / "python3"
        python.parent.mkdir()
        python.write_text(f'#!/bin/sh\ncase "$*" in *"import "{modules}) exit 1; esac\nexec {sys.executable} "$@"\n')
        python.chmod(0o755)
    path = ":".join([str(tmp_path / "venv"), str(tmp_path / "user"), str(Path(sys.executable).parent), "/usr/bin:/bin"])
    out = make("-s", "summary", "CUDA=0", PATH=path)
    assert re.search(rf"demo +{tmp_path}/user/python3\n", out)
    assert re.search(rf"tests +{Path(sys.executable).parent}/python3\n", out)


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """The Debian package, built from the unpacked tarball, including `make check`: one of its programs where cases are
    few, since all of them run beside this."""
    for program, where in (("dpkg-buildpackage", "dpkg-dev"), ("dh", "debhelper")):
        if not shutil.which(program):
            pytest.skip(f"no {program} here ({where})")
    build = tmp_path_factory.mktemp("package")
    out = make("deb", "CUDA=0", f"BUILD={build}", DEB_BUILD_OPTIONS="noautodbgsym parallel=3",
               **({"PYTEST_ADDOPTS": "-k test_scalar"} if are_few() else {}))
    assert "make -j3" in out and " passed, 0 failed" in out
    deb, = build.glob("deb/*.deb")
    return deb


@pytest.mark.skipif(not shutil.which("lintian"), reason="no lintian here")
def test_package_is_clean(package):
    done = subprocess.run(["lintian", "--allow-root", "--fail-on", "error,warning", package],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(os.getuid(), reason="dpkg installs for root only")
def test_package_comes_and_goes(package, tmp_path):
    """The package is installed into a separate root, whose database claims the packages of this system."""
    root = tmp_path / "root"
    database = root / "var/lib/dpkg"
    for folder in ("info", "updates"):
        (database / folder).mkdir(parents=True)
    shutil.copy("/var/lib/dpkg/status", database)

    def dpkg(*words):
        subprocess.run(["dpkg", f"--root={root}", "--force-script-chrootless", f"--log={tmp_path}/log", *words], check=True,
                       capture_output=True)

    dpkg("--install", package)
    assert f"(git {commit()})" in version(root / "usr/bin")
    multiplies(root / "usr/bin", tmp_path)
    dpkg("--purge", "dgemm-ooc")
    assert not (root / "usr").exists() and not (root / "etc").exists()
