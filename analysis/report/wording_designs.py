"""What gap a run could have found, and which run would find a smaller one, in words."""

from __future__ import annotations

import math
from collections.abc import Mapping

from analysis.metrics.registry import Metric
from analysis.report.format import amount, as_float, as_int, defined
from analysis.report.verdict import GapVerdict
from analysis.stats.word_designs import GapDesign

MORE_WORDS = (3, 5, 8, 12)  # of a side and of the reference, of designs that a card proposes


def next_design(row: Mapping, verdict: GapVerdict, metric: Metric, *, alpha: float = 0.05) -> list[str]:
    """Return what gap a run could have found where it claims no direction, and which run would find one of δ.

    At most one remark; none where the row has no error over words. Powers are four in five, by simulation of the test
    with the errors of this run (`analysis.stats.word_power.GapDesign`).
    """
    error = as_float(row.get("word_error"))
    shares = [as_float(row.get(f"share_{name}")) for name in ("words", "references", "prompts")]
    prompts = as_int(row.get("n_prompts"))
    if verdict.state not in ("open", "words") or not all(map(defined, (error, *shares))) or prompts < 2:
        return []
    one, two, references = verdict.counts
    design = GapDesign.of(error, shares, words=(one, two), references=references, prompts=prompts)
    found, delta = design.detectable(alpha=alpha), as_float(row.get("delta"))
    if not defined(found):
        return []
    least = amount(upward(found, metric), metric)
    text = f"With these words and prompts a gap of {least} is found in four runs of five."
    return [text + (_design_for(delta, design, metric, alpha) if delta < found else "")]


def _design_for(delta: float, design: GapDesign, metric: Metric, alpha: float) -> str:
    """How many prompts find a gap of δ with these words, and with more of them."""
    prompts, known = design.prompts_for(delta, alpha=alpha), min(design.words)
    more = ((words, design.resized(words=words).prompts_for(delta, alpha=alpha)) for words in MORE_WORDS)
    words, fewer = next(((words, n) for words, n in more if words > known and n), (0, 0))
    to_find = f" To find one of δ = {amount(delta, metric, scaled=True)} so often takes"
    with_more = f"{words} words a side and of the reference"
    if prompts and fewer and fewer < prompts:
        return f"{to_find} about {_rounded(prompts)} prompts, or {_rounded(fewer)} with {with_more}."
    if prompts:
        return f"{to_find} about {_rounded(prompts)} prompts."
    if fewer:
        return f"{to_find} {with_more} and about {_rounded(fewer)} prompts; with these words no number does."
    return f"{to_find} more than {MORE_WORDS[-1]} words a side."


def upward(value: float, metric: Metric) -> float:
    """Return a bound with the digits of the metric, rounded up: what is said of it holds."""
    return math.ceil(value * 10**metric.digits) / 10**metric.digits


def _rounded(count: int) -> str:
    """A number of prompts to two digits, upward."""
    unit = 10 ** max(0, len(str(count)) - 2)
    return f"{math.ceil(count / unit) * unit:,}"
