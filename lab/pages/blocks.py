"""The pages of the documentation, and the code on them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"(?ms)^(?:<!-- not run: ([^\n]*) -->\n)?(`{3,})(\w*)[^\n]*\n(.*?)^\2\s*$")


@dataclass(frozen=True)
class Block:
    """Code between two fences; `why` says why no test runs it, and is "" otherwise."""

    page: str
    line: int
    language: str
    text: str
    why: str


CODE = ("bash", "python")  # what is run


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[Block]:
    """Return the fenced blocks of a page in order."""
    text = page.read_text("utf-8")
    return [
        Block(name(page), text.count("\n", 0, found.start(2)) + 1, found[3], found[4], found[1] or "")
        for found in FENCE.finditer(text)
    ]


def runnable(page: Path) -> list[Block]:
    """Return the blocks of commands and of Python, those that are not run among them."""
    return [block for block in blocks(page) if block.language in CODE]


def commands(text: str) -> list[str]:
    """Return the command lines of a shell block: continued lines joined, comments and assignments left out."""
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    return [one for one in (re.sub(r"(^|\s)#.*", "", line).strip() for line in lines) if one]
