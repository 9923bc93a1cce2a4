"""An output is complete where its mark says so, which is written last.  One that is not is recognised under any
name, is nobody's operand, and costs nobody the work that is in it; what is beside C is compared as C is."""
import itertools
import os
import shutil
import signal

import h5py
import numpy as np
import pytest

from launch import BUILD, FAULTY, PATIENCE, run
from matrices import multiply, names, operands, output_of, part_of, random, read, snapshot, start_late, wait_until, write
from ranks import pids

INPUT, VERIFY = 3, 5
SLOW = ["--tile", "40x40x16"]
COV = ["--product", "cov"]
SMALL = ["--gpu-memory", "300K", "--host-memory", "12M"]  # many tiles of a symmetric product
HERMITIAN = ["-b", "A", "--transb", "C"]
OFF = ["--verify", "off"]
SAYS = "is unfinished"


def a_of(source, words):
    """The operands that a product of these options takes."""
    if words[:4] == HERMITIAN:
        return write(source, A=random((300, 400)) + 1j * random((300, 400), seed=1))
    return operands(source, 300, 200, 400) and source


def journal_of(source):
    return source.with_name("input-C.h5.journal")


def saved(source):
    return journal_of(source).exists() and '"left"' in journal_of(source).read_text()


def interrupt(source, *options, ranks=0):
    """Kill a run after a checkpoint."""
    with start_late(source, *options, "--checkpoint", "0.02s", late="20", ranks=ranks) as process:
        wait_until(lambda: saved(source), process)
        for pid in pids(process, ranks):
            os.kill(pid, signal.SIGKILL)
        process.communicate(timeout=PATIENCE)
    assert part_of(source).exists()


def untouched(source):
    """The bytes of all files but the journal, to which each run appends its owner."""
    found = snapshot(source.parent)
    found.pop(journal_of(source).name, None)
    return found


def refused(source, *options, says=SAYS, code=INPUT):
    """The run is refused, and all files stay as they are."""
    before = untouched(source)
    done = run("dgemm_ooc", source, *options)
    assert done.returncode == code and says in done.stderr and "RESULT: C complete" not in done.stdout, done.stderr
    assert untouched(source) == before
    return done.stderr


@pytest.fixture
def source(tmp_path):
    return a_of(tmp_path / "input.h5", [])


@pytest.fixture
def product(source):
    with h5py.File(source) as file:
        return file["A"][:] @ file["B"][:]


def assert_right(source, product):
    np.testing.assert_allclose(read(output_of(source)), product, rtol=1e-9, atol=1e-9)
    assert names(source) == {"input.h5", "input-C.h5"}
    with h5py.File(output_of(source)) as file:
        assert file["C"].attrs["complete"] == b"yes"


# A part file under another name.

@pytest.mark.singly
@pytest.mark.smoke
@pytest.mark.parametrize("verify", [[], OFF], ids=["checked", "off"])
@pytest.mark.parametrize("ranks", [0, 2])
def test_a_part_that_was_given_the_output_s_name_is_resumed(source, product, verify, ranks):
    interrupt(source, *SLOW, *verify, ranks=ranks)
    part_of(source).rename(output_of(source))
    refused(source, "--check-only", says="is an unfinished output of dgemm_ooc")
    done = run("dgemm_ooc", source, *verify, ranks=ranks)
    assert done.returncode == 0 and "Restart " in done.stdout, done.stderr
    assert_right(source, product)


@pytest.mark.parametrize("verify", [[], OFF], ids=["checked", "off"])
def test_a_copy_of_a_part_is_in_the_way(source, product, verify):
    interrupt(source, *SLOW, *verify)
    shutil.copy(part_of(source), output_of(source))
    refused(source, *verify)
    done = run("dgemm_ooc", source, *verify, "--force")
    assert done.returncode == 0 and "Restart " in done.stdout, done.stderr
    assert_right(source, product)


def test_a_part_without_its_journal_is_not_complete(source, product):
    interrupt(source, *SLOW)
    other = part_of(source).rename(source.with_name("other.h5"))
    refused(source, "-o", other)
    other.rename(output_of(source))
    for path in journal_of(source), *source.parent.glob("*.sums*"):
        path.unlink()
    refused(source)
    assert run("dgemm_ooc", source, "--force").returncode == 0
    assert_right(source, product)


def test_a_renamed_part_that_is_begun_anew(source, product):
    interrupt(source, *SLOW)
    part_of(source).rename(output_of(source))
    refused(source, "--restart", "never")
    done = run("dgemm_ooc", source, "--restart", "never", "--force")
    assert done.returncode == 0 and "Restart " not in done.stdout, done.stderr
    assert_right(source, product)


def test_a_renamed_part_is_no_other_product(source):
    interrupt(source, *SLOW)
    part_of(source).rename(output_of(source))
    refused(source, "--alpha", "2", says="is the journal of another product: alpha was 1.0 and is 2.0")


def test_a_part_of_which_nothing_was_saved(source, product):
    with start_late(source, *SLOW, late="20") as process:
        wait_until(lambda: part_of(source).exists() and part_of(source).stat().st_size >= 300 * 200 * 8, process)  # C is made
        process.kill()
        process.communicate(timeout=PATIENCE)
    part_of(source).rename(output_of(source))
    refused(source)
    assert run("dgemm_ooc", source, "--force").returncode == 0
    assert_right(source, product)


def test_an_unfinished_output_is_no_operand(source, tmp_path):
    """Not as A, B or an added C, nor as a source of a virtual dataset; where it is not read it may be one."""
    interrupt(source, *SLOW)
    part = part_of(source)
    layout = h5py.VirtualLayout((300, 200), "f8")
    layout[:] = h5py.VirtualSource(part, "C", shape=(300, 200))
    with h5py.File(tmp_path / "virtual.h5", "w") as file:
        file.create_virtual_dataset("A", layout)
    there = ["-o", tmp_path / "there.h5"]
    says = "is an unfinished output of dgemm_ooc"
    refused(source, "-a", f"{part}:/C", "-b", "B", "--transb", "T", *there, says=says)
    refused(source, "-b", f"{part}:/C", "-a", "A", "--transa", "T", *there, says=says)
    refused(source, "-c", f"{part}:/C", "--beta", "1", *there, says=says)
    refused(source, "-a", f"{tmp_path}/virtual.h5:/A", "-b", "B", "--transb", "T", *there,
            says="has a source that is an unfinished output of dgemm_ooc")
    info = run("h5mat", "info", part)
    assert info.returncode == 0 and "an unfinished output of dgemm_ooc" in info.stdout
    diff = run("h5mat", "diff", f"{part}:/C", f"{part}:/C")
    assert diff.returncode == INPUT and says in diff.stderr
    done = run("dgemm_ooc", source)
    assert done.returncode == 0 and "unfinished" not in run("h5mat", "info", output_of(source)).stdout
    done = run("dgemm_ooc", source, "-a", f"{output_of(source)}:/C", "-b", "B", "--transb", "T", *there)
    assert done.returncode == 0, done.stderr


# Outputs of versions that made no mark.

def unmark(path):
    with h5py.File(path, "r+") as file:
        del file["C"].attrs["complete"]


def test_a_checksum_is_a_mark_where_there_is_none(source):
    multiply(source)
    unmark(output_of(source))
    assert "made from these operands already" in run("dgemm_ooc", source).stdout
    assert run("dgemm_ooc", source, "--check-only").returncode == 0
    done = run("dgemm_ooc", source, "-a", f"{output_of(source)}:/C", "-b", "B", "--transb", "T",
               "-o", source.with_name("other.h5"))
    assert done.returncode == 0, done.stderr


def test_without_mark_and_checksum_nobody_knows(source):
    multiply(source, *OFF)
    assert "made from these operands already" in run("dgemm_ooc", source, *OFF).stdout
    unmark(output_of(source))
    refused(source, *OFF, says="exists; give --force to replace it")


def test_a_part_of_an_earlier_version(source):
    interrupt(source, *SLOW)
    unmark(part_of(source))
    part_of(source).rename(output_of(source))
    refused(source, "--check-only", says="is an unfinished output of dgemm_ooc")
    for path in journal_of(source), *source.parent.glob("*.sums*"):
        path.unlink()
    refused(source)


# What is beside C, and in its attributes.

def put(path, name, value, dataset="C"):
    """Replace an attribute; return what it was."""
    with h5py.File(path, "r+") as file:
        attributes = file[dataset].attrs
        was = attributes[name]
        attributes[name] = value
    return was


CHANGED = [([], {"alpha": 2.0, "beta": 1.0, "formula": "C = alpha A^T B", "kernels": "cublas",
                 "A_dataset": "B", "identity": "0" * 16, "checksum": "short", "complete": "no"}),
           (COV, {"alpha": 2.0, "center": "none", "scale": "rows", "nan": "mean"}),
           (HERMITIAN, {"symmetry": "symmetric", "alpha_imag": 1.0}),
           ([*HERMITIAN, "--symmetric", "lower"], {"triangle": "upper"})]


@pytest.mark.parametrize("words, changes", CHANGED, ids=["plain", "cov", "Hermitian", "lower"])
def test_attributes_of_a_part_are_compared(tmp_path, words, changes):
    source = a_of(tmp_path / "input.h5", words)
    interrupt(source, *words, *(SMALL if words else SLOW))
    kept = part_of(source).read_bytes()
    for name, value in changes.items():
        put(part_of(source), name, value)
        refused(source, *words, says="is damaged, or differs from its journal")
        part_of(source).write_bytes(kept)
    put(part_of(source), "A_file", "/where/it/was.h5")
    done = run("dgemm_ooc", source, *words)
    assert done.returncode == 0 and "Restart " in done.stdout, done.stderr


def without_characters(path, name):
    """Flip a bit of the character set of a text, so that it is none of HDF5's; h5py cannot read it then."""
    content = bytearray(path.read_bytes())
    variable_text = content.index(b"\x19\x01\x01", content.index(name.encode() + b"\0"))
    content[variable_text + 2] ^= 2
    path.write_bytes(content)


@pytest.mark.parametrize("name", ["formula", "identity", "B_dataset", "A_file", "program"])
def test_texts_in_no_character_set_are_damaged(source, name):
    interrupt(source, *SLOW)
    kept = part_of(source).read_bytes()
    without_characters(part_of(source), name)
    refused(source, says="is damaged, or differs from its journal")
    part_of(source).write_bytes(kept)
    assert run("dgemm_ooc", source).returncode == 0
    without_characters(output_of(source), name)
    done = run("dgemm_ooc", source, "--check-only")
    assert name != "formula" or done.returncode == VERIFY and "attribute formula of C is damaged" in done.stderr, done


@pytest.mark.parametrize("words, changes", [
    ([], {"formula": "C = alpha A^T B", "alpha": 2.0, "beta": "none"}),
    (COV, {"center": "none", "scale": "cols", "nan": "mine", "formula": "C = alpha A^X B"}),
    (HERMITIAN, {"symmetry": "symmetric", "alpha_imag": 1.0})], ids=["plain", "cov", "Hermitian"])
def test_attributes_of_an_output_are_compared(tmp_path, words, changes):
    """By the product itself, where they say what was multiplied, and as words."""
    source = a_of(tmp_path / "input.h5", words)
    multiply(source, *words)
    check = ["--check-only", *(["-b", "A"] if words else [])]
    assert run("dgemm_ooc", source, *check).returncode == 0
    for name, value in changes.items():
        was = put(output_of(source), name, value)
        done = run("dgemm_ooc", source, *check)
        assert done.returncode in (INPUT, VERIFY) and "PASSED" not in done.stdout, (name, done)
        put(output_of(source), name, was)
    assert run("dgemm_ooc", source, *check).returncode == 0


@pytest.mark.parametrize("name, line", [("C_mean", 7), ("C_deviation", 299)])
def test_means_and_deviations_of_a_part_are_compared(source, name, line):
    interrupt(source, *COV, *SMALL)
    with h5py.File(part_of(source), "r+") as file:
        was = file[name][line]
        file[name][line] = np.nextafter(was, np.inf)
    for words in [], ["--restart", "trust"]:
        said = refused(source, *COV, *words, code=VERIFY, says=f'"{name}" differs from what was written: line {line}, ')
        assert f"is {np.nextafter(was, np.inf):.17g} there, and {was:.17g} of A" in said
        assert "give --restart never to start from the beginning" in said
    with h5py.File(part_of(source), "r+") as file:
        file[name][line] = was
        file[name].attrs["statistic"] = "means of something"
    refused(source, *COV, code=VERIFY, says=f'"{name}" is not the ')
    with h5py.File(part_of(source), "r+") as file:
        del file[name]
    refused(source, *COV, code=VERIFY, says=f'there is no dataset "{name}"')
    assert run("dgemm_ooc", source, *COV, "--restart", "never").returncode == 0
    assert read(output_of(source), name)[line] == was


def test_means_and_deviations_of_an_output_are_compared(source):
    multiply(source, *COV)
    with h5py.File(output_of(source), "r+") as file:
        was = file["C_mean"][5]
        file["C_mean"][5] = np.nan
    for words in ["--check-only", "-b", "A"], [*COV, "--verify", "full"]:
        said = refused(source, *words, code=VERIFY, says='"C_mean" differs from what was written: line 5, ')
        assert f"is nan there, and {was:.17g} of A" in said
    with h5py.File(output_of(source), "r+") as file:  # C may have been copied alone
        del file["C_mean"], file["C_deviation"]
    assert run("dgemm_ooc", "--check-only", source, "-b", "A").returncode == 0


def test_a_full_check_reads_means_and_deviations_back(source):
    with start_late(source, *COV, *SMALL, "--verify", "full", "--checkpoint", "0.02s", late="20") as process:
        wait_until(lambda: saved(source), process)
        process.send_signal(signal.SIGSTOP)
        with h5py.File(part_of(source), "r", locking=False) as file:
            offset = file["C_deviation"].id.get_offset()
        with open(part_of(source), "r+b") as file:
            file.seek(offset + 8 * 3)
            file.write(np.float64(-1).tobytes())
        process.send_signal(signal.SIGCONT)
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == VERIFY and '"C_deviation" differs from what was written: line 3,' in err, err
    assert names(source) == {"input.h5"}


# Kills about the mark.

@pytest.mark.parametrize("moment", ["before", "half", "after"])
def test_kills_from_the_last_write_to_the_end(tmp_path, moment):
    """Before, in the middle of and after each call on the output's files: there is no C, or a complete one, and
    the same command ends well."""
    if not (BUILD / FAULTY).exists():
        pytest.skip("the program with faults is not built: make test")
    source = tmp_path / "input.h5"
    a, b, _ = operands(source, 40, 30, 20)
    seen, log = set(), tmp_path / "log"
    for number in itertools.count(30):
        done = run(FAULTY, source, "-q", DGEMM_OOC_TEST_DISTURBED="", DGEMM_OOC_TEST_FILES=str(output_of(source)),
                   DGEMM_OOC_TEST_KILL=f"{number}:{moment}", DGEMM_OOC_TEST_DONE=str(log))
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL, done.stderr
        with h5py.File(output_of(source) if output_of(source).exists() else part_of(source)) as file:
            state = file["C"].attrs["complete"].decode()
        seen.add((output_of(source).exists(), state))
        done = run("dgemm_ooc", source)
        assert done.returncode == 0, done.stderr
        np.testing.assert_allclose(read(output_of(source)), a @ b, rtol=1e-12, atol=1e-12)
        log.unlink()
        assert names(source) == {"input.h5", "input-C.h5"}
        output_of(source).unlink()
    assert seen == {(False, "no "), (False, "yes"), (True, "yes")}


def test_what_was_complete_and_is_mended_is_not_complete_meanwhile(source, product):
    """The part file of a run that could not give C its name has its mark; damaged, it is worked on again."""
    if not (BUILD / FAULTY).exists():
        pytest.skip("the program with faults is not built: make test")
    done = run(FAULTY, source, DGEMM_OOC_TEST_FAULTS="rename:eio@1")
    assert done.returncode == 1 and "C is complete in it" in done.stderr
    with h5py.File(part_of(source), "r+") as file:
        assert file["C"].attrs["complete"] == b"yes"
        file["C"][7, 7] += 1
    with start_late(source, *SLOW, late="50") as process:
        next(line for line in process.stderr if "it is computed again" in line)
        process.send_signal(signal.SIGSTOP)
        with h5py.File(part_of(source), "r", locking=False) as file:
            state = file["C"].attrs["complete"]
        process.send_signal(signal.SIGCONT)
        process.communicate(timeout=PATIENCE)
    assert process.returncode == 0 and state == b"no "
    assert_right(source, product)
