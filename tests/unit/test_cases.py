"""Combinations that are left out leave no pair of values untried."""
import inspect
import itertools
import os
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from cases import cover, each, even, pairs_of  # noqa: E402


def pairs_in(rows):
    return set().union(*map(pairs_of, rows))


@pytest.mark.parametrize("most, extents", [(1, [1]), (5, [5]), (20, [4, 5]), (4, [2, 2, 2]), (9, [3, 3, 2]), (24, [5, 4, 2, 2]),
                                           (16, [4, 4, 4]), (22, [4, 4, 4, 2, 2])])
def test_products(most, extents):
    rows = list(itertools.product(*map(range, extents)))
    chosen = [rows[i] for i in cover(rows)]
    assert pairs_in(chosen) == pairs_in(rows) and len(chosen) <= most and cover(rows) == cover(list(rows))


@pytest.mark.parametrize("extents", [[1], [5], [2, 7], [5, 4, 2, 2], [4, 2, 26]], ids=str)
def test_each_value_evenly(extents):
    """As many rows as the longest place has values, and no value more often than another by more than one."""
    rows = list(itertools.product(*map(range, extents)))
    chosen = [rows[i] for i in even(rows)]
    assert len(chosen) == max(extents)
    for place, extent in enumerate(extents):
        times = [sum(row[place] == value for row in chosen) for value in range(extent)]
        assert min(times) >= 1 and max(times) - min(times) <= 1


def test_what_is_no_product():
    rng = random.Random(1)
    for _ in range(20):
        rows = [tuple(rng.choice("abc") for _ in range(4)) for _ in range(rng.randint(0, 30))]
        assert pairs_in([rows[i] for i in cover(rows)]) == pairs_in(rows)


def test_a_value_of_two_places_is_two():
    assert cover([("a", "b"), ("b", "a"), ("a", "b")]) == [0, 1]
    assert cover([]) == []


def test_rows_of_one_item(tmp_path):
    """All rows are tried, each in a folder of its own, and all that fail are named."""
    tried = []

    @each("a, b", [(1, "x"), (2, "y"), (3, "z")])
    def test(fixture, a, b, tmp_path):
        assert not list(tmp_path.iterdir())
        (tmp_path / "file").touch()
        tried.append((fixture, a, b))
        assert a != 2, "two"
        if a == 3:
            raise KeyError(b)
    assert list(inspect.signature(test).parameters) == ["fixture", "tmp_path"] and test.__name__ == "test"
    with pytest.raises(AssertionError) as failed:
        test(fixture="f", tmp_path=tmp_path)
    assert tried == [("f", 1, "x"), ("f", 2, "y"), ("f", 3, "z")]
    said = str(failed.value)
    assert "(2, 'y'): AssertionError: two" in said and "(3, 'z'): KeyError: 'z'" in said and "(1, 'x')" not in said


def test_a_row_that_is_skipped_hides_none():
    tried = []

    def test(a):
        tried.append(a)
        if a == 1:
            pytest.skip("one")
        assert a < 3
    with pytest.raises(pytest.skip.Exception, match="one"):
        each("a", [0, 1, 2])(test)()
    assert tried == [0, 1, 2]
    with pytest.raises(AssertionError, match="3: AssertionError"):
        each("a", [1, 3])(test)()


CONFTEST = """
import sys
import pytest
sys.path.insert(0, {folder!r})
import cases
@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    cases.reduce(config, items)
def pytest_configure(config):
    for marker in "pairwise", "singly":
        config.addinivalue_line("markers", marker)
"""
TESTS = """
import pytest
@pytest.fixture(params=["cpu", "gpu"])
def device(request):
    return request.param
@pytest.mark.pairwise
@pytest.mark.parametrize("size, name", [(1, "x"), (2, "x"), (2, "y")])
@pytest.mark.parametrize("more", [[], [{}]], ids=["none", "some"])
def test_marked(device, size, name, more):
    print("SEEN", device, f"{size}{name}", len(more))
def test_other(device):
    print("OTHER")
@pytest.mark.singly
@pytest.mark.parametrize("x", "abc")
@pytest.mark.parametrize("y", "de")
def test_singly(device, x, y):
    print("TAKEN", device, x, y)
"""


def said(folder, *options, trials="100%"):
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", *options], cwd=folder,
                          capture_output=True, text=True, env=os.environ | {"DGEMM_OOC_TEST_TRIALS": trials})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def seen(folder, *options):
    out = said(folder, *options)
    return re.findall(r"SEEN (\w+) (\w+) (\w+)", out), out.count("OTHER")


def test_of_a_marked_test(tmp_path):
    """Arguments that are given together are one value; fixtures count; each pair is left; what is asked for runs."""
    (tmp_path / "conftest.py").write_text(CONFTEST.format(folder=str(Path(__file__).resolve().parent.parent)))
    (tmp_path / "test_x.py").write_text(TESTS)
    every = set(itertools.product(["cpu", "gpu"], ["1x", "2x", "2y"], "01"))
    rows, others = seen(tmp_path)
    assert pairs_in(rows) == pairs_in(every) and len(rows) == 6 and others == 2
    for row, words in (("cpu", "1x", "0"), "cpu and none and 1-x"), (("gpu", "2y", "1"), "gpu and some and 2-y"):
        assert seen(tmp_path, "-k", words) == ([row], 0)
    assert len(seen(tmp_path, "-k", "cpu")[0]) == 6


def test_of_a_test_that_is_marked_singly(tmp_path):
    (tmp_path / "conftest.py").write_text(CONFTEST.format(folder=str(Path(__file__).resolve().parent.parent)))
    (tmp_path / "test_x.py").write_text(TESTS)
    few, many = (re.findall(r"TAKEN (\w+) (\w+) (\w+)", said(tmp_path, "-k", "singly", trials=trials)) for trials in ("5%", "100%"))
    assert len(few) == 3 and len(many) == 6
    assert {value for row in few for value in row} == {value for row in many for value in row}
    assert pairs_in(many) == pairs_in(list(itertools.product(["cpu", "gpu"], "abc", "de")))
