"""The sizes that a reader can hold: functions, files and lines of the C and CUDA sources, and of the
page's."""
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from cases import each  # noqa: E402
from launch import BUILD  # noqa: E402

SOURCES = sorted(p for folder in ("src", "io", "kernels", "tests") for p in (ROOT / folder).rglob("*")
                 if p.suffix in {".c", ".h", ".cpp", ".cu", ".cuh", ".js", ".css"})
LINE, FUNCTION, FILE = 100, 70, 500


def functions(lines):
    """(first line, length) of every block that opens in column 0 or with a one-line head."""
    start = None
    for number, line in enumerate(lines, 1):
        if line.startswith("{"):
            start = number
        elif line.startswith("}") and start:
            yield start, number - start + 1
            start = None


@each("path", SOURCES)
def test_sizes(path):
    lines = path.read_text().splitlines()
    complaints = [f"{path.name}:{i}: {len(line)} columns" for i, line in enumerate(lines, 1)
                  if len(line) > LINE]
    complaints += [f"{path.name}:{start}: a function of {length} lines"
                   for start, length in functions(lines) if length > FUNCTION]
    if len(lines) > FILE:
        complaints.append(f"{path.name}: {len(lines)} lines")
    assert not complaints, "\n".join(complaints)


def reached(graph, start):
    """All nodes that edges lead to from there."""
    found, left = set(), [start]
    while left:
        new = graph[left.pop()] - found
        found |= new
        left += new
    return found


def cycles(graph):
    """The sets of nodes that reach each other."""
    reach = {node: reached(graph, node) for node in graph}
    return {frozenset(other for other in reach[node] if node in reach[other])
            for node in graph if node in reach[node]}


def includes(name_of, suffixes):
    """What the files of each name include, by name, but for themselves; file names are unique."""
    files = {path.name: path for path in SOURCES if path.relative_to(ROOT).parts[0] != "tests"}
    graph = {}
    for path in files.values():
        if path.suffix in suffixes:
            names = re.findall(r'^#include "([^"]+)"', path.read_text(), re.M)
            graph.setdefault(name_of(path), set()).update(name_of(files[n]) for n in names if n in files)
    return graph


def test_no_cycle_of_headers():
    assert not cycles(includes(lambda path: path.name, {".h", ".cuh"}))


def test_no_cycle_of_modules():
    """A module, a .c and a .h of one name with its NAME_impl.h, can be read after those that it includes."""
    graph = includes(lambda path: path.stem.removesuffix("_impl"), {".c", ".h", ".cu", ".cuh"})
    assert not cycles({name: others - {name} for name, others in graph.items()})


def test_one_meaning_of_a_struct():
    """Each tag is defined once in what users build, so that a name says what it is."""
    found = {}
    for path in SOURCES:
        if path.relative_to(ROOT).parts[0] != "tests":
            for tag in re.findall(r"^struct (?:alignas\(.*\) )?(\w+)(?: : [^;{]*)? \{", path.read_text(), re.M):
                found.setdefault(tag, []).append(str(path.relative_to(ROOT)))
    assert not {tag: paths for tag, paths in found.items() if len(paths) > 1}


# What a process has once is theirs, and of the tools; the library of a format is such a thing, behind a lock.
PROCESS = {"src/main.c", "src/driver/process.c", "io/matfile_hdf5.c", "io/matfile_driver.c",
           "src/driver/journal.c",  # and the journal, whose buffer rank 0 alone reads lines into
           "src/library/library.c"}  # and the library, which ends all where a rank has no memory to tell the others

ALONE = ("tests/", "src/tools/", "src/library/examples/")  # programs of their own


def test_a_run_is_no_process():
    """A program that has its own MPI, streams and signals can use all but these files: nothing else starts MPI, names all
    of its ranks, ends the process or keeps a text or communicator for all callers."""
    forbidden = re.compile(r"\b(?:_?exit|abort|quick_exit|MPI_Init\w*|MPI_Finalize|MPI_Abort|printf|puts|putchar)\(|"
                           r"\bMPI_COMM_WORLD\b|^ *static (?:char|MPI_Comm) \w+[\[;=]", re.M)
    found = []
    for path in SOURCES:
        name = str(path.relative_to(ROOT))
        if path.suffix in {".c", ".h"} and not name.startswith(ALONE) and name not in PROCESS:
            code = re.sub(r'/\*.*?\*/|"(?:\\.|[^"\\])*"', "", path.read_text(), flags=re.S)
            found += [f"{name}: {word}" for word in forbidden.findall(code)]
    assert not found, "\n".join(found)


# What the planner calls of other folders, none of which reads a file, prints or asks the system: of the C library, and of
# ours whole modules (not error_print), but of machine and device what computes alone.
PURE = set("""bcmp calloc free malloc memcmp memcpy memmove memset qsort strcmp strlen strnlen
    ceil exp2 fabs floor fmax fmin hypot ldexp log log2 pow round sqrt snprintf""".split())
PURE_MODULES = [*(f"src/base/{name}" for name in ("block", "checksum", "error", "quantity", "scalar")),
                *(f"src/problem/{name}" for name in ("problem", "embedding", "problem_scaling", "sums")),
                *(f"kernels/{name}" for name in ("kernel", "freivalds_cpu", "integers_cpu", "ozaki_cpu", "ozaki_part"))]
PURE_ALONE = {"machine_has_own_memory", "machine_write_by_threads", "device_cpu_overhead"}
PURE_HEADERS = {"float", "inttypes", "limits", "math", "stdbool", "stddef", "stdint", "stdlib", "string"}


def symbols(objects, option):
    """Of object files, as nm lists them, without what compilers and sanitizers add."""
    lines = subprocess.run(["nm", "-A", option, *objects], capture_output=True, text=True, check=True).stdout.splitlines()
    found = {re.sub(r"^__(\w+)_chk$", r"\1", line.split()[-1]) for line in lines}
    return {name for name in found if not name.startswith("_") and "gcov" not in name}


def made_of(modules):
    """The objects of these modules."""
    paths = (path.relative_to(ROOT) for module in modules for path in ROOT.glob(f"{module}.c"))
    return [BUILD / f"{name}.o" for name in paths]


def test_plan_is_pure():
    """The planner computes: no file is read and nothing printed, neither there nor in what it calls."""
    plan = made_of(["src/plan/*"])
    called = symbols(plan, "--undefined-only") - symbols(plan, "--defined-only")
    pure = (symbols(made_of(PURE_MODULES), "--defined-only") | PURE | PURE_ALONE) - {"error_print"}
    assert "calloc" in called and "schedule_cut" not in called
    assert not called - pure


@each("path", [path for path in SOURCES if path.parent == ROOT / "src/plan"])
def test_plan_includes_nothing_of_files(path):
    io = {header.name for header in (ROOT / "io").glob("*.h")}
    system, ours = ({name for name in re.findall(f"^#include {quoted}", path.read_text(), re.M)}
                    for quoted in (r"<(\w+)\.h>", r'"(\w+\.h)"'))
    assert system <= PURE_HEADERS and not ours & io


def without_comments(path):
    return re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S)


FORMAT = re.compile(r'hdf5|\bh5_|\bhid_t\b|"matfile', re.I)


def test_one_format_is_of_io_alone():
    """What is read and written is behind the table of formats: no other code names HDF5 or its functions."""
    found = []
    for path in SOURCES:
        if path.relative_to(ROOT).parts[0] in {"src", "kernels"} and path.suffix not in {".js", ".css"}:
            code = re.sub(r'^(#include .*)|"(?:\\.|[^"\\])*"', lambda m: m[1] or "", without_comments(path), flags=re.M)
            found += [f"{path.name}: {word}" for word in FORMAT.findall(code) + re.findall(r"\bH5[A-Z]\w*", code)]
    assert not found, "\n".join(found)


def test_one_library_is_of_io_alone():
    objects = (filter(Path.exists, made_of(modules)) for modules in (["io/*"], ["src/*", "src/*/*", "kernels/*"]))
    library, others = ({name for name in symbols(some, "--undefined-only") if name.startswith("H5")} for some in objects)
    assert library and not others


# What the product may have.  Raising one of these is a commit of its own that says why.
LINES_OF_ALL, PARAMETERS = 50_880, 6
MEMBERS = {"src/plan/plan.h": ("plan", 40), "src/problem/problem.h": ("problem", 30), "src/problem/options.h": ("options", 30),
           "src/check/check.h": ("check", 28), "src/run/run_state.h": ("run", 30)}
HEAD = re.compile(r"^(?:(?:static|inline|const|extern) )*(?:(?:struct|enum|unsigned) )?\w+[\s*]+(\w+)"
                  r"\(([^(){};]*(?:\([^()]*\)[^(){};]*)*)\)\s*[{;]", re.M)


def test_budget_of_lines():
    product = [path for path in SOURCES if path.suffix not in {".js", ".css"} and path.relative_to(ROOT).parts[0] != "tests"]
    assert sum(len(path.read_text().splitlines()) for path in product) <= LINES_OF_ALL


def test_budget_of_parameters():
    long = [f"{path.name}: {name}" for path in SOURCES if path.is_relative_to(ROOT / "src") and path.suffix in {".c", ".h"}
            for name, list_of in HEAD.findall(without_comments(path))
            if re.sub(r"\([^()]*\)", "", list_of).count(",") >= PARAMETERS]
    assert not long


@each("header", MEMBERS)
def test_budget_of_members(header):
    name, most = MEMBERS[header]
    body = re.search(rf"^struct {name} {{\n(.*?)^}};", without_comments(ROOT / header), re.M | re.S)[1]
    body = re.sub(r"{[^{}]*}", "", body)
    members = sum(1 if "(" in line else line.count(",") + 1 for line in body.split(";") if line.strip())
    assert 10 < members <= most
