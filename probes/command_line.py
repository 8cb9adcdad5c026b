"""The front of every command line: what arguments may be, how faults are said, what the exit status is.

A module's ``main`` hands its parser and its work to `run`. A command line imports this first, for Control-C and for
SIGTERM, by which batch systems and containers end a process: one line, and exit status 130 or 143. While libraries
load, an exception may be swallowed or wrapped by one of them; so the process ends where it stands, until
`raise_on_signals` says that there is work to end in order. From then on either is a `KeyboardInterrupt` that lets go of
the run directory and ends the helpers.

What the user can mend becomes one line on stderr and exit status 2; a bug keeps its traceback. Loads no torch, and
pandas and pyarrow only where there is work: so ``--help`` is quick.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import errno
import math
import os
import signal
import sys
import tempfile
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from probes.errors import UserError, one_line
from probes.paths import require_no_address

LARGEST_SEED = 2**63 - 1
RESUMES = "run the same command again to go on, finished parts are kept"  # said after Control-C
# what a file system refuses; a file that is missing is asked for by name, or is a bug
REFUSED = {errno.EACCES, errno.EPERM, errno.EROFS, errno.EISDIR, errno.ENOTDIR, errno.EEXIST} | {
    *(errno.ENAMETOOLONG, errno.ELOOP, errno.EIO, errno.ENXIO),
}
_PARTICIPLES = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}
_begun = False
received: list[int] = []  # of either, once there is work


def interruption() -> tuple[str, int]:
    """Return "interrupted" or "terminated", by the last signal, and the exit status 128 + number of the signal."""
    number = received[-1] if received else signal.SIGINT
    return _PARTICIPLES[signal.Signals(number)], 128 + number


def handle_signal(number: int, frame: object) -> None:
    """Handle SIGINT or SIGTERM: end the process or, after `raise_on_signals`, raise a `KeyboardInterrupt`."""
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


def raise_on_signals() -> None:
    """Let SIGINT and SIGTERM raise a `KeyboardInterrupt` from now on; before they ended the process."""
    global _begun
    _begun = True


# of ``python -m``; else the command ``triptych``
_main = getattr(sys.modules.get("__main__"), "__spec__", None)
_name = _main.name if _main is not None else os.path.basename(sys.argv[0] if sys.argv else "")
if _name.split(".")[0] in ("probes", "analysis", "triptych", "lab"):
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else it was chosen that it be ignored
        signal.signal(signal.SIGINT, handle_signal)
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, handle_signal)


class DefaultsHelp(argparse.HelpFormatter):
    """An `argparse` help formatter that adds the default of an option where its help does not state it.

    A text with lines that are indented, such as examples, is shown as it is written; any other is wrapped.
    """

    def _get_help_string(self, action: argparse.Action) -> str:
        """Return an argument's help, with its default added unless that is empty or stated in it."""
        text, value = action.help or "", action.default
        if not action.option_strings or "default" in text:
            return text
        if value is None or value is False or value in ([], argparse.SUPPRESS):
            return text
        default = " ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
        return f"{text} (default: {default.replace('%', '%%')})"

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        """Return a text of the help wrapped to the width, or unchanged if it has indented lines."""
        kind = argparse.RawDescriptionHelpFormatter if "\n " in text else argparse.HelpFormatter
        return kind._fill_text(self, text, width, indent)


class Parser(argparse.ArgumentParser):
    """An `argparse.ArgumentParser` whose errors are `UserError`, with the arguments that commands have in common.

    It takes no option by half its name, names the option that was likely meant, and its help says the defaults.
    `examples` are full command lines, each with what it does: the end of the help.
    """

    def __init__(self, *args, examples: Mapping[str, str] | None = None, **options) -> None:
        self.examples = dict(examples or {})
        if self.examples:
            title = "example:" if len(self.examples) == 1 else "examples:"
            lines = [f"  {line}\n      {what}" for line, what in self.examples.items()]
            before = (options.get("epilog") or "").splitlines()
            before = [*(textwrap.wrap(before[0], 80) if len(before) == 1 else before), ""] if before else []
            options["epilog"] = "\n".join([*before, title, *lines])
        super().__init__(*args, **{"allow_abbrev": False, "formatter_class": DefaultsHelp} | options)

    def add_run(self, help: str, name: str = "run", **options: Any) -> None:
        """Add a positional argument for the path of a run directory; `options` as of `add_argument`."""
        self.add_argument(name, type=run_directory, help=help, **options)

    def add_out(self, default: str | None = None, help: str = "folder to write to", **options: Any) -> None:
        """Add ``--out``, a local path, by default None; nothing is checked; `options` as of `add_argument`."""
        path = None if default is None else Path(default)
        self.add_argument("--out", type=Path, default=path, metavar="PATH", help=help, **options)

    def add_seed(self, purpose: str) -> None:
        """Add ``--seed``, the random seed (default 0) of something that the help names as `purpose`."""
        self.add_argument("--seed", type=seed, default=0, metavar="N", help=f"seed of {purpose}")

    def add_inference(self, *, permutations: bool = False) -> None:
        """Add ``--level`` and ``--resamples`` of confidence intervals and, if asked, ``--permutations`` of tests."""
        self.add_argument(
            "--level", type=probability, default=0.95, metavar="P", help="confidence level of the intervals"
        )
        self.add_argument(
            "--resamples", type=count, default=2000, metavar="N", help="resamples of the bootstrap"
        )
        if permutations:
            self.add_argument(
                "--permutations", type=count, default=10000, metavar="N", help="sign flips of the tests"
            )

    def parse_known_args(
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Return the parsed arguments and an empty list; an argument that is not declared raises a `UserError`."""
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown:
            flag = next((one for one in unknown if one.startswith("-")), "").partition("=")[0]
            close = difflib.get_close_matches(flag, self._option_string_actions, 1)
            meant = f": did you mean {close[0]}?" if close else ""
            self.error(f"unrecognized arguments: {' '.join(unknown)}{meant}")
        return parsed, unknown

    def error(self, message: str) -> NoReturn:
        """Raise a `UserError` with a message on the command line's arguments."""
        raise UserError(f"command line: {message}{'' if message.endswith('?') else ':'} see --help")


def run(
    work: Callable[[argparse.Namespace], int | None],
    parser: argparse.ArgumentParser,
    argv: Sequence[str] | None = None,
    *,
    interrupted: str = "nothing is lost but this command's work",
    raise_at_once: bool = True,
) -> int:
    """Parse a command line, call `work` with its arguments, and return the exit status.

    That is what `work` returns, 0 for None; 2 for what the user can mend, named in one line of at most 400 characters
    on stderr; 130 when interrupted, 143 when terminated, after which the text `interrupted` is printed. A reader of the
    output that has gone, as with ``| head``, is no fault. `raise_at_once` is False where `work` calls
    `raise_on_signals` itself, once there is something to go on with.
    """
    if raise_at_once:
        raise_on_signals()
    try:
        status = work(parser.parse_args(argv)) or 0
        sys.stdout.flush()
    except UserError as error:
        return _print_error(error)
    except KeyboardInterrupt:
        what, status = interruption()
        print(f"\n{what}: {interrupted}", file=sys.stderr)
        return status
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        from probes.runs.parts import FULL, disk_error

        name = os.fsdecode(error.filename) if isinstance(error.filename, (str, bytes)) else ""
        if error.errno in FULL:
            return _print_error(disk_error(Path(name or "."), error))
        if error.errno not in REFUSED or not name:
            raise
        remedy = "check the path and its permissions"
        return _print_error(UserError(f"{name}: refused by the file system ({error.strerror}): {remedy}"))
    except ValueError as error:
        from hooks.errors import HookError

        if not isinstance(error, HookError):
            raise
        return _print_error(error)
    return status


def _print_error(error: Exception) -> int:
    """Print an error in one line on stderr, and return the exit status 2."""
    print(one_line(str(error)), file=sys.stderr)
    return 2


def _argument_error(expected: str, text: str) -> argparse.ArgumentTypeError:
    """Return the error for an argument's text that is not what was expected."""
    shown = text if len(text) <= 60 else text[:57] + "..."
    return argparse.ArgumentTypeError(f"expected {expected}, got {shown!r}")


def whole_number(least: int = 0, most: int = LARGEST_SEED) -> Callable[[str], int]:
    """Return an `argparse` type: a function that turns text into a whole number from `least` to `most`."""
    described = f"of at least {least}" if most == LARGEST_SEED else f"from {least} to {most:,}"

    def convert(text: str) -> int:
        """Return the number in a text; an error of `argparse` if it is none in the range."""
        with contextlib.suppress(ValueError):
            if least <= int(text) <= most:
                return int(text)
        raise _argument_error(f"a whole number {described}", text)

    return convert


def number(least: float = -1e100, most: float = 1e100, *, closed: bool = True) -> Callable[[str], float]:
    """Return an `argparse` type: text to a finite number in the interval from `least` to `most`, `closed` or open."""
    if most == 1e100:
        described = (
            "a number" if least == -1e100 else f"a number {'of at least' if closed else 'above'} {least:g}"
        )
    else:
        described = (
            f"a number {'from' if closed else 'between'} {least:g} {'to' if closed else 'and'} {most:g}"
        )

    def convert(text: str) -> float:
        """Return the number in a text; an error of `argparse` if it is none in the range."""
        with contextlib.suppress(ValueError):
            value = float(text)
            if math.isfinite(value) and (least <= value <= most if closed else least < value < most):
                return value
        raise _argument_error(described, text)

    return convert


seed = whole_number(0)
count = whole_number(1, 1_000_000)
probability = number(0, 1, closed=False)
threads = whole_number(1, 1024)


def run_directory(text: str) -> Path:
    """Return an argument as the path of a run, which need not exist; UserError for an address such as s3://…."""
    require_no_address(text)
    return Path(text)


def writable(path: Path, *, folder: bool = False) -> Path:
    """Return a path after trying that a file (if `folder`, files in it) can be written there; UserError if not.

    Nothing is left behind by the trial, and what stands at the path is not touched.
    """
    from probes.runs.parts import disk_error

    require_no_address(path, "--out")
    home = path if folder else path.parent
    try:
        if not folder and path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not folder and path.exists() and not path.is_file():  # a device would be replaced by a file
            raise FileExistsError(errno.EEXIST, "no regular file")
        with tempfile.TemporaryFile(dir=next(one for one in (home, *home.parents) if one.exists())):
            return path
    except OSError as error:
        raise disk_error(path, error) from None
    except ValueError as error:  # a NUL or a surrogate
        raise UserError(
            f"{str(path)!r}: expected a path, got one with {error}: choose another --out"
        ) from None
