"""``triptych plan triplets.yaml``: what a run would generate and what it would take; nothing is written."""

from __future__ import annotations

from probes import command_line
from triptych.cli.run import work
from triptych.options import staged_parser

__all__ = ["parser", "work"]


def parser() -> command_line.Parser:
    """Return the parser of the command's arguments."""
    main = staged_parser(
        "plan",
        "Print what a run would generate, what it compares, and the disk it takes. Nothing is"
        " written; `triptych run --dry-run` is the same.",
        {"triptych plan triplets.yaml --seeds 0 1 2": "what three seeds would take"},
        "triplets.yaml, or the folder of a run",
    )
    main.add_argument("--samples", action="store_true", help="list every image that is planned")
    main.set_defaults(dry_run=True)
    return main
