"""Coverage of ground truth by an audit of `toyworld-work`: leans by two readers, tones by two readings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from lab.validate.dalleval.answers import answer, shares_together
from lab.validate.dalleval.network_readings import network_leans

READ = ("leans", "asked", "tones", "tones_by_checker")


def answers(
    rows: Sequence[Mapping[str, Any]],
    readings: pd.DataFrame,
    verdict_rates: Mapping[str, float],
    rates: Mapping[str, float],
) -> dict[str, Any]:
    """Leans by the checker and by answers, and tones by both readings, of each profession and of all together.

    `readings` has the columns ``answer`` and ``observed``; `rates` are those of
    `lab.validate.dalleval.network_readings.answer_rates`.
    """
    by_checker = answer(rows, readings, verdict_rates)
    observed = answer(rows, readings.assign(skin=readings["observed"]), verdict_rates)
    asked = network_leans(
        readings, {row["profession"]: row["planted"] for row in observed["professions"]}, rates
    )
    shares = ([row[key] for row in asked] for key in ("share", "images", "planted"))
    return {
        "professions": [
            {**one, "asked": by_answers, "tone_by_checker": other["tone"]}
            for one, other, by_answers in zip(
                observed["professions"], by_checker["professions"], asked, strict=True
            )
        ],
        "together": {
            "leans": observed["together"]["leans"],
            "asked": shares_together(*shares, rates),
            "tones": observed["together"]["tones"],
            "tones_by_checker": by_checker["together"]["tones"],
        },
    }


def covered(found: Mapping[str, Any]) -> dict[str, list[str]]:
    """The professions whose planted value lies inside its interval, by name of `READ`, from `answers`."""
    table = found["professions"]
    inside = {
        "leans": [row["inside"] for row in table],
        "asked": [row["asked"]["inside"] for row in table],
        "tones": [row["tone"]["inside"] for row in table],
        "tones_by_checker": [row["tone_by_checker"]["inside"] for row in table],
    }
    return {name: [row["profession"] for row, one in zip(table, inside[name]) if one] for name in READ}
