"""Processes forked from one that has loaded the libraries: as ``python -m MODULE``, without the seconds of a start.

The module is run as the main one, with its arguments, streams, signals and exit status. What is not proven so is that
the libraries load; tests that start ``sys.executable`` do that.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from subprocess import TimeoutExpired

ROOT = Path(__file__).parents[1]
PATIENCE = 300  # seconds until the libraries are loaded, also on a machine that is busy otherwise
LIBRARIES = [  # what the stages load, most of the time of a start
    "analysis.observe.stage",
    "analysis.report.page",
    "analysis.tables.stage",
    "diffusers.pipelines.stable_diffusion.pipeline_stable_diffusion",
    "probes.stages.generate",
    "tests.forked",
]


class Forked:
    """A process in a session of its own, with what the tests use of `subprocess.Popen`.

    Parameters
    ----------
    module : str
        Run as the main one.
    *arguments
        Of its command line.
    cwd : Path
        The directory it begins in.
    prepare : callable, optional
        Of a module; called in the new process before the module is run.
    """

    stdin = stdout = stderr = None

    def __init__(
        self, module: str, *arguments: object, cwd: Path = ROOT, prepare: Callable[[], None] | None = None
    ):
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(LIBRARIES)
        self._folder = tempfile.TemporaryDirectory()
        self._streams = [Path(self._folder.name) / name for name in ("out", "err")]
        line = [module, *map(str, arguments)]
        self._process = context.Process(target=_run, args=(line, self._streams, Path(cwd), prepare))
        self._process.start()
        self.pid = self._process.pid
        self._wait_for_session()

    def _wait_for_session(self) -> None:
        """Until then a signal to its group would be one to the tests."""
        until = time.monotonic() + PATIENCE
        while self.poll() is None and os.getpgid(self.pid) != self.pid:
            assert time.monotonic() < until, "the process was not forked"
            time.sleep(0.005)

    @property
    def returncode(self) -> int | None:
        """The exit status, or the negative number of the signal that ended it; None while it runs."""
        return self._process.exitcode

    def poll(self) -> int | None:
        """The same as `returncode`."""
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end."""
        self._process.join(timeout)
        if self.returncode is None:
            raise TimeoutExpired(self._process.name, timeout or 0)
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Wait for its end; what it wrote to standard output and standard error."""
        self.wait(timeout)
        out, err = (path.read_text() for path in self._streams)
        return out, err

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it."""
        self.send_signal(signal.SIGKILL)


def _run(line: list[str], streams: list[Path], cwd: Path, prepare: Callable[[], None] | None) -> None:
    """In the new process."""
    # as Python begins; what a shell starts in the background ignores Control-C
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ["JPY_PARENT_PID"] = str(os.getppid())  # a kernel ends with the process it was forked from
    for number, path in enumerate(streams, 1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), number)
    os.setsid()
    os.chdir(cwd)
    if prepare:
        prepare()
    sys.argv = line
    sys.modules.pop(line[0], None)
    runpy.run_module(line[0], run_name="__main__", alter_sys=True)
