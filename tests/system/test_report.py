"""The output of a run: its progress, its summary, and its report for programs."""
import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import termios

import h5py
import numpy as np
import pytest

from launch import FAULTY, PATIENCE, ROOT, command, environment, run, start
from matrices import multiply, operands, output_of, part_of, start_late, wait_until, write
from ranks import pids

SLOW = ["--tile", "100x100x16"]
LINE = re.compile(r"\[[\d:]+\] product ([\d.]+)%(  eta [\d:?]+  ([\d.]+ \w*FLOP/s  [a-z ]+ \d+%"
                  r"(  read [\d.]+ \w*B/s(  write [\d.]+ \w*B/s(  tile \d+/\d+)?)?)?"
                  r"|[\d.]+ \w+ read or written))?$")


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    source = tmp_path_factory.mktemp("report") / "input.h5"
    operands(source, 600, 500, 700)
    return source


@pytest.fixture(autouse=True)
def no_output(source):
    yield
    for path in source.parent.iterdir():
        if path != source:
            path.unlink()


def report_of(source):
    return json.loads((source.parent / "report.json").read_text())


def tell(source, *options, **how):
    return run("dgemm_ooc", source, "--report", source.parent / "report.json", *options, **how)


# Progress.

@pytest.mark.parametrize("ranks", [0, 3])
def test_progress_is_a_line_that_is_drawn_anew(source, ranks):
    tile = "60x60x16" if ranks else "40x40x16"
    with start_late(source, "--tile", tile, "--progress", "always", ranks=ranks) as process:
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    assert err.endswith("\n\033[K")  # the line is cleared; the \r is read as \n
    shown = [line.removesuffix("\033[K") for line in err.split("\n")[1:-1]]
    percents = [float(LINE.match(line)[1]) for line in shown if "product" in line]
    assert len(percents) > 1 and percents == sorted(percents) and percents[-1] == 100
    assert max(map(len, shown)) < 80


def test_one_rank_shows_progress_where_statistics_come_first(source):
    with start_late(source, "--product", "cov", "--gpu-memory", "100K", "--progress", "always", ranks=3) as process:
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    percents = [float(shown[1]) for line in err.split("\n") if (shown := LINE.match(line.removesuffix("\033[K")))]
    assert len(percents) > 1 and percents == sorted(percents), err


def test_progress_is_shown_at_most_four_times_a_second(source):
    done = run("dgemm_ooc", source, "--tile", "40x40x16", "--progress", "always", "--report",
               source.parent / "report.json")
    report = report_of(source)
    assert 1 <= len(re.findall("product", done.stderr)) <= 4 * report["wall_s"] + 3  # its begin and its end, too


def test_what_is_busiest_must_be_busy(source):
    """If no stage is busy half of the time, none is reported as the limit, and there is no advice."""
    out = tell(source).stdout
    report = report_of(source)
    share = report["stages"][report["busiest_stage"]]["busy_max_s"] / report["wall_s"]
    assert ("Limited by  no single part of the work; the longest, " in out) == (share < 0.5), out
    assert ("Faster " in out) == bool(report["advice"]) and not (report["advice"] and share < 0.5), out


@pytest.mark.parametrize("options, ranks", [([], 0), ([], 3), (["--product", "cov"], 2)],
                         ids=["alone", "ranks", "statistics"])
def test_the_phases_of_the_start_add_up(source, options, ranks):
    assert tell(source, *options, ranks=ranks).returncode == 0
    report = report_of(source)
    phases = report["startup"]
    assert phases.keys() == {f"{phase}_s" for phase in
                             ("ranks", "device", "operands", "probe", "plan", "output", "memory")}
    assert min(phases.values()) >= 0 and phases["ranks_s"] > 0 and phases["memory_s"] > 0
    assert sum(phases.values()) == pytest.approx(report["startup_s"])


@pytest.mark.parametrize("options", [[], ["-q"], ["--progress", "never"]])
def test_a_short_run_has_no_line_for_a_log(source, options):
    assert run("dgemm_ooc", source, *options).stderr == ""


def on_terminal(columns, *arguments):
    """The standard error of a command on a terminal of that many columns."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))
    with subprocess.Popen(command("dgemm_ooc", *arguments), stderr=its, stdout=subprocess.DEVNULL,
                          env=environment(DGEMM_OOC_DEVICE="cpu")) as process:
        os.close(its)
        seen = b""
        try:
            while more := os.read(ours, 4096):
                seen += more
        except OSError:  # the other end is closed
            pass
    os.close(ours)
    assert process.returncode == 0
    return seen.decode()


@pytest.mark.parametrize("columns", [50, 200])
def test_progress_fits_a_terminal(source, columns):
    shown = on_terminal(columns, source, "--tile", "40x40x16").split("\r")[1:]
    lines = [line.removesuffix("\033[K") for line in shown if line != "\033[K"]
    assert lines and max(map(len, lines)) < columns
    assert any("tile" in line for line in lines) == (columns == 200)


def test_quiet_says_nothing_to_a_terminal(source):
    assert on_terminal(80, source, "-q", "--tile", "40x40x16") == ""


# The summary.

def test_header_and_table_fit_80_columns(source):
    done = run("dgemm_ooc", source, *SLOW, ranks=2)
    lines = [line for line in done.stdout.split("\nTime ")[0].splitlines()
             if not line.startswith(("Command", "built with")) and str(source) not in line]
    assert lines and max(map(len, lines)) <= 80
    assert re.search(r"^Command +\S*dgemm_ooc .*--tile 100x100x16$", done.stdout, re.M)
    assert re.search(r"^Ranks +0 \S+, NUMA [\d,-]+, CPUs [\d,-]+", done.stdout, re.M)
    assert re.search(r"^Disk +\S+ \w+ read, \S+ \w+ written: 1\.00 times", done.stdout, re.M)
    for stage, unit in ("disk read", "B"), ("multiply", "FLOP"), ("disk write", "B"):
        assert re.search(rf"^  {stage} .* \d+% +[\d.]+ \w*{unit} +[\d.]+ \w*{unit}/s$", done.stdout, re.M), done.stdout


def test_verbose_has_every_rank(source):
    done = run("dgemm_ooc", source, *SLOW, "-v", ranks=3)
    table = done.stdout.split("Ranks, busy")[1].splitlines()[1:4]
    assert [line.split()[0] for line in table] == ["0", "1", "2"]
    assert all(len(line.split()) == 9 and float(line.split()[5]) > 0 for line in table)
    assert "Ranks, busy" not in run("dgemm_ooc", source, "-f", "-v", "-q").stdout


# The report for programs.

def keys_of(tree, prefix=""):
    for key, value in tree.items():
        yield prefix + key
        if isinstance(value, dict):
            yield from keys_of(value, f"{prefix}{key}.")
        if isinstance(value, list) and value and isinstance(value[0], dict):
            yield from keys_of(value[0], f"{prefix}{key}.")


def documented(heading):
    """The names that the manual page explains under this heading."""
    page = (ROOT / "jobs/packages/man/dgemm_ooc.1").read_text()
    section = page.split(f"\n.SH {heading}\n")[1].split("\n.SH ")[0]
    return {name for tag in re.findall(r"^\.T[PQ]\n\.B (.*)", section, re.M) for name in tag.split()}


@pytest.mark.smoke
def test_all_keys_are_documented_and_there(source):
    stages = ["read", "cache", "network", "in", "gemm", "check", "out", "write"]
    found = set(keys_of(multiply(source, *SLOW, "--verify", "full", ranks=2)))
    found |= set(keys_of(multiply(source, "--algo", "ozaki", "--force")))
    found |= set(keys_of(multiply(source, "--product", "cov", "--force")))
    tell(source, "--dry-run")
    found |= set(keys_of(report_of(source)))
    found = {re.sub(rf"^stages\.({'|'.join(stages)})", "stages.STAGE", key) for key in found}
    found = {re.sub(r"^io\..*", "io.MATRIX", key) for key in found}
    found = {re.sub(r"^matrices\.\w+", "matrices.MATRIX", key) for key in found}
    found = {re.sub(r"^machine\.sources\..*", "machine.sources", key) for key in found}
    members = {key for key in found if key.startswith("machine.")}
    stated = {f"machine.{name}" for name in documented("MACHINE FILES")}
    assert stated - members == {"machine.compute_capability", "machine.int8_ops_per_s",
                                "machine.node_disk_bytes_per_s"}
    assert members <= stated  # some keys do not apply to a CPU, or without limits
    found = found - members | {"machine.MEMBER"}
    found = {re.sub(r"^predicted\.resources\.[^.]+", "predicted.resources.RESOURCE", key)
             for key in found}
    assert found == documented("THE REPORT")


def test_a_run_that_is_complete(source):
    report = multiply(source, *SLOW, ranks=2)
    assert report["schema"] == 4 and report["status"] == "complete"
    assert report["exit_status"] == 0 and report["errors"] == [] and report["done"] == 1
    assert len(report["ranks"]) == 2 and report["ranks"][0]["bound_by"] in ("program", "launcher", "nobody")
    assert report["command"].endswith("--tile 100x100x16")


def test_ranks_without_tiles_are_no_part_of_the_mean(source):
    """Two of four ranks have no tile; they read for the others."""
    stages = multiply(source, "--tile", "300x500x64", ranks=4)["stages"]
    assert 0 < stages["gemm"]["busy_min_s"]
    for name, s in stages.items():
        assert s["busy_min_s"] <= s["busy_avg_s"] <= s["busy_max_s"], name


def test_one_that_was_complete_already(source):
    assert tell(source).returncode == tell(source).returncode == 0
    report = report_of(source)
    assert report["status"] == "complete" and report["done"] == 1 and "stages" not in report


@pytest.mark.parametrize("ranks", [0, 2])
def test_one_that_is_stopped_and_goes_on(source, ranks):
    journal = source.with_name("input-C.h5.journal")
    with start("dgemm_ooc", source, "--tile", "20x20x16", "--checkpoint", "0.05s", "--report",
               source.parent / "report.json", ranks=ranks) as process:
        wait_until(lambda: journal.exists() and '"left"' in journal.read_text(), process)
        os.kill(pids(process, ranks)[-1], signal.SIGUSR2)
        process.communicate(timeout=PATIENCE)
    report = report_of(source)
    assert report["status"] == "stopped" and report["exit_status"] == process.returncode == 75
    assert "stopped by " in report["errors"][0] and report["saves"]["count"] >= 2
    assert 0 < report["done"] < 1 and report["stages"]["gemm"]["flops"] > 0
    assert report["checksum"] is None and report["algorithm"] == "cpu"
    assert tell(source).returncode == 0
    again = report_of(source)
    assert again["done"] == 1
    assert again["stages"]["gemm"]["flops"] < 2 * 600 * 500 * 700


def test_one_that_cannot_start(source):
    done = tell(source, "-a", "X", "-o", source.parent / "no" / "out.h5")
    report = report_of(source)
    assert report["status"] == "failed" and report["exit_status"] == done.returncode == 3
    assert report["done"] == 0 and "problem" not in report
    assert done.stderr == "".join(f"dgemm_ooc: {line}\n" for line in report["errors"])


def test_what_is_no_report_stays_where_the_operands_are_not_known(source):
    other = source.parent / "other"
    other.write_text("mine")
    assert run("dgemm_ooc", source, "-a", "X", "--report", other).returncode == 3
    assert other.read_text() == "mine"


@pytest.mark.parametrize("options", [["--dry-run"], ["--check-only"]])
def test_other_commands_do_not_write_over_an_input(source, options):
    assert run("dgemm_ooc", source).returncode == 0
    before = source.read_bytes()
    done = run("dgemm_ooc", source, *options, "--report", source)
    assert done.returncode == 3 and "is one of the inputs" in done.stderr
    assert source.read_bytes() == before


def test_check_only(source):
    assert run("dgemm_ooc", source).returncode == 0
    assert tell(source, "--check-only").returncode == 0
    report = report_of(source)
    assert report["status"] == "checked" and report["full_check"]["residual"] > 0


def test_a_failed_check_is_told(source):
    assert run("dgemm_ooc", source).returncode == 0
    with h5py.File(output_of(source), "r+") as file:
        file["C"][3, 4] += 1
    assert tell(source, "--check-only").returncode == 5
    report = report_of(source)
    assert report["status"] == "failed" and report["exit_status"] == 5
    assert report["full_check"]["checksum"] != report["full_check"]["checksum_recorded"]
    assert report["full_check"]["residual"] > 1
    with h5py.File(output_of(source), "r+") as file:
        file["C"][3, 4] = float("nan")
    assert tell(source, "--check-only").returncode == 5
    assert report_of(source)["full_check"]["residual"] is None


def test_names_that_are_no_utf_8(source):
    path = os.fsencode(source.parent) + b"/r\xe9sult\xc3\xa9.json"
    done = run("dgemm_ooc", source, "-q", "--report", os.fsdecode(path))
    assert done.returncode == 0, done.stderr
    with open(path, encoding="utf-8") as file:
        assert "--report " in json.load(file)["command"]


def test_names_with_control_characters_are_plain(tmp_path):
    """Of whatever file: a terminal that shows a report does not obey them."""
    source = write(tmp_path / "input.h5", **{"A\x1b[31m": np.ones((3, 2)), "B": np.ones((2, 4))})
    done = run("dgemm_ooc", source, "-a", "A\x1b[31m", "--report", tmp_path / "report.json")
    assert done.returncode == 0 and "\x1b" not in done.stdout, done.stderr
    assert '"A?[31m"' in (tmp_path / "report.json").read_text()


@pytest.mark.singly
@pytest.mark.parametrize("ranks", [0, 2])
@pytest.mark.parametrize("option", ["--trace", "--html"])
def test_complete_but_for_the_page(source, option, ranks):
    """The checkpoint is removed."""
    done = run(FAULTY, source, "--report", source.parent / "report.json", *SLOW, "--checkpoint", "0.001s",
               option, source.parent / "paper", ranks=ranks,
               DGEMM_OOC_TEST_FAULTS="open:eacces@1+", DGEMM_OOC_TEST_FAULT_FILE="/paper.")
    report = report_of(source)
    assert done.returncode == report["exit_status"] == 1 and "RESULT: C complete" in done.stdout
    assert report["done"] == 1 and report["saves"]["count"] > 0 and report["checksum"]
    assert {path.name for path in source.parent.iterdir()} == {
        source.name, output_of(source).name, "report.json"}


@pytest.mark.parametrize("option", ["--report", "--trace", "--html"])
def test_no_link_is_written_through(source, option):
    """A link is replaced and not followed."""
    other, path = source.parent / "other", source.parent / "paper"
    other.write_text("mine")
    path.symlink_to(other)
    assert run("dgemm_ooc", source, "-f", option, path).returncode == 0
    assert other.read_text() == "mine" and not path.is_symlink()


def test_a_usage_error_leaves_the_report_before(source):
    assert tell(source).returncode == 0
    before = report_of(source)
    assert tell(source, "--tile", "3").returncode == 2
    assert report_of(source) == before


def test_a_kill_leaves_the_report_before(source):
    multiply(source)
    output_of(source).unlink()
    path = source.with_suffix(".json")
    before = path.read_bytes()
    with start("dgemm_ooc", source, "--report", path, "--tile", "20x20x16") as process:
        wait_until(lambda: part_of(source).exists(), process)
        process.send_signal(signal.SIGKILL)
    assert path.read_bytes() == before
