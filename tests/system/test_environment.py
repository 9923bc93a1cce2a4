"""Options from the environment: valid ones, invalid ones, and variables that sites set for other purposes."""
import re
import subprocess

import pytest

from cases import each
from launch import BUILD, environment, run
from matrices import digest, multiply, operands, output_of, product, read, snapshot, write

USAGE, INPUT = 2, 3
ON, OFF = ["1", "yes", "true", "on", "YES", "True", "oN"], ["0", "no", "false", "off", "NO", "False", ""]


@pytest.fixture
def source(tmp_path):
    operands(tmp_path / "input.h5", 20, 30, 40)
    return tmp_path / "input.h5"


def refused(source, *options, ranks=0, **variables):
    """The complaint of a run that changes no file; it is printed once for any number of ranks."""
    before = snapshot(source.parent)
    done = run("dgemm_ooc", source, *options, ranks=ranks, **variables)
    assert done.returncode == USAGE, done.stdout + done.stderr
    assert snapshot(source.parent) == before
    lines = [line for line in done.stderr.splitlines() if line.startswith("dgemm_ooc: ")]
    assert len(lines) == 1, done.stderr
    return lines[0]


@pytest.mark.parametrize("value", ON)
def test_a_switch_is_on(source, value):
    multiply(source)
    before = digest(output_of(source))
    multiply(source, "--alpha", 2, DGEMM_OOC_FORCE=value)
    assert digest(output_of(source)) != before


@pytest.mark.parametrize("value", OFF)
def test_a_switch_is_off(source, value):
    multiply(source)
    before = digest(output_of(source))
    done = run("dgemm_ooc", source, "--alpha", 2, DGEMM_OOC_FORCE=value)
    assert done.returncode == INPUT and "exists; give --force" in done.stderr
    assert digest(output_of(source)) == before


@each("value", ["2", "maybe", "y", " ", "--no"])
def test_a_switch_is_neither(source, value):
    assert f"DGEMM_OOC_FORCE={value}: give yes or no" in refused(source, DGEMM_OOC_FORCE=value)


@each("variable, value, option", [
    ("HOST_MEMORY", "much", "--host-memory"), ("ALPHA", "x", "--alpha"), ("GRID", "2", "--grid"),
    ("TILE", "7", "--tile"), ("RESTART", "perhaps", "--restart"), ("ALGO", "9", "--algo"),
    ("CHECKPOINT", "soon", "--checkpoint")])
def test_a_bad_value_is_said_of_the_variable(source, variable, value, option):
    """The complaint names the variable and not the option, unless the option is on the command line."""
    complaint = refused(source, **{f"DGEMM_OOC_{variable}": value})
    assert f"DGEMM_OOC_{variable}={value}: " in complaint and option not in complaint
    complaint = refused(source, f"{option}={value}", DGEMM_OOC_HOST_MEMORY="1G")
    assert f"{option} {value}: " in complaint and "DGEMM" not in complaint


@pytest.mark.singly
@pytest.mark.parametrize("variable, meant", [
    ("GPU_MEM", "GPU_MEMORY"), ("GPUMEMORY", "GPU_MEMORY"), ("HOST_MEMROY", "HOST_MEMORY"),
    ("CHECK_POINT", "CHECKPOINT"), ("FORCED", "FORCE"), ("force", "FORCE"), ("FOO", None), ("SOMETHING_ELSE", None)])
@pytest.mark.parametrize("ranks", [0, 2])
def test_a_variable_that_is_no_option(source, variable, meant, ranks):
    complaint = refused(source, ranks=ranks, **{f"DGEMM_OOC_{variable}": "1G"})
    assert f"DGEMM_OOC_{variable} is not an option" in complaint and "unset it" in complaint
    assert f"is DGEMM_OOC_{meant} meant?" in complaint if meant else "--help-all" in complaint


def test_what_a_site_sets(source):
    """Site modules set the location and version of a package: these are neither options nor errors."""
    site = ["VERSION", "HELP", "USAGE", "HOME", "DIR", "ROOT", "PATH", "BASE", "PREFIX", "BIN",
            "LIB", "BIN_DIR", "LIB_DIR", "DOC_PATH", "BUILD"]
    report = multiply(source, **{f"DGEMM_OOC_{name}": "1" for name in site}, DGEMM_OOC_TEST_OF_MINE="1")
    assert report["status"] == "complete" and output_of(source).exists()


def test_no_switch_of_tests():
    """Tests inject faults at link time; the product itself reads no variable of theirs."""
    assert not re.search(rb"DGEMM_OOC_TEST_\w", (BUILD / "dgemm_ooc").read_bytes())


def test_help_and_version_come_whatever_is_set():
    for option, words in [("--help", "Usage:"), ("--version", "dgemm_ooc ")]:
        done = run("dgemm_ooc", option, DGEMM_OOC_GPU_MEM="6G", DGEMM_OOC_FORCE="maybe")
        assert done.returncode == 0 and words in done.stdout


NOTHING = "nothing.h5:/Z"


@pytest.mark.singly
@pytest.mark.parametrize("beta", [[], ["--beta", 0], ["--beta", "-0"]], ids=str)
@pytest.mark.parametrize("how", [["-c", NOTHING], ["--c=Z"], ["-n", "-c", NOTHING]], ids=str)
def test_c_without_beta(source, how, beta):
    complaint = refused(source, *how, *beta)
    assert "--beta" in complaint and "--output" in complaint and how[-1].removeprefix("--c=") in complaint


def test_c_without_beta_from_the_environment(source):
    assert "DGEMM_OOC_C" in refused(source, DGEMM_OOC_C=NOTHING)
    assert "DGEMM_OOC_C" in refused(source, DGEMM_OOC_C=NOTHING, DGEMM_OOC_BETA="0")
    other = write(source.with_name("other.h5"), Z=read(source, "C"))
    multiply(source, DGEMM_OOC_C=f"{other}:/Z", DGEMM_OOC_BETA="2")
    a, b, c = (read(source, name) for name in "ABC")
    assert abs(read(output_of(source)) - product(a, b, c, beta=2)).max() < 1e-9


def test_c_of_an_output_that_is_there(source):
    """Its beta need not be given."""
    other = write(source.with_name("other.h5"), Z=read(source, "C"))
    multiply(source, "--beta", 2, "-c", f"{other}:/Z")
    moved = other.rename(source.with_name("moved.h5"))
    done = run("dgemm_ooc", source, "--check-only", "-c", f"{moved}:/Z")
    assert done.returncode == 0, done.stderr


def test_as_a_shell_sets_it(source):
    """An environment entry without a value, as `env NAME` could leave it."""
    env = environment(DGEMM_OOC_DEVICE="cpu", DGEMM_OOC_NONSENSE="", DGEMM_OOC_GPU_MEMORY="")
    done = subprocess.run([BUILD / "dgemm_ooc", source], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
