"""A few cases of `make soak`: runs that are killed and bits that are flipped at random."""
import json
import subprocess
import sys

import pytest

from launch import BUILD, FAULTY, ROOT, SANITIZED


@pytest.mark.parametrize("campaign, count", [("kills", 8), ("flips", 38)])
def test_soak(tmp_path, campaign, count):
    if SANITIZED or not (BUILD / FAULTY).exists():
        pytest.skip("the program with faults is not built: make test")
    table = tmp_path / "soak.json"
    done = subprocess.run(
        [sys.executable, ROOT / "tests/soak/soak.py", campaign, "--count", str(count), "--seed", "1",
         "--directory", tmp_path, "--json", table], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    summary = json.loads(table.read_text())
    good = sum(number for outcomes in summary["outcomes"].values() for outcome, number in
               outcomes.items() if not outcome.startswith("no flip"))
    assert summary["hits"] >= 5 and good > count / 2, done.stdout
