"""The page on every option of ``triplets.yaml``: ``python -m lab.pages.configuration >
docs/reference/configuration.md``."""

from __future__ import annotations

import json

from lab.templates import render
from probes.config.documentation import sections
from probes.config.schema import schema_text


def page() -> str:
    """Return the whole page in Markdown."""
    return render("configuration", sections=list(sections(json.loads(schema_text()))))


if __name__ == "__main__":
    print(page(), end="")
