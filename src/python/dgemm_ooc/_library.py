"""Runs a product in this process, on the ranks of an MPI communicator."""
from __future__ import annotations

import ctypes
import os
from functools import lru_cache
from pathlib import Path
from typing import Any, List, Optional, Protocol, Sequence

from ._errors import Error
from ._process import Ended, Listener
from ._progress import Silent

_NAME = "libdgemm_ooc.so.0"
_INFO = 1  # the level of what the program would print
_MESSAGE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p)
_PROGRESS = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_double,
                             ctypes.c_double)


class Comm(Protocol):
    """A communicator of mpi4py."""

    def py2f(self) -> int: ...

    def bcast(self, obj: Any, root: int = 0) -> Any: ...

    def allgather(self, sendobj: Any) -> List[Any]: ...


@lru_cache(maxsize=None)
def load(program: str) -> ctypes.CDLL:
    """The library beside the program, or where the system looks for libraries."""
    folder = Path(program).resolve().parent
    for place in (folder / _NAME, folder.parent / "lib" / _NAME, Path(_NAME)):
        try:
            library = ctypes.CDLL(str(place))
        except OSError:
            continue
        library.dgemm_ooc_error.restype = library.dgemm_ooc_report.restype = ctypes.c_char_p
        return library
    raise Error(f"there is no {_NAME} beside {program}, in ../lib or in LD_LIBRARY_PATH: build or "
                "install it, or leave comm= out")


def _load_on_all(program: str, comm: Comm) -> ctypes.CDLL:
    """Collective.  None of the ranks goes on alone."""
    library, mine = None, None
    try:
        library = load(program)
    except Error as reason:
        mine = reason
    reasons = [reason for reason in comm.allgather(mine) if reason]
    if reasons or not library:
        raise reasons[0]
    return library


class _Product:
    """A handle, and the functions that it calls, which must live as long."""

    def __init__(self, library: ctypes.CDLL, comm: Comm, listener: Listener,
                 shown: Silent) -> None:
        self._library, self._handle = library, ctypes.c_void_p()
        self._listener, self._shown = listener, shown
        self.raised: Optional[BaseException] = None
        self._message, self._progress = _MESSAGE(self._say), _PROGRESS(self._tell)
        self.status: int = library.dgemm_ooc_create(ctypes.byref(self._handle),
                                                    ctypes.byref(ctypes.c_int(comm.py2f())))

    def _say(self, user: Any, level: int, line: bytes) -> None:
        text = line.decode(errors="replace")
        try:
            (self._listener.output if level == _INFO else self._listener.error)(text)
        except BaseException as reason:  # of a handler of the log; nothing may pass through C
            self.raised = reason
            self._library.dgemm_ooc_stop(self._handle)

    def _tell(self, user: Any, phase: bytes, share: float, left: float) -> int:
        try:
            if share >= 0:
                self._shown.update(phase.decode(), share, left if left >= 0 else None)
        except BaseException as reason:  # of a function of the caller's, which stops the run
            self.raised = reason
        return self.raised is not None

    def run(self, words: Sequence[str]) -> None:
        encoded = [os.fsencode(word) for word in words]
        array = (ctypes.c_char_p * len(encoded))(*encoded)
        self._library.dgemm_ooc_on_message(self._handle, self._message, None)
        if self._shown.live:
            self._library.dgemm_ooc_on_progress(self._handle, self._progress, None)
        self._library.dgemm_ooc_set_arguments(self._handle, len(encoded), array)
        self.status = self._library.dgemm_ooc_run(self._handle)

    def error(self) -> str:
        return str(self._library.dgemm_ooc_error(self._handle).decode("utf-8", "replace"))

    def report(self) -> str:
        return (self._library.dgemm_ooc_report(self._handle) or b"").decode("utf-8", "surrogateescape")

    def close(self) -> None:
        self._library.dgemm_ooc_destroy(self._handle)


def run(words: List[str], program: str, comm: Comm, listener: Listener, shown: Silent,
        report: Path) -> Ended:
    """Collective.  The report of rank 0 is written on each rank, for its result.

    Ctrl-C is the launcher's.  What a function of the caller's raises stops the run, and is raised
    on its rank when all ranks have saved.
    """
    product = _Product(_load_on_all(program, comm), comm, listener, shown)
    try:
        if not product.status:
            product.run(words)
        report.write_text(comm.bcast(product.report()), "utf-8", "surrogateescape")
        ended = Ended(product.status, "\n".join(listener.said), product.error())
    finally:
        product.close()
    if product.raised:
        raise product.raised
    return ended
