"""``triptych doctor``: versions, what is missing of the packages it needs, optional parts, machine, checkpoints."""

from __future__ import annotations

import argparse
import os
import platform
import shutil
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

from probes import command_line
from probes.errors import UserError, printable
from probes.versions import pip_line

NAMED = ("torch", "diffusers", "transformers", "numpy", "scipy", "pandas", "pyarrow", "pydantic")
USES = {  # of the optional parts
    "captions": "BLEU, CIDEr, METEOR and SPICE of captions",
    "cluster": "workers of Ray, here or on many machines",
    "faces": "faces of photographs, for skin tones",
    "notebooks": "the notebooks",
    "xlsx": "labels from XLSX",
}


def version(package: str) -> str:
    """Return the version of a package that is installed; empty where it is not."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def requirements(extra: str = "") -> list[Requirement]:
    """Return what the package needs, or what one of its optional parts needs more."""
    found = [Requirement(line) for line in metadata.requires("triptych") or []]
    if not extra:
        return [one for one in found if one.marker is None or one.marker.evaluate({"extra": ""})]
    return [one for one in found if one.marker is not None and one.marker.evaluate({"extra": extra})]


def unmet(needed: list[Requirement]) -> list[str]:
    """Return requirements that are not met, each with what is there instead."""
    found = []
    for one in needed:
        there = version(one.name)
        if not there or not one.specifier.contains(there, prereleases=True):
            found.append(f"{one.name}{one.specifier} ({there or 'missing'})")
    return found


def versions() -> list[str]:
    """Return lines on the versions of triptych, Python, the system and the main packages."""
    packages = ", ".join(f"{name} {version(name)}" for name in NAMED)
    return [
        f"triptych {version('triptych')}, Python {platform.python_version()}, {platform.platform()}",
        packages,
    ]


def optional_parts() -> list[str]:
    """Return a line for each optional part: whether it is there, what it is for, how it is installed."""
    lines = []
    for extra, use in USES.items():
        missing = [one.partition(" ")[0] for one in unmet(requirements(extra))]
        state = f"missing {', '.join(missing)}: {pip_line(extra)}" if missing else "there"
        lines.append(f"{extra:<9}  {use}: {state}")
    return [*lines, f"{'nltk':<9}  the paper's nouns (measure.nouns: nltk): {_nltk()}"]


def _nltk() -> str:
    from probes.prompts.grammar.nouns import nouns

    try:
        nouns("a dog", backend="nltk")
    except UserError:
        return "missing data: python -m nltk.downloader averaged_perceptron_tagger_eng wordnet"
    return "there"


def machine() -> list[str]:
    """Return lines on cores, memory, disk and devices, and on where models of the hub are kept."""
    import torch
    from huggingface_hub import constants

    from probes.execution import workers

    disk = shutil.disk_usage(Path.cwd()).free
    devices = [
        f"cuda:{number} {torch.cuda.get_device_name(number)}"
        f" ({torch.cuda.get_device_properties(number).total_memory / 1e9:.0f} GB)"
        for number in range(torch.cuda.device_count())
    ]
    devices += ["mps"] if torch.backends.mps.is_available() else []
    offline = " (offline: HF_HUB_OFFLINE is set)" if constants.HF_HUB_OFFLINE else ""
    return [
        f"cores {workers.core_count()}, memory {workers.total_memory() / 1e9:.1f} GB, disk {disk / 1e9:.0f} GB free"
        " here",
        f"devices: {', '.join([*devices, 'cpu'])}; threads of torch: {torch.get_num_threads()}"
        + (f" (OMP_NUM_THREADS={os.environ['OMP_NUM_THREADS']})" if "OMP_NUM_THREADS" in os.environ else ""),
        f"models of the hub: {constants.HF_HUB_CACHE}{offline}",
    ]


def checkpoints() -> list[str]:
    """Return lines on the published models that observe images: which are here, and the sizes of the others."""
    from analysis.observe.checkpoints import known, present, size

    here = [name for name in known() if present(name)]
    absent = [f"{name} ({size(name)})" for name in known() if name not in here]
    return [f"here: {', '.join(here) or 'none'}", f"not here: {', '.join(absent) or 'none'}"]


def parser() -> command_line.Parser:
    """Return the parser of the command's arguments."""
    return command_line.Parser(
        prog="triptych doctor",
        description="Say what is installed here and what is missing, which devices, models and checkpoints there are."
        " Asks no network.",
        examples={"triptych doctor": "what to send with a question"},
    )


def work(options: argparse.Namespace) -> None:
    """Run the command with its parsed arguments."""

    def section(title: str, lines: list[str]) -> None:
        print(f"{title}:", *(f"  {printable(line)}" for line in lines), "", sep="\n", flush=True)

    section("versions", versions())
    if missing := unmet(requirements()):
        raise UserError(f"triptych: expected {', '.join(missing)}: install these")
    section("this machine", machine())
    section("optional parts", optional_parts())
    section(
        "checkpoints that observe images (docs/how_to/models.md says how to fetch them)",
        checkpoints(),
    )
