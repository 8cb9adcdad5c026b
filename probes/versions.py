"""Versions of the software that made a run, and how an optional part of this installation is installed."""

from __future__ import annotations

import contextlib
import shlex
from importlib import metadata
from platform import libc_ver, machine, python_version, system
from urllib.parse import urlsplit
from urllib.request import url2pathname

from probes.json_text import parse_json

_LIBRARIES = (
    *("triptych", "torch", "diffusers", "transformers", "tokenizers", "safetensors", "numpy", "scipy"),
    *("scikit-image", "pandas", "pyarrow", "pillow", "pydantic", "matplotlib"),
)


def versions() -> dict[str, str]:
    """Return the versions of Python, the system and the main libraries by name, without importing them."""
    # without the version of its kernel, which says of a machine what no result hangs on
    place = " ".join(name for name in (system(), machine(), *libc_ver()) if name)
    installed = {"python": python_version(), "system": place}
    for name in _LIBRARIES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            installed[name] = metadata.version(name)
    return installed


def pip_line(extra: str) -> str:
    """Return the ``pip install`` command that adds an optional extra to this installation of Triptych."""
    text = metadata.distribution("triptych").read_text("direct_url.json")
    source = parse_json(text) if text else {}
    if "dir_info" not in source:
        return f"pip install 'triptych[{extra}]'"
    editable = "-e " if source["dir_info"].get("editable") else ""
    folder = url2pathname(urlsplit(source["url"]).path)
    return f"pip install {editable}{shlex.quote(f'{folder}[{extra}]')}"
