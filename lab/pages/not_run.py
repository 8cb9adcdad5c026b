"""The page on the commands that no test runs: ``python -m lab.pages.not_run > docs/validation/not_run.md``."""

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from probes import command_line

ROOT = Path(__file__).parents[2]
MARKED = re.compile(r"(?ms)^<!-- not run: ([^\n]*) -->\n`{3,}\w*\n(.*?)\n`{3,}")

HEAD = """# Commands that no test runs

- **What it shows.** Which commands and which Python of the pages no test runs, and why.
- **Compared with.** All other blocks are run, or read by the parser of their command.
- **Made by** this command:

```bash
python -m lab.pages.not_run > docs/validation/not_run.md
```

Every block of commands or Python on these pages is checked by `tests/test_pages.py`. Those of this list are not run,
for the reason given; each has a comment above it. Printed by `python -m lab.pages.not_run`.

All other commands are read by the parser of their command, so that no option is misspelt, and modules are looked for.
Those of *the first run*, *the heat map of a word*, *a table into LaTeX*, *audits*, *edits* and *statistics in plain
words* are run, on a shorter run.

| page | begins with | why it is not run |
|---|---|---|
"""


def page(root: Path = ROOT) -> str:
    """Return the page in Markdown: one row per marked block."""
    rows = []
    for path in [root / "README.md", *sorted((root / "docs").rglob("*.md"))]:
        for found in MARKED.finditer(path.read_text("utf-8")):
            lines = [
                line for line in found[2].splitlines() if line.strip() and not line.startswith("#SBATCH")
            ]
            first = next((line for line in lines if not line.startswith("#")), lines[0])
            rows.append(
                f"| {path.relative_to(root).as_posix()} | `{first.strip()[:70].replace('|', '/')}` | {found[1]} |"
            )
    return HEAD + "\n".join(rows) + "\n"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    parser = command_line.Parser(
        prog="python -m lab.pages.not_run", description="Print the page on the commands that no test runs."
    )
    return command_line.run(lambda _: print(page(), end=""), parser, argv)


if __name__ == "__main__":
    sys.exit(main())
