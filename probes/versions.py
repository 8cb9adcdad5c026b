"""What a run was made with."""

from __future__ import annotations

import contextlib
from importlib import metadata
from platform import platform, python_version

_LIBRARIES = (
    *("triptych", "torch", "diffusers", "transformers", "tokenizers", "safetensors", "numpy", "scipy"),
    *("scikit-image", "pandas", "pyarrow", "pillow", "pydantic", "matplotlib"),
)


def versions() -> dict[str, str]:
    """Versions of Python, the system and the libraries that matter, without importing them."""
    installed = {"python": python_version(), "system": platform()}
    for name in _LIBRARIES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            installed[name] = metadata.version(name)
    return installed
