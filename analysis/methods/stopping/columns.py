"""Columns of ``tables/stopping``: what each look of a run that stops found."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from analysis.methods.stopping.gaps import SequentialGap
from analysis.methods.stopping.question import StopQuestion

VERSION = "stopping/1"
NOT_YET = "too few prompts to rule anything out"
COLUMNS = (
    *("look", "n_prompts", "n_left_out", "measure", "metric", "contrast", "gap", "low", "high", "level"),
    *("prompts_low", "prompts_high", "words_half", "e_value", "p_anytime", "within", "answer", "reason"),
    "version",
)


def looks_table(question: StopQuestion, path: Iterable[SequentialGap]) -> pd.DataFrame:
    """Return one row per look with `COLUMNS`; their meanings are in ``columns.csv``."""
    rows = []
    for number, look in enumerate(path):
        answer = question.answer(look)
        ends = {name: getattr(look, name) for name in ("low", "high", "prompts_low", "prompts_high")}
        unbounded = not np.isfinite([ends["low"], ends["high"]]).all()
        rows.append(
            {
                "look": number,
                **{name: getattr(look, name) for name in COLUMNS if hasattr(look, name)},
                **{name: getattr(question, name) for name in ("measure", "metric", "level", "within")},
                **{name: value if np.isfinite(value) else np.nan for name, value in ends.items()},
                "contrast": "-".join(question.contrast),
                "p_anytime": min(1.0, 1 / look.e_value) if look.e_value > 0 else 1.0,
                "answer": dict(zip(("first", "second"), question.contrast)).get(answer, answer),
                "reason": NOT_YET if unbounded else "",
                "version": VERSION,
            }
        )
    return pd.DataFrame(rows, columns=list(COLUMNS))
