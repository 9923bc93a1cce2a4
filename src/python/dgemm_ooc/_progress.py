"""How far a run is: a bar on a terminal or in a notebook, or calls of a function."""
from __future__ import annotations

import importlib
import sys
import time
from typing import Any, Callable, Optional, Union

Callback = Callable[[float, Optional[float]], object]
Progress = Union[None, bool, Callback]

_PATIENCE = 1.0  # seconds until a bar appears
_WIDTH = 25  # of the bar, so that the line fits a terminal of 80 columns
# What takes most of the time, of a run and of a check: only these are told to a function.
_MAIN = ("product", "full check of the files")


class Silent:
    """Shows nothing.  `live`: whether the program has to tell its progress often."""

    live = False

    def update(self, phase: str, fraction: float, left: Optional[float]) -> None:
        """The run is in this phase; a fraction of it is done, and so many seconds are left."""

    def close(self) -> None:
        """The run has ended."""


class Call(Silent):
    live = True

    def __init__(self, function: Callback) -> None:
        self._function = function

    def update(self, phase: str, fraction: float, left: Optional[float]) -> None:
        if phase in _MAIN:
            self._function(fraction, left)


class Bar(Silent):
    """One line on standard error."""

    live = True

    def __init__(self) -> None:
        self._begin = time.monotonic()
        self._drawn = False

    def update(self, phase: str, fraction: float, left: Optional[float]) -> None:
        if time.monotonic() - self._begin >= _PATIENCE:
            self.draw(phase, fraction, "?" if left is None else f"{left:.0f} s")

    def draw(self, phase: str, fraction: float, left: str) -> None:
        full = "#" * round(_WIDTH * fraction)
        sys.stderr.write(f"\r{phase} {fraction:4.0%} |{full:<{_WIDTH}}| {left} left\x1b[K")
        sys.stderr.flush()
        self._drawn = True

    def close(self) -> None:
        if self._drawn:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


class Tqdm(Bar):
    """The bar of tqdm, which knows notebooks."""

    def __init__(self, make: Any) -> None:
        super().__init__()
        self._make = make
        self._bar: Any = None

    def draw(self, phase: str, fraction: float, left: str) -> None:
        if self._bar is None:
            form = "{desc}: {percentage:3.0f}%|{bar}| {elapsed}{postfix}"
            self._bar = self._make(total=1.0, leave=False, bar_format=form)
        self._bar.set_description_str(phase, refresh=False)
        self._bar.set_postfix_str(f"{left} left", refresh=False)
        self._bar.n = fraction
        self._bar.refresh()

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()


def _is_seen() -> bool:
    """Whether somebody looks at a bar: on a terminal, or in a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(shell, "kernel") or (sys.stderr is not None and sys.stderr.isatty())


def display(progress: Progress) -> Silent:
    if callable(progress):
        return Call(progress)
    if progress is False or progress is None and not _is_seen():
        return Silent()
    try:
        return Tqdm(importlib.import_module("tqdm.auto").tqdm)
    except ImportError:
        return Bar()
