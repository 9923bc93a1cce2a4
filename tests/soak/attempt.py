"""Start a run of the program in a folder, send signals to it, and classify how it ended."""
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from launch import BUILD, EMULATED, FAULTY, WAYS, environment  # noqa: E402

PATIENCE = 120  # timeout of a run in seconds
BLOCK = "1600"  # steps of a block of sums: deep products have several
COMPLETE, NO_ROOM, FAILED_CHECK, NOT_CHECKED = 0, 4, 5, 6
BAD = ("WRONG", "hang", "orphan", "crash", "error in the harness")  # how outcomes of such cases begin
REFUSALS = {1, 2, 3, 4, 5}
CRASHES = {signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGFPE, signal.SIGILL}
MOUNTED = ["unshare", "-m", "sh", "-c", 'mount --bind "$0" "$1" && cd "$1" && shift && exec "$@"']
PLAIN = {"ranks": 0, "options": [], "device": "cpu"}


def has_emulated_gpu():
    return (BUILD / EMULATED).exists()


def tile_of(product, rows, cols, slab):
    """Options that make small steps: a tile, or where that would make the product a general one, little memory."""
    if product.mirrored:
        return ["--gpu-memory", f"{max(160, 8 * product.element() * (rows * cols + (rows + cols) * slab) >> 10)}K"]
    return ["--tile", f"{min(rows, product.m)}x{min(cols, product.n)}x{slab}"]


def random_configuration(rng, product, checkpoint=True):
    """Random ranks, tiles, grid, memory limit, I/O method and device, such as a user might choose."""
    ranks = rng.choice([0, 0, 0, 1, 2, 3, 4])
    sides = [rng.choice([16, 24, 40, 100, size]) for size in (product.m, product.n)]
    options = tile_of(product, *sides, rng.choice([16, 48, 256 if product.k > 999 else 64]))
    if ranks in (2, 4) and rng.random() < 0.4 and not product.mirrored:
        options += ["--grid", rng.choice({2: ["1x2", "2x1"], 4: ["2x2", "4x1", "1x4"]}[ranks])]
    if rng.random() < 0.2:
        options += ["--host-memory", rng.choice(["14M", "20M", "32M"])]
    if rng.random() < 0.4:
        not_of = {"contiguous": {"auto"}, "chunks": {"auto", "direct"}}.get(product.layout, set(WAYS) - {"hdf5"})
        options += ["--io", rng.choice(sorted(set(WAYS) - not_of))]
    if checkpoint:
        options += ["--checkpoint", rng.choice(["0.01s", "0.05s", "0.2s"])]
    gpu = rng.random() < 0.15 and has_emulated_gpu() and (product.kind != "residues" or product.k < 1000)
    return {"ranks": ranks, "layers": rng.choice([1, 2, 4]), "options": options, "device": "gpu" if gpu else "cpu"}


def apart(words, places):
    """A launch in which each rank has variables, more options and, at the same path, a folder of its own."""
    ranks = [["-n", "1", "env", *(f"{k}={v}" for k, v in place["env"].items()), *MOUNTED, str(place["folder"]),
              str(place["at"]), *words, *place.get("options", [])] for place in places]
    return ["mpirun", *[word for rank in ranks for word in [":", *rank]][1:]]


class Run:
    """A process, or a launcher and its ranks, whose output goes to files."""

    def __init__(self, output, source, scalars, how, faults=None, **disturbances):
        self.folder, self.hit, self.known = Path(how.get("folder", Path(source).parent)), False, set()
        program = BUILD / (EMULATED if how["device"] == "gpu" else FAULTY)
        self.ranks = how["ranks"]
        env = environment(self.ranks, **{"DGEMM_OOC_DEVICE": how["device"], "DGEMM_OOC_TEST_FILES": str(output),
                                         "DGEMM_OOC_TEST_BLOCK": BLOCK,
                                         "DGEMM_OOC_TEST_LAYERS": str(how.get("layers", 1)),
                                         **disturbances, **(faults or {})})
        launcher = ["mpirun", "-n", str(self.ranks)] if self.ranks else []
        words = [str(program), str(source), *scalars, *how["options"], "-o", str(output)]
        self.words = apart(words, how["places"]) if "places" in how else [*launcher, *how.get("wrapper", []), *words]
        name = f"said{time.monotonic_ns()}"
        self.said = [self.folder / f"{name}.out", self.folder / f"{name}.err"]
        self.started = time.monotonic()
        with open(self.said[0], "w") as out, open(self.said[1], "w") as err:
            self.process = subprocess.Popen(self.words, cwd=self.folder, env=env, stdout=out, stderr=err,
                                            stdin=subprocess.DEVNULL, start_new_session=True)

    def alive(self):
        return self.process.poll() is None

    def everyone(self):
        """The process and all its descendants."""
        found, open_ = [], [self.process.pid]
        while open_:
            pid = open_.pop()
            found.append(pid)
            try:
                open_ += map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
            except OSError:
                pass
        return found

    def workers(self):
        """The processes that multiply."""
        return self.everyone()[1:] if self.ranks else [self.process.pid]

    def wait_for(self, condition, seconds=20):
        """Poll a condition; return whether it became true before the timeout and the end of the run."""
        deadline = time.monotonic() + seconds
        while self.alive() and time.monotonic() < deadline:
            if condition():
                return True
            time.sleep(0.005)
        return False

    def send(self, pids, number):
        self.known.update(self.everyone())  # the ranks outlive a killed launcher for a while
        for pid in pids:
            try:
                os.kill(pid, number)
                self.hit = True
            except ProcessLookupError:
                pass

    def end(self, patience=PATIENCE):
        """Wait until the run and its descendants have ended, kill those left, and return how it ended."""
        deadline = time.monotonic() + patience
        while self.alive() and time.monotonic() < deadline:
            self.known.update(self.everyone())
            time.sleep(0.01)
        # mpirun itself occasionally hangs after all its ranks have ended.
        hang = self.alive() and any(map(is_running, self.workers()))
        stacks = "".join(map(stacks_of, self.everyone())) if hang else ""
        deadline = time.monotonic() + (0 if hang else 20)
        while (left := [pid for pid in self.known if is_running(pid)]) and time.monotonic() < deadline:
            time.sleep(0.01)
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()
        orphans = set(left) - {self.process.pid}
        out, err = (path.read_text(errors="replace") for path in self.said)
        for path in self.said:
            path.unlink()
        return Ended(self, "hang" if hang else "orphan" if orphans else "", out, err + stacks)


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def stacks_of(pid):
    """The stack traces of a hung process."""
    if not shutil.which("gdb"):
        return f"process {pid}: no gdb to ask where it is\n"
    done = subprocess.run(["gdb", "-p", str(pid), "-batch", "-ex", "thread apply all bt"],
                          capture_output=True, text=True, timeout=60)
    return f"process {pid}:\n{done.stdout}\n"


class Ended:
    """How a run ended.  Its kind is done, checked, stopped, refused, lost (killed), crash, hang or orphan."""

    def __init__(self, run, fate, out, err):
        self.code, self.out, self.err, self.words = run.process.returncode, out, err, run.words
        self.hit, self.seconds = run.hit, time.monotonic() - run.started
        self.kind = fate or self._kind(run.ranks)

    def _kind(self, ranks):
        if self.code in (COMPLETE, NOT_CHECKED):
            return "done" if "RESULT: C complete" in self.out else "checked"
        if self._crashed(ranks):
            return "crash"
        if self.code == 75:
            return "stopped"
        if self.code in REFUSALS and self.reason():
            return "lost" if self.hit else "refused"
        return "lost" if self.hit or (ranks and self.code < 0) else "crash"

    def _crashed(self, ranks):
        """Whether the program crashed.  A launcher that dies of a signal, as mpirun occasionally does, is only lost."""
        if ranks and self.code < 0:
            return False
        number = -self.code if self.code < 0 else self.code - 128
        return number in CRASHES or re.search(r"\bdgemm_ooc\(", self.err) is not None

    def reason(self):
        """The start of its error message, without names and numbers."""
        for line in self.err.splitlines():
            if line.startswith("dgemm_ooc: ") and not line.endswith("computed again"):
                words = re.sub(r"/\S+", "FILE", line[11:]).split(":")[0]
                return re.sub(r"\d[\d.]*", "N", words)[:60]
        return ""

    def describe(self):
        return f"exit {self.code} ({self.kind}): {' '.join(self.words)}\n{self.out}{self.err}"


def journal_of(output):
    return Path(f"{output}.journal")


def part_of(output):
    return Path(f"{output}.part")


def saved(output):
    """The remaining work by the newest complete line of the journal; None when nothing is saved."""
    try:
        lines = journal_of(output).read_bytes().split(b"\n")
    except OSError:
        return None
    for line in reversed(lines[:-1]):
        if b'"left"' in line:
            try:
                return json.loads(line.split(b" ", 1)[1])["left"]
            except (ValueError, IndexError):
                continue
    return None


def share_done(left, product):
    """The share of all multiplications that is done."""
    n, k = (size * (2 if product.dtype[0] == "c" else 1) for size in (product.n, product.k))  # of real numbers
    rest = sum(piece["block"][2] * piece["block"][3] * (k - piece["k"]) for piece in left)
    return 1 - rest / (product.m * n * k)


def clean(folder):
    """Remove all files but the input."""
    for path in Path(folder).iterdir():
        if path.name != "input.h5" and not path.is_dir():
            path.unlink()


def keep(folder, where, name, text):
    """Keep the files and messages of a failed case for diagnosis."""
    if where:
        shutil.copytree(folder, Path(where) / name, dirs_exist_ok=True)
        (Path(where) / name / "said.txt").write_text(text)


def random_of(*key):
    return random.Random(" ".join(map(str, key)))
