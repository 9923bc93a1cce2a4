import shutil
import subprocess

import pytest

from browser import CHROMIUM, Browser
from launch import AS_BUILT, BUILD, FAULTY, SANITIZED, built, make
from scripts import made


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    item.fails = getattr(item, "fails", False) or report.failed


@pytest.fixture
def tmp_path(request, tmp_path):
    """Removed unless the test fails, so that most of what it wrote is never written to the disk."""
    yield tmp_path
    if not request.node.fails:
        shutil.rmtree(tmp_path, ignore_errors=True)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if not CHROMIUM:
        pytest.skip("no chromium here: make setup")
    browser = Browser(tmp_path_factory.mktemp("browser"))
    yield browser
    browser.close()


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


@pytest.fixture
def mount(tmp_path):
    """Mounts something at a place in tmp_path until the test ends; where this user cannot, the test is skipped."""
    places = []

    def at(place, *words):
        try:
            done = subprocess.run(["mount", *words, place], capture_output=True, text=True)
        except FileNotFoundError:
            pytest.skip("no mount command")
        if done.returncode:
            pytest.skip(f"nothing can be mounted: {done.stderr.strip()}")
        places.append(place)
    yield at
    for place in places:
        subprocess.run(["umount", "-l", place], check=True)


@pytest.fixture
def small_disk(tmp_path, mount):
    """A file system of 20 MiB."""
    place = tmp_path / "disk"
    place.mkdir()
    mount(place, "-t", "tmpfs", "-o", "size=20m", "tmpfs")
    return place


@pytest.fixture(scope="session")
def prefix(tmp_path_factory):
    """The prefix where this build is installed."""
    folder = tmp_path_factory.mktemp("prefix")
    make("install", f"PREFIX={folder}", *AS_BUILT)
    return folder


@pytest.fixture
def no_locks():
    """Gives the environment where the locks of a file system fail with this number."""
    if SANITIZED or not (BUILD / FAULTY).exists():
        pytest.skip("the program with faults is not built: make test")
    return lambda number: {"DGEMM_OOC_TEST_NO_LOCKS": str(number)}


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
