"""A few seconds of what `make fuzz` does at length: whatever bytes a parser is given, it refuses them
or understands them."""
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
    for _ in range(5):  # a file that the HDF5 library never returns from can take all of the seconds
        count, _, ours = fuzz(name, seconds=4)
        assert not ours, "\n".join(ours)
        tried += count
        if tried > 100:
            return
    pytest.fail(f"only {tried} inputs were tried")
