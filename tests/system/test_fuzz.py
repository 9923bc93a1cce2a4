"""A short run of `make fuzz`: parsers accept or refuse any bytes that they are given."""
import sys

import pytest

from launch import ROOT, SANITIZED

sys.path.insert(0, str(ROOT / "tests/fuzz"))
from fuzz import BUILD, NAMES, fuzz  # noqa: E402


@pytest.mark.parametrize("name", NAMES)
def test_fuzz(name):
    if SANITIZED or not (BUILD / f"fuzz_{name}").exists():
        pytest.skip("the fuzzers are not built: they want clang and its libFuzzer, and no SANITIZE=")
    tried = 0
    for _ in range(5):  # a file on which the HDF5 library hangs can use up all of the seconds
        count, _, ours = fuzz(name, seconds=4)
        assert not ours, "\n".join(ours)
        tried += count
        if tried > 100:
            return
    pytest.fail(f"only {tried} inputs were tried")
