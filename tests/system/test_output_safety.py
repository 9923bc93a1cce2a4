"""No user's data is destroyed: neither files at the path of the output or a report, at the start or at the end
of a run, nor files that other users have left."""
import errno
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

from launch import BUILD, FAULTY, PATIENCE, command, environment, run, start
from matrices import (assert_whole, at_work, multiply, names, operands, output_of, part_of, read, snapshot, start_late, wait_until,
                      write)
from test_bad_input import INPUT, assert_refused

RUNTIME, STOPPED = 1, 75
SLOW = ["--tile", "40x40x16"]
SOMEBODY = 12345
UMASK = os.umask(0)
os.umask(UMASK)
root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    source = tmp_path_factory.mktemp("reference") / "input.h5"
    operands(source, 300, 200, 300)
    assert run("dgemm_ooc", source).returncode == 0
    return source, read(output_of(source))


@pytest.fixture
def source(reference, tmp_path):
    return Path(shutil.copy2(reference[0], tmp_path / "input.h5"))


def journal_of(source):
    return source.with_name("input-C.h5.journal")


def stop(source, *options):
    """Stop a run after a checkpoint."""
    with start_late(source, *SLOW, "--checkpoint", "0.05s", *options) as process:
        wait_until(lambda: journal_of(source).exists() and '"left"' in journal_of(source).read_text(),
                   process)
        process.send_signal(signal.SIGUSR2)
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == STOPPED, err


# Reports.

STANDARD = pytest.mark.parametrize("path", ["-", "/dev/stdout"])


@pytest.fixture(scope="module", autouse=True)
def standard_output():
    """Restores the computer's /dev/stdout link if a fault replaces it."""
    target = os.readlink("/dev/stdout")
    yield target
    if not os.path.islink("/dev/stdout"):
        os.unlink("/dev/stdout")
        os.symlink(target, "/dev/stdout")


@STANDARD
@pytest.mark.parametrize("options", [[], ["-q"], ["-n"], ["-a", "X"]], ids=" ".join)
def test_a_report_to_standard_output_is_all_that_is_there(source, standard_output, path, options):
    done = run("dgemm_ooc", source, "--report", path, *options, cwd=source.parent)
    report = json.loads(done.stdout)
    assert report["exit_status"] == done.returncode == (INPUT if "-a" in options else 0)
    if not options:
        assert "Started " in done.stderr
    if "-a" in options:
        assert 'no dataset "X"' in done.stderr and report["errors"]
    elif "-n" not in options:
        assert done.stderr.splitlines()[-1].startswith("RESULT: C complete")
    assert os.readlink("/dev/stdout") == standard_output and not (source.parent / "-").exists()


def test_a_report_to_standard_output_in_a_file(source):
    """/dev/stdout may be a link to a regular file."""
    path = source.with_name("out")
    with open(path, "w") as out:
        done = subprocess.run(command("dgemm_ooc", source, "--report", "/dev/stdout"),
                              stdout=out, stderr=subprocess.PIPE, text=True,
                              env=environment(DGEMM_OOC_DEVICE="cpu"))
    assert done.returncode == 0 and json.loads(path.read_text())["status"] == "complete"
    assert "RESULT" in done.stderr


@STANDARD
def test_other_papers_to_standard_output(source, path):
    done = run("dgemm_ooc", source, "--trace", path, cwd=source.parent)
    assert done.returncode == 0 and json.loads(done.stdout)["traceEvents"]
    done = run("dgemm_ooc", source, "-f", "--html", path, cwd=source.parent)
    assert done.returncode == 0 and done.stdout.startswith("<!") and done.stdout.endswith("</html>\n")
    done = run("dgemm_ooc", source, "--check-only", "--report", path, ranks=2, cwd=source.parent)
    assert done.returncode == 0 and json.loads(done.stdout)["status"] == "checked"


def test_two_papers_to_standard_output(source):
    done = run("dgemm_ooc", source, "--report", "-", "--trace", "/dev/stdout", cwd=source.parent)
    assert done.returncode == INPUT and "the trace /dev/stdout is the report" in done.stderr


@pytest.mark.singly
@pytest.mark.parametrize("option", ["--report", "--trace", "--html"])
@pytest.mark.parametrize("target", ["pipe", "folder", "nowhere", "/dev/null"])
def test_a_link_to_no_file_is_not_replaced(source, option, target):
    os.mkfifo(source.with_name("pipe"))
    source.with_name("folder").mkdir()
    path = source.with_name("paper")
    path.symlink_to(target)
    assert_refused(source.parent, source, option, path, says=["is not a regular file"])
    assert os.readlink(path) == target


@pytest.mark.singly
@pytest.mark.parametrize("option", ["--report", "--trace", "--html"])
@pytest.mark.parametrize("name", ["/dev/stderr", "//dev/stdout", "/dev/fd/2", "/proc/self/fd/2"])
def test_a_stream_is_not_replaced(source, standard_output, option, name):
    """This holds even if it is a regular file, as in a batch job."""
    with open(source.with_name("out"), "w") as out, open(source.with_name("err"), "w") as err:
        done = subprocess.run(command("dgemm_ooc", source, option, name), stdout=out, stderr=err,
                              env=environment(DGEMM_OOC_DEVICE="cpu"))
    said = source.with_name("err").read_text()
    assert done.returncode == INPUT and "is an open stream and not a file; give - for" in said
    assert os.readlink("/dev/stdout") == standard_output and os.path.islink("/dev/stderr")
    assert not output_of(source).exists()


@pytest.mark.parametrize("option", ["--report", "--trace", "--html"])
@pytest.mark.parametrize("content", [b"precious", b"\211HDF\r\n\032\n"])
def test_a_paper_replaces_no_data(source, option, content):
    path = source.with_name("paper")
    path.write_bytes(content)
    assert_refused(source.parent, source, "--force", option, path, says=["exists and is no", "choose another name"])
    path.write_bytes(b"")
    for _ in range(2):
        done = run("dgemm_ooc", source, "--force", option, path)
        assert done.returncode == 0 and path.stat().st_size > 100, done.stderr


@pytest.mark.parametrize("option", ["--report", "--trace", "--html"])
def test_a_paper_touches_no_file_beside_it(source, option):
    """Browsers, too, name unfinished files .part."""
    path = source.with_name("mine")
    others = [source.with_name(name) for name in ("mine.part", "mine.tmp", "mine~", "mine.XXXXXX", "mine.000000")]
    for other in others:
        other.write_text("precious")
    for _ in range(2):
        done = run("dgemm_ooc", source, option, path, "--force")
        assert done.returncode == 0, done.stderr
        assert [other.read_text() for other in others] == ["precious"] * len(others)
        assert path.stat().st_mode & 0o777 == 0o666 & ~UMASK
    assert names(source) == {"input.h5", "input-C.h5", "mine", *(other.name for other in others)}


@pytest.mark.parametrize("option", ["--report", "--trace", "--html"])
def test_a_paper_of_the_name_of_an_output_at_work(source, option):
    """Its .part is C of the other run."""
    other = source.with_name("other.h5")
    shutil.copy2(source, other)
    with start_late(source, *SLOW, "-o", source.with_name("c.h5")) as process:
        part = source.with_name("c.h5.part")
        wait_until(lambda: part.exists() and part.stat().st_blocks, process)
        done = run("dgemm_ooc", other, option, source.with_name("c.h5"))
        assert done.returncode == 0, done.stderr
        assert part.exists() and part.stat().st_size > 8 * 300 * 200
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == INPUT and "has appeared during the run" in err, err


@pytest.mark.parametrize("option", ["--report", "--trace", "--html"])
@pytest.mark.parametrize("fault", ["open:eacces@1", "rename:eio@1"])
def test_a_paper_that_cannot_be_written_leaves_nothing(source, faulty, option, fault):
    """Whichever call fails."""
    path = source.with_name("mine")
    path.touch()
    done = faulty(fault, option, path, file="/mine.")
    assert done.returncode == 1 and "cannot write the" in done.stderr, done.stderr
    assert names(source) == {"input.h5", "input-C.h5", "mine", "log"} and not path.stat().st_size


def lead(path, target, name):
    with h5py.File(path, "a") as file:
        file["B"] = h5py.ExternalLink(target, name)


@pytest.mark.parametrize("virtual", [False, True])
def test_a_file_on_the_way_to_an_operand_is_an_input(source, virtual):
    """The operand is reached through several links, or through a virtual dataset behind a link."""
    with h5py.File(source, "a") as file:
        b = file["B"][:]
        del file["B"]
        if virtual:
            file["L"] = h5py.ExternalLink("middle.h5", "B")
            layout = h5py.VirtualLayout(b.shape, "f8")
            layout[:] = h5py.VirtualSource(".", "L", b.shape)
            file.create_virtual_dataset("B", layout)
    if not virtual:
        lead(source, "middle.h5", "B")
    lead(source.with_name("middle.h5"), "end.h5", "B")
    write(source.with_name("end.h5"), B=b)
    for name in "middle.h5", "end.h5":
        path = source.with_name(name)
        assert_refused(source.parent, source, "--force", "-o", f"{path}:/B", says=[name])
        assert_refused(source.parent, source, "--report", path, says=[name])
    assert run("dgemm_ooc", source).returncode == 0


@pytest.mark.parametrize("option", ["--report", "--trace", "--html"])
@pytest.mark.parametrize("text", ['{"name": "of something else"}', "<?xml?>"])
def test_what_only_begins_like_one_is_not_replaced(source, option, text):
    path = source.with_name("mine")
    path.write_text(text)
    assert_refused(source.parent, source, option, path, says=["exists and is no"])
    path.unlink()
    for _ in range(2):
        done = run("dgemm_ooc", source, "--force", option, path)
        assert done.returncode == 0, done.stderr


def test_the_machine_is_an_input(source):
    path = source.with_name("machine.json")
    path.write_text(json.dumps(multiply(source)["machine"]))
    for words in [], ["--dry-run"]:
        before = path.read_bytes()
        done = run("dgemm_ooc", source, "--force", "--machine", path, "--report", path, *words)
        assert done.returncode == INPUT and "is one of the inputs" in done.stderr
        assert path.read_bytes() == before


def test_all_that_is_wrong_is_said_at_once(source):
    """Neither hides the other; the one that was found first decides the exit code."""
    output_of(source).write_bytes(b"")
    assert_refused(source.parent, source, "--host-memory", "1M", complaints=2, says=["exists", "host memory"])


# What --force replaces.

def held(path):
    with h5py.File(path) as file:
        return sorted(file)


@pytest.mark.singly
@pytest.mark.parametrize("content", ["other", "g/other", "C2/other"])
@pytest.mark.parametrize("dataset", ["", ":/C2", ":/g/C2"])
def test_force_removes_no_other_dataset(source, dataset, content):
    output = write(output_of(source), **{content: np.arange(3)})
    assert_refused(source.parent, source, "-o", f"{output}{dataset}", "--force",
                   says=["holds other objects than", f"/{content}", "choose another file"])
    assert held(output) == [content.split("/")[0]]


def test_force_names_a_few_of_many(source):
    write(output_of(source), **{f"x{i}": np.arange(3) for i in range(40)})
    said = assert_refused(source.parent, source, "--force", says=["/x0, /x1", "..."])
    assert len(said) < 600


@pytest.mark.parametrize("link", [h5py.SoftLink("/nowhere"), h5py.ExternalLink("x.h5", "y"),
                                  h5py.SoftLink("/C")], ids=str)
def test_force_removes_no_link_within(source, link):
    write(output_of(source), C=np.zeros((3, 3)))
    with h5py.File(output_of(source), "a") as file:
        file["link"] = link
    assert_refused(source.parent, source, "--force", says=["/link"])


def a_user_block(path):
    h5py.File(path, "w", userblock_size=512).close()


def an_attribute(path):
    with h5py.File(path, "w") as file:
        file.attrs["note"] = "mine"
        file["C"] = np.zeros((3, 3))


def a_group(path):
    with h5py.File(path, "w") as file:
        file.create_group("C").attrs["note"] = "mine"


def a_link(path):
    with h5py.File(path, "w") as file:
        file["C"] = h5py.ExternalLink("x.h5", "y")


@pytest.mark.parametrize("make, says", [(a_user_block, "a user block"), (an_attribute, "the attribute note"),
                                        (a_group, "/C, which is not a dataset of its own"),
                                        (a_link, "/C, which is not a dataset of its own")])
def test_force_removes_nothing_but_a_dataset(source, make, says):
    make(output_of(source))
    assert_refused(source.parent, source, "--force", says=["holds other objects than", says])
    assert_refused(source.parent, source, says=["holds other objects than", says])


@pytest.mark.parametrize("dataset", ["C", "/g/h/C", "g//h/C"])
def test_force_replaces_the_product_alone(source, reference, dataset):
    output = f"{output_of(source)}:{dataset}" if dataset[0] == "/" else f"{output_of(source)}:/{dataset}"
    assert run("dgemm_ooc", source, "-o", output).returncode == 0
    with h5py.File(output_of(source), "a") as file:
        file[dataset].attrs["note"] = "mine"
    done = run("dgemm_ooc", source, "-o", output, "--force", "--alpha", 2)
    assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(read(output_of(source), dataset), 2 * reference[1])


@pytest.mark.parametrize("content", [b"precious", b"\211HDF\r\n\032\n precious"])
def test_force_replaces_nothing_that_is_no_hdf5_file(source, content):
    output_of(source).write_bytes(content)
    assert_refused(source.parent, source, "--force", says=["input-C.h5", "remove the file"])


def test_force_replaces_an_empty_file(source, reference):
    output_of(source).touch()
    multiply(source, "--force")
    np.testing.assert_array_equal(read(output_of(source)), reference[1])


def test_force_does_not_replace_a_link_to_no_file(source):
    os.mkfifo(source.with_name("pipe"))
    output_of(source).symlink_to("pipe")
    assert_refused(source.parent, source, "--force", says=["is not a regular file"])


# An output that appears during the run.

def appear(source, make, *options):
    """Run, and create the output meanwhile; return the process's output."""
    with start_late(source, *SLOW, *options) as process:
        at_work(source, process)
        make(output_of(source))
        _, err = process.communicate(timeout=PATIENCE)
    return process.returncode, err


@pytest.mark.parametrize("verify", ["off", "online", "full"])
def test_an_output_that_appears_is_not_overwritten(source, reference, verify):
    options = ["--verify", verify]
    code, err = appear(source, lambda path: path.write_text("precious"), *options)
    assert code == INPUT and "has appeared during the run; C is complete in" in err, err
    assert len(err.splitlines()) == 1 and output_of(source).read_text() == "precious"
    assert part_of(source).exists() and journal_of(source).exists()
    before = snapshot(source.parent)
    done = run("dgemm_ooc", source, *options)
    assert done.returncode == INPUT and "remove the file" in done.stderr
    assert snapshot(source.parent) == before
    output_of(source).unlink()
    done = run("dgemm_ooc", source, *options)
    assert done.returncode == 0 and "Restart     100.0 % is done" in done.stdout, done.stderr
    assert_whole(source, reference)


def test_an_output_that_appears_is_replaced_by_force(source, reference):
    code, err = appear(source, lambda path: write(path, C=np.zeros((2, 2))))
    assert code == INPUT, err
    done = run("dgemm_ooc", source, "--force")
    assert done.returncode == 0 and "Restart     100.0 % is done" in done.stdout, done.stderr
    assert_whole(source, reference)


def test_force_looks_again_at_the_end(source, reference):
    code, err = appear(source, lambda path: write(path, other=np.arange(3)), "--force")
    assert code == INPUT and "/other" in err and held(output_of(source)) == ["other"], err
    output_of(source).unlink()
    done = run("dgemm_ooc", source, "--force")
    assert done.returncode == 0 and "Restart     100.0 % is done" in done.stdout, done.stderr
    assert_whole(source, reference)


def test_force_replaces_a_product_that_appears(source, reference):
    code, err = appear(source, lambda path: write(path, C=np.zeros((2, 2))), "--force")
    assert code == 0, err
    assert_whole(source, reference)


RENAMES = {"renameat2": "rename:delay@1", "link": "rename:einval@1", "neither": "rename:einval@1,link:eperm@1"}


@pytest.fixture
def faulty(source):
    if not (BUILD / FAULTY).exists():
        pytest.skip("the program with faults is not built: make test")
    return lambda faults, *options, file="": run(
        FAULTY, source, *options, DGEMM_OOC_TEST_FAULTS=faults, DGEMM_OOC_TEST_FAULT_FILE=file,
        DGEMM_OOC_TEST_FAULT_LOG=str(source.with_name("log")))


@pytest.mark.parametrize("how", RENAMES)
def test_every_way_to_give_a_name(source, reference, faulty, how):
    done = faulty(RENAMES[how])
    assert done.returncode == 0, done.stderr
    log = source.with_name("log")
    assert log.read_text().count("fault in") == 1 + (how == "neither")
    log.unlink()
    assert_whole(source, reference)
    assert output_of(source).stat().st_nlink == 1


@pytest.mark.parametrize("how", RENAMES)
def test_no_way_to_give_a_name_overwrites(source, faulty, how):
    with start(FAULTY, source, *SLOW, DGEMM_OOC_TEST_FAULTS=f"pread:delay%1,{RENAMES[how]}") as process:
        at_work(source, process)
        output_of(source).write_text("precious")
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == INPUT and "has appeared" in err, err
    assert output_of(source).read_text() == "precious" and part_of(source).exists()


@pytest.mark.parametrize("fault", ["eio", "enospc"])
def test_a_name_that_cannot_be_given(source, reference, faulty, fault):
    """The result of hours of work is kept."""
    done = faulty(f"rename:{fault}@1")
    assert done.returncode == (RUNTIME if fault == "eio" else 4) and "C is complete in it" in done.stderr
    assert part_of(source).exists() and journal_of(source).exists() and not output_of(source).exists()
    source.with_name("log").unlink()
    done = run("dgemm_ooc", source)
    assert done.returncode == 0 and "Restart     100.0 % is done" in done.stdout, done.stderr
    assert_whole(source, reference)


def test_a_name_where_calls_are_forbidden(source, reference, faulty):
    """As by containers that forbid all calls which they do not know; link gives the name."""
    done = faulty("rename:eperm@1")
    assert done.returncode == 0, done.stderr
    source.with_name("log").unlink()
    assert_whole(source, reference)


# Names that are as long as the system has them, or longer.

def test_a_name_for_which_there_is_no_room(source, reference):
    most = os.pathconf(source.parent, "PC_NAME_MAX") - len(".part.sums0") - len(".123456")
    right, wrong = (source.with_name("x" * (most + more - 3) + ".h5") for more in (0, 1))
    assert_refused(source.parent, source, "-o", wrong, says=["is too long", f"may have {most} characters here"])
    with start_late(source, *SLOW, "--checkpoint", "0.05s", "-o", right) as process:
        journal = right.with_name(right.name + ".journal")
        wait_until(lambda: journal.exists() and '"left"' in journal.read_text(), process)
        process.send_signal(signal.SIGUSR2)
        process.communicate(timeout=PATIENCE)
    assert process.returncode == STOPPED
    done = run("dgemm_ooc", source, "-o", right)
    assert done.returncode == 0 and "Restart" in done.stdout, done.stderr
    np.testing.assert_array_equal(read(right), reference[1])


@pytest.mark.parametrize("option", ["--report", "--trace", "--html"])
def test_a_paper_for_whose_name_there_is_no_room(source, option):
    most = os.pathconf(source.parent, "PC_NAME_MAX") - len(".123456")
    assert_refused(source.parent, source, option, source.with_name("x" * (most + 1)),
                   says=["is too long", f"may have {most} characters here"])
    assert run("dgemm_ooc", source, option, source.with_name("x" * most)).returncode == 0
    assert source.with_name("x" * most).stat().st_size


# Permissions of replaced files.

@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444, 0o664])
def test_the_mode_of_a_replaced_output_stays(source, mode):
    multiply(source)
    output_of(source).chmod(mode)
    with start_late(source, *SLOW, "--force", "--alpha", "2") as process:
        modes = set()
        while not (modes and part_of(source).stat().st_blocks) and process.poll() is None:
            if part_of(source).exists():
                modes.add(stat.S_IMODE(part_of(source).stat().st_mode))
        assert modes and not any(seen & ~(mode | 0o600) for seen in modes), modes
        process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert stat.S_IMODE(output_of(source).stat().st_mode) == mode


@root
def test_the_group_of_a_replaced_output_stays(source):
    multiply(source)
    os.chown(output_of(source), -1, SOMEBODY)
    output_of(source).chmod(0o660)
    assert run("dgemm_ooc", source, "--force", "--alpha", "2").returncode == 0
    status = output_of(source).stat()
    assert status.st_gid == SOMEBODY and stat.S_IMODE(status.st_mode) == 0o660


def test_the_mode_in_the_place_of_a_link_is_the_umask_s(source):
    write(source.with_name("target.h5"), C=np.zeros((2, 2))).chmod(0o600)
    output_of(source).symlink_to("target.h5")
    assert run("dgemm_ooc", source, "--force").returncode == 0
    assert not output_of(source).is_symlink()
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(output_of(source).stat().st_mode) == 0o666 & ~umask


def test_the_mode_of_a_new_output_is_the_umask_s(source):
    before = os.umask(0o027)
    try:
        multiply(source)
    finally:
        os.umask(before)
    assert stat.S_IMODE(output_of(source).stat().st_mode) == 0o640


# Leftovers of an earlier run, or of somebody else.

def spoil_checksum(path):
    with h5py.File(path, "a") as file:
        del file["C"].attrs["checksum"]
        file["C"].attrs["checksum"] = "too short"


def spoil_identity(path):
    with h5py.File(path, "a") as file:
        file["C"].attrs["identity"] = "0" * 16


def spoil_formula(path):
    with h5py.File(path, "a") as file:
        del file["C"].attrs["formula"]


def spoil_header(path):
    data = path.read_bytes()
    path.write_bytes(data.replace(b"formula", b"\xff" * 7))


def other_file(path):
    path.unlink()
    layout = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    layout.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    with h5py.File(path, "w") as file:
        h5py.h5d.create(file.id, b"C", h5py.h5t.NATIVE_DOUBLE, h5py.h5s.create_simple((300, 200)), layout)


@pytest.mark.parametrize("spoil", [spoil_checksum, spoil_identity, spoil_formula, spoil_header, other_file,
                                   lambda path: os.truncate(path, 1000),
                                   lambda path: path.write_bytes(b"")])
def test_a_damaged_part_is_found_at_once(source, reference, spoil):
    stop(source)
    spoil(part_of(source))
    before = snapshot(source.parent)
    done = run("dgemm_ooc", source, "--progress", "never")
    assert done.returncode == INPUT and "give --restart never to start from the beginning" in done.stderr, done.stderr
    assert len(done.stderr.splitlines()) == 1
    after = snapshot(source.parent)
    assert before.pop(journal_of(source).name) and after.pop(journal_of(source).name)
    assert after == before
    done = run("dgemm_ooc", source, "--restart", "never")
    assert done.returncode == 0, done.stderr
    assert_whole(source, reference)


def sparse(path):
    path.touch()
    os.truncate(path, 3 << 30)


def zeros(path):
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("devices cannot be made here")


# Runs a command and writes its peak memory in KiB to a file.
PEAK = """import resource, subprocess, sys
done = subprocess.run(sys.argv[2:])
open(sys.argv[1], "w").write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))
sys.exit(done.returncode)"""


@pytest.mark.parametrize("make, says", [
    (os.mkfifo, "no regular file"), (zeros, "no regular file"), (os.mkdir, "cannot read|no regular file"),
    (sparse, "too large for a journal"), (lambda path: path.symlink_to("/dev/zero"), "symbolic link")])
def test_a_journal_that_is_none(source, make, says):
    make(journal_of(source))
    peak = source.with_name("peak")
    done = run("dgemm_ooc", source, wrapper=[sys.executable, "-c", PEAK, peak])
    assert done.returncode == INPUT and any(words in done.stderr for words in says.split("|")), done.stderr
    assert "remove it" in done.stderr
    assert int(peak.read_text()) < 1 << 20
    peak.unlink()
    assert names(source) == {"input.h5", "input-C.h5.journal"}


def test_a_journal_of_one_endless_line(source, reference):
    journal_of(source).write_bytes(b"\n" + b"0" * (40 << 20))
    assert run("dgemm_ooc", source).returncode == 0
    assert_whole(source, reference)


@root
@pytest.mark.parametrize("name", ["part", "journal", "part.sums0", "part.sums1"])
@pytest.mark.parametrize("saved", [False, True])
def test_what_another_user_has_left_is_not_taken(source, reference, name, saved):
    path = source.with_name(f"input-C.h5.{name}")
    if saved:
        stop(source)
    path.touch()
    os.chown(path, SOMEBODY, SOMEBODY)
    assert_refused(source.parent, source, says=[f"{path} belongs to another user; remove it"])
    path.unlink()
    if not saved:
        multiply(source)
        np.testing.assert_array_equal(read(output_of(source)), reference[1])


def test_a_part_that_cannot_be_made_leaves_nothing(source, no_locks):
    """The library creates the file and fails afterwards."""
    before = snapshot(source.parent)
    done = run("dgemm_ooc", source, **no_locks(f"{errno.EIO}:write"))
    assert done.returncode == INPUT and "input-C.h5.part cannot be created" in done.stderr, done.stderr
    assert snapshot(source.parent) == before
