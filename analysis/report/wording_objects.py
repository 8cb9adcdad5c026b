"""Sentences on objects, from rows of ``tables/object_claims``, ``table_tests`` and ``detector_error``.

An object that is more frequent for one word is *associated with* it. Unhedged it is said of those alone that differ
over prompts, by more than words of one side do, and behind the detector's errors; the sentence names the error rate.
Where nobody checked the detector it is a hint, and each object carries the tipping point from which the detector alone
would make it. That none differs after adjustment does not show that none does; a chi-square whose conditions
fail is quoted as the paper's, not relied on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from analysis.report.format import counted, listed, over
from analysis.report.wording import defined
from analysis.tables.objects.claims import DETECTOR, HEDGED, HINT, HOLDS, NOT_CHECKED, WORDS
from analysis.tables.objects.shared_noise import SHARED_NOISE

NAMED = 6  # objects named in a sentence


def looked_for(observer: Mapping[str, Any]) -> str:
    """Say what was looked for in each image, from the record of what observed a run's images.

    >>> looked_for({"tags": ["vocabulary", "prompt"], "vocabulary": "everyday", "vocabulary_tags": 976})
    '976 everyday nouns, and the nouns of each triplet’s prompts'
    >>> looked_for({"tags": ["prompt"]})
    'the nouns of each triplet’s prompts, and nothing else'
    """
    tags = list(observer.get("tags") or ())
    names = [_source(kind, observer) for kind in tags]
    if tags == ["prompt"]:
        names.append("nothing else")
    return ", and ".join(names) if names else "what the record of this run does not say"


def _source(kind: str, observer: Mapping[str, Any]) -> str:
    """Return what one source of tags gives for an image."""
    if kind == "prompt":
        return "the nouns of each triplet’s prompts"
    if kind == "checker":
        return "everything there is in the toy world"
    if kind == "ram":
        return "the tags that Recognize Anything gives each image"
    name, count = observer.get("vocabulary"), observer.get("vocabulary_tags")
    number = f"{count:,} " if count else ""
    return {
        "everyday": f"{number}everyday nouns",
        "toyworld": f"the {number}things of the toy world",
    }.get(name, f"the {number}tags of {name}")


def claimed(claims: pd.DataFrame, *kinds: str) -> pd.DataFrame:
    """Rows of ``tables/object_claims`` of these kinds, in their order, the largest difference first."""
    chosen = claims[claims["claim"].isin(kinds)]
    rank = chosen["claim"].map({kind: place for place, kind in enumerate(kinds)}).to_numpy(int)
    return chosen.iloc[np.lexsort((-chosen["difference_words"].abs().to_numpy(), rank))]


def objects_opening(
    claims: pd.DataFrame, pair: tuple[str, str], *, unit: str = "prompt", alpha: float = 0.05
) -> str:
    """Say how many objects differ between two sides, which, at which error rate and by which tests.

    >>> row = {
    ...     "words_first": 3,
    ...     "words_second": 3,
    ...     "n_differ": 9,
    ...     "p_corrected": 0.001,
    ...     "p_claim_adjusted": 0.01,
    ... }
    >>> tie = row | {
    ...     "object": "tie",
    ...     "difference_words": 0.5,
    ...     "p_pooled": 0.001,
    ...     "claim": "holds",
    ...     "claim_reason": "",
    ... }
    >>> print(
    ...     objects_opening(pd.DataFrame([tie]), ("feminine", "masculine"))
    ... )  # doctest: +NORMALIZE_WHITESPACE
    1 of 1 object differs (false discovery rate at most 5 %, Benjamini–Hochberg over the objects tested): over prompts,
    by more than words of one side differ among themselves (3 and 3 words), and behind the detector’s known errors.
    In more images generated from masculine prompts: tie.
    """
    first, second = pair
    objects, holding = counted(len(claims), "object"), claimed(claims, HOLDS)
    if len(claims) and (claims["claim_reason"].str.endswith(SHARED_NOISE)).all():
        return (
            f"No object can be tested: {SHARED_NOISE}. Draw each prompt from its own noise "
            "(sampler: {noise: own}) to test what differs."
        )
    untested = _untested(claims, unit)
    if not claims["p_claim_adjusted"].notna().any():
        return f"No object can be tested{untested and ': '}{untested}."
    words = tuple(int(claims[f"words_{side}"].max()) for side in ("first", "second"))
    rate = f"(false discovery rate at most {100 * alpha:g} %, Benjamini–Hochberg over the objects tested)"
    parts = []
    if len(holding):
        verb = "differs" if len(holding) == 1 else "differ"
        checked = ", and behind the detector’s known errors" if holding["p_corrected"].notna().all() else ""
        beyond = f"by more than words of one side differ among themselves ({words[0]} and {words[1]} words)"
        joined = f"{over(unit)}, " if checked else f"{over(unit)} and "
        parts.append(f"{len(holding)} of {objects} {verb} {rate}: {joined}{beyond}{checked}.")
        parts += _sides(holding, pair)
    hedged = claimed(claims, HEDGED)
    if len(hedged):
        licence = (
            _few_words(words)
            if min(words) < WORDS
            else ("but perhaps by no more than words of one side differ among themselves")
        )
        # the rate is that of all objects found to differ; among the hedged alone it can be higher
        shared = rate.replace("%,", "% together with those above,") if parts else rate
        parts.append(
            f"For these words alone {len(hedged)}{' more' if parts else f' of {objects}'} "
            f"{'differs' if len(hedged) == 1 else 'differ'} {shared}, {licence}."
        )
        parts += _sides(hedged, pair)
    hints = claimed(claims, HINT)
    if len(hints):
        parts += _hints(hints, objects, rate, words, pair, unit)
    detector = claimed(claims, DETECTOR)
    if len(detector):
        names = [*detector["object"].head(NAMED), *_more(detector)]
        whose = "whose difference" if len(detector) == 1 else "whose differences"
        parts.append(
            f"Not counted, since the detector’s errors may make it: {listed(names)}, {whose} as detected "
            "would be significant."
        )
    if not len(holding) and not len(hedged) and not len(hints):
        these = "these prompts" if unit == "prompt" else "these seeds of one prompt"
        none = (
            f"None of {objects} differs between images generated from {first} and from "
            f"{second} prompts {rate}. That does not show that there is no difference: it may be smaller than "
            f"{these} can show."
        )
        parts.insert(0, none)
    return " ".join([*parts, f"Of the others {untested}."] if untested else parts)


def _untested(claims: pd.DataFrame, unit: str) -> str:
    """How many objects were not tested, and why; empty where all were."""
    untested = claims[claims["p_claim_adjusted"].isna()]
    alike = int((untested["n_differ"] == 0).sum())
    differ = f"too rare: the two sides differ at too few {unit}s for a test"
    kinds = {differ: len(untested) - alike, f"in as many images of both sides at every {unit}": alike}
    return "; ".join(f"{n} {'is' if n == 1 else 'are'} {kind}" for kind, n in kinds.items() if n)


def _hints(
    hints: pd.DataFrame, objects: str, rate: str, words: tuple[int, int], pair: tuple[str, str], unit: str
) -> list[str]:
    """Say what differs as detected, and from which errors on a detector that nobody checked would make it."""
    beyond = int((hints["claim_reason"] == NOT_CHECKED).sum())
    if min(words) < WORDS:
        licence = _few_words(words)
    elif beyond < len(hints):
        licence = f"{beyond} of them by more than words of one side differ among themselves"
    else:
        licence = f"by more than words of one side differ among themselves ({words[0]} and {words[1]} words)"
    verb = "is" if len(hints) == 1 else "are"
    return [
        f"A hint, no finding, since nobody checked the detector on {'it' if len(hints) == 1 else 'them'}: "
        f"{len(hints)} of {objects} {verb} detected at different rates {rate}, "
        f"{over(unit)}; {licence}.",
        *_sides(hints, pair, tipping_point),
        "In brackets is what would explain it without any difference in the images: how many times as often the "
        "detector would have to see the object in these as in the others, or in which share of the images without it "
        "it would have to be invented; then the same for the end of the interval.",
    ]


def tipping_point(row: Mapping[str, Any]) -> str:
    """Return what errors of the detector would explain a row of ``tables/object_claims``, and the interval's end.

    >>> row = {"tipping_sensitivity": 3.0, "tipping_sensitivity_bound": 1.667}
    >>> tipping_point(row | {"tipping_false": 0.222, "tipping_false_bound": 0.11})
    '3.0 times or 22 %; 1.7 times or 11 %'
    >>> tipping_point(row | {"tipping_sensitivity": np.inf, "tipping_false": 0.2, "tipping_false_bound": 0.1})
    'seen in these alone or 20 %; 1.7 times or 10 %'
    """
    return "; ".join(
        f"{_times(row[f'tipping_sensitivity{end}'])} or {100 * row[f'tipping_false{end}']:.0f} %"
        for end in ("", "_bound")
    )


def _times(ratio: float) -> str:
    return f"{ratio:.1f} times" if np.isfinite(ratio) else "seen in these alone"


def _few_words(words: tuple[int, int]) -> str:
    if words == (1, 1):
        return "one against one: what the choice of words makes is open"
    return f"{words[0]} against {words[1]}: too few to tell what the choice of words makes"


def _sides(
    rows: pd.DataFrame, pair: tuple[str, str], beside: Callable[[Mapping[str, Any]], str] | None = None
) -> list[str]:
    """A sentence a side; in brackets behind each object what stands beside it."""
    first, second = pair
    found = []
    for name, lean in ((second, rows["difference_words"] > 0), (first, rows["difference_words"] < 0)):
        if lean.any():
            named = rows[lean].head(NAMED)
            texts = [f" ({beside(row)})" if beside else "" for row in named.to_dict("records")]
            names = [*(f"{name}{text}" for name, text in zip(named["object"], texts)), *_more(rows[lean])]
            found.append(f"In more images generated from {name} prompts: {listed(names)}.")
    return found


def _more(rows: pd.DataFrame) -> list[str]:
    return [f"{len(rows) - NAMED} more"] if len(rows) > NAMED else []


def table_sentence(
    row: dict | None,
    pair: tuple[str, str],
    *,
    checked: bool = True,
    held: bool = False,
    alpha: float = 0.05,
) -> str:
    """Say whether the objects as a whole differ, from a row of ``tables/table_tests`` (presence).

    `checked`: whether anything is known of the detector's errors; `held`: whether a difference of some object is
    claimed over all words of the sides. The test itself is of one word against one, and by itself a hint.
    """
    first, second = pair
    if row is None or not defined(row["p_value"]):
        reason = f": {row['reason']}" if row and row["reason"] else ""
        return f"Whether the objects as a whole differ is open{reason}."
    if told(row, alpha):
        if not checked:
            return (
                f"As a whole, what was detected in images generated from {first} and from {second} prompts differs. "
                "That is a hint, no finding: nobody checked the detector, which may see less on those of one side, and "
                "one word stands against one here."
            )
        if held:
            return (
                f"As a whole, the objects of images generated from {first} and from {second} prompts differ, and those "
                "named above by more than words of one side do."
            )
        return (
            f"A hint, about these two words alone: as a whole, the objects of images generated from {first} and from "
            f"{second} prompts differ. Two synonyms can differ as well, and no object is claimed above for "
            "all words of the sides."
        )
    return f"As a whole, the objects of {first} and {second} prompts’ images cannot be distinguished."


def told(row: Mapping[str, Any] | None, alpha: float) -> bool:
    """Tell whether the test of a row of ``tables/table_tests`` or ``tables/table07_chi_square`` rejects equality."""
    return row is not None and bool(row["p_value"] < alpha)


def chi_square_sentence(row: dict | None, alpha: float = 0.05) -> str:
    """Say what the paper's chi-square says and whether it holds, from a row of ``tables/table07_chi_square``."""
    if row is None or not defined(row["p_value"]):
        reason = f": {row['reason']}" if row and row["reason"] else ""
        return f"The paper’s chi-square test is undefined here{reason}."
    says = "rejects equality" if told(row, alpha) else "does not reject equality"
    if row["warnings"]:
        return f"The paper’s chi-square test of pooled detections {says}, but does not hold here: {row['warnings']}."
    words = (
        ", of one word against one: a hint, as two synonyms can differ as well" if told(row, alpha) else ""
    )
    test = f"The paper’s chi-square test of pooled detections {says}{words}"
    return f"{test}; nothing seen speaks against its conditions."


def detector_line(error: pd.DataFrame, check: pd.DataFrame, engine: str) -> str:
    """Say in a line what is known of the detector; the numbers stand in the card."""
    if (error["quantity"] == "accuracy").any():
        return "The detector is the toyworld checker, so on these images it is its own truth."
    if len(error) or len(check):
        whom = "the toyworld checker" if len(error) else "people"
        return f"The detector ({engine}) was compared with {whom}."
    return (
        f"Nobody has checked the detector ({engine}) on these images: if it sees less on those of one indicator, that "
        f"makes a difference of its own. `triptych labels sheet` makes a sheet to check it with."
    )
