"""One finding: a headline gap with its verdict, its numbers and its sentences (``templates/sentences/finding.j2``).

What may be said depends on the numbers (`analysis.report.verdict`): a gap whose interval holds 0 is no finding; one
that is not more than synonyms differ among themselves has no direction; one that rests on few words is a hint; a gap of
few prompts has no interval. Words are about prompts and images ("images generated from feminine prompts"), never about
people or causes.
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from analysis.metrics.registry import Metric
from analysis.report.environment import phrase, sentence
from analysis.report.format import agreeing_p, as_float, as_int, counted, defined, interval, number, p_value
from analysis.report.verdict import FEWEST_PROMPTS, NO_WORDS, GapVerdict, few_prompts, judge
from analysis.tables.similarities.side_shares import SideShares
from analysis.tables.similarities.word_gap import SideWords

OF_ENOUGH_PROMPTS = ("ci_low", "ci_high", "p_value", "p_equivalent", "word_low", "word_high", "p_control")


@dataclass(frozen=True, repr=False)
class Finding:
    """One headline gap, in words and as shown numbers.

    ``gap`` is the mean over ``n`` prompts (or seeds of the only prompt: ``unit``) between the indicators' own words, in
    the metric's unit, positive towards the first; ``p`` against 0, NaN where it contradicts the ``interval``, so that
    neither is relied on; ``word_gap`` between all words of both sides, with its interval over words and prompts; NaN
    where there is but one a side. ``row`` holds them by the table's columns. ``p_measures`` is the p against words of
    the same meaning, adjusted over its ``family`` (the headline measures, and the contrasts) where that has a name;
    ``shares`` the gap as a share of the distance between the sides.
    """

    metric: Metric
    reference: str
    contrast: tuple[str, str]
    row: Mapping
    verdict: GapVerdict
    gap: float
    interval: tuple[float, float]
    p: float
    word_gap: float
    word_interval: tuple[float, float]
    n: int
    unit: str
    words: SideWords
    p_measures: float
    family: str
    alpha: float
    primary: bool
    shares: SideShares

    @cached_property
    def answer(self) -> str:
        """The claim in one sentence of at most thirty words, with its hedge."""
        return sentence("finding", "claim", self, named=False)

    @cached_property
    def claim(self) -> str:
        """The claim with its words, or why there is none."""
        return sentence("finding", "claim", self, named=True)

    @cached_property
    def tag(self) -> str:
        """The verdict in a few words."""
        return phrase("finding", "tag", self)

    @property
    def key(self) -> str:
        """Which sentence is said: the licence of a direction, or the state of the verdict."""
        return "turned" if self.verdict.turned else self.verdict.licence or self.verdict.state

    @property
    def direction(self) -> int:
        """1 (nearer to the first), -1 (to the second) or 0 (no direction is claimed)."""
        return self.verdict.direction

    @property
    def over_words(self) -> bool:
        """Whether the gap was compared with words of the same meaning."""
        return defined(self.row.get("p_control"))

    @property
    def named_words(self) -> tuple[list[str], ...]:
        """Words of both sides and of the reference: all of a direction, else those that the gap is of."""
        words = (self.words.first, self.words.second, self.words.reference[: self.verdict.counts[2]])
        return words if self.direction else tuple(own[:1] for own in words)

    def reason_of(self, what: str) -> str:
        """Why there is no ``gap``, or no test against ``controls``."""
        reason = self.row.get("reason" if what == "gap" else "word_reason")
        return (reason if isinstance(reason, str) else "").removeprefix(
            "controls: "
        ) or "no reason was recorded"

    def lines(self) -> list[str]:
        """Return the numbers in a line or two, and the claim."""
        first, second = self.contrast
        lines = [
            f"{self.metric.symbol}, {first} − {second}: {self._numbers(self.gap, self.interval)}, "
            f"{counted(self.n, self.unit)}"
        ]
        if self.over_words:
            tested = f", {p_value(self.p_measures)} {self.against}" if defined(self.p_measures) else ""
            lines.append(f"over all words: {self._numbers(self.word_gap, self.word_interval)}{tested}")
        return [*lines, self.claim]

    @property
    def against(self) -> str:
        """What `p_measures` is of, and over which family it is adjusted."""
        return "against words" + (f", adjusted over {self.family}" if self.family else "")

    def _numbers(self, gap: float, ends: tuple[float, float]) -> str:
        """A gap with what it is in, and its interval where there is one."""
        metric, unit = self.metric, f" {self.metric.gap_unit}" if self.metric.unit else ""
        shown = f" {interval(*ends, metric.digits)}" if defined(ends[0]) else ""
        return f"gap in {metric.scale} {number(gap, metric.digits, signed=True)}{unit}{shown}"

    def __repr__(self) -> str:
        return "\n".join(self.lines())

    def _repr_html_(self) -> str:
        *numbers, claim = map(html.escape, self.lines())
        return f"<p>{'<br>'.join(numbers)}</p><p><i>{claim}</i></p>"


def finding(
    row: dict,
    metric: Metric,
    reference: str,
    contrast: tuple[str, str],
    *,
    words: SideWords = NO_WORDS,
    alpha: float = 0.05,
    p_measures: float | None = None,
    family: str = "the measures",
    primary: bool = False,
    shares: SideShares | None = None,
) -> Finding:
    """Say what one row of ``tables/gap`` allows to say (`analysis.report.verdict.judge`).

    Positive gaps mean that `reference` is nearer to the first of `contrast`; `words` are named in the claim; `alpha` is
    1 less the level of the run; `p_measures` is the p against words adjusted over `family`, without it the row's own;
    `primary`: whether this is the measure that the run is asked about first; `shares`: the gap as a share of the
    distance between the sides.
    """
    row = {"delta": None} | row
    if few_prompts(row):
        row |= dict.fromkeys(OF_ENOUGH_PROMPTS, math.nan)
        if defined(row.get("gap")):
            row["reason"] = f"it takes {FEWEST_PROMPTS} for an interval or a direction"
    gap, low, high, p = (as_float(row.get(name)) for name in ("gap", "ci_low", "ci_high", "p_value"))
    of_words = row if defined(row.get("p_control")) else {}
    word_gap, *word_ends = (
        as_float(of_words.get(name, math.nan)) for name in ("word_gap", "word_low", "word_high")
    )
    return Finding(
        metric=metric,
        reference=reference,
        contrast=contrast,
        row=row,
        verdict=judge(row, words, alpha=alpha, p_words=p_measures),
        gap=gap,
        interval=(low, high),
        p=agreeing_p(p, low, high, alpha),
        word_gap=word_gap,
        word_interval=tuple(word_ends),
        n=as_int(row.get("n_prompts")),
        unit=str(row.get("unit") or "prompt"),
        words=words,
        p_measures=as_float(row.get("p_control") if p_measures is None else p_measures),
        family="" if p_measures is None else family,
        alpha=alpha,
        primary=primary,
        shares=shares or SideShares(),
    )
