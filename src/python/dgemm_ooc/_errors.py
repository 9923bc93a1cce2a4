"""What a run raises: one class for each exit status of the program."""
from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any, Callable, Optional

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._result import Result
    from ._run import Run


class Error(RuntimeError):
    """A run has failed.  The text is what the program says, with what helps.

    `status` is the exit status of the program.  It is None if no program was started.
    """

    status: Optional[int] = None


class UsageError(Error, ValueError):
    """An argument has a value that cannot be (exit status 2)."""


class InputError(Error, OSError):
    """A file, or what it holds, cannot be used (exit status 3)."""


class ResourceError(Error, MemoryError):
    """Memory, disk or GPUs do not suffice (exit status 4)."""


class CheckError(Error, ArithmeticError):
    """The product, or what is in its file, is wrong (exit status 5)."""


class Stopped(Error):
    """The run has saved its state and stopped (exit status 75).

    `done` is the part of all multiplications that is done and saved, from 0 to 1.  Operands that
    are arrays were written to temporary files.  These are kept as long as this exception.
    """

    done: float = 0.0
    _again: Callable[[Run], Result]

    def resume(self, **run: Unpack[Run]) -> Result:
        """Go on where the run has stopped.  Blocks like the call that was stopped.

        Keywords replace those of the call: `resume(max_time=None, ranks=4)`.
        """
        return self._again(run)


class NotCheckedWarning(UserWarning):
    """C is complete, but even an error of the size of a typical element may have been missed."""


STOPPED = 75
_CLASSES = {2: UsageError, 3: InputError, 4: ResourceError, 5: CheckError, STOPPED: Stopped}


def error_of(status: int, message: str) -> Error:
    """The exception for an exit status; negative: a signal has ended the program."""
    if not message:
        message = (f"the program was ended by {signal.Signals(-status).name}" if status < 0 else
                   f"the program ended with status {status}, and said nothing")
    error = _CLASSES.get(status, Error)(message)
    error.status = status
    return error


def type_error(name: str, value: Any, remedy: str) -> TypeError:
    kind = type(value)
    return TypeError(f"{name} is a {kind.__module__}.{kind.__qualname__}: {remedy}"
                     .replace("builtins.", ""))
