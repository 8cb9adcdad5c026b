"""Verdict on one gap from its numbers: a direction, how far to trust it, or why there is none.

A direction is claimed where all three hold: the interval of the gap leaves out 0, the gap over all words, corrected for
how near the words of each side are to each other, is more than synonyms differ among themselves (after
adjustment over the measures) and points the same way, and the gap is not shown to be smaller than the smallest one that
matters. The words themselves are in `analysis.report.wording`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from analysis.report.format import defined

FEWEST_PROMPTS = 6  # of five or fewer no pattern of signs has a two-sided p below 0.05
ENOUGH = 3  # words of a side, and reference words, from which a claim is made without a hedge
STATES = ("undefined", "no gap", "no interval", "small", "open", "untested", "words", "direction")


@dataclass(frozen=True)
class ContrastWords:
    """The words of a contrast as they stand in the prompts: those of each side and those of the reference.

    Each begins with the word of the indicator itself; its controls follow.
    """

    first: tuple[str, ...] = ()
    second: tuple[str, ...] = ()
    reference: tuple[str, ...] = ()


NO_WORDS = ContrastWords()


@dataclass(frozen=True)
class GapVerdict:
    """Verdict on one gap.

    ``state`` is one of `STATES`: ``small``, shown to be smaller than δ; ``open``, the interval holds 0; ``untested``,
    no words were run to compare it with; ``words``, not more than synonyms differ among themselves. ``direction``: 1
    (nearer to the first of the contrast), -1 (to the second), 0 where none is claimed. ``licence``, of a direction:
    ``claim``; ``hint``, from fewer than three words a side or three references; ``two words``, where one stands against
    one. ``turned``: there is no direction because the gap over all words points the other way. ``counts``: words of the
    first side, of the second, and reference words.
    """

    state: str
    direction: int = 0
    licence: str = ""
    turned: bool = False
    counts: tuple[int, int, int] = field(default=(1, 1, 1))

    @property
    def enough(self) -> bool:
        """Return whether there are words enough for a claim without a hedge."""
        return min(self.counts) >= ENOUGH

    @property
    def alone(self) -> bool:
        """Return whether one word stands against one."""
        return self.counts[0] == self.counts[1] == 1


def judge(
    row: Mapping, words: ContrastWords = NO_WORDS, *, alpha: float = 0.05, p_words: float | None = None
) -> GapVerdict:
    """Judge a row of ``tables/gap``.

    Words are counted by `words` where the row does not count them; `p_words` is the p against words adjusted over the
    measures, without it the row's ``p_control``; `alpha` is 1 less the level of the run.

    >>> row = {"gap": 0.2, "ci_low": 0.1, "ci_high": 0.3, "word_gap": 0.2, "p_control": 0.01}
    >>> judge(row | {"n_words_first": 3, "n_words_second": 3, "n_references": 3})
    GapVerdict(state='direction', direction=1, licence='claim', turned=False, counts=(3, 3, 3))
    >>> judge(row | {"n_words_first": 2, "n_words_second": 3, "n_references": 3}).licence
    'hint'
    >>> judge(row, p_words=0.07).state, judge(row | {"p_equivalent": 0.01}).state
    ('words', 'small')
    """
    counts = (
        _count(row.get("n_words_first"), len(words.first)),
        _count(row.get("n_words_second"), len(words.second)),
        _count(row.get("n_references"), len(words.reference)),
    )
    gap, low, high = (_float(row.get(name)) for name in ("gap", "ci_low", "ci_high"))
    p_words = _float(row.get("p_control") if p_words is None else p_words)
    if not defined(gap):
        state = "undefined"
    elif gap == 0:
        state = "no gap"
    elif not defined(low) or not defined(high) or few_prompts(row):
        state = "no interval"
    elif _float(row.get("p_equivalent")) < alpha:
        state = "small"
    elif low <= 0 <= high:
        state = "open"
    elif not defined(p_words):
        state = "untested"
    elif not (p_words < alpha and gap * _float(row.get("word_gap")) > 0):
        state = "words"
    else:
        verdict = GapVerdict("direction", 1 if gap > 0 else -1, counts=counts)
        licence = "two words" if verdict.alone else "claim" if verdict.enough else "hint"
        return GapVerdict("direction", verdict.direction, licence, counts=counts)
    return GapVerdict(state, turned=state == "words" and gap * _float(row.get("word_gap")) < 0, counts=counts)


def few_prompts(row: Mapping) -> bool:
    """Tell whether a row rests on so few prompts (or seeds of one prompt) that there is nothing but its value.

    Examples
    --------
    >>> few_prompts({"n_prompts": 5}), few_prompts({"n_prompts": 6}), few_prompts({})
    (True, False, False)
    """
    return 0 < _float(row.get("n_prompts")) < FEWEST_PROMPTS


def _float(value: float | None) -> float:
    return math.nan if value is None else float(value)


def _count(value: float | None, otherwise: int) -> int:
    value = _float(value)
    return int(value) if math.isfinite(value) else max(otherwise, 1)
