"""The bench: its JSON is complete and consistent, its table fits, and no file is left behind."""
import json
import signal
import subprocess
import sys
import time
from xml.etree import ElementTree

import pytest

from launch import BUILD, PATIENCE, ROOT, environment

sys.path.insert(0, str(ROOT / "tests/bench"))
import regimes  # noqa: E402
import runs  # noqa: E402

M, N, K = 300, 200, 400
STAGES = {"read", "in", "gemm", "out", "write"}


def start(folder, *options):
    line = [sys.executable, ROOT / "tests/bench/bench.py", "--device", "cpu", "--folder", folder,
            "--memory-folder", folder, *options]
    return subprocess.Popen(line, env=environment(DGEMM_OOC_BUILD=str(BUILD)), text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    """The table and JSON of a small bench, run once."""
    folder, answer = tmp_path_factory.mktemp("bench"), tmp_path_factory.mktemp("answer") / "x.json"
    process = start(folder, "--sizes", f"{M}x{N}x{K}", "--repeat", "2", "--json", answer)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    assert not list(folder.iterdir())
    return out, json.loads(answer.read_text())


def all_series(value):
    if isinstance(value, dict) and "median" in value:
        yield value
    elif isinstance(value, dict):
        for member in value.values():
            yield from all_series(member)


def test_describes_itself(bench):
    table, result = bench
    assert result["schema"] == 1 and result["repeat"] == 2 and result["date"]
    machine = result["machine"]
    assert machine["device"] == "cpu" and machine["gpu"] is None and len(machine["load"]) == 2
    assert machine["cpus"] >= machine["threads"] >= 1 and machine["memory_bytes"] > 0
    assert [(c["regime"], c["cold"]) for c in result["cases"]] == [("compute", False),
                                                                   ("disk", True)]
    assert max(map(len, table.splitlines()[1:])) <= 100  # the first line has the CPU's name
    assert table.count("dgemm_ooc, overlapping") == 2


@pytest.mark.parametrize("index", [0, 1], ids=["compute", "disk"])
def test_is_consistent(bench, index):
    case = bench[1]["cases"][index]
    program, stages = case["program"], case["program"]["stages"]
    assert (case["m"], case["n"], case["k"]) == (M, N, K) and case["failed"] == {}
    assert set(stages) == set(case["ceilings"]) == STAGES
    plan, amount = program["plan"], {name: s["amount"] for name, s in stages.items()}
    assert amount["in"] >= amount["read"] == plan["read_bytes"] >= 8 * (M + N) * K
    assert amount["write"] == amount["out"] == plan["write_bytes"] == 8 * M * N
    assert amount["gemm"] == 2 * M * N * K
    assert program["host_peak_bytes"] > 0 and program["verdict"] == "PASSED" and program["residual"] <= 1
    for s in all_series(case):
        assert len(s["values"]) == 2 and s["min"] <= s["median"] <= s["max"]
        assert s["min"] == min(s["values"]) and s["max"] == max(s["values"])
    for s in stages.values():
        assert s["ceiling_s"] > 0 and s["of_ceiling"] == s["ceiling_s"] / s["busy_s"]["median"]
    assert program["bound"] in STAGES and 0 < program["efficiency"] <= 1.5
    assert program["busiest"] in STAGES and 0 < program["overlap"]["median"] <= 1.5


def test_alone(tmp_path):
    answer = tmp_path / "x.json"
    process = start(tmp_path, "--sizes", f"{M}x{N}x{K}", "--repeat", "1", "--only", "compute",
                    "--alone", "--json", answer)
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    case, = json.loads(answer.read_text())["cases"]
    assert case["rivals"] == {} and set(case["program"]["stages"]) == STAGES


def test_rivals_did_the_same(bench):
    compute, disk = bench[1]["cases"]
    assert set(compute["rivals"]) == {"h5py, NumPy, same memory", "NumPy in core"}
    assert set(disk["rivals"]) == {"h5py, NumPy, same memory"}
    for case in (compute, disk):
        wall = case["program"]["wall_s"]["median"]
        for name, rival in case["rivals"].items():
            alone = name == "NumPy in core"
            assert rival["compute_only"] == alone and rival["agrees"] is (None if alone else True)
            seconds = rival["multiply_s" if alone else "wall_s"]["median"]
            assert rival["ratio"] == seconds / wall > 0 and rival["peak_bytes"]["min"] > 0


def test_jobs_beside_their_limits(tmp_path):
    """A row for each job, which the rival makes, too; no file is left."""
    line = [sys.executable, ROOT / "tests/bench/regimes.py", "--device", "cpu", "--scale", "0.01", "--repeat", "1",
            "--folder", tmp_path, "--memory-folder", tmp_path]
    done = subprocess.run(line, env=environment(DGEMM_OOC_BUILD=str(BUILD)), capture_output=True, text=True,
                          timeout=PATIENCE)
    assert done.returncode == 0 and not list(tmp_path.iterdir()), done.stderr
    _, _, head, _, *rows = done.stdout.splitlines()
    cells = [row.strip("| ").split(" | ") for row in rows]
    assert [row[0] for row in cells] == list(regimes.JOBS) and {len(row) for row in cells} == {head.count("|") - 1}
    for name, extents, seconds, predicted, limit, share, rival in cells:
        m, n, k = map(int, extents.split(" x "))
        assert m * n * k > 0 and float(seconds) > 0 and float(predicted) > 0 and float(rival) > 0
        assert limit.split(", ")[0] in regimes.TITLES.values() and float(share) > 0, (name, share)


def test_growth(tmp_path):
    """The table, the picture and the lines of runs.csv; no file is left where the matrices were."""
    files, output = tmp_path / "files", tmp_path / "output"
    files.mkdir()
    line = [sys.executable, ROOT / "tests/bench/grow.py", "measure", "--files", files, "-o", output, "--sizes", "64,128",
            "--rounds", "2", "--options=--device cpu"]
    done = subprocess.run(line, env=environment(DGEMM_OOC_BUILD=str(BUILD)), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not list(files.iterdir()) and {path.name for path in output.iterdir()} == {"grow.csv", "grow.md", "grow.svg"}
    assert ElementTree.parse(output / "grow.svg").getroot().tag.endswith("svg")
    rows = (output / "grow.md").read_text().splitlines()
    assert [row.split(" | ")[0] for row in rows[2:]] == ["| 64", "| 128"] and len(set(row.count("|") for row in rows)) == 1
    for run in runs.lines("growth", output / "grow.csv"):
        assert run["command"] in ("dgemm_ooc --device cpu", "h5py + NumPy", "h5py + CuPy")
        assert run["repeats"] == 2 and min(run["process_s"]) > 0 and run["failed"] == [0, 0] and min(run["host_bytes"]) > 1e6


def test_appends_to_a_table(tmp_path):
    answer = tmp_path / "runs.csv"
    for repeat in "1", "2":
        process = start(tmp_path, "--sizes", f"{M}x{N}x{K}", "--repeat", repeat, "--only", "compute", "--csv", answer)
        _, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, err
    lines = list(runs.lines(path=answer))
    assert [line["repeats"] for line in lines] == [1] * 3 + [2] * 3
    assert {line["command"] for line in lines} == {"dgemm_ooc", "h5py, NumPy, same memory", "NumPy in core"}
    assert all(line["shape"] == f"{M}x{N}x{K}" and min(line["seconds"]) > 0 for line in lines)


@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_leaves_nothing_when_interrupted(tmp_path, number, code):
    process = start(tmp_path, "--sizes", "1000", "--only", "disk", "--repeat", "50")
    while not list(tmp_path.rglob("*.h5")) and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(number)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == code, err
    assert out == "" and "Traceback" not in err and not list(tmp_path.iterdir())


@pytest.mark.parametrize("option", ["--sizes=3x4", "--sizes=0", "--gpu-memory=much", "--only=none"])
def test_usage(tmp_path, option):
    process = start(tmp_path, option)
    err = process.communicate(timeout=PATIENCE)[1]
    assert process.returncode == 2 and "usage" in err
