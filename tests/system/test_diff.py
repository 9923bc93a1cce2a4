"""h5mat diff of files: it reports which matrices it compares."""
import pytest

from launch import run
from matrices import random, write

DIFFERENT, INPUT = 5, 3
A, B = random((6, 5), seed=1), random((6, 5), seed=2)


def diff(*args, code=0):
    """Its output; standard error if it is refused."""
    done = run("h5mat", "diff", *args)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stderr if code == INPUT else done.stdout


@pytest.fixture
def x(tmp_path):
    return tmp_path / "x.h5"


@pytest.fixture
def y(tmp_path):
    return tmp_path / "y.h5"


def compared(text):
    return [line.split(": 6 x 5")[0] for line in text.splitlines() if ": 6 x 5, tolerance" in line]


def test_the_only_ones_whatever_their_names(x, y):
    write(x, C=A)
    write(y, product=A)
    text = diff(x, y)
    assert compared(text) == [f"{x}:/C and {y}:/product"] and text.endswith("\nequal\n")
    write(y.with_name("z.h5"), result=B)
    text = diff(x, y.with_name("z.h5"), code=DIFFERENT)
    assert text.endswith("\nDIFFERENT\n")


def test_all_that_both_have(x, y):
    """Matrices in both files are compared.  Only the second one differs, so the first is not sufficient."""
    write(x, A=A, B=A, **{"group/deep": B}, alone=A, vector=A[0])
    write(y, A=A, B=B, **{"group/deep": B}, other=A)
    text = diff(x, y, code=DIFFERENT)
    assert compared(text) == [f"{x}:/{name} and {y}:/{name}" for name in ("A", "B", "group/deep")]
    assert [line for line in text.splitlines() if line in ("equal", "DIFFERENT")] == [
        "equal", "DIFFERENT", "equal"]
    assert f"only in {x}: /alone" in text and f"only in {y}: /other" in text and "vector" not in text
    assert diff(x, x).count("\nequal\n") == 4


@pytest.mark.parametrize("second", ["y.h5", "y.h5:/C", "y.h5:C"])
def test_where_the_first_is_named(tmp_path, x, second):
    """The second file's matrix is the one of the same name, or its only one."""
    write(x, A=B, C=A)
    write(tmp_path / "y.h5", B=B, C=A)
    assert compared(diff(f"{x}:/C", tmp_path / second)) == [f"{x}:/C and {tmp_path / 'y.h5'}:/C"]
    assert compared(diff(tmp_path / second, f"{x}:/C")) == [f"{tmp_path / 'y.h5'}:/C and {x}:/C"]
    write(tmp_path / "only.h5", product=A)
    assert compared(diff(tmp_path / "only.h5", f"{x}:/C")) == [
        f"{tmp_path / 'only.h5'}:/product and {x}:/C"]


def test_nothing_to_compare(x, y):
    write(x, A=A, B=B)
    write(y, C=A, D=B)
    assert "no matrix of the same name; name one of each" in diff(x, y, code=INPUT)
    assert 'no dataset "/A"' in diff(f"{x}:/A", y, code=INPUT)
    lines = diff(f"{x}:/E", f"{y}:/E", code=INPUT).splitlines()
    assert len(lines) == 2 and all(f'{file}: no dataset "/E"' in line for file, line in zip((x, y), lines))
    write(y.with_name("z.h5"), vector=A[0])
    assert "no two-dimensional dataset" in diff(x, y.with_name("z.h5"), code=INPUT)


def test_one_of_several_has_another_shape(x, y):
    """The others are compared nevertheless."""
    write(x, A=A, B=A, C=A)
    write(y, A=A, B=A[1:], C=A)
    done = run("h5mat", "diff", x, y)
    assert done.returncode == INPUT and f"{x}:/B is 6x5 but {y}:/B is 5x5" in done.stderr
    assert compared(done.stdout) == [f"{x}:/{name} and {y}:/{name}" for name in "AC"]
