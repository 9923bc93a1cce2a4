"""Disks that are full or soon will be, and a limit of the size of files.  The run must end with the right bits or say
that there is no room, with status 4; with room the same command must complete."""
import subprocess

from attempt import NO_ROOM, Run, random_configuration
from kills import MORE, finish, judge, mount, product_of

UNFIT = {2, 3}  # of random options that do not go with the product
MOST = 9 << 20  # beyond C: for sums, journal and what the HDF5 library takes


def kind_of(number):
    return ("disk", "disk", "limit", "error")[number % 4]


def configuration(case, product):
    how = random_configuration(case.rng, product)
    verify = ["--verify", case.rng.choice(["online", "full", "off"])]
    return {**how, "device": "cpu", "options": [*how["options"], *verify]}


def run_in(case, product, output, how, **soak):
    """Run once; an outcome where that is all there is to say, and how it ended."""
    end = case.ended(Run(output, case.folder / "input.h5", product.scalars(), how, **soak))
    case.notes[f"status {end.code}"] += 1
    if end.kind == "done":
        return judge(case, product, output, end)
    if end.kind != "refused":
        return end.kind
    if end.code in UNFIT:
        return f"refused: exit {end.code}, {end.reason()}"
    return "" if end.code == NO_ROOM else f"WRONG: status {end.code} of a full disk: {end.reason()}"


def then_with_room(case, product, output, outcome, how):
    if outcome:
        return outcome
    return f"said so; then {finish(case, product, output, how=how)}"


def disk(case):
    """A disk of a size between a little less than C and much more."""
    product = product_of(case)
    product.copy(case.folder)
    folder = case.folder / "disk"
    size = product.bits.nbytes + case.rng.choice([case.rng.randint(-100 << 10, MORE), case.rng.randint(0, MOST)])
    if not mount(folder, max(size, 16 << 10)):
        return "skipped: no disk can be mounted"
    try:
        how = configuration(case, product)
        outcome = run_in(case, product, folder / "out.h5", how)
        subprocess.run(["mount", "-o", "remount,size=512M", folder], check=True)
        return then_with_room(case, product, folder / "out.h5", outcome, how)
    finally:
        subprocess.run(["umount", "-l", folder])


def limit(case):
    """Files may not be larger than a size about that of C."""
    product = product_of(case)
    product.copy(case.folder)
    size = max(product.bits.nbytes + case.rng.randint(-200 << 10, 2 << 20), 64 << 10)
    how, output = configuration(case, product), case.folder / "out.h5"
    outcome = run_in(case, product, output, {**how, "wrapper": ["prlimit", f"--fsize={size}"]})
    return then_with_room(case, product, output, outcome, how)


def error(case):
    """From some call on there is no room, as where a quota is exceeded."""
    product = product_of(case)
    product.copy(case.folder)
    call = case.rng.choice(["pwrite", "fallocate", "write", "ftruncate"])
    fault = case.rng.choice(["enospc", "edquot"])
    faults = {"DGEMM_OOC_TEST_FAULTS": f"{call}:{fault}@{int(2 ** case.rng.uniform(0, 6))}+"}
    output = case.folder / "out.h5"
    how = configuration(case, product)
    return then_with_room(case, product, output, run_in(case, product, output, how, faults=faults), how)


KINDS = {"disk": disk, "limit": limit, "error": error}
