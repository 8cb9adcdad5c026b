"""Versions of what is installed, and which requirements of the package are not met."""

from __future__ import annotations

import platform
from importlib import metadata

from packaging.requirements import Requirement

NAMED = ("torch", "diffusers", "transformers", "numpy", "scipy", "pandas", "pyarrow", "pydantic")


def version(package: str) -> str:
    """Return the version of an installed package; empty if it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def requirements(extra: str = "") -> list[Requirement]:
    """Return the packages that Triptych requires or, if an extra is named, those that it adds."""
    listed = [Requirement(line) for line in metadata.requires("triptych") or []]
    if not extra:
        return [item for item in listed if item.marker is None or item.marker.evaluate({"extra": ""})]
    return [item for item in listed if item.marker is not None and item.marker.evaluate({"extra": extra})]


def unmet_requirements(requirements: list[Requirement]) -> list[str]:
    """Return unmet requirements as text, each with the version that is installed or "missing"."""
    lines = []
    for requirement in requirements:
        installed = version(requirement.name)
        if not installed or not requirement.specifier.contains(installed, prereleases=True):
            lines.append(f"{requirement.name}{requirement.specifier} ({installed or 'missing'})")
    return lines


def version_lines() -> list[str]:
    """Return two lines: versions of triptych, Python and the system, and of the main packages."""
    return [
        f"triptych {version('triptych')}, Python {platform.python_version()}, {platform.platform()}",
        ", ".join(f"{name} {version(name)}" for name in NAMED),
    ]
