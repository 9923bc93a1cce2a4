"""The exchange between nodes at the rate of their links: nodes that are network namespaces, with
links that are slow beside everything else."""
import contextlib
import json

import pytest

from matrices import multiply, operands
from namespaces import linked
from ranks import bits

NODES, RATE, TRIES = 4, 4e6, 4
MACHINE = {"device": "cpu", "ranks": NODES, "ranks_per_node": 1, "threads": 1,
           "device_memory_bytes": 64 << 20, "host_memory_bytes": 256 << 20,
           "disk_read_bytes_per_s": 1e9, "disk_write_bytes_per_s": 1e9, "disk_run_bytes": 4096,
           "network_bytes_per_s": RATE, "in_bytes_per_s": 2e9, "out_bytes_per_s": 2e9,
           "device_bytes_per_s": 2e9, "gemm_double_flops_per_s": 5e9,
           "gemm_float_flops_per_s": 5e9}


@pytest.fixture(scope="module")
def links(tmp_path_factory):
    """Skips where namespaces, or links between them, cannot be made."""
    with contextlib.ExitStack() as stack:
        try:
            environment = stack.enter_context(linked(tmp_path_factory.mktemp("links"), NODES, RATE))
        except OSError as error:
            pytest.skip(f"no network namespaces here: {error}")
        yield environment


@pytest.mark.parametrize("grid, m, n, k, tile", [
    ("4x1", 64, 1024, 2048, "16x1024x128"), ("2x2", 128, 128, 16384, "64x64x1024")],
    ids=["B to all", "A and B"])
def test_links_are_busy(tmp_path, links, grid, m, n, k, tile):
    """A link carries what its node receives in little more than the time that the plan predicts,
    which is that of these bytes at the link's rate; it may be busy with headers, and the computer
    with other things."""
    source, machine = tmp_path / "input.h5", tmp_path / "machine.json"
    operands(source, m, n, k)
    machine.write_text(json.dumps(MACHINE))
    multiply(source, "--tile", tile, "-o", tmp_path / "one.h5")
    report, least = None, float("inf")
    for _ in range(TRIES):
        report = multiply(source, "--grid", grid, "--tile", tile, "--machine", machine, "-o",
                          tmp_path / "many.h5", "--force", ranks=NODES, **links)
        least = min(least, report["stages"]["network"]["busy_max_s"])
        if least < 1.3 * report["plan"]["wall_s"]:
            break
    assert bits(tmp_path / "many.h5") == bits(tmp_path / "one.h5")
    assert report["stages"]["network"]["bytes"] == report["plan"]["sent_bytes"]
    assert report["plan"]["wall_s"] > report["plan"]["sent_bytes"] / NODES / RATE
    assert least < 1.5 * report["plan"]["wall_s"]
