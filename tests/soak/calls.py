"""One call of the system that fails, is short or late, of the program or of the HDF5 library.  The run must end with the
right bits, or with a message that names the file; then the same command must complete."""
import errno

from attempt import Run, random_configuration
from kills import finish, judge, product_of, refused_anyway

ERRORS = ["eio", "estale", "emfile", "eacces", "eagain"]
ROOM = ["enospc", "edquot", "eio"]
PROGRAM = {"pread": [*ERRORS, "short", "eof", "delay", "eintr"], "preadv": [*ERRORS, "short", "eof", "delay"],
           "pwrite": [*ROOM, "short", "delay"], "write": [*ROOM, "short"], "fallocate": [*ROOM, "eopnotsupp"],
           "fdatasync": ["eio", "enospc"], "fsync": ["eio"], "rename": ["eio", "estale"], "open": ERRORS,
           "ftruncate": ROOM, "mmap": ["enomem"], "malloc": ["enomem"],
           "thread": ["eagain"], "link": ["eio", "eperm"]}
LIBRARY = [errno.EMFILE, errno.ENFILE, errno.ESTALE, errno.EIO, errno.EACCES, errno.EAGAIN, errno.ENOLCK]
OF_NO_FILE = {"mmap", "malloc", "thread"}


def kind_of(number):
    return ("program", "library")[number % 2]


def run_with(case, call, how, **fault):
    """Run a product with this fault, then without it.  Return the outcome."""
    product, output, log = product_of(case), case.folder / "out.h5", case.folder / "log"
    source = product.copy(case.folder)
    how = {**random_configuration(case.rng, product), **how}
    rank = str(case.rng.randrange(how["ranks"])) if how["ranks"] else ""
    how["options"] += ["--verify", case.rng.choice(["online", "online", "full", "off"])]
    end = case.ended(Run(output, source, product.scalars(), how,
                         DGEMM_OOC_TEST_FAULT_LOG=str(log), DGEMM_OOC_TEST_DONE=str(log),
                         DGEMM_OOC_TEST_DISTURBED=rank, DGEMM_OOC_TEST_FILES=str(case.folder),
                         **{"DGEMM_OOC_TEST_FAULT_RANK": rank} if rank else {}, **fault))
    done = [line for line in log.read_text().splitlines() if not line.split()[-1].isdigit() or "fault" in line] \
        if log.exists() else []
    if log.exists():
        log.unlink()
    case.say(f"{fault}: {done}")
    if end.kind in ("hang", "orphan", "crash"):
        return end.kind
    if end.kind == "done":
        return judge(case, product, output, end) if done else "no fault: fewer calls"
    if not done:
        return f"no fault: refused: exit {end.code}"
    end.hit = True
    named = call in OF_NO_FILE or any(word in end.err for word in (str(case.folder), "input", "out.h5"))
    case.notes[f"status {end.code}"] += 1
    if not named:
        again = case.ended(Run(output, source, product.scalars(), how))
        return f"refused anyway: exit {again.code}" if again.reason() == end.reason() else \
            f"WRONG: the message names no file: {end.reason()}"
    after = refused_anyway(case, product, output, finish(case, product, output, how=how), how=how)
    return after if after.startswith(("WRONG", "hang", "orphan", "crash")) else f"said so; then {after}"


def program(case):
    """A call of the program itself."""
    call = case.rng.choice(sorted(PROGRAM))
    fault = case.rng.choice(PROGRAM[call])
    outcome = run_with(case, call, {"device": "cpu"},
                       DGEMM_OOC_TEST_FAULTS=f"{call}:{fault}@{int(2 ** case.rng.uniform(0, 5))}")
    return f"{outcome} ({call} {fault})" if outcome.startswith("WRONG") else outcome


def library(case):
    """An open, a read, a lock or a question about any of the files, also of the HDF5 library (faults/disturb.c)."""
    error = case.rng.choice(LIBRARY)
    outcome = run_with(case, "", {"device": "cpu"}, DGEMM_OOC_TEST_FAIL=f"{int(2 ** case.rng.uniform(0, 7))}:{error}")
    return f"{outcome} ({errno.errorcode[error]})" if outcome.startswith("WRONG") else outcome


KINDS = {"program": program, "library": library}
