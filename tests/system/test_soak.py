"""A few cases of each campaign of `make soak`, of the kinds of disturbances that cost little time."""
import json
import subprocess
import sys

import pytest

from launch import BUILD, FAULTY, ROOT, SANITIZED


def soak(folder, campaign, count, *options):
    """Run so many cases, none of which may be a fault; return the summary and what was said."""
    if SANITIZED or not (BUILD / FAULTY).exists():
        pytest.skip("the program with faults is not built: make test")
    table = folder / "soak.json"
    done = subprocess.run(
        [sys.executable, ROOT / "tests/soak/soak.py", campaign, "--count", str(count), "--seed", "1",
         "--directory", folder, "--json", table, *options], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(table.read_text()), done


@pytest.mark.parametrize("campaign, count", [("kills", 8), ("flips", 38)])
def test_disturbed(tmp_path, campaign, count):
    summary, done = soak(tmp_path, campaign, count)
    good = sum(number for outcomes in summary["outcomes"].values() for outcome, number in
               outcomes.items() if not outcome.startswith("no flip"))
    assert summary["hits"] >= 5 and good > count / 2, done.stdout


@pytest.mark.parametrize("campaign, count, kind", [
    ("files", 2, "same"), ("files", 2, "options"), ("files", 2, "content"), ("files", 2, "sources"),
    ("calls", 5, "program"), ("calls", 5, "library"), ("disks", 2, "error"), ("memory", 2, "full"),
    ("verdicts", 2, "plans")])
def test_campaign(tmp_path, campaign, count, kind):
    summary, _ = soak(tmp_path, campaign, count, "--only", kind)
    assert summary["count"] == count and summary["runs"] >= count
