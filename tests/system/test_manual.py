"""The manual pages agree with --help and the code, and so does the README; their examples run."""
import os
import re
import shutil
import subprocess

import pytest

from cases import each
from launch import ROOT, environment, run

PAGES = ROOT / "jobs/packages/man"
pytestmark = pytest.mark.skipif(not shutil.which("mandoc"), reason="no mandoc here")


def help_of(*words):
    text = run(*words, "--help").stdout
    return run(*words, "--help-all").stdout if "--help-all" in text else text


def options(text):
    """The options in a help text, {"--output": ("-o", "FILE.h5")}; the descriptions beside or below them are
    indented further."""
    found = re.findall(r"^ {2,8}(?:(-\w), )?(--[\w-]+)(?:=(\S+))?", text, re.M)
    return {name: (short, argument) for short, name, argument in found}


def page(program):
    """The page as plain text, {heading: text}."""
    text = subprocess.run(["mandoc", "-T", "ascii", PAGES / f"{program}.1"], check=True,
                          capture_output=True, text=True).stdout
    parts = re.split(r"^(\S.*)\n", re.sub(".\b", "", text), flags=re.M)
    return dict(zip(parts[1::2], parts[2::2]))


@pytest.mark.parametrize("program", ["dgemm_ooc", "h5mat"])
def test_page_is_clean(program):
    done = subprocess.run(["mandoc", "-T", "lint", PAGES / f"{program}.1"], capture_output=True)
    assert done.returncode == 0 and not done.stdout + done.stderr


def test_options():
    there = options(help_of("dgemm_ooc"))
    assert there.keys() >= set(re.findall(r"--[a-z][a-z-]*", run("dgemm_ooc", "--help").stdout))
    assert there and options(page("dgemm_ooc")["OPTIONS"]) == there


def test_options_of_h5mat():
    there = options(help_of("h5mat"))
    commands = re.findall(r"^  (\w+) FILE", help_of("h5mat"), re.M)
    for command in commands:
        there |= options(help_of("h5mat", command))
    assert commands == re.findall(r"h5mat (\w+)", page("h5mat")["SYNOPSIS"])
    assert "--rows" in there and options(page("h5mat")["OPTIONS"]) == there


def table(text, heading):
    return text.split(f"\n| {heading} | ")[1].split("\n\n")[0]


@each("folder", [".", "io", "kernels", "jobs", "src", "tests/bench"])
def test_options_in_documents(folder):
    """Commands of the documents have options that are there."""
    there = options(help_of("dgemm_ooc"))
    there = {*there, *(short for short, _ in there.values() if short)}
    text = (ROOT / folder / "README.md").read_text()
    used = re.findall(r"(?:^    (?:\S+ )*?|`)(?:\S*/)?dgemm_ooc ([^`\n]*)", text, re.M)
    given = {word.split("=")[0] for line in used for word in line.split() if re.match("--?[a-z]", word)}
    assert given <= there, given - there
    assert given or folder in ("src", "tests/bench")


def test_exit_statuses():
    """The exit statuses match those of the code, of --help and of jobs/README.md."""
    codes = (ROOT / "src/base/error.h").read_text().split("enum exit_code {")[1].split("}")[0]
    codes = re.findall(r" = (\d+),", codes)
    assert codes == re.findall(r"^ {5,8}(\d+) ", page("dgemm_ooc")["EXIT STATUS"], re.M)
    assert codes == re.findall(r"^\| (\d+) \|", table((ROOT / "jobs/README.md").read_text(), "exit status"), re.M)
    said = run("dgemm_ooc", "--help").stdout.split("\nExit status: ")[1]
    assert codes == re.findall(r"(?:^|; |;\n)(\d+) ", said)


@pytest.mark.parametrize("program", ["dgemm_ooc", "h5mat"])
def test_examples(prefix, tmp_path, program):
    """The examples run as installed; mpirun replaces srun."""
    source = (prefix / f"share/man/man1/{program}.1").read_text()
    assert "@" not in source
    (tmp_path / "srun").write_text('#!/bin/sh\nexec mpirun "$@"\n')
    (tmp_path / "srun").chmod(0o755)
    lines = re.findall(r"^\.EX\n(.*?)^\.EE", source, re.M | re.S)
    script = "set -ex\n" + "".join(lines).replace(r"\-", "-")
    env = environment(8, DGEMM_OOC_DEVICE="cpu", PATH=f"{prefix}/bin:{tmp_path}:{os.environ['PATH']}")
    done = subprocess.run(["sh", "-c", script], cwd=tmp_path, env=env, capture_output=True,
                          text=True)
    assert done.returncode == 0 and lines, done.stderr
