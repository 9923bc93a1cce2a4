#!/usr/bin/env python3
"""One product as its matrices grow, beside the shortest programs that make it: seconds and memory.

    grow.py measure [-o FOLDER] [--sizes 4096,8192] [--patience SECONDS] [--options "-v ..."] [--files FOLDER]
    grow.py show FILE.csv [-o FOLDER]

C = A B of square doubles, from one HDF5 file to another.  The rivals are h5py with NumPy, and h5py with CuPy where
there is a GPU: they read A and B, multiply, and write C.  Each is a process of its own, and is timed from its start to
its end.  Its memory is the largest resident set that the kernel has seen.  A rival that needs longer than the patience,
by its time for the size before, is left out; so is one that has failed for want of memory.  Of sizes up to --compared
a row of each program's first C is compared with NumPy's.  FOLDER gets grow.csv, whose lines are those of runs.csv, and
what `show` makes of the medians: the picture grow.svg and the table grow.md.
"""
import argparse
import os
import shutil
import subprocess
import sys
import time
from html import escape
from math import log10
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from launch import BUILD  # noqa: E402
from runs import append, here, lines, typical  # noqa: E402
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
SIZES = {False: [1024, 2048, 4096], True: [4096, 8192, 16384, 32768]}  # without and with a GPU
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
    if process.returncode:
        print(line[0], said[-1], flush=True)
    return {"process_s": time.monotonic() - begin, "host_bytes": usage.ru_maxrss * 1024,
            "failed": int(process.returncode != 0)}


def generate(source, n):
    for seed, name in enumerate("AB"):
        subprocess.run([BUILD / "h5mat", "gen", f"{source}:/{name}", "--rows", str(n), "--cols", str(n),
                        "--seed", str(seed)], check=True, stdout=subprocess.DEVNULL)


def expected(runs, growth):
    """Seconds for a size, by those for the one before; infinite where the program has failed."""
    return float("inf") if runs[-1]["failed"] else median(run["process_s"] for run in runs) * growth ** 3


def measure_size(args, n, names):
    """The runs of each program, which take turns."""
    source, target = args.files / "grow.h5", args.files / "grow-C.h5"
    generate(source, n)
    programs = {name: [] for name in names}
    for _ in range(args.rounds):
        for name, runs in programs.items():
            if any(run["failed"] for run in runs) or sum(run["process_s"] for run in runs) > args.patience:
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
    return programs


def fits(folder, n):
    """Whether there is room for A, B and C."""
    return 3 * 8 * n * n < 0.6 * shutil.disk_usage(folder).free


def measure(args):
    gpu = subprocess.run("nvidia-smi --query-gpu=name --format=csv,noheader", shell=True, text=True,
                         capture_output=True).stdout.strip()
    names, table = [name for name in PROGRAMS if gpu or "CuPy" not in name], args.output / "grow.csv"
    about = here() | {"question": "growth", "host": f"{gpu or 'no GPU'}/{os.cpu_count()}", "type": "d"}
    args.output.mkdir(parents=True, exist_ok=True)
    table.unlink(missing_ok=True)
    programs, before = {}, None
    for n in [n for n in args.sizes or SIZES[bool(gpu)] if fits(args.files, n)]:
        names = [name for name in names if name == "dgemm_ooc" or not before
                 or expected(programs[name], n / before) < args.patience]
        programs, before = measure_size(args, n, names), n
        for name, runs in programs.items():
            command = f"dgemm_ooc {args.options}".strip() if name == "dgemm_ooc" else name
            append(table, [run | about | {"shape": [n, n, n], "command": command} for run in runs])
    show(argparse.Namespace(input=table, output=args.output))


def rows_of(path):
    """By size, the line of each program: those of the last day, commit and host in the file."""
    found, rows = list(lines("growth", path)), {}
    for line in found:
        if all(line[key] == found[-1][key] for key in ("date", "commit", "host")):
            name = "dgemm_ooc" if line["command"].startswith("dgemm_ooc") else line["command"]
            rows.setdefault(int(line["shape"].split("x")[0]), {})[name] = line
    return rows


def failed(line):
    return 1 in line.get("failed", [])


def panel(left, title, rows, key, unit, names):
    """A panel with logarithmic axes: sizes against seconds, or bytes."""
    def points(name):
        for n, programs in rows.items():
            if name in programs and not failed(programs[name]):
                yield n, typical(programs[name], key) / unit
    sizes, values = list(rows), [value for name in names for _, value in points(name)]
    low, high = int(log10(min(values)) - 0.999), int(log10(max(values)) + 0.999)
    x = lambda n: left + 46 + (WIDTH - 70) * log10(n / sizes[0]) / log10(sizes[-1] / sizes[0])  # noqa: E731
    y = lambda value: HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (log10(value) - low) / (high - low)  # noqa: E731
    yield text(left + 46, 20, title, "title")
    for power in range(low, high + 1):
        at = y(10**power)
        yield f'<line x1="{left + 46}" x2="{left + WIDTH - 24}" y1="{at:.1f}" y2="{at:.1f}" class="axis"/>'
        yield text(left + 40, at + 4, f"{10.0**power:g}", "small", "end")
    for n in sizes:
        yield text(x(n), HEIGHT - BOTTOM + 18, f"{n / 1024:.0f}k", "small", "middle")
    yield text(left + WIDTH - 24, HEIGHT - 8, "rows and columns of A, B and C", "small", "end")
    for index, name in enumerate(names):
        line = list(points(name))
        yield f'<polyline points="{" ".join(f"{x(n):.1f},{y(v):.1f}" for n, v in line)}" class="s{index}"/>'
        for n, value in line:
            yield (f'<circle cx="{x(n):.1f}" cy="{y(value):.1f}" r="4" class="f{index}">'
                   f"<title>{escape(name)}, {n}: {value:.3g}</title></circle>")
        ended_at = [n for n, programs in rows.items() if name in programs and failed(programs[name])]
        if ended_at:
            yield text(x(ended_at[0]), y(line[-1][1]) + 22, "out of memory", "small", "end")


def draw(rows, names):
    parts = [*panel(0, "seconds, file to file", rows, "process_s", 1, names),
             *panel(WIDTH, "host memory, GB", rows, "host_bytes", 1e9, names)]
    for index, name in enumerate(names):
        parts.append(f'<circle cx="{50 + 130 * index}" cy="36" r="4" class="f{index}"/>')
        parts.append(text(60 + 130 * index, 40, name, "small"))
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {2 * WIDTH} {HEIGHT}" width="{2 * WIDTH}" '
            f'role="img" aria-label="seconds and memory as matrices grow"><style>{STYLE}</style>\n'
            + "\n".join(parts) + "\n</svg>\n")


def table_of(rows, names):
    titles = [f"{name}, s" for name in names]
    titles += ["host memory, GB", *(name.removeprefix("h5py + ") for name in names[1:])]
    yield "| n | A, B and C | " + " | ".join(titles) + " |"
    yield "|---" * (len(titles) + 2) + "|"
    for n, programs in rows.items():
        cells = [("fails" if failed(programs[name]) else f"{typical(programs[name], key) / unit:.{digits}g}")
                 if name in programs else "" for key, unit, digits in (("process_s", 1, 3), ("host_bytes", 1e9, 2))
                 for name in names]
        yield f"| {n} | {3 * 8 * n * n / 1e9:.3g} GB | " + " | ".join(cells) + " |"


def show(args):
    rows = rows_of(args.input)
    names = [name for name in PROGRAMS if any(name in programs for programs in rows.values())]
    (args.output / "grow.svg").write_text(draw(rows, names))
    (args.output / "grow.md").write_text("\n".join(table_of(rows, names)) + "\n")
    print((args.output / "grow.md").read_text() + f"{args.output}/grow.csv, grow.svg, grow.md")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = parser.add_subparsers(required=True)
    measures, shows = parts.add_parser("measure"), parts.add_parser("show")
    measures.set_defaults(run=measure)
    measures.add_argument("--files", type=Path, default=Path("/dev/shm"), help="where the matrices are")
    measures.add_argument("--sizes", type=lambda words: [int(word) for word in words.split(",")])
    measures.add_argument("--rounds", type=int, default=3)
    measures.add_argument("--patience", type=float, default=60)
    measures.add_argument("--compared", type=int, default=16384, help="the largest size of which a row is compared")
    measures.add_argument("--options", default="", help="of the program")
    shows.set_defaults(run=show)
    shows.add_argument("input", type=Path)
    for part in (measures, shows):
        part.add_argument("-o", "--output", type=Path, default=BUILD / "bench")
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
