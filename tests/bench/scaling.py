#!/usr/bin/env python3
"""Simulate weak scaling: 1, 4, 16 ... 16384 ranks with the same work per rank.

    scaling.py [DIRECTORY] [--machine FILE.json] [--size N] [--points 8]

m = n = k grows with the cube root of the ranks, from N on one rank, so that the work per rank is constant.
The matrices grow as ranks^(2/3), and each rank's share of them shrinks.  There are two series: one with
the file system of the machine file, and one whose file system grows with the nodes beyond those of the
machine file.  Efficiency is the time on one rank divided by the time on all.  The script prints a table,
writes DIRECTORY/scaling.json and draws DIRECTORY/scaling.svg, which suits light and dark mode.  The matrix
files are sparse and take no space, but the file system must allow their size; /dev/shm does."""
import argparse
import json
import subprocess
import sys
import tempfile
from math import log2
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "system")]
from launch import BUILD, ROOT  # noqa: E402
from matrices import sparse  # noqa: E402
from svg import STYLE, text  # noqa: E402

GROWS = ["disk_read_bytes_per_s", "disk_write_bytes_per_s"]
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 420, 60, 110, 64, 60


def simulate(folder, machine, ranks, n):
    matrix, plan, report = folder / "matrix.h5", folder / "machine.json", folder / "report.json"
    matrix.unlink(missing_ok=True)
    sparse(matrix, "M", (n, n), "f8")
    plan.write_text(json.dumps(machine))
    command = [BUILD / "dgemm_ooc", "--dry-run", "-a", "M", "-b", "M", "--machine", plan,
               "--ranks", ranks, "--ranks-per-node", min(ranks, machine["ranks_per_node"]),
               "--report", report, matrix]
    subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL)
    return json.loads(report.read_text())


def series(folder, machine, size, points, grows):
    """Simulate so many numbers of ranks; if `grows`, the file system grows beyond the machine's nodes."""
    rows, disk = [], {key: machine[key] for key in GROWS}
    for ranks in (4**i for i in range(points)):
        factor = max(1, ranks / machine["ranks"]) if grows else 1
        now = machine | {key: disk[key] * factor for key in GROWS}
        n = round(size * ranks ** (1 / 3) / 512) * 512
        report = simulate(folder, now, ranks, n)
        result, plan = report["predicted"], report["plan"]
        rows.append({"ranks": ranks, "nodes": result["nodes"], "n": n,
                     **{key: plan[key] for key in ("grid", "tile", "slab", "super_blocks")},
                     "wall_s": result["wall_s"], "limit": result["limit"],
                     "busy": {name: r["busy_max_s"] / result["wall_s"]
                              for name, r in result["resources"].items()},
                     "disk_traffic_factor": plan["factor"]})
    for row in rows:
        row["efficiency"] = rows[0]["wall_s"] / row["wall_s"]
    return rows, report["program"]


def table(title, rows):
    print(f"{title}\n{'ranks':>6}{'nodes':>6}{'n':>9}{'grid':>8}{'wall s':>10}{'efficiency':>12}"
          "  limited by")
    for r in rows:
        print(f"{r['ranks']:6}{r['nodes']:6}{r['n']:9}{'x'.join(map(str, r['grid'])):>8}"
              f"{r['wall_s']:10.1f}{r['efficiency']:12.2f}  {r['limit']}, busy "
              f"{100 * r['busy'][r['limit']]:.0f} %; multiply {100 * r['busy']['multiply']:.0f} %")


def x_of(row, rows):
    return LEFT + (WIDTH - LEFT - RIGHT) * log2(row["ranks"]) / log2(rows[-1]["ranks"])


def y_of(efficiency, most):
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * efficiency / most


def axes(rows, most):
    for tick in range(int(most * 5 + 1e-9) + 1):
        y = y_of(tick / 5, most)
        yield (f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" class="axis"/>')
        yield text(LEFT - 8, y + 4, f"{tick / 5:.1f}", "small", "end")
    yield text(LEFT - 8, HEIGHT - BOTTOM + 18, "ranks", "small", "end")
    for row in rows:
        x = x_of(row, rows)
        yield text(x, HEIGHT - BOTTOM + 18, str(row["ranks"]), "", "middle")
        yield text(x, HEIGHT - BOTTOM + 34, f"n = {row['n']:,}", "small", "middle")


def curve(index, rows, most, beside):
    """A line labelled at each point with its bottleneck, except where it nearly coincides with `beside`."""
    points = [(x_of(r, rows), y_of(r["efficiency"], most)) for r in rows]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    yield f'<polyline points="{path}" class="s{index}"/>'
    for (x, y), row, other in zip(points, rows, beside):
        words = f"{row['limit']} {100 * row['busy'][row['limit']]:.0f} %"
        yield (f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" class="f{index}"><title>{row["ranks"]} '
               f'ranks: {row["wall_s"]:.1f} s, limited by {words}</title></circle>')
        if other is None or abs(other["efficiency"] - row["efficiency"]) > 0.02:
            under = index == 0 and x > LEFT
            yield text(x, y + (18 if under else -10), words, "small", "end" if under else "middle")


def draw(result):
    fixed, grown = (s["rows"] for s in result["series"])
    most = max(1, *(r["efficiency"] for r in fixed + grown)) * 1.1
    parts = list(axes(fixed, most))
    parts += curve(1, grown, most, fixed)
    parts += curve(0, fixed, most, [None] * len(fixed))
    parts.append(text(LEFT, 20, "Simulated weak scaling: efficiency over ranks, doubles", "title"))
    parts.append(text(LEFT, 38, result["machine"]["name"] + ", same work a rank; at each point "
                      "what limits and how busy it is", "small"))
    for i, one in enumerate(result["series"]):
        x = LEFT + 250 * i
        parts.append(f'<circle cx="{x + 4}" cy="50" r="4" class="f{i}"/>')
        parts.append(text(x + 13, 54, one["what"], "small"))
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
            f'width="{WIDTH}" role="img" aria-label="simulated weak scaling">'
            f"<style>{STYLE}</style>\n" + "\n".join(parts) + "\n</svg>\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("directory", type=Path, nargs="?", default=Path("."))
    parser.add_argument("--machine", type=Path, default=ROOT / "jobs/machines/cluster-64.json")
    parser.add_argument("--size", type=int, default=131072, help="m = n = k on one rank")
    parser.add_argument("--points", type=int, default=8, help="so many numbers of ranks")
    parser.add_argument("--folder", default="/dev/shm", help="for the sparse files")
    args = parser.parse_args()
    machine = json.loads(args.machine.read_text())
    read = machine["disk_read_bytes_per_s"] / 1e9
    result = {"machine": machine, "size_on_one_rank": args.size, "series": []}
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        for grows, what in ((False, f"file system of {read:.0f} GB/s"),
                            (True, f"grown with the nodes beyond {machine['ranks']} ranks")):
            rows, result["program"] = series(Path(folder), machine, args.size, args.points, grows)
            result["series"].append({"what": what, "rows": rows})
            table(what, rows)
    (args.directory / "scaling.json").write_text(json.dumps(result, indent=1) + "\n")
    (args.directory / "scaling.svg").write_text(draw(result))


if __name__ == "__main__":
    main()
