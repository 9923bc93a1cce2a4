"""Runs the program as a process of its own, and follows what it says until it ends."""
from __future__ import annotations

import logging
import os
import re
import selectors
import signal
import subprocess
from collections import deque
from typing import Callable, Deque, Dict, List, NamedTuple, Optional, Sequence

from ._errors import STOPPED
from ._program import cannot_start
from ._progress import Silent

log = logging.getLogger("dgemm_ooc")
log.addHandler(logging.NullHandler())

_PROGRESS = re.compile(r"\[[\d:]+\] (.+?)(?: ([\d.]+)%(?:  eta ([\d:]+|\?))?|  for )")
_END = re.compile(rb"\r|\n|\x1b\[K")
_PREFIX = "dgemm_ooc: "
_KEPT = 100  # lines of standard error, of which an exception is made
_ATTEMPTS, _GRACE = 3, 3.0  # to end it by a request, and seconds after each


class Ended(NamedTuple):
    status: int  # negative: the number of a signal
    said: str  # on standard output
    complaints: str  # on standard error: what the program said, or else its launcher


class Lines:
    """Cuts a stream into lines, and hands them on."""

    def __init__(self, take: Callable[[str], None]) -> None:
        self._take = take
        self._rest = b""

    def feed(self, data: bytes) -> None:
        *lines, self._rest = _END.split(self._rest + data)
        for line in lines:
            self._take(line.decode(errors="replace"))

    def end(self) -> None:
        self.feed(b"\n")


class Listener:
    """Logs what a run says, shows its progress, and keeps what its result is made of."""

    def __init__(self, shown: Silent, plain: Callable[[str], str]) -> None:
        self._shown = shown
        self._plain = plain
        self.said: List[str] = []
        self._complaints: Deque[str] = deque(maxlen=_KEPT)

    def hide(self) -> None:
        """Show no more progress."""
        self._shown = Silent()

    def output(self, line: str) -> None:
        line = self._plain(line)
        self.said.append(line)
        if line:
            log.info("%s", line)

    def error(self, line: str) -> None:
        now = _PROGRESS.match(line)
        if now:
            if now[2]:
                self._shown.update(now[1], float(now[2]) / 100, _seconds(now[3]))
            # Where nobody follows it is a line a minute.
            log.log(logging.DEBUG if self._shown.live else logging.INFO, "%s", line)
        elif line.strip("-"):  # launchers draw lines
            line = self._plain(line)
            log.warning("%s", line[len(_PREFIX):] if line.startswith(_PREFIX) else line)
            self._complaints.append(line)

    def complaints(self) -> str:
        own = [line[len(_PREFIX):] for line in self._complaints if line.startswith(_PREFIX)]
        return "\n".join(own or self._complaints)


def _seconds(text: Optional[str]) -> Optional[float]:
    """Of 1:02:03, or None."""
    if not text or text == "?":
        return None
    seconds = 0
    for part in text.split(":"):
        seconds = 60 * seconds + int(part)
    return float(seconds)


def _pump(process: subprocess.Popen[bytes], listener: Listener) -> None:
    """Until the process ends, or its output does; what it has started may keep that open."""
    with selectors.DefaultSelector() as selector:
        for stream, take in ((process.stdout, listener.output), (process.stderr, listener.error)):
            assert stream is not None
            os.set_blocking(stream.fileno(), False)
            selector.register(stream, selectors.EVENT_READ, Lines(take))
        while selector.get_map():
            ended = process.poll() is not None
            ready = selector.select(0 if ended else 0.2)
            for key, _ in ready:
                data = os.read(key.fd, 1 << 16)
                key.data.feed(data)
                if not data:
                    selector.unregister(key.fileobj)
                    key.data.end()
            if ended and not ready:
                for key in list(selector.get_map().values()):
                    selector.unregister(key.fileobj)
                    key.data.end()


def _end(process: subprocess.Popen[bytes]) -> None:
    """At once, with all that it has started.  The program counts what comes seconds later."""
    try:
        for _ in range(_ATTEMPTS):
            process.terminate()
            try:
                process.wait(_GRACE)
                return
            except subprocess.TimeoutExpired:
                pass
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def run(command: Sequence[str], environment: Dict[str, str], listener: Listener,
        stop: signal.Signals) -> Ended:
    """Start the program and wait.  Ctrl-C sends it `stop`, so that it saves; a second one ends it.

    It has a session of its own, so that Ctrl-C on a terminal does not reach it directly.
    """
    try:
        process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   start_new_session=True)
    except OSError as reason:
        raise cannot_start(command[0], reason) from None
    with process:
        cause = _follow(process, listener, stop)
    ended = Ended(process.returncode, "\n".join(listener.said), listener.complaints())
    if cause and ended.status == -stop:
        ended = Ended(STOPPED, "", "stopped before it began")
    if cause and (ended.status != STOPPED or not isinstance(cause, KeyboardInterrupt)):
        raise cause
    del cause  # whose traceback refers to this: temporary files go when nobody has the exception
    return ended


def _follow(process: subprocess.Popen[bytes], listener: Listener,
            stop: signal.Signals) -> Optional[BaseException]:
    """Returns what has interrupted the run, after it has saved."""
    try:
        _pump(process, listener)
        process.wait()
        return None
    except BaseException as reason:  # Ctrl-C, or what a callback or a handler of the log raises
        try:
            listener.hide()
            process.send_signal(stop)
            _pump(process, listener)
            process.wait()
        except BaseException:
            _end(process)
            raise
        return reason
