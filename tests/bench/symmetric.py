#!/usr/bin/env python3
"""Measure A A^T and A^T A beside the same products as general ones, in turn.

    symmetric.py FOLDER [--size N] [--depth K] [--ranks 0,2] [--repeat R] [-o FILE.csv] [-- OPTION...]

A is N x K doubles for A A^T and K x N for A^T A, in a file of FOLDER; OPTIONs go to dgemm_ooc.  Prints the medians
of wall time and of what the product takes of it, and the bytes read; the results of a pair must have equal
checksums.  FILE.csv gets lines like those of runs.csv."""
import argparse
import json
import subprocess
import sys
from pathlib import Path
from statistics import median

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent)]
from launch import BUILD, command, environment  # noqa: E402
from runs import append, here, of_report  # noqa: E402

WAYS = {"general": "off", "symmetric": "on"}


def multiply(folder, trans, way, ranks, options):
    report = folder / "symmetric.json"
    line = command("dgemm_ooc", folder / f"symmetric-{trans}.h5", "-b", "A", "--transb" if trans == "T" else "--transa",
                   "T", "--symmetric", WAYS[way], "-o", folder / "symmetric-C.h5", "--force", "-q", "--report", report,
                   *options, ranks=ranks)
    subprocess.run(line, env=environment(ranks), check=True, stdout=subprocess.DEVNULL)
    words = ["dgemm_ooc A.h5 -b A", f"--trans{'b' if trans == 'T' else 'a'} T", "--symmetric", WAYS[way], *options]
    return of_report(json.loads(report.read_text())) | {"command": " ".join(words), "ranks": ranks or ""}


def pair(folder, trans, ranks, repeat, options):
    """The runs of both ways, which take turns."""
    runs = {way: [] for way in WAYS}
    for _ in range(repeat):
        for way in WAYS:
            runs[way].append(multiply(folder, trans, way, ranks, options))
    assert len({run["checksum"] for way in WAYS for run in runs[way]}) == 1
    return runs


def medians(runs):
    return {key: median(run[key] for run in runs) for key in ("seconds", "gemm_s", "predicted", "read_bytes")}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--size", type=int, default=8192)
    parser.add_argument("--depth", type=int, default=8192)
    parser.add_argument("--ranks", default="0", help="0: without a launcher")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("options", nargs="*")
    args = parser.parse_args()
    for trans, shape in ("T", (args.size, args.depth)), ("N", (args.depth, args.size)):
        path = args.folder / f"symmetric-{trans}.h5"
        path.unlink(missing_ok=True)
        subprocess.run([BUILD / "h5mat", "gen", f"{path}:/A", "--rows", str(shape[0]), "--cols", str(shape[1])],
                       check=True, stdout=subprocess.DEVNULL)
    about = here() | {"question": "symmetric", "shape": [args.size, args.size, args.depth], "type": "d"}
    for ranks in map(int, args.ranks.split(",")):
        for trans in "TN":
            found = pair(args.folder, trans, ranks, args.repeat, args.options)
            for runs in found.values() if args.output else []:
                append(args.output, [about | run for run in runs])
            general, symmetric = medians(found["general"]), medians(found["symmetric"])
            print(f"{'A A^T' if trans == 'T' else 'A^T A'}, {args.size}, k {args.depth}, {ranks or 'no'} ranks: "
                  f"{symmetric['seconds']:.3f} s beside {general['seconds']:.3f} "
                  f"({symmetric['seconds'] / general['seconds']:.3f}), product {symmetric['gemm_s']:.3f} beside "
                  f"{general['gemm_s']:.3f}, planned {symmetric['predicted']:.3f} and {general['predicted']:.3f}, "
                  f"read {symmetric['read_bytes'] / general['read_bytes']:.2f}", flush=True)
    for path in args.folder.glob("symmetric*"):
        path.unlink()


if __name__ == "__main__":
    main()
