#!/usr/bin/env python3
"""Makes faults in the sources on purpose, and counts those that the tests find.

    mutants.py map [--jobs 16]      draws the mutants, and notes which tests run each line (as long as `make test`)
    mutants.py run [--jobs 16]      judges them
    both: [--count 60] [--seed 1] [--folder FOLDER]

A mutant is HEAD with one line of src, io or kernels/*.c changed: a comparison is turned round, a call is left out, or
something is off by one, as often each.  It is judged by the tests of `make test` that run the line: those of
tests/unit, then the others, of each file the quickest first, up to the first failure.  A test that takes longer than
a minute, though it took less, fails.  A failure counts if the test fails once more.  What would take longer than --limit
seconds on HEAD is not tried.  A line that runs only where a process ends without exit() has no test.

Both commands work in copies of HEAD, or of this folder without git, with builds of their own in --folder.  They append
to map.jsonl and mutants.jsonl there, and `run` goes on where it was stopped; for another HEAD remove the folder."""
import argparse
import hashlib
import json
import multiprocessing
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import zip_longest
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LEFT_OUT = {"test_build.py", "test_bench.py", "test_style.py", "test_documents.py"}  # they build, measure, or read
FLIPS = {" == ": " != ", " != ": " == ", " < ": " > ", " > ": " < ", " <= ": " > ", " >= ": " < "}
OFF_BY_ONE = {" < ": " <= ", " <= ": " < ", " > ": " >= ", " >= ": " > ", " + 1": " + 0", " - 1": " - 0"}
HARMLESS = r"free|va_end|\w+_destroy"  # calls whose absence is a leak at most
HANGS = "hangs"
LONGEST = 60  # seconds of a test
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S.*?)(?: - .*)?$", re.M)


def ended(words, limit, cwd=None, **variables):
    """The exit status and what was said; after the limit all that was started is killed."""
    with subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", start_new_session=True, cwd=cwd, env=os.environ | variables) as process:
        try:
            said, _ = process.communicate(timeout=max(1, limit))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return HANGS, HANGS
    return process.returncode, said


def rows_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def add(path, row):
    with open(path, "a") as file:
        file.write(json.dumps(row) + "\n")


# As a plugin of pytest in what follows (-p mutants): each test has counters of its own, those that are asked for run in
# the order in which they are listed, and none runs longer than a minute.

def pytest_configure(config):
    for plugin in config.pluginmanager.get_plugins():
        if hasattr(plugin, "LONGEST") and plugin is not sys.modules[__name__]:
            plugin.LONGEST = int(os.environ.get("MUTANTS_LONGEST", plugin.LONGEST))


@pytest.hookimpl(hookwrapper=True)
def pytest_collection_modifyitems(items):
    yield
    if "MUTANTS_TESTS" in os.environ:
        order = {test: place for place, test in enumerate(Path(os.environ["MUTANTS_TESTS"]).read_text().splitlines())}
        items[:] = sorted((item for item in items if item.nodeid in order), key=lambda item: order[item.nodeid])


def pytest_runtest_logstart(nodeid):
    if "MUTANTS_COUNTERS" in os.environ:
        os.environ["GCOV_PREFIX"] = f"{os.environ['MUTANTS_COUNTERS']}/{hashlib.md5(nodeid.encode()).hexdigest()}"


class Copy:
    """HEAD in a folder, and a build of it."""

    def __init__(self, folder, **flags):
        self.tree = folder / "tree"
        self.build = self.tree / "build"  # where the program finds what comes with it
        self.flags = ["CUDA=0", "BUILD=build", *(f"{name}={value}" for name, value in flags.items())]
        if not self.tree.exists():
            self.tree.mkdir(parents=True)
            if (ROOT / ".git").exists():
                head = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
                subprocess.run(["tar", "-xm"], cwd=self.tree, input=head, check=True)
            else:
                shutil.copytree(ROOT, self.tree, dirs_exist_ok=True, ignore=lambda *_: ["build"])

    def built(self, jobs=1, limit=3600):
        programs = ("tests/faults/dgemm_ooc", "emulated/dgemm_ooc", "tests/system/caller", "tests/system/communicators",
                    "tests/bench/gemm_bench", *(f"emulated/tests/kernels/{path.stem}"
                                                for path in (self.tree / "tests/kernels").glob("test_*.c*")))
        return ended(["make", "-C", self.tree, f"-j{jobs}", *self.flags, "all", "check-programs",
                      *(f"build/{name}" for name in programs)], limit)

    def tested(self, limit, *options, scratch="tmp", **variables):
        return ended([sys.executable, *"-m pytest -q -p no:cacheprovider -p mutants -m".split(), "not cluster and not fresh",
                      f"--basetemp={self.tree.parent / scratch}", f"--rootdir={self.tree}", *options], limit, cwd=self.tree,
                     DGEMM_OOC_BUILD=str(self.build), DGEMM_OOC_TEST_TRIALS="5%", PYTHONPATH=str(self.tree / "tests"),
                     **variables)


def lines_that_ran(counters, build, wanted):
    """Of the wanted (file, line) those that these counters say ran."""
    files = {}
    for path in counters.rglob("*.gcda"):
        name = re.sub(r"^.*?/build/(emulated/)?|\.gcda$", "", str(path)[len(str(counters)):])
        if name in wanted:
            notes = build / Path(str(path)[len(str(counters)):]).relative_to(build).with_suffix(".gcno")
            path.with_suffix(".gcno").symlink_to(notes)
            files.setdefault(name, []).append(path)
    found = set()
    for name, paths in files.items():
        said = subprocess.run(["gcov", "--json-format", "--stdout", *paths], capture_output=True, text=True).stdout
        for text in said.splitlines():
            for file in json.loads(text)["files"]:
                if file["file"].endswith(name):
                    found |= {(name, line["line_number"]) for line in file["lines"] if line["count"]}
    return sorted([name, number] for name, number in found if number in wanted[name])


def ran(job):
    counters, build, wanted = job
    try:
        return lines_that_ran(counters, build, wanted)
    finally:
        shutil.rmtree(counters, ignore_errors=True)


def make_map(args):
    """Rows of a test, its seconds and the mutants' lines that it runs."""
    plain = Copy(args.folder / "0")
    mutants = drawn(plain.tree, args)
    wanted = {}
    for path, number, *_ in mutants:
        wanted.setdefault(path, set()).add(number)
    counted = args.folder / "coverage"
    counted.write_text(f"--coverage -fprofile-filter-files={';'.join(wanted)}\n")
    copy = Copy(args.folder / "counted", CFLAGS=f"-O2 -g @{counted}")
    status, said = copy.built(args.jobs)
    if status:
        sys.exit(f"HEAD is not built:\n{said[-2000:]}")
    print("built", time.strftime("%T"), flush=True)
    counters = args.folder / "counters"

    def tested(part):
        """The programs of C run once each, so their tests stay together; the others spread as they come."""
        options = ["-n", args.jobs, "--dist", "load" if part == "system" else "loadfile", "--durations=0"]
        options += [f"--ignore={path}" for name in LEFT_OUT for path in copy.tree.rglob(name)]
        tests = [copy.tree / "tests" / part / name for name in args.tests] if args.tests else [copy.tree / "tests" / part]
        said = copy.tested(args.longest, *options, *filter(Path.exists, tests), scratch=part,
                           MUTANTS_COUNTERS=str(counters))[1] if any(map(Path.exists, tests)) else ""
        (args.folder / f"map-{part}.log").write_text(said)
        return said
    with ThreadPoolExecutor() as threads:
        said = "\n".join(threads.map(tested, ("unit", "kernels", "system")))
    print(*re.findall(r"^.*\d (?:passed|failed).*$", said, re.M), time.strftime("%T"), sep="\n", flush=True)
    failed = set(FAILED.findall(said))
    seconds = Counter()
    for took, test in re.findall(r"^([\d.]+)s (?:call|setup|teardown) +(\S.*)$", said, re.M):
        seconds[test] += float(took)
    tests = [line for line in copy.tested(600, "--collect-only", copy.tree / "tests")[1].splitlines() if "::" in line]
    jobs = [(counters / hashlib.md5(test.encode()).hexdigest(), copy.build, wanted) for test in tests]
    with multiprocessing.Pool(args.jobs) as pool:
        lines = dict(zip(tests, pool.imap(ran, jobs, chunksize=4)))
    for test in tests:  # a program of C runs with its first test
        program = test.rpartition("::")[0] if ".c" in test else test
        ours = {tuple(line) for other in tests if other.startswith(program) for line in lines[other]} if ".c" in test \
            else lines[test]
        add(args.folder / "map.jsonl", {"test": test, "seconds": round(seconds[test], 2), "lines": sorted(ours),
                                        "failed": test in failed})


def code_of(text):
    """The lines without comments and strings, whose columns stay."""
    hidden = r'/\*[\s\S]*?\*/|//.*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|^#(?:.*\\\n)*.*'
    return re.sub(hidden, lambda found: re.sub(".", "~", found[0]), text, flags=re.M).splitlines()


def changes(code, line):
    """(kind, the changed line) for all that can be made of a line."""
    for kind, table in ("comparison", FLIPS), ("off by one", OFF_BY_ONE):
        for old, new in table.items():
            for at in (found.start() for found in re.finditer(re.escape(old) + r"(?!\w)" * old[-1].isdigit(), code)):
                yield kind, line[:at] + new + line[at + len(old):]
    if re.fullmatch(rf" +(?!(?:return|if|for|while|switch|{HARMLESS})\b)\w+\(.*\);~*", code):
        yield "call", line[:len(line) - len(line.lstrip())] + ";"


def candidates(tree):
    """By kind, all (file, line, before, after)."""
    found = {"comparison": [], "off by one": [], "call": []}
    for path in sorted(path for folder in ("src", "io", "kernels") for path in (tree / folder).rglob("*.c")):
        text = path.read_text()
        for number, (code, line) in enumerate(zip(code_of(text), text.splitlines()), 1):
            for kind, after in changes(code, line) if line.startswith(" ") else []:
                found[kind].append((str(path.relative_to(tree)), number, line, after))
    return found


def drawn(tree, args):
    rng = random.Random(args.seed)
    return [mutant for choices in candidates(tree).values() for mutant in rng.sample(choices, args.count // 3)]


def in_order(rows, limit):
    """Tests of the parts first, then of each file the quickest, the second and so on, within the limit."""
    files, chosen = {}, []
    for row in sorted(rows, key=lambda row: row["seconds"]):
        files.setdefault(row["test"].partition("::")[0], []).append(row)
    units = [row for name, of_file in files.items() if "/unit/" in name for row in of_file]
    others = [of_file for name, of_file in files.items() if "/unit/" not in name]
    for row in [*units, *(row for turn in zip_longest(*others) for row in turn if row)]:
        limit -= row["seconds"]
        if limit > 0:
            chosen.append(row["test"])
    return chosen


def judge(mutant, rows, limit):
    """(result, by what, whether all tests that run the line were tried)."""
    file, number, _, after = own.tree / mutant[0], *mutant[1:]
    text = file.read_text()
    lines = text.split("\n")
    covering = [row for row in rows if [mutant[0], number] in row["lines"] and not row["failed"]]
    tests = in_order(covering, limit)
    tried = f"{len(tests)} of {len(covering)} tests that run the line"
    if not tests:
        return "not run", "no test runs the line"
    listed = own.tree.parent / "listed"
    listed.write_text("\n".join(tests))
    files = sorted({str(own.tree / test.partition("::")[0]) for test in tests})
    try:
        file.write_text("\n".join([*lines[:number - 1], after, *lines[number:]]))
        if own.built()[0]:
            return "not built", "the compiler"
        begin = time.monotonic()
        while tests:
            listed.write_text("\n".join(tests))
            status, said = own.tested(3 * limit + 120 + begin - time.monotonic(), "-x", *files, MUTANTS_TESTS=str(listed),
                                      MUTANTS_LONGEST=str(LONGEST))
            if status == HANGS:
                return "given up", tried
            if not status:
                return "survived", tried
            found = FAILED.search(said)
            if not found or found[1] not in tests:
                return "killed", f"what pytest says: {said[-300:]}"
            listed.write_text(found[1])
            if own.tested(300, own.tree / found[1].partition("::")[0], MUTANTS_TESTS=str(listed),
                          MUTANTS_LONGEST=str(LONGEST))[0]:
                return "killed", found[1]
            tests = tests[tests.index(found[1]) + 1:]
        return "survived", tried
    finally:
        file.write_text(text)


def begin_with(folder):
    """A process's own copy of tree and build."""
    global own
    name = multiprocessing.current_process()._identity[0]
    shutil.rmtree(folder / str(name), ignore_errors=True)  # a mutant may have been left there
    shutil.copytree(folder / "0", folder / str(name), symlinks=True)
    own = Copy(folder / str(name))


def judged(job):
    mutant, rows, limit = job
    begin = time.monotonic()
    result, by = judge(mutant, rows, limit)
    return {"mutant": mutant, "result": result, "by": by, "seconds": round(time.monotonic() - begin)}


def run(args):
    copy, results = Copy(args.folder / "0"), args.folder / "mutants.jsonl"
    rows, mutants = rows_of(args.folder / "map.jsonl"), drawn(copy.tree, args)
    known = {tuple(row["mutant"]): row for row in rows_of(results)}
    status, said = copy.built(args.jobs)
    if status:
        sys.exit(f"HEAD is not built:\n{said[-2000:]}")
    jobs = [(mutant, rows, args.limit) for mutant in mutants if mutant not in known]
    with multiprocessing.Pool(args.jobs, begin_with, [args.folder]) as pool:
        for row in pool.imap_unordered(judged, jobs, chunksize=1):
            path, number, before, after = row["mutant"]
            known[path, number, before, after] = row
            add(results, row)
            print(f"{path}:{number}: {before.strip()}  ->  {after.strip()}\n    {row['result']}: {row['by']} "
                  f"({row['seconds']} s)", flush=True)
    found = Counter(known[mutant]["result"] for mutant in mutants)
    print(", ".join(f"{count} {result}" for result, count in found.items()))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = parser.add_subparsers(required=True)
    maps, runs = parts.add_parser("map"), parts.add_parser("run")
    maps.set_defaults(run=make_map)
    maps.add_argument("tests", nargs="*", metavar="TEST_FILE")
    maps.add_argument("--longest", type=int, default=7200, help="seconds that the tests may take")
    runs.set_defaults(run=run)
    runs.add_argument("--limit", type=int, default=300)
    for part in maps, runs:
        part.add_argument("--folder", type=Path, default=Path("/var/tmp/dgemm_ooc-mutants"))
        for name, value in ("count", 60), ("seed", 1), ("jobs", os.cpu_count()):
            part.add_argument(f"--{name}", type=int, default=value)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
