"""Runs the C and C++ test programs (cmocka) as pytest items, and prints one line of counts at the end.

Programs of tests/kernels run on a GPU, if there is one, and also in the emulation, except with `make test-gpu`
(C++ programs run in the emulation only)."""
import fnmatch
import os
import re
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest

from cases import reduce

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / os.environ.get("DGEMM_OOC_BUILD", "build")
GPU = os.environ.get("DGEMM_OOC_TEST_GPU") == "1"
LONGEST = 900  # seconds of a test, or of what it sets up: one that hangs fails, and is named
# The threads of OpenMP and OpenBLAS sleep when they wait: those of other tests want the CPU.
os.environ |= {"OMP_WAIT_POLICY": "passive", "OPENBLAS_NUM_THREADS": "1"}
# Many tests are about files on a disk; on some systems /tmp is in memory, /var/tmp is not.
if "TMPDIR" not in os.environ and subprocess.run(["stat", "-fc", "%T", "/tmp"],
                                                 capture_output=True).stdout == b"tmpfs\n":
    os.environ["TMPDIR"] = "/var/tmp"
    tempfile.tempdir = None  # pytest has looked for it
counts = {"passed": 0, "failed": 0, "skipped": 0}
EXPECTED_SKIPS = Path(__file__).with_name("expected_skips.txt")
unexpected = []  # skips that are not in EXPECTED_SKIPS


def pytest_configure(config):
    for marker in ("gpu: computes on the GPU, where there is one",
                   "smoke: among the few that try everything once",
                   "pairwise: of all combinations so many that each pair of values is tried (cases.py)",
                   "singly: of all combinations so many that each value is tried, or with all trials each pair (cases.py)",
                   "cluster: on nodes in network namespaces of their own",
                   "fresh: on empty roots of Debian, into which packages are downloaded"):
        config.addinivalue_line("markers", marker)


def pytest_collect_file(file_path, parent):
    if file_path.suffix in (".c", ".cpp") and file_path.name.startswith("test_"):
        return CFile.from_parent(parent, path=file_path)
    return None


class CFile(pytest.File):
    """One source file, built once or twice."""

    def collect(self):
        program = self.path.relative_to(ROOT).with_suffix("")
        if self.path.suffix == ".c":
            yield CProgram.from_parent(self, name=self.path.name, program=BUILD / program)
        if self.path.parent.name == "kernels" and not GPU:
            yield CProgram.from_parent(self, name=f"{self.path.name} (emulated)",
                                       program=BUILD / "emulated" / program)


class CProgram(pytest.Collector):
    """One cmocka program; it runs once, when its first test does."""

    result = None

    def __init__(self, program, **kwargs):
        super().__init__(**kwargs)
        self.program = program

    def collect(self):
        for name in re.findall(r"cmocka_unit_test\w*\(\s*(\w+)", self.path.read_text()):
            test = CTest.from_parent(self, name=name)
            if self.path.parent.name == "kernels":
                test.add_marker(pytest.mark.gpu)
            yield test

    def run(self):
        if self.result is None:
            if not self.program.exists():
                pytest.skip(f"{self.program.name} is not built here")
            done = subprocess.run([self.program], capture_output=True, text=True, timeout=900)
            self.result = done.returncode, done.stdout + done.stderr
        return self.result


class CTest(pytest.Item):
    def runtest(self):
        code, output = self.parent.run()
        if code == 77:
            pytest.skip(output.strip().splitlines()[-1])
        if not re.search(rf"\[ +OK \] {self.name}\b", output):
            raise AssertionError(output)

    def reportinfo(self):
        return self.path, None, f"{self.parent.name}: {self.name}"


def within_limit():
    def fail(*_):
        raise TimeoutError(f"still running after {LONGEST} s")
    signal.signal(signal.SIGALRM, fail)
    signal.alarm(LONGEST)
    yield
    signal.alarm(0)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_setup():
    yield from within_limit()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call():
    yield from within_limit()


@pytest.hookimpl(trylast=True)  # of what was asked for
def pytest_collection_modifyitems(config, items):
    """The tests on a Slurm begin first, since they wait most of the time."""
    reduce(config, items)
    items.sort(key=lambda item: item.path.stem != "test_slurm")


def expected_skips():
    """Pairs of patterns: one for a test, and one for the reason."""
    lines = EXPECTED_SKIPS.read_text().splitlines()
    return [line.split(maxsplit=1) for line in lines if line and not line.startswith("#")]


def note_skip(report):
    counts["skipped"] += 1
    reason = report.longrepr[2].removeprefix("Skipped: ")
    if not any(fnmatch.fnmatchcase(report.nodeid, test) and fnmatch.fnmatchcase(reason, why)
               for test, why in expected_skips()):
        unexpected.append(f"{report.nodeid}: {reason}")


def pytest_runtest_logreport(report):
    if report.skipped:
        note_skip(report)
    elif report.failed:
        counts["failed"] += 1
    elif report.when == "call":
        counts["passed"] += 1


def pytest_collectreport(report):
    if report.failed:
        counts["failed"] += 1
    elif report.skipped:
        note_skip(report)


def pytest_sessionfinish(session):
    """CI has everything that tests need, so an unexpected skip there is a failure."""
    if unexpected and os.environ.get("CI") == "true" and not hasattr(session.config, "workerinput"):
        session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter):
    if unexpected and os.environ.get("CI") == "true":
        terminalreporter.section(f"skipped, and not in {EXPECTED_SKIPS.name}", red=True)
        for line in unexpected:
            terminalreporter.line(line)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config):
    print("{passed} passed, {failed} failed, {skipped} skipped".format(**counts))
