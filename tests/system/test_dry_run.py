"""--dry-run makes plans for other machines, quickly, and leaves no files behind."""
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from xml.etree import ElementTree

import h5py
import pytest

from cases import each
from launch import BROKEN, BUILD, ROOT, environment, run
from matrices import multiply, operands, random, snapshot, sparse, write

GPU_NODE = {"name": "a GPU that is not there", "device": "gpu", "device_memory_bytes": 80 << 30,
            "host_memory_bytes": 200 << 30, "threads": 16, "in_bytes_per_s": 5e10,
            "out_bytes_per_s": 5e10, "gemm_double_flops_per_s": 5e13,
            "gemm_float_flops_per_s": 4.5e13, "disk_read_bytes_per_s": 2e11,
            "disk_write_bytes_per_s": 1e11, "disk_run_bytes": 65536}


@pytest.fixture
def source(tmp_path):
    operands(tmp_path / "input.h5", 400, 300, 200)
    return tmp_path / "input.h5"


@pytest.fixture
def huge(tmp_path):
    """Operands of a million by a million: 16 TB that use no disk space."""
    try:
        for name in "AB":
            sparse(tmp_path / f"{name}.h5", name, (1_000_000, 1_000_000), "f8")
    except OSError as error:
        pytest.skip(f"this file system has no sparse files of 8 TB: {error}")
    return [tmp_path / "A.h5", "-b", f"{tmp_path / 'B.h5'}:/B"]


def machine(folder, **members):
    path = folder / "machine.json"
    path.write_text(json.dumps(members))
    return ["--machine", path]


def dry_run(*options, **how):
    done = run("dgemm_ooc", "--dry-run", *options, **how)
    assert "RESULT" not in done.stdout
    return done


def plan(*options, **how):
    done = dry_run(*options, **how)
    assert (done.returncode, done.stderr) == (0, "")
    for word in ("Problem ", "Plan ", "buffers: ", "memory ", "Links ", "disk read", "multiply", "disk write",
                 "Predicted ", "lower bound"):
        assert word in done.stdout
    of_a_gpu = [word in done.stdout for word in ("host to device", "device to host", "GPU ")]
    assert of_a_gpu == [of_a_gpu[0]] * 3 and ("copies in " in done.stdout) != of_a_gpu[0], done.stdout
    return done.stdout


def test_this_machine(source):
    text = plan(source, "--beta", 2, "--transa", "N")
    assert "C = A B + 2 C\n            double; C 400x300, k 200\n" in text


def test_more_ranks_than_cpus(source):
    """A rank that shares a CPU multiplies, too: in some time, and not for ever."""
    text = plan(source, "--device", "cpu", "--ranks", 4 * os.cpu_count())
    assert "inf" not in text and "nan" not in text and "Predicted   0.0 ms" not in text


def test_more_ranks_than_cpus_multiply_no_faster(tmp_path):
    """They take turns; each plan measures the rate anew, beside other programs."""
    sparse(tmp_path / "A.h5", "A", (5000, 5000), "f8")
    rates = []
    for ranks in os.cpu_count(), 4 * os.cpu_count():
        text = plan(tmp_path / "A.h5", "-b", f"{tmp_path}/A.h5:/A", "--device", "cpu", "--ranks", ranks)
        rate, unit = re.search(r"multiply .* at +\d+ % of (\S+) (.)FLOP/s", text).groups()
        rates.append(float(rate) * ranks * {"M": 1e6, "G": 1e9, "T": 1e12}[unit])
    assert rates[1] <= 2 * rates[0]  # of 4


def test_operands_that_are_only_shapes(tmp_path):
    """They are planned as what they will be."""
    for name in "early", "late":
        with h5py.File(tmp_path / f"{name}.h5", "w") as file:
            for dataset in "AB":
                how = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
                how.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY if name == "early" else h5py.h5d.ALLOC_TIME_LATE)
                how.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
                h5py.h5d.create(file.id, dataset.encode(), h5py.h5t.IEEE_F64LE, h5py.h5s.create_simple((2000, 2000)), how)
    early, late = (re.search(r"Predicted.*", plan(tmp_path / f"{name}.h5", *machine(tmp_path, **GPU_NODE)))[0] for name in ("early", "late"))
    assert early == late


def test_leaves_nothing_behind(source):
    before = snapshot(source.parent)
    plan(source)
    assert snapshot(source.parent) == before


@pytest.mark.smoke
def test_report(source):
    path = source.with_name("report.json")
    text = plan(source, "--report", path, *machine(source.parent, **GPU_NODE), "--ranks", 8,
                "--ranks-per-node", 2, "--grid", "2x4")
    report = json.loads(path.read_text())
    predicted, plan_made = report["predicted"], report["plan"]
    resources = predicted["resources"]
    matrices = 8 * (400 * 200 + 200 * 300)
    assert predicted["nodes"] == 4 and "8 ranks, 2 on a node" in text
    limits = {"disk read": "reading the files", "multiply": "multiplying", "disk write": "writing C"}
    assert f"limited by {limits[predicted['limit']]}; " in text
    assert resources["disk read"]["bytes"] == matrices
    assert resources["disk write"]["bytes"] == 8 * 400 * 300
    assert resources["multiply"]["flops"] == 2 * 400 * 300 * 200
    assert resources["host to device"]["bytes"] > matrices
    assert predicted["wall_s"] >= max(r["busy_max_s"] for r in resources.values())
    assert plan_made["grid"] == [2, 4] and report["machine"]["ranks"] == 8


def test_machine_that_is_not_there(source):
    text = plan(source, *machine(source.parent, **GPU_NODE), "--ranks", 64, "--ranks-per-node", 4)
    assert GPU_NODE["name"] in text and "64 ranks, 4 on a node" in text
    assert "of 80.0 GiB" in text and "of 200 GiB" in text


def test_a_gpu_that_is_not_there_has_the_rates_of_one(source):
    text = plan(source, *machine(source.parent, device="gpu"))
    assert re.search(r"host to device .* at +\d+ % of 50\.0 GB/s", text)
    assert re.search(r"multiply .* at +\d+ % of [\d.]+ TFLOP/s", text) and "of 70.8 GiB" in text


def test_forced_grid_and_tile(source):
    text = plan(source, "--ranks", 6, "--grid", "2x3", "--tile", "50x40x32")
    assert "grid 2x3, tile 50x40, 32 of k in a step" in text
    assert "4x3 rounds of a tile on each rank, 7 steps along k each" in text


def test_a_reports_machine_is_a_machine_file(source):
    first, second = (source.parent / f"report{i}.json" for i in range(2))
    plan(source, *machine(source.parent, **GPU_NODE), "--report", first)
    stated = json.loads(first.read_text())["machine"]
    assert stated["disk_read_bytes_per_s"] == GPU_NODE["disk_read_bytes_per_s"]
    assert stated["device_memory_bytes"] == GPU_NODE["device_memory_bytes"]
    plan(source, *machine(source.parent, **stated), "--report", second)
    again = json.loads(second.read_text())
    assert again["machine"] == stated
    assert again["plan"] == json.loads(first.read_text())["plan"]
    stated = multiply(source)["machine"]
    plan(source, *machine(source.parent, **stated), "--report", second)
    assert json.loads(second.read_text())["machine"] == stated


def test_limits_of_the_command_line_win_over_the_machine_file(source):
    text = plan(source, *machine(source.parent, **GPU_NODE), "--gpu-memory", "3G")
    assert "of 3.00 GiB" in text


def test_needs_no_mpi(source):
    plan(source, **BROKEN)


def test_speaks_once_under_a_launcher(source):
    assert plan(source, ranks=3).count("Predicted ") == 1


@each("members, words", [
    ({"disk_read": 1}, '"disk_read" is not a key of a machine file; see'),
    ({"zoom": 1}, '"zoom" is not a key of a machine file; see man dgemm_ooc'),
    ({"network_bytes_per_s": 0}, '"network_bytes_per_s" is 0; give a number above 0'),
    ({"files_in_memory": 1}, '"files_in_memory" is 1; give true or false'),
    ({"threads": -1}, '"threads" is -1; give a whole number from 1'),
    ({"ranks": 1.5}, '"ranks" is 1.5; give a whole number'),
    ({"host_memory_bytes": "8G"}, '"host_memory_bytes" is "8G"; give a number above 0 and below 2^62, without a unit'),
    ({"device": "tpu"}, '"device" is "tpu"; give "gpu" or "cpu"'),
    ({"name": 7}, '"name" is 7; give a text'),
    ({"sources": {"disk": "given"}}, '"sources": leave it out'),
    ({"sources": 1}, '"sources": leave it out'),
])
def test_bad_machine_file(source, members, words):
    """The complaint names the key, the error and the allowed values."""
    done = dry_run(source, *machine(source.parent, **members))
    assert done.returncode == 2 and words in done.stderr and done.stdout == ""
    assert done.stderr.count("\n") == 1


def test_machines_that_come_with_the_program(source):
    text = plan(source, "--machine", "h200-node")
    assert "4 NVIDIA H200" in text and "4 ranks" in text
    done = dry_run(source, "--machine", "h2000")
    assert done.returncode == 2
    assert "h2000: there is neither such a file nor a machine of that name; name a file, or one of" in done.stderr
    assert "h200-node" in done.stderr


def test_machines_that_do_not_come_with_the_program(source):
    program = source.with_name("dgemm_ooc")
    shutil.copy(BUILD / "dgemm_ooc", program)
    done = subprocess.run([program, "--dry-run", source, "--machine", "h200-node"], capture_output=True, text=True)
    assert done.returncode == 2 and "the folder of machine files is not beside this program" in done.stderr


def test_numbers_say_where_they_are_from(source):
    """The plan and the report state the sources of limits and rates; the report's machine is a valid machine
    file."""
    path = source.with_name("report.json")
    text = plan(source, "--host-memory", "100M", *machine(source.parent, in_bytes_per_s=5e9),
                "--report", path)
    assert " of 100 MiB (given)" in text and "(half of what is available)" in text
    assert re.search(r"copies in .* at 100 % of 5.00 GB/s .*\(given\)", text)
    assert re.search(r"multiply .*\(assumed\)", text)
    stated = json.loads(path.read_text())["machine"]
    sources = stated["sources"]
    assert (sources["in_bytes_per_s"], sources["host_memory_bytes"]) == ("given", "given")
    assert (sources["out_bytes_per_s"], sources["device_memory_bytes"]) == ("assumed", "measured")
    plan(source, *machine(source.parent, **stated), "--report", path)
    assert json.loads(path.read_text())["machine"] == stated


@each("shape", [(3000, 3000, 3000), (200, 200, 600_000)])
def test_products_are_measured_on_a_cpu(tmp_path, shape):
    """The rate of large products on this CPU is measured, of their type; a machine file's, or of small ones, is not."""
    m, n, k = shape
    path, file = tmp_path / "report.json", tmp_path / "input.h5"
    sparse(file, "A", (m, k), "f8")
    sparse(file, "B", (k, n), "f8")

    def stated(*options):
        plan(file, "--device", "cpu", "--report", path, *options)
        found = json.loads(path.read_text())["machine"]
        return [found["sources"][f"gemm_{name}_flops_per_s"] for name in ("double", "float")], found

    sources, here = stated()
    assert sources == ["measured", "assumed"] and 1e8 < here["gemm_double_flops_per_s"] < 1e14
    assert stated("--type", "s")[0] == ["assumed", "measured"]
    assert stated(*machine(tmp_path, gemm_double_flops_per_s=1e10))[0] == ["given", "assumed"]


def test_one_prediction(source):
    """A dry run prints one prediction, that of the simulation; with -q it prints nothing else."""
    rates = machine(source.parent, **multiply(source)["machine"])
    found = {options: dry_run(source, *rates, *options).stdout for options in [(), ("-v",), ("-q",)]}
    assert all(text.count("Predicted ") == 1 for text in found.values())
    assert found["-q",].startswith("Predicted ") and found["-q",].count("\n") == 2
    assert found[()].endswith(found["-q",])


@pytest.mark.parametrize("text", ["", "[]", "{", '{"threads": 1, "threads": 2}'])
def test_machine_file_that_is_no_object(source, text):
    path = source.with_name("machine.json")
    path.write_text(text)
    done = dry_run(source, "--machine", path)
    assert done.returncode == 2 and str(path) in done.stderr
    assert len(done.stderr.splitlines()) == 1 and "line -1" not in done.stderr
    assert ("not JSON: " in done.stderr) == (text != "[]")


def test_missing_machine_file(source):
    done = dry_run(source, "--machine", source.with_name("none.json"))
    assert done.returncode == 2 and "none.json" in done.stderr


@pytest.mark.parametrize("options", [["--gpu-memory", "1K"], ["--host-memory", "1K"]],
                         ids=["device", "host"])
def test_limits_too_small(source, options):
    done = dry_run(source, *options)
    assert done.returncode == 4
    smallest = re.search(f"at least {options[0]} ([0-9]+K)", done.stderr).group(1)
    plan(source, options[0], smallest)


def test_an_output_is_mapped_or_written_directly_not_both(tmp_path):
    """With small operands and a large C, only the host memory of one write method is counted."""
    write(tmp_path / "input.h5", A=random((6000, 16), "f8", 1), B=random((16, 6000), "f8", 2))
    plan(tmp_path / "input.h5", "--device", "cpu", "--host-memory", "24M")


def test_bad_input_is_bad_here_too(source):
    with h5py.File(source, "a") as file:
        del file["B"]
    done = dry_run(source)
    assert done.returncode == 3 and 'no dataset "B"' in done.stderr


def test_huge_problem_on_many_ranks_is_planned_quickly(huge, tmp_path):
    def cpu_s():
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    start = cpu_s()
    text = plan(*huge, *machine(tmp_path, **GPU_NODE), "--ranks", 1024, "--ranks-per-node", 8)
    assert cpu_s() - start < 3
    assert "C 1000000x1000000, k 1000000" in text and "7.28 TiB" in text
    plan(*huge, *machine(tmp_path, **GPU_NODE), "--ranks", 16384, "--ranks-per-node", 8)
    assert cpu_s() - start < 10


@pytest.mark.parametrize("file", sorted((ROOT / "jobs/machines").glob("*.json")),
                         ids=lambda file: file.stem)
def test_machine_files(source, file):
    machine = json.loads(file.read_text())
    text = plan(source, "--machine", file)
    assert machine["name"] in text
    assert f"{machine['ranks']} ranks, {machine['ranks_per_node']} on a node" in text


def test_rows_that_the_device_keeps(source, tmp_path):
    """A's panels for the next row come ahead where the device has room for both; so it is with a second tile."""
    keeps = "  GPU       holds rows of A for all tiles of a row"
    for memory, also in ("64M", ", and those of the next row"), ("270K", ""):
        text = plan(source, "--tile", "64x64x32", "--gpu-memory", memory, *machine(tmp_path, **GPU_NODE))
        assert f"{keeps}{also}\n" in text, (memory, text)
        assert ("  GPU       holds two tiles of C" in text) == bool(also), (memory, text)


def test_limits_that_cost_much(huge, tmp_path):
    """Advice is for dry runs, too, and names what the machine would have without the limit."""
    limited = plan(*huge, *machine(tmp_path, **GPU_NODE), "--ranks", 8, "--gpu-memory", "1G")
    assert re.search(r"--gpu-memory of 1.00 GiB: this takes\n +about .*; with 80.0 GiB about ", limited)
    assert "Note  " not in plan(*huge, *machine(tmp_path, **GPU_NODE), "--ranks", 8)


def test_files_in_memory(huge, tmp_path):
    """If the files are in memory, the host does not cache them."""
    for there in (False, True):
        text = plan(*huge, *machine(tmp_path, **GPU_NODE, files_in_memory=there), "--ranks", 8,
                    "--ranks-per-node", 8)
        assert ("  cache " in text) != there


def test_where_the_output_lies(tmp_path):
    """Writing is as fast as where C goes, wherever A and B come from; a machine file says it, or that all is there."""
    kinds = {folder: subprocess.run(["stat", "-f", "-c", "%T", folder], capture_output=True, text=True).stdout.strip()
             for folder in (tmp_path, "/dev/shm")}
    if kinds["/dev/shm"] != "tmpfs" or kinds[tmp_path] == "tmpfs":
        pytest.skip("no file system in memory beside one that is not")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as memory:
        for folder in tmp_path, Path(memory):
            source = folder / "input.h5"
            operands(source, 30, 20, 10)
            for other in tmp_path, Path(memory):
                report = multiply(source, "-o", other / "output.h5", "-f")
                rate = report["machine"]["disk_write_bytes_per_s"]
                there = {"files_in_memory": folder != tmp_path, "output_in_memory": other != tmp_path}
                assert there.items() <= report["machine"].items() and (rate != 1.5e9) == there["output_in_memory"]
        report = multiply(source, "-f", *machine(tmp_path, output_in_memory=False, files_in_memory=True))
        assert report["machine"]["files_in_memory"] and not report["machine"]["output_in_memory"]
        report = multiply(tmp_path / "input.h5", "-f", *machine(tmp_path, files_in_memory=True))
        assert report["machine"]["output_in_memory"]


def predicted_runs(tmp_path, *arguments):
    """Each recorded run, with the ratio of its predicted to its measured time."""
    script = [sys.executable, ROOT / "tests/bench/predicted.py", *arguments, "-o",
              tmp_path / "predicted.json"]
    subprocess.run(script, check=True, stdout=subprocess.DEVNULL,
                   env=environment(DGEMM_OOC_BUILD=str(BUILD)))
    return json.loads((tmp_path / "predicted.json").read_text())["runs"]


def test_runs_that_were_measured_are_predicted(tmp_path):
    """Runs with small and large memories on one, two and four GPUs: nearly all predictions are close, and all
    of those for the latest versions.  The runs drained their tiles in more strips than current plans have."""
    runs = predicted_runs(tmp_path)
    ratios = [run["ratio"] for run in runs]
    assert len(ratios) == 254 and abs(median(ratios) - 1) < 0.01
    assert sum(abs(ratio - 1) <= 0.1 for ratio in ratios) >= 0.93 * len(ratios)
    assert 0.86 <= min(ratios) and max(ratios) <= 1.145
    last = [run["ratio"] for run in runs if run["commit"] in ("a1e5564", "b461e3a", "3826b85", "2f63cd8")]
    assert len(last) == 84 and all(abs(ratio - 1) < 0.09 for ratio in last)


def test_runs_from_a_disk_are_predicted(tmp_path):
    runs = predicted_runs(tmp_path, "disk")
    assert len(runs) == 36 and all(abs(run["ratio"] - 1) < 0.08 for run in runs)


def test_weak_scaling_is_drawn(tmp_path):
    file = tmp_path / "machine.json"
    file.write_text(json.dumps(GPU_NODE | {"ranks": 64, "ranks_per_node": 4}))
    script = [sys.executable, ROOT / "tests/bench/scaling.py", tmp_path, "--machine", file]
    done = subprocess.run([*script, "--size", "4096", "--points", "6"], capture_output=True, text=True,
                          env=environment(DGEMM_OOC_BUILD=str(BUILD)))
    assert done.returncode == 0, done.stderr
    for series in json.loads((tmp_path / "scaling.json").read_text())["series"]:
        assert [row["ranks"] for row in series["rows"]] == [4**i for i in range(6)]
        assert series["rows"][0]["efficiency"] == 1
        assert all(row["wall_s"] > 0 for row in series["rows"])
    assert ElementTree.parse(tmp_path / "scaling.svg").getroot().tag.endswith("svg")


def test_a_launcher_says_how_many_ranks(tmp_path):
    operands(tmp_path / "input.h5", 60, 50, 40)
    done = run("dgemm_ooc", tmp_path / "input.h5", "--dry-run", ranks=3)
    assert done.returncode == 0 and "3 ranks, 3 on a node" in done.stdout
    assert done.stdout.count("Plan ") == 1


def test_a_launcher_says_how_many_ranks_share_a_computer(source):
    text = plan(source, OMPI_COMM_WORLD_SIZE="8", OMPI_COMM_WORLD_LOCAL_SIZE="4")
    assert "8 ranks, 4 on a node" in text
    assert "1 rank" in plan(source, OMPI_COMM_WORLD_SIZE="0")  # an invalid value of a launcher
