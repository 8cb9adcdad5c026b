"""The page on the commands that no test runs: ``python -m lab.pages.not_run > docs/validation/not_run.md``."""

import sys
import textwrap
from collections.abc import Sequence

import yaml

from lab.pages import shortened
from lab.pages.blocks import PAGES, Block, runnable
from lab.templates import render
from probes import command_line


def page() -> str:
    """Return the page in Markdown: how many blocks run where, how they are made small, and one row per marked block."""
    found = [block for page in PAGES for block in runnable(page)]
    marked = [block for block in found if block.why]
    slow = [block for block in found if not block.why and block.page in shortened.SLOW]
    return render(
        "not_run",
        default=len(found) - len(marked) - len(slow),
        slow=slow,
        marked=marked,
        total=len(found),
        first=first,
        settings=yaml.safe_dump(shortened.SETTINGS, sort_keys=False),
        lines=shortened.LINES,
        models=shortened.MODELS,
        pages=shortened.SLOW,
    )


def first(block: Block) -> str:
    """Return the first command or statement of a block, as it fits into a table."""
    lines = [line for line in block.text.splitlines() if line.strip() and not line.startswith("#SBATCH")]
    line = next((line for line in lines if not line.startswith("#")), lines[0])
    return textwrap.shorten(line, 70, placeholder=" …").replace("|", "/")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    parser = command_line.Parser(
        prog="python -m lab.pages.not_run", description="Print the page on the commands that no test runs."
    )
    return command_line.run(lambda _: print(page(), end=""), parser, argv)


if __name__ == "__main__":
    sys.exit(main())
