"""The pages of docs/validation that begin with calibration, in Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from analysis.metrics.registry import METRICS, computed_from, headline_metrics
from analysis.study import indicators
from analysis.tables.similarities.stored import StoredSimilarities
from lab.templates import render
from lab.validate.models import scores as models_scores
from lab.validate.models.gaps import claims_together, headline_gaps, permuted_p_values, rejection_table
from probes.runs.run import Run
from probes.toyworld import BENCHMARK_MODELS, SYNONYMS, TRANSFORMERS

FAMILIES = {  # title, models in words and file of a page, by its models: the first leans, the last is the null
    BENCHMARK_MODELS: ("", "three bundled models", "calibration"),
    TRANSFORMERS: (
        " of diffusion transformers",
        "two bundled diffusion transformers",
        "calibration_transformers",
    ),
    SYNONYMS: (
        " where synonyms draw different pictures",
        "two bundled models whose synonyms draw different pictures",
        "calibration_synonyms",
    ),
}
NULLS = tuple(models[-1] for models in FAMILIES)
SCORES_TITLE = "## Bias scores against the benchmark model's own"
FEATURES_TITLE = "## Gaps by features"


def page(runs: Sequence[Run], scores: Sequence[tuple[Run, pd.DataFrame | None]] = ()) -> str:
    """Return the calibration page in Markdown; ``scores`` are runs with independent samples of their models."""
    family = next(models for models in FAMILIES if runs[0].config.model in models)
    return render(
        "calibration",
        head=head(family),
        base=family[0],
        gaps=_gaps({run.config.model: headline_gaps(run) for run in runs}),
        permuted=[permutation_section(run) for run in runs if run.config.model in NULLS],
        null=family[-1],
        scores_title=SCORES_TITLE,
        scores=[models_scores.section(run, sample) for run, sample in scores],
    )


def head(family: Sequence[str] = BENCHMARK_MODELS) -> str:
    """Return the head of the page of some models."""
    title, about, target = FAMILIES[tuple(family)]
    whole = tuple(family) == BENCHMARK_MODELS
    target = f"docs/validation/{target}.md"
    return render("calibration_head", models=family, title=title, about=about, whole=whole, target=target)


def _gaps(tables: dict[str, pd.DataFrame]) -> list[tuple[str, dict[str, Any]]]:
    """Return the main gaps of each model, beside those of the model with the lean if it is among them."""
    base = next((model for model in tables if model in [models[0] for models in FAMILIES]), None)
    reference = tables[base].set_index("quantity")["gap"] if base else {}
    rows = []
    for model, table in tables.items():
        for row in table[~table["quantity"].isin(_of_features())].to_dict("records"):
            beside = reference.get(row["quantity"])
            rows.append((model, row | {"ratio": abs(row["gap"] / beside) if beside else np.nan}))
    return rows


def _of_features() -> list[str]:
    """Symbols of the measures that have a section of their own."""
    return [METRICS[name].symbol for name in computed_from("features") if METRICS[name].site]


def features_section(runs: Sequence[Run]) -> str:
    """The section on gaps by features: those of each model, and how often synonyms differ."""
    symbols = _of_features()
    return render(
        "calibration_features",
        title=FEATURES_TITLE,
        prompts=max(int(run.samples(["triplet"])["triplet"].nunique()) for run in runs),
        gaps=[
            (run.config.model, row)
            for run in runs
            for row in headline_gaps(run).to_dict("records")
            if row["quantity"] in symbols
        ],
        permuted=[_permutations(run, of_features=True) for run in runs if run.config.model in NULLS],
    )


def permutation_section(run: Run) -> str:
    """Return the section on how often the tests reject in the null world, over all choices of words."""
    return render("calibration_exchanged", **_permutations(run, of_features=False))


def _permutations(run: Run, *, of_features: bool) -> dict[str, Any]:
    """Return how often the tests reject, by measure and for at least one of all that were tested."""
    names = [member.name for member in indicators(run.config)]
    p_values = permuted_p_values(StoredSimilarities(run), names)
    alone, together = claims_together(p_values)
    rows = rejection_table(p_values).to_dict("records")
    return {
        "words": len(names),
        "rejected": [row for row in rows if (row["quantity"] in _of_features()) == of_features],
        "measures": [metric.symbol for metric in headline_metrics() if metric.symbol in p_values],
        "alone": alone,
        "together": together,
    }
