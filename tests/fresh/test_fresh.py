"""The README's commands on machines that nobody prepared, pasted from the HEAD of this repository."""
import os
import re
import subprocess
from pathlib import Path

import pytest

from blocks import blocks, first_hour
from browser import CHROMIUM, Browser
from launch import ROOT
from roots import USER, root

pytestmark = pytest.mark.fresh
SOURCE = Path(os.environ.get("DGEMM_OOC_TEST_SOURCE", ROOT))  # another clone, for example of another commit
REPOSITORY = "/srv/dgemm_ooc.git"
URL = f"export URL=file://{REPOSITORY}\n"
# A virtual environment that has none of our packages comes first on PATH, as pyenv's or conda's does.
VENV = "apt-get update -qq; apt-get install -y -qq python3-venv >/dev/null 2>&1; python3 -m venv ~/venv; . ~/venv/bin/activate\n"
# Another apt is at work when the machine has just started.
LOCK = r"""perl -MFcntl -e 'open my $f, ">", "/var/lib/apt/lists/lock" or die;
    my $lock = pack("s s l! l! i x4", F_WRLCK, 0, 0, 0, 0); fcntl($f, F_SETLK, $lock) or die; sleep 10' & sleep 1
"""


def show(name):
    """A document of the source's HEAD."""
    return subprocess.run(["git", "-C", SOURCE, "show", f"HEAD:{name}"], capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    bare = tmp_path_factory.mktemp("source") / "dgemm_ooc.git"
    subprocess.run(["git", "clone", "-q", "--bare", "--depth=1", f"file://{SOURCE}", bare], check=True)
    return bare


@pytest.fixture
def machine(tmp_path, repository):
    """Returns a function from a suite and a user to a machine with an address to clone from."""
    made = []

    def make(suite, user="root"):
        folder = tmp_path / f"{suite}{len(made)}"
        folder.mkdir()
        made.append(root(suite, folder))
        there = made[-1].__enter__()
        there.put(repository, REPOSITORY, user)
        return there
    yield make
    for there in made:
        there.__exit__(None, None, None)


def typed(texts):
    return "".join(f"echo '--- block {i}'\n{text}" for i, text in enumerate(texts, 1))


def passed(said):
    return re.findall(r"^RESULT: C complete, checked for errors down to \S+ of a typical element: PASSED", said, re.M)


def heading(page, folder):
    """The heading of a page, as a browser shows it."""
    browser = Browser(folder)
    try:
        return "".join(browser.open(page).all("h1")[0].split())
    finally:
        browser.close()


@pytest.mark.xdist_group("user")
def test_user_with_sudo(machine, tmp_path):
    """In a folder whose name has a space; then the unit tests, with files on an overlay and in memory."""
    there = machine("bookworm", USER)
    said = there.run(URL + "mkdir 'my files'; cd 'my files'\n" + typed(first_hour(show("README.md"))), USER).check()
    assert "demo: PASSED" in said and len(passed(said)) >= 2
    assert there.files() == {"home/sci/my files"}
    clone = "home/sci/my files/dgemm_ooc"
    page = there.run("cd 'my files/dgemm_ooc'; PATH=$PWD/build:$PATH\n"
                     "dgemm_ooc input.h5 --host-memory 20M --force -q --html page.html\nrm input*.h5; git status --short", USER).check()
    assert page.splitlines()[-1] == "?? page.html"
    if CHROMIUM:
        assert heading(there.path(f"{clone}/page.html"), tmp_path) == "C=AB"
    said = there.run("cd 'my files/dgemm_ooc'; rm page.html; ! make check 2>said || exit 1; grep 'make setup test' said\n"
                     "make setup check; TMPDIR=/dev/shm make check\n", USER).check()
    assert len(re.findall(r"[1-9]\d* passed, 0 failed, 0 skipped", said)) == 2
    said = there.run("cd 'my files/dgemm_ooc'; sudo make install; cd; dgemm_ooc --version\n"
                     "cd - >/dev/null; sudo make uninstall; git status --short; test -z \"$(find . -user root)\"; make clean\n", USER).check()
    assert "  CC  " not in said and re.search(r"^dgemm_ooc +\d", said, re.M)
    assert there.files() == {"home/sci/my files", "tmp/pytest-of-sci"}  # pytest keeps its last sessions
    assert not list(there.path("usr/local").glob("**/*dgemm*"))


@pytest.mark.xdist_group("root")
def test_root_with_a_virtual_environment(machine, repository, tmp_path):
    """From the tarball; a package from a clone, which another machine installs, uses and removes."""
    there = machine("trixie")
    tarball, = re.findall(r"tar xzf (\S+)", show("jobs/README.md"))
    release = next(block for block in blocks(show("jobs/README.md")) if "tar xzf" in block)
    subprocess.run(["git", "-C", SOURCE, "archive", f"--prefix={tarball.removesuffix('.tar.gz')}/", "-o", tmp_path / tarball, "HEAD"],
                   check=True)
    there.put(tmp_path / tarball, tarball, "root")
    install, _, *product = first_hour(show("README.md"))
    said = there.run(VENV + typed([install, release, "make demo\nrm input*.h5\n", *product])).check()
    assert "demo: PASSED" in said and len(passed(said)) >= 3
    assert there.files() == {"root/venv", f"root/{tarball}", f"root/{tarball.removesuffix('.tar.gz')}"}
    said = there.run(URL + '. venv/bin/activate; git clone -q "$URL"; cd dgemm_ooc; make setup deb; git status --short').check()
    package, = there.path("root/dgemm_ooc/build/deb").glob("dgemm-ooc_*.deb")
    another = machine("trixie")
    another.put(package, package.name, "root")
    said = another.run(f"apt-get update -qq; apt-get install -y -qq python3-h5py ./{package.name} >/dev/null\n" + typed(product)).check()
    another.run("rm input*.h5; apt-get purge -y -qq dgemm-ooc >/dev/null").check()
    assert len(passed(said)) >= 2 and another.files() == {f"root/{package.name}"}
    assert not [path for path in another.folder.glob("upper/usr/**/*dgemm*") if path.exists()]


@pytest.mark.xdist_group("mpich")
def test_mpich_alone(machine):
    """A machine with MPICH keeps it; another apt is at work as setup begins."""
    there = machine("bookworm")
    mpich = "apt-get update -qq; apt-get install -y -qq mpich libmpich-dev >/dev/null 2>&1\n"
    install, get, *product = first_hour(show("README.md"))
    said = there.run(URL + typed([mpich, install, LOCK + get, *product])).check()
    assert "waiting for another apt" in said and "demo: PASSED" in said and len(passed(said)) >= 2
    said = there.run("mpicc -show; mpirun --version | head -1\n").check()
    assert "-lmpich" in said and "HYDRA" in said
    assert there.files() == {"root/dgemm_ooc"}
