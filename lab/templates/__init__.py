"""Pages in Markdown from Jinja2 templates: one `<page>.md.j2` here for each page or section.

A template holds the words and the columns of its tables; what it is given are numbers and names, which it writes by the
functions of `analysis.report.format`. A name that it is not given is an error.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import jinja2

from analysis.report.format import counted, defined, fixed, interval, listed, number, p_value


def p_number(value: float | None) -> str:
    """Format a p-value for a column whose head says that it is one.

    Examples
    --------
    >>> p_number(0.0312), p_number(0.00009), p_number(None)
    ('0.031', '< 0.001', '—')
    """
    return "< 0.001" if defined(value) and value < 0.001 else fixed(value)


def percent(share: float | None, digits: int = 1) -> str:
    """Write a share in percent.

    Examples
    --------
    >>> percent(0.1234), percent(0.5, 0)
    ('12.3 %', '50 %')
    """
    return f"{fixed(None if share is None else 100 * share, digits)} %"


def plus(value: float, digits: int = 3) -> str:
    """Write a number with its sign, a hyphen for minus.

    Examples
    --------
    >>> plus(0.25, 2), plus(-0.25, 2)
    ('+0.25', '-0.25')
    """
    return f"{value:+.{digits}f}"


def slashed(values: Iterable[float], digits: int = 2) -> str:
    """Write numbers with slashes between them.

    Examples
    --------
    >>> slashed([0.25, 0.75])
    '0.25 / 0.75'
    """
    return " / ".join(fixed(value, digits) for value in values)


def printed(value: float, decimals: int = 4, sign: bool = False) -> str:
    """Write a number as the papers do, with a hyphen for minus; a dash for NaN, no minus before a zero.

    Examples
    --------
    >>> printed(-0.123, 2), printed(-0.001, 2), printed(0.1, 2, sign=True), printed(0.0, 2, sign=True)
    ('-0.12', '0.00', '+0.10', '0.00')
    """
    text = fixed(value, decimals)
    if not defined(value) or float(text) == 0:
        return text.lstrip("-")
    return f"+{text}" if sign and value > 0 else text


def thousands(value: int) -> str:
    """Write a whole number with commas.

    Examples
    --------
    >>> thousands(12345)
    '12,345'
    """
    return f"{value:,}"


def cell(text: str) -> str:
    """Write a text as code in a cell of a table; nothing where it is empty.

    Examples
    --------
    >>> cell("a | b"), cell("one of `x`"), cell("")
    ('`a \\\\| b`', '`` one of `x` ``', '')
    """
    if not text:
        return ""
    text = text.replace("|", "\\|")
    return f"`` {text} ``" if "`" in text else f"`{text}`"


ENVIRONMENT = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent),
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
ENVIRONMENT.filters |= {
    function.__name__: function
    for function in (
        cell,
        counted,
        fixed,
        listed,
        number,
        p_number,
        p_value,
        percent,
        plus,
        printed,
        slashed,
        thousands,
    )
}
ENVIRONMENT.tests |= {"missing": lambda value: not defined(value)}
ENVIRONMENT.globals |= {"interval": interval}


def render(page: str, **values: object) -> str:
    """Return the text of a template, named without ``.md.j2``, filled with values."""
    return ENVIRONMENT.get_template(f"{page}.md.j2").render(values)
