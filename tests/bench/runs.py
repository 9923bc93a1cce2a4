"""The table of all measurements, runs.csv, or another of its kind: read and append.

A line is one command on one host at one commit.  Of a command that was repeated, a cell of MEASURED has a value for
each of `repeats`, in their order and with spaces between, "-" where there is none; what is the same in all stands once.
`more` is "name=cell; name=cell", for what few questions measure.  Seconds are wall time from file to file without the
start; NAME_s is how long that stage of the busiest rank was busy; rates are GB/s, but TFLOP/s of products."""
import csv
import subprocess
from datetime import datetime, timezone
from pathlib import Path
from statistics import median

RUNS = Path(__file__).with_name("runs.csv")
WHAT = ["question", "date", "commit", "variant", "host", "command", "shape", "type", "algo", "grid", "tile", "gpus",
        "ranks", "device_tiles", "checksum", "note"]
MEASURED = ["seconds", "predicted", "start_s", "process_s", "read_s", "in_s", "gemm_s", "check_s", "out_s", "write_s",
            "network_s", "read_bytes", "in_bytes", "read_rate", "write_rate", "tflops", "of_cublas"]
COLUMNS = WHAT[:-2] + ["repeats"] + MEASURED + WHAT[-2:] + ["more"]
STAGES = ["read", "in", "gemm", "check", "out", "write"]


def numbers(cell, repeats):
    """The values of a cell, one for each repetition: numbers where they are, None where there is none."""
    def number(word):
        try:
            return None if word == "-" else float(word)
        except ValueError:
            return word
    words = cell.split()
    assert len(words) in (0, 1, repeats), cell
    return [number(word) for word in (words or ["-"]) * (repeats if len(words) < 2 else 1)]


def lines(question=None, path=RUNS):
    """The lines about a question, or all: cells of text, and a list of numbers for each cell of what was measured."""
    with open(path, newline="") as file:
        for line in csv.DictReader(file):
            if question in (None, line["question"]):
                more = dict(word.split("=", 1) for word in line.pop("more").split("; ") if word)
                repeats = line["repeats"] = int(line["repeats"])
                yield {name: cell for name, cell in line.items() if name not in MEASURED} | {
                    name: numbers(cell, repeats) for name, cell in
                    ({name: line[name] for name in MEASURED} | more).items()}


def single(question=None, path=RUNS):
    """Each repetition as a run of its own."""
    for line in lines(question, path):
        for i in range(line["repeats"]):
            yield {name: cell[i] if isinstance(cell, list) else cell for name, cell in line.items()}


def typical(line, name="seconds"):
    values = [value for value in line[name] if value is not None]
    return median(values) if values else None


def text(value):
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.0f}" if value == int(value) or abs(value) >= 1e5 else f"{value:.5g}"
    return "x".join(map(text, value)) if isinstance(value, (list, tuple)) else str(value)


def cell(values):
    words = [text(value) for value in values]
    same = words[:1] if len(set(words)) == 1 else words
    return "" if same == ["-"] else " ".join(same)


def of_report(report):
    """What a run's report says, as columns of a run."""
    plan, stages = report["plan"], report["stages"]
    return {"seconds": report["wall_s"], "predicted": report["predicted"]["wall_s"], "algo": report["algorithm"],
            "grid": plan["grid"], "tile": [*plan["tile"], plan["slab"]], "read_bytes": plan["read_bytes"],
            "read_rate": report["machine"]["disk_read_bytes_per_s"] / 1e9, "checksum": report["checksum"],
            **{f"{name}_s": stages[name]["busy_max_s"] for name in STAGES if name in stages}}


def here():
    """The date and the commit of what is measured now."""
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=RUNS.parent, capture_output=True, text=True)
    return {"date": datetime.now(timezone.utc).strftime("%Y-%m-%d"), "commit": commit.stdout.strip()}


def append(path, runs):
    """Add a line with the repetitions of a command, dicts by column.  Other names than COLUMNS go to `more`."""
    others = dict.fromkeys(name for run in runs for name in run if name not in COLUMNS)
    cells = {name: cell([run.get(name) for run in runs]) for name in [*COLUMNS, *others]}
    cells |= {"repeats": len(runs), "more": "; ".join(f"{name}={cells[name]}" for name in others)}
    path = Path(path)
    new = not path.exists() or not path.stat().st_size
    with open(path, "a", newline="") as file:
        table = csv.DictWriter(file, COLUMNS, extrasaction="ignore", lineterminator="\n")
        if new:
            table.writeheader()
        table.writerow(cells)
