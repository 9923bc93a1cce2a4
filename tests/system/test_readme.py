"""The commands in the documents work as printed."""
import re
import shutil
import subprocess
import sys

import h5py
import numpy as np
import pytest

from blocks import blocks, first_hour
from cases import each
from launch import GPU, PATIENCE, ROOT, built, environment, run
from matrices import genotypes, operands, output_of, write_bed

README = (ROOT / "README.md").read_text()
DOCUMENTS = [README, *((ROOT / folder / "README.md").read_text()
                       for folder in ("src", "io", "kernels", "jobs", "tests", "tests/bench"))]
PROGRAMS = "dgemm_ooc", "h5mat"


def command(path, text):
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def bash(text, folder, env):
    return subprocess.run(["bash", "-euc", text], cwd=folder, env=env, capture_output=True, text=True,
                          timeout=PATIENCE)


def shell(text, folder):
    """Run commands in a folder; programs are found as after an installation, and mpirun replaces srun."""
    bin = folder / "bin"
    command(bin / "srun", 'exec mpirun "$@"')
    for name in PROGRAMS:
        for where in (bin, folder):
            (where / name).symlink_to(built(name))
    env = environment(8, DGEMM_OOC_DEVICE="cpu")
    return bash(text, folder, {**env, "PATH": f"{bin}:{env['PATH']}"})


def has_h5py(python):
    return shutil.which(python) and subprocess.run([python, "-c", "import h5py"],
                                                   capture_output=True).returncode == 0


@pytest.fixture
def clone(tmp_path, device):
    """A folder in which everything is built and nothing is installed."""
    (tmp_path / "build").mkdir()
    for name in PROGRAMS:
        (tmp_path / "build" / name).symlink_to(built(name, device))
    command(tmp_path / "bin/make", f'echo "make $*" >>"{tmp_path}/made"')
    return tmp_path


@pytest.mark.skipif(not has_h5py("/usr/bin/python3"), reason="no h5py for /usr/bin/python3 here, where make setup puts it")
def test_first_hour(clone, device):
    """From the first command to a product on two ranks, as a user or as root, for whom mpirun needs more
    options.  The first python3 of PATH may have no h5py."""
    command(clone / "bin/python3", "exit 1")
    for name in ("sudo", "git"):
        command(clone / f"bin/{name}", "exit 0")
    (clone / "dgemm_ooc").symlink_to(".")
    section = README.split("\n## Install\n")[1].split("\n## What it multiplies\n")[0]
    typed = first_hour(README)
    assert len(typed) == 4 and max(len(block.splitlines()) for block in typed) <= 10
    if device == "gpu" and not GPU:  # with an emulated one this takes a minute; half of k is still out of core
        typed = [re.sub(r"\b[1-3]000\b", lambda size: str(int(size[0]) // 2), block) for block in typed]
        assert "rand(1500, 1000)" in typed[2] and "rand(1000, 500)" in typed[2]
    env = environment(2, DGEMM_OOC_DEVICE=device, URL="the address")
    env = {key: value for key, value in env.items() if not key.startswith("OMPI_ALLOW_RUN_AS_ROOT")}
    done = bash("".join(typed), clone, {**env, "PATH": f"{clone}/bin:{env['PATH']}"})
    assert done.returncode == 0, done.stderr
    assert (clone / "made").read_text() == "make setup demo\n"
    shown, = re.findall(r"^```\n(.*)\n```$", section, re.M)
    results = re.findall("^RESULT: .*", done.stdout, re.M)
    size = r" [\d.e-]+ "  # of the error, which depends on the matrices
    assert len(results) == 2 and all(re.sub(size, " X ", line) == re.sub(size, " X ", shown) for line in results)
    with h5py.File(clone / "input.h5") as operands, h5py.File(clone / "input-C.h5") as file:
        np.testing.assert_allclose(file["C"], operands["A"][:] @ operands["B"][:], rtol=1e-9)


def z_scores(a):
    a = np.where(np.isnan(a), np.nanmean(a, 0), a)
    return (a - a.mean(0)) / a.std(0, ddof=1)


WHAT_IT_MULTIPLIES = [  # of A, B and C, square, as NumPy has it; in the order of the table
    lambda a, b, c: 2 * a.T @ b.T + c, lambda a, b, c: a @ a.T, lambda a, b, c: np.cov(a),
    lambda a, b, c: a.T @ (a @ b), lambda a, b, c: z_scores(a) @ z_scores(a).T, lambda a, b, c: a @ b, lambda a, b, c: a @ b,
    lambda a, b, c: a @ b]


@each("number", range(len(WHAT_IT_MULTIPLIES)))
def test_what_it_multiplies(tmp_path, number):
    """The options of each row of the README's table make what the row says."""
    rows = README.split("\n| C | options |\n|---|---|\n")[1].split("\n\n")[0].splitlines()
    assert len(rows) == len(WHAT_IT_MULTIPLIES)
    options = re.match(r"`(--[^`]*)`|none", rows[number].split(" | ", 1)[1])
    numbers, whole, half = np.random.default_rng(number), "integers" in rows[number], "float16" in rows[number]
    a, b, c = (numbers.integers(-9, 9, (40, 40)).astype("i2" if whole else "f2" if half else "f8") for _ in "ABC")
    if "--nan mean" in rows[number]:
        a[3, 7] = np.nan
    with h5py.File(tmp_path / "input.h5", "w") as file:
        file.update({"A": a, "B": b, "C": c})
    done = shell(f"dgemm_ooc input.h5 -q {options[1] or ''}", tmp_path)
    assert done.returncode == 0, done.stderr
    want = WHAT_IT_MULTIPLIES[number](*(x.astype("f8") for x in (a, b, c)))
    with h5py.File(tmp_path / "input-C.h5") as file:
        np.testing.assert_allclose(file["C"], want, rtol=1e-9, atol=1e-9)
        assert file["C"].dtype == (np.int64 if whole else np.float32 if half else np.float64)


@pytest.mark.parametrize("product, want", [("gram", lambda a: a.T @ a), ("cov", lambda a: np.cov(a, rowvar=False)),
                                           ("cor", np.corrcoef),
                                           ("cross-cov -b A2", lambda a: np.cov(a, a**2, rowvar=False)[:40, 40:]),
                                           ("cross-cor -b A2", lambda a: np.corrcoef(a, a**2, rowvar=False)[:40, 40:]),
                                           ("normal --center cols -b X", lambda a: (a - a.mean(0)).T @ (a - a.mean(0)) @ a.T)])
def test_the_other_products_of_the_table(tmp_path, product, want):
    a = np.random.default_rng(1).standard_normal((30, 40))
    with h5py.File(tmp_path / "input.h5", "w") as file:
        file["A"], file["A2"], file["X"] = a, a**2, a.T.copy()
    done = shell(f"dgemm_ooc input.h5 -q --product {product} {'' if product[:3] in ('cor', 'nor') else '--transa T'}", tmp_path)
    assert done.returncode == 0, done.stderr
    with h5py.File(tmp_path / "input-C.h5") as file:
        np.testing.assert_allclose(file["C"], want(a), rtol=1e-9, atol=1e-12)


EXAMPLES = [line for document in DOCUMENTS for block in blocks(document) for line in block.splitlines()
            if "import h5py" not in block and "$PWD" not in block
            and re.match(r"(\./)?(dgemm_ooc|h5mat|mpirun|srun) ", line)]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    operands(folder / "input.h5", 300, 200, 100)
    assert run("dgemm_ooc", folder / "input.h5").returncode == 0
    shutil.copy(output_of(folder / "input.h5"), folder / "other-C.h5")
    operands(folder / "big.h5", 30, 20, 10)
    done = run("dgemm_ooc", folder / "input.h5", "--product", "gram", "--symmetric", "packed", "-o", folder / "packed.h5")
    assert done.returncode == 0, done.stderr
    for name in "A", "B":
        np.save(folder / f"{name}.npy", np.eye(9))
    write_bed(folder / "A.bed", genotypes(9, 7))
    assert run("h5mat", "gen", folder / "g.h5", "--rows", "30", "--cols", "50", "--pattern", "genotype").returncode == 0
    return folder


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_run(files, tmp_path, example):
    for path in files.iterdir():
        if path.name.split(".")[0] not in ("big", "g", "input-C") or "gen" not in example:
            shutil.copy2(path, tmp_path)
    done = shell(example, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_kinship_is_what_the_document_says(tmp_path):
    lines = [line for line in EXAMPLES if "g.h5" in line]
    said = " ".join((ROOT / "kernels/README.md").read_text().split())
    assert len(lines) == 2 and "Kinship is Z Z^T / 5000. Z is zscore(A with means for NaN, ddof=1)" in said
    done = shell("\n".join(lines), tmp_path)
    assert done.returncode == 0, done.stderr
    with h5py.File(tmp_path / "g.h5") as file, h5py.File(tmp_path / "kinship.h5") as output:
        a, c = file["A"][:], output["C"][:]
    assert np.isnan(a).any() and a.shape == (300, 5000)
    a = np.where(np.isnan(a), np.nanmean(a, axis=0), a)
    z = (a - a.mean(axis=0)) / a.std(axis=0, ddof=1)
    assert np.abs(c - z @ z.T / 5000).max() < 1e-12


def test_without_arguments_it_shows_what_to_type(tmp_path):
    done = run("dgemm_ooc")
    assert done.returncode == 2 and done.stderr.startswith("Usage: dgemm_ooc ")
    example = re.search(r"Example: (.*)dgemm_ooc: ", done.stderr, re.S)[1]
    typed = shell(example, tmp_path)
    assert typed.returncode == 0 and "RESULT: C complete" in typed.stdout, typed.stderr


def test_short_help_fits_a_screen_and_says_what_there_is():
    lines = run("dgemm_ooc", "--help").stdout.splitlines()
    assert len(lines) <= 24 and max(map(len, lines)) <= 80
    help_all = run("dgemm_ooc", "--help-all").stdout
    for option in re.findall(r"(?<![\w-])--?[A-Za-z][a-z-]*", "\n".join(lines[3:])):
        assert re.search(rf"(?<![\w-]){option}\b", help_all), option
