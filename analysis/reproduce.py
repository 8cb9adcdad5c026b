"""Recompute what three papers print: ``python -m analysis.reproduce [--only PAPER] [--out PAGE]``.

Prints the page, or writes it. Needs no model and no image; the tables are part of the package (`analysis/reference`).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from analysis.reproduction.page import PAPERS, page
from probes.errors import UserError
from probes.parts import write_bytes


def main(argv: Sequence[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(
        prog="python -m analysis.reproduce",
        description="Recompute what three papers print, from their own tables, and show paper beside recomputed.",
    )
    parser.add_argument("--only", choices=tuple(PAPERS), help="one paper instead of all three")
    parser.add_argument(
        "--out", type=Path, help="page to write, such as docs/reproduction.md; printed if not given"
    )
    parser.add_argument(
        "--data", type=Path, help="folder of the reference tables instead of the package's own"
    )
    options = parser.parse_args(argv)
    try:
        text = page([options.only] if options.only else tuple(PAPERS), options.data)
        if options.out:
            write_bytes(options.out, text.encode())
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    print(options.out or text, end="\n" if options.out else "")
    return 0


if __name__ == "__main__":
    sys.exit(main())
