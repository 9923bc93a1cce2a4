"""A kernel is one file and one line of kernels/kernel.h: whatever lists kernels has it, unnamed there."""
import re
import subprocess

import pytest
from launch import BUILD, EMULATED, ROOT, run

SOURCE = (ROOT / "kernels/kernel.h").read_text()
NAMES = re.findall(r"^    KERNEL\(\w+, (\w+)\)", SOURCE, re.M)
LADDER = NAMES[:NAMES.index("cpu")]
RECORDS = {name: path for path in sorted((ROOT / "kernels").glob("*.c*"))
           for name in re.findall(r"^const struct kernel kernel_(\w+) = ", path.read_text(), re.M)}
WITH_CODE = {name: path for name, path in RECORDS.items() if path.suffix == ".cu" and "GPU_KERNEL(" in path.read_text()}
SPECIAL = {name: re.findall(r'\.architecture = "(\w+)"', path.read_text())[0]
           for name, path in RECORDS.items() if ".architecture" in path.read_text()}


def listed(program):
    """What --algo takes, as the program says it."""
    done = run(program, "--algo", "?")
    assert done.returncode == 2
    return re.search(r"this build has: (?:auto, )?(.*), ozaki:6\.\.18$", done.stderr, re.M)[1].split(", ")


def test_each_line_is_a_file():
    assert NAMES and sorted(NAMES) == sorted(RECORDS)
    for name, path in RECORDS.items():
        assert f'.name = "{name}",' in path.read_text() or f"GPU_KERNEL({name})," in path.read_text()
        assert (f"kernel_code code_{name} = " in path.read_text()) == (name in WITH_CODE)


def test_help_and_manual():
    text = " ".join(run("dgemm_ooc", "--help-all").stdout.split())
    assert f"auto, {', '.join(LADDER)} (or 0 to {len(LADDER) - 1}), cpu, or ozaki[:N]" in text
    page = (BUILD / "man/man1/dgemm_ooc.1").read_text()
    assert ", ".join(rf"\fB{name}\fR" for name in LADDER) + "." in page


def test_programs_of_this_build():
    names = listed("dgemm_ooc")
    assert names == listed("tests/bench/gemm_bench")
    assert names in (["cpu", "ozaki"], [*LADDER, "cpu", "ozaki"])


def test_emulated_gpu(gpu):
    """It has all kernels but those with instructions of one GPU alone; its cuBLAS says that it is none."""
    assert listed(EMULATED) == [name for name in [*LADDER, "cpu", "ozaki"] if name not in SPECIAL]


@pytest.mark.parametrize("name", WITH_CODE)
def test_what_a_file_is_compiled_for(tmp_path, name):
    """For all architectures of the build, one of which has more instructions if the record says so."""
    target = f"{tmp_path}/{WITH_CODE[name].relative_to(ROOT)}.o"
    done = subprocess.run(["make", "-n", "-C", ROOT, "CUDA=1", "CUDA_HOME=/cuda", "CUDA_ARCH=80 90 100",
                           f"BUILD={tmp_path}", target], capture_output=True, text=True)
    made_for = re.findall(r"code=(\w+)", done.stdout.split("/cuda/bin/nvcc")[1])
    special = SPECIAL.get(name, "none")
    plain = ["sm_80", "sm_90", "sm_100", "compute_100"]
    assert made_for == [arch + special[len(special.rstrip("af")):] * (arch.split("_")[1] == special.rstrip("af"))
                        for arch in plain]
