"""Compare methods of localisation with benchmark models: ``python -m lab.validate.tracing [MODEL ...]``.

Generates what each method needs of each model and stores the numbers of every prompt.
"""

from __future__ import annotations

import sys
from typing import Any

from lab.measured import MeasuredPage
from lab.validate.tracing.certificates import PROMPTS, SEEDS, STEPS
from lab.validate.tracing.methods import templates
from lab.validate.tracing.page import values
from lab.validate.tracing.ranking import rank, rank_structure
from probes.models import loading
from probes.toyworld.places import known_places

CAPTIONS, SEED = 12, 1  # of located models


def measure(name: str) -> dict[str, Any]:
    """Scores of every method on one benchmark model."""
    pipe = loading.load(loading.resolve(name), device="cpu").pipe
    pipe.set_progress_bar_config(disable=True)
    if name in known_places("structures"):
        return {name: rank_structure(pipe, known_places("structures")[name], PROMPTS, SEEDS, STEPS)}
    return {name: rank(pipe, known_places("located")[name], templates(CAPTIONS, seed=SEED), STEPS)}


PAGE = MeasuredPage(
    "tracing",
    "lab.validate.tracing",
    "Compare methods of localisation with benchmark models whose place is known.",
    values,
    measure,
    (*known_places("located"), *known_places("structures")),
)

if __name__ == "__main__":
    sys.exit(PAGE.main())
