"""The page on word maps, from its figures: ``python -m lab.validate.word_maps_page > docs/validation/word_maps.md``."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from lab.templates import render
from probes import command_line

FIGURES = Path(__file__).parents[2] / "docs" / "validation" / "word_maps.json"
TRANSFORMER_FIGURES = FIGURES.with_name("transformer_word_maps.json")
CONCEPT_FIGURES = FIGURES.with_name("concept_maps.json")


def page_of_stored(
    figures: dict | None = None, transformers: dict | None = None, concepts: dict | None = None
) -> str:
    """The page in Markdown, of `lab.validate.word_maps`' figures; from what is stored where they are not given."""
    figures, transformers = figures or _read(FIGURES), transformers or _read(TRANSFORMER_FIGURES)
    concepts = concepts or _read(CONCEPT_FIGURES)
    return render("word_maps", **figures, transformers=transformers, concepts=concepts)


def _read(path: Path) -> dict:
    return json.loads(path.read_text("utf-8"))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    parser = command_line.Parser(
        prog="python -m lab.validate.word_maps_page", description="Print the page on word maps."
    )
    return command_line.run(lambda _: print(page_of_stored(), end=""), parser, argv)


if __name__ == "__main__":
    sys.exit(main())
