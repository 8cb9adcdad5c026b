"""Columns of the table ``race``: what each look of a race found of each entrant."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from analysis.methods.stopping.race.looks import RaceLook
from analysis.methods.stopping.race.question import RaceQuestion
from analysis.stats.elimination import OPEN

VERSION = "race/1"
LEFT, IN = "left", "in"
COLUMNS = (
    *("look", "entrant", "n_prompts", "n_left_out", "n_images", "measure", "metric", "contrast"),
    *("gap", "low", "high", "rival", "lead", "lead_low", "lead_high", "level", "within", "state", "version"),
)


def race_table(question: RaceQuestion, looks: Iterable[RaceLook]) -> pd.DataFrame:
    """Return one row per look and entrant that was left before it, with `COLUMNS`.

    ``gap``, ``low``, ``high``: of the entrant for itself, as in its table ``stopping``. ``rival``: who is surely ahead
    of it, else the one of the others over which its lead is the smallest; ``lead``, ``lead_low`` and ``lead_high``: how
    far it is ahead of that one, with an interval that holds for all pairs and looks together. ``state``: ``left`` at
    this look, ``in``, or at the last one ``won``, ``tied`` or ``open``. An end is NaN where nothing is ruled out yet.
    """
    rows = []
    found = list(looks)
    for number, look in enumerate(found):
        last = number == len(found) - 1
        for one, gap in look.gaps.items():
            rival = look.standing.left.get(one)
            if rival is None:
                rival = min((r for r in look.gaps if r != one), key=lambda r: look.lead(one, r).estimate)
            ended = look.standing.ended
            state = LEFT if one in look.standing.left else ended if ended != OPEN else "open" if last else IN
            numbers = {
                **{name: np.nan if gap is None else getattr(gap, name) for name in ("gap", "low", "high")},
                **dict(zip(("lead", "lead_low", "lead_high"), look.lead(one, rival))),
            }
            rows.append(
                {
                    "look": number,
                    "entrant": question.entrants[one].name,
                    "n_prompts": look.standing.look,
                    "n_left_out": look.standing.look if gap is None else gap.n_left_out,
                    "n_images": look.images,
                    "measure": question.asked.measure,
                    "metric": question.asked.metric,
                    "contrast": "-".join(question.asked.contrast),
                    **{name: value if np.isfinite(value) else np.nan for name, value in numbers.items()},
                    "rival": question.entrants[rival].name,
                    "level": question.asked.level,
                    "within": question.asked.within,
                    "state": state,
                    "version": VERSION,
                }
            )
    return pd.DataFrame(rows, columns=list(COLUMNS))
