"""Memory use stays within the limits, and every byte that the plan counts is moved once."""
import fcntl
import functools
import json
import os
import pathlib
import re
import select
import subprocess

import h5py
import pytest

from cases import each
from launch import GPU, SANITIZED, WAYS, run, start
from matrices import linked, multiply, operands, whole

pytestmark = pytest.mark.skipif(SANITIZED, reason="sanitizers take memory of their own")


def assert_kept(report):
    machine, plan, stages = report["machine"], report["plan"], report["stages"]
    assert report["host_peak_bytes"] <= plan["host_bytes"] <= machine["host_memory_bytes"]
    assert report["device_peak_bytes"] <= plan["device_bytes"] <= machine["device_memory_bytes"]
    assert stages["read"]["bytes"] == plan["read_bytes"]
    assert stages["in"]["bytes"] == plan["in_bytes"]
    if machine["ranks"] == 1:
        assert stages["read"]["bytes"] + stages["cache"]["bytes"] == plan["in_bytes"]
    assert stages["write"]["bytes"] == stages["out"]["bytes"] == plan["write_bytes"]


def limits(options, device):
    """With a GPU, kernels are also loaded into host memory."""
    if device == "gpu" and not GPU:
        pytest.skip("the memory of an emulated GPU is the host's")
    options = list(options)
    if device == "gpu" and "--host-memory" in options:
        at = options.index("--host-memory") + 1
        options[at] = f"{int(options[at][:-1]) + 12}M"
    return options


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Makes the operands of a product, each once."""
    @functools.cache
    def of(*product):
        source = tmp_path_factory.mktemp("made") / "input.h5"
        operands(source, *product)
        return source
    return of


@pytest.mark.singly
@pytest.mark.parametrize("ranks", [0, 2])
@pytest.mark.parametrize("size, dtype, options", [
    ((2000, 2000, 2000), "f8", ["--host-memory", "16M"]),
    ((2000, 2000, 2000), "f4", ["--host-memory", "12M", "--beta", "1"]),
    ((1000, 1300, 1700), "f8", ["--host-memory", "24M", "--gpu-memory", "512K", "--beta", "2"]),
    ((3000, 30, 3000), "f8", ["--host-memory", "10M", "--transa", "T", "--verify", "off"]),
    ((20, 4000, 3000), "f4", ["--host-memory", "10M", "--transb", "T"]),
    ((3000, 2500, 3), "f8", ["--host-memory", "10M"]),
    ((900, 800, 700), "f8", ["--host-memory", "40M", "--io", "hdf5"]),
    ((900, 800, 700), "f8", ["--host-memory", "64M", "--io", "direct", "--beta", "1"]),
    ((2000, 2500, 30), "f8", ["--host-memory", "32M", "--io", "mapped"]),
    ((900, 800, 700), "f8", []),
], ids=lambda value: "x".join(map(str, value)) if isinstance(value, tuple) else None)
def test_limits_are_kept_and_bytes_add_up(tmp_path, made, device, ranks, size, dtype, options):
    if not {"direct", "mapped"} & set(options) <= set(WAYS):
        pytest.skip("this way of moving bytes is not to be had here")
    options, trans = limits(options, device), "".join("T" if f"--trans{x}" in options else "N" for x in "ab")
    source = linked(made(*size, dtype, trans), tmp_path)
    assert_kept(multiply(source, *options, ranks=ranks, device=device))


def memory_of(process):
    """Bytes in memory of what no file has."""
    text = pathlib.Path(f"/proc/{process.pid}/smaps_rollup").read_text()
    return sum(map(int, re.findall(r"Pss_(?:Anon|Shmem): *([0-9]+) kB", text))) << 10


def peak_and_rest(source, *options):
    """The most memory, as seen now and then, and what is left of it when the report is written, of which the first
    bytes fill the pipe."""
    most = 0
    with start("dgemm_ooc", source, "--force", "--verify", "full", "--report", "-", *options,
               OMP_NUM_THREADS="2") as process:
        fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, 4096)
        while not select.select([process.stdout], [], [], 0.005)[0]:
            most = max(most, memory_of(process))
        rest = memory_of(process)
        out, err = process.communicate()
        assert process.returncode == 0 and len(out) > 4096, err
    return most, rest


@pytest.mark.parametrize("dtype", ["f8", "i1"])
def test_the_next_phase_has_the_memory_of_the_one_before(tmp_path, dtype):
    """What malloc has got back, the system has to get back, too: none of it is left at the end."""
    small, large = tmp_path / "small.h5", tmp_path / "large.h5"
    operands(small, 1, 1, 1, dtype)
    operands(large, 3000, 700, 9000, dtype)
    least, kept = peak_and_rest(small)
    for limit in (18 << 20, 20 << 20, 22 << 20):
        peak, rest = peak_and_rest(large, "--host-memory", limit)
        assert peak - least <= limit
        assert rest - kept <= 2 << 20


@pytest.mark.singly
@pytest.mark.parametrize("ranks", [0, 2])
@pytest.mark.parametrize("chunks, options", [
    ((128, 128), ["--host-memory", "32M"]),
    ((600, 500), ["--host-memory", "48M", "--beta", "1"]),
    ((1, 1100), ["--host-memory", "48M", "--transa", "T", "--transb", "T"]),
    ((16, 16), ["--type", "s", "--beta", "2"]),
], ids=lambda value: "x".join(map(str, value)) if isinstance(value, tuple) else None)
def test_chunks_are_counted(tmp_path, device, ranks, chunks, options):
    source, size = tmp_path / "input.h5", 1100
    with h5py.File(source, "w") as file:
        for seed, name in enumerate("ABC"):
            file.create_dataset(name, data=whole((size, size), seed=seed), chunks=chunks,
                                compression="gzip", compression_opts=1, shuffle=True)
    assert_kept(multiply(source, *limits(options, device), ranks=ranks, device=device))


@pytest.mark.parametrize("count, shape, stored, most", [
    (1, (2000, 4000), {"chunks": (2000, 4000), "compression": 1}, 320),  # of 61 MiB: decoded into the cache, once
    (8, (1000, 500), {"chunks": (1000, 250), "compression": 1}, 90),
    (300, (4, 300), {}, 260),
    (300, (4, 300), {"chunks": (2, 100)}, 300),
], ids=["a large chunk", "chunks", "many files", "many files of chunks"])
def test_sources_of_a_virtual_dataset_are_counted(tmp_path, count, shape, stored, most):
    """What they need is not more than it may be, and enough.  `most` is in MiB."""
    small, source = tmp_path / "small.h5", tmp_path / "input.h5"
    operands(small, 1, 1, 1)
    layout = h5py.VirtualLayout((count * shape[0], shape[1]), "f8")
    for i in range(count):
        with h5py.File(tmp_path / f"s{i}.h5", "w") as file:
            file.create_dataset("X", data=whole(shape, seed=i), dtype="f8", **stored)
        layout[i * shape[0]:(i + 1) * shape[0]] = h5py.VirtualSource(f"s{i}.h5", "X", shape)
    with h5py.File(source, "w") as file:
        file.create_virtual_dataset("A", layout)
        file["B"] = whole((shape[1], 100), seed=count)
    refused = run("dgemm_ooc", source, "--host-memory", "10M")
    assert refused.returncode == 4, refused.stderr
    needed = int(re.search("give at least --host-memory ([0-9]+)K", refused.stderr)[1]) << 10
    assert needed <= most << 20
    limit = needed + (8 << 20)  # with tiles that are not the smallest, which take long
    peak, least = (peak_and_rest(path, *options)[0] for path, *options in ((source, "--host-memory", limit), (small,)))
    assert peak - least <= limit


def test_many_threads_do_not_take_the_memory(tmp_path):
    """Each thread has its own buffers; with little memory, fewer threads compute."""
    operands(tmp_path / "input.h5", 500, 400, 300)
    report = multiply(tmp_path / "input.h5", "--host-memory", "12M", OMP_NUM_THREADS="64")
    assert_kept(report)
    assert 1 <= report["plan"]["compute_threads"] < report["machine"]["threads"] == 64


@pytest.mark.smoke
def test_least_traffic_when_all_fits(tmp_path):
    """A, B and C0 are read once and C is written once."""
    source = tmp_path / "input.h5"
    matrices = operands(source, 300, 200, 100)
    report = multiply(source, "--beta", 1)
    assert report["stages"]["read"]["bytes"] == sum(matrix.nbytes for matrix in matrices)
    assert report["stages"]["write"]["bytes"] == 300 * 200 * 8


@pytest.mark.parametrize("trans", ["NN", "TT"])
def test_the_device_keeps_panels_for_a_row(tmp_path, device, trans):
    """A is copied to the device once if a row's panels fit, and otherwise for every tile."""
    source = tmp_path / "input.h5"
    a, b, c = operands(source, 96, 120, 200, "f8", trans)
    options = ["--tile", "32x40x48", "--beta", 1, "--transa", trans[0], "--transb", trans[1]]
    copied = [multiply(source, *options, *memory, "--force", device=device)["stages"]["in"]["bytes"]
              for memory in ([], ["--gpu-memory", "120K"])]
    once, b_and_c = a.nbytes, 3 * b.nbytes + c.nbytes
    assert copied == [once + b_and_c, 3 * once + b_and_c]


@pytest.fixture(scope="module")
def in_group():
    """A wrapper in which control groups are files in a folder, and a file states the program's own group; skips
    if that cannot be set up."""
    user = [] if os.getuid() == 0 else ["--map-root-user"]
    wrapper = ["unshare", *user, "--mount", "sh", "-c", 'mount --bind "$0" /sys/fs/cgroup && '
               'mount --bind "$1" /proc/$$/cgroup && shift && exec "$@"']
    done = subprocess.run([*wrapper, "/sys/fs/cgroup", "/proc/self/cgroup", "true"],
                          capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"control groups cannot be feigned here: {done.stderr.strip()}")
    return wrapper


@pytest.mark.parametrize("place, files, limit", [
    ("0::/job/task", {"job/memory.max": 512, "job/task/memory.max": "max"}, 512),
    ("0::/job/task", {"job/memory.max": "max", "job/task/memory.max": 384}, 384),
    ("0::/../elsewhere", {"memory.max": 256}, 256),  # as in a container, which sees only its own group
    ("9:pids:/p\n4:memory:/job", {"memory/memory.limit_in_bytes": 8 << 40,
                                  "memory/job/memory.limit_in_bytes": 512}, 512),
    ("4:cpu,memory:/job\n0::/", {"memory/memory.limit_in_bytes": 256}, 256),
    ("3:cpu:/memory\n0::/job", {"memory/memory.limit_in_bytes": 256}, None)])
def test_limits_of_control_groups(tmp_path, in_group, place, files, limit):
    """The default limit is half of the free memory, or of what the enclosing groups leave."""
    source, report, groups = tmp_path / "input.h5", tmp_path / "report.json", tmp_path / "groups"
    operands(source, 50, 40, 30)
    groups.mkdir()
    (tmp_path / "place").write_text(place + "\n")
    for name, value in files.items():
        (groups / name).parent.mkdir(parents=True, exist_ok=True)
        (groups / name).write_text(f"{value if value == 'max' else value << 20}\n")
    done = run("dgemm_ooc", "--dry-run", source, "--report", report,
               wrapper=[*in_group, groups, tmp_path / "place"])
    assert done.returncode == 0, done.stderr
    planned = json.loads(report.read_text())["machine"]["host_memory_bytes"]
    assert planned == limit << 19 if limit else planned > 512 << 19


@pytest.mark.singly
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one CPU")
@pytest.mark.parametrize("place, files, cpus", [
    ("0::/job/task", {"job/cpu.max": "100000 100000", "job/task/cpu.max": "max 100000"}, 1),
    ("0::/job/task", {"job/cpu.max": "max 100000", "job/task/cpu.max": "25000 50000"}, 1),
    ("0::/job", {"job/cpu.max": "110000 100000"}, 2),
    ("0::/job", {"job/cpu.max": "max 100000"}, None),
    ("4:cpu,cpuacct:/job\n0::/", {"cpu/cpu.cfs_quota_us": -1, "cpu/job/cpu.cfs_quota_us": 50000,
                                  "cpu/cpu.cfs_period_us": 100000, "cpu/job/cpu.cfs_period_us": 100000}, 1),
    ("3:cpuset:/job\n4:cpu:/other", {"cpu/job/cpu.cfs_quota_us": 50000, "cpu/job/cpu.cfs_period_us": 100000}, None),
    ("4:cpu:/job", {"cpu/job/cpu.cfs_quota_us": -1, "cpu/job/cpu.cfs_period_us": 100000}, None)])
@pytest.mark.parametrize("more", [[], ["--dry-run"]])
def test_quotas_of_control_groups(tmp_path, in_group, place, files, cpus, more):
    """There are no more threads than CPUs that may be busy, but for a user's OMP_NUM_THREADS."""
    source, report, groups = tmp_path / "input.h5", tmp_path / "report.json", tmp_path / "groups"
    operands(source, 50, 40, 30)
    (tmp_path / "place").write_text(place + "\n")
    for name, value in files.items():
        (groups / name).parent.mkdir(parents=True, exist_ok=True)
        (groups / name).write_text(f"{value}\n")
    here = len(os.sched_getaffinity(0))
    for given, threads in ("", min(cpus or here, here)), ("3", 3):
        done = run("dgemm_ooc", source, "--force", "--report", report, *more, OMP_NUM_THREADS=given,
                   wrapper=[*in_group, groups, tmp_path / "place"])
        assert done.returncode == 0, done.stderr
        machine = json.loads(report.read_text())["machine"]
        assert machine["threads"] == threads
        assert ("CPU quota" in machine["name"]) == (not given and threads < here)


def test_limits_beyond_the_memory_are_refused(tmp_path, in_group):
    """The complaint states the memory and the largest value; a dry run prints a warning."""
    source, groups = tmp_path / "input.h5", tmp_path / "groups"
    operands(source, 50, 40, 30)
    groups.mkdir()
    (tmp_path / "place").write_text("0::/\n")
    (groups / "memory.max").write_text(f"{512 << 20}\n")
    how = {"wrapper": [*in_group, groups, tmp_path / "place"]}
    for ranks, given, most in (0, "513M", "512M"), (2, "300M", "256M"):
        done = run("dgemm_ooc", source, "--host-memory", given, ranks=ranks, **how)
        assert done.returncode == 4
        assert "the memory control group has (512 MiB)" in done.stderr
        assert f"give at most {most}\n" in done.stderr
        assert ("each of the 2 ranks" in done.stderr) == (ranks == 2)
        multiply(source, "--host-memory", most, "--force", ranks=ranks, **how)
        rehearsed = run("dgemm_ooc", source, "--dry-run", "--host-memory", given,
                        *["--ranks", ranks] * (ranks > 0), **how)
        assert rehearsed.returncode == 0
        assert f"give at most {most}\n" in rehearsed.stderr and "would be refused" in rehearsed.stderr
    node = tmp_path / "node.json"
    node.write_text(json.dumps({"host_memory_bytes": 513 << 20}))
    done = run("dgemm_ooc", source, "--machine", node, "--force", **how)
    assert done.returncode == 4 and "host_memory_bytes of --machine" in done.stderr


def test_a_plan_beyond_what_is_available_is_warned_of(tmp_path, in_group):
    source, meminfo = tmp_path / "input.h5", tmp_path / "meminfo"
    operands(source, 500, 400, 300)
    user = in_group[1:in_group.index("--mount")]
    wrapper = ["unshare", *user, "--mount", "sh", "-c",
               'mount --bind "$0" /proc/meminfo && exec "$@"', meminfo]
    for available, warned in (8 << 10, True), (1 << 20, False):
        meminfo.write_text(f"MemTotal: {8 << 20} kB\nMemAvailable: {available} kB\n")
        for options in ["--force"], ["--dry-run"]:
            done = run("dgemm_ooc", source, "--host-memory", "200M", *options, wrapper=wrapper)
            assert done.returncode == 0, done.stderr
            assert ("8.00 MiB are available now" in done.stderr) == warned


@each("option", ["--gpu-memory", "--host-memory"])
@each("more", [[], ["--dry-run"]])
def test_limits_beyond_the_computer_are_refused(tmp_path, option, more):
    """On the CPU a tile is in host memory, too."""
    source = tmp_path / "input.h5"
    operands(source, 50, 40, 30)
    done = run("dgemm_ooc", source, option, "900T", *more)
    assert f"{option} of 900 TiB is more than this computer has (" in done.stderr
    most = done.stderr.split("give at most ")[1].splitlines()[0]
    assert run("dgemm_ooc", source, option, most, *more).returncode == 0
    assert more or done.returncode == 4


def test_gpu_limits_beyond_the_memory_are_refused(tmp_path, gpu):
    source = tmp_path / "input.h5"
    operands(source, 50, 40, 30)
    done = run("dgemm_ooc", source, "--gpu-memory", "2T", DGEMM_OOC_DEVICE="gpu")
    assert done.returncode == 4
    assert "--gpu-memory of 2.00 TiB is more than the GPU has (" in done.stderr
    most = done.stderr.split("give at most ")[1].strip()
    done = run("dgemm_ooc", source, "--gpu-memory", most, ranks=2, DGEMM_OOC_DEVICE="gpu",
               DGEMM_OOC_TEST_GPUS="1")
    assert done.returncode == 4 and "each of the 2 ranks" in done.stderr
