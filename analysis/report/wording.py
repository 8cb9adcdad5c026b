"""The findings in careful words, from rows of ``tables/gap``.

What may be said depends on the numbers (`analysis.report.verdict`): a gap whose interval holds 0 is no finding; one
that is not more than words of one meaning differ among themselves has no direction; one that rests on few words is a
hint; a gap of one prompt has no interval. Words are about prompts and images ("images generated from feminine
prompts"), never about people or causes.
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from analysis.metrics.registry import SPACES, Metric
from analysis.report.format import DASH, counted, interval, number, p_value
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
from analysis.stats.word_power import GapDesign
from analysis.tables.similarities.side_shares import SideShares

SHOWN = (  # columns that a card shows where the table has them
    *("delta", "p_control", "word_gap", "word_low", "word_high", "word_df", "p_permutation", "p_floor"),
    *("share_words", "share_references", "share_prompts", "n_effective", "n_changed", "unseen"),
)
UNSHOWN = (  # of so few prompts that there is nothing but the value
    *("ci_low", "ci_high", "p_value", "p_adjusted", "p_equivalent", "word_low", "word_high", "p_control"),
    "p_permutation",
)
MORE_WORDS = (3, 5, 8, 12)  # of a side and of the reference, of designs that a card proposes
LOW_FLOOR = 0.05  # a smallest possible p above this is worth a word
LONGEST_ANSWER = 30  # words


@dataclass(frozen=True)
class SpecificationRange:
    """How many specifications there are, and the smallest and largest gap over words among them."""

    count: int
    low: float
    high: float


@dataclass(frozen=True, repr=False)
class Finding:
    """One headline gap, in words and as shown numbers (keys as in the table's columns).

    ``against_words`` holds the gap against words of the same meaning; ``p_measures`` is that p, adjusted over the
    headline measures where it is ``adjusted``; ``specified``: the range of the gap over specifications; ``remarks`` are
    further sentences of the card; ``answer`` is the claim in at most `LONGEST_ANSWER` words, never a stronger one;
    ``shares`` the gap as a share of the distance between the sides, where that was read.
    """

    metric: Metric
    contrast: tuple[str, str]
    row: dict
    verdict: GapVerdict
    claim: str
    against_words: str
    tag: str
    p_measures: float = math.nan
    adjusted: bool = False
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
        return _float(self.row.get("gap"))

    @property
    def interval(self) -> tuple[float, float]:
        """Ends of the interval of `gap`; NaN of so few prompts that there is none."""
        return _float(self.row.get("ci_low")), _float(self.row.get("ci_high"))

    @property
    def p(self) -> float:
        """p-value of `gap` against 0."""
        return _float(self.row.get("p_value"))

    @property
    def word_gap(self) -> float:
        """Gap between all words of both sides; NaN where there is but one a side."""
        return _float(self.row.get("word_gap")) if self._over_words else math.nan

    @property
    def word_interval(self) -> tuple[float, float]:
        """Ends of the interval of `word_gap`, over words and prompts."""
        row = self.row if self._over_words else {}
        return _float(row.get("word_low")), _float(row.get("word_high"))

    @property
    def _over_words(self) -> bool:
        return defined(self.row.get("p_control"))

    def lines(self) -> list[str]:
        """Return the numbers in a line or two, and the claim."""
        (first, second), prompts = self.contrast, str(self.row.get("unit") or "prompt")
        own = self._numbers(self.gap, self.interval, self.p, "0")
        lines = [
            f"{self.metric.symbol}, {first} − {second}: {own}, {counted(_int(self.row['n_prompts']), prompts)}"
        ]
        if self._over_words:
            over_words = self._numbers(self.word_gap, self.word_interval, self.p_measures, "words")
            lines.append(f"over all words: {over_words}")
        return [*lines, self.claim]

    def _numbers(self, gap: float, ends: tuple[float, float], p: float, against: str) -> str:
        """A gap with its interval and p, as far as there are."""
        metric, unit = self.metric, f" {self.metric.gap_unit}" if self.metric.unit else ""
        shown = f" {interval(*ends, metric.digits)}" if defined(ends[0]) else ""
        tested = f", {p_value(p)} against {against}" if defined(p) else ""
        return f"gap {number(gap, metric.digits, signed=True)}{unit}{shown}{tested}"

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
    words: ContrastWords = NO_WORDS,
    alpha: float = 0.05,
    p_measures: float | None = None,
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
        p against words, adjusted over the headline measures; without it the row's own.
    specified : SpecificationRange, optional
        See `Finding`.
    primary : bool
        Whether this is the measure that the run is asked about first.
    """
    row = dict.fromkeys(SHOWN) | row
    if few_prompts(row):
        row |= dict.fromkeys(UNSHOWN, math.nan)
    verdict = judge(row, words, alpha=alpha, p_words=p_measures)
    adjusted = p_measures is not None
    p_measures = float(p_measures) if adjusted else _float(row.get("p_control"))
    return Finding(
        metric=metric,
        contrast=contrast,
        row=row,
        verdict=verdict,
        claim=_claim(row, verdict, metric, reference, contrast, words, alpha),
        against_words=_against_words(row, verdict, p_measures, contrast, alpha),
        tag=_tag(row, verdict, metric, contrast),
        p_measures=p_measures,
        adjusted=adjusted,
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
        more = "" if hint else ", by more than words of one meaning differ"
    elif state == "small":
        delta = _amount(row.get("delta"), metric)
        as_near = f"{thing} are as near to those of {first} as of {second} prompts"
        text = f"{alone}No difference larger than δ = {delta}: {as_near}"
        more = ", to within δ"
    elif state == "no gap":
        text = f"{alone}No gap: {thing} are as near to those of {first} as of {second} prompts"
    elif state == "open":
        bound = max(abs(_float(row.get("ci_low"))), abs(_float(row.get("ci_high"))))
        text = f"{alone}Open, since the interval holds 0: {whether}"
        more = f"; a gap beyond {_amount(_upward(bound, metric), metric)} is excluded"
    elif state == "words":
        text = f"{alone}Not known: {whether}"
        more = "; these words and all words point opposite ways"
        if not verdict.turned:
            adjusted = "after adjustment, " if _float(row.get("p_control")) < alpha else ""
            more = f"; {adjusted}the gap is no more than synonyms differ"
    elif state == "untested":
        text, more = f"{alone}Not known without a test against words: {whether}", ""
    elif state == "no interval":
        n, unit = _int(row.get("n_prompts")), row.get("unit", "prompt")
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
) -> str:
    gap, state = _float(row.get("gap")), verdict.state
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
        n, unit = _int(row.get("n_prompts")), row.get("unit", "prompt")
        single = f"with a single {unit} there is no interval"
        few = f"{counted(n, unit)} are too few for an interval or a direction (it takes {FEWEST_PROMPTS})"
        why = single if n == 1 else few if few_prompts(row) else _reason(row)
        return (
            f"Whether {whether} cannot be told: {why}. The gap of these images is {_amount(gap, metric, True)}; "
            f"nothing follows beyond them."
        )
    if state == "small":
        return (
            f"No difference larger than δ = {_amount(row.get('delta'), metric)}: {thing} are as near to {one} as to "
            f"{two}, to within δ."
        )
    if state == "open":
        bound = max(abs(_float(row.get("ci_low"))), abs(_float(row.get("ci_high"))))
        return (
            f"The interval holds 0: whether {whether} is open. The gap between "
            f"them is smaller than {_amount(_upward(bound, metric), metric)}, either way."
        )
    if state == "untested":
        return f"Whether {whether} cannot be told: no words were run that tell a lean from two words being two words."
    if state == "words" and verdict.turned:
        return (
            f"Whether {whether} cannot be told: the gap between these words and the gap over all words, less what "
            f"makes the words of one side odder than those of the other, point opposite ways."
        )
    if state == "words":
        adjusted = ", after adjustment over the measures," if _float(row.get("p_control")) < alpha else ""
        return (
            f"Whether {whether} cannot be told: the gap is{adjusted} not more than words of one meaning differ among "
            f"themselves."
        )
    hint = {
        "claim": "",
        "two words": _alone(verdict),
        "hint": f"A hint, from {_rests_on(verdict)}: ",
    }[verdict.licence]
    return f"{hint}{nearer if hint.endswith(': ') else _capital(nearer)}."


def _against_words(
    row: dict, verdict: GapVerdict, p_measures: float, contrast: tuple[str, str], alpha: float
) -> str:
    """Hold a gap against words that mean the same by its test over words, references and prompts."""
    p_control = _float(row.get("p_control"))
    if verdict.state == "undefined" or few_prompts(row):
        return ""
    if not defined(p_control):
        count = _int(row.get("n_controls"))
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
        text = f"More than {amid}, but not after adjustment over the measures."
    else:
        few = _int(row.get("word_df"))
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
        floor = _float(row.get("p_floor"))
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
        "small": f"no difference above {_amount(row.get('delta'), metric)}",
        "open": "open",
        "untested": "not compared with words",
        "words": "not more than words differ",
    }[verdict.state]


def _remarks(row: dict, verdict: GapVerdict) -> list[str]:
    """Further sentences: what so few prompts cannot show, and the run's own warnings."""
    n, unit, found = _int(row.get("n_prompts")), row.get("unit", "prompt"), []
    unseen = _float(row.get("unseen"))
    if verdict.state not in ("undefined", "no interval") and 0 < unseen < 1:
        such = "such prompts" if unit == "prompt" else "the seeds of this prompt"
        found.append(
            f"What changes at fewer than {100 * unseen:.0f} % of {such} may be missing among {counted(n, unit)}."
        )
    warning = row.get("warning")
    if isinstance(warning, str) and warning:
        found.append(_capital(warning) + ("" if warning.endswith(".") else "."))
    return found


def next_design(row: Mapping, verdict: GapVerdict, metric: Metric, *, alpha: float = 0.05) -> list[str]:
    """Return what gap a run could have found where it claims no direction, and which run would find one of δ.

    Parameters
    ----------
    row : mapping
        A row of ``tables/gap``; nothing is said where it has no error over words.
    verdict : GapVerdict
    metric : Metric
    alpha : float
        1 less the level of the run.

    Returns
    -------
    list of str
        One remark, or none. Powers are four in five, by simulation of the test with the errors of this run, see
        `analysis.stats.word_power.GapDesign`.
    """
    error = _float(row.get("word_error"))
    shares = [_float(row.get(f"share_{name}")) for name in ("words", "references", "prompts")]
    prompts = _int(row.get("n_prompts"))
    if verdict.state not in ("open", "words") or not all(map(defined, (error, *shares))) or prompts < 2:
        return []
    one, two, references = verdict.counts
    design = GapDesign.of(error, shares, words=(one, two), references=references, prompts=prompts)
    found, delta = design.detectable(alpha=alpha), _float(row.get("delta"))
    if not defined(found):
        return []
    least = _amount(_upward(found, metric), metric)
    text = f"With these words and prompts a gap of {least} is found in four runs of five."
    return [text + (_design_for(delta, design, metric, alpha) if delta < found else "")]


def _design_for(delta: float, design: GapDesign, metric: Metric, alpha: float) -> str:
    """How many prompts find a gap of δ with these words, and with more of them."""
    prompts, known = design.prompts_for(delta, alpha=alpha), min(design.words)
    more = ((words, design.resized(words=words).prompts_for(delta, alpha=alpha)) for words in MORE_WORDS)
    words, fewer = next(((words, n) for words, n in more if words > known and n), (0, 0))
    to_find = f" To find one of δ = {_amount(delta, metric)} so often takes"
    with_more = f"{words} words a side and of the reference"
    if prompts and fewer and fewer < prompts:
        return f"{to_find} about {_rounded(prompts)} prompts, or {_rounded(fewer)} with {with_more}."
    if prompts:
        return f"{to_find} about {_rounded(prompts)} prompts."
    if fewer:
        return f"{to_find} {with_more} and about {_rounded(fewer)} prompts; with these words no number does."
    return f"{to_find} more than {MORE_WORDS[-1]} words a side."


def _upward(value: float, metric: Metric) -> float:
    """A bound with the digits of the metric, rounded up: what is said of it holds."""
    return math.ceil(value * 10**metric.digits) / 10**metric.digits


def _rounded(count: int) -> str:
    """A number of prompts to two digits, upward."""
    unit = 10 ** max(0, len(str(count)) - 2)
    return f"{math.ceil(count / unit) * unit:,}"


def _prompts(name: str, words: tuple[str, ...]) -> str:
    """Prompts of an indicator, with its words."""
    return f"{name} prompts" + (f" ({', '.join(words)})" if words else "")


def _rests_on(verdict: GapVerdict) -> str:
    one, two, references = verdict.counts
    return f"{counted(one, 'word')} against {two} and {counted(references, 'reference word')}"


def _alone(verdict: GapVerdict) -> str:
    return "About these two words alone: " if verdict.alone else ""


def _amount(value: float | None, metric: Metric, signed: bool = False) -> str:
    return number(_float(value), metric.digits, signed) + (f" {metric.gap_unit}" if metric.unit else "")


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


def not_run(absent: Sequence[Metric], missing: Mapping[str, str]) -> list[str]:
    """Return why measures have no numbers, those of one reason together.

    Parameters
    ----------
    absent : sequence of Metric
        Those without numbers.
    missing : mapping of str to str
        By the name of what did not observe the images, why (``not_observed`` of a run's record).

    Examples
    --------
    >>> from analysis.metrics.registry import METRICS
    >>> not_run(
    ...     [METRICS["clip"], METRICS["dino"], METRICS["ssim"]], dict.fromkeys(("clip", "dino"), "no weights")
    ... )
    ['CLIP, DINO not run: no weights']
    """
    reasons: dict[str, list[str]] = {}
    for metric in absent:
        if why := missing.get(metric.metric):
            reasons.setdefault(why.replace("`", ""), []).append(metric.symbol)
    return [f"{', '.join(symbols)} not run: {why}" for why, symbols in reasons.items()]
