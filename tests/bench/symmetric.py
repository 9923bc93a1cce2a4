#!/usr/bin/env python3
"""Measure A A^T and A^T A beside the same products as general ones, in turn.

    symmetric.py FOLDER [--size N] [--depth K] [--ranks 0,2] [--repeat R] [--json FILE] [-- OPTION...]

A is N x K doubles for A A^T and K x N for A^T A, in a file of FOLDER; OPTIONs go to dgemm_ooc.  Prints the medians
of wall time and of what the product takes of it, and the bytes read; the results of a pair must have equal
checksums."""
import argparse
import json
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path
from statistics import median

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent)]
from launch import BUILD, ROOT, command, environment  # noqa: E402

WAYS = {"general": "off", "symmetric": "on"}


def multiply(folder, trans, way, ranks, options):
    report = folder / "symmetric.json"
    line = command("dgemm_ooc", folder / f"symmetric-{trans}.h5", "-b", "A", "--transb" if trans == "T" else "--transa",
                   "T", "--symmetric", WAYS[way], "-o", folder / "symmetric-C.h5", "--force", "-q", "--report", report,
                   *options, ranks=ranks)
    subprocess.run(line, env=environment(ranks), check=True, stdout=subprocess.DEVNULL)
    return json.loads(report.read_text()), " ".join(line)


def pair(folder, trans, ranks, repeat, options):
    """The medians of both ways, which take turns."""
    runs = {way: [] for way in WAYS}
    for _ in range(repeat):
        for way in WAYS:
            report, line = multiply(folder, trans, way, ranks, options)
            runs[way].append({"wall_s": report["wall_s"], "product_s": report["stages"]["gemm"]["busy_max_s"],
                              "planned_s": report["planned_wall_s"], "read_bytes": report["stages"]["read"]["bytes"],
                              "checksum": report["checksum"], "command": line})
    assert len({run["checksum"] for way in WAYS for run in runs[way]}) == 1
    keys = ["wall_s", "product_s", "planned_s", "read_bytes"]
    return {way: {key: median(run[key] for run in runs[way]) for key in keys}
            | {"command": runs[way][0]["command"]} for way in WAYS}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--size", type=int, default=8192)
    parser.add_argument("--depth", type=int, default=8192)
    parser.add_argument("--ranks", default="0", help="0: without a launcher")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", type=Path)
    parser.add_argument("options", nargs="*")
    args = parser.parse_args()
    for trans, shape in ("T", (args.size, args.depth)), ("N", (args.depth, args.size)):
        path = args.folder / f"symmetric-{trans}.h5"
        path.unlink(missing_ok=True)
        subprocess.run([BUILD / "h5mat", "gen", f"{path}:/A", "--rows", str(shape[0]), "--cols", str(shape[1])],
                       check=True, stdout=subprocess.DEVNULL)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout
    cases = []
    for ranks in map(int, args.ranks.split(",")):
        for trans in "TN":
            case = pair(args.folder, trans, ranks, args.repeat, args.options)
            general, symmetric = case["general"], case["symmetric"]
            cases.append({"product": "A A^T" if trans == "T" else "A^T A", "size": args.size, "depth": args.depth,
                          "ranks": ranks} | case)
            print(f"{cases[-1]['product']}, {args.size} x {args.size}, k {args.depth}, {ranks or 'no'} ranks: "
                  f"{symmetric['wall_s']:.3f} s beside {general['wall_s']:.3f} "
                  f"({symmetric['wall_s'] / general['wall_s']:.3f}), product {symmetric['product_s']:.3f} beside "
                  f"{general['product_s']:.3f}, planned {symmetric['planned_s']:.3f} and {general['planned_s']:.3f}, "
                  f"read {symmetric['read_bytes'] / general['read_bytes']:.2f}", flush=True)
    if args.json:
        args.json.write_text(json.dumps({"date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
                                         "commit": commit.strip(), "repeat": args.repeat, "cases": cases}, indent=1))
    for path in args.folder.glob("symmetric*"):
        path.unlink()


if __name__ == "__main__":
    main()
