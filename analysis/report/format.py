"""Text of numbers, intervals, p-values, names and lists."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from analysis.metrics.registry import Metric

LONGEST = 28  # characters of a label in a figure


def label(text: object, longest: int = LONGEST) -> str:
    r"""Return a name as a label shows it: control characters written out, and the middle left out where it is long.

    A label without end leaves a figure no room for its axes.

    >>> label("umbrella"), label("a\x07b"), label("young woman with a red umbrella", 16)
    ('umbrella', 'a\\x07b', 'young woma…rella')
    """
    shown = "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii")
        for letter in str(text)
    )
    if len(shown) <= longest:
        return shown
    end = (longest - 1) // 3
    return f"{shown[: longest - 1 - end]}…{shown[len(shown) - end :]}"


ALONE = "for this prompt alone"
DASH = "—"
LATEX_DASH = "--"
MINUS = "−"


def defined(value: float | None) -> bool:
    """Tell whether a number is there: neither None nor NaN nor infinite."""
    return value is not None and math.isfinite(value)


def fixed(value: float | None, digits: int = 3, dash: str = DASH) -> str:
    """Format a number with so many decimals, as a column of a table has them.

    >>> fixed(0.00004, 3), fixed(float("nan"))
    ('0.000', '—')
    """
    return f"{value:.{digits}f}" if defined(value) else dash


def number(value: float | None, digits: int = 3, signed: bool = False) -> str:
    """Format a number with a true minus sign; — when it is undefined.

    A value that would round to 0 keeps two significant digits, so that small is never shown as nothing.

    >>> number(-0.04512), number(float("nan")), number(0.00004321, 4), number(0.2, signed=True), number(0)
    ('−0.045', '—', '0.000043', '+0.200', '0')
    """
    if value is None or not math.isfinite(value):
        return DASH
    if value == 0:
        return "0"
    size = abs(value)
    if size < 10.0**-digits:
        text = f"{size:.{1 - math.floor(math.log10(size))}f}" if size > 1e-7 else f"{size:.1e}"
    else:
        text = f"{size:.{digits}f}"
    return (MINUS if value < 0 else "+" if signed else "") + text


def as_float(value: object) -> float:
    """Return a value of a table as a number; NaN where there is none."""
    return math.nan if value is None else float(value)  # type: ignore[arg-type]


def as_int(value: object) -> int:
    """Return a value of a table as a count; 0 where there is none."""
    found = as_float(value)
    return int(found) if math.isfinite(found) else 0


def amount(value: float | None, metric: Metric, signed: bool = False, *, scaled: bool = False) -> str:
    """Format a gap of a metric with its unit; where it has none and `scaled`, with what it is a difference in."""
    unit = f" {metric.gap_unit}" if metric.unit else f" in {metric.scale}" if scaled else ""
    return number(as_float(value), metric.digits, signed) + unit


def interval(low: float | None, high: float | None, digits: int = 3) -> str:
    """Format an interval; — when it is undefined.

    >>> interval(-0.1, 0.25, 2)
    '[−0.10, 0.25]'
    """
    if not defined(low) or not defined(high):
        return DASH
    return f"[{number(low, digits)}, {number(high, digits)}]"


def with_interval(
    value: float | None, low: float | None, high: float | None, digits: int = 3, signed: bool = False
) -> str:
    """Format a number with its interval, where it has one.

    >>> with_interval(0.25, 0.1, 0.4, 2, signed=True), with_interval(0.25, None, None)
    ('+0.25 [0.10, 0.40]', '0.250')
    """
    ends = interval(low, high, digits)
    return number(value, digits, signed) + ("" if ends == DASH else f" {ends}")


def p_value(value: float | None) -> str:
    """Format a p value with its sign.

    >>> p_value(0.0312), p_value(0.00009), p_value(None)
    ('p = 0.031', 'p < 0.001', 'p: —')
    """
    if not defined(value):
        return f"p: {DASH}"
    return "p < 0.001" if value < 0.001 else f"p = {value:.3f}"


def agreeing_p(p: float, low: float, high: float, alpha: float) -> float:
    """Return a p-value; NaN where it is significant beside an interval that holds 0, so that neither is relied on.

    >>> agreeing_p(0.01, -0.1, 0.3, 0.05), agreeing_p(0.01, 0.1, 0.3, 0.05)
    (nan, 0.01)
    """
    return math.nan if p < alpha and low <= 0 <= high else p


def latex_p_value(value: float | None) -> str:
    """Format a p-value as Wu et al. 2025 print it, in LaTeX.

    >>> [latex_p_value(value) for value in (3e-9, 0.00012, 0.5673, 1.0, float("nan"))]
    ['$<10^{-5}$', '$1.2 \\\\times 10^{-4}$', '0.567', '1.000', '--']
    """
    if not defined(value) or value >= 1e-3:
        return fixed(value, 3, LATEX_DASH)
    if value < 1e-5:
        return "$<10^{-5}$"
    power = math.floor(math.log10(value))
    return f"${value / 10**power:.1f} \\times 10^{{{power}}}$"


def counted(n: int, one: str, many: str | None = None) -> str:
    """Write a count with its noun.

    >>> counted(1, "prompt"), counted(3, "prompt")
    ('1 prompt', '3 prompts')
    """
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def listed(names: Iterable[str], last: str = "and") -> str:
    """Write names as a sentence does.

    >>> listed(["a", "b", "c"]), listed(["a"])
    ('a, b and c', 'a')
    """
    names = list(names)
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {last} {names[-1]}" if names else ""


def over(unit: str, what: str = "") -> str:
    """Say what a statistic is over, by the unit of a run: its prompts, or the seeds of its only prompt.

    >>> over("prompt"), over("seed", "words and ")
    ('over prompts', 'over words and seeds, for this prompt alone')
    """
    return f"over {what}seeds, {ALONE}" if unit == "seed" else f"over {what}prompts"
