"""Which program is started, and by which launcher of MPI."""
from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from functools import lru_cache
from pathlib import Path
from typing import Dict, List, Optional, Sequence, Union

from ._errors import Error, UsageError

Launcher = Union[str, Sequence[str]]

# What launchers tell the processes that they start, by which MPI would take ours for one of them.
_RANK = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "PALS_RANKID", "ALPS_APP_PE",
         "FLUX_TASK_RANK", "JSM_NAMESPACE_RANK", "MV2_COMM_WORLD_RANK", "SLURM_STEP_NUM_TASKS")
_SIZE = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "FLUX_JOB_SIZE", "JSM_NAMESPACE_SIZE",
         "MV2_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS")
_IDENTITY = re.compile(r"OMPI_(?!ALLOW|MCA)|OMPI_MCA_(orte_|ess|pmix$|initial_wdir)|PMIX_(?!MCA)|"
                       r"PMI_|MPI_LOCAL|MV2_COMM_WORLD_|PALS_|ALPS_APP_PE|FLUX_TASK_|JSM_NAMESPACE_|"
                       r"SLURM_(STEP|PROCID|LOCALID|NODEID)")

# The option by which srun starts the ranks of an MPI, and the launchers of that MPI.
_MPI = {"Open MPI": ("--mpi=pmix", ["mpirun.openmpi", "mpirun"]),
        "": ("--mpi=pmi2", ["mpirun.mpich", "mpiexec.hydra", "mpiexec", "mpirun"])}


def find_program(program: Optional[Union[str, os.PathLike[str]]]) -> str:
    """The argument, $DGEMM_OOC, the program beside the module that is installed, or of PATH."""
    for source, named in (("program", program), ("$DGEMM_OOC", os.environ.get("DGEMM_OOC"))):
        if named:
            found = shutil.which(os.fspath(named))
            if not found:
                raise UsageError(f"{source}={os.fspath(named)}: no program is there; "
                                 "name the file dgemm_ooc itself")
            return os.path.abspath(found)
    found = _beside(Path(__file__)) or shutil.which("dgemm_ooc")
    if not found:
        raise Error("there is no dgemm_ooc in PATH: install it, or name it by program= or in "
                    "$DGEMM_OOC")
    return os.path.abspath(found)


def _beside(module: Path) -> Optional[str]:
    """The program in the bin of the prefix whose lib/python... has the module."""
    for folder in module.parents:
        if folder.parent.name in ("lib", "lib64") and folder.name.startswith("python"):
            return shutil.which(str(folder.parent.parent / "bin" / "dgemm_ooc"))
    return None


def cannot_start(word: str, reason: OSError) -> UsageError:
    return UsageError(f"{word} cannot be started ({reason.strerror}): name another by program= or "
                      "launcher=, or leave these out")


@lru_cache(maxsize=None)
def mpi_of(program: str) -> str:
    """A name in _MPI: the MPI that the program was built with."""
    try:
        said = subprocess.run([program, "--version"], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True).stdout
    except OSError as reason:
        raise cannot_start(program, reason) from None
    return next(name for name in _MPI if name in said)


def is_under_launcher() -> bool:
    """Whether this Python is one of several that a launcher has started."""
    sizes = [os.environ[name] for name in _SIZE if os.environ.get(name)]
    return "1" not in sizes if sizes else any(os.environ.get(name) for name in _RANK)


def launch(launcher: Launcher, ranks: Optional[int], program: str) -> List[str]:
    """The words before the program; none: it is started alone."""
    count = [] if ranks is None else ["-n", str(ranks)]
    if launcher == "none":
        if ranks not in (None, 1):
            raise UsageError(f"ranks={ranks} needs a launcher; leave out launcher='none'")
        return []
    if launcher != "auto":
        return [*(shlex.split(launcher) if isinstance(launcher, str) else launcher), *count]
    if is_under_launcher():
        raise UsageError("a launcher has started this Python several times, and each would start a "
                         "run of its own: start one Python without a launcher, or give "
                         "launcher='none' if that is what you want")
    if ranks in (None, 1):
        return []
    option, names = _MPI[mpi_of(program)]
    if "SLURM_JOB_ID" in os.environ and "SLURM_STEP_ID" not in os.environ and shutil.which("srun"):
        return ["srun", option, "--kill-on-bad-exit=1", *count]
    for name in names:
        if shutil.which(name):
            return [name, *count]
    raise Error(f"there is no {names[-1]} in PATH, which starts {ranks} ranks: "
                "add its folder to PATH, or give launcher=")


def is_local(launcher: Launcher, words: Sequence[str]) -> bool:
    """Whether all ranks surely run on this computer, and see its temporary folders."""
    return not words or launcher == "auto" and words[0] != "srun"


def environment() -> Dict[str, str]:
    """This process's, without what a launcher has told it about its place in another run."""
    if not any(os.environ.get(name) for name in _RANK):
        return dict(os.environ)
    return {name: value for name, value in os.environ.items() if not _IDENTITY.match(name)}
