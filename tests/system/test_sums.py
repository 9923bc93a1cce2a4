"""Sums of blocks of k: the bits are those of a tree over the blocks, whatever ranks, layers of ranks, limits and
interruptions there are."""
import json

import h5py
import numpy as np
import pytest

from launch import BUILD, FAULTY, run
from matrices import bound, multiply, operands, output_of, product, random, read, write

M, N, K, BLOCK = 67, 50, 997, 64
BLOCKS = {"DGEMM_OOC_TEST_BLOCK": str(BLOCK)}


def layered(layers, **env):
    return {**BLOCKS, "DGEMM_OOC_TEST_LAYERS": str(layers), **env}


def tree(sums):
    """Of 0 and 1, of 2 and 3, then of these two, and so on."""
    while len(sums) > 1:
        sums = [sums[i] + sums[i + 1] if i + 1 < len(sums) else sums[i] for i in range(0, len(sums), 2)]
    return sums[0]


def sum_of_blocks(folder, a, b, *options):
    """Of the products of the program for each block."""
    sums = []
    for first in range(0, a.shape[1], BLOCK):
        (folder / "part.h5").unlink(missing_ok=True)
        write(folder / "part.h5", A=a[:, first:first + BLOCK], B=b[first:first + BLOCK])
        multiply(folder / "part.h5", "--force", *options)
        sums.append(read(output_of(folder / "part.h5")))
    return tree(sums)


@pytest.fixture(scope="module", params=["f8", "f4"])
def problem(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("sums")
    a, b, _ = operands(folder / "input.h5", M, N, K, request.param)
    return folder / "input.h5", sum_of_blocks(folder, a, b)


@pytest.mark.singly
@pytest.mark.parametrize("ranks, layers, node", [
    (0, 1, 0), (2, 1, 2), (2, 2, 2), (2, 2, 1), (3, 1, 3), (4, 2, 4), (4, 2, 1), (4, 4, 2), (6, 2, 3), (8, 8, 8)])
def test_the_tree(problem, device, ranks, layers, node):
    source, expected = problem
    output = source.with_name("C.h5")
    report = multiply(source, "-o", output, "--force", ranks=ranks, device=device,
                      **layered(layers, DGEMM_OOC_TEST_NODE=str(node)))
    plan, stages = report["plan"], report["stages"]
    assert plan["layers"] == layers and plan["super_blocks"] == [1, 1]
    assert np.array_equal(read(output), expected)
    assert stages["read"]["bytes"] == plan["read_bytes"]
    assert stages["in"]["bytes"] == plan["in_bytes"]
    assert stages["network"]["bytes"] == plan["sent_bytes"]
    assert report["residual"] > 0 and report["verdict"] == "PASSED"


def test_a_long_product_of_a_user(tmp_path):
    """Without anything that only tests have: k of 2^20 is cut, and ranks share it with the same bits."""
    source = write(tmp_path / "input.h5", A=random((64, 1 << 20), "f4").astype("f2"))
    words = [source, "-b", "A", "--transb", "T", "--force", "--verify", "online"]
    bits = set()
    for ranks in 0, 3:
        done = run("dgemm_ooc", *words, ranks=ranks)
        assert done.returncode == 0 and "PASSED" in done.stdout, done.stderr
        assert "sums of 16 blocks of 65536 steps of k" in done.stdout
        bits.add(read(output_of(source)).tobytes())
    assert len(bits) == 1
    assert run("dgemm_ooc", *words, DGEMM_OOC_TEST_BLOCK=str(1 << 20)).returncode == 0
    assert read(output_of(source)).tobytes() not in bits


@pytest.mark.singly
@pytest.mark.parametrize("options", [
    ["--grid", "1x4"], ["--grid", "2x2"], ["--grid", "1x1"], ["--tile", "20x30x16"], ["--tile", "67x50x48"],
    ["--gpu-memory", "300K", "--host-memory", "20M"]], ids=" ".join)
@pytest.mark.parametrize("layers", [1, 2])
def test_any_plan(problem, device, options, layers):
    """In some grids, ranks of a layer have no work."""
    source, expected = problem
    output = source.with_name("plan.h5")
    multiply(source, *options, "-o", output, "--force", ranks=8, device=device,
             **layered(layers, DGEMM_OOC_TEST_NODE="2"))
    assert np.array_equal(read(output), expected)


@pytest.mark.singly
@pytest.mark.parametrize("layers", [1, 2, 4])
@pytest.mark.parametrize("options, kind", [
    (["-b", "A", "--transb", "T"], "f8"), (["-b", "A", "--transb", "T", "--symmetric", "lower"], "f4"),
    (["-b", "A", "--transb", "C"], "c16"), ([], "c8"), ([], "i1"), (["--algo", "ozaki"], "f8"), ([], "f2")],
    ids=lambda x: " ".join(x) if isinstance(x, list) else x)
def test_kinds(tmp_path, options, kind, layers):
    """One rank without layers is the reference.  Residues have longer blocks."""
    source, one = tmp_path / "input.h5", tmp_path / "one.h5"
    k, block = (64000, "8192") if "ozaki" in options else (K, "64")
    if kind == "i1":
        rng = np.random.default_rng(7)
        write(source, A=rng.integers(-128, 128, (M, k), "i1"), B=rng.integers(-128, 128, (k, N), "i1"))
    elif kind.startswith("c"):
        write(source, A=(random((M, k)) + 1j * random((M, k), seed=1)).astype(kind),
              B=(random((k, N)) + 1j * random((k, N), seed=1)).astype(kind))
    else:
        operands(source, M, N, k, kind)
    how = {"DGEMM_OOC_TEST_BLOCK": block}
    multiply(source, "-o", one, *options, **how)
    report = multiply(source, *options, ranks=4, **how, DGEMM_OOC_TEST_LAYERS=str(layers))
    assert report["plan"]["layers"] == layers and report["verdict"] == "PASSED"
    assert read(output_of(source)).tobytes() == read(one).tobytes()


@pytest.mark.parametrize("trans", ["NN", "NT", "TN", "TT"])
def test_alpha_and_beta_once(tmp_path, trans):
    """Only the first layer reads and adds C0."""
    source = tmp_path / "input.h5"
    a, b, c = operands(source, M, N, K, "f8", trans)
    multiply(source, "--alpha", "1.7", "--beta", "-0.3", "--transa", trans[0], "--transb", trans[1], ranks=4,
             **layered(4))
    expected = product(a, b, c, trans, 1.7, -0.3)
    assert np.all(abs(read(output_of(source)) - expected) <= bound(a, b, c, trans, 1.7, -0.3, 2e-16))


def test_chunks_and_no_check(tmp_path):
    a, b = random((90, 700)), random((700, 80), seed=1)
    with h5py.File(tmp_path / "input.h5", "w") as file:
        file.create_dataset("A", data=a, chunks=(32, 100), compression="gzip")
        file.create_dataset("B", data=b, chunks=(64, 80))
    multiply(tmp_path / "input.h5", "--verify", "off", ranks=2, **layered(2))
    assert np.allclose(read(output_of(tmp_path / "input.h5")), a @ b, rtol=1e-12)


def test_nothing_at_all(tmp_path):
    source = write(tmp_path / "input.h5", A=np.zeros((0, 5)), B=np.zeros((5, 0)))
    done = run("dgemm_ooc", source)
    assert done.returncode == 3 and "there is nothing to compute" in done.stderr


def test_nothing_to_multiply(tmp_path):
    operands(tmp_path / "input.h5", 20, 30, 400)
    report = multiply(tmp_path / "input.h5", "--alpha", 0, "--beta", 2, ranks=2, **layered(2))
    assert report["plan"]["layers"] == 1
    assert np.array_equal(read(output_of(tmp_path / "input.h5")), 2 * read(tmp_path / "input.h5", "C"))


def test_errors_are_those_of_a_block(tmp_path):
    """0.1 x 0.1, added up 2^20 times: each block of 65536 rounds in its own way."""
    k = 1 << 20
    source = write(tmp_path / "input.h5", A=np.full((8, k), 0.1), B=np.full((k, 8), 0.1))
    exact = float(np.float64(0.1).astype(np.longdouble) ** 2 * k)
    multiply(source, DGEMM_OOC_TEST_BLOCK="65536")
    blocks = abs(read(output_of(source)) - exact).max()
    multiply(source, "--force", DGEMM_OOC_TEST_BLOCK=str(k))
    running = abs(read(output_of(source)) - exact).max()
    assert blocks < running / 4


# What the check finds.

@pytest.mark.singly
@pytest.mark.parametrize("layers", [1, 2, 4])
@pytest.mark.parametrize("value, rows", [(np.nan, [5]), (np.inf, [900]), (np.nan, [5, 900])])
@pytest.mark.parametrize("of", ["A", "B"])
def test_what_is_not_finite(tmp_path, layers, value, rows, of):
    """It is checked where it has to be, and all else as well, on any number of layers."""
    source = tmp_path / "input.h5"
    a, b, _ = operands(source, 60, 50, K)
    with h5py.File(source, "r+") as file:
        for k in rows:
            file[of][(k, 7) if of == "B" else (7, k)] = value
    report = multiply(source, ranks=layers, **layered(layers))
    assert report["verdict"] == "PASSED" and report["plan"]["layers"] == layers
    assert report["elements_not_finite"] == (60 if of == "B" else 50) and report["elements_not_judged"] == 0


@pytest.mark.parametrize("layers", [1, 2, 4])
def test_large_numbers_of_one_layer(tmp_path, layers):
    """The column that has one cannot be judged, all others are."""
    source, path = tmp_path / "input.h5", tmp_path / "report.json"
    operands(source, 60, 50, K)
    with h5py.File(source, "r+") as file:
        file["B"][5, 7] = 1e200
    done = run("dgemm_ooc", source, "--report", path, ranks=layers, **layered(layers))
    report = json.loads(path.read_text())
    assert done.returncode == 6 and "failed" not in done.stderr, done.stderr
    assert report["elements_not_judged"] == 60 and report["elements_not_finite"] == 0


@pytest.mark.singly
@pytest.mark.parametrize("layers, rank", [(1, 0), (2, 1), (4, 2)])
@pytest.mark.parametrize("fault", ["fold:flip@2", "fold:flip@5", "gemm:flip@2"])
def test_a_wrong_sum_is_found(tmp_path, layers, rank, fault):
    """In a block, and where blocks are added; C is right in the end."""
    source = tmp_path / "input.h5"
    a, b, _ = operands(source, 60, 50, K)
    path = tmp_path / "report.json"
    done = run(FAULTY, source, "--report", path, ranks=layers,
               **layered(layers, DGEMM_OOC_TEST_FAULTS=fault, DGEMM_OOC_TEST_FAULT_RANK=str(rank)))
    assert done.returncode == 0, done.stderr
    assert f"rank {rank} " in done.stderr and "failed its check" in done.stderr and "computed again" in done.stderr
    assert np.allclose(read(output_of(source)), a @ b, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("scale", [1e-4, 0])
def test_what_is_found_is_that_of_all_layers(tmp_path, scale):
    """The detectable error covers all layers, whatever the scale of the first layer's part of k."""
    a, b = random((60, K), "f4"), random((K, 50), "f4", 1)
    a[:, :512] *= scale
    source = write(tmp_path / "input.h5", A=a, B=b)
    whole = multiply(source, **BLOCKS)["detectable"]
    split = multiply(source, "--force", ranks=2, **layered(2))["detectable"]
    assert whole / 4 < split < 4 * whole


def test_one_layer_fails(tmp_path):
    """Only the second layer reads the damaged data; the first does not hang."""
    source = tmp_path / "input.h5"
    with h5py.File(source, "w") as file:
        file["A"] = random((40, 512))
        b = file.create_dataset("B", data=random((512, 30)), chunks=(64, 30), compression="gzip")
        where = b.id.get_chunk_info_by_coord((448, 0)).byte_offset
    with open(source, "r+b") as file:
        file.seek(where)
        file.write(bytes(64))
    done = run("dgemm_ooc", source, ranks=2, **layered(2))
    assert done.returncode == 3 and "on rank 1" in done.stderr and "rank 0" not in done.stderr, done.stderr
    assert "others" not in done.stderr
    assert not output_of(source).exists()


# Runs that are stopped.

DEEP = 16000  # k, with 250 blocks



def saved_piece(source):
    """The first piece of what is left."""
    journal = output_of(source).with_name(f"{output_of(source).name}.journal")
    line = journal.read_text().splitlines()[-1] if journal.exists() else ""
    return json.loads(line[17:])["left"][0] if '"left"' in line else {"k": 0}


def stopped(source, *options, ranks, layers, after, **env):
    """A run that stops within its sums, after about so many seconds: a fast computer is done before, a slow one has
    nothing to save yet."""
    faults, seconds = {"DGEMM_OOC_TEST_FAULTS": "gemm:delay@1+"}, after
    for _ in range(8):
        done = run(FAULTY, source, *options, "--max-time", f"{seconds:.3f}s", ranks=ranks,
                   **layered(layers, **faults, **env))
        assert done.returncode in (0, 75), done.stdout + done.stderr
        assert layers == 1 or f"{layers} layers of " in done.stdout
        if done.returncode == 0:
            output_of(source).unlink()
            seconds *= 0.8
        elif saved_piece(source)["k"] > 0:
            return
        else:
            seconds *= 1.5
    raise AssertionError("nothing was saved")


@pytest.mark.singly
@pytest.mark.parametrize("kind", ["f8", "f4"])
@pytest.mark.parametrize("shape", ["NN", "sym"])
@pytest.mark.parametrize("ranks, layers", [(1, 1), (3, 1), (2, 2), (4, 2), (4, 4)])
@pytest.mark.parametrize("after", [0.3, 0.6])
def test_a_run_goes_on(tmp_path, shape, kind, ranks, layers, after):
    """On as many layers with the saved sums; the bits are those of a run that was not stopped."""
    source, whole = tmp_path / "input.h5", tmp_path / "whole.h5"
    operands(source, M, N, DEEP, kind)
    options = ["-b", "A", "--transb", "T"] if shape == "sym" else []
    multiply(source, *options, "-o", whole, **BLOCKS)
    tile = [] if shape == "sym" else ["--tile", f"{M}x{N}x16"]
    stopped(source, *options, *tile, ranks=ranks, layers=layers, after=after)
    done = run("dgemm_ooc", source, *options, ranks=layers, **layered(layers))
    assert done.returncode == 0 and "computed again" not in done.stderr, done.stderr
    assert "% is done" in done.stdout and "PASSED" in done.stdout
    assert read(output_of(source)).tobytes() == read(whole).tobytes()


@pytest.mark.parametrize("node", [1, 2, 4])
def test_other_layers_follow(tmp_path, node):
    """A run goes on with two layers; a tile that fails its check is multiplied again without."""
    source, whole = tmp_path / "input.h5", tmp_path / "whole.h5"
    operands(source, M, N, DEEP)
    multiply(source, "-o", whole, **BLOCKS)
    nodes = {"DGEMM_OOC_TEST_NODE": str(node)}
    stopped(source, "--tile", f"{M}x{N}x16", ranks=4, layers=2, after=0.6, **nodes)
    done = run("dgemm_ooc", source, ranks=4, **layered(1, **nodes, DGEMM_OOC_TEST_FAULTS="gemm:flip@5",
                                                       DGEMM_OOC_TEST_FAULT_RANK="2"))
    assert done.returncode == 0 and "failed its check" in done.stderr, done.stderr
    assert read(output_of(source)).tobytes() == read(whole).tobytes()


@pytest.mark.parametrize("ranks, layers, then", [(4, 4, 3), (2, 2, 1), (4, 2, 1)])
def test_ranks_that_form_no_such_layers(tmp_path, ranks, layers, then):
    """They say so, and compute these sums again."""
    source, whole = tmp_path / "input.h5", tmp_path / "whole.h5"
    operands(source, M, N, DEEP)
    multiply(source, "-o", whole, **BLOCKS)
    stopped(source, "--tile", f"{M}x{N}x16", ranks=ranks, layers=layers, after=0.6)
    done = run("dgemm_ooc", source, ranks=then, **layered(1))
    assert done.returncode == 0, done.stderr
    assert f"are of {layers} layers of ranks, which these ranks do not form; they are computed again" in done.stderr
    assert read(output_of(source)).tobytes() == read(whole).tobytes()


def test_damaged_sums_are_computed_again(tmp_path):
    source, whole = tmp_path / "input.h5", tmp_path / "whole.h5"
    operands(source, M, N, DEEP)
    multiply(source, "-o", whole, **BLOCKS)
    stopped(source, "--tile", f"{M}x{N}x16", ranks=2, layers=2, after=0.6)
    for sums in tmp_path.glob("*.sums*"):
        data = bytearray(sums.read_bytes())
        used = np.flatnonzero(np.frombuffer(data, "u1"))
        data[used[len(used) // 3]] ^= 16
        sums.write_bytes(data)
    done = run("dgemm_ooc", source, ranks=2, **layered(2))
    assert done.returncode == 0 and "damaged; they are computed again" in done.stderr, done.stderr
    assert read(output_of(source)).tobytes() == read(whole).tobytes()


def test_smaller_memory_goes_on(tmp_path):
    """What was saved of one tile is split into several, which go on."""
    source, whole = tmp_path / "input.h5", tmp_path / "whole.h5"
    operands(source, M, N, DEEP)
    multiply(source, "-o", whole, **BLOCKS)
    stopped(source, "--tile", f"{M}x{N}x16", ranks=1, layers=1, after=0.6)
    done = run("dgemm_ooc", source, "--tile", "20x30x16", **layered(1))
    assert done.returncode == 0 and "again" not in done.stderr, done.stderr
    assert read(output_of(source)).tobytes() == read(whole).tobytes()


@pytest.mark.parametrize("fold", [2, 4, 9])
def test_a_wrong_sum_after_a_stop_is_found(tmp_path, fold):
    """It waits while checkpoints are saved, within blocks and at their ends, and is not saved as right."""
    source = tmp_path / "input.h5"
    a, b, _ = operands(source, M, N, DEEP)
    stopped(source, "--tile", f"{M}x{N}x16", ranks=1, layers=1, after=0.6)
    done = run(FAULTY, source, "--tile", f"{M}x{N}x16", "--restart", "trust", "--checkpoint", "0.05s",
               **layered(1, DGEMM_OOC_TEST_FAULTS=f"fold:flip@{fold}"))
    assert done.returncode == 0 and "failed its check" in done.stderr, done.stderr
    assert np.allclose(read(output_of(source)), a @ b, rtol=1e-9, atol=1e-9)


def test_saved_sums_take_no_more_than_there_are(tmp_path):
    """Levels that no longer wait leave their space: of 8 matrices at most 7 are ever there."""
    source = tmp_path / "input.h5"
    operands(source, 300, 256, 128 * 16)
    done = run(FAULTY, source, "--tile", "300x256x16", "--checkpoint", "0.001s", DGEMM_OOC_TEST_BLOCK="16",
               DGEMM_OOC_TEST_FAULTS="gemm:delay@1+", **{"DGEMM_OOC_MAX_TIME": "1.5s"})
    assert done.returncode == 75, done.stderr
    piece = saved_piece(source)
    sums = tmp_path / f"input-C.h5.part.sums{piece['place']}"
    assert sums.stat().st_blocks * 512 <= (piece["k"] // 16).bit_count() * 300 * 256 * 8 + (64 << 10)


def test_another_block_is_another_product(tmp_path):
    """It decides the bits, so a run does not go on with sums of other blocks."""
    source = tmp_path / "input.h5"
    operands(source, M, N, DEEP)
    stopped(source, "--tile", f"{M}x{N}x16", ranks=1, layers=1, after=0.6)
    done = run("dgemm_ooc", source, DGEMM_OOC_TEST_BLOCK="128")
    assert done.returncode == 3 and "steps of a block" in done.stderr, done.stderr
