"""What the README says to type works as it is there."""
import re
import shutil
import subprocess
import sys

import pytest

from launch import ROOT, built, environment, run
from matrices import operands, output_of

README = (ROOT / "README.md").read_text()


def blocks():
    """Indented lines, as they would be typed."""
    for block in re.findall(r"(?:^    .*\n)+", README, re.M):
        yield re.sub(r"^    ", "", block, flags=re.M)


def shell(text, folder, device="cpu"):
    """Run it in a folder; programs are found as after an installation, srun is mpirun."""
    bin = folder / "bin"
    bin.mkdir()
    for name, program in (("srun", "mpirun"), ("python3", sys.executable)):
        (bin / name).write_text(f"#!/bin/sh\nexec '{program}' \"$@\"\n")
        (bin / name).chmod(0o755)
    for name in ("dgemm_ooc", "h5mat", "gemm_bench"):
        for where in (bin, folder):
            (where / name).symlink_to(built(name, device))
    env = environment(8, DGEMM_OOC_DEVICE=device)
    env["PATH"] = f"{bin}:{env['PATH']}"
    return subprocess.run(["bash", "-euc", text], cwd=folder, env=env, capture_output=True, text=True,
                          timeout=300)


def test_a_first_product(tmp_path, device):
    block, = (block for block in blocks() if "import h5py" in block)
    assert len(block.splitlines()) <= 10
    done = shell(block, tmp_path, device)
    assert done.returncode == 0, done.stderr
    assert "checksum equal" in done.stdout and "RESULT: C complete" in done.stdout
    assert float(re.search(r"row 7 differs by ([\d.e-]+)", done.stdout)[1]) < 1e-9


EXAMPLES = [line for block in blocks() if "import h5py" not in block for line in block.splitlines()
            if re.match(r"(\./)?(dgemm_ooc|h5mat|gemm_bench|mpirun|srun) ", line)]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    operands(folder / "input.h5", 300, 200, 100)
    assert run("dgemm_ooc", folder / "input.h5").returncode == 0
    shutil.copy(output_of(folder / "input.h5"), folder / "other-C.h5")
    operands(folder / "big.h5", 30, 20, 10)
    return folder


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_run(files, tmp_path, example):
    for path in files.iterdir():
        if path.name.split(".")[0] not in ("big", "input-C") or "gen" not in example:
            shutil.copy2(path, tmp_path)
    done = shell(example, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


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
