"""Ranks on several pretended computers that see different files.  None may end in a C that PASSED and is not the
product of what rank 0 sees."""
import os
import shutil
import subprocess

import h5py
import numpy as np

from attempt import NO_ROOM, PLAIN, Run, tile_of
from kills import FIXED, product_of
from problem import BESIDE

ORDER = ["same", "content", "order", "time", "sources", "prefix", "stale part", "own outputs", "options"]
APART = subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode == 0
PREFIXES = {"virtual": "HDF5_VDS_PREFIX", "external": "HDF5_EXTFILE_PREFIX"}


def kind_of(number):
    return ORDER[number % len(ORDER)]


def ranks_apart(case, product):
    """Two to five ranks, each of which sees another folder, with a copy of the operands, at one path; on one to as many
    computers."""
    places, here = [], case.folder / "here"
    here.mkdir()
    for rank in range(case.rng.randint(2, 5)):
        folder = case.folder / f"rank{rank}"
        folder.mkdir()
        product.copy(folder)
        computer = case.rng.randrange(rank + 1) if case.rng.random() < 0.3 else rank
        places.append({"folder": folder, "at": here, "env": {"DGEMM_OOC_TEST_COMPUTER": f"computer{computer}"}})
    return places


def others(case, places):
    """One or more ranks, but not rank 0."""
    return case.rng.sample(places[1:], case.rng.randint(1, len(places) - 1))


def keep_times(path, source):
    times = os.stat(source)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def judge(case, product, places, output, source=None, must=False):
    """The outcome of a run with these names, by default with the operands that each rank has of its own."""
    if not APART:
        return "skipped: no mount namespaces here"
    first = places[0]
    source = source or case.rng.choice([first["at"] / "input.h5"] * 4 + ["input.h5"])
    rows, cols = (max(size // case.rng.choice([2, 4, 8]), 16) for size in (product.m, product.n))  # work for all
    tile = tile_of(product, rows, cols, 64) if case.rng.random() < 0.9 else []
    verify = ["--verify", case.rng.choice(["online", "online", "full"])]
    end = case.ended(Run(output, source, product.scalars(), {
        **PLAIN, "ranks": len(places), "options": [*tile, *verify], "places": places, "folder": case.folder}))
    if end.kind == "refused" and end.code == NO_ROOM:
        return "refused: too little memory for a plan"
    if end.kind == "refused":
        return f"{'WRONG: ' * must}refused: exit {end.code}, {end.reason()}"
    if end.kind != "done":
        return end.kind
    try:
        with h5py.File(first["folder"] / str(output).replace(str(first["at"]), str(first["folder"])), "r") as file:
            right = np.mean(file["C"][()] == product.bits)
    except OSError:
        return "WRONG: C is complete, and rank 0 has no such file"
    return "rank 0's C" if right == 1 else f"WRONG: status {end.code}, and {right:.0%} of C are of what rank 0 sees"


def same(case):
    """Ranks in other folders that name the same files: nothing differs, and this must be complete."""
    product = product_of(case)
    places = ranks_apart(case, product)
    return judge(case, product, places, case.folder / "out.h5", places[0]["folder"] / "input.h5", must=True)


def content(case):
    """Other ranks have other numbers under the same name, as in stale copies."""
    product = product_of(case)
    places, times = ranks_apart(case, product), case.rng.random() < 0.5
    for place in others(case, places):
        product.twin(place["folder"], seed=case.number)
        if times:
            keep_times(place["folder"] / "input.h5", product.source)
    return judge(case, product, places, case.folder / "out.h5")


def order(case):
    """Other ranks have a file of the same matrices, written in another order."""
    while len((product := product_of(case)).names) == 1:
        pass
    places = ranks_apart(case, product)
    for place in others(case, places):
        product.twin(place["folder"], backwards=True)
        keep_times(place["folder"] / "input.h5", product.source)
    return judge(case, product, places, case.folder / "out.h5")


def time(case):
    """Other ranks have copies with other times."""
    product = product_of(case)
    places = ranks_apart(case, product)
    for place in others(case, places):
        os.utime(place["folder"] / "input.h5", (case.rng.randrange(10**9), case.rng.randrange(10**9)))
    return judge(case, product, places, case.folder / "out.h5")


def with_sources(case):
    """A product of virtual datasets, or of external storage."""
    while (product := product_of(case)).layout not in PREFIXES:
        pass
    return product


def sources(case):
    """Other ranks have the same file, but other files, shorter ones or none behind it."""
    product = with_sources(case)
    places, how = ranks_apart(case, product), case.rng.choice(["others", "missing", "short"])
    for place in others(case, places):
        for path in sorted((place["folder"] / BESIDE).iterdir()):
            if how == "missing":
                path.unlink()
            elif how == "short":
                os.truncate(path, path.stat().st_size // 2)
        if how == "others":
            product.twin(place["folder"], seed=case.number)
            product.copy(place["folder"] / BESIDE)  # only to have the container as it was
            shutil.copy2(product.source, place["folder"] / "input.h5")
    case.say(how)
    return judge(case, product, places, case.folder / "out.h5")


def prefix(case):
    """Only rank 0 has the variable that says where the files behind the operands are."""
    product = with_sources(case)
    places, there = ranks_apart(case, product), case.folder / "there"
    shutil.copytree(product.folder / BESIDE, there / BESIDE)
    for place in places:
        shutil.rmtree(place["folder"] / BESIDE)
    if case.rng.random() < 0.5:  # others find what another run has left
        product.twin(case.folder / "stale", seed=case.number)
        for place in others(case, places):
            shutil.copytree(case.folder / "stale" / BESIDE, place["folder"] / BESIDE)
    places[0]["env"][PREFIXES[product.layout]] = str(there)
    return judge(case, product, places, case.folder / "out.h5")


def own_outputs(case, stale=False):
    """Each rank has a folder of its own for the output."""
    product = product_of(case)
    places = ranks_apart(case, product)
    for place in others(case, places) if stale else []:
        shutil.copy2(product.folder / "reference.h5", place["folder"] / "out.h5.part")
    output = case.rng.choice([places[0]["at"] / "out.h5"] * 4 + ["out.h5"])
    return judge(case, product, places, output, places[0]["folder"] / "input.h5")


def stale_part(case):
    """In these folders an earlier run has left an unfinished output of the same size."""
    return own_outputs(case, stale=True)


def options(case):
    """Other ranks have another command line."""
    product = product_of(case, but=FIXED)
    places = ranks_apart(case, product)
    for place in others(case, places):
        place["options"] = case.rng.choice([["--alpha=5"], ["-o", str(case.folder / "other.h5")], ["--verify", "off"],
                                            ["--checkpoint", "1s"], ["--force"]])
    return judge(case, product, places, case.folder / "out.h5", places[0]["folder"] / "input.h5")


KINDS = {"same": same, "content": content, "order": order, "time": time, "sources": sources, "prefix": prefix,
         "stale part": stale_part, "own outputs": own_outputs, "options": options}
