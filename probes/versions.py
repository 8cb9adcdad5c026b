"""Versions of the software that made a run."""

from __future__ import annotations

import contextlib
from importlib import metadata
from platform import libc_ver, machine, python_version, system

_LIBRARIES = (
    *("triptych", "torch", "diffusers", "transformers", "tokenizers", "safetensors", "numpy", "scipy"),
    *("scikit-image", "pandas", "pyarrow", "pillow", "pydantic", "matplotlib"),
)


def versions() -> dict[str, str]:
    """Versions of Python, the system and the libraries that matter, without importing them."""
    # without the version of its kernel, which says of a machine what no result hangs on
    place = " ".join(name for name in (system(), machine(), *libc_ver()) if name)
    installed = {"python": python_version(), "system": place}
    for name in _LIBRARIES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            installed[name] = metadata.version(name)
    return installed
