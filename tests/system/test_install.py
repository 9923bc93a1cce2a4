"""The installed files; shells and modules find them, and Spack builds them."""
import filecmp
import os
import re
import subprocess
import sys
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest

from cases import each
from launch import AS_BUILT, BUILD, ROOT, environment, make
from matrices import multiplies

VERSION = re.search(r"^VERSION +:= (\S+)", (ROOT / "Makefile").read_text(), re.M)[1]
PROGRAMS = "dgemm_ooc", "h5mat"
SONAME = f"libdgemm_ooc.so.{VERSION.partition('.')[0]}"
COMPLETION = Path("/usr/share/bash-completion/bash_completion")
LMOD = Path("/usr/share/lmod/lmod/init/bash")


@pytest.mark.parametrize("name", ["x", "my x"])
def test_install_and_uninstall(tmp_path, name):
    where = [f"DESTDIR={tmp_path}", f"PREFIX=/opt/{name}", "mandir=/opt/man", *AS_BUILT]
    make("install", *where)
    jobs = [*ROOT.glob("jobs/*.sh"), *ROOT.glob("jobs/machines/*.json")]
    assert {str(p.relative_to(tmp_path / "opt")) for p in tmp_path.rglob("*") if p.is_file()} == {
        *(f"{name}/bin/{program}" for program in PROGRAMS),
        *(f"man/man1/{program}.1" for program in PROGRAMS),
        *(f"{name}/share/bash-completion/completions/{program}" for program in PROGRAMS),
        *(f"{name}/share/dgemm_ooc/jobs/{path.relative_to(ROOT / 'jobs')}" for path in jobs),
        f"{name}/share/dgemm_ooc/modulefiles/dgemm_ooc/{VERSION}.lua",
        f"{name}/share/doc/dgemm_ooc/LICENSE", f"{name}/share/doc/dgemm_ooc/README.md",
        f"{name}/include/dgemm_ooc.h", f"{name}/lib/libdgemm_ooc.so", f"{name}/lib/{SONAME}", f"{name}/lib/pkgconfig/dgemm_ooc.pc",
        *(f"{name}/share/doc/dgemm_ooc/library/multiply.{end}" for end in ("c", "f90")),
        *(f"{name}/lib/python3/dist-packages/dgemm_ooc/{path.name}" for path in [*ROOT.glob("src/python/dgemm_ooc/*.py"),
                                                                                 Path("py.typed")]),
        *(f"{name}/share/doc/dgemm_ooc/{folder}/README.md" for folder in ("io", "kernels", "jobs", "python"))}
    for program in PROGRAMS:
        assert filecmp.cmp(BUILD / program, tmp_path / f"opt/{name}/bin" / program, shallow=False)
    multiplies(tmp_path / f"opt/{name}/bin", tmp_path)
    for script in tmp_path.glob(f"opt/{name}/share/dgemm_ooc/jobs/*[a-z].sh"):
        lines = script.read_text().splitlines()
        assert script.name == "common.sh" or {f'DGEMM_OOC="/opt/{name}/share/dgemm_ooc"',
                                              f'PROGRAM="/opt/{name}/bin/dgemm_ooc"'} < set(lines)

    (tmp_path / f"opt/{name}/lib/python3/dist-packages/dgemm_ooc/__pycache__").mkdir()
    make("uninstall", *where)
    assert {str(p.relative_to(tmp_path / "opt")) for p in (tmp_path / "opt").rglob("*")} == {
        name, f"{name}/include", *(f"{name}/lib{end}" for end in ("", "/python3", "/python3/dist-packages")), f"{name}/bin", f"{name}/share",
        f"{name}/share/doc", f"{name}/share/bash-completion",
        f"{name}/share/bash-completion/completions", "man", "man/man1"}


def test_script(prefix):
    """An installed script needs no editing if it has no site-specific settings."""
    done = subprocess.run([prefix / "share/dgemm_ooc/jobs/workstation-selftest.sh"], text=True,
                          env=environment(DGEMM_OOC_DEVICE="cpu"), capture_output=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "SELF-TEST: PASSED"


COMPLETE = f"""
source {COMPLETION}
compopt() {{ :; }}  # wants a terminal
_completion_loader "$1"
COMP_LINE=$LINE COMP_POINT=${{#LINE}} COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
$(complete -p "$1" | sed -E 's/.*-F (\\S+).*/\\1/') "$1" "${{@: -1}}" "${{@: -2:1}}"
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.mark.skipif(not COMPLETION.exists(), reason="no bash-completion here")
@each("line, offered", [
    ("dgemm_ooc --gpu-m", "--gpu-memory="), ("dgemm_ooc --device=g", "gpu"),
    ("dgemm_ooc --transa ", "N T C"),
    ("dgemm_ooc --algo cp", "cpu"), ("dgemm_ooc --machine h", "h200-node"),
    ("dgemm_ooc --machine=", "cluster-64 h200-node xk b.json"), ("dgemm_ooc ", "a.h5"),
    ("dgemm_ooc -o ", "a.h5"), ("dgemm_ooc --report=", "b.json"), ("dgemm_ooc --tile ", ""),
    ("h5mat ", "gen info diff"), ("h5mat gen --p", "--pattern="),
    ("h5mat gen --type ", "d s z c int8 uint8 int16 uint16 int32 uint32"),
    ("h5mat gen --pattern ", "random integer ones identity genotype"),
    ("h5mat info ", "a.h5")])
def test_completion(prefix, tmp_path, line, offered):
    for name in ("a.h5", "b.json", "c.log"):
        (tmp_path / name).touch()
    words = re.findall(r"=|[^\s=]+", line) + [""] * line.endswith((" ", "="))  # as bash splits it
    env = environment(LINE=line, PATH=f"{prefix}/bin:{os.environ['PATH']}",
                      XDG_DATA_DIRS=f"{prefix}/share")
    done = subprocess.run(["bash", "-c", COMPLETE, "bash", *words], cwd=tmp_path, env=env,
                          capture_output=True, text=True)
    assert done.stdout.split() == offered.split() and not done.stderr


@pytest.mark.skipif(not LMOD.exists(), reason="no Lmod here (lmod)")
def test_module(prefix, tmp_path):
    script = f"""source {LMOD}; unset MANPATH; before=$PATH
        module use {prefix}/share/dgemm_ooc/modulefiles; module load dgemm_ooc
        dgemm_ooc --version; echo "$MANPATH$PYTHONPATH"; module -t list 2>&1
        module unload dgemm_ooc; [ "$PATH" = "$before" ]"""
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True,
                          env=environment(HOME=str(tmp_path), PATH="/usr/bin:/bin"))
    assert done.returncode == 0, done.stderr
    assert f"dgemm_ooc {VERSION} (" in done.stdout and f"\ndgemm_ooc/{VERSION}\n" in done.stdout
    assert f"{prefix}/share/man:" in done.stdout and f"{prefix}/lib/python3/dist-packages\n" in done.stdout


def recipe(monkeypatch):
    """The class of the Spack recipe, with stand-ins for Spack's own functions."""
    spack = MagicMock(__all__=["license", "version", "depends_on", "conflicts"])
    monkeypatch.setitem(sys.modules, "spack.package", spack)
    for name, base in ("makefile", "MakefilePackage"), ("cuda", "CudaPackage"):
        monkeypatch.setitem(sys.modules, f"spack_repo.builtin.build_systems.{name}",
                            SimpleNamespace(**{base: type(base, (), {})}))
    return run_path(ROOT / "jobs/packages/spack/package.py")["DgemmOoc"], spack


class Spec(dict):
    """A concrete spec: prefixes of dependencies, and the chosen architectures; None: no CUDA."""

    def __init__(self, arches):
        names = "mpi", "hdf5", "cuda"
        super().__init__((name, SimpleNamespace(prefix=f"/spack/{name}")) for name in names)
        self["mpi"].mpicc = "/spack/mpi/libexec/mpicc"
        self.variants = {"cuda_arch": SimpleNamespace(value=arches)}

    def satisfies(self, what):
        return what == "+cuda" and self.variants["cuda_arch"].value is not None


@pytest.mark.parametrize("arches, settings, compiler", [
    (None, ["CUDA=0"], "/spack/mpi/libexec/mpicc"),
    (("none",), ["CUDA=1", "CUDA_HOME=/spack/cuda"], "/spack/cuda/bin/nvcc"),
    (("80", "90"), ["CUDA=1", "CUDA_HOME=/spack/cuda", "CUDA_ARCH=80 90"], "code=sm_80")])
def test_spack(monkeypatch, tmp_path, arches, settings, compiler):
    """The arguments of make are as expected, and make knows them."""
    package, spack = recipe(monkeypatch)
    assert [call.args for call in spack.version.call_args_list] == [(VERSION,)]
    assert VERSION in package.url
    package = package()
    package.spec, package.prefix = Spec(arches), "/spack/here"
    common = ["MPICC=/spack/mpi/libexec/mpicc", "HDF5_HOME=/spack/hdf5", *settings]
    assert package.build_targets == [*common, "all"]
    assert package.install_targets == [*common, "PREFIX=/spack/here", "install"]
    out = make("-n", f"BUILD={tmp_path}", *package.install_targets)
    assert "/spack/mpi/libexec/mpicc " in out and "-I/spack/hdf5/include" in out and compiler in out
    assert re.search(r'install .*-t "/spack/here/bin" .*dgemm_ooc', out)


def test_apptainer(tmp_path):
    """The packages are the build dependencies of the Debian package, and make knows the arguments."""
    text = (ROOT / "jobs/packages/apptainer/dgemm_ooc.def").read_text()
    for name, value in re.findall(r"^    (\w+)=(\S+)$", text, re.M):
        text = text.replace(f"{{{{ {name} }}}}", value)
    assert "{{" not in text
    known = (ROOT / "jobs/packages/debian/control").read_text()
    installs = re.findall(r"apt-get install ((?:.*\\\n)*.*)", text)
    packages = {word for line in installs for word in line.split() if word[0] not in "-\\"}
    assert len(installs) == 2 and "libopenmpi-dev" in packages
    assert all(f" {name}," in known for name in packages - {"build-essential"})
    words = re.search(r"make -C /opt/source (.*)", text)[1].split()[1:]
    out = make("-n", "CUDA=0", f"BUILD={tmp_path}", *words)
    assert "mpicc.openmpi " in out and re.search(r'-t "/opt/dgemm_ooc/bin" .*dgemm_ooc', out)
