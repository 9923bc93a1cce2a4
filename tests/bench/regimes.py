#!/usr/bin/env python3
"""The jobs that users have, each beside what limits it, and beside a few lines of h5py with NumPy or CuPy.

    make bench     or     regimes.py [OPTION...] [JOB...]

The limit is the part of the machine that alone would take longest for what the job reads, copies, multiplies
or writes, as bench.py measures it; its share is that time by the job's.  Times are medians from file to file,
without the start, but with the pass over A that covariances need first, which is predicted, too.  The table is
Markdown.  Jobs whose files or rivals would not fit are made smaller."""
import argparse
import importlib.util
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Callable, NamedTuple

import h5py
import numpy as np

import bench
from bench import BUILD, ELEMENT, Case, Failure, call, number_after, result_of, say

ROWS = 5000  # of a matrix at a time
TITLES = {"read": "reading", "in": "copies in", "gemm": "products", "out": "copies out", "write": "writing"}
GRAM, COV = ["-a", "A", "-b", "A", "--transa", "T"], ["--product", "cov", "--transa", "T"]
GZIP = {"chunks": (250, 250), "compression": "gzip", "compression_opts": 4}


def rows_of(a, xp):
    return (xp.asarray(a[i:i + ROWS]) for i in range(0, len(a), ROWS))


def whole(a, b, xp):
    return xp.asarray(a[:]) @ xp.asarray(b[:])


def gram(a, _, xp):
    return sum(x.T @ x for x in rows_of(a, xp))


def covariance(a, _, xp):
    mean = sum(x.sum(0) for x in rows_of(a, xp)) / len(a)
    return sum((x - mean).T @ (x - mean) for x in rows_of(a, xp)) / (len(a) - 1)


def in_rows(a, b, xp):
    right = xp.asarray(b[:])
    return (x @ right for x in rows_of(a, xp))


class Kind(NamedTuple):
    """A job's m, n and k without and with a GPU, and what else there is to say of it."""
    cpu: tuple
    gpu: tuple
    options: list  # of dgemm_ooc; where there are some B is A, which is k x m
    rival: Callable
    storage: dict = {}
    cold: bool = False


JOBS = {
    "square": Kind((4000, 4000, 4000), (32768, 32768, 32768), [], whole),
    "square, from a disk": Kind((4000, 4000, 4000), (16384, 16384, 16384), [], whole, cold=True),
    "square, gzip chunks": Kind((4000, 4000, 4000), (16384, 16384, 16384), [], whole, storage=GZIP),
    "tall: A^T A": Kind((200, 200, 1500000), (2000, 2000, 2000000), GRAM, gram),
    "covariances of its columns": Kind((200, 200, 1500000), (2000, 2000, 2000000), COV, covariance),
    "skinny: A X": Kind((60000, 64, 5000), (100000, 64, 40000), [], in_rows),
    "outer: k is short": Kind((20000, 20000, 300), (80000, 60000, 300), [], in_rows),
}


def rival(job, source, target, gpu):
    """Make the job's C as a short program does; print what it took."""
    if gpu:
        import cupy as xp
        xp.ones((64, 64)) @ xp.ones((64, 64))  # loads cuBLAS
    else:
        xp = np
    start = time.monotonic()
    with h5py.File(source) as inputs, h5py.File(target, "w") as output:
        a, b = inputs["A"], inputs.get("B")
        found = JOBS[job].rival(a, b, xp)
        if JOBS[job].rival is in_rows:
            c = output.create_dataset("C", (len(a), b.shape[1]), "f8")
            for i, rows in zip(range(0, len(a), ROWS), found):
                c[i:i + ROWS] = rows if xp is np else rows.get()
        else:
            output["C"] = found if xp is np else found.get()
        output.flush()
        os.fsync(output.id.get_vfd_handle())
    print(json.dumps({"wall_s": time.monotonic() - start,
                      "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))


class Job(Case):
    """A job as a case of the bench: its matrices, and its rival."""

    def __init__(self, name, description, folder, link, args):
        super().__init__(description, folder, link, args)
        self.name, self.options = name, JOBS[name].options

    def generate(self):
        shapes = {"A": (self.k, self.m)} if self.options else {"A": (self.m, self.k), "B": (self.k, self.n)}
        rng = np.random.default_rng(1)
        for old in self.folder.glob("*.h5"):
            old.unlink()
        with h5py.File(self.source, "w") as file:
            for name, shape in shapes.items():
                data = file.create_dataset(name, shape, "f8", **JOBS[self.name].storage)
                for i in range(0, shape[0], ROWS):
                    data[i:i + ROWS] = rng.random((min(ROWS, shape[0] - i), shape[1])) - 0.5

    def program(self):
        report = super().program()
        report["wall_s"] += report["startup"]["output_s"]
        return report

    def rivals(self):
        way = "CuPy" if self.gpu else "NumPy"
        if not self.alone and importlib.util.find_spec(way.lower()):
            line = [sys.executable, __file__, "--rival", self.source, self.theirs, *["--gpu"][:self.gpu], self.name]
            yield f"h5py, {way}", lambda: json.loads(call(line))


def fits(name, extents, folder):
    """Whether there is room for the files, with a rival's C, and for what a rival holds."""
    m, n, k = extents
    alone = bool(JOBS[name].options)
    b, part = 0 if alone else k * n, ROWS * (m if alone else k)
    files, held = m * k + b + 2 * m * n, (m * k if JOBS[name].rival is whole else part) + b + 2 * m * n
    return (ELEMENT * files < 0.8 * shutil.disk_usage(folder).free
            and ELEMENT * (files + held) < 0.8 * (number_after("MemAvailable:") << 10))


def description_of(name, folder, gpu, args):
    kind = JOBS[name]
    extents, cold = [max(min(250, x), int(args.scale * x)) for x in (kind.gpu if gpu else kind.cpu)], kind.cold
    while not fits(name, extents, folder):
        smaller = [max(min(250, x), x * 3 // 4) for x in extents]
        if smaller == extents:
            raise Failure(f"{name}: {' x '.join(map(str, extents))} does not fit {folder} and the memory here")
        extents = smaller
    return {"regime": name, "folder": str(folder), "cold": cold, **dict(zip("mnk", extents)),
            "gpu_memory_bytes": None, "host_memory_bytes": None}


def measure(name, link, folder, args):
    job = Job(name, description_of(name, folder, link["device"] == "gpu", args), folder, link, args)
    say(f"{name}: the matrices, and a run to warm up")
    job.generate()
    report = job.program()
    return result_of(job, [job.round(report) for _ in range(args.repeat)])


def row(case):
    program, others = case["program"], [other["wall_s"]["median"] for other in case["rivals"].values()]
    seconds, bound = program["wall_s"]["median"], program["bound"]
    cells = [case["regime"], f"{case['m']} x {case['n']} x {case['k']}", f"{seconds:.3g}",
             f"{program['predicted']['wall_s']:.3g}", f"{TITLES[bound]}, {program['stages'][bound]['ceiling_s']:.3g}",
             f"{program['efficiency']:.2g}", f"{others[0]:.3g}" if others else ""]
    return f"| {' | '.join(cells)} |"


def show(args):
    link = json.loads(call([BUILD / "tests/bench/bench_link", 1 << 20, *["cpu"][:args.device == "cpu"]]))
    way = "CuPy" if link["device"] == "gpu" else "NumPy"
    print(f"{link['name']}, {bench.CPUS} CPUs, {bench.here()['commit']}, seconds\n")
    print(f"| job | m x n x k | `dgemm_ooc` | predicted | limit | its share | h5py, {way} |", "|---" * 7 + "|",
          sep="\n", flush=True)
    for name in args.jobs or JOBS:
        where = args.folder if JOBS[name].cold else args.memory_folder
        with tempfile.TemporaryDirectory(prefix="dgemm_ooc-bench-", dir=where) as folder:
            case = measure(name, link, Path(folder), args)
        print(row(case), flush=True)
        for why in case["failed"].values():
            say(f"{name}: h5py could not run: {why}")
        if any(other["agrees"] is False for other in case["rivals"].values()):
            raise Failure(f"{name}: h5py has another product")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--folder", type=Path, default=BUILD, help="on the disk to measure")
    parser.add_argument("--memory-folder", type=Path, default=Path("/dev/shm"))
    parser.add_argument("--scale", type=float, default=1, metavar="S", help="of all extents")
    parser.add_argument("--device", choices=["auto", "cpu"], default="auto")
    parser.add_argument("--repeat", type=int, default=3, metavar="R")
    parser.add_argument("--alone", action="store_true", help="without rivals")
    parser.add_argument("--rival", nargs=2, metavar=("INPUT", "OUTPUT"), help=argparse.SUPPRESS)
    parser.add_argument("--gpu", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("jobs", nargs="*", metavar="JOB", help=", ".join(JOBS))
    parser.set_defaults(program_options=[])
    args = parser.parse_args()
    if args.rival:
        return rival(args.jobs[0], *args.rival, args.gpu)
    if unknown := [name for name in args.jobs if name not in JOBS]:
        parser.error(f"{unknown[0]}: give one of: {', '.join(JOBS)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        show(args)
    except Failure as failure:
        sys.exit(f"regimes: {failure}")
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
