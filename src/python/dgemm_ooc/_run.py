"""From a call to the command line, and from what that leaves to a Result or an exception."""
from __future__ import annotations

import difflib
import functools
import inspect
import json
import numbers
import os
import signal
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import (TYPE_CHECKING, Any, Callable, Dict, Iterable, List, NoReturn, Optional,
                    Sequence, Tuple, TypedDict, Union)

from . import _library, _operands, _process, _program
from ._errors import NotCheckedWarning, Stopped, UsageError, error_of, type_error
from ._operands import Matrix, Scratch
from ._progress import Progress, Silent, display
from ._result import Plan, Result, is_npy

if TYPE_CHECKING:
    from typing_extensions import ParamSpec

    P = ParamSpec("P")

_NOT_CHECKED = 6  # the exit status of a C that is complete all the same
# Options that the package gives itself, and what has their values.
_OURS = {"--report": "Result.report", "--html": "Result", "--progress": "progress=",
         "--output": "out=", "-o": "out=", "-n": "plan()", "--dry-run": "plan()",
         "--check-only": "check()"}

Output = Union[None, str, "os.PathLike[str]"]


class Run(TypedDict, total=False):
    """How a call is run: help(dgemm_ooc) describes each keyword."""

    ranks: Optional[int]
    launcher: _program.Launcher
    comm: Optional[_library.Comm]
    gpu_memory: Union[None, int, str]
    host_memory: Union[None, int, str]
    algo: Optional[str]
    verify: Optional[str]
    checkpoint: Union[None, float, str]
    max_time: Union[None, float, str]
    overwrite: bool
    progress: Progress
    program: Union[None, str, os.PathLike[str]]
    options: Sequence[str]


_RUN = tuple(Run.__annotations__)
_VALUES = ("gpu_memory", "host_memory", "algo", "verify", "checkpoint", "max_time")


@dataclass(frozen=True)
class Request:
    """A call: its matrices, the words that say what is computed of them, and how it is run.

    `size` gives the extents of C.  It is asked only where all matrices are arrays.
    """

    matrices: Tuple[Matrix, ...]
    words: List[str]
    out: Output
    run: Run
    size: Callable[[], Tuple[int, int]] = field(default=lambda: (0, 0))


_requests: Dict[Callable[..., Result], Callable[..., Request]] = {}


def product(function: Callable[P, Request]) -> Callable[P, Result]:
    """Makes a function that runs what `function` requests; plan() asks for the request alone."""
    signature = inspect.signature(function)
    known = [name for name, parameter in signature.parameters.items()
             if parameter.kind is parameter.KEYWORD_ONLY or name == "out"] + list(_RUN)

    def request(*args: P.args, **kwargs: P.kwargs) -> Request:
        refuse_unknown(function.__name__, kwargs, known)
        return function(*args, **kwargs)

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> Result:
        return Job(request(*args, **kwargs)).run()

    call.__signature__ = signature.replace(return_annotation="Result")  # type: ignore[attr-defined]
    _requests[call] = request
    return call


def refuse_unknown(function: str, given: Iterable[str], known: Sequence[str] = _RUN) -> None:
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=2, cutoff=0.5)
            hint = f"did you mean {' or '.join(near)}?" if near else f"known are {', '.join(known)}"
            raise TypeError(f"{function}() has no keyword {name}: {hint}")


def request_of(function: Callable[..., Result]) -> Callable[..., Request]:
    """Makes the requests of one of our functions."""
    try:
        return _requests[function]
    except (KeyError, TypeError):
        raise TypeError("plan() takes a function of this package, its operands and its keywords, "
                        "as plan(matmul, a, b)") from None


class Start:
    """How a command is started: what the keywords of a run mean here and now."""

    def __init__(self, run: Run, dry: bool = False) -> None:
        ranks, launcher = _ranks(run.get("ranks")), run.get("launcher", "auto")
        self.comm = run.get("comm")
        self.options = _words_of(run)
        self.program = _program.find_program(run.get("program"))
        if self.comm is not None:
            _check_comm(run)
            launcher = "none"
        self.launcher = [] if dry else _program.launch(launcher, ranks, self.program)
        self.is_local = _program.is_local(launcher, self.launcher)
        self.stop = _stop_signal(self.launcher, self.program)
        self.progress: Progress = False if dry else run.get("progress")
        if dry and ranks is not None:
            self.options += ["--ranks", str(ranks)]


class Job:
    """A request whose operands are in files, and which can be started as often as it takes."""

    def __init__(self, request: Request, dry: bool = False) -> None:
        self._request = request
        self._start = Start(request.run, dry)
        if self._start.comm is not None and any(item.array is not None for item in request.matrices):
            raise UsageError("with comm= operands are files, which all ranks see: write the arrays "
                             "to one first")
        out, first = _output(request), _first_file(request)
        self._scratch = Scratch(_scratch_folder(request, out or first, self._start.is_local))
        try:
            names = _operands.names(request.matrices, self._scratch, fill=not dry,
                                    local=self._start.is_local)
        except BaseException:
            self._scratch.close()
            raise
        if not out and not first:
            out = str(self._scratch.path / "C.h5")
        # Without --output the program puts C beside the file that it is given.
        where = ["--output", out] if out else [first or ""]
        self._words = [*request.words, *_operand_words(names), *where]

    def run(self) -> Result:
        """Multiply, and wait."""
        alone = self._start.comm is None
        ended = self._run(["--html", str(self._scratch.path / "run.html")] if alone else [])
        return self._result(ended, self.run, self._take("run.html"))

    def check(self) -> Result:
        return self._result(self._run(["--check-only"]), self.check)

    def plan(self) -> Plan:
        ended = self._run(["--dry-run"])
        report = self._report()
        self._scratch.close()
        if ended.status:
            raise error_of(ended.status, ended.complaints)
        return Plan(ended.said.rstrip("\n"), report)

    def _run(self, words: List[str]) -> _process.Ended:
        start = self._start
        shown = display(start.progress)
        quiet = "never" if start.progress is False else "auto"
        words = [*self._words, *start.options, *words]
        report = self._scratch.path / "report.json"
        listener = _process.Listener(shown, self._scratch.plain)
        try:
            if start.comm is not None:
                return _library.run(words, start.program, start.comm, listener, shown, report)
            words = [*start.launcher, start.program, *words, "--report", str(report),
                     "--progress", "always" if shown.live else quiet]
            return _process.run(words, _program.environment(), listener, start.stop)
        except BaseException:
            self._scratch.close()
            raise
        finally:
            shown.close()

    def _report(self) -> Dict[str, Any]:
        text = self._take("report.json")
        report = json.loads(text) if text else {}
        assert isinstance(report, dict)
        return report

    def _take(self, name: str) -> str:
        """What the program has written to a temporary file, if it has, which is removed."""
        path = self._scratch.path / name
        try:
            text = path.read_text("utf-8", "surrogateescape")
            path.unlink()
        except FileNotFoundError:
            return ""
        return text

    def _result(self, ended: _process.Ended, act: Callable[[], Result], page: str = "") -> Result:
        report = self._report()
        if ended.status not in (0, _NOT_CHECKED):
            self._fail(ended, report, act)
        if not report:
            self._scratch.close()
            raise UsageError("the program has computed nothing: leave options such as --help out")
        c = report["matrices"]["C"]
        path = c["file"]
        if not is_npy(path):
            path += f":/{c['dataset'].lstrip('/')}"
        if ended.status == _NOT_CHECKED:
            warnings.warn(f"{path} is not checked: {report.get('finding', ended.complaints)}",
                          NotCheckedWarning, stacklevel=4)
        if Path(c["file"]).parent != self._scratch.path:
            self._scratch.close()
        for item in self._request.matrices:
            (self._scratch.path / f"{item.name}.h5").unlink(missing_ok=True)
        return Result(path, report, page, self._scratch)

    def _fail(self, ended: _process.Ended, report: Dict[str, Any],
              act: Callable[[], Result]) -> NoReturn:
        message = self._scratch.plain("\n".join(report.get("errors", []))) or ended.complaints
        error = error_of(ended.status, message)
        if isinstance(error, Stopped):
            error.done = float(report.get("done", 0))
            error._again = functools.partial(self._resume, act)
        else:
            self._scratch.close()
        try:
            raise error
        finally:
            del error  # whose traceback refers to this, too

    def _resume(self, act: Callable[[], Result], run: Run) -> Result:
        """The same once more, with these keywords in the place of those that were given."""
        refuse_unknown("resume", run)
        self._start = Start({**self._request.run, **run})
        return act()


def _check_comm(run: Run) -> None:
    if not hasattr(run["comm"], "py2f"):
        raise type_error("comm", run["comm"], "give a communicator of mpi4py")
    if run.get("ranks") is not None or run.get("launcher", "auto") != "auto":
        raise UsageError("comm= has its ranks: leave ranks= and launcher= out")


def _ranks(ranks: Any) -> Optional[int]:
    if ranks is None:
        return None
    if not isinstance(ranks, numbers.Integral) or isinstance(ranks, bool):
        raise type_error("ranks", ranks, "give the number of ranks")
    if ranks < 1:
        raise UsageError(f"ranks={ranks}: give at least 1, or None for a run without a launcher")
    return int(ranks)


def _words_of(run: Run) -> List[str]:
    """The options of a run, but for those that concern how it is started."""
    words = []
    for name in _VALUES:
        value = run.get(name)
        if value is not None:
            number = isinstance(value, numbers.Real)
            unit = "s" if number and name in ("checkpoint", "max_time") else ""
            value = int(value) if number and not unit else value  # type: ignore[call-overload]
            words += ["--" + name.replace("_", "-"), f"{value}{unit}"]
    if run.get("overwrite"):
        words.append("--force")
    options = run.get("options", ())
    if isinstance(options, str):
        raise type_error("options", options, 'give a list of words, as ["--io", "direct"]')
    for word in options:
        name = str(word).partition("=")[0]
        if name in _OURS:
            raise UsageError(f"options={word!r}: {_OURS[name]} is there for this")
    return words + [str(word) for word in options]


def _operand_words(names: Dict[str, str]) -> List[str]:
    """Functions of one matrix call it as NumPy does."""
    return [word for name, where in names.items()
            for word in ("--" + (name if name in "bc" else "a"), where)]


def _stop_signal(words: Sequence[str], program: str) -> signal.Signals:
    """What makes a run save and stop, and is passed on by its launcher."""
    hydra = words and words[0] != "srun" and not _program.mpi_of(program)
    return signal.SIGTERM if hydra else signal.SIGUSR2


def _output(request: Request) -> Optional[str]:
    """Where C goes; None: beside the first file, or to a temporary file if there is none."""
    out = request.out
    if isinstance(out, (str, os.PathLike)):
        file, dataset = _operands.split(os.fspath(out))
        return f"{file}:{dataset}" if dataset else file
    if out is not None:
        raise type_error("out", out, 'give "FILE.h5:/path", or None')
    return None


def _first_file(request: Request) -> Optional[str]:
    return next((item.file for item in request.matrices
                 if item.array is None and not _operands.is_temporary(item.file)), None)


def _scratch_folder(request: Request, beside: Optional[str], local: bool) -> str:
    """Where arrays fit, and C if it is beside no file; other computers see it if there are any."""
    if not local:
        return os.path.dirname(_operands.split(beside)[0]) if beside else os.getcwd()
    arrays = [item.array for item in request.matrices if item.array is not None]
    size = sum(array.nbytes for array in arrays if not _operands.in_its_file(array))
    if not beside:
        m, n = request.size()
        size += m * n * (16 if any(array.dtype.kind == "c" for array in arrays) else 8)
    return _operands.folder_for(size)
