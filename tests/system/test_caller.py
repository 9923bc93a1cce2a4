"""A program that calls the steps of a product itself, with its own MPI and on a part of its ranks, gets the C of the
command line, and errors as values."""
import re
import subprocess

import launch
from launch import BUILD, command, environment, run
from matrices import operands, output_of, read

RANKS = 3  # and one that has no part in it


def test_steps_of_a_program_make_the_same_c(tmp_path):
    source, output = tmp_path / "input.h5", tmp_path / "called.h5"
    operands(source, 97, 101, 211, "f8", "NN")
    run("dgemm_ooc", source, "--check-seed", 1)
    done = subprocess.run(command("tests/system/caller", source, output, ranks=RANKS + 1), env=environment(RANKS + 1),
                          capture_output=True, text=True, timeout=launch.PATIENCE)
    assert done.returncode == 0 and done.stderr == "", done.stdout + done.stderr
    mistake, product, again, check, verdict = done.stdout.splitlines()
    assert re.fullmatch(rf"mistake: 3 on {RANKS} ranks of {RANKS}: .*/none.*", mistake)
    for said, step in (product, "product"), (again, "again"), (check, "check"):
        assert said == f"{step}: 0 on {RANKS} ranks of {RANKS}: "
    assert verdict == "verdict: PASSED"
    assert read(output).tobytes() == read(output_of(source)).tobytes()
    assert {path.name for path in tmp_path.iterdir()} == {"input.h5", "called.h5", output_of(source).name}
