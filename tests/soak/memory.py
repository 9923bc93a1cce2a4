"""The most memory that random runs take beside their limit: the proportional shares (PSS) of all ranks, without
what a product of 1 x 1 takes."""
import re
from pathlib import Path

import h5py
import numpy as np

from attempt import PLAIN, Run
from problem import SHAPES, Product

MIB = 1 << 20


def kind_of(number):
    return ("online", "full", "check only", "online")[number % 4]


def share(pid):
    """The memory in bytes that belongs to the process, and not to files."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    return 1024 * sum(map(int, re.findall(r"^Pss_(?:Anon|Shmem): +(\d+)", text, re.MULTILINE)))


def peak(case, *args):
    """How a run ends, and the most that its ranks took at one moment."""
    run, most = Run(*args), [0]

    def look():
        most[0] = max(most[0], sum(map(share, run.workers())))
    run.wait_for(look, 100)
    return case.ended(run), most[0]


def smallest(case, ranks):
    """What so many ranks take anyway, for a product of 1 x 1."""
    source = case.folder / "one.h5"
    with h5py.File(source, "w") as file:
        file["A"] = file["B"] = np.ones((1, 1))
    return peak(case, case.folder / "one-C.h5", source, [], {**PLAIN, "ranks": ranks})[1]


def run_under(case, limit, verify):
    """Run a product that is larger than the limit, or than a little more than it says it needs: with the least its
    plan may take hours."""
    rng = case.rng
    product = Product(case.folder, rng.randrange(SHAPES), case.seed * 1000 + case.number, shape="large")
    ranks, output = rng.choice([0, 0, 2, 3]), case.folder / "out.h5"
    for attempt in range(3):
        how = {**PLAIN, "ranks": ranks, "options": ["--host-memory", f"{limit}K", "--verify", verify]}
        end, most = peak(case, output, product.source, product.scalars(), how)
        needs = re.search(r"give at least --host-memory (\d+)K", end.err)
        if not needs:
            break
        limit = int(int(needs[1]) * rng.uniform(1.15, 1.5))
    if end.kind == "done" and case.kind == "check only":
        how["options"] = ["--host-memory", f"{limit}K", "--check-only"]
        end, most = peak(case, output, product.source, product.scalars(), how)
    if end.kind not in ("done", "checked"):
        return f"refused: exit {end.code}, {end.reason()}" if end.kind == "refused" else end.kind
    took, allowed = most - smallest(case, ranks), limit * 1024 * max(ranks, 1)
    case.notes[f"up to {int(10 * took / allowed) / 10 + 0.1:.1f} of the limit"] += 1
    case.say(f"{took / MIB:.1f} MiB of {allowed / MIB:.1f} MiB")
    if took > allowed:
        return f"WRONG: {took / MIB:.1f} MiB, the limit is {allowed / MIB:.1f} MiB ({product.kind}, {product.layout})"
    return "within the limit"


def random_limit(case):
    return case.rng.randint(12 << 10, 48 << 10)


def online(case):
    return run_under(case, random_limit(case), case.rng.choice(["online", "off"]))


def full(case):
    return run_under(case, random_limit(case), "full")


def check_only(case):
    return run_under(case, random_limit(case), "online")


KINDS = {"online": online, "full": full, "check only": check_only}
