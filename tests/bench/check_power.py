#!/usr/bin/env python3
"""Measure the detection power of the product check by type, k and n.

    check_power.py [-o FILE.csv] [-- PROGRAM_OPTION...]

Each row is a run of dgemm_ooc with --verify full on random operands from h5mat.  `online` and `full` are the
errors, relative to a typical element, that the two checks would have detected.  The residuals are shares of
their limits.  FILE.csv gets lines like those of runs.csv.
"""
import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from launch import BUILD  # noqa: E402
from runs import append, here  # noqa: E402

CASES = [(100, 1024, 1024), (1000, 1024, 1024), (1000, 16, 65536), (4000, 1024, 1024), (16000, 1024, 1024),
         (100000, 128, 128), (1000000, 32, 32)]  # k, m, n


def generate(source, name, rows, cols, kind):
    subprocess.run([BUILD / "h5mat", "gen", f"{source}:/{name}", "--rows", str(rows), "--cols", str(cols),
                    "--type", kind], check=True, capture_output=True)


def measure(folder, kind, k, m, n, options):
    source, report = Path(folder) / f"{kind}{k}x{n}.h5", Path(folder) / "report.json"
    generate(source, "A", m, k, kind)
    generate(source, "B", k, n, kind)
    subprocess.run([BUILD / "dgemm_ooc", source, "-q", "--verify", "full", "--report", report, *options],
                   capture_output=True)
    found = json.loads(report.read_text())
    full = found["full_check"]
    return {"type": kind, "shape": (m, n, k), "verdict": found["verdict"],
            "online": found["detectable"], "full": full["detectable"], "online_residual": found["residual"],
            "full_residual": full["residual"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("options", nargs="*")
    args = parser.parse_args()
    about = here() | {"question": "check power", "command": " ".join(["dgemm_ooc IN.h5 --verify full", *args.options])}
    with tempfile.TemporaryDirectory() as folder:
        for kind in "ds":
            for k, m, n in CASES:
                row = measure(folder, kind, k, m, n, args.options)
                print("{type} {shape}: online {online:.2g}, full {full:.2g}: {verdict}".format(**row))
                if args.output:
                    append(args.output, [about | row])


if __name__ == "__main__":
    main()
