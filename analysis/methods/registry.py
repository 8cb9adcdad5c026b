"""The methods that a run can apply, one row each; whoever reads, writes or shows their results iterates over the rows."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CommandRow:
    """A command of ``triptych``: its name, the module that holds it, and what it does in a few words.

    ``resumes``: the same command again goes on where an interrupted one stopped.
    """

    name: str
    module: str
    summary: str
    resumes: bool = False


@dataclass(frozen=True)
class Method:
    """A method: its folder's name in `analysis.methods`, and its command if it has one."""

    name: str
    command: CommandRow | None = None


METHODS = (
    Method(
        "gep",
        CommandRow(
            "gep",
            "analysis.methods.gep.command",
            "audits of attributes: a folder of images, labels of people, several runs side by side",
        ),
    ),
    Method("dalleval"),
    Method("tracing"),
    Method(
        "alignment",
        CommandRow(
            "alignment",
            "analysis.methods.alignment.command",
            "image-text alignment and image quality: R-precision, captions, FID and KID",
        ),
    ),
    Method("skills"),
    Method(
        "decoding",
        CommandRow(
            "decode",
            "analysis.methods.decoding.command",
            "linear probes: what can be read at which site, and from which step on",
            resumes=True,
        ),
    ),
    Method(
        "mitigation",
        CommandRow(
            "mitigate",
            "analysis.methods.mitigation.command",
            "a model before and after it was mitigated: lean, and what it cost",
        ),
    ),
)
