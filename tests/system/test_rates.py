"""Measured or given rates of the machine affect the plan, never the bits: the same files on the same ranks give
the same C for any rates and limits."""
import hashlib
import json

import h5py
import pytest

from cases import each
from launch import BUILD, FAULTY, run
from matrices import multiply, operands, output_of, read

RANKS = 4
M, N, K = 64, 64, 30_000  # C is so small that splitting k would be faster
SLOW, FAST = 1e6, 1e12
RATES = ["disk_read_bytes_per_s", "disk_write_bytes_per_s", "in_bytes_per_s", "out_bytes_per_s",
         "device_bytes_per_s", "network_bytes_per_s", "node_disk_bytes_per_s",
         "gemm_double_flops_per_s", "disk_run_bytes"]
MACHINES = {
    "as probed": None,
    "all slow": dict.fromkeys(RATES, SLOW),
    "all fast": dict.fromkeys(RATES, FAST),
    **{f"slow {rate}": {**dict.fromkeys(RATES, FAST), rate: SLOW} for rate in RATES},
    **{f"fast {rate}": {**dict.fromkeys(RATES, SLOW), rate: FAST} for rate in RATES},
}
LIMITS = [["--host-memory", "24M"], ["--gpu-memory", "2M"],
          ["--gpu-memory", "700K", "--host-memory", "16M"]]


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    path = tmp_path_factory.mktemp("rates") / "input.h5"
    operands(path, M, N, K)
    return path


@pytest.fixture(scope="module")
def reference(source):
    return product_of(source)[0]


def product_of(source, *options, rates=None):
    """The bits of C, and the number of parts of k."""
    if rates:
        machine = source.with_name("machine.json")
        machine.write_text(json.dumps(rates))
        options = [*options, "--machine", machine]
    report = multiply(source, "--force", *options, ranks=RANKS)
    bits = read(output_of(source)).tobytes()
    return hashlib.sha256(bits).hexdigest(), report["plan"]["layers"]


@pytest.mark.parametrize("machine", MACHINES)
def test_rates(source, reference, machine):
    assert product_of(source, rates=MACHINES[machine])[0] == reference


@pytest.mark.parametrize("rates", [None, {"in_bytes_per_s": SLOW}], ids=["probed", "slow bus"])
@pytest.mark.parametrize("limits", LIMITS, ids=" ".join)
def test_limits(source, reference, limits, rates):
    assert product_of(source, *limits, rates=rates)[0] == reference


def test_only_auto_lets_the_rates_decide(source, reference):
    """It splits k if the bus is stated to be slow, as by some of the machines above."""
    bits, parts = product_of(source, "--split-k", "auto", rates={"in_bytes_per_s": SLOW})
    assert parts > 1 and bits != reference


def test_a_sum_of_parts_is_not_what_is_asked_for_without(tmp_path):
    source = tmp_path / "input.h5"
    operands(source, 20, 30, 400)
    multiply(source, "--split-k", 2, ranks=2)
    again = run("dgemm_ooc", source, "--split-k", 2)
    assert again.returncode == 0 and "was made" in again.stdout
    assert "was made" in run("dgemm_ooc", source, "--split-k", "auto").stdout
    other = run("dgemm_ooc", source)
    assert other.returncode == 3 and "exists; give --force" in other.stderr


def test_a_saved_sum_of_parts_is_not_gone_on_with_by_another(tmp_path):
    """All is multiplied and saved with two parts, but C does not get its final name."""
    if not (BUILD / FAULTY).exists():
        pytest.skip("the program with faults is not built: make test")
    source = tmp_path / "input.h5"
    operands(source, 20, 30, 400)
    done = run(FAULTY, source, "--split-k", 2, "--verify", "full", ranks=2,
               DGEMM_OOC_TEST_FAULTS="rename:eio@1")
    assert done.returncode == 1, done.stderr
    for other in [[], ["--split-k", "off"], ["--split-k", 4]]:
        done = run("dgemm_ooc", source, *other)
        assert done.returncode == 3 and "made with --split-k 2; give that, or --restart never" in done.stderr
    assert run("dgemm_ooc", source, "--split-k", "auto").returncode == 0


def test_wide_tiles_of_floats_are_checked(tmp_path):
    """A class of the check has thousands of their columns, but fewer steps of k are compared together.  When the
    files are read back, all of k is compared at once."""
    source = tmp_path / "input.h5"
    operands(source, 8, 1000, 1000, "f4")
    with h5py.File(source, "a") as file:
        layout = h5py.VirtualLayout((1000, 140000), "f4")
        for i in range(140):
            layout[:, 1000 * i:1000 * (i + 1)] = h5py.VirtualSource(file["B"])
        file.create_virtual_dataset("wide", layout)
    report = multiply(source, "-b", "wide", "--tile", "8x140000x100")
    assert report["verdict"] == "PASSED" and report["detectable"] < 0.5
    done = run("dgemm_ooc", source, "-b", "wide", "--check-only")
    assert done.returncode == 6 and "NOT CHECKED" in done.stdout, done.stdout + done.stderr


@each("slab", [1152, 1280, 1536, 1920, 2816])
def test_no_slab_makes_the_check_of_floats_much_weaker(tmp_path, slab):
    """What it would have found grows with the square of the steps between two comparisons, here 2048 or near."""
    source = tmp_path / "input.h5"
    operands(source, 64, 48, 16384, "f4")
    least, found = (multiply(source, "--tile", f"64x48x{steps}", "--check-seed", 7, "--force")["detectable"]
                    for steps in (2048, slab))
    assert found < 1.8 * least
