"""A question about a file that the system does not answer is no answer: only what is known not to be there counts
as gone.  The run ends with a complaint, and nothing is removed or begun anew."""
import os
import re
import shutil
import signal

import pytest

from launch import FAULTY, PATIENCE, run
from matrices import digest, operands, output_of, part_of, read, snapshot, start_late, wait_until
from test_bad_input import INPUT, with_permissions

STOPPED = 75
SLOW = ["--tile", "40x40x16"]


def journal_of(source):
    return source.with_name("input-C.h5.journal")


def save(source):
    """Stop a run after a checkpoint."""
    with start_late(source, *SLOW, "--checkpoint", "0.05s") as process:
        wait_until(lambda: journal_of(source).exists() and '"left"' in journal_of(source).read_text(), process)
        process.send_signal(signal.SIGUSR2)
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == STOPPED, err


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A folder with the operands and what a stopped run has saved, and the product."""
    source = tmp_path_factory.mktemp("saved") / "input.h5"
    operands(source, 200, 120, 160)
    good = source.with_name("good.h5")
    assert run("dgemm_ooc", source, "-o", good).returncode == 0
    bits = read(good)
    good.unlink()
    save(source)
    return source.parent, bits


@pytest.fixture
def source(saved, tmp_path):
    return shutil.copytree(saved[0], tmp_path / "work") / "input.h5"


def ask(source, faults, *options):
    """Run the program whose questions about files in this folder fail."""
    log = source.parent.parent / "log"
    log.unlink(missing_ok=True)
    done = run(FAULTY, source, *options, DGEMM_OOC_TEST_FAULTS=faults, DGEMM_OOC_TEST_FAULT_LOG=log,
               DGEMM_OOC_TEST_FAULT_FILE=f"{source.parent}/")
    return done, log.read_text()


def questions(source, *options):
    """How many questions about files in this folder the run asks; all of its files are put back."""
    before = source.parent.parent / "before"
    shutil.copytree(source.parent, before)
    done, log = ask(source, "", *options)
    assert done.returncode == 0, done.stderr
    put_back(before, source)
    return before, int(re.search(r"^stat (\d+)$", log, re.M)[1])


def put_back(before, source):
    shutil.rmtree(source.parent)
    shutil.copytree(before, source.parent)


@pytest.mark.parametrize("fault, share", [("eio", 0), ("estale", 1), ("eacces", 2)])
def test_saved_work_is_kept(saved, source, fault, share):
    """Each question fails once; each fault has a third of them."""
    before, number = questions(source)
    assert number > 60
    refused = 0
    for at in range(1 + share, number + 1, 3):
        part = digest(part_of(source))
        done, _ = ask(source, f"stat:{fault}@{at}")
        what = f"{fault}@{at}: {done.stdout}{done.stderr}"
        if done.returncode == 0:
            assert "Restart" in done.stdout, what
            assert (read(output_of(source)) == saved[1]).all(), what
            put_back(before, source)
            continue
        refused += 1
        assert done.stderr and not output_of(source).exists(), what
        assert '"left"' in journal_of(source).read_text(), what
        if "Restart" not in done.stdout:
            assert done.returncode == INPUT and digest(part_of(source)) == part, what
        else:
            put_back(before, source)
    assert refused > number / 6
    done = run("dgemm_ooc", source)
    assert done.returncode == 0 and "Restart" in done.stdout, done.stderr
    assert (read(output_of(source)) == saved[1]).all()


@pytest.mark.parametrize("fault", ["eio", "estale", "eacces"])
def test_every_question_fails(source, fault):
    before = snapshot(source.parent)
    done, _ = ask(source, f"stat:{fault}@1+")
    assert done.returncode == INPUT and "cannot tell whether" in done.stderr, done.stderr
    assert snapshot(source.parent) == before


@pytest.mark.parametrize("option, mine", [("--report", "mine.json"), ("--trace", "mine"), ("--html", "mine.html")])
def test_a_paper_replaces_nothing_that_cannot_be_seen(source, option, mine):
    """Nor an operand of that name."""
    for path, faults in [(source.with_name(mine), "mine"), (source, "input.h5")]:
        if path != source:
            path.write_text("precious")
        before = digest(path)
        for at in range(1, 12):
            done = run(FAULTY, source, option, path, DGEMM_OOC_TEST_FAULTS=f"stat:eio@{at}",
                       DGEMM_OOC_TEST_FAULT_FILE=faults)
            assert done.returncode == INPUT, done.stdout + done.stderr
            assert digest(path) == before and part_of(source).exists()


def test_a_report_that_is_not_written_is_no_success(source):
    """The last question is about the report, when C is complete."""
    report = source.with_name("report.json")
    before, number = questions(source, "--report", report)
    done, _ = ask(source, f"stat:eio@{number}", "--report", report)
    assert output_of(source).exists() and not report.exists()
    assert done.returncode == INPUT and "cannot tell whether" in done.stderr, done.stderr


@pytest.mark.parametrize("mode", [0o444, 0o200])
def test_a_part_that_may_not_be_used_is_not_gone(saved, source, mode):
    part_of(source).chmod(mode)
    before = snapshot(source.parent)
    done = run("dgemm_ooc", source, wrapper=with_permissions())
    assert done.returncode == INPUT and "cannot read and write" in done.stderr, done.stdout + done.stderr
    assert "Permission denied" in done.stderr and snapshot(source.parent) == before
    part_of(source).chmod(0o644)
    done = run("dgemm_ooc", source, wrapper=with_permissions())
    assert done.returncode == 0 and "Restart" in done.stdout, done.stderr
    assert (read(output_of(source)) == saved[1]).all()


def test_what_is_in_a_folder_that_may_not_be_searched(source):
    before = snapshot(source.parent)
    source.parent.chmod(0o666)
    done = run("dgemm_ooc", source, wrapper=with_permissions())
    source.parent.chmod(0o755)
    assert done.returncode == INPUT and "Permission denied" in done.stderr, done.stdout + done.stderr
    assert snapshot(source.parent) == before


def test_a_journal_that_cannot_be_read_is_not_empty(source, mount):
    """The system does not give its content: there is no memory at that address."""
    mount(journal_of(source), "--bind", f"/proc/{os.getpid()}/mem")
    part = digest(part_of(source))
    done = run("dgemm_ooc", source)
    assert done.returncode == INPUT and "cannot read the journal" in done.stderr, done.stdout + done.stderr
    assert "Input/output error" in done.stderr and digest(part_of(source)) == part
