"""Cases of tests: few of many combinations, and many rows in one item.

Of the combinations of a test that is marked `pairwise` those run that have each pair of values, since most faults need
one value, or two together.  Of one that is marked `singly` those run that have each value, as evenly as can be, where
few random cases are made, too (DGEMM_OOC_TEST_TRIALS), as in `make test`; otherwise it is as if marked `pairwise`.  A
table of rows that are quickly tried is one item with `each`."""
import functools
import inspect
import os
from collections import Counter
from itertools import combinations

import pytest


def pairs_of(row):
    """The pairs of a row's values, each with its place; the values themselves where there are fewer than two."""
    placed = list(enumerate(row))
    return set(combinations(placed, 2)) if len(row) > 1 else set(placed)


def cover(rows):
    """The indices, ascending, of some of the rows that have every pair that two values in two places have in all of them:
    again and again a row with the most pairs that are missing, the first of these."""
    pairs = [pairs_of(row) for row in rows]
    missing, chosen = set().union(*pairs), []
    while missing:
        best = max(range(len(rows)), key=lambda i: len(pairs[i] & missing))
        chosen.append(best)
        missing -= pairs[best]
    return sorted(chosen)


def even(rows):
    """The indices, ascending, of some of the rows that have every value that is in a place of any of them: again and
    again a row with the most values that are missing, of these one whose values were the least often taken."""
    placed = [list(enumerate(row)) for row in rows]
    missing, taken, chosen = {value for row in placed for value in row}, Counter(), []
    while missing:
        best = max(range(len(rows)), key=lambda i: (len(missing.intersection(placed[i])),
                                                    -sum(taken[value] for value in placed[i])))
        chosen.append(best)
        missing -= set(placed[best])
        taken.update(placed[best])
    return sorted(chosen)


def are_few():
    """Whether fewer random cases are asked for than there are."""
    return os.environ.get("DGEMM_OOC_TEST_TRIALS", "100%") != "100%"


def row_of(item):
    """The values of a test's arguments: one for each `parametrize`, whose arguments belong together, and each fixture."""
    values = dict(item.callspec.params)
    for mark in item.iter_markers("parametrize"):
        names = [name.strip() for name in mark.args[0].split(",")] if isinstance(mark.args[0], str) else mark.args[0]
        values[" ".join(names)] = [values.pop(name) for name in names]
    return tuple(repr(values[name]) for name in sorted(values))


def reduce(config, items):
    """Leaves out combinations of tests that are marked `pairwise` or `singly`, as far as each pair, or value, is tried."""
    tests = {}
    for item in items:
        if item.get_closest_marker("pairwise") or item.get_closest_marker("singly"):
            tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    dropped = set()
    for all_of_it in tests.values():
        choose = even if are_few() and all_of_it[0].get_closest_marker("singly") else cover
        dropped |= set(all_of_it) - {all_of_it[i] for i in choose([row_of(item) for item in all_of_it])}
    items[:] = [item for item in items if item not in dropped]
    if dropped:
        config.hook.pytest_deselected(items=sorted(dropped, key=lambda item: item.nodeid))


def each(name, rows):
    """Like `parametrize`, but one item for all rows, which fails with all rows that fail.  Of a test with tmp_path each
    row has a folder of its own in that; other fixtures are shared, so a row must leave them as they were.  It is skipped
    if a row is, after all others."""
    names = [word.strip() for word in name.split(",")]

    def decorate(test):
        def every(**fixtures):
            failed, skipped = {}, []
            for number, row in enumerate(rows):
                own = dict(fixtures)
                if "tmp_path" in own:
                    own["tmp_path"] /= f"row{number}"
                    own["tmp_path"].mkdir()
                try:
                    test(**own, **dict(zip(names, row if len(names) > 1 else [row])))
                except pytest.skip.Exception as reason:
                    skipped.append(reason)
                except Exception as error:  # of any kind: the other rows are tried, too
                    failed[str(row)] = f"{type(error).__name__}: {error}"
            assert not failed, "\n\n".join(f"{row}: {why}" for row, why in failed.items())
            if skipped:
                raise skipped[0]
        functools.update_wrapper(every, test)
        every.__signature__ = inspect.Signature([parameter for parameter in inspect.signature(test).parameters.values()
                                                 if parameter.name not in names])
        return every
    return decorate
