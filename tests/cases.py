"""Cases of tests: few of many combinations, and many rows in one item.

Of the combinations of a test that is marked `pairwise` those run that have each pair of values, since most faults need
one value, or two together.  A table of rows that are quickly tried is one item with `each`."""
import functools
import inspect
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


def row_of(item):
    """The values of a test's arguments: one for each `parametrize`, whose arguments belong together, and each fixture."""
    values = dict(item.callspec.params)
    for mark in item.iter_markers("parametrize"):
        names = [name.strip() for name in mark.args[0].split(",")] if isinstance(mark.args[0], str) else mark.args[0]
        values[" ".join(names)] = [values.pop(name) for name in names]
    return tuple(repr(values[name]) for name in sorted(values))


def reduce(config, items):
    """Leaves out combinations of tests that are marked `pairwise`, as far as each pair is tried."""
    tests = {}
    for item in items:
        if item.get_closest_marker("pairwise"):
            tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    dropped = set()
    for all_of_it in tests.values():
        kept = {all_of_it[i] for i in cover([row_of(item) for item in all_of_it])}
        dropped |= set(all_of_it) - kept
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
