"""Sentences of the report: macros of ``templates/sentences``, filled in as plain text."""

from __future__ import annotations

from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from analysis.report.format import amount, counted, defined, fixed, listed, number, over


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("analysis.report", "templates/sentences"), undefined=StrictUndefined
    )
    environment.globals |= {
        "amount": amount,
        "counted": counted,
        "defined": defined,
        "fixed": fixed,
        "listed": listed,
        "number": number,
        "over": over,
    }
    return environment


def phrase(file: str, macro: str, *values: Any, **named: Any) -> str:
    """Return the text of a macro in one line."""
    module = _environment().get_template(f"{file}.j2").module
    return " ".join(str(getattr(module, macro)(*values, **named)).split())


def sentence(file: str, macro: str, *values: Any, **named: Any) -> str:
    """Return the text of a macro in one line, its first letter a capital."""
    text = phrase(file, macro, *values, **named)
    return text[:1].upper() + text[1:]
