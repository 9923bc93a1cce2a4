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

from . import _operands, _process, _program
from ._errors import NotCheckedWarning, Stopped, UsageError, error_of, type_error
from ._operands import Matrix, Scratch
from ._progress import Progress, Silent, display
from ._result import Plan, Result

if TYPE_CHECKING:
    from typing_extensions import ParamSpec

    P = ParamSpec("P")

_STOPPED, _NOT_CHECKED = 75, 6
# Options that the package gives itself, and what has their values.
_OURS = {"--report": "Result.report", "--html": "Result", "--progress": "progress=",
         "--output": "out=", "-o": "out=", "-n": "plan()", "--dry-run": "plan()",
         "--check-only": "check()"}

Output = Union[None, str, "os.PathLike[str]"]


class Run(TypedDict, total=False):
    """How a call is run; each keyword is an option of the program, unless README.md says more."""

    ranks: Optional[int]
    launcher: _program.Launcher
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


class Job:
    """A command line that is ready to be started, as often as it takes."""

    def __init__(self, request: Request, dry: bool = False) -> None:
        run = request.run
        self._progress = run.get("progress")
        ranks = _ranks(run.get("ranks"))
        options = _words_of(run)
        self._program = _program.find_program(run.get("program"))
        launcher = run.get("launcher", "auto")
        words = [] if dry else _program.launch(launcher, ranks, self._program)
        self._stop = _stop_signal(words, self._program)
        out = _output(request)
        local = dry or _program.is_local(launcher, words)
        self.scratch = Scratch(_scratch_folder(request, out, local))
        try:
            names = _operands.names(request.matrices, self.scratch, fill=not dry)
        except BaseException:
            self.scratch.close()
            raise
        first = _first_file(request)
        if out or not first:
            where = ["--output", out or str(self.scratch.path / "C.h5")]
        else:
            where = [first]  # beside it is where the program puts C
        self._matrices = request.matrices  # whose temporary files have to last
        if dry and ranks is not None:
            options += ["--ranks", str(ranks)]
        self._command = [*words, self._program, *request.words, *_operand_words(names),
                         *where, *options]

    def run(self) -> Result:
        """Multiply, and wait."""
        ended = self._start(["--html", str(self.scratch.path / "run.html")])
        page = self._take("run.html")
        return self._result(ended, page)

    def plan(self) -> Plan:
        ended = self._start(["--dry-run"])
        report = self._report()
        self.scratch.close()
        if ended.status:
            raise error_of(ended.status, ended.complaints)
        return Plan(ended.said.rstrip("\n"), report)

    def check(self) -> Result:
        return self._result(self._start(["--check-only"]), "")

    def _start(self, words: List[str]) -> _process.Ended:
        shown = display(self._progress) if "--dry-run" not in words else Silent()
        silent = "never" if self._progress is False else "auto"
        progress = ["--progress", "always" if shown.live else silent]
        report = ["--report", str(self.scratch.path / "report.json")]
        listener = _process.Listener(shown, self.scratch.plain)
        try:
            return _process.run([*self._command, *words, *progress, *report],
                                _program.environment(), listener, self._stop)
        except BaseException:
            self.scratch.close()
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
        path = self.scratch.path / name
        try:
            text = path.read_text()
            path.unlink()
        except FileNotFoundError:
            return ""
        return text

    def _result(self, ended: _process.Ended, page: str) -> Result:
        report = self._report()
        if ended.status not in (0, _NOT_CHECKED):
            self._fail(ended, report)
        c = report["matrices"]["C"]
        path = f"{c['file']}:/{c['dataset'].lstrip('/')}"
        result = Result(path, report, page, self.scratch)
        if ended.status == _NOT_CHECKED:
            warnings.warn(f"{path} is not checked: {report.get('finding', ended.complaints)}",
                          NotCheckedWarning, stacklevel=4)
        for name in "abcmx":
            (self.scratch.path / f"{name}.h5").unlink(missing_ok=True)
        if Path(c["file"]).parent != self.scratch.path:
            self.scratch.close()
        return result

    def _fail(self, ended: _process.Ended, report: Dict[str, Any]) -> NoReturn:
        message = self.scratch.plain("\n".join(report.get("errors", []))) or ended.complaints
        error = error_of(ended.status, message)
        if isinstance(error, Stopped):
            error.done = float(report.get("done", 0))
            error._again = self.run
        else:
            self.scratch.close()
        raise error


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
    return next((item.file for item in request.matrices if item.array is None), None)


def _scratch_folder(request: Request, out: Optional[str], local: bool) -> str:
    """Where arrays and a temporary C fit; where all computers of a run see them, if these are more."""
    beside = out or _first_file(request)
    if not local:
        return os.path.dirname(_operands.split(beside)[0]) if beside else os.getcwd()
    arrays = [item.array for item in request.matrices if item.array is not None]
    size = float(sum(array.nbytes for array in arrays))
    if not beside:
        m, n = request.size()
        size += 16.0 * m * n
    return _operands.folder_for(size)
