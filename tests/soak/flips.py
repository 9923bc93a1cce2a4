"""Bit flips in the sums in memory, in the checkpoint between two runs, in a complete C and in the operands.
None may end in a C that PASSED and is wrong."""
import os
import re
import signal
import subprocess
import sys
import time

import h5py
import numpy as np

from attempt import (BAD, FAILED_CHECK, PLAIN, Run, journal_of, part_of, random_configuration, saved, share_done,
                     tile_of)
from kills import KILL, UNTILED, product_of
from problem import difference

TEN = ["sums in memory"] * 3 + ["part"] * 2 + ["saved sums", "journal or read", "C"]
WITHOUT_SLABS = UNTILED | {"residues"}  # these are not saved within k at slabs of 16
LATE = {"DGEMM_OOC_TEST_FAULTS": "gemm:delay%100,copy:delay%100"}  # leaves time for a checkpoint
READ_ALL = """
import h5py, sys
with h5py.File(sys.argv[1], "r") as file:
    c = file["C"]
    print(c.shape, c.dtype, [(name, str(c.attrs[name])) for name in sorted(c.attrs) if not name.endswith("_file")])
"""


def kind_of(number):
    kinds = [*TEN, "operand", "operand"] if number % 40 < 38 else [*TEN, *["silent operand"] * 2]
    return kinds[number % 10]


def flip(path, byte, bit, keep_times=False):
    before = os.stat(path)
    with open(path, "r+b") as file:
        file.seek(byte)
        value = file.read(1)[0]
        file.seek(byte)
        file.write(bytes([value ^ 1 << bit]))
    if keep_times:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def rewrite(path, product, seed):
    """Overwrite all of A with other numbers."""
    with h5py.File(path, "r") as file:
        begin, shape = file["A"].id.get_offset(), file["A"].shape
    numbers = np.random.default_rng(seed).standard_normal(shape).astype(product.dtype)
    with open(path, "r+b") as file:
        file.seek(begin)
        file.write(numbers.tobytes())


def verdict(case, product, output, end, source=None):
    """The outcome of a run that completed: whether it detected the flip, and whether C is wrong."""
    with h5py.File(output, "r") as file:
        c = file["C"][()]
    source = source or case.folder / "input.h5"
    if np.array_equal(c, product.bits):
        if "failed its check" in end.err:
            return "same bits: found by the check, multiplied again"
        return "same bits: found by the restart comparison" if "damaged" in end.err else "same bits"
    wrong, case.size = difference(product, c, end.out, source)
    checked = case.ended(Run(output, source, [*product.scalars(), "--check-only"], PLAIN))
    refused = ", and --check-only refuses it" if checked.code == FAILED_CHECK else ""
    if "PASSED" not in end.out:
        return f"not checked, and said so{refused}"
    return f"WRONG: PASSED{refused}" if wrong else f"undetected below the threshold{refused}"


def outcome_of(case, product, output, end):
    if end.kind in ("hang", "orphan", "crash"):
        return end.kind
    if end.kind == "done":
        return verdict(case, product, output, end)
    where = "found by the check" if end.code == FAILED_CHECK else "refused cleanly"
    return f"{where}: exit {end.code}, {end.reason()}"


def memory(case):
    """Flip one bit of one sum on the device after a random product, in some cases in a run with checkpoints."""
    product, output, log = product_of(case), case.folder / "out.h5", case.folder / "log"
    source, rng = product.copy(case.folder), case.rng
    how = random_configuration(rng, product, checkpoint=rng.random() < 0.4)
    how = {**how, "device": "cpu", "ranks": rng.choice([0, 0, 0, 2])}
    if "--grid" in how["options"] or "--host-memory" in how["options"]:
        how["options"] = how["options"][:2]
    steps = 8  # at least, where the plan is not given
    if not product.mirrored:
        rows, cols, slab = (int(x) for x in how["options"][1].split("x"))
        steps = -(-product.m // rows) * -(-product.n // cols) * -(-product.k // slab)
    for number in (rng.randint(2, steps + 1), rng.randint(2, 2 + steps // 4), 2):
        end = case.ended(Run(output, source, product.scalars(), how, faults={
            "DGEMM_OOC_TEST_FAULTS": f"gemm:bit@{number}", "DGEMM_OOC_TEST_FAULT_RANK": "0",
            "DGEMM_OOC_TEST_SEED": str(rng.randrange(10**9)), "DGEMM_OOC_TEST_FAULT_LOG": str(log)}))
        if end.kind != "done" or "bit" in (log.read_text() if log.exists() else ""):
            break
        output.unlink()
    else:
        return "no flip: fewer products than expected"
    case.say(re.sub(r"(?m)^\w+ \d+\n", "", log.read_text()) if log.exists() else "no log")
    if end.kind == "refused" and end.code in (2, 3, 4):
        return "no flip: options refused"
    return outcome_of(case, product, output, end)


def save_something(case, product, output, within_k=False):
    """Stop or kill a run after a checkpoint.  Return the remaining work, or None when no checkpoint was left."""
    rng, source = case.rng, case.folder / "input.h5"
    for target in rng.uniform(0, 0.8), rng.uniform(0, 0.3), 0:
        tile = tile_of(product, product.m, product.n, 16) if within_k else \
            tile_of(product, rng.choice([24, 40]), rng.choice([40, product.n]), 64)
        how = {**PLAIN, "ranks": rng.choice([0, 0, 0, 2]), "options": [*tile, "--checkpoint", "0.02s"]}
        run = Run(output, source, product.scalars(), how, faults=LATE)

        def is_there():
            left = saved(output)
            return left and share_done(left, product) > target and (left[0]["k"] or not within_k)
        if run.wait_for(is_there):
            run.send(run.workers() or [run.process.pid], rng.choice([KILL, KILL, signal.SIGUSR2]))
        case.ended(run)
        left = None if output.exists() else saved(output)
        if left and (left[0]["k"] or not within_k):
            return left
        for path in output.parent.glob(f"{output.name}*"):
            path.unlink()
    return None


def go_on(case, product, output, **soak):
    """Resume without disturbance, on other ranks and with other tiles."""
    rng, source = case.rng, case.folder / "input.h5"
    how = rng.choice([PLAIN, {**PLAIN, "ranks": 2}, {**PLAIN, "options": tile_of(product, 64, 48, 32)}])
    end = case.ended(Run(output, source, product.scalars(), how, **soak))
    return outcome_of(case, product, output, end), end


def data_offset(path):
    """The offset of C in a file that may not have been closed properly."""
    with h5py.File(path, "r") as file:
        return file["C"].id.get_offset()


def attributes(path):
    """The shape, type and attributes of C, read in a separate process, since damage may crash the library."""
    done = subprocess.run([sys.executable, "-c", READ_ALL, str(path)], capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else "unreadable"


def is_left(left, row, col):
    return any(b[0] <= row < b[0] + b[2] and b[1] <= col < b[1] + b[3] for b in (p["block"] for p in left))


def part(case):
    """Flip a bit of C's part file between two attempts, mostly in complete elements or in HDF5's metadata."""
    product, output, rng = product_of(case, "small", "tall"), case.folder / "out.h5", case.rng
    product.copy(case.folder)
    left = save_something(case, product, output)
    if not left:
        return "no flip: nothing was saved"
    path, element = part_of(output), product.element()
    begin = data_offset(path)
    where = rng.choice(["complete"] * 6 + ["anywhere", "header", "header", "header"])
    if where == "header":
        head = path.read_bytes()[:begin]
        byte = rng.choice([i for i, value in enumerate(head) if value] or [0])
    else:
        for _ in range(1000):
            row, col = rng.randrange(product.m), rng.randrange(product.n)
            if where == "anywhere" or not is_left(left, row, col):
                break
        else:
            where = "what is not complete"
        byte = begin + (row * product.n + col) * element + rng.randrange(element)
    flip(path, byte, rng.randrange(8))
    case.say(f"a bit of byte {byte} of {path.name} ({where})")
    outcome, end = go_on(case, product, output)
    if where == "header" and end.kind == "done" and outcome.startswith("same bits"):
        same = attributes(output) == attributes(product.folder / "reference.h5")
        outcome = outcome if same else f"{outcome}, but its attributes are damaged"
    return f"{outcome} ({where})" if outcome.startswith(BAD) else f"{where}: {outcome}"


def saved_sums(case):
    """Flip a bit of a file of saved sums between two attempts, mostly the one that the journal refers to."""
    product, output, rng = product_of(case, "deep", but=WITHOUT_SLABS), case.folder / "out.h5", case.rng
    product.copy(case.folder)
    left = save_something(case, product, output, within_k=True)
    if not left:
        return "no flip: nothing was saved"
    place = left[0]["place"] if rng.random() < 0.8 else 1 - left[0]["place"]
    path = output.with_name(f"{output.name}.part.sums{place}")
    if not path.exists() or not path.stat().st_size:
        return "no flip: no such file"
    flip(path, rng.randrange(path.stat().st_size), rng.randrange(8))
    return go_on(case, product, output)[0]


def journal_or_read(case):
    """Flip a bit of the journal between two attempts, or of saved sums while they are read."""
    product, output, rng = product_of(case, "deep", "small", but=WITHOUT_SLABS), case.folder / "out.h5", case.rng
    product.copy(case.folder)
    left = save_something(case, product, output, within_k=True)
    if not left:
        return "no flip: nothing was saved"
    if rng.random() < 0.5:
        path = journal_of(output)
        flip(path, rng.randrange(path.stat().st_size), rng.randrange(8))
        return f"journal: {go_on(case, product, output)[0]}".replace("journal: WRONG", "WRONG: journal")
    log = case.folder / "log"
    soak = {"DGEMM_OOC_TEST_FLIP": f".sums{left[0]['place']}:{rng.randint(1, 4)}:{rng.randrange(2**31)}",
            "DGEMM_OOC_TEST_DISTURBED": "", "DGEMM_OOC_TEST_DONE": str(log)}
    source = case.folder / "input.h5"
    end = case.ended(Run(output, source, product.scalars(), PLAIN, **soak))
    if not log.exists():
        return "no flip: fewer reads than expected"
    outcome = outcome_of(case, product, output, end)
    return f"{outcome} (read)" if outcome.startswith(BAD) else f"read: {outcome}"


def finished(case):
    """Flip a bit of a complete C, which --check-only must detect."""
    product, output, rng = product_of(case), case.folder / "out.h5", case.rng
    source = product.copy(case.folder)
    output.write_bytes((product.folder / "reference.h5").read_bytes())
    byte = data_offset(output) + rng.randrange(product.bits.nbytes)
    flip(output, byte, rng.randrange(8))
    how = {**PLAIN, "ranks": rng.choice([0, 0, 2])}
    end = case.ended(Run(output, source, [*product.scalars(), "--check-only"], how))
    if end.kind in ("hang", "orphan", "crash"):
        return end.kind
    return "found by the check" if end.code == FAILED_CHECK else f"WRONG: --check-only ends with {end.code}"


def own_file(case):
    """A product whose operands are in the file itself."""
    while (product := product_of(case, "small", "tall")).layout in ("virtual", "external"):
        pass
    return product


def place_of_operand(case, product, source):
    """Choose a byte and a bit of an operand that the product reads."""
    name = case.rng.choice(product.names)
    with h5py.File(source, "r") as file:
        begin, size = file[name].id.get_offset() or 2048, file[name].nbytes  # chunked: after the header
    return begin + case.rng.randrange(min(size, source.stat().st_size - begin)), case.rng.randrange(8)


def operand(case, silent=False):
    """Flip a bit of an operand between two attempts or during a run, or overwrite all of A during a run.
    C must be the product of one version of the file, or the run must refuse."""
    product, output, rng = own_file(case), case.folder / "out.h5", case.rng
    source, old = product.copy(case.folder), case.folder / "old.h5"
    old.write_bytes(source.read_bytes())
    place, at_work = place_of_operand(case, product, source), rng.random() < 0.5
    plain = product.layout == "contiguous" and product.dtype[0] == "f"
    whole = at_work and not silent and plain and rng.random() < 0.5
    if at_work:
        how = {**PLAIN, "options": tile_of(product, 40, 40, 64), "ranks": rng.choice([0, 0, 2])}
        run = Run(output, source, product.scalars(), how, faults=LATE)
        if run.wait_for(part_of(output).exists):
            time.sleep(rng.uniform(0, 0.4))
        changed = run.alive()
        if changed and whole:
            rewrite(source, product, case.number)
        elif changed:
            flip(source, *place, silent)
        end = case.ended(run)
        if not changed:
            return "no flip: it had ended"
    else:
        if not save_something(case, product, output):
            return "no flip: nothing was saved"
        flip(source, *place, silent)
        end = case.ended(Run(output, source, product.scalars(), PLAIN))
    when = f"{'all of A ' * whole}while it runs" if at_work else "between attempts"
    outcome = version_of(case, product, output, end, old)
    return f"{outcome} ({when})" if outcome.startswith(BAD) else f"{when}: {outcome}"


def silent_operand(case):
    """The same with unchanged file times, like silent corruption on a disk."""
    return operand(case, silent=True)


def version_of(case, product, output, end, old):
    if end.kind != "done":
        return outcome_of(case, product, output, end)
    with h5py.File(output, "r") as file:
        c = file["C"][()]
    if np.array_equal(c, product.bits):
        return "same bits: of the old version"
    new, source = case.folder / "new.h5", case.folder / "input.h5"
    case.ended(Run(new, source, product.scalars(), PLAIN))
    with h5py.File(new, "r") as file:
        if np.array_equal(c, file["C"][()], equal_nan=True):
            return "of the new version"
    (wrong_old, size_old), (wrong_new, size_new) = (difference(product, c, end.out, x) for x in (old, source))
    case.size = min(size_old, size_new)
    if wrong_old and wrong_new and "PASSED" in end.out:
        return "WRONG: PASSED, of both versions"
    return "of both versions, undetected below the threshold"


KINDS = {"sums in memory": memory, "part": part, "saved sums": saved_sums,
         "journal or read": journal_or_read, "C": finished, "operand": operand,
         "silent operand": silent_operand}
