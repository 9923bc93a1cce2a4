"""Runs the C test programs (cmocka) as pytest items, and ends with one line of counts for all."""
import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / os.environ.get("DGEMM_OOC_BUILD", "build")
counts = {"passed": 0, "failed": 0, "skipped": 0}


def pytest_collect_file(file_path, parent):
    if file_path.suffix == ".c" and file_path.name.startswith("test_"):
        return CFile.from_parent(parent, path=file_path)
    return None


class CFile(pytest.File):
    """One cmocka program; it runs once, when the first of its tests is asked for."""

    result = None

    def collect(self):
        for name in re.findall(r"cmocka_unit_test\w*\(\s*(\w+)", self.path.read_text()):
            yield CTest.from_parent(self, name=name)

    def run(self):
        if self.result is None:
            program = BUILD / self.path.relative_to(ROOT).with_suffix("")
            if not program.exists():
                pytest.skip(f"{program.name} is not built here (no nvcc)")
            done = subprocess.run([program], capture_output=True, text=True, timeout=900)
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
        return self.path, None, f"{self.path.name}: {self.name}"


def pytest_runtest_logreport(report):
    if report.skipped:
        counts["skipped"] += 1
    elif report.failed:
        counts["failed"] += 1
    elif report.when == "call":
        counts["passed"] += 1


def pytest_collectreport(report):
    if report.failed:
        counts["failed"] += 1


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config):
    print("{passed} passed, {failed} failed, {skipped} skipped".format(**counts))
