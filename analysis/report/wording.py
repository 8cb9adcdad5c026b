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
from analysis.report.format import DASH, amount, as_float, as_int, counted, number
from analysis.report.verdict import (
    ENOUGH,
    FEWEST_PROMPTS,
    NO_WORDS,
    ContrastWords,
    GapVerdict,
    defined,
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
    return Finding(
        metric=metric,
        contrast=contrast,
        row=row,
        verdict=verdict,
        claim=_claim(row, verdict, metric, reference, contrast, words, alpha, family),
        against_words=_against_words(row, verdict, p_measures, contrast, alpha, family),
        tag=_tag(row, verdict, metric, contrast),
        p_measures=p_measures,
        family=family,
        specified=specified,
        primary=primary,
        remarks=[*_remarks(row, verdict), *next_design(row, verdict, metric, alpha=alpha)],
        answer=_answer(row, verdict, metric, reference, contrast, alpha),
    )


def _answer(
    row: dict, verdict: GapVerdict, metric: Metric, reference: str, contrast: tuple[str, str], alpha: float
) -> str:
    """The claim in one sentence of at most `LONGEST_ANSWER` words, with its hedge."""
    first, second = contrast
    alone = "For this prompt alone: " if row.get("unit") == "seed" else ""
    thing = f"{metric.noun} {reference} prompts"
    whether = f"whether {thing} are nearer to those of {first} or of {second} prompts"
    state, more = verdict.state, ""
    if state == "direction":
        near, far = contrast if verdict.direction > 0 else (second, first)
        one, two, references = verdict.counts
        nearer = f"{thing} are nearer to those of {near} than of {far} prompts"
        hint = {
            "claim": "",
            "two words": "About these two words alone: ",
            "hint": f"A hint, from {counted(one, 'word')} against {two}, {counted(references, 'reference')}: ",
        }[verdict.licence]
        text = f"{alone}{hint}{nearer}" if alone or hint else _capital(nearer)
        more = "" if hint else ", by more than synonyms differ"
    elif state == "small":
        delta = amount(row.get("delta"), metric)
        as_near = f"{thing} are as near to those of {first} as of {second} prompts"
        text = f"{alone}No difference larger than δ = {delta}: {as_near}"
        more = ", to within δ"
    elif state == "no gap":
        text = f"{alone}No gap: {thing} are as near to those of {first} as of {second} prompts"
    elif state == "open":
        bound = max(abs(as_float(row.get("ci_low"))), abs(as_float(row.get("ci_high"))))
        text = f"{alone}Open, since the interval holds 0: {whether}"
        more = f"; a gap beyond {amount(upward(bound, metric), metric)} is excluded"
    elif state == "words":
        text = f"{alone}Not known: {whether}"
        more = "; these words and all words point opposite ways"
        if not verdict.turned:
            adjusted = "after adjustment, " if as_float(row.get("p_control")) < alpha else ""
            more = f"; {adjusted}the gap is no more than synonyms differ"
    elif state == "untested":
        text, more = f"{alone}Not known without a test against words: {whether}", ""
    elif state == "no interval":
        n, unit = as_int(row.get("n_prompts")), row.get("unit", "prompt")
        text = f"{alone}Not known from {counted(n, unit)}: {whether}"
    else:
        text = f"{alone}Undefined: {whether}"
    return f"{text}{more if len(f'{text}{more}'.split()) <= LONGEST_ANSWER else ''}."


def _claim(
    row: dict,
    verdict: GapVerdict,
    metric: Metric,
    reference: str,
    contrast: tuple[str, str],
    words: ContrastWords,
    alpha: float,
    family: str,
) -> str:
    gap, state = as_float(row.get("gap")), verdict.state
    first, second = contrast
    if state == "undefined":
        return (
            f"Whether {metric.noun} {reference} prompts are nearer to {first} or to {second} is undefined: "
            f"{_reason(row)}."
        )
    those = "those of" if metric.noun.endswith(" of") else "those generated from"
    all_words = state == "direction"  # what else is said rests on the indicators' words alone
    references = words.reference[: verdict.counts[2] if all_words else 1]
    thing = f"{metric.noun} {_prompts(reference, references)}"
    one = f"{those} {_prompts(first, words.first if all_words else words.first[:1])}"
    two = f"{those} {_prompts(second, words.second if all_words else words.second[:1])}"
    near, far = (one, two) if gap > 0 else (two, one)
    nearer = f"{thing} are nearer to {near} than to {far}"
    if state == "no gap":
        return f"No gap: {thing} are as near to {one} as to {two}."
    whether = f"{thing} are nearer to {one} or to {two}"
    if state == "no interval":
        n, unit = as_int(row.get("n_prompts")), row.get("unit", "prompt")
        single = f"with a single {unit} there is no interval"
        few = f"{counted(n, unit)} are too few for an interval or a direction (it takes {FEWEST_PROMPTS})"
        why = single if n == 1 else few if few_prompts(row) else _reason(row)
        return (
            f"Whether {whether} cannot be told: {why}. The gap of these images is {amount(gap, metric, True)}; "
            f"nothing follows beyond them."
        )
    if state == "small":
        return (
            f"No difference larger than δ = {amount(row.get('delta'), metric)}: {thing} are as near to {one} as to "
            f"{two}, to within δ."
        )
    if state == "open":
        bound = max(abs(as_float(row.get("ci_low"))), abs(as_float(row.get("ci_high"))))
        return (
            f"The interval holds 0: whether {whether} is open. The gap between "
            f"them is smaller than {amount(upward(bound, metric), metric)}, either way."
        )
    if state == "untested":
        return f"Whether {whether} cannot be told: no words were run that tell a lean from two words being two words."
    if state == "words" and verdict.turned:
        return (
            f"Whether {whether} cannot be told: the gap between these words and the gap over all words, less what "
            f"makes the words of one side odder than those of the other, point opposite ways."
        )
    if state == "words":
        adjusted = f", after adjustment over {family}," if as_float(row.get("p_control")) < alpha else ""
        return (
            f"Whether {whether} cannot be told: the gap is{adjusted} not more than synonyms differ among "
            f"themselves."
        )
    hint = {
        "claim": "",
        "two words": _alone(verdict),
        "hint": f"A hint, from {_rests_on(verdict)}: ",
    }[verdict.licence]
    return f"{hint}{nearer if hint.endswith(': ') else _capital(nearer)}."


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


def _tag(row: dict, verdict: GapVerdict, metric: Metric, contrast: tuple[str, str]) -> str:
    """The card's state in a few words."""
    if verdict.direction:
        near = f"nearer to {contrast[0] if verdict.direction > 0 else contrast[1]}"
        return near + {"claim": "", "hint": ", a hint", "two words": ", two words"}[verdict.licence]
    return {
        "undefined": "undefined",
        "no gap": "no gap",
        "no interval": "no interval",
        "small": f"no difference above {amount(row.get('delta'), metric)}",
        "open": "open",
        "untested": "not compared with words",
        "words": "not more than words differ",
    }[verdict.state]


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


def _alone(verdict: GapVerdict) -> str:
    return "About these two words alone: " if verdict.alone else ""


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
