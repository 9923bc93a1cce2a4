"""Experiments that could refute "PASSED means right" and "nothing is lost": many random products whose runs are
killed, have bits that flip, ranks that see different files, calls that fail, full disks, or little memory.

    soak.py CAMPAIGN [--count N] [--seed S] [--json FILE] [--only KIND] [--case I] [--keep DIRECTORY]

The random numbers of a case depend only on the seed and on its own number, so that --case I repeats one.  A
table at the end counts the outcomes.  The exit status is 1 when any case was WRONG, hung or crashed: its outcome, its
command line and how to repeat it come last.
"""
import argparse
import collections
import concurrent.futures
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

import attempt
import calls
import disks
import files
import flips
import kills
import memory
import verdicts
from problem import Products

CAMPAIGNS = {"kills": kills, "flips": flips, "files": files, "calls": calls, "disks": disks, "memory": memory,
             "verdicts": verdicts}


class Case:
    """The inputs of one case, and what it reports."""

    def __init__(self, campaign, number, kind):
        self.number, self.kind, self.campaign = number, kind, campaign
        self.products, self.seed = campaign.products, campaign.seed
        self.folder = campaign.folder / f"case{number}"
        self.rng = attempt.random_of(campaign.name, campaign.seed, number)
        self.runs, self.notes, self.size, self.output = [], collections.Counter(), None, None
        self.text = []

    def say(self, text):
        self.text.append(text)

    def ended(self, run, **how):
        """Wait for a run to end, and record it."""
        end = run.end(**how)
        self.runs.append(end)
        self.say(end.describe())
        return end


class Campaign:
    def __init__(self, name, options):
        self.name, self.options, self.seed = name, options, options.seed
        self.folder = Path(tempfile.mkdtemp(prefix=f"soak-{name}-", dir=options.directory))
        self.products = Products(self.folder, self.seed, self.reference,
                                 values=getattr(CAMPAIGNS[name], "VALUES", ("normal",)))

    def reference(self, product):
        """The bits of C from an undisturbed run on one rank, whose file is kept."""
        import h5py
        run = attempt.Run(product.folder / "reference.h5", product.source, product.scalars(), attempt.PLAIN)
        end = run.end()
        assert end.kind == "done", end.describe()
        with h5py.File(product.folder / "reference.h5", "r") as file:
            return file["C"][()]

    def run_case(self, number):
        module, options = CAMPAIGNS[self.name], self.options
        kind = options.only or module.kind_of(number)
        case = Case(self, number, kind)
        case.folder.mkdir()
        try:
            outcome = module.KINDS[kind](case)
        except Exception:  # an error in the harness must not count as a success
            outcome = "error in the harness"
            case.say(traceback.format_exc())
        if outcome.startswith(attempt.BAD):
            attempt.keep(case.folder, options.keep, f"{self.name}{self.seed}-{number}", "\n".join(case.text))
        shutil.rmtree(case.folder, ignore_errors=True)
        return case, outcome

    def run(self):
        options = self.options
        numbers = [options.case] if options.case is not None else range(options.count)
        cases = []
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            for case, outcome in pool.map(self.run_case, numbers):
                cases.append((case, outcome))
                if outcome.startswith(attempt.BAD) or options.verbose:
                    print(f"{self.name} {case.number} ({case.kind}): {outcome}", flush=True)
                if options.verbose or (options.case is not None):
                    print("\n".join(case.text), flush=True)
        shutil.rmtree(self.folder, ignore_errors=True)
        return cases


def count_outcomes(cases):
    counts = collections.Counter((case.kind, outcome) for case, outcome in cases)
    return {kind: {o: n for (k, o), n in sorted(counts.items()) if k == kind}
            for kind in sorted({case.kind for case, _ in cases})}


def print_table(name, outcomes, summary):
    print(f"\n{name}: seed {summary['seed']}, {summary['count']} cases, {summary['runs']} runs, "
          f"{summary['hits']} disturbed, {summary['seconds']:.0f} s")
    for kind, counts in outcomes.items():
        print(f"  {kind}: {sum(counts.values())}")
        for outcome, number in counts.items():
            print(f"    {number:5d}  {outcome}")
    for note, number in sorted(summary["notes"].items()):
        print(f"  {number:5d}  {note}")
    if summary["undetected"]:
        print("  undetected flips, by the largest error beside a typical element of C:")
        for decade, number in summary["undetected"].items():
            print(f"    {number:5d}  {decade}")


def decades(sizes):
    """The number of sizes in each decade."""
    powers = collections.Counter(math.floor(math.log10(max(size, 1e-17))) + 1 for size in sizes)
    return {f"below 1e{power}": number for power, number in sorted(powers.items())}


def describe_bad(case, outcome):
    """What a reader needs to find the cause."""
    runs = [{"exit": run.code, "command": " ".join(run.words),
             "said": run.out.splitlines()[-1:] + run.err.splitlines()[-3:]} for run in case.runs]
    return {"case": case.number, "kind": case.kind, "outcome": outcome, "runs": runs}


def summarize(campaign, cases, seconds):
    runs = [run for case, _ in cases for run in case.runs]
    notes = sum((case.notes for case, _ in cases), collections.Counter())
    bad = [(case, outcome) for case, outcome in cases if outcome.startswith(attempt.BAD)]
    sizes = [case.size for case, outcome in cases
             if case.size is not None and not outcome.startswith(attempt.BAD)]
    program = subprocess.run([attempt.BUILD / "dgemm_ooc", "--version"], capture_output=True, text=True)
    return {
        "schema": 1, "campaign": campaign.name, "program": program.stdout.splitlines()[0],
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "seed": campaign.seed,
        "count": len(cases), "seconds": round(seconds, 1), "runs": len(runs),
        "hits": sum(run.hit for run in runs), "notes": dict(notes), "outcomes": count_outcomes(cases),
        "undetected": decades(sizes), "bad": [describe_bad(*each) for each in bad],
    }


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("campaign", choices=CAMPAIGNS)
    parser.add_argument("--count", type=int, default=100, help="cases (%(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", help="where the counts go")
    parser.add_argument("--only", help="one kind of case")
    parser.add_argument("--case", type=int, help="the one with this number, and all that it says")
    parser.add_argument("--keep", help="a directory for the files of cases that went wrong")
    parser.add_argument("--directory", help="where to work (the system's for temporary files)")
    parser.add_argument("--jobs", type=int, default=2 * os.cpu_count(), help="cases at once (%(default)s)")
    parser.add_argument("-v", "--verbose", action="store_true", help="all that every case says")
    options = parser.parse_args()
    kinds = CAMPAIGNS[options.campaign].KINDS
    if options.only and options.only not in kinds:
        parser.error(f"--only: one of {', '.join(kinds)}")
    return options


def main():
    options = parse()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))  # so that mounted disks are unmounted
    begin = time.monotonic()
    campaign = Campaign(options.campaign, options)
    cases = campaign.run()
    summary = summarize(campaign, cases, time.monotonic() - begin)
    print_table(options.campaign, summary["outcomes"], summary)
    if options.json:
        Path(options.json).write_text(json.dumps(summary, indent=1) + "\n")
    for bad in summary["bad"]:
        only = f" --only {options.only}" if options.only else ""
        command = bad["runs"][-1]["command"] if bad["runs"] else "no run"
        print(f"{bad['outcome']}: {command}")
        print(f"repeat: soak.py {options.campaign} --seed {options.seed} --case {bad['case']}{only}")
    return 1 if summary["bad"] else 0


if __name__ == "__main__":
    sys.exit(main())
