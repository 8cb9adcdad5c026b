"""``triptych trace RUN``: the stage trace alone, which site makes the difference between the words."""

from __future__ import annotations

from probes import command_line
from triptych.cli.run import WHERE, staged_parser, work

__all__ = ["parser", "work"]


def parser() -> command_line.Parser:
    """Return the argument parser of ``triptych trace``."""
    main = staged_parser(
        "trace",
        "Generate images with patched activations: at which site, token position and step a word makes the"
        " difference. What is patched stands under `trace` in triplets.yaml (default: each cross-attention). Afterwards"
        " `triptych run RUN --stage measure` and `triptych report RUN` show the effects.",
        {"triptych trace runs/first-light": "activation patching, of a run that has its images"},
        "the folder of a run that has its images, or its triplets.yaml",
        [WHERE],
    )
    main.add_argument("--overwrite", action="store_true", help="replace what was traced before")
    main.add_argument("--quiet", action="store_true", help="no progress bars")
    main.set_defaults(stage="trace")
    return main
