"""--symmetric packed: the lower half of C alone, row by row, with the bits and the checksum of --symmetric lower.

DGEMM_OOC_TEST_SEEDS=N tests N random configurations and N interrupted runs, instead of a few."""
import os
import random
import signal

import h5py
import numpy as np
import pytest

from cases import each
from launch import BUILD, FAULTY, PATIENCE, WAYS, run
from matrices import (genotypes, multiply, output_of, part_of, read, sparse, start_late, wait_until, write,
                      write_bed)
from test_lower import GENERAL, HALF, LOWER, faulty, operands  # noqa: F401
from test_symmetric import (N, K, OFF, ON, SCALARS, SEEDS, SLOW_BUS, configuration, general_result, has_numbers,
                            machine, make, result, stop)

PACKED = ["--symmetric", "packed"]
ROWS = [*GENERAL, *PACKED]
CHECKED = ["--verify", "full"]
INPUT = 3
ATTRIBUTE = "lower, packed row by row"


def half(matrix):
    return matrix[np.tril_indices(len(matrix))]


def same(source, trans="T", *more, scalars=SCALARS, **how):
    """The packed half must have the bits of the general product; return the report."""
    reference, general = general_result(source, *operands(trans), *scalars)
    got, report = result(source, *operands(trans), *scalars, *PACKED, *more, **how)
    assert got.shape == (len(reference) * (len(reference) + 1) // 2,) and got.tobytes() == half(reference).tobytes()
    assert report["problem"]["lower"] and report["problem"]["packed"] and not general["problem"]["packed"]
    assert report["verdict"] == ("PASSED" if report["checked"] else None)
    return report


@pytest.mark.pairwise
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("memory", ["1M", "64M"])
@pytest.mark.parametrize("ranks", [0, 2, 3])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("trans", "TN")
def test_half_is_there(tmp_path, trans, dtype, ranks, memory, way):
    source = make(tmp_path / "input.h5", dtype=dtype, trans=trans)
    report = same(source, trans, *CHECKED, "--gpu-memory", memory, "--io", way, ranks=ranks)
    assert report["full_check"]["verdict"] == "PASSED"
    assert report["pieces"] > 1 or memory == "64M" or dtype == "f4" and ranks > 1
    zeros, with_zeros = result(source, *operands(trans), *SCALARS, *LOWER)
    assert report["checksum"] == with_zeros["checksum"]
    a = read(source, "A").astype("f8")
    expected = 1.3 * (a @ a.T if trans == "T" else a.T @ a) + 0.7 * read(source, "C")
    assert np.allclose(zeros, np.tril(expected), atol=1e-2 if dtype == "f4" else 1e-9)


@pytest.mark.parametrize("trans", "TN")
@pytest.mark.parametrize("n, k", [(1, 1), (1, 300), (300, 1), (2, 5), (63, 64), (65, 7), (129, 1000)])
def test_shapes(tmp_path, n, k, trans):
    source = make(tmp_path / "input.h5", n, k, trans=trans)
    for ranks in 0, 3:
        same(source, trans, *CHECKED, ranks=ranks)


@pytest.mark.parametrize("way", [way for way in WAYS if way in ("direct", "mapped")])
def test_rows_that_are_long(tmp_path, way):
    """Of more bytes than are written directly, and more than a page of some."""
    source = make(tmp_path / "input.h5", 9000, 3)
    c = read(source, "A") @ read(source, "A").T
    got, _ = result(source, *ROWS, "--io", way, *CHECKED, ranks=2)
    assert np.allclose(got, half(c))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_the_same_bits_in_random_configurations(tmp_path, seed):
    rng = random.Random(seed)
    n, k = rng.choice([1, 2, 63, 65, 333, 700, 900]), rng.choice([1, 17, 600, 2000])
    trans = rng.choice("TN")
    source = make(tmp_path / "input.h5", n, k, rng.choice(["f4", "f8"]), trans)
    more, ranks, env = configuration(rng, tmp_path)
    if not env or not ranks or (BUILD / FAULTY).exists():
        same(source, trans, *more, scalars=rng.choice([[], SCALARS, ["--alpha", "-0.5"]]), ranks=ranks, **env)


KINDS = {"symmetric": ("c8", ["-b", "A", "--transb", "T"]), "Hermitian": ("c16", ["-b", "A", "--transb", "C", "--alpha", "2"]),
         "A^H A": ("c8", ["-b", "A", "--transa", "C"]), "integers": ("i1", GENERAL), "large integers": ("i4", GENERAL),
         "residues": ("f8", [*GENERAL, "--algo", "ozaki"]), "float16": ("f2", GENERAL),
         "rounded": ("f8", [*GENERAL, "--type-c", "s"]), "rounded complex": ("c16", ["-b", "A", "--transb", "C", "--type-c", "c"]),
         "cov": ("f8", ["--product", "cov"]), "cor": ("f4", ["--product", "cor", "--transa", "T"])}


@pytest.mark.pairwise
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ranks", [0, 3])
@pytest.mark.parametrize("name", ["packed.h5", "packed.npy"])
def test_kinds(tmp_path, kind, ranks, name):
    dtype, words = KINDS[kind]
    rng = np.random.default_rng(5)
    a = rng.integers(-99, 99, (130, 150)) + (1j * rng.integers(-99, 99, (130, 150)) if dtype[0] == "c" else 0)
    source, out = write(tmp_path / "input.h5", A=(a if dtype[0] == "i" else a / 7).astype(dtype)), tmp_path / name
    zeros, report = result(source, *words, *LOWER)
    memory = ["--gpu-memory", "16M" if kind == "residues" else "600K"]
    packed = multiply(source, *words, *PACKED, *CHECKED, *memory, "-o", out, ranks=ranks)
    got = np.load(out) if name.endswith("npy") else read(out)
    assert got.tobytes() == half(zeros).tobytes() and got.dtype == zeros.dtype
    assert packed["checksum"] == report["checksum"]
    done = run("dgemm_ooc", "--check-only", "-o", out, ranks=ranks)
    assert done.returncode == 0 and "checksum equal" in done.stdout, done.stdout + done.stderr
    whole = run("h5mat", "gen", tmp_path / "whole.h5:/C", "--unpack", out)
    assert whole.returncode == 0, whole.stderr
    turned = zeros.conj().T if "C" in words else zeros.T
    assert np.array_equal(read(tmp_path / "whole.h5"), zeros + np.triu(turned, 1))


@pytest.mark.parametrize("layers", [1, 2, 4])
def test_layers(tmp_path, faulty, layers):  # noqa: F811
    source = make(tmp_path / "input.h5", 90, 2048)
    how = {"DGEMM_OOC_TEST_BLOCK": "64"}
    reference, _ = result(source, *GENERAL, *SCALARS, **how)
    got, report = result(source, *ROWS, *SCALARS, ranks=4, **how, DGEMM_OOC_TEST_LAYERS=str(layers))
    assert report["plan"]["layers"] == layers and got.tobytes() == half(reference).tobytes()


def test_kinship_of_genotypes(tmp_path):
    """What lies in the file is what GCTA calls .grm.bin."""
    path = write_bed(tmp_path / "g.bed", genotypes(53, 611))
    words = [path, "--product", "gram", "--center", "cols", "--scale", "cols", "--nan", "mean", "--force", "-o"]
    for file, more in [("full.npy", []), ("kin.npy", PACKED)]:
        assert run("dgemm_ooc", *words, tmp_path / file, *more).returncode == 0
    grm = np.fromfile(tmp_path / "kin.npy", "f4", 53 * 54 // 2, offset=128)
    assert grm.tobytes() == half(np.load(tmp_path / "full.npy")).tobytes() == np.load(tmp_path / "kin.npy").tobytes()


def test_half_of_the_disk_is_needed(tmp_path):
    source = sparse(tmp_path / "input.h5", "A", (2000, 8), "f4")
    limit = {"wrapper": ["sh", "-c", 'ulimit -f 20000; exec "$@"', "sh"]}
    for more, code in [(PACKED, 0), (LOWER, 4)]:
        done = run("dgemm_ooc", source, *GENERAL, *more, "-o", tmp_path / f"{more[1]}.h5", **limit)
        assert done.returncode == code, done.stderr
    assert (tmp_path / "packed.h5").stat().st_size < 2000 * 2001 * 2 + 3e6 and "ulimit -f" in done.stderr


def test_the_output_and_the_run_say_so(tmp_path):
    source = make(tmp_path / "input.h5", 200, 100)
    for more in [], ["--dry-run"]:
        assert "symmetric: lower half only, packed row by row" in run("dgemm_ooc", source, *ROWS, *more).stdout
    with h5py.File(output_of(source)) as file:
        assert file["C"].attrs["triangle"] == ATTRIBUTE
    done = run("h5mat", "info", output_of(source))
    assert "/C: 200 x 200 double, 160800 bytes" in done.stdout and "the lower triangle row by row" in done.stdout
    assert "C (f64 200x200)" in run("h5mat", "info", f"{output_of(source)}:/D").stderr
    multiply(source, *HALF, "-o", tmp_path / "lower.h5")
    done = run("h5mat", "diff", output_of(source), tmp_path / "lower.h5")
    assert done.returncode == 0 and done.stdout.endswith("\nequal\n")
    with h5py.File(output_of(source), "r+") as file:
        file["C"][150 * 151 // 2 + 7] += 1
    done = run("h5mat", "diff", output_of(source), tmp_path / "lower.h5")
    assert done.returncode == 5 and "at row 150, column 7" in done.stdout


def test_copies_of_other_programs(tmp_path):
    """In chunks, and in the other byte order: the library reads them."""
    source = make(tmp_path / "input.h5", 150, 100)
    multiply(source, *ROWS)
    with h5py.File(output_of(source)) as made, h5py.File(tmp_path / "copies.h5", "w") as file:
        for name, how in {"chunked": dict(chunks=(1000,), compression="gzip"), "big": dict(dtype=">f8")}.items():
            copy = file.create_dataset(name, data=made["C"][()], **how)
            copy.attrs.update(made["C"].attrs)
    for name in "chunked", "big":
        words = [f"{tmp_path}/copies.h5:/{name}", f"{output_of(source)}:/C"]
        assert run("h5mat", "diff", *words).stdout.endswith("\nequal\n")
        done = run("dgemm_ooc", "--check-only", source, "-o", words[0])
        assert done.returncode == 0 and "checksum equal" in done.stdout, done.stdout + done.stderr
        assert run("h5mat", "gen", tmp_path / "whole.h5", "--unpack", words[0], "--chunk", "70x90", "--force").returncode == 0
        assert np.array_equal(half(read(tmp_path / "whole.h5", "A")), read(output_of(source)))


def test_a_packed_c_is_added(tmp_path):
    """To half of a product, packed or with zeros; otherwise it is no operand."""
    source = make(tmp_path / "input.h5", 150, 150)
    multiply(source, *ROWS, "-o", tmp_path / "c.npy")
    c = np.load(tmp_path / "c.npy")
    add = ["--beta", 2, "-c", tmp_path / "c.npy", "-o", tmp_path / "d.h5", "--force", *CHECKED]
    for ranks in 0, 2:
        multiply(source, *ROWS, *add, ranks=ranks)
        assert np.allclose(read(tmp_path / "d.h5"), 3 * c)
    multiply(source, *HALF, *add)
    assert np.allclose(half(read(tmp_path / "d.h5")), 3 * c)
    for words in [[*GENERAL, *ON, *add], ["-a", tmp_path / "c.npy", "-b", "A"], ["-b", tmp_path / "c.npy", "-a", "A"]]:
        done = run("dgemm_ooc", source, *words)
        assert done.returncode == INPUT and "is a packed triangle, which is no operand" in done.stderr, done.stderr


@each("more, code", [
    (["--grid", "1x1"], 2), (["--tile", "20x20x16"], 2), (["--alpha", "0"], 2),
    (["--transa", "T"], 3), (["-a", "A", "-b", "C"], 3)])
def test_what_it_does_not_go_with(tmp_path, more, code):
    source = make(tmp_path / "input.h5", 50, 50)
    for dry in [], ["--dry-run"]:
        done = run("dgemm_ooc", source, *ROWS, *more, *dry)
        assert done.returncode == code and done.stderr.count("--symmetric packed") == 1, done.stderr
        assert not output_of(source).exists()


@each("change, says", [
    (lambda file: file["C"].attrs.modify("triangle", "upper"), "has 1 dimension"),
    (lambda file: file["C"].attrs.__delitem__("triangle"), "has 1 dimension"),
    (lambda file: file.create_dataset("D", data=np.zeros(11)).attrs.create("triangle", ATTRIBUTE), "has 11 elements, as no triangle has")])
def test_damaged_ones(tmp_path, change, says):
    source = make(tmp_path / "input.h5", 50, 50)
    multiply(source, *ROWS, "--force")
    with h5py.File(output_of(source), "r+") as file:
        change(file)
    done = run("dgemm_ooc", "--check-only", source, "-o", f"{output_of(source)}:/{'D' if 'no' in says else 'C'}")
    assert done.returncode == INPUT and says in done.stderr, done.stderr


@pytest.mark.parametrize("name", ["c.h5", "c.npy"])
def test_a_flipped_bit_is_found(tmp_path, name):
    source, out = make(tmp_path / "input.h5", 120, 80), tmp_path / name
    multiply(source, *ROWS, "-o", out)
    info = run("h5mat", "info", out).stdout
    begin, end = int(info.split("at offset ")[1].split()[0]), 120 * 121 * 4
    data = out.read_bytes()
    for at in 0, 5003, end - 1:
        wrong = bytearray(data)
        wrong[begin + at] ^= 64
        out.write_bytes(wrong)
        assert run("dgemm_ooc", "--check-only", source, "-o", out, ranks=2).returncode == 5
    out.write_bytes(data)
    assert run("dgemm_ooc", "--check-only", source, "-o", out).returncode == 0


@pytest.mark.parametrize("at", [1, 2, 3])
def test_the_full_check_finds_what_was_written_wrong(tmp_path, faulty, at):  # noqa: F811
    source = make(tmp_path / "input.h5", 300, 200)
    done = run(FAULTY, source, *ROWS, *CHECKED, "--io", "buffered",
               DGEMM_OOC_TEST_FAULTS=f"pwrite:flip@{at}", DGEMM_OOC_TEST_FAULT_FILE=".part")
    assert done.returncode == 5, done.stdout + done.stderr


@pytest.mark.parametrize("seed", range(SEEDS))
def test_interrupted_runs_leave_the_same_bits(tmp_path, faulty, seed):  # noqa: F811
    rng = random.Random(seed)
    source = make(tmp_path / "input.h5", 500, 6000)
    reference, _ = result(source, *GENERAL, *SCALARS, *OFF)
    (tmp_path / "result.h5").unlink()
    for attempt in range(4):
        code = stop(source, 10 * seed + attempt, *PACKED, "--checkpoint", rng.choice(["0.1s", "10m"]),
                    ranks=rng.choice([0, 0, 2, 3]), memory=rng.choice(["2M", "4M", "16M", "64M"]),
                    number=rng.choice([signal.SIGUSR2, signal.SIGUSR2, signal.SIGKILL]))
        if code == 0:
            break
    done = run("dgemm_ooc", source, *ROWS, *SCALARS, "--gpu-memory", "8M", ranks=rng.choice([0, 2]))
    assert done.returncode == 0 and "damaged" not in done.stderr, done.stderr
    assert read(output_of(source)).tobytes() == half(reference).tobytes()


def test_a_run_to_npy_is_resumed(tmp_path, faulty):  # noqa: F811
    source, out = make(tmp_path / "input.h5", 500, 6000), tmp_path / "c.npy"
    words, part = [source, *ROWS, "-o", out, "--gpu-memory", "2M"], tmp_path / "c.npy.part"
    with start_late(*words, late="20") as process:
        wait_until(lambda: part.exists() and part.stat().st_blocks > 20, process)
        os.kill(process.pid, signal.SIGUSR2)
        process.communicate(timeout=PATIENCE)
    assert process.returncode == 75
    done = run("dgemm_ooc", *words, *CHECKED, ranks=2)
    assert done.returncode == 0 and "Restart" in done.stdout, done.stdout + done.stderr
    assert np.allclose(np.load(out), half(read(source, "A") @ read(source, "A").T))
    assert "made from these operands already" in run("dgemm_ooc", *words).stdout


@each("first, then, says", [
    (PACKED, LOWER, 'triangle was "packed" and is "lower" now'), (LOWER, PACKED, 'triangle was "lower" and is "packed" now'),
    (ON, PACKED, 'triangle was not there and is "packed" now')])
def test_a_run_of_another_half_is_not_resumed(tmp_path, first, then, says):
    if not (BUILD / FAULTY).exists():
        pytest.skip("the program with faults is not built: make test")
    source = make(tmp_path / "input.h5", 500, 30000)
    assert stop(source, 1, *first, "--checkpoint", "0.1s") == 75
    done = run("dgemm_ooc", source, *GENERAL, *SCALARS, *then)
    assert done.returncode == 3 and says in done.stderr and "--restart never" in done.stderr
    multiply(source, *GENERAL, *SCALARS, *then, "--restart", "never", "--force")
    output_of(source).unlink()


def test_no_half_is_taken_for_another(tmp_path):
    source = make(tmp_path / "input.h5", 100, 50)
    made = {"packed": "as a packed triangle", "lower": "with zeros above the diagonal", "on": "as a whole"}
    for first, what in made.items():
        multiply(source, *GENERAL, "--symmetric", first, "--force")
        for then in {"packed", "lower"} - {first}:
            words = [source, *GENERAL, "--symmetric", then]
            done = run("dgemm_ooc", *words)
            assert done.returncode == INPUT and "--force" in done.stderr
            done = run("dgemm_ooc", "--check-only", *words)
            assert done.returncode == INPUT and f"made {what}, not with the --symmetric {then}" in done.stderr, done.stderr


def test_damage_of_what_is_complete_is_written_anew(tmp_path, faulty):  # noqa: F811
    """Nothing is above the diagonal, so that all of it is."""
    source = make(tmp_path / "input.h5", 600, 2000)
    assert stop(source, 0, *PACKED, memory="2M", until=lambda: has_numbers(source)) == 75
    with h5py.File(part_of(source), "r+") as file:
        file["C"][int(np.nonzero(file["C"][()])[0][0])] += 1
    done = run("dgemm_ooc", source, *ROWS, *SCALARS)
    assert done.returncode == 0 and "all of C is computed again" in done.stderr, done.stderr
    reference, _ = general_result(source, *GENERAL, *SCALARS)
    assert read(output_of(source)).tobytes() == half(reference).tobytes()


def test_bands_of_several_ranks(tmp_path):
    source = make(tmp_path / "input.h5")
    for ranks in 3, 8:
        report = same(source, "T", *machine(tmp_path, SLOW_BUS), *CHECKED, ranks=ranks)
        assert report["plan"]["grid"][0] > 1 and report["stages"]["write"]["bytes"] == report["plan"]["write_bytes"]
