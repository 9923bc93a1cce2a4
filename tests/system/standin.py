#!/usr/bin/env python3
"""A stand-in for the commands of batch systems, selected by the name it is called by.  Each command accepts
exactly those options of the real one that the scripts of jobs/ use.  Launchers check that a node has the
requested resources, and then start two ranks by mpirun.  A submitted job is appended to `queue` in the folder
$STANDIN as a line of JSON, for a test to run."""
import argparse
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

NAME = Path(sys.argv[0]).name
FOLDER = Path(os.environ.get("STANDIN", "."))
STEP = FOLDER / "step"  # the process id of the last step
FLAG = None
JOB = {"qsub": "PBS_JOBID", "bsub": "LSB_JOBID", "flux": "FLUX_JOB_ID"}


def parse(words, required, optional={}, rest=argparse.REMAINDER):
    """Parse options by type: a type, FLAG, a tuple of choices, or list if the option may be repeated."""
    parser = argparse.ArgumentParser(prog=NAME, allow_abbrev=False)
    for option, kind in {**required, **optional}.items():
        how = {"type": kind}
        if kind is FLAG:
            how = {"action": "store_const", "const": True}
        elif kind is list:
            how = {"action": "append"}
        elif isinstance(kind, tuple):
            how = {"choices": kind}
        parser.add_argument(option, required=option in required, **how)
    if rest:
        parser.add_argument("rest", nargs=rest)
    return parser.parse_args(words)


def expect(truth, complaint):
    if not truth:
        sys.exit(f"{NAME}: {complaint}")


def ranks(command):
    """The command line of an mpirun that does not detect the batch system itself."""
    hidden = [word for name in os.environ if name in JOB.values() for word in ("-u", name)]
    return ["env", *hidden, "mpirun", "-n", "2", *command]


def started_by(process):
    """All descendants of a process."""
    try:
        below = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except OSError:
        return []
    return below + [deeper for child in below for deeper in started_by(child)]


def signal_ranks(launcher, number):
    """Send the signal to the ranks, since not all launchers forward all signals."""
    for child in started_by(launcher):
        if Path(f"/proc/{child}/comm").read_text() == "dgemm_ooc\n":
            os.kill(int(child), number)


def start(command):
    """Start the ranks; forward signals to them."""
    process = subprocess.Popen(ranks(command))
    for number in signal.SIGUSR2, signal.SIGTERM:
        signal.signal(number, lambda number, _: signal_ranks(process.pid, number))
    sys.exit(process.wait())


def start_apart(command):
    """Start the ranks; forward neither signals nor their exit status."""
    process = subprocess.Popen(ranks(command))
    STEP.write_text(str(process.pid))
    sys.exit(process.wait() != 0)


def hand_in(words, mark, required, optional={}):
    """Submit a script: its directives are checked, and it is copied at once, as batch systems do."""
    expect(len(words) == 1, "hands in one script")
    lines = Path(words[0]).read_text().splitlines()
    directives = " ".join(line[len(mark):] for line in lines if line.startswith(mark))
    given = parse(shlex.split(directives), required, optional, None)
    handle, copy = tempfile.mkstemp(dir=FOLDER)
    os.close(handle)
    shutil.copy(words[0], copy)
    job = {"script": copy, "requeue": getattr(given, "Q", None), "folder": os.getcwd(),
           "environment": {JOB[NAME]: "7", **({"FLUX_URI": "local:///run"} if NAME == "flux" else {})}}
    if NAME == "qsub":
        job["folder"], job["environment"]["PBS_O_WORKDIR"] = str(FOLDER), os.getcwd()
    with open(FOLDER / "queue", "a") as queue:
        queue.write(json.dumps(job) + "\n")
    return given


def aprun(words):
    given = parse(words, {"-n": int, "-N": int, "-d": int, "-cc": ("cpu", "depth", "none")})
    expect(given.n % given.N == 0 and given.N == 1 and given.d <= 16, "a node has 1 GPU, 16 cores")
    start(given.rest)


def mpiexec(words):
    given = parse(words, {"-n": int, "--ppn": int, "--depth": int, "--cpu-bind": ("depth", "core", "none")})
    expect(given.n % given.ppn == 0 and given.ppn * given.depth <= 64, "a node has 64 cores")
    start(given.rest)


def jsrun(words):
    given = parse(words, {"-n": int, "-r": int, "-a": int, "-g": int, "-c": int, "-b": str})
    expect(given.n % given.r == 0 and given.r * given.g <= 6 and given.r * given.c <= 42,
           "a node has 6 GPUs, 42 cores")
    expect(given.b == f"packed:{given.c // given.a}", "each rank is bound to its cores")
    start_apart(given.rest)


def signal_step():
    signal_ranks(int(STEP.read_text()), signal.SIGUSR2)


def jskill(words):
    given = parse(words, {"-s": ("USR2",)}, rest=1)
    expect(given.rest == ["all"], "which steps?")
    signal_step()


def qsub(words):
    given = hand_in(words, "#PBS", {"-N": str, "-l": list, "-j": ("oe",)})
    expect(len(given.N) <= 15, "a name has 15 characters at most")
    expect(any(word.startswith("walltime=") for word in given.l), "no walltime")


def qstat(words):
    parse(words, {"-f": FLAG}, rest=1)
    print("Job Id: 7.server\n    Job_Name = dgemm_ooc\n    Resource_List.walltime = 04:00:00")


def bsub(words):
    given = hand_in(words, "#BSUB", {"-J": str, "-nnodes": int, "-W": str, "-o": str},
                    {"-wa": ("USR2",), "-wt": int, "-Q": int})
    expect((given.wa is None) == (given.wt is None), "-wa and -wt go together")


def flux_run(words):
    given = parse(words, {"-N": int, "-n": int, "-c": int, "-g": int, "-o": list},
                  {"-t": str, "--signal": str})
    expect(given.n % given.N == 0 and given.n // given.N * given.c <= 64, "a node has 64 cores")
    expect(set(given.o) <= {"cpu-affinity=off", "gpu-affinity=off"}, "unknown -o")
    expect(given.t in (None, "14340s") and given.signal in (None, "SIGUSR2@300"), "when to stop?")
    start_apart(given.rest)


def flux_batch(words):
    hand_in(words, "#flux:", {"--job-name": str, "--nodes": int, "--exclusive": FLAG,
                              "--time-limit": str, "--output": str})


def flux_kill(words):
    given = parse(words, {"--signal": ("SIGUSR2",)}, rest=1)
    expect(given.rest == ["f2"], "no such job")
    signal_step()


def flux(words):
    """Within a job, `flux` is the job's own instance, in which jobs have no resources of their own."""
    outer = ["--parent"] if "FLUX_JOB_ID" in os.environ else []
    if words[:-1] == [*outer, "batch"]:
        flux_batch(words[-1:])
    elif words == ["job", "timeleft"]:
        print(14400)
    elif words == ["job", "last"]:
        print("f2")
    elif words[0] == "run":
        flux_run(words[1:])
    elif words[0] == "kill":
        flux_kill(words[1:])
    else:
        expect(False, f"unknown: {words}")


def lfs(words):
    expect(words[:2] == ["getstripe", "-d"] and Path(words[2]).is_dir(), f"unknown: {words}")
    print("stripe_count:  1 stripe_size:   1048576 pattern:       raid0")


COMMANDS = [aprun, mpiexec, jsrun, jskill, qsub, qstat, bsub, flux, lfs]

if __name__ == "__main__":
    {command.__name__: command for command in COMMANDS}[NAME](sys.argv[1:])
