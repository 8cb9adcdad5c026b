"""Markdown of cards: templates, and the YAML above a text."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import yaml
from jinja2 import Environment, PackageLoader, StrictUndefined

from analysis.export.cards.facts import heading, row_of, secondary, sentences
from analysis.report.format import counted
from probes.errors import printable

SHOWN = 40  # prompts that a card lists


def rendered(template: str, **content: Any) -> str:
    """Fill a template of ``analysis/export/cards/templates``."""
    return _environment().get_template(template).render(**content)


def front_matter(data: Mapping[str, Any]) -> str:
    """Return the YAML block that stands above a card."""
    return f"---\n{yaml.safe_dump(dict(data), sort_keys=False, allow_unicode=True)}---\n"


def plain(text: object) -> str:
    r"""Return a text in one line in which nothing is Markdown or HTML.

    Brackets stay where they make no link: `\[` begins a formula on the Hub.

    Examples
    --------
    >>> plain("a [b](c) | <i>d</i>\n*e* [0, 1]")
    'a [b]\\(c) \\| &lt;i&gt;d&lt;/i&gt; \\*e\\* [0, 1]'
    """
    line = (
        printable(" ".join(str(text).split())).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    )
    return "".join(f"\\{letter}" if letter in "\\`*_|#" else letter for letter in line).replace("](", "]\\(")


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("analysis.export.cards", "templates"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters["plain"] = plain
    made.globals |= {
        "counted": counted,
        "heading": heading,
        "row_of": row_of,
        "secondary": secondary,
        "sentences": sentences,
        "SHOWN": SHOWN,
    }
    return made
