"""Environment of the report's templates: filters and functions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from jinja2 import ChoiceLoader, Environment, FunctionLoader, PackageLoader, StrictUndefined
from markupsafe import Markup

from analysis.metrics.registry import SPACES
from analysis.report.figures import Drawn, Saved, inline_svg
from analysis.report.first_screen import LARGEST
from analysis.report.format import (
    agreeing_p,
    counted,
    defined,
    fixed,
    interval,
    label,
    listed,
    number,
    over,
    p_value,
)
from analysis.report.gallery import encode

LONGEST_ESCAPE = 10  # characters of one that is written out: \\U0010ffff


def environment(written: Mapping[str, Saved] | None = None) -> Environment:
    """Return the environment of jinja2 in which pages are rendered: filters, and functions that write numbers.

    Figures stand in a page as they are drawn, or as they were written out before.

    A template is a file of ``analysis/report/templates``, or of any package: ``analysis.methods.gep/section.html.j2``.
    """
    made = _environment()
    made.policies["written"] = (
        written  # not a filter of each page: templates keep the macros of the first one
    )
    return made


@cache
def _environment() -> Environment:
    """The environment of this process: compiling the report's templates takes as long as filling them in."""
    made = Environment(
        loader=ChoiceLoader([PackageLoader("analysis.report", "templates"), FunctionLoader(_of_package)]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_printable,
    )
    made.filters["embed"] = _embed
    made.filters["svg"] = lambda drawn: _svg(drawn, made.policies["written"])
    made.filters["file_names"] = lambda drawn: _file_names(drawn, made.policies["written"])
    made.filters["picture"] = lambda image: encode(image, LARGEST)
    functions = (agreeing_p, counted, defined, fixed, interval, listed, number, over, p_value)
    made.globals |= {function.__name__: function for function in functions}
    made.globals |= {"quoted": lambda names: [f"“{name}”" for name in names], "spaces": SPACES}
    return made


def _of_package(name: str) -> str | None:
    """The text of a template that stands in a package; None of a name without one."""
    package, _, file = name.partition("/")
    return (files(package) / file).read_text("utf-8") if file else None


def _printable(value: object) -> object:
    """Write out control characters of a text that stands on the page."""
    if not isinstance(value, str) or isinstance(value, Markup) or value.isprintable():
        return value
    lines = value.split("\n")
    return "\n".join(label(line, len(line) * LONGEST_ESCAPE + 1) for line in lines)


def _svg(drawn: Drawn, written: Mapping[str, Saved] | None) -> Markup:
    """A figure as it was written out before, or as it is drawn."""
    return Markup(written[drawn.name].svg if written else inline_svg(drawn))


def _file_names(drawn: Drawn, written: Mapping[str, Saved] | None) -> str:
    """A figure's name with the endings of its files."""
    names = written[drawn.name].files if written else [f"{drawn.name}.svg"]
    return drawn.name + ", ".join(name.removeprefix(drawn.name) for name in names)


def _embed(data: dict) -> Markup:
    """JSON that can stand inside a <script> element: no `<` can end it."""
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace("&", "\\u0026"))
