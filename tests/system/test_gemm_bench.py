"""gemm_bench on the CPU: what it measures, checks and writes."""
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from cases import each
from launch import BUILD, GPU, ROOT, run

PROGRAM = "tests/bench/gemm_bench"
REAL = pytest.mark.skipif(not GPU, reason="rivals need a real GPU: make test-gpu")


def test_measures_and_writes(tmp_path):
    file = tmp_path / "bench.json"
    done = run(PROGRAM, "--algo", "cpu", "--size", "33x20x17,64", "--trans", "NT,TT", "--repeat", 3,
               "--ld-pad", 1, "--transfers", "--check", "--sweep", "--json", file)
    assert done.returncode == 0, done.stderr
    result = json.loads(file.read_text())
    rows = result["rows"]
    assert [(r["type"], r["m"], r["n"], r["k"], r["trans"]) for r in rows] == [
        (t, *s, x) for t in ("float", "double") for s in ((33, 20, 17), (64, 64, 64))
        for x in ("NT", "TT")]
    for row in rows:
        assert row["ms_min"] <= row["ms"] <= row["ms_max"] and row["tflops"] > 0
        assert row["ms_with_copies"] > 0 and row["ldc"] == row["m"] + 1 and row["shape"] == ""
        assert row["errors"]["compared"] == row["m"] * row["n"] and row["errors"]["over"] == 0
        assert 0 < row["errors"]["max_abs"] < (1e-4 if row["type"] == "float" else 1e-12)
    assert done.stdout.count(" ok: max ") == len(rows)

    draw = [sys.executable, ROOT / "tests/bench/ladder.py", file]
    subprocess.run(draw, check=True, capture_output=True)
    for kind in ("float", "double"):
        picture = (tmp_path / f"ladder-{kind}.svg").read_text()
        assert "64x64x64" in picture and picture.count("TFLOP/s</title>") == 2


def test_products_in_residues(tmp_path):
    """Results are listed by number of moduli, and errors decrease with that number."""
    file = tmp_path / "bench.json"
    done = run(PROGRAM, "--algo", "cpu,ozaki,ozaki:8,ozaki:16", "--size", "60x50x700", "--trans", "NT",
               "--repeat", 2, "--check", "--type", "d", "--json", file)
    assert done.returncode == 0, done.stderr
    rows = json.loads(file.read_text())["rows"]
    assert [row["algorithm"] for row in rows] == ["cpu", "ozaki:14", "ozaki:8", "ozaki:16"]
    cpu, usual, few, many = (row["errors"]["mse"] for row in rows)
    assert many < usual < cpu < few / 1e6


def test_elements_of_different_magnitudes(tmp_path):
    """Errors are given in units of u |A||B|: those of sums stay small, those in residues grow with phi."""
    file, errors = tmp_path / "bench.json", {}
    for phi in (0, 2):
        done = run(PROGRAM, "--algo", "cpu,ozaki", "--size", "60x50x700", "--trans", "TN", "--repeat", 1,
                   "--check", "--type", "d", "--phi", phi, "--json", file)
        assert done.returncode == 0, done.stdout + done.stderr
        result = json.loads(file.read_text())
        assert result["phi"] == phi
        errors[phi] = [row["errors"]["max_units"] for row in result["rows"]]
        for row, units in zip(result["rows"], errors[phi]):
            assert f" {units:.3g}  ok" in done.stdout, row
    assert all(1 < errors[phi][0] < 40 for phi in errors)
    assert 0.3 < errors[0][1] < 5 < 50 * errors[0][1] < errors[2][1]


@pytest.mark.gpu
@REAL
def test_another_library(tmp_path):
    """It is measured in turn with cuBLAS.  With cuBLAS's products of bytes, products in residues have the same errors
    as with ours."""
    file, library = tmp_path / "bench.json", BUILD / "tests/bench/libcublas_int8.so"
    done = run(PROGRAM, "--algo", f"cublas,ozaki,{library}", "--size", "300x200x9000,4096", "--repeat", 3,
               "--json", file)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads(file.read_text())["rows"]
    assert len(rows) == 3 * 16
    for cublas, ours, theirs in zip(rows[::3], rows[1::3], rows[2::3]):
        assert (cublas["algorithm"], theirs["algorithm"]) == ("cublas", "cublas_int8")
        assert ours["algorithm"] == ("ozaki:7" if ours["type"] == "float" else "ozaki:14")
        assert theirs["errors"] == ours["errors"] != cublas["errors"] and theirs["of_cublas"] > 0


@pytest.mark.gpu
@REAL
@pytest.mark.parametrize("library, words", [("/no/such/lib.so", "/no/such/lib.so cannot be loaded"),
                                            ("", " has no cublasCreate_v2: give a library that exports")])
def test_no_such_library(library, words):
    libc = re.search(r"/\S*/libc[.-]\S*", Path("/proc/self/maps").read_text())[0]
    done = run(PROGRAM, "--algo", library or libc, "--size", "8")
    assert done.returncode == 4 and words in done.stderr and not done.stdout


@pytest.mark.gpu
@REAL
def test_a_wrong_product():
    """Too few moduli for such elements: a rival's products are judged as running sums."""
    done = run(PROGRAM, "--algo", f"cublas,{BUILD}/tests/bench/libcublas_int8.so", "--size", "300x200x9000",
               "--type", "d", "--phi", 4, "--repeat", 1, MODULI="8")
    assert done.returncode == 5 and done.stdout.count("  ok") == done.stdout.count("  WRONG: max ") == 4


def test_complex_products(tmp_path):
    """Rows count complex numbers, and 8 operations for each multiply-add; transposed operands are right, too."""
    file = tmp_path / "bench.json"
    done = run(PROGRAM, "--algo", "cpu,ozaki,ozaki:6", "--size", "33x20x170", "--repeat", 2, "--ld-pad", 1,
               "--check", "--type", "z,c", "--json", file)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads(file.read_text())["rows"]
    assert [(r["type"], r["trans"], r["algorithm"]) for r in rows] == [
        (t, x, a) for t, usual in (("c", "ozaki:8"), ("z", "ozaki:15")) for x in ("NN", "NT", "TN", "TT")
        for a in ("cpu", usual, "ozaki:6")]
    for row in rows:
        assert (row["m"], row["n"], row["k"], row["ldc"]) == (33, 20, 170, 34)
        assert row["errors"]["compared"] == 2 * 33 * 20 and row["errors"]["over"] == 0
        assert abs(row["tflops"] * row["ms"] * 1e9 / (8 * 33 * 20 * 170) - 1) < 1e-3


@each("arguments", [["--algo", "none"], ["--algo", "ozaki:5"], ["--algo", "cpu:9"],
                                       ["--size", "3x4"], ["--trans", "NX"], ["--type", "q"], ["--type", "sd"],
                                       ["--phi", "-1"], ["--phi", "9"], ["--phi", "x"], ["--repeat", "0"], ["more"]])
def test_usage(arguments):
    assert run(PROGRAM, *arguments).returncode == 2


@pytest.mark.parametrize("option, words", [("-h", "--ld-pad=P"), ("--usage", "[--ld-pad=P]"),
                                           ("--version", "HDF5 ")])
def test_help_and_version(option, words):
    done = run(PROGRAM, option)
    assert done.returncode == 0 and words in done.stdout and not done.stderr


def test_without_gpu():
    done = run(PROGRAM, "--algo", "0", "--size", "8")
    if done.returncode == 0:
        pytest.skip("there is a GPU here")
    # A build without CUDA does not know the algorithm; a build with CUDA lacks the GPU.
    assert done.returncode in (2, 4) and ("no GPU" in done.stderr or "this build has" in done.stderr)
    done = run(PROGRAM, "--algo", "./librival.so", "--size", "8")
    assert done.returncode == 4 and "no GPU here that ./librival.so could run on: " in done.stderr
