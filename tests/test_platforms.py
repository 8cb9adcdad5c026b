"""Every module of the product can be imported where Windows and macOS lack what Linux has.

`tests/test_imports.py` has what can be read off the code.
"""

import pytest

from tests.runs import python

CODE = '''
import builtins, importlib, pkgutil, sys, types

PRODUCT = ("hooks", "probes", "analysis", "triptych")
MODULES = {"fcntl", "resource", "termios", "pwd", "grp", "pty", "tty", "curses", "readline", "syslog", "posix"}
LACKING = {
    "signal": "SIGHUP SIGKILL SIGQUIT SIGUSR1 SIGUSR2 SIGALRM SIGCHLD SIGPIPE SIGSTOP SIGCONT SIGTSTP SIG_BLOCK"
    " SIG_UNBLOCK SIG_SETMASK pthread_sigmask pthread_kill sigwait setitimer alarm ITIMER_REAL",
    "os": "sched_getaffinity sched_setaffinity geteuid getuid getgid getgroups fork killpg getpgid setsid setpgid"
    " mkfifo chown fchown uname sysconf getloadavg nice statvfs wait3 WNOHANG O_NONBLOCK O_DIRECTORY O_NOFOLLOW"
    " O_CLOEXEC openpty posix_fallocate posix_fadvise fdatasync sendfile register_at_fork",
    "time": "clock_gettime CLOCK_BOOTTIME CLOCK_MONOTONIC tzset",
    "socket": "AF_UNIX",
}


class Without(types.ModuleType):
    """A module that lacks some names."""

    def __init__(self, module, names):
        super().__init__(module.__name__)
        self.__dict__.update({name: value for name, value in vars(module).items() if name not in names})


lacking = {name: Without(importlib.import_module(name), names.split()) for name, names in LACKING.items()}
ours, refused = builtins.__import__, set()


def elsewhere(name, globals=None, locals=None, fromlist=(), level=0):
    by = (globals or {}).get("__name__", "")
    if by.partition(".")[0] in PRODUCT and not level:
        if name.partition(".")[0] in MODULES:
            refused.add((by, name))
            raise ImportError(f"no module named {name!r} on this system")
        if name in lacking:
            return lacking[name]
    return ours(name, globals, locals, fromlist, level)


builtins.__import__ = elsewhere
seen = 0
for package in PRODUCT:
    for found in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
        if found.name.endswith((".__main__", ".on_ray")) or ".weights." in found.name:
            continue
        importlib.import_module(found.name)
        seen += 1
import probes.paths
assert not hasattr(probes.paths.os, "geteuid") and hasattr(sys.modules["os"], "geteuid")  # it is tried
print(seen, sorted(refused))
'''


@pytest.mark.slow
def test_every_module_is_imported_without_what_linux_alone_has():
    done = python("-c", CODE)
    assert done.returncode == 0, done.stderr[-2000:]
    seen, _, refused = done.stdout.strip().splitlines()[-1].partition(" ")
    assert int(seen) > 300 and refused == "[]"
