"""Control-C, and SIGTERM, by which batch systems and containers end a process: one line, and exit status 130 or 143.

Imported first by a command line. While libraries load, an exception may be swallowed or wrapped by one of them; so the
process ends where it stands, until `raise_from_here` says that there is work to end in order. From then on either is an
exception that lets go of the run directory and ends the helpers.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from typing import Any, NoReturn


class Terminated(KeyboardInterrupt):
    """SIGTERM was received: as after Control-C, the process ends in order."""


_terminated: list[int] = []  # signals that were received
_PARTICIPLES = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}


def describe(error: KeyboardInterrupt) -> tuple[str, int]:
    """Return what happened, in a word, and the exit status that says so: 128 and the number of the signal."""
    number = signal.SIGTERM if isinstance(error, Terminated) or _terminated else signal.SIGINT
    return _PARTICIPLES[number], 128 + number


def terminate(number: int, frame: Any) -> None:
    """Handle SIGTERM where there is work to end in order."""
    _terminated.append(number)  # of what is raised while Ray waits a plain KeyboardInterrupt comes out
    raise Terminated


def _end(number: int, frame: Any) -> None:
    os.write(
        2, f"{_PARTICIPLES[signal.Signals(number)]}: nothing was begun, run the same command again\n".encode()
    )
    os._exit(128 + number)


def leave(status: int) -> NoReturn:
    """End this process at once, without freeing one by one what torch brought (2 s)."""
    with contextlib.suppress(OSError, ValueError):  # a stream that is closed
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status)


_BEGUN = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: terminate}


def raise_from_here() -> None:
    """From here on Control-C is a `KeyboardInterrupt` again, and SIGTERM `Terminated`, which is one."""
    for number, handler in _BEGUN.items():
        if signal.getsignal(number) is _end:
            signal.signal(number, handler)


def _is_command_line() -> bool:
    """Return whether this process is ``python -m`` with a module of the project, or the command ``triptych``."""
    module = getattr(sys.modules.get("__main__"), "__spec__", None)
    name = module.name if module is not None else os.path.basename(sys.argv[0] if sys.argv else "")
    return name.split(".")[0] in ("probes", "analysis", "triptych", "lab")


if _is_command_line():
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else it was chosen that it be ignored
        signal.signal(signal.SIGINT, _end)
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _end)
