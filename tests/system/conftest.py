import shutil
import subprocess
from pathlib import Path

import pytest

from launch import AS_BUILT, SANITIZED, built, make
from scripts import made


@pytest.fixture
def gpu():
    """The GPU: a real one with `make test-gpu`, otherwise an emulated one."""
    if not built("dgemm_ooc", "gpu").exists():
        pytest.skip("the program with an emulated GPU is not built: make test")
    return "gpu"


@pytest.fixture(params=["cpu", pytest.param("gpu", marks=pytest.mark.gpu)])
def device(request):
    """Every device."""
    return request.getfixturevalue("gpu") if request.param == "gpu" else "cpu"


@pytest.fixture(scope="session")
def prefix(tmp_path_factory):
    """The prefix where this build is installed."""
    folder = tmp_path_factory.mktemp("prefix")
    make("install", f"PREFIX={folder}", *AS_BUILT)
    return folder


@pytest.fixture(scope="session")
def no_locks(tmp_path_factory):
    """A library to preload, which disables a file system's locks."""
    if SANITIZED:
        pytest.skip("sanitizers want to come first themselves")
    if not shutil.which("cc"):
        pytest.skip("no compiler for the library that takes the locks away")
    path = tmp_path_factory.mktemp("locks") / "no_locks.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", path, Path(__file__).with_name("no_locks.c"),
                    "-ldl"], check=True)
    return path


@pytest.fixture(scope="module")
def reference(request, tmp_path_factory):
    """Operands of the module's size, and the bits of their product."""
    return made(tmp_path_factory.mktemp("reference"), request.module.SIZE)


@pytest.fixture
def source(reference, tmp_path):
    """A copy of the operands with its original times, which identify it as the same file."""
    return tmp_path / shutil.copy2(reference[0], tmp_path)


@pytest.fixture
def slurm(started):
    """The module's Slurm, without jobs."""
    yield started
    started.clear()
