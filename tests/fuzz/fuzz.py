"""Runs the fuzzers, each from its corpus, and says how many inputs each has tried and what it found.

    fuzz.py [--seconds S | --runs N] [NAME...]

What ends a fuzzer in our code is a finding, and kept in the build directory.  The HDF5 library falls
over damaged files itself, once in a few thousand; that is counted apart, and fuzzing goes on.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BUILD = ROOT / os.environ.get("DGEMM_OOC_BUILD", "build") / "tests/fuzz"
NAMES = sorted(path.stem[5:] for path in HERE.glob("fuzz_*.c"))
ENVIRONMENT = dict(os.environ, ASAN_OPTIONS="detect_leaks=0:allocator_may_return_null=1:"
                   "max_allocation_size_mb=1024:handle_abort=1")
LIMITS = ["-timeout=10", "-malloc_limit_mb=0", "-rss_limit_mb=0"]


def is_ours(report):
    """Whether the code that failed, or that owns the memory it failed on, is ours: of each stack the
    innermost frame counts that is of the HDF5 library or of our sources."""
    for stack in re.split(r"\n\s*\n", report):
        frames = re.findall(r"^\s*#\d+ .*?(libhdf5|/(?:io|src(?:/\w+)?|kernels|tests/fuzz)/\w+\.[ch])", stack,
                            re.MULTILINE)
        if frames and "libhdf5" not in frames[0]:
            return True
    return "libhdf5" not in report


def again(program, artifact):
    done = subprocess.run([program, *LIMITS, artifact], env=ENVIRONMENT, capture_output=True, text=True,
                          errors="replace")
    return done.stderr if done.returncode else ""


def fuzz(name, *, seconds=0, runs=-1):
    """How many inputs were tried, how many of them the HDF5 library did not survive, and the reports
    of what is ours."""
    program, found = BUILD / f"fuzz_{name}", BUILD / f"found-{name}"
    found.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as corpus:
        log = subprocess.run(
            [program, *LIMITS, f"-max_total_time={seconds}", f"-runs={runs}", f"-artifact_prefix={found}/",
             *(["-fork=1", "-ignore_crashes=1", "-ignore_timeouts=1", "-ignore_ooms=1"]
               if name == "file" and runs else []), corpus, HERE / "corpus" / name],
            env=ENVIRONMENT, capture_output=True, text=True, errors="replace")
    tried = [int(count) for count in re.findall(r"^#(\d+)\W", log.stderr, re.MULTILINE)]
    library, ours = 0, []
    for artifact in sorted(found.iterdir()):
        report = again(program, artifact)
        if report and is_ours(report):
            ours.append(f"{artifact}\n{report}")
        else:
            library += 1
            artifact.unlink()
    if log.returncode and not ours and name != "file":
        ours.append(log.stderr)
    return max(tried, default=0), library, ours


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=60, help="for each (default 60)")
    parser.add_argument("--runs", type=int, default=-1, help="at most so many inputs each")
    parser.add_argument("names", nargs="*", metavar="NAME", help=" ".join(NAMES))
    args = parser.parse_args()
    bad = 0
    for name in args.names or NAMES:
        tried, library, ours = fuzz(name, seconds=args.seconds, runs=args.runs)
        print(f"{name:10}{tried:12} inputs, {len(ours)} findings"
              f"{f', {library} that HDF5 itself fell over' if name == 'file' else ''}", flush=True)
        print("".join(ours), end="")
        bad += len(ours)
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
