"""One front for the studies: ``python -m analysis`` lists them, ``python -m analysis compare RUN RUN`` runs one."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

from probes.errors import one_line

COMMANDS = {
    "compare": ("analysis.studies.compare.command", "two runs side by side, and whether their gaps differ"),
    "mitigate": (
        "analysis.studies.mitigation.command",
        "a model before and after it was mitigated: lean, and what it cost",
    ),
    "sensitivity": (
        "analysis.studies.sensitivity.command",
        "how far findings depend on choices made in measuring",
    ),
    "power": ("analysis.stats.power", "how many prompts, seeds and words a difference takes"),
    "human-check": ("analysis.studies.human_check.command", "have people check the detected objects"),
    "gep": (
        "analysis.studies.gep.command",
        "audits of attributes: a folder of images, labels of people, several runs side by side",
    ),
    "questions": (
        "analysis.studies.questions.command",
        "questions to images answered by people: a sheet to fill in, and their answers",
    ),
    "alignment": (
        "analysis.studies.alignment.command",
        "image-text alignment and image quality: R-precision, captions, FID and KID",
    ),
    "decode": (
        "analysis.studies.decoding.command",
        "linear probes: what can be read at which site, and from which step on",
    ),
    "reproduce": ("analysis.papers.reproduce", "the numbers that three papers print, recomputed"),
    "calibrate": ("analysis.validation.specimens", "the instrument held against the toyworld specimens"),
}


def listing() -> str:
    """Return the commands, one line each."""
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {what}" for name, (_, what) in COMMANDS.items()]
    usage = "usage: python -m analysis COMMAND ...\n\ncommands (each has a --help):"
    return "\n".join([usage, *lines])


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or arguments[0] in ("-h", "--help"):
        print(listing())
        return 0
    name = arguments[0]
    if name not in COMMANDS:
        line = f"command line: expected one of {', '.join(COMMANDS)}, got {name!r}: python -m analysis lists them"
        print(one_line(line), file=sys.stderr)
        return 2
    return import_module(COMMANDS[name][0]).main(arguments[1:])


if __name__ == "__main__":
    sys.exit(main())
