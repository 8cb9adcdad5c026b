"""The findings in careful words, from rows of ``tables/gap``.

What may be said depends on the numbers: a gap whose interval holds 0 is no finding; a gap beyond 0 but within
the control gap says only that two different words were written; a gap of one prompt has no interval. Words
are about prompts and images ("images generated from feminine prompts"), never about people or causes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from analysis.naming import SPACES, Metric

DASH = "—"
MINUS = "−"


@dataclass(frozen=True)
class Finding:
    """One headline gap, in words and as shown numbers (keys as in the table's columns)."""

    metric: Metric
    contrast: tuple[str, str]
    row: dict
    claim: str
    against_control: str
    direction: int
    beyond_control: bool


def number(value: float | None, digits: int = 3, signed: bool = False) -> str:
    """Format a number with a true minus sign; — when it is undefined.

    A value that would round to 0 keeps two significant digits, so that small is never shown as nothing.

    Examples
    --------
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


def interval(low: float | None, high: float | None, digits: int = 3) -> str:
    """Format an interval; — when it is undefined.

    Examples
    --------
    >>> interval(-0.1, 0.25, 2)
    '[−0.10, 0.25]'
    """
    if not defined(low) or not defined(high):
        return DASH
    return f"[{number(low, digits)}, {number(high, digits)}]"


def p_value(value: float | None) -> str:
    """Format a p value with its sign.

    Examples
    --------
    >>> p_value(0.0312), p_value(0.00009), p_value(None)
    ('p = 0.031', 'p < 0.001', 'p: —')
    """
    if not defined(value):
        return f"p: {DASH}"
    return "p < 0.001" if value < 0.001 else f"p = {value:.3f}"


def defined(value: float | None) -> bool:
    """Tell whether a number is there: neither None nor NaN nor infinite."""
    return value is not None and math.isfinite(value)


def counted(n: int, one: str, many: str | None = None) -> str:
    """Write a count with its noun.

    Examples
    --------
    >>> counted(1, "prompt"), counted(3, "prompt")
    ('1 prompt', '3 prompts')
    """
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def listed(names: Iterable[str], last: str = "and") -> str:
    """Write names as a sentence does.

    Examples
    --------
    >>> listed(["a", "b", "c"]), listed(["a"])
    ('a, b and c', 'a')
    """
    names = list(names)
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {last} {names[-1]}" if names else ""


def finding(row: dict, metric: Metric, reference: str, contrast: tuple[str, str]) -> Finding:
    """Say what one row of ``tables/gap`` allows to say.

    Parameters
    ----------
    row : dict
        A row of ``tables/gap`` with ``gap``, ``ci_low``, ``ci_high``, ``n_prompts``, ``control_gap``,
        ``n_controls``, ``reason``, and where control words were run ``p_control``, ``word_gap``, ``word_low``,
        ``word_high``, ``word_df``: a claim of bias rests on these.
    metric : Metric
        Which headline metric the row is of.
    reference : str
        Name of the reference indicator.
    contrast : tuple of str
        Positive gaps mean nearer to the first.

    Returns
    -------
    Finding
        ``direction`` is 1 (nearer to the first), -1 (to the second) or 0 (cannot be told).
    """
    gap, low, high = (_float(row.get(key)) for key in ("gap", "ci_low", "ci_high"))
    thing = f"{metric.noun} {reference} prompts"
    first, second = contrast
    if not defined(gap):
        claim = f"Whether {thing} are nearer to {first} or to {second} is undefined: {_reason(row)}."
        return Finding(metric, contrast, row, claim, "", 0, False)
    side = first if gap > 0 else second
    other = second if gap > 0 else first
    those = "those of" if metric.noun.endswith(" of") else "those generated from"
    direction = 0
    if gap == 0:
        claim = f"No gap: {thing} are as near to {those} {first} prompts as to {those} {second} prompts."
    elif not defined(low) or not defined(high):
        why = "with a single prompt there is no interval" if _int(row.get("n_prompts")) == 1 else _reason(row)
        claim = (
            f"Here {thing} are nearer to {those} {side} prompts than to {those} {other} prompts, but {why}, "
            f"so nothing follows beyond these images."
        )
    elif low <= 0 <= high:
        claim = (
            f"The interval holds 0: whether {thing} are nearer to {those} {first} prompts or to {those} "
            f"{second} prompts cannot be told."
        )
    else:
        direction = 1 if gap > 0 else -1
        claim = f"{_capital(thing)} are nearer to {those} {side} prompts than to {those} {other} prompts."
    beyond, words = _against_control(row, gap, low, high, metric, direction)
    return Finding(metric, contrast, row, claim, words, direction, beyond)


def _against_control(row: dict, gap: float, low: float, high: float, metric: Metric, direction: int):
    """Hold a gap against what words of one meaning give; returns (whole interval beyond it, sentence)."""
    control, count = _float(row.get("control_gap")), _int(row.get("n_controls"))
    if defined(_float(row.get("p_control"))):
        return _against_words(row, metric, direction)
    if not defined(control):
        if count == 0:
            why = "no interchangeable words were run as controls"
        elif count == 1:
            why = "one control word gives no pair of controls to compare (it takes two)"
        else:
            why = _reason(row, controls=True)
        return False, (
            f"Control gap {DASH}: {why}. So it is not known how much of the gap is geometric (two words "
            f"always differ somewhere), and by itself it does not speak of bias."
        )
    shown = number(control, metric.digits) + (f" {metric.gap_unit}" if metric.unit else "")
    nearest = min(abs(low), abs(high)) if direction else 0.0
    if abs(gap) <= control:
        return False, (
            f"The gap does not exceed the control gap of {shown}: words with the same meaning as the "
            f"reference give as much, so it is no sign of bias."
        )
    if direction and nearest > control:
        return True, f"The gap exceeds the control gap of {shown}, and so does its whole interval."
    if not defined(low):
        return False, f"The gap is larger than the control gap of {shown}, but has no interval to rest on."
    reach = "reaches down to it" if direction else "holds 0"
    return False, (
        f"The gap is larger than the control gap of {shown}, but its interval {reach}: not clearly more than "
        f"the geometric part."
    )


def _against_words(row: dict, metric: Metric, direction: int) -> tuple[bool, str]:
    """Hold a gap against words that mean the same by its test over words and prompts."""
    gap, low, high = (_float(row[name]) for name in ("word_gap", "word_low", "word_high"))
    shown = f"{number(gap, metric.digits, signed=True)}{' ' + metric.gap_unit if metric.unit else ''}"
    found = (
        f"Over other words of the same meaning too, the gap is {shown}, {interval(low, high, metric.digits)}"
    )
    beyond = direction * low > 0 and direction * high > 0
    if beyond:
        return True, f"{found}, {p_value(_float(row['p_control']))}: more than the choice of words makes."
    few = int(row["word_df"])
    words = (
        f" (with {counted(few, 'degree')} of freedom in the words only a large one shows)" if few < 4 else ""
    )
    return False, (
        f"{found}, {p_value(_float(row['p_control']))}: not more than the choice of words can make{words}, so by "
        f"itself it is no sign of bias."
    )


def opening(findings: list[Finding], contrast: tuple[str, str], reference: str, level: float) -> str:
    """Open the summary of one contrast: how many measures point which way, how many more than words make."""
    known = [f for f in findings if defined(_float(f.row.get("gap")))]
    first, second = contrast
    if not known:
        return f"No headline measure could be computed for {first} against {second}."
    if all(f.row["gap"] == 0 for f in known):
        return f"No measure differs: {reference} prompts are as near to {first} as to {second} ones."
    if all(not defined(_float(f.row.get("ci_low"))) for f in known):
        return (
            f"This run can show where {reference} stands between {first} and {second}, but not whether more "
            f"than chance is behind it: there are no intervals."
        )
    parts = []
    for sign, side in ((1, first), (-1, second)):
        near = [f for f in known if f.direction == sign]
        if near:
            whose = listed(f.metric.symbol for f in near)
            beyond = [f for f in near if f.beyond_control]
            if not any(defined(_float(f.row.get("control_gap"))) for f in near):
                tail = "beyond geometry or not: there are too few controls to tell"
            elif len(beyond) == len(near):
                tail = ("" if len(near) == 1 else "each ") + "more than the choice of words makes"
            elif beyond:
                tail = f"more than the choice of words makes in {listed(f.metric.symbol for f in beyond)}"
            else:
                tail = "but not clearly more than the choice of words makes"
            count = f"{len(near)} of {counted(len(known), 'measure')}"
            parts.append(f"{reference} prompts are nearer to {side} ones in {count} ({whose}), {tail}")
    level_text = f"{level * 100:g} %"
    if not parts:
        return (
            f"In none of {counted(len(known), 'measure')} does the {level_text} interval exclude 0: no lean "
            f"of {reference} towards {first} or {second} can be told."
        )
    return f"With {level_text} intervals that exclude 0, {'; '.join(parts)}."


def where(metric: Metric) -> str:
    """Name the space of a metric, as a heading."""
    return f"{SPACES.get(metric.space, metric.space)} space"


def _reason(row: dict, controls: bool = False) -> str:
    """The part of ``reason`` that speaks of the gap, or the one that speaks of the controls."""
    whole = row.get("reason")
    parts = whole.split("; ") if isinstance(whole, str) else []
    mine = [part.removeprefix("controls: ") for part in parts if part.startswith("controls:") == controls]
    return "; ".join(part for part in mine if part) or "no reason was recorded"


def _float(value) -> float:
    return float("nan") if value is None else float(value)


def _int(value) -> int:
    value = _float(value)
    return int(value) if math.isfinite(value) else 0


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
