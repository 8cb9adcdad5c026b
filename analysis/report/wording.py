"""The findings in careful words, from rows of ``tables/gap``.

What may be said depends on the numbers (`analysis.report.verdict`): a gap whose interval holds 0 is no finding; one
that is not more than synonyms differ among themselves has no direction; one that rests on few words is a
hint; a gap of one prompt has no interval. Words are about prompts and images ("images generated from feminine
prompts"), never about people or causes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from analysis.metrics.registry import SPACES, Metric
from analysis.report.finding import Finding, SpecificationRange
from analysis.report.format import DASH, amount, as_float, as_int, counted, defined, number
from analysis.report.verdict import (
    ENOUGH,
    FEWEST_PROMPTS,
    NO_WORDS,
    ContrastWords,
    GapVerdict,
    few_prompts,
    judge,
)
from analysis.report.wording_designs import next_design, upward

SHOWN = (  # columns that a card shows where the table has them
    *("delta", "p_control", "word_gap", "word_low", "word_high", "word_df", "p_permutation", "p_floor"),
    *("share_words", "share_references", "share_prompts", "n_effective", "n_changed", "unseen"),
)
UNSHOWN = (  # of so few prompts that there is nothing but the value
    *("ci_low", "ci_high", "p_value", "p_adjusted", "p_equivalent", "word_low", "word_high", "p_control"),
    "p_permutation",
)
LOW_FLOOR = 0.05  # a smallest possible p above this is worth a word
LONGEST_ANSWER = 30  # words
# The sentences of each state of a verdict, and of each licence of a direction, filled in with `_said`: the answer, with
# what is said if there is room; the claim with its words; and the card's state in a few words.
_AS_NEAR = "{plain} are as near to those of {first} as of {second} prompts"
_NEARER = "{plain} are nearer to those of {near} than of {far} prompts"
ANSWERS = {
    "claim": (_NEARER, ", by more than synonyms differ"),
    "two words": (f"About these two words alone: {_NEARER}", ""),
    "hint": (f"A hint, from {{words}}, {{references}}: {_NEARER}", ""),
    "small": (f"No difference larger than δ = {{delta_named}}: {_AS_NEAR}", ", to within δ"),
    "no gap": (f"No gap: {_AS_NEAR}", ""),
    "open": ("Open, since the interval holds 0: {whether}", "; a gap beyond {bound} is excluded"),
    "words": ("Not known: {whether}", "; {adjusted}the gap is no more than synonyms differ"),
    "turned": ("Not known: {whether}", "; these words and all words point opposite ways"),
    "untested": ("Not known without a test against words: {whether}", ""),
    "no interval": ("Not known from {n}: {whether}", ""),
    "undefined": ("Undefined: {whether}", ""),
}
_WORDED = "{thing} are nearer to {nearest} than to {farther}."
_EITHER = "{thing} are nearer to {one} or to {two}"
CLAIMS = {
    "claim": _WORDED,
    "two words": f"About these two words alone: {_WORDED}",
    "hint": f"A hint, from {{rests}}: {_WORDED}",
    "small": "No difference larger than δ = {delta_named}: {thing} are as near to {one} as to {two}, to within δ.",
    "no gap": "No gap: {thing} are as near to {one} as to {two}.",
    "open": (
        f"The interval holds 0: whether {_EITHER} is open. The gap between them is smaller than {{bound}}, either way."
    ),
    "words": f"Whether {_EITHER} cannot be told: the gap is{{after}} not more than synonyms differ among themselves.",
    "turned": (
        f"Whether {_EITHER} cannot be told: the gap between these words and the gap over all words, less what makes "
        "the words of one side odder than those of the other, point opposite ways."
    ),
    "untested": (
        f"Whether {_EITHER} cannot be told: no words were run that tell a lean from two words being two words."
    ),
    "no interval": (
        f"Whether {_EITHER} cannot be told: {{why}}. The gap of these images is {{gap}}; nothing follows beyond them."
    ),
    "undefined": "Whether {plain} are nearer to {first} or to {second} is undefined: {reason}.",
}
TAGS = {
    "claim": "nearer to {near}",
    "two words": "nearer to {near}, two words",
    "hint": "nearer to {near}, a hint",
    "small": "no difference above {delta}",
    "words": "not more than words differ",
    "turned": "not more than words differ",
    "untested": "not compared with words",
} | {state: state for state in ("open", "no gap", "no interval", "undefined")}


def finding(
    row: dict,
    metric: Metric,
    reference: str,
    contrast: tuple[str, str],
    *,
    words: ContrastWords = NO_WORDS,
    alpha: float = 0.05,
    p_measures: float | None = None,
    family: str = "the measures",
    specified: SpecificationRange | None = None,
    primary: bool = False,
) -> Finding:
    """Say what one row of ``tables/gap`` allows to say.

    Parameters
    ----------
    row : dict
        A row of ``tables/gap``; see `analysis.report.verdict.judge` for what a claim rests on.
    metric : Metric
        Which headline metric the row is of.
    reference : str
        Name of the reference indicator.
    contrast : tuple of str
        Positive gaps mean nearer to the first.
    words : ContrastWords, optional
        The words that are named in the claim.
    alpha : float
        1 less the level of the run.
    p_measures : float, optional
        p against words, adjusted over `family`; without it the row's own.
    family : str
        Named where that p is shown.
    specified : SpecificationRange, optional
        See `Finding`.
    primary : bool
        Whether this is the measure that the run is asked about first.
    """
    row = dict.fromkeys(SHOWN) | row
    if few_prompts(row):
        row |= dict.fromkeys(UNSHOWN, math.nan)
    verdict = judge(row, words, alpha=alpha, p_words=p_measures)
    family = "" if p_measures is None else family
    p_measures = as_float(row.get("p_control") if p_measures is None else p_measures)
    key = "turned" if verdict.turned else verdict.licence or verdict.state
    said = _said(row, verdict, metric, reference, contrast, alpha)
    return Finding(
        metric=metric,
        contrast=contrast,
        row=row,
        verdict=verdict,
        claim=_claim(key, said, verdict, metric, words, family),
        against_words=_against_words(row, verdict, p_measures, contrast, alpha, family),
        tag=TAGS[key].format(**said),
        p_measures=p_measures,
        family=family,
        specified=specified,
        primary=primary,
        remarks=[*_remarks(row, verdict), *next_design(row, verdict, metric, alpha=alpha)],
        answer=_answer(key, said, row.get("unit") == "seed"),
    )


def _said(
    row: dict, verdict: GapVerdict, metric: Metric, reference: str, contrast: tuple[str, str], alpha: float
) -> dict[str, str]:
    """What the sentences of a card are filled in with."""
    gap, low, high = (as_float(row.get(name)) for name in ("gap", "ci_low", "ci_high"))
    n, unit = as_int(row.get("n_prompts")), row.get("unit", "prompt")
    first, second = contrast
    one, two, references = verdict.counts
    few = f"{counted(n, unit)} are too few for an interval or a direction (it takes {FEWEST_PROMPTS})"
    why = (
        f"with a single {unit} there is no interval" if n == 1 else few if few_prompts(row) else _reason(row)
    )
    thing = f"{metric.noun} {reference} prompts"
    bounded = defined(low) and defined(high)
    return {
        "reference": reference,
        "plain": thing,
        "first": first,
        "second": second,
        "near": first if gap > 0 else second,
        "far": second if gap > 0 else first,
        "whether": f"whether {thing} are nearer to those of {first} or of {second} prompts",
        "gap": amount(gap, metric, True),
        "delta": amount(row.get("delta"), metric),
        "delta_named": amount(row.get("delta"), metric, scaled=True),
        "bound": amount(upward(max(abs(low), abs(high)), metric), metric) if bounded else DASH,
        "n": counted(n, unit),
        "why": why,
        "reason": _reason(row),
        "words": f"{counted(one, 'word')} against {two}",
        "references": counted(references, "reference"),
        "adjusted": "after adjustment, " if as_float(row.get("p_control")) < alpha else "",
    }


def _answer(key: str, said: Mapping[str, str], alone: bool) -> str:
    """The claim in one sentence of at most `LONGEST_ANSWER` words, with its hedge."""
    text, more = (part.format(**said) for part in ANSWERS[key])
    text = _capital(f"{'For this prompt alone: ' if alone else ''}{text}")
    return f"{text}{more if len(f'{text}{more}'.split()) <= LONGEST_ANSWER else ''}."


def _claim(
    key: str, said: Mapping[str, str], verdict: GapVerdict, metric: Metric, words: ContrastWords, family: str
) -> str:
    """The claim with its words, or why there is none."""
    every = bool(verdict.direction)  # what else is said rests on the indicators' words alone
    those = "those of" if metric.noun.endswith(" of") else "those generated from"
    thing = (
        f"{metric.noun} {_prompts(said['reference'], words.reference[: verdict.counts[2] if every else 1])}"
    )
    one, two = (
        f"{those} {_prompts(said[side], own if every else own[:1])}"
        for side, own in (("first", words.first), ("second", words.second))
    )
    near, far = (one, two) if said["near"] == said["first"] else (two, one)
    more = {"thing": thing, "one": one, "two": two, "nearest": near, "farther": far}
    more |= {
        "rests": _rests_on(verdict),
        "after": f", after adjustment over {family}," if said["adjusted"] else "",
    }
    return _capital(CLAIMS[key].format(**said, **more))


def _against_words(
    row: dict, verdict: GapVerdict, p_measures: float, contrast: tuple[str, str], alpha: float, family: str
) -> str:
    """Hold a gap against words that mean the same by its test over words, references and prompts."""
    p_control = as_float(row.get("p_control"))
    if verdict.state == "undefined" or few_prompts(row):
        return ""
    if not defined(p_control):
        count = as_int(row.get("n_controls"))
        if count == 0:
            why = "no word of the same meaning as another was run"
        elif count == 1 and verdict.alone:
            why = "one control word gives no pair of controls to compare (it takes two)"
        else:
            why = _reason(row, controls=True)
        if verdict.state == "no gap" and row.get("n_controls"):
            return f"Against words: {DASH}, {why}: there is no gap to hold against them."
        return (
            f"Against words: {DASH}, {why}. So it is not known how much of the gap is geometric (two words always "
            f"differ somewhere), and by itself it does not speak of bias."
        )
    amid = "these words differ among themselves"
    if verdict.state == "direction":
        text = f"More than {amid}."
    elif defined(p_measures) and p_measures < alpha:
        text = f"Over all words, more than {amid}; but see what is said of the gap above."
    elif p_control < alpha:
        text = f"More than {amid}, but not after adjustment over {family}."
    else:
        few = as_int(row.get("word_df"))
        only = (
            f" (with {counted(few, 'degree')} of freedom in the words only a large gap shows)"
            if few < 4
            else ""
        )
        text = f"Not more than {amid}{only}, so by itself it is no sign of bias."
    rest = ""
    if verdict.state in ("direction", "words") and verdict.alone:
        rest = (
            f" One word stands against one, so this is about these two words alone: how far other words for "
            f"{contrast[0]} and {contrast[1]} would differ was taken from the reference’s own."
        )
    elif verdict.state in ("direction", "words") and not verdict.enough:
        rest = f" It rests on {_rests_on(verdict)}; a claim without a hedge takes {ENOUGH} of each."
        floor = as_float(row.get("p_floor"))
        if floor > LOW_FLOOR:
            rest += f" No exchange of so few words could give a p below {number(floor, 3)}."
    return text + rest


def _remarks(row: dict, verdict: GapVerdict) -> list[str]:
    """Further sentences: what so few prompts cannot show, and the run's own warnings."""
    n, unit, found = as_int(row.get("n_prompts")), row.get("unit", "prompt"), []
    unseen = as_float(row.get("unseen"))
    if verdict.state not in ("undefined", "no interval") and 0 < unseen < 1:
        such = "such prompts" if unit == "prompt" else "the seeds of this prompt"
        found.append(
            f"What changes at fewer than {100 * unseen:.0f} % of {such} may be missing among {counted(n, unit)}."
        )
    warning = row.get("warning")
    if isinstance(warning, str) and warning:
        found.append(_capital(warning) + ("" if warning.endswith(".") else "."))
    return found


def _prompts(name: str, words: tuple[str, ...]) -> str:
    """Prompts of an indicator, with its words."""
    return f"{name} prompts" + (f" ({', '.join(words)})" if words else "")


def _rests_on(verdict: GapVerdict) -> str:
    one, two, references = verdict.counts
    return f"{counted(one, 'word')} against {two} and {counted(references, 'reference word')}"


def where(metric: Metric) -> str:
    """Name the space of a metric, as a heading."""
    return f"{SPACES.get(metric.space, metric.space)} space"


def _reason(row: dict, controls: bool = False) -> str:
    """The part of ``reason`` that speaks of the gap, or the one that speaks of the controls."""
    whole = row.get("reason")
    parts = whole.split("; ") if isinstance(whole, str) else []
    mine = [part.removeprefix("controls: ") for part in parts if part.startswith("controls:") == controls]
    return "; ".join(part for part in mine if part) or "no reason was recorded"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def not_run(absent: Sequence[Metric], missing: Mapping[str, str]) -> list[str]:
    """Return why measures have no numbers, those of one reason together.

    `missing` is ``not_observed`` of a run's record.
    """
    reasons: dict[str, list[str]] = {}
    for metric in absent:
        if why := missing.get(metric.metric):
            reasons.setdefault(why.replace("`", ""), []).append(metric.symbol)
    return [f"{', '.join(symbols)} not run: {why}" for why, symbols in reasons.items()]
