#!/usr/bin/env python3
"""Draw the ladder from a JSON file of gemm_bench: one SVG per type, DIRECTORY/ladder-TYPE.svg.

    ladder.py FILE.json [DIRECTORY] [--size MxNxK]

Each rung is a group of bars, one per transposition.  The percentages are geometric means relative to
cuBLAS in the same run.  The default size is the one with the most work in the file.  The pictures suit
light and dark mode."""
import argparse
import json
from html import escape
from math import exp, log
from pathlib import Path

WIDTH, LEFT, RIGHT, TOP, BAR, GAP = 760, 90, 190, 64, 10, 14
TRANS = ["NN", "NT", "TN", "TT"]
STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #24292f; }
  .title { font-weight: 600; font-size: 15px; } .small { font-size: 11px; fill: #57606a; }
  .axis { stroke: #d0d7de; } .limit { stroke: #57606a; stroke-dasharray: 4 3; }
  .NN { fill: #0969da; } .NT { fill: #2da44e; } .TN { fill: #bf8700; } .TT { fill: #cf222e; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; } .small { fill: #8d96a0; } .axis { stroke: #30363d; }
    .limit { stroke: #8d96a0; }
    .NN { fill: #4493f8; } .NT { fill: #3fb950; } .TN { fill: #d29922; } .TT { fill: #f85149; }
  }"""


def mean(values):
    """The geometric mean; None when a value is missing."""
    return exp(sum(map(log, values)) / len(values)) if values and min(values) > 0 else None


def nice_step(most):
    """A round distance between about six grid lines."""
    return next(s * 10**e for e in range(-4, 4) for s in (1, 2, 5) if most / (s * 10**e) <= 6)


class Picture:
    def __init__(self, most):
        self.parts, self.scale, self.y = [], (WIDTH - LEFT - RIGHT) / most, TOP

    def x(self, tflops):
        return LEFT + tflops * self.scale

    def text(self, x, y, words, kind="", anchor="start"):
        self.parts.append(f'<text x="{x:.0f}" y="{y:.0f}" class="{kind}" text-anchor="{anchor}">'
                          f"{escape(words)}</text>")

    def line(self, x, top, bottom, kind):
        self.parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{bottom}" '
                          f'class="{kind}"/>')

    def rung(self, name, rows):
        middle = self.y + BAR * len(rows) / 2 + 4
        self.text(LEFT - 8, middle, name, anchor="end")
        for row in rows:
            trans, tflops = row["trans"], row["tflops"]
            self.parts.append(f'<rect x="{LEFT}" y="{self.y}" width="{tflops * self.scale:.1f}" '
                              f'height="{BAR - 1}" class="{trans}">'
                              f'<title>{trans} {tflops:.2f} TFLOP/s</title></rect>')
            self.y += BAR
        words = f"{mean([r['tflops'] for r in rows]):.3g} TFLOP/s"
        share = mean([r["of_cublas"] for r in rows])
        if share and name != "cublas":
            words += f", {100 * share:.0f} % of cuBLAS"
        self.text(max(self.x(r["tflops"]) for r in rows) + 8, middle, words, "small")
        self.y += GAP


def draw(result, kind, size):
    rows = [r for r in result["rows"] if r["type"] == kind and (r["m"], r["n"], r["k"]) == size]
    rungs = {}
    for row in sorted(rows, key=lambda r: (r["number"], TRANS.index(r["trans"]))):
        rungs.setdefault(row["algorithm"], []).append(row)
    peak = max(r["peak_tflops"] for r in rows)
    most = max(peak, *(r["tflops"] for r in rows))
    p = Picture(most)
    bottom = TOP + sum(BAR * len(r) + GAP for r in rungs.values())
    for i in range(int(most / nice_step(most)) + 1):
        p.line(p.x(i * nice_step(most)), TOP - 6, bottom, "axis")
        p.text(p.x(i * nice_step(most)), bottom + 14, f"{i * nice_step(most):g}", "small", "middle")
    if peak > 0:
        p.line(p.x(peak), TOP - 6, bottom, "limit")
        p.text(p.x(peak), TOP - 10, f"peak {peak:.1f}", "small", "middle")
    for name, members in rungs.items():
        p.rung(name, members)
    p.text(LEFT, 20, f"{kind} GEMM, {'x'.join(map(str, size))}, TFLOP/s", "title")
    origin = [result["device"]["name"], result["date"][:10], result["version"]]
    p.text(LEFT, 38, ", ".join(origin), "small")
    for i, trans in enumerate(TRANS):
        x = WIDTH - RIGHT + 40 * i
        p.parts.append(f'<rect x="{x}" y="12" width="9" height="9" class="{trans}"/>')
        p.text(x + 13, 21, trans, "small")
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + 24}" '
            f'width="{WIDTH}" role="img" aria-label="{kind} GEMM ladder"><style>{STYLE}</style>\n'
            + "\n".join(p.parts) + "\n</svg>\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("directory", type=Path, nargs="?")
    parser.add_argument("--size", type=lambda s: tuple(map(int, s.split("x"))))
    args = parser.parse_args()
    result = json.loads(args.file.read_text())
    for kind in sorted({r["type"] for r in result["rows"]}):
        sizes = {(r["m"], r["n"], r["k"]) for r in result["rows"] if r["type"] == kind}
        size = args.size or max(sizes, key=lambda s: s[0] * s[1] * s[2])
        if size not in sizes:
            parser.error(f"{args.file} has no {kind} of size {size}")
        path = (args.directory or args.file.parent) / f"ladder-{kind}.svg"
        path.write_text(draw(result, kind, size))
        print(path)


if __name__ == "__main__":
    main()
