"""Control-C, and SIGTERM, by which batch systems and containers end a process: one line, and exit status 130 or 143.

Imported first by a command line. While libraries load, an exception may be swallowed or wrapped by one of them; so the
process ends where it stands, until `raise_from_here` says that there is work to end in order. From then on either is a
`KeyboardInterrupt` that lets go of the run directory and ends the helpers.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from typing import Any, NoReturn

_PARTICIPLES = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}
_begun = False
received: list[int] = []  # of either, once there is work


def interruption() -> tuple[str, int]:
    """Return ``interrupted`` or ``terminated``, and the exit status for it: 128 and the number of the signal."""
    number = received[-1] if received else signal.SIGINT
    return _PARTICIPLES[signal.Signals(number)], 128 + number


def handle_signal(number: int, frame: Any) -> None:
    """Handle SIGINT or SIGTERM: end the process or, after `raise_from_here`, raise a `KeyboardInterrupt`."""
    if _begun:
        received.append(number)
        raise KeyboardInterrupt
    word = _PARTICIPLES[signal.Signals(number)]
    os.write(2, f"{word}: nothing was begun, run the same command again\n".encode())
    os._exit(128 + number)


def exit_at_once(status: int) -> NoReturn:
    """Flush the output and end this process without Python's cleanup, which takes 2 s once torch is loaded."""
    with contextlib.suppress(OSError, ValueError):  # a stream that is closed
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status)


def raise_from_here() -> None:
    """From now on turn SIGINT and SIGTERM into a `KeyboardInterrupt`, where they ended the process before."""
    global _begun
    _begun = True


_main = getattr(
    sys.modules.get("__main__"), "__spec__", None
)  # of ``python -m``; else the command ``triptych``
_name = _main.name if _main is not None else os.path.basename(sys.argv[0] if sys.argv else "")
IS_COMMAND = _name.split(".")[0] in ("probes", "analysis", "triptych", "lab")
if IS_COMMAND:
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else it was chosen that it be ignored
        signal.signal(signal.SIGINT, handle_signal)
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, handle_signal)
