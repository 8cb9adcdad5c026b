"""The page on word maps, from its figures: ``python -m lab.pages.word_maps > docs/validation/word_maps.md``."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from lab.templates import render
from probes import command_line

FIGURES = Path(__file__).parents[2] / "docs" / "validation" / "word_maps.json"


def word_maps_page(figures: dict) -> str:
    """Return the page in Markdown, from the figures of `lab.validate.word_maps.report`."""
    return render("word_maps", **figures)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    parser = command_line.Parser(
        prog="python -m lab.pages.word_maps", description="Print the page on word maps."
    )
    return command_line.run(
        lambda _: print(word_maps_page(json.loads(FIGURES.read_text("utf-8"))), end=""), parser, argv
    )


if __name__ == "__main__":
    sys.exit(main())
