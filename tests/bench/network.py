#!/usr/bin/env python3
"""Compare the exchange between nodes with the throughput of the network.  The nodes are network
namespaces, each with a link of limited rate.

    network.py [RESULT.csv] [--nodes 8,4,2] [--rates 5e6,25e6] [--runs N]

For each number of nodes and rate there are two runs: one whose B all nodes need, and one whose A and B
travel along the rows and columns of a grid.  The table has the wall time, the time from the first
request for a message to the last arrival, the time that the plan predicts, and the time in which every
rank exchanges the same number of bytes with the others directly, all at once or round a ring
(raw_exchange.c).  Each time is the minimum of N runs, since the machine may be busy; the result includes
the load.  RESULT.csv gets lines like those of runs.csv.  The script needs root to create the namespaces."""
import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "system")]
from launch import FAULTY, command, environment  # noqa: E402
from matrices import operands  # noqa: E402
from namespaces import linked  # noqa: E402
from runs import append, here  # noqa: E402

MACHINE = {"device": "cpu", "ranks": 1, "ranks_per_node": 1, "threads": 1,
           "device_memory_bytes": 256 << 20, "host_memory_bytes": 1 << 30,
           "disk_read_bytes_per_s": 2e9, "disk_write_bytes_per_s": 1e9, "disk_run_bytes": 4096,
           "in_bytes_per_s": 2e9, "out_bytes_per_s": 2e9, "device_bytes_per_s": 2e9,
           "gemm_double_flops_per_s": 5e9, "gemm_float_flops_per_s": 5e9}
# The share of a link's rate: a frame of 1514 bytes carries 1448, and every two frames cause an ACK of 66.
PAYLOAD = 1448 / (1514 + 66 / 2)


def problems(nodes, scale):
    """Yield (what, m, n, k, grid, tile).  The slabs are so long that a collective completes while one slab
    is in flight and is not due for each slab: its messages queue behind parts of panels."""
    yield "B", 16 * nodes, 1024, 4096 * scale, (nodes, 1), (16, 1024, 512 * scale)
    rows = 2 if nodes < 8 else nodes // 2
    if nodes > 2:
        cols = nodes // rows
        yield ("A and B", 64 * rows, 64 * cols, 32768 * scale, (rows, cols),
               (64, 64, 4096 * scale))


def least(runs, measure):
    values = [measure() for _ in range(runs)]
    return min(values, key=lambda v: v["seconds"] if isinstance(v, dict) else v)


def raw(folder, how, nodes, bytes_each, env):
    done = subprocess.run(command(folder / "raw", how, bytes_each, ranks=nodes),
                          capture_output=True, text=True, check=True, env=environment(**env))
    return float(done.stdout.split()[-1])


def multiply(folder, source, machine, problem, nodes, env, *options):
    what, m, n, k, grid, tile = problem
    report = folder / "report.json"
    words = command(FAULTY, source, "--grid", f"{grid[0]}x{grid[1]}", "--tile",
                    "x".join(map(str, tile)), "--machine", machine, "--report", report, "--device",
                    "cpu", "-o", folder / "C.h5", "--force", "--verify", "off", ranks=nodes)
    done = subprocess.run([*words, *options], capture_output=True, text=True,
                          env=environment(**env))
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    result = json.loads(report.read_text())
    return {"seconds": result["wall_s"], "predicted": result["predicted"]["wall_s"],
            "sent_bytes": result["plan"]["sent_bytes"],
            "network_s": result["stages"]["network"]["busy_max_s"]}


def measure(folder, nodes, rate, runs):
    scale = max(1, round(rate / 5e6))
    machine = folder / "machine.json"
    machine.write_text(json.dumps(MACHINE | {"network_bytes_per_s": PAYLOAD * rate}))
    with linked(folder, nodes, rate) as env:
        for problem in problems(nodes, scale):
            what, m, n, k, grid, tile = problem
            source = folder / "input.h5"
            source.unlink(missing_ok=True)
            operands(source, m, n, k)
            row = {"nodes": nodes, "bytes_per_s": rate, "note": f"exchanged {what}", "shape": (m, n, k),
                   "grid": grid, "tile": tile, "type": "d", "ranks": nodes}
            row |= least(runs, lambda: multiply(folder, source, machine, problem, nodes, env))
            each = row["sent_bytes"] // (nodes * (nodes - 1))
            row |= {f"raw_{how}_s": least(runs, lambda: raw(folder, how, nodes, each, env))
                    for how in ("all", "ring")}
            yield row | {"load": os.getloadavg()[0]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("result", nargs="?", type=Path)
    parser.add_argument("--nodes", default="8,4,2")
    parser.add_argument("--rates", default="5e6,25e6")
    parser.add_argument("--runs", default=3, type=int)
    options = parser.parse_args()
    about = here() | {"question": "nodes", "command": f"network.py --runs {options.runs}"}
    print("nodes  MB/s  exchanged   wall s  exchange  planned  raw all   ring  load")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as scratch:
        folder = Path(scratch)
        subprocess.run(["mpicc", "-O2", HERE / "raw_exchange.c", "-o", folder / "raw"], check=True)
        for nodes in map(int, options.nodes.split(",")):
            for rate in map(float, options.rates.split(",")):
                for r in measure(folder, nodes, rate, options.runs):
                    print(f"{nodes:5}{rate / 1e6:6.0f}  {r['note'][10:]:10}{r['seconds']:8.2f}"
                          f"{r['network_s']:10.2f}{r['predicted']:9.2f}{r['raw_all_s']:9.2f}"
                          f"{r['raw_ring_s']:7.2f}{r['load']:6.1f}", flush=True)
                    if options.result:
                        append(options.result, [about | r])


if __name__ == "__main__":
    main()
