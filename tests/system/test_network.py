"""The exchange between nodes runs at the rate of their links: the nodes are network namespaces, with links that
are slow compared with everything else."""
import contextlib
import json

import pytest

from matrices import multiply, operands
from namespaces import linked
from ranks import bits

pytestmark = pytest.mark.cluster

NODES, RATE, TRIES = 4, 4e6, 4
MACHINE = {"device": "cpu", "ranks": NODES, "ranks_per_node": 1, "threads": 1,
           "device_memory_bytes": 64 << 20, "host_memory_bytes": 256 << 20,
           "disk_read_bytes_per_s": 1e9, "disk_write_bytes_per_s": 1e9, "disk_run_bytes": 4096,
           "network_bytes_per_s": RATE, "in_bytes_per_s": 2e9, "out_bytes_per_s": 2e9,
           "device_bytes_per_s": 2e9, "gemm_double_flops_per_s": 5e9,
           "gemm_float_flops_per_s": 5e9}


@pytest.fixture(scope="module")
def links(tmp_path_factory):
    """The simulated nodes; skips if namespaces, or links between them, cannot be created."""
    with contextlib.ExitStack() as stack:
        try:
            environment = stack.enter_context(linked(tmp_path_factory.mktemp("links"), NODES, RATE))
        except OSError as error:
            pytest.skip(f"no network namespaces here: {error}")
        yield environment


def exchange(folder, links, grid, m, n, k, tile):
    """Multiply on all nodes a few times; return the shortest and the planned time of the exchange."""
    source, machine = folder / "input.h5", folder / "machine.json"
    operands(source, m, n, k)
    machine.write_text(json.dumps(MACHINE))
    multiply(source, "--tile", tile, "-o", folder / "one.h5")
    least = float("inf")
    for _ in range(TRIES):
        report = multiply(source, "--grid", grid, "--tile", tile, "--machine", machine, "-o",
                          folder / "many.h5", "--force", ranks=NODES, **links)
        least = min(least, report["stages"]["network"]["busy_max_s"])
        if least < 1.3 * report["predicted"]["wall_s"]:
            break
    assert bits(folder / "many.h5") == bits(folder / "one.h5")
    assert report["stages"]["network"]["bytes"] == report["plan"]["sent_bytes"]
    assert report["predicted"]["wall_s"] > report["plan"]["sent_bytes"] / NODES / RATE
    return least, report["predicted"]["wall_s"]


def test_links_are_busy(tmp_path, links):
    """A link carries the bytes that its node receives in little more than the predicted time, which is that of
    these bytes at the link's rate; the margin is for headers and other load."""
    least, planned = exchange(tmp_path, links, "4x1", 64, 1024, 2048, "16x1024x512")
    assert least < 1.5 * planned


def test_a_and_b_between_pairs(tmp_path, links):
    """Transfers in both directions overlap, although two nodes share one socket."""
    least, planned = exchange(tmp_path, links, "2x2", 128, 128, 8192, "64x64x2048")
    assert least < 1.5 * planned
