"""The verdict on right products: the same for every plan of one product, and never a false alarm."""
import re

import h5py
import numpy as np

from attempt import FAILED_CHECK, PLAIN, Run, random_configuration, tile_of
from kills import product_of
from problem import difference

VALUES = ("normal", "whole", "units")  # of the products of this campaign
PLANS = 4


def kind_of(number):
    return "plans"


def verdict_of(end):
    found = re.search(r"PASSED|NOT CHECKED", end.out)
    return f"{end.code}, {found[0] if found else 'no verdict'}"


def configuration(case, product):
    """Any plan, with slabs as small as 16, whether or not that is sensible."""
    how = {**random_configuration(case.rng, product, checkpoint=False), "device": "cpu"}
    if product.mirrored or case.rng.random() < 0.5:
        return how
    sides = [case.rng.choice([16, 40, size]) for size in (product.m, product.n)]
    return {**how, "options": tile_of(product, *sides, case.rng.choice([16, 32, 512, product.k // 16 * 16 + 16]))}


def plans(case):
    product, output = product_of(case), case.folder / "out.h5"
    source = product.copy(case.folder)
    seed, verdicts = ["--check-seed", str(case.rng.randrange(10**9))], {}
    for how in [PLAIN, *(configuration(case, product) for _ in range(PLANS - 1))]:
        how = {**how, "options": [*how["options"], *seed]}
        end = case.ended(Run(output, source, product.scalars(), how))
        if end.code == FAILED_CHECK:
            return f"WRONG: a false alarm: {end.reason()} ({product.kind} {product.dtype}, {product.values})"
        if end.kind == "refused":
            case.notes[f"refused: exit {end.code}"] += 1
            continue
        if end.kind != "done":
            return end.kind
        outcome = examine(product, output, end)
        if outcome:
            return outcome
        verdicts[verdict_of(end)] = " ".join(how["options"])
        output.unlink()
    if len(verdicts) > 1:
        said = "; ".join(f"{verdict} with '{options}'" for verdict, options in verdicts.items())
        return f"WRONG: the verdict depends on the plan ({product.kind} {product.dtype}, {product.values}): {said}"
    return f"the same verdict: {next(iter(verdicts), 'none')}"


def examine(product, output, end):
    """What is wrong with C; empty when nothing is."""
    with h5py.File(output, "r") as file:
        c = file["C"][()]
    if not np.array_equal(c, product.bits):
        return f"WRONG: {np.mean(c != product.bits):.2%} of C has other bits ({product.kind})"
    return "WRONG: an error above the printed size" if difference(product, c, end.out)[0] else ""


KINDS = {"plans": plans}
