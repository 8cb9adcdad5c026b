"""Verdict on one gap from its numbers: a direction, how far to trust it, or why there is none.

A direction is claimed where all three hold: the interval of the gap leaves out 0, the gap over all words, corrected for
how near the words of each side are to each other, is more than synonyms differ among themselves (after
adjustment over the measures) and points the same way, and the gap is not shown to be smaller than the smallest one that
matters. The words themselves are in ``templates/sentences/finding.j2``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from analysis.report.format import as_float, as_int, defined
from analysis.tables.similarities.word_gap import SideWords

FEWEST_PROMPTS = 6  # of five or fewer no pattern of signs has a two-sided p below 0.05
ENOUGH = 3  # words of a side, and reference words, from which a claim is made without a hedge


NO_WORDS = SideWords([], [], [])


@dataclass(frozen=True)
class GapVerdict:
    """Verdict on one gap.

    ``state``: ``undefined``; ``no gap``; ``no interval``; ``small``, shown to be smaller than δ; ``open``, the interval
    holds 0; ``untested``, no words were run to compare it with; ``words``, not more than synonyms differ among
    themselves; or ``direction``. ``direction``: 1 (nearer to the first of the contrast), -1 (to the second), 0 where
    none is claimed. ``licence``, of a direction: ``claim``; ``hint``, from fewer than three words a side or three
    references; ``two words``, where one stands against one. ``turned``: there is no direction because the gap over all
    words points the other way. ``counts``: words of the first side, of the second, and reference words.
    """

    state: str
    direction: int = 0
    licence: str = ""
    turned: bool = False
    counts: tuple[int, int, int] = (1, 1, 1)


def judge(
    row: Mapping, words: SideWords = NO_WORDS, *, alpha: float = 0.05, p_words: float | None = None
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
    counted = zip(
        ("n_words_first", "n_words_second", "n_references"), (words.first, words.second, words.reference)
    )
    one, two, references = (as_int(row.get(name)) or max(len(own), 1) for name, own in counted)
    gap, low, high, word_gap = (as_float(row.get(name)) for name in ("gap", "ci_low", "ci_high", "word_gap"))
    p_words = as_float(row.get("p_control") if p_words is None else p_words)
    direction, licence = 0, ""
    if not defined(gap):
        state = "undefined"
    elif gap == 0:
        state = "no gap"
    elif not defined(low) or not defined(high) or few_prompts(row):
        state = "no interval"
    elif as_float(row.get("p_equivalent")) < alpha:
        state = "small"
    elif low <= 0 <= high:
        state = "open"
    elif not defined(p_words):
        state = "untested"
    elif not (p_words < alpha and gap * word_gap > 0):
        state = "words"
    else:
        state, direction = "direction", 1 if gap > 0 else -1
        licence = (
            "two words" if one == two == 1 else "claim" if min(one, two, references) >= ENOUGH else "hint"
        )
    turned = state == "words" and gap * word_gap < 0
    return GapVerdict(state, direction, licence, turned, (one, two, references))


def few_prompts(row: Mapping) -> bool:
    """Tell whether a row rests on so few prompts (or seeds of one prompt) that there is nothing but its value.

    >>> few_prompts({"n_prompts": 5}), few_prompts({"n_prompts": 6}), few_prompts({})
    (True, False, False)
    """
    return 0 < as_float(row.get("n_prompts")) < FEWEST_PROMPTS
