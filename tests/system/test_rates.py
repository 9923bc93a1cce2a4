"""Measured or given rates of the machine affect the plan, never the bits: the same files on the same ranks give
the same C for any rates and limits."""
import hashlib
import json

import h5py
import pytest

from cases import each
from launch import run
from matrices import multiply, operands, output_of, read

RANKS = 4
M, N, K = 64, 64, 30_000  # C is so small that layers of ranks may be faster
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
    return product_of(source)


def product_of(source, *options, rates=None):
    """The bits of C, whose sums are of blocks, so that ranks may form layers."""
    if rates:
        machine = source.with_name("machine.json")
        machine.write_text(json.dumps(rates))
        options = [*options, "--machine", machine]
    multiply(source, "--force", *options, ranks=RANKS, DGEMM_OOC_TEST_BLOCK="960")
    return hashlib.sha256(read(output_of(source)).tobytes()).hexdigest()


@pytest.mark.parametrize("machine", MACHINES)
def test_rates(source, reference, machine):
    assert product_of(source, rates=MACHINES[machine]) == reference


@pytest.mark.singly
@pytest.mark.parametrize("rates", [None, {"in_bytes_per_s": SLOW}], ids=["probed", "slow bus"])
@pytest.mark.parametrize("limits", LIMITS, ids=" ".join)
def test_limits(source, reference, limits, rates):
    assert product_of(source, *limits, rates=rates) == reference


def test_layers_are_of_the_plan_alone(source, reference):
    """Slow copies to the devices let ranks share k."""
    machine = source.with_name("machine.json")
    machine.write_text(json.dumps({"in_bytes_per_s": SLOW}))
    report = multiply(source, "--force", "--machine", machine, ranks=RANKS, DGEMM_OOC_TEST_BLOCK="960")
    assert report["plan"]["layers"] == RANKS
    assert hashlib.sha256(read(output_of(source)).tobytes()).hexdigest() == reference


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
