#!/usr/bin/env python3
"""Measure dgemm_ooc from file to file.  The baselines are what each part of this machine achieves alone,
and what a user would run instead on the same files.

    make bench BENCH="--only disk --repeat 5"     or     bench.py [OPTION...] [-- PROGRAM_OPTION...]

There are three regimes, named after the expected bottleneck: compute (files on a file system in
memory), link (the same with so little GPU memory that the bus is the bottleneck; only with a GPU) and
disk (files on the disk, none of them in the page cache).  Each round measures every part, the program
and every rival once, in turn; the rounds are repeated.  The first product of each rival is compared
with the program's.

--json FILE holds all results.  A series is {"median", "min", "max", "values"}, with one value per round.

    schema 1, date, commit (null: no git), arguments, repeat
    machine   cpu, cpus, threads, memory_bytes, load (1-minute average: [before, after]), device ("gpu"
              or "cpu"), device_name, gpu (null, or the fields of nvidia-smi for each GPU)
    cases     one per regime and size:
      regime, folder, cold, m, n, k, gpu_memory_bytes (null: all), host_memory_bytes (null: the
      program's default)
      ceilings  by stage (read, in, gemm, out, write): rate (series, bytes or FLOPs per second), way;
                read and write also have ways (a series per way; rate is the one with the best median),
                in and out both (series: the rate of each while both are active), gemm clock_mhz
                (series; 0: unknown)
      program   program (its version), algorithm, plan and predicted (as in the program's report),
                startup_s and wall_s (series; the wall time starts after the start-up and ends when C is
                durable), verdict, residual, detectable, host_peak_bytes, device_peak_bytes (of the
                last round),
                stages  by stage: busy_s (series), amount (bytes, FLOPs), rate (amount / median
                        busy_s), ceiling_s (the time for the amount at the ceiling's rate), of_ceiling
                        (ceiling_s / median busy_s: above 1 where a cache helps)
                busiest (stage), overlap (series: its busy time / wall), bound (the stage with the
                largest ceiling_s), efficiency (that ceiling_s / median wall_s: 1 is ideal, but out of
                reach on the CPU device, where all stages share the CPUs)
      rivals    by name: wall_s, read_s, multiply_s, write_s (series; without start-up and pinning),
                agrees (whether its C is the program's; null: it writes none), compute_only (only
                multiply_s is compared), ratio (its time / the program's wall), and where known
                peak_bytes (series) and library
      failed    by name: why a rival could not run
"""
import argparse
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from datetime import datetime, timezone
from pathlib import Path
from statistics import median

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import raw_disk  # noqa: E402
from runs import append, here  # noqa: E402
import table  # noqa: E402
from launch import BUILD, command, environment  # noqa: E402

ELEMENT, LEAST_HOST_MEMORY = 8, 16 << 20
XT_BLOCKS = "2048,4096,8192"
STAGES = ["read", "in", "gemm", "out", "write"]
SIZES = {  # without and with a GPU
    "compute": {"cpu": ["4096"], "gpu": ["16384x16384x65536"]},
    "link": {"cpu": [], "gpu": ["16384x16384x65536"]},
    "disk": {"cpu": ["256x256x131072", "8192x8192x64"], "gpu": ["16384"]},
}
GPU_MEMORY = {"compute": None, "link": 256 << 20, "disk": None}
TIMES = {"seconds": "wall_s", "start_s": "startup_s", "read_s": "read_s", "gemm_s": "multiply_s", "write_s": "write_s"}
CPUS = len(os.sched_getaffinity(0))
THREADS = os.environ.get("OMP_NUM_THREADS", str(CPUS))


class Failure(Exception):
    """A child process failed, or this machine cannot run a case."""


def say(words):
    print(f"bench: {words}", file=sys.stderr, flush=True)


def call(line):
    """Run a command and return its standard output.  OpenBLAS is left to select its kernels itself."""
    line = [str(word) for word in line]
    env = {name: value for name, value in environment().items()
           if not name.startswith("OPENBLAS_")}
    done = subprocess.run(line, env=env, capture_output=True, text=True)
    if done.returncode:
        raise Failure(f"{' '.join(line)}\nexit code {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def series(values):
    return {"median": median(values), "min": min(values), "max": max(values), "values": values}


def columns(rounds, keys=None):
    """[{a: 1, b: 2}, {a: 3, b: 4}] -> {a: series of 1 and 3, b: series of 2 and 4}."""
    return {key: series([each[key] for each in rounds]) for key in keys or rounds[0]}


# The machine


def number_after(key, path="/proc/meminfo"):
    return int(re.search(rf"^{key}\s*(\d+)", Path(path).read_text(), re.MULTILINE)[1])


def cpu_info(key):
    found = re.search(rf"^{key}\s*: (.*)", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return found[1] if found else ""


def nvidia_smi():
    fields = "name,driver_version,clocks.sm,clocks.max.sm,clocks.mem,power.draw,power.limit"
    if not shutil.which("nvidia-smi"):
        return None
    done = subprocess.run(["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"],
                          capture_output=True, text=True)
    return [dict(zip(fields.split(","), gpu.split(", "))) for gpu in done.stdout.splitlines()]


def machine_of(link):
    return {"cpu": cpu_info("model name"), "cpus": CPUS, "threads": int(THREADS),
            "memory_bytes": number_after("MemTotal:") << 10, "load": [os.getloadavg()[0]],
            "device": link["device"], "device_name": link["name"],
            "gpu": nvidia_smi() if link["device"] == "gpu" else None}


def record(result, path):
    """Append a line for the program and each rival of each case."""
    about = {"question": "rivals", "date": result["date"][:10], "commit": result["commit"], "type": "d",
             "host": f"{result['machine']['device_name']}/{CPUS}"}
    for case in result["cases"]:
        limits = {f"{x} memory": case[f"{x}_memory_bytes"] for x in ("gpu", "host")}
        this = about | {"shape": [case[x] for x in "mnk"], "note": case["regime"]} | limits
        for name, found in ({"dgemm_ooc": case["program"]} | case["rivals"]).items():
            cells = {column: found[key]["values"] for column, key in TIMES.items() if key in found}
            append(path, [this | {"command": name} | {column: values[i] for column, values in cells.items()}
                          for i in range(result["repeat"])])


# The cases


def extents(text):
    numbers = [int(x) for x in text.split("x")]
    if len(numbers) not in (1, 3) or min(numbers) < 1:
        raise argparse.ArgumentTypeError(f"{text}: give N or MxNxK")
    return numbers * (3 // len(numbers))


def quantity(text):
    found = re.fullmatch(r"(\d+)([KMGT]?)", text.upper())
    if not found:
        raise argparse.ArgumentTypeError(f"{text}: give bytes, or 512M, 8G")
    return int(found[1]) << 10 * " KMGT".index(found[2] or " ")


def matrix_bytes(m, n, k):
    return ELEMENT * (m * k + k * n + m * n)


def fits(size, folder, alone):
    """Whether there is room for the files, including a rival's C, and for its matrices in memory.  The
    files may be in memory, too."""
    files = matrix_bytes(*size) + (0 if alone else ELEMENT * size[0] * size[1])
    held = 0 if alone else matrix_bytes(*size)
    return (files < 0.8 * shutil.disk_usage(folder).free
            and files + held < 0.8 * (number_after("MemAvailable:") << 10))


def sizes_of(regime, device, folder, wanted, alone):
    """The requested sizes, which must fit, or those of the regime, reduced until they fit."""
    sizes = wanted or [extents(text) for text in SIZES[regime][device]]
    for size in sizes:
        while not wanted and not fits(size, folder, alone) and max(size) > 1:
            size[:] = [max(1, x * 3 // 4) for x in size]
        if not fits(size, folder, alone):
            raise Failure(f"{'x'.join(map(str, size))} does not fit {folder} and the memory here")
    return sizes


def cases_of(args, link, folders):
    for regime in args.only or SIZES:
        gpu, folder = link["device"] == "gpu", folders["disk" if regime == "disk" else "memory"]
        if regime == "link" and not gpu:
            continue
        for size in sizes_of(regime, link["device"], folder, args.sizes, args.alone):
            quarter = max(matrix_bytes(*size) // 4, LEAST_HOST_MEMORY)
            yield {"regime": regime, "folder": str(folder.parent), "cold": regime == "disk",
                   **dict(zip("mnk", size)),
                   "gpu_memory_bytes": args.gpu_memory or (GPU_MEMORY[regime] if gpu else None),
                   "host_memory_bytes": args.host_memory or (None if gpu else quarter)}


class Case:
    """One regime and size: its files, and how to run each part, the program and the rivals."""

    def __init__(self, case, folder, link, args):
        self.case, self.folder, self.link = case, folder, link
        self.options, self.alone = args.program_options, args.alone
        self.gpu = link["device"] == "gpu"
        self.m, self.n, self.k = (case[x] for x in "mnk")
        self.source = folder / f"{self.m}x{self.n}x{self.k}.h5"
        self.ours, self.theirs = folder / "C.h5", folder / "rival.h5"
        self.scratch = folder / "scratch"
        self.report, self.answer = folder / "report.json", folder / "answer.json"
        self.failed, self.agrees = {}, {}

    def generate(self):
        if self.source.exists():  # the previous case had the same size
            return
        for old in self.folder.glob("*.h5"):
            old.unlink()
        for seed, (name, rows, cols) in enumerate((("A", self.m, self.k), ("B", self.k, self.n))):
            call(command("h5mat", "gen", f"{self.source}:/{name}", "--rows", rows, "--cols", cols,
                         "--seed", seed + 1))

    def chill(self):
        if self.case["cold"]:
            raw_disk.drop(self.source)

    def program(self):
        """Run the program and return its report."""
        limits = [f"--{x}-memory={self.case[f'{x}_memory_bytes']}" for x in ("gpu", "host")
                  if self.case[f"{x}_memory_bytes"]]
        self.ours.unlink(missing_ok=True)  # freeing its pages is not the program's work
        self.chill()
        call(command("dgemm_ooc", self.source, "--output", self.ours, "--quiet",
                     "--device", self.link["device"], "--report", self.report, *limits,
                     *self.options))
        return json.loads(self.report.read_text())

    def kernel(self, report):
        """The rate of the GEMM alone, on a tile and slab of the plan, with its padded leading dimensions."""
        (rows, cols), slab = report["plan"]["tile"], min(report["plan"]["slab"], self.k)
        pad = next(pad for pad in (0, 16, 32) if (cols + pad) % 512 and (slab + pad) % 512)
        call(command("tests/bench/gemm_bench", "--algo", report["algorithm"], "--type", "d", "--trans", "NN",
                     "--size", f"{cols}x{rows}x{slab}", "--repeat", 3, "--ld-pad", pad,
                     "--json", self.answer))
        row = json.loads(self.answer.read_text())["rows"][0]
        return {"rate": row["tflops"] * 1e12, "clock_mhz": row["clock_mhz"]}

    def parts(self, report):
        """The rate of every part; for the disk, with every I/O method."""
        block, c_bytes = report["plan"]["slot_bytes"], ELEMENT * self.m * self.n
        link = json.loads(call([BUILD / "tests/bench/bench_link", block, *["cpu"][self.gpu:]]))
        return {"read": raw_disk.rates(lambda threads, flags: raw_disk.read_rate(
                    self.source, block, threads, flags, self.case["cold"]), CPUS),
                "write": raw_disk.rates(lambda threads, flags: raw_disk.write_rate(
                    self.scratch, c_bytes, block, threads, flags), CPUS),
                "link": {way: link[f"{way}_bytes_per_s"] for way in ("in", "out", "both")},
                "gemm": self.kernel(report)}

    def check(self, name):
        """Record whether a rival's product equals the program's up to rounding."""
        if name not in self.agrees:
            line = command("h5mat", "diff", f"{self.ours}:/C", f"{self.theirs}:/C", "--tol",
                           1e-14 * self.k)
            done = subprocess.run(line, env=environment(), capture_output=True)
            self.agrees[name] = done.returncode == 0

    def blocked(self, memory, *options):
        return json.loads(call([sys.executable, HERE / "rival_blocked.py", self.source,
                                self.theirs, "--memory", memory, *options]))

    def in_core(self):
        result = call([sys.executable, HERE / "rival_blocked.py", self.source, "--in-core"])
        return json.loads(result) | {"compute_only": True}

    def xt(self, name):
        """Sweep the block sizes in one run; each of them counts as a rival."""
        r = json.loads(call([BUILD / "tests/bench/rival_xt", self.source, self.theirs, XT_BLOCKS]))
        for block, seconds in r["multiply_s"].items():
            wall = r["read_s"] + seconds + r["write_s"]
            yield f"{name}, blocks of {block}", r | {"multiply_s": seconds, "wall_s": wall}

    def rivals(self):
        """Yield (name, function) for each rival; the function returns a result, or several with their names."""
        if self.alone:
            return
        if self.gpu:
            memory = self.case["gpu_memory_bytes"] or int(0.9 * self.link["memory_free_bytes"])
            if (BUILD / "tests/bench/rival_xt").exists():
                yield "H5Dread, cublasXt", lambda: self.xt("H5Dread, cublasXt")
            if importlib.util.find_spec("cupy"):
                yield "h5py, CuPy, same GPU memory", lambda: self.blocked(memory, "--gpu")
            return
        yield ("h5py, NumPy, same memory",
               lambda: self.blocked(self.case["host_memory_bytes"]))
        if self.case["regime"] == "compute":
            yield "NumPy in core", self.in_core

    def run_rivals(self):
        results = {}
        for name, run in self.rivals():
            self.chill()
            try:
                result = run()
                named = {name: result} if isinstance(result, dict) else dict(result)
            except Failure as failure:
                self.failed[name] = str(failure)
                continue
            for each, numbers in named.items():
                results[each] = numbers
                if "compute_only" not in numbers:
                    self.check(each)
        return results

    def round(self, report):
        return {"parts": self.parts(report), "report": self.program(), "rivals": self.run_rivals()}


# The results


def best_way(rounds):
    """The disk's I/O method with the best median."""
    ways = columns(rounds)
    way = max(ways, key=lambda name: ways[name]["median"])
    return {"way": way, "rate": ways[way], "ways": ways}


def ceilings_of(parts):
    link = columns([p["link"] for p in parts])
    kernel = columns([p["gemm"] for p in parts])
    return {"read": best_way([p["read"] for p in parts]),
            "in": {"way": "pinned", "rate": link["in"], "both": link["both"]},
            "gemm": {"way": "its tile and slab", **kernel},
            "out": {"way": "pinned", "rate": link["out"], "both": link["both"]},
            "write": best_way([p["write"] for p in parts])}


def stage_of(name, reports, ceiling):
    stages = [r["stages"][name] for r in reports]
    busy = series([s["busy_max_s"] for s in stages])
    amount = stages[0]["flops" if name == "gemm" else "bytes"]
    ceiling_s = amount / ceiling["rate"]["median"]
    return {"busy_s": busy, "amount": amount, "rate": amount / busy["median"],
            "ceiling_s": ceiling_s, "of_ceiling": ceiling_s / busy["median"]}


def program_of(reports, ceilings):
    last = reports[-1]
    stages = {name: stage_of(name, reports, ceilings[name]) for name in STAGES}
    busiest = max(stages, key=lambda name: stages[name]["busy_s"]["median"])
    bound = max(stages, key=lambda name: stages[name]["ceiling_s"])
    wall = series([r["wall_s"] for r in reports])
    overlap = series([r["stages"][busiest]["busy_max_s"] / r["wall_s"] for r in reports])
    kept = ("program", "algorithm", "plan", "predicted", "verdict", "residual", "detectable",
            "host_peak_bytes", "device_peak_bytes")
    return {key: last[key] for key in kept} | {
        "startup_s": series([r["startup_s"] for r in reports]), "wall_s": wall, "stages": stages,
        "busiest": busiest, "overlap": overlap, "bound": bound,
        "efficiency": stages[bound]["ceiling_s"] / wall["median"]}


def rival_of(name, results, agrees, wall):
    numbers = [key for key in results[0] if key.endswith("_s") or key == "peak_bytes"]
    rival = columns(results, numbers) | {key: results[0][key] for key in ("library",)
                                         if key in results[0]}
    compute_only = "compute_only" in results[0]
    seconds = rival["multiply_s" if compute_only else "wall_s"]["median"]
    return rival | {"agrees": agrees.get(name), "compute_only": compute_only,
                    "ratio": seconds / wall}


def result_of(case, rounds):
    """The JSON of a case."""
    ceilings = ceilings_of([r["parts"] for r in rounds])
    program = program_of([r["report"] for r in rounds], ceilings)
    names = [name for name in rounds[0]["rivals"] if all(name in r["rivals"] for r in rounds)]
    rivals = {name: rival_of(name, [r["rivals"][name] for r in rounds], case.agrees,
                             program["wall_s"]["median"]) for name in names}
    return case.case | {"ceilings": ceilings, "program": program, "rivals": rivals,
                        "failed": case.failed}


def measure(args, link, folders):
    for description in cases_of(args, link, folders):
        title = "{regime} {m}x{n}x{k}".format(**description)
        folder = folders["disk" if description["cold"] else "memory"]
        case = Case(description, folder, link, args)
        say(f"{title}: the matrices, and a run to warm up")
        case.generate()
        report = case.program()
        rounds = []
        for i in range(args.repeat):
            say(f"{title}: round {i + 1} of {args.repeat}")
            rounds.append(case.round(report))
        yield result_of(case, rounds)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n--json")[0],
                                     formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--folder", type=Path, default=BUILD, help="on the disk to measure")
    parser.add_argument("--memory-folder", type=Path, default=Path("/dev/shm"))
    parser.add_argument("--sizes", type=lambda text: [extents(x) for x in text.split(",")],
                        metavar="LIST", help="N or MxNxK, for every regime")
    parser.add_argument("--gpu-memory", type=quantity, metavar="SIZE", help="in every regime")
    parser.add_argument("--host-memory", type=quantity, metavar="SIZE",
                        help="default without a GPU: a quarter of the matrices")
    parser.add_argument("--device", choices=["auto", "cpu"], default="auto")
    parser.add_argument("--repeat", type=int, default=3, metavar="R")
    parser.add_argument("--alone", action="store_true", help="without rivals")
    parser.add_argument("--only", action="append", choices=list(SIZES), help="may be repeated")
    parser.add_argument("--json", type=Path, metavar="FILE", help="everything, for programs")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="append the times, in lines like those of runs.csv")
    parser.add_argument("program_options", nargs="*", metavar="PROGRAM_OPTION",
                        help="for dgemm_ooc, after --")
    return parser.parse_args()


def run(args):
    probe = [BUILD / "tests/bench/bench_link", 1 << 20, *(["cpu"] if args.device == "cpu" else [])]
    link = json.loads(call(probe))
    result = {"schema": 1, "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
              "commit": here()["commit"] or None, "arguments": sys.argv[1:], "repeat": args.repeat,
              "machine": machine_of(link), "cases": []}
    with (tempfile.TemporaryDirectory(prefix="dgemm_ooc-bench-", dir=args.folder) as disk,
          tempfile.TemporaryDirectory(prefix="dgemm_ooc-bench-", dir=args.memory_folder) as memory):
        folders = {"disk": Path(disk), "memory": Path(memory)}
        result["cases"] += measure(args, link, folders)
    result["machine"]["load"].append(os.getloadavg()[0])
    return result


def main():
    args = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        result = run(args)
    except Failure as failure:
        sys.exit(f"bench: {failure}")
    except KeyboardInterrupt:
        sys.exit(130)
    table.show(result)
    if args.json:
        args.json.write_text(json.dumps(result, indent=1) + "\n")
    if args.csv:
        record(result, args.csv)
    wrong = [name for case in result["cases"] for name, r in case["rivals"].items()
             if r["agrees"] is False]
    for case in result["cases"]:
        for name, why in case["failed"].items():
            say(f"{case['regime']}: {name} could not run: {why}")
    sys.exit(f"bench: other products than the program's: {wrong}" if wrong else 0)


if __name__ == "__main__":
    main()
