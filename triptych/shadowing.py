"""Packages of Triptych that a folder or file of the user's hides, because Python looks there first.

The packages `hooks`, `probes` and `analysis` have names that many projects use for a folder of their own.
"""

from __future__ import annotations

import importlib.util
import os
import sys

PACKAGES = ("hooks", "probes", "analysis")
_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def require_packages() -> None:
    """Raise ImportError if a file or folder of the user's hides the package `hooks`, `probes` or `analysis`.

    The command line has no use for the user's modules: there the folder is taken off ``sys.path`` instead.
    """
    for package in PACKAGES:
        while (path := _shadowing_path(package)) is not None:
            folder = os.path.dirname(path)
            remaining = [entry for entry in sys.path if os.path.realpath(entry or os.getcwd()) != folder]
            if package in sys.modules or len(remaining) == len(sys.path) or not _is_command():
                raise ImportError(
                    f"triptych: {path} hides Triptych's own package `{package}`: rename it,"
                    " or start Python in another folder"
                )
            sys.path[:] = remaining


def _shadowing_path(package: str) -> str | None:
    """Return the path that a package is imported from instead of Triptych's; None if nothing hides it."""
    expected = os.path.realpath(os.path.join(_ROOT, package))
    if package in sys.modules:
        module = sys.modules[package]
        places, file = list(getattr(module, "__path__", ())), getattr(module, "__file__", None)
    else:
        spec = importlib.util.find_spec(package)
        if spec is None:
            return None  # not installed at all, as Python itself will say
        places, file = list(spec.submodule_search_locations or ()), spec.origin
    path = os.path.realpath(places[0] if places else file or "")
    return None if path == expected or not os.path.isdir(expected) else path


def _is_command() -> bool:
    """Return whether this process is the command ``triptych``, ``python -m triptych`` or ``python -m probes.run``."""
    if sys.argv[:1] == ["-m"]:  # Python is looking for the module that it is to run
        module = sys.orig_argv[-len(sys.argv)].removeprefix("-m")
        return module.split(".")[0] == "triptych" or module == "probes.run"
    running = getattr(sys.modules.get("__main__"), "__spec__", None)
    if running is not None:
        return running.name.split(".")[0] == "triptych" or running.name == "probes.run"
    return os.path.splitext(os.path.basename(sys.argv[0] if sys.argv else ""))[0] == "triptych"
