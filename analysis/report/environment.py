"""Environments of jinja2, one for each kind of text (``page``, ``html``, ``latex``, ``text``, ``sentence``)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import pandas as pd
from jinja2 import ChoiceLoader, Environment, FunctionLoader, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from analysis.metrics.registry import SPACES
from analysis.report import format as texts
from analysis.report.format import DASH, LATEX_DASH, defined, fixed, label, number
from analysis.report.gallery import encode

if TYPE_CHECKING:
    from analysis.report.figures.style import Drawn, Saved

LARGEST = 192  # pixels of the longer side of a picture on a page
LONGEST_ESCAPE = 10  # characters of one that is written out: \\U0010ffff


def environment(written: Mapping[str, Saved] | None = None) -> Environment:
    """Return the environment of jinja2 in which pages are rendered: filters, and functions that write numbers.

    Figures stand in a page as they are drawn, or as they were written out before.

    A template is a file of ``analysis/report/templates``, or of any package: ``analysis.methods.gep/section.html.j2``.
    """
    made = environment_of("page")
    made.policies["written"] = (
        written  # not a filter of each page: templates keep the macros of the first one
    )
    return made


@cache
def environment_of(kind: str) -> Environment:
    """The environment of a kind of text: compiling templates takes as long as filling them in.

    Numbers on a page are plain, in ``html`` beside their value as it is in the table.
    """
    made = Environment(
        loader=ChoiceLoader([PackageLoader("analysis.report", "templates"), FunctionLoader(_of_package)]),
        autoescape=kind in ("page", "html"),
        undefined=StrictUndefined,
        trim_blocks=kind != "sentence",
        lstrip_blocks=kind != "sentence",
        finalize={"latex": escaped, "page": _printable}.get(kind),
    )
    made.filters["embed"] = _embed
    made.filters["svg"] = lambda drawn: _svg(drawn, made.policies["written"])
    made.filters["file_names"] = lambda drawn: _file_names(drawn, made.policies["written"])
    made.filters["picture"] = lambda image: encode(image, LARGEST)
    functions = (
        "agreeing_p",
        "amount",
        "counted",
        "defined",
        "fixed",
        "interval",
        "label",
        "listed",
        "number",
    )
    made.globals |= {name: getattr(texts, name) for name in (*functions, "over", "p_value")}
    made.globals |= {"quoted": lambda names: [f"“{name}”" for name in names], "spaces": SPACES, "p": _p}
    made.globals |= {"html": kind == "html", "dash": LATEX_DASH if kind == "latex" else DASH}
    made.globals |= _NUMBERS.get(kind, {})
    return made


def phrase(file: str, macro: str, *values: Any, **named: Any) -> str:
    """Return the text of a macro of ``templates/sentences`` in one line."""
    module = environment_of("sentence").get_template(f"sentences/{file}.j2").module
    return " ".join(str(getattr(module, macro)(*values, **named)).split())


def sentence(file: str, macro: str, *values: Any, **named: Any) -> str:
    """Return the text of a macro of ``templates/sentences`` in one line, its first letter a capital."""
    text = phrase(file, macro, *values, **named)
    return text[:1].upper() + text[1:]


class Raw(str):
    """Text that is LaTeX already."""


def escaped(text: object, longest: int = 2_000) -> object:
    r"""Plain text for LaTeX; of more characters the middle is left out.

    >>> escaped("50 % of a_b & c")
    '50 \\% of a\\_b \\& c'
    """
    if isinstance(text, Raw) or not isinstance(text, str):
        return text
    marks = {"\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}"}
    marks |= {mark: f"\\{mark}" for mark in "&%$#_{}"}
    return "".join(marks.get(letter, letter) for letter in label(text, longest))


def _latex_number(x: float | None, digits: int = 2, signed: bool = False) -> Raw:
    """A number with so many decimals and a true minus sign; one that is rounded to nothing has no sign."""
    text = fixed(x, digits, LATEX_DASH)
    if text != LATEX_DASH and float(text) == 0:
        return Raw(text.lstrip("-"))
    if text != LATEX_DASH:
        text = f"$-${text[1:]}" if text[0] == "-" else f"$+${text}" if signed else text
    return Raw(text)


def _latex_interval(low: float | None, high: float | None, digits: int = 2) -> Raw:
    if not (defined(low) and defined(high)):
        return Raw("")
    return Raw(f"[{_latex_number(low, digits)}, {_latex_number(high, digits)}]")


def _html_number(x: float | None, digits: int = 3, signed: bool = False) -> Markup:
    """A number as it is in the table, and as it is shown."""
    return Markup(f'<data value="{x}">{number(x, digits, signed)}</data>' if defined(x) else DASH)


def _html_interval(low: float | None, high: float | None, digits: int = 3) -> Markup:
    ends = f"[{_html_number(low, digits)}, {_html_number(high, digits)}]"
    return Markup(ends if defined(low) and defined(high) else "")


def _p(x: float | None) -> str:
    """A p-value without its sign."""
    return texts.p_value(x).removeprefix("p = ").removeprefix("p").strip(": ")


_NUMBERS = {  # how numbers are written in a kind of text
    "html": {
        "number": _html_number,
        "interval": _html_interval,
        "p": lambda x: Markup(f'<data value="{x}">{escape(_p(x))}</data>' if defined(x) else DASH),
    },
    "latex": {
        "number": _latex_number,
        "interval": _latex_interval,
        "p": lambda x: Raw(texts.latex_p_value(x)),
        "raw": Raw,
    },
}


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
    from analysis.report.figures.style import inline_svg  # what loads matplotlib

    return Markup(written[drawn.name].svg if written else inline_svg(drawn))


def _file_names(drawn: Drawn, written: Mapping[str, Saved] | None) -> str:
    """A figure's name with the endings of its files."""
    names = written[drawn.name].files if written else [f"{drawn.name}.svg"]
    return drawn.name + ", ".join(name.removeprefix(drawn.name) for name in names)


def _embed(data: dict) -> Markup:
    """JSON that can stand inside a <script> element: no `<` can end it; null for what is not finite."""
    text = pd.Series(data, dtype=object).to_json(double_precision=8)
    return Markup(text.replace("<", "\\u003c").replace("&", "\\u0026"))
