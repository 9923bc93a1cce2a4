"""Runs that are killed, stopped, deprived of disk space or file locks, or that race for one output.  The same
command is repeated until C is complete.  C must have the bits of an undisturbed run on one rank, and no other
files may remain."""
import errno
import re
import signal
import subprocess
import time

import h5py
import numpy as np

from attempt import (COMPLETE, NOT_CHECKED, PLAIN, Run, clean, part_of, random_configuration, saved, share_done,
                     tile_of)
from problem import MIRRORED, SHAPES, kind_of as product_kind, shape_of

KILL, TERM, INT, HUP, STOP = signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGSTOP
SEQUENCES = [[KILL], [KILL], [KILL], [TERM], [INT], [HUP], [signal.SIGUSR2], [signal.SIGUSR2],
             [STOP, 0.3, KILL], [TERM, 0.01, TERM], [INT, 0.05, KILL], [signal.SIGUSR2, 0.02, TERM],
             [signal.SIGUSR1, 0.1, KILL], [signal.SIGUSR2, 0.05, KILL]]
SLOW = ["500:1000000", "2000:2000000", "5000:3000000"]
MORE = 256 << 10  # for a journal and a directory
METADATA = 1 << 20  # free space that the HDF5 library needs
FIXED = {"cov", "cor"}  # these refuse another alpha
UNTILED = MIRRORED  # --tile and --grid make another product of these


def kind_of(number):
    kinds = ["plain", "calls", "plain", "disk", "plain", "race", "calls", "plain", "locks", "race"]
    return kinds[number % len(kinds)]


def product_of(case, *shapes, but=()):
    """A random product of these shapes, or of any, but of no kind in `but`."""
    numbers = [i for i in range(SHAPES) if (not shapes or shape_of(i) in shapes) and product_kind(i) not in but]
    return case.products[case.rng.choice(numbers)]


def slow(rng):
    return {"DGEMM_OOC_TEST_SLOW": rng.choice(SLOW)}


def no_locks(rng):
    return {"DGEMM_OOC_TEST_NO_LOCKS": str(rng.choice([errno.ENOSYS] * 3 + [errno.ENOLCK]))}


def disturb(case, run, output):
    """Send signals at a random moment to one rank, all ranks or the launcher."""
    rng = case.rng
    moment = rng.choice(["time", "part", "saved", "saved", "end"])
    if moment == "part":
        run.wait_for(part_of(output).exists)
    elif moment == "saved":
        run.wait_for(lambda: saved(output), 5)
    elif moment == "end":
        run.wait_for(output.exists, 6)
    time.sleep(rng.uniform(0, {"time": 1.5, "end": 0.01}.get(moment, 0.6)))
    workers, target = run.workers(), rng.choice(["one", "all", "launcher"])
    sequence = rng.choice(SEQUENCES)
    pids = [run.process.pid] if target == "launcher" or not workers else workers
    if target == "one":
        pids = [rng.choice(workers)] if workers else pids
    case.say(f"at {moment}: {sequence} to {target}")
    for step in sequence:
        if isinstance(step, float):
            time.sleep(step)
        elif run.alive():
            run.send(pids, step)


def goes_on(end, before, product):
    """The error in how a complete run resumed from the checkpoint; empty when there is none."""
    if end.kind != "done" or before is None or "was made from these operands already" in end.out:
        return ""
    found = re.search(r"^Restart +([\d.]+) % is done", end.out, re.MULTILINE)
    if not found:
        return "WRONG: what was saved was not gone on with"
    if product.mirrored:  # half of it is multiplied
        return ""
    expected = 100 * share_done(before, product)
    return "" if abs(float(found[1]) - expected) < 0.06 else "WRONG: it went on from another place"


def attempt(case, product, output, how, disturbance=None, **soak):
    """Run the product once.  Return how it ended, and what is wrong with how it resumed."""
    before = None if output.exists() else saved(output)
    source = case.folder / "input.h5"
    run = Run(output, source, product.scalars(), how, **soak)
    if disturbance:
        disturbance(run)
    end = case.ended(run)
    case.notes["runs that went on"] += bool(before) and end.kind in ("done", "stopped")
    return end, goes_on(end, before, product)


def judge(case, product, output, end, **soak):
    """The outcome after a run has reported that C is complete."""
    with h5py.File(output, "r") as file:
        c = file["C"][()]
    if not np.array_equal(c, product.bits):
        return f"WRONG: {np.mean(c != product.bits):.2%} of C has other bits"
    checked = case.ended(Run(output, case.folder / "input.h5", [*product.scalars(), "--check-only"], PLAIN, **soak))
    if checked.code not in (COMPLETE, NOT_CHECKED):
        return "WRONG: the bits are right, and --check-only refuses them"
    beside = {path.name for path in output.parent.glob(f"{output.name}*")} - {output.name}
    return f"WRONG: {', '.join(sorted(beside))} stayed" if beside else "same bits"


def finish(case, product, output, tries=2, how=PLAIN, **soak):
    """Run without disturbance until C is complete."""
    for _ in range(tries):
        end, wrong = attempt(case, product, output, how, **soak)
        if wrong or end.kind in ("hang", "orphan", "crash"):
            return wrong or end.kind
        if end.kind == "done":
            return judge(case, product, output, end, **soak)
    return f"refused: exit {end.code}, {end.reason()}"


def refused_anyway(case, product, output, outcome, **soak):
    """A refusal after a loss is acceptable only if an undisturbed run from scratch is refused, too."""
    if not outcome.startswith("refused"):
        return outcome
    clean(case.folder)
    again = finish(case, product, output, tries=1, **soak)
    return outcome if again.startswith("refused") else f"WRONG: after a loss, {outcome}"


def lose_and_finish(case, disturbance, always=None):
    product, always = product_of(case), always or {}
    product.copy(case.folder)
    output = case.folder / "out.h5"
    for _ in range(case.rng.choice([1, 1, 2, 3, 4])):
        how = random_configuration(case.rng, product)
        verify = case.rng.choice(["online"] * 4 + ["full"])
        how["options"] += ["--verify", verify]
        end, wrong = attempt(case, product, output, how, **disturbance(case, how), **always)
        if wrong or end.kind in ("hang", "orphan", "crash"):
            return wrong or end.kind
        case.notes[f"disturbed runs: {end.kind}" if end.hit else f"undisturbed runs: {end.kind}"] += 1
        if end.kind == "done":
            break
    return refused_anyway(case, product, output, finish(case, product, output, **always), **always)


def plain(case):
    """Kill or stop runs at random moments."""
    output = case.folder / "out.h5"
    return lose_and_finish(case, lambda case, how: {
        "disturbance": lambda run: disturb(case, run, output), **slow(case.rng)})


def locks(case):
    """The same on a file system without locks."""
    output = case.folder / "out.h5"
    return lose_and_finish(case, lambda case, how: {
        "disturbance": lambda run: disturb(case, run, output), **slow(case.rng)}, no_locks(case.rng))


def calls(case):
    """Kill a rank before, during or after its N-th call on the output files."""
    log = case.folder / "log"

    def at_call(case, how):
        rank = str(case.rng.randrange(how["ranks"])) if how["ranks"] else ""
        number = int(2 ** case.rng.uniform(0, 9))

        def said():
            return log.read_text() if log.exists() else ""

        def watch(run):
            while run.alive() and not said():
                time.sleep(0.01)
            line = said()
            run.hit |= line != ""
            if line:
                case.say(f"{how} {number}: {line}")
                case.notes[f"killed at {line.split()[0]}"] += 1
                log.unlink()
        return {"disturbance": watch, "DGEMM_OOC_TEST_DISTURBED": rank, "DGEMM_OOC_TEST_DONE": str(log),
                "DGEMM_OOC_TEST_KILL": f"{number}:{case.rng.choice(['before', 'half', 'after'])}"}
    return lose_and_finish(case, at_call)


def mount(folder, size):
    folder.mkdir()
    return subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={-(-size // 4096) * 4096}", "soak", folder],
                          capture_output=True).returncode == 0


def disk(case):
    """Run on a disk where C and its checkpoints just fit, or do not."""
    product = product_of(case, "tall", but=UNTILED)
    product.copy(case.folder)
    rows, ranks = case.rng.choice([40, 64]), case.rng.choice([0, 0, 2])
    needs = (product.folder / "reference.h5").stat().st_blocks * 512 + METADATA
    sums = 2 * (max(ranks, 1) * rows * product.n * product.element() + 8192)
    kind = case.rng.choice(["enough", "enough", "tight", "short"])
    size = {"enough": needs + sums + MORE, "tight": needs + MORE // 4,
            "short": product.bits.nbytes * 3 // 4}[kind]
    folder = case.folder / "disk"
    if not mount(folder, size):
        return "skipped: no disk can be mounted"
    try:
        outcome = fill_disk(case, product, folder / "out.h5", kind, {
            "ranks": ranks, "device": "cpu", "options": [
                *tile_of(product, rows, product.n, 16), "--checkpoint", "0.01s",
                *["--grid", "2x1"] * (ranks > 1)]})
    finally:
        subprocess.run(["umount", "-l", folder])
    return f"{outcome} (disk: {kind})"


def fill_disk(case, product, output, kind, how):
    soak = {"faults": {"DGEMM_OOC_TEST_FAULTS": "gemm:delay%60"}}
    for _ in range(case.rng.choice([0, 1, 2])):
        end, wrong = attempt(case, product, output, how, lambda run: disturb(case, run, output), **soak)
        if wrong or end.kind in ("hang", "orphan", "crash"):
            return wrong or end.kind
    outcome = finish(case, product, output, 3, how, **soak)
    if not outcome.startswith("refused") or kind == "short":
        return outcome
    lasting = {**how, "options": [*how["options"], "--checkpoint", "1h", "--restart", "never"]}
    clean(output.parent)
    if attempt(case, product, output, lasting)[0].kind != "done":
        return outcome
    stuck = f"stuck, where a run that saves nothing has room: {outcome}"
    return f"WRONG: {stuck}" if kind == "enough" else stuck


def race(case):
    """Start three runs with one output, one of them perhaps with another alpha, and kill some of them."""
    product, rng, output = product_of(case, "small", "tall", but=FIXED), case.rng, case.folder / "out.h5"
    product.copy(case.folder)
    always = no_locks(rng) if rng.random() < 0.5 else {}
    verify = rng.choice(["off", "off", "online"])
    other = rng.random() < 0.3
    runs = []
    for i in range(3):
        how = random_configuration(rng, product)
        how["options"] += ["--verify", verify] + ["--alpha=7"] * (other and i == 1)
        runs.append(Run(output, case.folder / "input.h5", product.scalars(), how,
                        **slow(rng), **always))
        runs[-1].other = other and i == 1
        time.sleep(rng.uniform(0, 1))
    for run in rng.sample(runs, rng.choice([0, 1, 1, 2])):
        time.sleep(rng.uniform(0, 0.7))
        if run.alive():
            run.send(run.workers() or [run.process.pid], rng.choice([KILL, KILL, TERM, signal.SIGUSR2]))
    early = watch_race(product, output, runs)
    ends = [(run, case.ended(run)) for run in runs]
    bad = [end.kind for _, end in ends if end.kind in ("hang", "orphan", "crash")]
    outcome = bad[0] if bad else early or judge_race(case, product, output, ends, verify, always)
    locks = "without locks" if always else "with locks"
    return f"{outcome} ({locks}, --verify {verify})" if outcome.startswith("WRONG") else outcome


def watch_race(product, output, runs):
    """The error in C when a run reports it complete, while others may still write to it; empty when none."""
    racing, deadline = list(runs), time.monotonic() + 120
    while racing and time.monotonic() < deadline:
        for run in [run for run in racing if not run.alive()]:
            racing.remove(run)
            if run.process.returncode or run.other:
                continue
            if not output.exists():
                return "WRONG: a run said that C is complete, and there is none"
            with h5py.File(output, "r") as file:
                if not np.array_equal(file["C"][()], product.bits):
                    return "WRONG: a run said that C is complete, and it is not"
        time.sleep(0.005)
    return ""


def judge_race(case, product, output, ends, verify, always):
    for run, end in ends:
        case.notes[f"racing runs: {end.kind}"] += 1
    complete = {run.other for run, end in ends if end.kind == "done"}
    if complete and not output.exists():
        return "WRONG: a run said that C is complete, and there is none"
    made = is_of(case, product, output, complete, ends) if output.exists() else set()
    if output.exists() and not made:
        return "WRONG: what has the final name is no run's C"
    if complete - made:
        return "WRONG: a run said complete, and C is another's"
    options = [*product.scalars(), "--verify", verify]
    if output.exists():
        return "same bits"
    for extra in [], ["--restart", "never"]:
        end = case.ended(Run(output, case.folder / "input.h5", options, {**PLAIN, "options": extra}, **always))
        if end.kind in ("hang", "orphan", "crash"):
            return end.kind
        if end.kind == "done":
            with h5py.File(output, "r") as file:
                right = np.array_equal(file["C"][()], product.bits)
            later = " after --restart never" if extra else ""
            return f"same bits{later}" if right else "WRONG: what was left by the race was gone on with"
    return f"refused: exit {end.code}, {end.reason()}"


def is_of(case, product, output, complete, ends):
    """Which products C equals, as a set: False is that of the first alpha, True that of the other."""
    try:
        with h5py.File(output, "r") as file:
            c = file["C"][()]
    except OSError:
        return set()
    made = {False} if np.array_equal(c, product.bits) else set()
    if any(run.other for run, _ in ends):
        path = case.folder / "other.h5"
        end = case.ended(Run(path, case.folder / "input.h5", [*product.scalars(), "--alpha=7"], PLAIN))
        with h5py.File(path, "r") as file:
            made |= {True} if end.kind == "done" and np.array_equal(c, file["C"][()]) else set()
        path.unlink()
    return made


KINDS = {"plain": plain, "calls": calls, "disk": disk, "locks": locks, "race": race}
