"""Sentences on objects (``templates/sentences/objects.j2``), from ``tables/object_claims``, ``table_tests`` and others.

Unhedged it is said of those alone that differ over prompts, by more than words of one side do, and behind the
detector's errors. Where nobody checked the detector it is a hint. That none differs after adjustment does not show that
none does; a chi-square whose conditions fail is quoted as the paper's, not relied on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from analysis.report.environment import phrase, sentence
from analysis.tables.objects.claims import ALIKE, DETECTOR, HEDGED, HINT, HOLDS, NOT_CHECKED, WORDS
from analysis.tables.objects.left_open import SHARED_NOISE

NAMED = 6  # objects named in a sentence


def looked_for(observer: Mapping[str, Any]) -> str:
    """Say what was looked for in each image, from the record of what observed a run's images.

    >>> looked_for({"tags": ["vocabulary", "prompt"], "vocabulary": "everyday", "vocabulary_tags": 976})
    '976 everyday nouns, and the nouns of each triplet’s prompts'
    >>> looked_for({"tags": ["prompt"]})
    'the nouns of each triplet’s prompts, and nothing else'
    """
    tags, vocabulary = list(observer.get("tags") or ()), observer.get("vocabulary") or ""
    return phrase("objects", "looked_for", tags, vocabulary, observer.get("vocabulary_tags"))


def claimed(claims: pd.DataFrame, *kinds: str) -> pd.DataFrame:
    """Rows of ``tables/object_claims`` of these kinds, in their order, the largest difference first."""
    chosen = claims[claims["claim"].isin(kinds)]
    rank = chosen["claim"].map({kind: place for place, kind in enumerate(kinds)}).to_numpy(int)
    return chosen.iloc[np.lexsort((-chosen["difference"].abs().to_numpy(), rank))]


def objects_opening(
    claims: pd.DataFrame,
    pair: tuple[str, str],
    *,
    words: tuple[int, int] = (WORDS, WORDS),
    unit: str = "prompt",
    alpha: float = 0.05,
) -> str:
    """Say how many objects differ between two sides of so many `words` each, which, and at which error rate.

    >>> row = {"object": "tie", "difference": 0.5, "p_objects": 0.01}
    >>> claims = pd.DataFrame([row | {"claim": "holds", "reason": ""}])
    >>> text = objects_opening(claims, ("feminine", "masculine"))
    >>> print(text)  # doctest: +NORMALIZE_WHITESPACE
    1 of 1 object differs (false discovery rate at most 5 %, Benjamini–Hochberg): over prompts and by more than words of
    one side differ among themselves (3 and 3 words). In more images generated from masculine prompts: tie.
    """
    shared = len(claims) > 0 and claims["reason"].str.endswith(SHARED_NOISE).all()
    values = {
        "n": len(claims),
        "pair": pair,
        "unit": unit,
        "alpha": alpha,
        "words": words,
        "few_words": min(words) < WORDS,
        "shared_noise": SHARED_NOISE if shared else "",
        "tested": claims["p_objects"].notna().any(),
        "untested": _untested(claims, unit),
        "beyond": int(((claims["claim"] == HINT) & (claims["reason"] == NOT_CHECKED)).sum()),
    }
    kinds = {"holds": HOLDS, "hedged": HEDGED, "hint": HINT, "detector": DETECTOR}
    return sentence(
        "objects",
        "opening",
        values | {name: _group(claimed(claims, kind), pair) for name, kind in kinds.items()},
    )


def _untested(claims: pd.DataFrame, unit: str) -> str:
    """How many objects were not tested, and why; empty where all were."""
    untested = claims[claims["p_objects"].isna()]
    alike = int((untested["reason"] == ALIKE).sum())
    kinds = {
        f"too rare: the two sides differ at too few {unit}s for a test": len(untested) - alike,
        f"in as many images of both sides at every {unit}": alike,
    }
    return "; ".join(f"{n} {'is' if n == 1 else 'are'} {kind}" for kind, n in kinds.items() if n)


def _group(rows: pd.DataFrame, pair: tuple[str, str]) -> dict[str, Any]:
    """Objects of one kind: how many, their names, and those of each side."""
    first, second = pair
    sides = [(second, rows[rows["difference"] > 0]), (first, rows[rows["difference"] < 0])]
    return {
        "n": len(rows),
        "names": _named(rows),
        "sides": [(name, _named(own)) for name, own in sides if len(own)],
    }


def _named(rows: pd.DataFrame) -> list[str]:
    more = [f"{len(rows) - NAMED} more"] if len(rows) > NAMED else []
    return [*rows["object"].head(NAMED), *more]


def told(row: Mapping[str, Any] | None, alpha: float) -> bool:
    """Tell whether the test of a row of ``tables/table_tests`` or ``tables/table07_chi_square`` rejects equality."""
    return row is not None and bool(row["p_value"] < alpha)
