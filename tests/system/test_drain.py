"""A finished tile leaves the device beside the products of the next one, where there is room for two; strips of a
rank's only tile leave beside those of the strips that follow."""
import json

import pytest

from launch import run
from matrices import multiply, operands, output_of, read

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


@pytest.mark.singly
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


# On the CPU device, whose streams run beside each other; slots do not hold a tile.
BESIDE = [*TWO, "--alpha=-0.5", "--io", "buffered", "--tile", f"{M}x{2 * N}x32", "--host-memory", "24M"]


@pytest.mark.singly
@pytest.mark.parametrize("verify", ["online", "off"])
@pytest.mark.parametrize("faults", ["pwrite:delay@1+", "copy:delay%20", "gemm:delay%10", "combine:delay@1+"])
@pytest.mark.parametrize("ranks", [0, 2])
def test_nothing_is_overwritten_that_has_not_left(wide, tmp_path, verify, faults, ranks):
    expected, _ = result(wide, tmp_path, "--alpha=-0.5", "--verify", verify)
    got, tiles = result(wide, tmp_path, *BESIDE, "--verify", verify, ranks=ranks, DGEMM_OOC_TEST_ROOM="1",
                        DGEMM_OOC_TEST_FAULTS=faults)
    assert tiles == 2 and got == expected


@pytest.mark.parametrize("ranks", [0, 2])
def test_a_stop_while_a_tile_leaves(tmp_path, ranks):
    """What has not left the device when the run stops is in C when it goes on."""
    source, output = tmp_path / "input.h5", tmp_path / "stopped.h5"
    operands(source, 12 * M, 2 * N, 256)
    expected, _ = result(source, tmp_path, "--alpha=-0.5")
    codes = []
    while 0 not in codes:
        done = run("dgemm_ooc", source, "-o", output, *BESIDE, "--max-time", "10m" if 75 in codes else "0.4s",
                   ranks=ranks, DGEMM_OOC_TEST_ROOM="1", DGEMM_OOC_TEST_FAULTS="pwrite:delay@1+")
        assert done.returncode in (0, 75), done.stderr
        codes.append(done.returncode)
    assert 75 in codes and read(output).tobytes() == expected


@pytest.mark.gpu
@pytest.mark.parametrize("why, options, tiles", [
    ("there is room", [], 2), ("there is none", ["--gpu-memory", "300K"], 1),
    ("C0 comes strip by strip", ["--beta=2"], 1), ("there is one slab", ["--tile", "96x48x512"], 1)])
def test_one_tile_or_two(problem, tmp_path, gpu, why, options, tiles):
    assert result(problem, tmp_path, *TWO, *options, device=gpu, ranks=2)[1] == tiles, why


@pytest.mark.singly
@pytest.mark.parametrize("ranks", [0, 2, 3])
@pytest.mark.parametrize("faults", ["gemm:delay@1+", "gemm:delay@1+,mirror:delay%20,copy:delay%20",
                                    "gemm:delay@1+,pwrite:delay%1", "gemm:delay%30"])
def test_the_same_bits_while_strips_wait(tmp_path, faults, ranks):
    """Of a triangle's only slab strips leave while others wait for the device."""
    source = tmp_path / "input.h5"
    operands(source, 1500, 1500, 60)
    line = [source, "-b", "A", "--transb", "T", "-f", "--io", "buffered"]
    multiply(*line, "--symmetric", "off")
    expected = read(output_of(source)).tobytes()
    report = multiply(*line, ranks=ranks, DGEMM_OOC_TEST_FAULTS=faults)
    assert report["plan"]["slabs"] == 1 and report["problem"]["symmetric"]
    assert read(output_of(source)).tobytes() == expected


def test_strips_leave_while_others_wait(tmp_path):
    """The first ones when not even half of the products have begun."""
    source, trace, tries, late = tmp_path / "input.h5", tmp_path / "trace.json", 0, 0
    operands(source, 1500, 1500, 60)
    while late < 0.5 and tries < 5:
        tries += 1
        report = multiply(source, "-b", "A", "--transb", "T", "-f", "--trace", trace,
                          DGEMM_OOC_TEST_FAULTS="gemm:delay@1+")
        assert report["plan"]["slabs"] == 1 and report["problem"]["symmetric"]
        spans = [span for span in json.loads(trace.read_text())["traceEvents"] if span["ph"] == "X"]
        leaves = min(span["ts"] for span in spans if span["name"] == "copy out C")
        products = [span["ts"] for span in spans if span["name"] == "multiply"]
        late = sum(begins > leaves for begins in products) / len(products)
    assert late >= 0.5
