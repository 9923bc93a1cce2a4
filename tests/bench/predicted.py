#!/usr/bin/env python3
"""Predict the times of measured runs from their plans and rates, and compare them with the measurements.

    predicted.py [QUESTION] [--commit C]... [-o FILE.json]

The runs of "file to file" and of "disk" in runs.csv state the bytes that they moved, and the busy time per stage.
Runs with a note had something else to do.  The matrix files created here are sparse and take no space, but the
file system must allow their size; /dev/shm does."""
import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "system")]
from launch import BUILD, FAULTY, environment  # noqa: E402
from matrices import sparse  # noqa: E402
from runs import single  # noqa: E402

# Values that the results do not state, and limits that none of the runs came close to.
MACHINE = {"device": "gpu", "compute_capability": 90, "threads": 16, "device_memory_bytes": 141e9,
           "host_memory_bytes": 100e9, "device_bytes_per_s": 2.5e12, "disk_run_bytes": 1}
GEMM_BLOCK = 128
COPYING = 1.5  # beside_copies() of planner_rates.c
PACE_BESIDE_WRITING = 0.6  # by planner_rates.c for 16 readers and 8 writers on 16 CPUs


def extents(words):
    return [int(word) for word in words.split("x")]


def computed(extent, tile):
    """The extent that the device computes, in whole blocks as in planner_rates.c."""
    return extent * -(-tile // GEMM_BLOCK) * GEMM_BLOCK / tile


def layers_of(run):
    """One run of an earlier version was made with layers, by an option."""
    return 2 if "--split-k 2" in run["command"] else 1


def sums_of(run):
    """The sums that the program for tests is to plan for: without layers these runs had one."""
    one = {} if layers_of(run) > 1 else {"DGEMM_OOC_TEST_BLOCK": run["shape"].split("x")[2]}
    return {"DGEMM_OOC_TEST_LAYERS": str(layers_of(run)), **one}


def machine(run, in_memory):
    """The rates of the run: over all ranks for the file system, per rank for the rest.  The results of a
    run with more ranks than GPUs state both numbers.  A disk does not read while it writes; memory is read at
    a slower pace then, which is taken to have been so for half of the writing."""
    m, n, k = extents(run["shape"])
    ranks, result = int(run["ranks"]), 8 * m * n
    beside = 0 if in_memory else result
    slower = 0.5 * (1 - PACE_BESIDE_WRITING) * run["write_s"] * run["read_s"] / run["seconds"] if in_memory else 0
    layers = layers_of(run)
    # By planner_rates.c reading is slower where several GPUs copy a panel.
    copies = sum(extents(run["grid"])) / 2 if in_memory else 1
    beside_copies = (1 + COPYING) / (1 + COPYING * copies)
    rows, cols = map(computed, (m, n), extents(run["tile"]))
    return MACHINE | {
        "files_in_memory": in_memory,
        "ranks": ranks, "ranks_per_node": ranks,
        "disk_read_bytes_per_s": (run["read_bytes"] + beside) / (run["read_s"] - slower) / beside_copies,
        "disk_write_bytes_per_s": result / run["write_s"],
        "in_bytes_per_s": run["in_bytes"] / ranks / run["in_s"],
        "out_bytes_per_s": result / (ranks / layers) / run["out_s"],
        "gemm_double_flops_per_s": 2 * rows * cols * k / ranks / run["gemm_s"]}


def predict(folder, run, in_memory):
    m, n, k = extents(run["shape"])
    matrix, rates, report = (folder / name for name in ("ab.h5", "machine.json", "report.json"))
    matrix.unlink(missing_ok=True)
    sparse(matrix, "A", (m, k), "f8")
    sparse(matrix, "B", (k, n), "f8")
    rates.write_text(json.dumps(machine(run, in_memory)))
    options = re.sub("--(trace|html) FILE|--split-k (off|2)", "", run["command"].partition("B.h5:/B")[2])
    # The check needs more device memory now than in these runs, whose tiles are kept.
    options = re.sub(r"(--gpu-memory )(\d+)([MG])", lambda found: found[1] + str(
        int(int(found[2]) * 1024 ** "KMG".index(found[3]) * 1.05)) + "K", options).split()
    # These runs had one tile on the device, which the program for tests can plan for.
    subprocess.run([BUILD / FAULTY, "--dry-run", matrix, "--machine", rates, "--grid", run["grid"],
                    "--tile", run["tile"], "--report", report, *options], check=True,
                   stdout=subprocess.DEVNULL,
                   env=environment(DGEMM_OOC_TEST_ROOM="0", **sums_of(run)))
    return json.loads(report.read_text())["predicted"]["wall_s"]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("question", nargs="?", default="file to file")
    parser.add_argument("--commit", action="append", help="of these runs only; more than once")
    parser.add_argument("-o", "--output", type=Path)
    arguments = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        for run in single(arguments.question):
            if run["note"] or (arguments.commit and run["commit"] not in arguments.commit):
                continue
            wall_s = predict(Path(folder), run, arguments.question != "disk")
            rows.append({key: run[key] for key in ("commit", "gpus", "shape", "command", "seconds")}
                        | {"predicted_s": round(wall_s, 3), "ratio": round(wall_s / run["seconds"], 3)})
            print("{commit} {gpus} GPUs, {shape}, {command}: {seconds:.2f} s, predicted "
                  "{predicted_s:.2f}, ratio {ratio:.2f}".format(**rows[-1]))
    ratios = [row["ratio"] for row in rows]
    near = sum(abs(ratio - 1) <= 0.1 for ratio in ratios)
    print(f"{near} of {len(ratios)} within 10 %; median {statistics.median(ratios):.3f}, "
          f"{min(ratios):.2f} to {max(ratios):.2f}")
    if arguments.output:
        arguments.output.write_text(json.dumps({"question": arguments.question, "runs": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
