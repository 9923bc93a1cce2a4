"""A finished tile leaves the device beside the products of the next one, where there is room for two."""
import random as chance

import h5py
import pytest

from launch import run
from matrices import multiply, operands, output_of, read, scalars

M, N, K = 310, 230, 512
TILE = ["--tile", "96x48x64"]
TWO = ["--gpu-memory", "16M"]


@pytest.fixture(scope="module")
def problem(tmp_path_factory):
    source = tmp_path_factory.mktemp("drain") / "input.h5"
    operands(source, M, N, K)
    return source


def result(source, tmp_path, *options, **how):
    output = tmp_path / "result.h5"
    report = multiply(source, "-o", output, "-f", *TILE, *options, **how)
    return read(output).tobytes(), report["plan"]["device_tiles"]


@pytest.mark.gpu
@pytest.mark.parametrize("options", [
    [], ["--alpha=-0.5"], ["--verify", "off"], ["--verify", "full"], ["--host-memory", "16M"],
    ["--tile", "96x230x64"], ["--tile", "48x48x256"]], ids=" ".join)
@pytest.mark.parametrize("ranks", [0, 3])
def test_the_same_bits(problem, tmp_path, gpu, options, ranks):
    expected, alone = result(problem, tmp_path, *options)
    got, tiles = result(problem, tmp_path, *TWO, *options, device=gpu, ranks=ranks)
    assert (alone, tiles) == (1, 2)
    assert got == expected


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    source = tmp_path_factory.mktemp("wide") / "input.h5"
    operands(source, 4 * M, 2 * N, 256)
    return source


@pytest.mark.parametrize("verify", ["online", "off"])
@pytest.mark.parametrize("faults", ["pwrite:delay@1+", "copy:delay%20", "gemm:delay%10", "combine:delay@1+"])
@pytest.mark.parametrize("ranks", [0, 2])
def test_nothing_is_overwritten_that_has_not_left(wide, tmp_path, verify, faults, ranks):
    """On the CPU device, whose streams run beside each other; operations take longer, slots do not hold a tile."""
    options = ["--alpha=-0.5", "--verify", verify]
    expected, _ = result(wide, tmp_path, *options)
    got, tiles = result(wide, tmp_path, *TWO, *options, "--io", "buffered", "--tile", f"{M}x{2 * N}x32", "--host-memory",
                        "24M", ranks=ranks, DGEMM_OOC_TEST_ROOM="1", DGEMM_OOC_TEST_FAULTS=faults)
    assert tiles == 2 and got == expected


@pytest.mark.gpu
@pytest.mark.parametrize("why, options, tiles", [
    ("there is room", [], 2), ("there is none", ["--gpu-memory", "300K"], 1),
    ("C0 comes strip by strip", ["--beta=2"], 1), ("there is one slab", ["--tile", "96x48x512"], 1)])
def test_two_tiles_where_they_help(problem, tmp_path, gpu, why, options, tiles):
    assert result(problem, tmp_path, *TWO, *options, device=gpu, ranks=2)[1] == tiles, why


@pytest.mark.gpu
@pytest.mark.parametrize("seed", range(4))
def test_stops_in_the_middle(problem, tmp_path, gpu, seed):
    """What has not left is saved, too: another device goes on to the same bits."""
    rng = chance.Random(seed)
    expected, _ = result(problem, tmp_path)
    output = tmp_path / "stopped.h5"
    for device in (gpu, gpu, "cpu"):
        limit = ["--max-time", f"{rng.uniform(0.05, 0.4):.2f}s"] if device == gpu else []
        done = run("dgemm_ooc", problem, "-o", output, *TILE, *TWO, *limit, ranks=rng.choice([0, 2]),
                   DGEMM_OOC_DEVICE=device)
        assert done.returncode in (0, 75), done.stderr
        if done.returncode == 0:
            break
    assert read(output).tobytes() == expected
