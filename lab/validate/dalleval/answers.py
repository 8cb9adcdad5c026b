"""Findings of an audit by professions beside the ground truth: leans, skins, and MAD beside its floor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from analysis.stats.mad_floor import mad_floor
from lab.validate.dalleval.network_readings import network_leans
from probes.toyworld.checker import SKIN_NAMES

LEVEL = 0.95
READERS = {  # by name: what is read, by whom, and where a profession's row has it
    "leans": ("leans", "the checker", ""),
    "asked": ("leans", "the answering network", "asked"),
    "tones": ("tones", "the observer of skin tone", "tone"),
    "tones_by_checker": ("tones", "the checker", "tone_by_checker"),
}


def mean_tone(skins: pd.Series, planted: Sequence[float], level: float = LEVEL) -> dict[str, float]:
    """Mean number of the palette's skin, 1 to 3, with Student's interval, beside the mean that probabilities give.

    ``unread`` counts images without a skin (empty text); the interval is NaN with fewer than two images.
    """
    numbers = (
        skins[skins != ""].map({name: number for number, name in enumerate(SKIN_NAMES, 1)}).to_numpy(float)
    )
    truth = float(np.dot(range(1, len(planted) + 1), planted))
    mean, low, high = (float(numbers.mean()) if len(numbers) else np.nan, np.nan, np.nan)
    if len(numbers) > 1:
        half = stats.t.ppf((1 + level) / 2, len(numbers) - 1) * numbers.std(ddof=1) / len(numbers) ** 0.5
        low, high = mean - half, mean + half
    return {
        "n": len(numbers),
        "unread": int((skins == "").sum()),
        "planted": truth,
        "mean": mean,
        "low": float(low),
        "high": float(high),
        "inside": bool(low <= truth <= high),
    }


def together(read: Sequence[float], planted: Sequence[float], variance: Sequence[float]) -> dict[str, float]:
    """Pearson's chi-square of means or shares of professions against what is planted, given their variances."""
    away = np.asarray(read, dtype=float) - planted
    known = ~np.isnan(away)
    statistic = float((np.square(away) / variance)[known].sum())
    df = int(known.sum())
    return {
        "statistic": round(statistic, 4),
        "df": df,
        "p": round(float(stats.chi2.sf(statistic, df)), 4) if df else np.nan,
    }


def shares_together(
    shares: Sequence[float], images: Sequence[int], leans: Sequence[float], rates: Mapping[str, float]
) -> dict[str, float]:
    """`together` of the shares read for *b*, whose planted values follow from the leans and a reader's rates."""
    chances = rates["a"] + (rates["b"] - rates["a"]) * np.asarray(leans)
    return together(shares, chances, chances * (1 - chances) / np.asarray(images))


def tones_together(
    skins: Mapping[str, pd.Series], planted: Mapping[str, Sequence[float]]
) -> dict[str, float]:
    """`together` of the mean numbers of the skins, by profession as `mean_tone` takes them."""
    numbers = np.arange(1, len(SKIN_NAMES) + 1)
    rows = []
    for name, chances in planted.items():
        said = mean_tone(skins[name], chances)
        variance = np.dot(numbers**2, chances) - said["planted"] ** 2
        rows.append((said["mean"], said["planted"], variance / max(said["n"], 1)))
    return together(*zip(*rows, strict=True))


def deviations(readings: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """Mean absolute deviation of professions from an even distribution, beside its floor, of images of *person*.

    Of ``component`` (two values, by the verdict), ``answered`` (by the answering network, where it was asked) and
    ``skin`` (three): the result of `analysis.stats.mad_floor.mad_floor` over all professions; ``above``: professions
    whose own p-value, adjusted by Benjamini and Hochberg, is below 0.05; ``differ``: p-value of Pearson's chi-square
    test that all professions have one distribution, even or not.
    """
    neutral = readings[(readings["group"] == "neutral") & (readings["profession"] != "")]
    by_verdict = np.where(neutral["verdict"] > 0, "b", "a")
    counted = {
        "component": _counts(neutral["profession"], by_verdict, ("a", "b")),
        "skin": _counts(neutral["profession"], neutral["skin"].to_numpy(), SKIN_NAMES),
    }
    if "answer" in neutral:
        counted["answered"] = _counts(neutral["profession"], neutral["answer"].to_numpy(), ("female", "male"))
    return {name: _deviation(table) for name, table in counted.items()}


def _counts(professions: pd.Series, values: np.ndarray, names: Sequence[str]) -> pd.DataFrame:
    return pd.crosstab(professions.to_numpy(), values).reindex(columns=list(names), fill_value=0)


def _deviation(counts: pd.DataFrame) -> dict[str, Any]:
    whole = mad_floor(counts.to_numpy())
    counted = counts[counts.sum(axis=1) > 0]
    single = [mad_floor(row).p_value for row in counted.to_numpy()]
    adjusted = stats.false_discovery_control(single) if single else []
    return {
        "value": whole.value,
        "floor": whole.floor,
        "excess": whole.excess,
        "p_value": whole.p_value,
        "images": int(counts.to_numpy().sum()),
        "without": int((counts.sum(axis=1) == 0).sum()),
        "shares": [round(float(share), 4) for share in counts.sum() / counts.to_numpy().sum()],
        "differ": float(stats.chi2_contingency(counted.loc[:, counted.any()], correction=False).pvalue),
        "above": [str(name) for name, p in zip(counted.index, adjusted) if p < 1 - LEVEL],
    }


def answers(
    rows: Sequence[Mapping[str, Any]],
    readings: pd.DataFrame,
    verdict_rates: Mapping[str, float],
    rates: Mapping[str, float],
) -> dict[str, Any]:
    """Leans by the checker and by answers, tones by the checker and the observer, of each profession and together.

    `rows` are those of `lab.train.work.measure.profession_rows`; `readings` have the columns ``skin``, ``answer`` and
    ``observed``; `rates` are those of `lab.validate.dalleval.network_readings.answer_rates`.
    """
    rows = [row for row in rows if row["profession"]]
    planted = {str(row["profession"]): row["skins"] for row in rows}
    asked = network_leans(readings, {row["profession"]: row["planted"] for row in rows}, rates)
    skins = {
        column: {str(name): some[column] for name, some in readings.groupby("profession")}
        for column in ("observed", "skin")
    }
    kept = ("profession", "planted", "images", "lean", "low", "high", "inside")
    return {
        "professions": [
            {key: row[key] for key in kept}
            | {"tone": mean_tone(skins["observed"][str(row["profession"])], row["skins"]), "asked": lean}
            | {"tone_by_checker": mean_tone(skins["skin"][str(row["profession"])], row["skins"])}
            for row, lean in zip(rows, asked, strict=True)
        ],
        "together": {
            "leans": shares_together(*_columns(rows), verdict_rates),
            "asked": shares_together(*_columns(asked), rates),
            "tones": tones_together(skins["observed"], planted),
            "tones_by_checker": tones_together(skins["skin"], planted),
        },
    }


def _columns(rows: Sequence[Mapping[str, Any]]) -> list[list[Any]]:
    return [[row[key] for row in rows] for key in ("share", "images", "planted")]


def covered(found: Mapping[str, Any]) -> dict[str, list[str]]:
    """The professions whose planted value lies inside its interval, by name of `READERS`, from `answers`."""
    return {
        name: [row["profession"] for row in found["professions"] if (row[part] if part else row)["inside"]]
        for name, (_, _, part) in READERS.items()
    }
