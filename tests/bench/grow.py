#!/usr/bin/env python3
"""One product as its matrices grow, beside the shortest programs that make it: seconds and memory.

    grow.py measure FOLDER -o FILE.json [--sizes 4096,8192] [--patience SECONDS] [--options "-v ..."]
    grow.py draw FILE.json -o FILE.svg

C = A B of square doubles, from one HDF5 file to another, in FOLDER.  The rivals are h5py with NumPy, and h5py with
CuPy where there is a GPU: they read A and B, multiply, and write C.  Each is a process of its own, and is timed from
its start to its end.  Its memory is the largest resident set that the kernel has seen.  A rival that needs longer than
the patience, by its time for the size before, is left out; so is one that has failed for want of memory.  Sizes are
measured in rounds, and medians are drawn.  Of sizes up to --compared a row of each program's first C is compared with
NumPy's.
"""
import argparse
import json
import os
import subprocess
import sys
import time
from datetime import datetime, timezone
from html import escape
from math import log10
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from launch import BUILD, ROOT  # noqa: E402
from svg import STYLE, text  # noqa: E402

RIVAL = """
import h5py, sys, {module} as xp
source, target = sys.argv[1:]
with h5py.File(source) as file:
    a = xp.asarray(file["A"][:])
    b = xp.asarray(file["B"][:])
c = a @ b
with h5py.File(target, "w") as file:
    file["C"] = c{get}
"""
PROGRAMS = {"dgemm_ooc": None, "h5py + NumPy": RIVAL.format(module="numpy", get=""),
            "h5py + CuPy": RIVAL.format(module="cupy", get=".get()")}
CHECK = """
import h5py, numpy, sys
with h5py.File(sys.argv[1]) as operands, h5py.File(sys.argv[2]) as file:
    numpy.testing.assert_allclose(file["C"][7], operands["A"][7] @ operands["B"][:], rtol=0, atol=1e-9)
"""
WIDTH, HEIGHT, TOP, BOTTOM = 380, 300, 56, 44  # of a panel


def ended(line):
    """Run a command.  Returns its seconds, largest resident set, and the last line of its complaint if it failed.  A
    process inherits the resident set of the one that starts it, so this one stays small."""
    begin, line = time.monotonic(), [str(word) for word in line]
    process = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    complaint = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    said = complaint.strip().splitlines() or [f"exit status {process.returncode}"]
    return {"seconds": time.monotonic() - begin, "bytes": usage.ru_maxrss * 1024,
            "failed": said[-1] if process.returncode else None}


def generate(source, n):
    for seed, name in enumerate("AB"):
        subprocess.run([BUILD / "h5mat", "gen", f"{source}:/{name}", "--rows", str(n), "--cols", str(n),
                        "--seed", str(seed)], check=True, stdout=subprocess.DEVNULL)


def expected(rows, name, n):
    """Seconds for this size, by those for the one before; infinite where the program has failed or been left out."""
    if not rows:
        return 0
    runs = rows[-1]["programs"].get(name)
    if not runs or runs[-1]["failed"]:
        return float("inf")
    return median(run["seconds"] for run in runs) * (n / rows[-1]["n"]) ** 3


def measure_size(args, rows, n):
    source, target = args.folder / "grow.h5", args.folder / "grow-C.h5"
    generate(source, n)
    programs = {name: [] for name in args.names if name == "dgemm_ooc" or expected(rows, name, n) < args.patience}
    for _ in range(args.rounds):
        for name, runs in programs.items():
            if any(run["failed"] for run in runs) or sum(run["seconds"] for run in runs) > args.patience:
                continue
            target.unlink(missing_ok=True)
            rival = [sys.executable, "-c", PROGRAMS[name], source, target]
            ours = [BUILD / "dgemm_ooc", source, "-q", "-o", target, *args.options.split()]
            runs.append(ended(ours if name == "dgemm_ooc" else rival))
            print(n, name, runs[-1], flush=True)
            if len(runs) == 1 and not runs[0]["failed"] and n <= args.compared:
                subprocess.run([sys.executable, "-c", CHECK, source, target], check=True)
    for path in (source, target):
        path.unlink(missing_ok=True)
    return {"n": n, "bytes": 3 * 8 * n * n, "programs": programs}


def measure(args):
    gpu = subprocess.run("nvidia-smi --query-gpu=name --format=csv,noheader", shell=True, text=True,
                         capture_output=True)
    args.names = [name for name in PROGRAMS if "CuPy" not in name or gpu.returncode == 0]
    result = {"date": datetime.now(timezone.utc).strftime("%Y-%m-%d"), "commit": args.commit,
              "cpus": os.cpu_count(), "gpu": gpu.stdout.strip(), "options": args.options, "rows": []}
    for n in args.sizes:
        result["rows"].append(measure_size(args, result["rows"], n))
        args.output.write_text(json.dumps(result, indent=1) + "\n")


def panel(left, title, rows, key, unit, names):
    """A panel with logarithmic axes: sizes against seconds, or bytes."""
    def points(name):
        for row in rows:
            runs = [run for run in row["programs"].get(name, []) if not run["failed"]]
            if runs:
                yield row["n"], median(run[key] for run in runs) / unit
    sizes, values = [row["n"] for row in rows], [value for name in names for _, value in points(name)]
    low, high = int(log10(min(values)) - 0.999), int(log10(max(values)) + 0.999)
    x = lambda n: left + 46 + (WIDTH - 70) * log10(n / sizes[0]) / log10(sizes[-1] / sizes[0])  # noqa: E731
    y = lambda value: HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (log10(value) - low) / (high - low)  # noqa: E731
    yield text(left + 46, 20, title, "title")
    for power in range(low, high + 1):
        at = y(10**power)
        yield f'<line x1="{left + 46}" x2="{left + WIDTH - 24}" y1="{at:.1f}" y2="{at:.1f}" class="axis"/>'
        yield text(left + 40, at + 4, f"{10.0**power:g}", "small", "end")
    for row in rows:
        yield text(x(row["n"]), HEIGHT - BOTTOM + 18, f"{row['n'] / 1024:.0f}k", "small", "middle")
    yield text(left + WIDTH - 24, HEIGHT - 8, "rows and columns of A, B and C", "small", "end")
    for index, name in enumerate(names):
        line = list(points(name))
        yield f'<polyline points="{" ".join(f"{x(n):.1f},{y(v):.1f}" for n, v in line)}" class="s{index}"/>'
        for n, value in line:
            yield (f'<circle cx="{x(n):.1f}" cy="{y(value):.1f}" r="4" class="f{index}">'
                   f"<title>{escape(name)}, {n}: {value:.3g}</title></circle>")
        failed = [row["n"] for row in rows if any(run["failed"] for run in row["programs"].get(name, []))]
        if failed:
            yield text(x(failed[0]), y(line[-1][1]) + 22, "out of memory", "small", "end")


def draw(args):
    result = json.loads(args.input.read_text())
    names = [name for name in PROGRAMS if any(name in row["programs"] for row in result["rows"])]
    parts = [*panel(0, "seconds, file to file", result["rows"], "seconds", 1, names),
             *panel(WIDTH, "host memory, GB", result["rows"], "bytes", 1e9, names)]
    for index, name in enumerate(names):
        parts.append(f'<circle cx="{50 + 130 * index}" cy="36" r="4" class="f{index}"/>')
        parts.append(text(60 + 130 * index, 40, name, "small"))
    args.output.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {2 * WIDTH} {HEIGHT}" width="{2 * WIDTH}" '
        f'role="img" aria-label="seconds and memory as matrices grow"><style>{STYLE}</style>\n'
        + "\n".join(parts) + "\n</svg>\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = parser.add_subparsers(required=True)
    measures, draws = parts.add_parser("measure"), parts.add_parser("draw")
    measures.set_defaults(run=measure)
    measures.add_argument("folder", type=Path)
    measures.add_argument("--sizes", type=lambda words: [int(word) for word in words.split(",")],
                          default=[1024, 2048, 4096])
    measures.add_argument("--rounds", type=int, default=3)
    measures.add_argument("--patience", type=float, default=60)
    measures.add_argument("--compared", type=int, default=16384, help="the largest size of which a row is compared")
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, text=True, capture_output=True)
    measures.add_argument("--commit", default=commit.stdout.strip())
    measures.add_argument("--options", default="", help="of the program")
    draws.set_defaults(run=draw)
    draws.add_argument("input", type=Path)
    for part in (measures, draws):
        part.add_argument("-o", "--output", type=Path, required=True)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
