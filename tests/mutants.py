#!/usr/bin/env python3
"""Makes faults in the sources on purpose, and counts those that the tests find.

    mutants.py map [TEST_FILE...]     which lines each file of tests/system runs (all: as long as `make coverage`)
    mutants.py run [--count 60] [--seed 1] [--limit 900]

A mutant is HEAD with one line of src, io or kernels/*.c changed: a comparison is turned round, a call is left out, or
something is off by one, as often each.  It is judged by `make check`, and then by the files of tests/system that run
the line, the quickest first, up to the first failure.  To take five times as long as otherwise is a failure, too.
After --limit seconds a mutant is given up.  Both commands work in a copy of HEAD with builds of its own in --folder,
append to map.jsonl and mutants.jsonl there, and go on where they were stopped; for another HEAD remove the folder."""
import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LEFT_OUT = {"test_build.py", "test_bench.py"}  # as in `make coverage`: they build, or measure
FLIPS = {" == ": " != ", " != ": " == ", " < ": " > ", " > ": " < ", " <= ": " > ", " >= ": " < "}
OFF_BY_ONE = {" < ": " <= ", " <= ": " < ", " > ": " >= ", " >= ": " > ", " + 1": " + 0", " - 1": " - 0"}
HARMLESS = r"free|va_end|\w+_destroy"  # calls whose absence is a leak at most
HANGS = "hangs"


def ended(words, limit, **variables):
    """The exit status and the end of what was said; after the limit all that was started is killed."""
    with subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", start_new_session=True, env=os.environ | variables) as process:
        try:
            said, _ = process.communicate(timeout=max(1, limit))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return HANGS, HANGS
    return process.returncode, said[-2000:]


def rows_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def add(path, row):
    with open(path, "a") as file:
        file.write(json.dumps(row) + "\n")


class Copy:
    """HEAD in a folder, and a build of it."""

    def __init__(self, folder, build, **flags):
        self.tree, self.build = folder / "tree", folder / "tree" / build  # where the program finds what comes with it
        self.flags = ["CUDA=0", f"BUILD={self.build}", *(f"{name}={value}" for name, value in flags.items())]
        self.tree.mkdir(parents=True, exist_ok=True)
        head = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
        subprocess.run(["tar", "-xm"], cwd=self.tree, input=head, check=True)  # anew: a mutant may have been left there

    def make(self, *goals, limit=3600):
        return ended(["make", "-C", self.tree, "-j2", *self.flags, *goals], limit)

    def built(self, limit=3600):
        return self.make("all", "check-programs", self.build / "tests/faults/dgemm_ooc", self.build / "tests/system/caller",
                         limit=limit)

    def tested(self, name, limit, *options):
        """A file of tests/system."""
        test = self.tree / "tests/system" / name
        return ended([sys.executable, *"-m pytest -q -p no:cacheprovider".split(), *options, test], limit,
                     DGEMM_OOC_BUILD=str(self.build))


def lines_that_ran(copy):
    """By source file, the lines that have run since the counters were removed."""
    found = {}
    for counters in copy.build.rglob("*.gcda"):
        said = subprocess.run(["gcov", "--json-format", "--stdout", counters], capture_output=True, text=True,
                              cwd=copy.build).stdout
        for text in said.splitlines():
            for file in json.loads(text)["files"]:
                name = os.path.relpath(copy.tree / file["file"], copy.tree)
                found.setdefault(name, set()).update(line["line_number"] for line in file["lines"] if line["count"])
    return {name: sorted(numbers) for name, numbers in found.items() if re.match(r"(src|io|kernels)/.*\.c$", name)}


def make_map(args):
    copy = Copy(args.folder, "build-coverage", CFLAGS="-O1 -g --coverage")
    if copy.built()[0]:
        sys.exit("HEAD is not built")
    known = {row["test"] for row in rows_of(args.folder / "map.jsonl")}
    for test in args.tests or sorted(path.name for path in (copy.tree / "tests/system").glob("test_*.py")):
        if test in known | LEFT_OUT:
            continue
        for counters in copy.build.rglob("*.gcda"):
            counters.unlink()
        begin = time.monotonic()
        status, said = copy.tested(test, 3600)
        seconds = round(time.monotonic() - begin, 1)
        lines = lines_that_ran(copy)
        add(args.folder / "map.jsonl", {"test": test, "seconds": seconds, "status": status, "lines": lines})
        print(f"{test}: {seconds} s, {sum(map(len, lines.values()))} lines {said if status else ''}", flush=True)


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


def judge(copy, mutant, check_s, rows, limit):
    """(result, by what): killed, survived, given up, or not built, which is the compiler's merit."""
    end = time.monotonic() + limit
    file, number, _, after = copy.tree / mutant[0], *mutant[1:]
    text = file.read_text()
    lines = text.split("\n")
    covering = [row for row in rows if number in row["lines"].get(mutant[0], [])]
    try:
        file.write_text("\n".join([*lines[:number - 1], after, *lines[number:]]))
        if copy.built()[0]:
            return "not built", "the compiler"
        if status := copy.make("check", limit=5 * check_s + 60)[0]:
            return "killed", "make check" + (", which hangs" if status == HANGS else "")
        for row in sorted(covering, key=lambda row: row["seconds"]):
            left = end - time.monotonic()
            if left <= 0:
                return "given up", f"before {row['test']}"
            hangs = 5 * row["seconds"] + 60
            status, _ = copy.tested(row["test"], min(left, hangs), "-x")
            if status == HANGS and left < hangs:
                return "given up", f"in {row['test']}"
            if status:
                return "killed", row["test"] + (", which hangs" if status == HANGS else "")
        return "survived", f"{len(covering)} files that run the line"
    finally:
        file.write_text(text)


def run(args):
    copy, results = Copy(args.folder, "build"), args.folder / "mutants.jsonl"
    rows = [row for row in rows_of(args.folder / "map.jsonl") if not row["status"]]
    rng, drawn = random.Random(args.seed), []
    for choices in candidates(copy.tree).values():
        drawn += rng.sample(choices, args.count // 3)
    known = {tuple(row["mutant"]): row for row in rows_of(results)}
    copy.built()
    begin = time.monotonic()
    if copy.make("check")[0]:
        sys.exit("HEAD itself does not pass `make check`")
    check_s = time.monotonic() - begin
    for mutant in drawn:
        if mutant not in known:
            begin, (path, number, before, after) = time.monotonic(), mutant
            result, by = judge(copy, mutant, check_s, rows, args.limit)
            known[mutant] = {"mutant": mutant, "result": result, "by": by, "seconds": round(time.monotonic() - begin)}
            add(results, known[mutant])
            print(f"{path}:{number}: {before.strip()}  ->  {after.strip()}\n    {result}: {by}", flush=True)
    found = Counter(known[mutant]["result"] for mutant in drawn)
    print(", ".join(f"{count} {result}" for result, count in found.items()))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("/var/tmp/dgemm_ooc-mutants"))
    parts = parser.add_subparsers(required=True)
    maps, runs = parts.add_parser("map"), parts.add_parser("run")
    maps.set_defaults(run=make_map)
    maps.add_argument("tests", nargs="*", metavar="TEST_FILE")
    runs.set_defaults(run=run)
    for name, value in ("count", 60), ("seed", 1), ("limit", 900):
        runs.add_argument(f"--{name}", type=int, default=value)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
