"""Control-C before there is anything to go on with: one line and exit status 130, whatever is being imported.

Imported first by a command line. While libraries load, an exception may be swallowed or wrapped by one of them; so the
process ends where it stands, until `begun` says that there is work to end in order.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any


def _end(number: int, frame: Any) -> None:
    os.write(2, b"interrupted: nothing was begun, run the same command again\n")
    os._exit(130)


def begun() -> None:
    """From here on Control-C is a `KeyboardInterrupt` again."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


# only where this process is a command line of the project, and nobody chose that it ignores Control-C
_main = getattr(sys.modules.get("__main__"), "__spec__", None)
_ours = _main is not None and _main.name.split(".")[0] in ("probes", "analysis")
if _ours and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, _end)
