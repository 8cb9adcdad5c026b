"""The methods that a run can apply, one row each; whoever measures, shows or runs them iterates over the rows.

A method is a folder here and a row below. What it brings is named as text and loaded at first use, so that the stages
of a run import no method, and a method imports them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CommandRow:
    """A command of ``triptych``: its name of one or two words, its module, and what it does in a few words.

    ``resumes``: the same command again goes on where an interrupted one stopped. ``begins``: false where the work says
    itself from when on there is something to go on with, see `probes.command_line.run`.
    """

    name: str
    module: str
    summary: str
    resumes: bool = False
    begins: bool = True


@dataclass(frozen=True)
class Method:
    """A method, by the places of what it brings (``module:object``); empty for what it does not have.

    Attributes
    ----------
    name : str
        Of its folder in `analysis.methods`.
    spec : str
        An `analysis.tables.spec.MethodSpec`: its tables, and all that the stages need of it.
    measured : str
        An `analysis.tables.method.MeasuredMethod`: its tables, and how the stage measure fills them.
    reported : str
        An `analysis.report.method.ReportedMethod`: its section or page of the report, and its LaTeX.
    people : str
        An `analysis.studies.human_check.method.PeopleCheck`: what people are asked about its images.
    command : CommandRow, optional
    """

    name: str
    spec: str = ""
    measured: str = ""
    reported: str = ""
    people: str = ""
    command: CommandRow | None = None


METHODS = (  # sections of the report, tables and commands stand in this order
    Method(
        "audit",
        command=CommandRow(
            "audit",
            "analysis.methods.audit.arguments",
            "labelled pictures of any models: shares, differences, ranks; no run is needed",
        ),
    ),
    Method(
        "tracing",
        spec="analysis.methods.tracing.method:METHOD",
    ),
    Method(
        "stopping",
        spec="analysis.methods.stopping.method:METHOD",
    ),
    Method(
        "gep",
        spec="analysis.methods.gep.method:METHOD",
        command=CommandRow(
            "audit gep",
            "analysis.methods.gep.arguments",
            "audits of attributes: a folder of images, labels of people, several runs side by side",
        ),
    ),
    Method(
        "dalleval",
        spec="analysis.methods.dalleval.method:METHOD",
    ),
    Method(
        "alignment",
        spec="analysis.methods.alignment.method:METHOD",
        command=CommandRow(
            "audit alignment",
            "analysis.methods.alignment.arguments",
            "image-text alignment and image quality: R-precision, captions, FID and KID",
        ),
    ),
    Method(
        "skills",
        spec="analysis.methods.skills.method:METHOD",
    ),
    Method(
        "decoding",
        command=CommandRow(
            "decode",
            "analysis.methods.decoding.arguments",
            "linear probes: what can be read at which site, and from which step on",
            resumes=True,
        ),
    ),
)
