"""One finding: a headline gap with its verdict, its numbers and its sentences."""

from __future__ import annotations

import html
import math
from dataclasses import dataclass, field

from analysis.metrics.registry import Metric
from analysis.report.format import as_float, as_int, counted, defined, interval, number, p_value
from analysis.report.verdict import GapVerdict
from analysis.tables.similarities.side_shares import SideShares


@dataclass(frozen=True)
class SpecificationRange:
    """How many specifications there are, and the smallest and largest gap over words among them."""

    count: int
    low: float
    high: float


@dataclass(frozen=True, repr=False)
class Finding:
    """One headline gap, in words and as shown numbers (keys as in the table's columns).

    ``against_words`` holds the gap against words of the same meaning; ``p_measures`` is that p, adjusted over its
    ``family`` (the headline measures, and the contrasts) where that has a name; ``specified``: the range of the gap
    over specifications; ``remarks`` are further sentences of the card; ``answer`` is the claim in at most thirty words,
    never a stronger one; ``shares`` the gap as a share of the distance between the sides, where that was read.
    """

    metric: Metric
    contrast: tuple[str, str]
    row: dict
    verdict: GapVerdict
    claim: str
    against_words: str
    tag: str
    p_measures: float = math.nan
    family: str = ""
    specified: SpecificationRange | None = None
    primary: bool = False
    remarks: list[str] = field(default_factory=list)
    answer: str = ""
    shares: SideShares = field(default_factory=SideShares)

    @property
    def direction(self) -> int:
        """1 (nearer to the first), -1 (to the second) or 0 (no direction is claimed)."""
        return self.verdict.direction

    @property
    def gap(self) -> float:
        """Mean over prompts between the indicators' own words, in the metric's unit; positive towards the first."""
        return as_float(self.row.get("gap"))

    @property
    def interval(self) -> tuple[float, float]:
        """Ends of the interval of `gap`; NaN of so few prompts that there is none."""
        return as_float(self.row.get("ci_low")), as_float(self.row.get("ci_high"))

    @property
    def p(self) -> float:
        """p-value of `gap` against 0."""
        return as_float(self.row.get("p_value"))

    @property
    def word_gap(self) -> float:
        """Gap between all words of both sides; NaN where there is but one a side."""
        return as_float(self.row.get("word_gap")) if self._over_words else math.nan

    @property
    def word_interval(self) -> tuple[float, float]:
        """Ends of the interval of `word_gap`, over words and prompts."""
        row = self.row if self._over_words else {}
        return as_float(row.get("word_low")), as_float(row.get("word_high"))

    @property
    def _over_words(self) -> bool:
        return defined(self.row.get("p_control"))

    def lines(self) -> list[str]:
        """Return the numbers in a line or two, and the claim."""
        (first, second), prompts = self.contrast, str(self.row.get("unit") or "prompt")
        own = self._numbers(self.gap, self.interval)
        lines = [
            f"{self.metric.symbol}, {first} − {second}: {own}, {counted(as_int(self.row['n_prompts']), prompts)}"
        ]
        if self._over_words:
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
