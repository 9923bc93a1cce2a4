"""What a run prints without -v: at most twelve lines, which say what it did and agree with its report."""
import json
import re

import numpy as np
import pytest

from cases import each
from launch import EMULATED, PATIENCE, STOP, run, start
from matrices import at_work, operands, output_of, part_of, random, start_late, wait_until, whole, write

PLAIN = {"DGEMM_OOC_VERBOSE": ""}
LINES, COLUMNS, TITLE = 12, 100, 12
TITLES = ["Product", "Files", "Plan", "Restart", "Time", "Limited by", "Faster", "Memory", "Check", "C", "RESULT:"]
WORDS = {"read": "reading the files", "network": "the network", "gemm": "multiplying", "check": "the check",
         "write": "writing C"}
COPIES = {False: dict.fromkeys(("cache", "in", "out"), "copies in memory"),
          True: {"cache": "copies in host memory", "in": "copies to the GPU", "out": "copies from the GPU"}}
UNITS = {"ms": 1e-3, "s": 1}


def blocks(out):
    """The text of each title, of several lines as one; without notes, which come besides."""
    found, title = {}, None
    for line in out.splitlines():
        assert len(line) <= COLUMNS or max(map(len, line.split())) > COLUMNS - TITLE - len("A = ,"), line
        title = title if line.startswith(" ") else line.split(":")[0] + ":" if line.startswith("RESULT") else \
            line[:TITLE].strip()
        found.setdefault(title, []).append(line[TITLE:] if title != "RESULT:" else line)
    found.pop("Note", None)
    assert sum(map(len, found.values())) <= LINES, out
    assert list(found) == [known for known in TITLES if known in found], out
    return {title: " ".join(lines) for title, lines in found.items()}


def seconds(text):
    """812.0 ms, 12.3 s -> 0.812, 12.3"""
    number, unit = text.split()
    return float(number) * UNITS[unit]


def assert_agrees(said, report):
    """What the lines say of the work is what the report says."""
    words = (WORDS | COPIES[report["machine"]["device"] == "gpu"])[report["busiest_stage"]]
    busy = 100 * report["stages"][report["busiest_stage"]]["busy_max_s"] / report["wall_s"]
    time, planned = re.match(r"(\S+ \S+)(?: \(predicted (\S+ \S+)\))? after ", said["Time"]).groups()
    assert seconds(time) == pytest.approx(report["wall_s"], rel=0.01, abs=1e-3)
    assert (planned is not None) == (report["done"] == 1), "what is planned is the whole"
    assert planned is None or seconds(planned) == pytest.approx(report["planned_wall_s"], rel=0.01, abs=1e-3)
    assert words in said["Limited by"] and f" {busy:.0f} % of the time" in said["Limited by"]
    assert said.get("Faster", "") == report["advice"]
    assert "used of" in said["Memory"]


def assert_screen(source, done, report, verdict=": PASSED"):
    """Of a run that is complete."""
    said = blocks(done.stdout)
    assert {"Product", "Files", "Plan"} < said.keys()
    assert_agrees(said, report)
    assert said["C"] == f"{output_of(source)}:C" and said["C"] in said["Files"]
    assert said["RESULT:"] == done.stdout.splitlines()[-1] and said["RESULT:"].endswith(verdict)
    assert ("an error of" in said["Check"]) == report["checked"]
    return said


def screen(source, *options, code=0, **how):
    """Run without -v; return its lines, and the report."""
    path = source.with_suffix(".json")
    done = run("dgemm_ooc", source, "--report", path, *options, **PLAIN, **how)
    assert done.returncode == code, done.stdout + done.stderr
    return done, json.loads(path.read_text())


@each("options, ranks, product", [
    ([], 0, "C = A B; double; C 97x101, k 211"),
    (["--alpha", 2, "--beta", 0.5], 0, "C = 2 A B + 0.5 C; double; C 97x101, k 211"),
    (["--alpha=-1", "--beta=-1"], 0, "C = -A B - C; double; C 97x101, k 211"),
    (["--transa", "T", "-a", "B", "-b", "A", "--transb", "T"], 0, "C = A^T B^T; double; C 101x97, k 211"),
    (["--type", "s"], 3, "C = A B; float; C 97x101, k 211"),
    (["--product", "gram", "--symmetric", "on"], 2, "C = A A^T; double; C 97x97, k 211"),
    (["--product", "gram", "--symmetric", "lower"], 0, "C = A A^T; double; C 97x97, k 211"),
    (["--product", "normal"], 2, "C = A^T (A B); double; C 211x101, k 97"),
    (["--product", "cov"], 2, "A A^T, rows of A centred; double; C 97x97, k 211"),
    (["--product", "cor", "--transa", "T"], 0, "A^T A, columns of A centred and scaled; double; C 211x211, k 97"),
    (["--verify", "full"], 2, "C = A B; double; C 97x101, k 211"),
    (["--host-memory", "12M", "--tile", "40x40x16"], 0, "C = A B; double; C 97x101, k 211")])
def test_products(tmp_path, options, ranks, product):
    folder = tmp_path / "a-folder-below"  # whose names take lines of their own
    folder.mkdir()
    source = folder / "input.h5"
    operands(source, 97, 101, 211)
    said = assert_screen(source, *screen(source, *options, ranks=ranks))
    assert product in said["Product"]
    assert ("; read back: " in said["Check"]) == ("--verify" in options)
    assert ("beside it, as NAME_ab" in said["Files"]) == ("normal" in options)
    assert said["Plan"].startswith(f"CPU, {ranks} ranks, " if ranks else "CPU, ")


def test_not_checked_and_verify_off(tmp_path):
    """The last two of three verdicts."""
    source = tmp_path / "input.h5"
    operands(source, 40, 30, 20)
    said = assert_screen(source, *screen(source, "--verify", "off"), verdict="C complete, not checked")
    assert said["Check"] == "none was made (--verify off)"
    write(tmp_path / "huge.h5", A=np.full((5, 7), 1e-50), B=np.full((7, 5), 1e200))
    source = tmp_path / "huge.h5"
    said = blocks(screen(source, code=6)[0].stdout)
    assert said["RESULT:"].endswith(": NOT CHECKED") and "could not be checked" in said["Check"]


def test_exact_products_find_an_error_of_one(tmp_path):
    source = tmp_path / "input.h5"
    operands(source, 97, 101, 211, "i2", kind=whole)
    done, report = screen(source, ranks=2)
    said = assert_screen(source, done, report)
    assert said["Product"] == "C = A B; exact integers: int16 x int16 -> int64; C 97x101, k 211"
    assert said["Check"] == report["finding"] == "an error of 1 would have been found: sums are exact integers"
    assert said["RESULT:"] == "RESULT: C complete, checked for errors down to 1: PASSED"
    assert report["detectable"] <= 1  # for programs in typical elements, as of other products


def test_complex(tmp_path):
    source = tmp_path / "input.h5"
    write(source, A=random((60, 50)) + 1j * random((60, 50), seed=1), B=random((60, 40)) * (1 - 2j))
    said = assert_screen(source, *screen(source, "--transa", "C", "--alpha", "1+2i"))
    assert said["Product"] == "C = (1+2i) A^H B; complex double; C 50x40, k 60"


def test_on_a_gpu(device, tmp_path):
    source = tmp_path / "input.h5"
    operands(source, 97, 101, 211)
    done, report = screen(source, "--gpu-memory", "400K", DGEMM_OOC_DEVICE=device)
    said = assert_screen(source, done, report)
    assert (" of GPU and " in said["Plan"]) == (device == "gpu") == said["Memory"].startswith("GPU ")


def test_a_stopped_run_and_the_one_that_goes_on(tmp_path):
    source, path = tmp_path / "input.h5", tmp_path / "report.json"
    operands(source, 700, 600, 800)
    words = (source, "--tile", "40x40x16", "--report", path)
    with start_late(*words, late="20", **PLAIN) as process:
        at_work(source, process)
        wait_until(lambda: part_of(source).stat().st_blocks > 100, process)
        process.send_signal(STOP)
        out, err = process.communicate(timeout=PATIENCE)
    report = json.loads(path.read_text())
    assert process.returncode == 75 and report["status"] == "stopped", err
    said = blocks(out)
    assert "RESULT:" not in said and "Check" not in said
    assert_agrees(said, report)
    percent = f"{100 * report['done']:.1f} %"
    assert said["C"] == f"not complete: {percent} is done and saved; it will be {output_of(source)}:C"
    done = run("dgemm_ooc", *words, **PLAIN)
    assert done.returncode == 0, done.stderr
    said = assert_screen(source, done, json.loads(path.read_text()))
    assert said["Restart"].startswith(f"{percent} is done") and "; read back: " in said["Check"]


def test_the_advice_is_true(tmp_path):
    """Files are read as often as it says."""
    source, path = tmp_path / "input.h5", tmp_path / "report.json"
    operands(source, 1500, 1200, 1000)
    with start_late(source, "--report", path, "--host-memory", "20M", late="20", **PLAIN) as process:
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    times, = re.fullmatch(r"with faster storage, or more memory: the files are read ([\d.]+) times",
                          blocks(out)["Faster"]).groups()
    files = 8 * 1000 * (1500 + 1200)
    assert json.loads(path.read_text())["stages"]["read"]["bytes"] / files == pytest.approx(float(times), abs=0.1)


def test_names_of_any_length_and_with_spaces(tmp_path):
    """A name is on one line, however long, and has its spaces."""
    folder = tmp_path / "a  folder with spaces"
    folder.mkdir()
    source = folder / f"{'long name ' * 12}.h5"
    operands(source, 30, 20, 10)
    done = run("dgemm_ooc", source, **PLAIN)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert f"C           {output_of(source)}:C" in lines
    assert f"A = {source}:A," in done.stdout and ", B = B of that file;" in done.stdout.replace("\n" + 12 * " ", " ")


def test_quiet_and_verbose(tmp_path):
    source = tmp_path / "input.h5"
    operands(source, 30, 20, 10)
    quiet = run("dgemm_ooc", source, "-q").stdout.splitlines()
    verbose = run("dgemm_ooc", source, "--force", "-v", **PLAIN).stdout
    plain = run("dgemm_ooc", source, "--force", **PLAIN).stdout
    assert len(quiet) == 1 and quiet[0] == verbose.splitlines()[-1] == plain.splitlines()[-1]
    for word in ("Command ", "Problem ", "Plan ", "Links ", "Predicted ", "Ranks ", "Report ", "busy, seconds",
                 "Disk ", "Planned ", "Time ", "Limited by ", "Memory ", "Check ", "C "):
        assert f"\n{word}" in verbose or f"\n  {word}" in verbose, word
