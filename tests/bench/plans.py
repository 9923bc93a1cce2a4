#!/usr/bin/env python3
"""Compare the plan's choice with other, forced tiles: how close it comes to the best of them, and how
well it predicts its own time.  The runs alternate.

    plans.py FOLDER [--size N] [--memory 4G,2G,1G] [--trans NN,TT] [--tiles 10] [--rounds 2]
             [--launcher "mpirun -n 2"] [-o FILE.csv]

The script creates A and B of N x N doubles in FOLDER, which must have room for three such matrices.  FILE.csv gets
lines like those of runs.csv."""
import argparse
import json
import shlex
import subprocess
import sys
from pathlib import Path
from statistics import median

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from launch import BUILD, environment  # noqa: E402
from runs import append, here, of_report  # noqa: E402

ELEMENT, GRANULE, QUANTUM, SLAB_MAX = 8, 16, 128, 8192
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def up(number, multiple):
    return -(-number // multiple) * multiple


def slab_beside(rows, cols, elements):
    """The longest slab for which two panels each of A and B fit beside the tile; 0 when none does."""
    left = 0.94 * elements - rows * cols
    return min(SLAB_MAX, int(left / (2.1 * (rows + cols))) // QUANTUM * QUANTUM)


def tiles(n, memory, wanted):
    """Tiles with long and with short slabs: the ones with the least traffic for each range of slab lengths."""
    found = {}
    for down in range(1, 33):
        for across in range(1, 33):
            rows, cols = up(-(-n // down), GRANULE), up(-(-n // across), GRANULE)
            slab = slab_beside(rows, cols, memory // ELEMENT)
            if slab >= 2 * QUANTUM:
                found.setdefault(slab.bit_length(), []).append((down + across, rows, cols, slab))
    lengths = [sorted(each) for each in found.values()]
    chosen = []
    for rank in range(wanted):
        chosen += [each[rank] for each in lengths if rank < len(each)]
    return [f"{rows}x{cols}x{slab}" for _, rows, cols, slab in chosen[:wanted]]


def multiply(launcher, folder, memory, trans, options):
    report = folder / "report.json"
    line = [*launcher, BUILD / "dgemm_ooc", folder / "ab.h5", "-o", folder / "c.h5", "--force", "-q",
            "--report", report, "--gpu-memory", memory, "--transa", trans[0], "--transb", trans[1],
            *options]
    done = subprocess.run([str(word) for word in line], env=environment(), capture_output=True,
                          text=True)
    if done.returncode:
        return {"failed": done.stderr.strip()[-300:]}
    words = [*launcher, "dgemm_ooc ab.h5 --gpu-memory", memory, "--transa", trans[0], "--transb", trans[1], *options]
    return of_report(json.loads(report.read_text())) | {"command": " ".join(words)}


def case(arguments, launcher, memory, trans):
    forced = tiles(arguments.size, int(memory[:-1]) * UNITS[memory[-1]], arguments.tiles)
    runs = {name: [] for name in ["plan", *forced]}
    for _ in range(arguments.rounds):
        for name in runs:
            options = [] if name == "plan" else ["--tile", name]
            runs[name].append(multiply(launcher, arguments.folder, memory, trans, options))
    return {"memory": memory, "trans": trans, "runs": runs}


def show(found):
    def wall(name):
        walls = [run["seconds"] for run in found["runs"][name] if "seconds" in run]
        return median(walls) if walls else float("inf")

    best, plan = min(found["runs"], key=wall), found["runs"]["plan"][0]
    print(f"{found['trans']} {found['memory']}: plan {plan.get('tile')} took "
          f"{wall('plan'):.2f} s, predicted {plan.get('predicted', 0):.2f}; "
          f"best {best} {wall(best):.2f} ({wall('plan') / wall(best):.3f} x)", flush=True)
    for name, runs in found["runs"].items():
        run = runs[0]
        print(f"    {name:20}", *(f"{each.get('seconds', 0):6.2f}" for each in runs),
              f" predicted {run.get('predicted', 0):6.2f}", run.get("failed", ""), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--size", type=int, default=49152)
    parser.add_argument("--memory", default="4G,2G,1G")
    parser.add_argument("--trans", default="NN,TT")
    parser.add_argument("--tiles", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--launcher", default="")
    parser.add_argument("-o", "--output", type=Path)
    arguments = parser.parse_args()
    for seed, name in enumerate("AB"):
        subprocess.run([BUILD / "h5mat", "gen", f"{arguments.folder}/ab.h5:/{name}", "--force", "--rows",
                        str(arguments.size), "--cols", str(arguments.size), "--seed", str(seed + 1)],
                       env=environment(), check=True, stdout=subprocess.DEVNULL)
    launcher = shlex.split(arguments.launcher)
    about = here() | {"question": "plans", "shape": [arguments.size] * 3, "type": "d"}
    for _ in range(2):  # warm-up: touches the memory of the output beside which the next one is written
        multiply(launcher, arguments.folder, "4G", "NN", [])
    for memory in arguments.memory.split(","):
        for trans in arguments.trans.split(","):
            found = case(arguments, launcher, memory, trans)
            show(found)
            for runs in found["runs"].values() if arguments.output else []:
                append(arguments.output, [about | run for run in runs])


if __name__ == "__main__":
    main()
