"""The page on known answers of an audit by professions, from what was measured."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from scipy import stats

from lab.templates import render
from lab.validate.dalleval.answers import AIM, LEVEL
from lab.validate.dalleval.coverage import covered

READERS = {
    "leans": ("leans", "the checker"),
    "asked": ("leans", "the answering network"),
    "tones": ("tones", "the observer of skin tone"),
    "tones_by_checker": ("tones", "the checker"),
}


def page(result: Mapping[str, Any]) -> str:
    """Return the page in Markdown, from `lab.validate.dalleval.__main__.measured`."""
    total = len(result["professions"])
    least = math.ceil(AIM * total)
    return render(
        "dalleval_answers",
        **result,
        readers=READERS,
        whole=covered(result),
        least=least,
        aim=AIM,
        often=stats.binom.sf(least - 1, total, LEVEL),
    )
