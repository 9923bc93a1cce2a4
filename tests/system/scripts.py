"""The job scripts of jobs/ as a user runs them: copied, with the variables at their top edited."""
import re
import shutil
import signal
from pathlib import Path

from launch import BUILD, FAULTY, ROOT, SRUN
from matrices import catches, multiply, operands, output_of, read

# The scripts request two nodes of GPUs by default.
SMALL = ["--nodes=1", "--ntasks-per-node=2", "--gpus-per-node=2", "--cpus-per-task=1"]


def made(folder, size):
    """Operands in a folder, and the bits of their product."""
    source = folder / "input.h5"
    operands(source, *size)
    multiply(source)
    return source, read(output_of(source)).tobytes()


def edited(name, folder, **variables):
    """Copy a script into a folder."""
    variables = {"DGEMM_OOC": ROOT, "PROGRAM": BUILD / "dgemm_ooc", **variables}
    if name.startswith("slurm"):
        variables["MPI"] = SRUN.split("=")[1]
    text = (ROOT / "jobs" / name).read_text()
    for variable, value in variables.items():
        text, count = re.subn(rf"^{variable}=(\([^)]*\)|.*).*$", f"{variable}={value}", text,
                              flags=re.MULTILINE)
        assert count == 1, f"{name} has no {variable}"
    script = folder / name
    script.write_text(text)
    script.chmod(0o755)
    return script


def ranks_at_work(source):
    """The processes that work on this product and would take a checkpoint at a signal."""
    ranks = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
            if words[0].endswith(b"/dgemm_ooc") and bytes(source) in words:
                ranks += [int(process.name)] * catches(process.name, signal.SIGTERM)
        except (FileNotFoundError, ProcessLookupError):
            pass  # it has ended
    return ranks


def are_at_work(source, count=2):
    return len(ranks_at_work(source)) == count


def slowed(tile, late):
    """Variables for a run in tiles of this size, in which `late` of 100 reads take 20 ms.  It leaves the CPUs to
    other tests."""
    return {"DGEMM_OOC_TILE": tile, "DGEMM_OOC_TEST_FAULTS": f"pread:delay%{late}"}


def submit(slurm, source, slow, *options, **variables):
    """Submit the production script; return its job and its log."""
    folder = source.parent
    variables = {"INPUT": source, "OUTPUT": output_of(source), "PROGRAM": BUILD / FAULTY, **variables}
    script = edited("slurm.sh", folder, **variables)
    export = ",".join(["ALL", *(f"{name}={value}" for name, value in slow.items())])
    job = slurm.submit(*SMALL, "--export", export, *options, script, cwd=folder)
    return job, folder / f"dgemm_ooc-{job}.log"


def finish(slurm, job, log):
    """Wait for the end of a job; return its exit status."""
    slurm.await_job(job, lambda state: state["JobState"] in ("COMPLETED", "FAILED"), log)
    return int(slurm.job(job)["ExitCode"].split(":")[0])


def submit_array(slurm, reference, source, slow, *options, **variables):
    """Run an array of two tasks with two ranks each: each task has its own files, log and time, requeuing one
    does not affect the other, and both produce the bits of the reference."""
    for task in 1, 2:
        shutil.copy2(source, source.with_name(f"input-{task}.h5"))
    array, _ = submit(slurm, source, slow, "--array=1-2", "--output=array-%a.log", *options,
                      INPUT=source.with_name("input$TASK.h5"),
                      OUTPUT=source.with_name("input$TASK-C.h5"), **variables)
    for task in 1, 2:
        job, log = f"{array}_{task}", source.with_name(f"array-{task}.log")
        mine = source.with_name(f"input-{task}.h5")
        slurm.await_job(job, lambda state: are_at_work(mine), log)
        slurm.ask("scancel", "--signal=USR2", job)
        slurm.await_job(job, lambda state: state["Restarts"] == "1", log)
    for task in 1, 2:
        log = source.with_name(f"array-{task}.log")
        assert finish(slurm, f"{array}_{task}", log) == 0, log.read_text()
        assert log.read_text().count("\nRestart ") == 1
        assert read(source.with_name(f"input-{task}-C.h5")).tobytes() == reference[1]
