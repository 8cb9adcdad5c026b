"""The page on every option of ``triplets.yaml``: ``python -m lab.pages.configuration >
docs/reference/configuration.md``."""

from __future__ import annotations

import json
import re

from lab.templates import render
from probes.config.documentation import SectionText, sections
from probes.config.schema import schema_text

PAGE = re.compile(r"docs/(\w+)/(\w+)\.md")


def page() -> str:
    """Return the whole page in Markdown."""
    found = list(sections(json.loads(schema_text())))
    places = [section.place for section in found]
    titled = [(_title(one, places.count(one.place) > 1), one) for one in found]
    return PAGE.sub(_link, render("configuration", sections=titled))


def _title(section: SectionText, again: bool) -> str:
    """Return the heading of a section; where several stand at one place, with the option that tells them apart."""
    if not section.place:
        return "Top level"
    first = section.options[0].place.rpartition(".")[2]
    return f"`{section.place}:`{f' with `{first}`' if again else ''}"


def _link(named: re.Match[str]) -> str:
    """Return a link to a page that a text names, but where the page is written to."""
    folder, name = named.groups()
    return named[0] if name == "configuration" else f"[{name}](../{folder}/{name}.md)"


if __name__ == "__main__":
    print(page(), end="")
