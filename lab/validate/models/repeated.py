"""Claims of the report over several runs of the benchmark models, beside the ground truth.

Each run is read as its report reads it (`lab.validate.models.claims`): every claim of a difference, and whether it
contradicts what was planted.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from scipy import stats

from analysis.report.figures.atlas import atlas_rows
from analysis.study import contrasts
from analysis.tables.registry import read
from lab.validate.models.claims import ATLAS, KINDS, Truth, said
from probes.runs.run import Run

LEVEL = 0.95  # of the intervals of rates over runs
APART = ("gep_score", ", attributes")  # a table by which runs are counted apart, and how they are named


def counted_claims(run: Run) -> dict:
    """The claims of a run's report, counted.

    ``false`` and ``unhedged``: how many claims contradict what was planted, and how many of these are no hint;
    ``cells`` of the atlas; ``small``: cards that say that nothing larger than δ is there; ``primary`` and ``right``:
    cards of the primary measure, and those with the planted direction (none, where none was planted).
    """
    truth = Truth(run)
    report = said(run, truth)
    primary = [card for card in report.cards if card.primary]
    gap = read(run, "gap") if "gap" in run.tables() else None
    atlas = [] if gap is None else [atlas_rows(gap, contrast)["gap"] for contrast in contrasts(run.config)]
    return {
        "model": run.config.model + (APART[1] if APART[0] in run.tables() else ""),
        "noise": run.config.sampler.noise,
        "claims": report.claims,
        "false": sum(claim.false for claim in report.claims),
        "unhedged": sum(claim.false and not claim.hedged for claim in report.claims),
        "cells": int(sum(gaps.notna().sum() for gaps in atlas)),
        "cards": len(report.cards),
        "small": sum(card.verdict.state == "small" for card in report.cards),
        "primary": len(primary),
        "right": sum(card.direction == truth.nearer(card.contrast, run.config.reference) for card in primary),
    }


def grouped_claims(runs: Sequence[Run]) -> list[dict]:
    """Claims of the reports of runs by model and ``sampler.noise``, as JSON takes it: a group each.

    ``any_false``, ``unhedged``, ``right``, ``small``: ``hits`` of ``n`` runs or cards; ``share`` of the cells of the
    atlas that are filled, in percent; ``kinds``: claims, hints and false ones by kind.
    """
    table = pd.DataFrame([counted_claims(run) for run in runs])
    return [_group(*names, own) for names, own in table.groupby(["model", "noise"], sort=False)]


def _group(name: str, noise: str, runs: pd.DataFrame) -> dict:
    """Claims of the reports of all runs of a model and a kind of noise."""
    filled = sum(claim.kind == ATLAS for own in runs["claims"] for claim in own)
    kinds = []
    for kind in KINDS:
        of_kind = [[claim for claim in own if claim.kind == kind] for own in runs["claims"]]
        of_all = [claim for own in of_kind for claim in own]
        counts = {
            "kind": kind,
            "claims": len(of_all),
            "hedged": sum(claim.hedged for claim in of_all),
            "false": sum(claim.false for claim in of_all),
            "runs_false": sum(any(claim.false for claim in own) for own in of_kind),
        }
        kinds += [counts] if of_all else []
    return {
        "name": name,
        "noise": noise,
        "runs": len(runs),
        "any_false": {"hits": int((runs["false"] > 0).sum()), "n": len(runs)},
        "unhedged": {"hits": int((runs["unhedged"] > 0).sum()), "n": len(runs)},
        "right": {"hits": int(runs["right"].sum()), "n": int(runs["primary"].sum())},
        "small": {"hits": int(runs["small"].sum()), "n": int(runs["cards"].sum())},
        "share": round(float(100 * filled / max(runs["cells"].sum(), 1)), 1),
        "kinds": kinds,
    }


def rate(hits: int, n: int) -> dict:
    """A rate with its exact interval (Clopper and Pearson 1934)."""
    if not n:
        return {"hits": hits, "n": n, "share": None, "low": None, "high": None}
    interval = stats.binomtest(hits, n).proportion_ci(LEVEL, method="exact")
    return {"hits": hits, "n": n, "share": hits / n, "low": float(interval.low), "high": float(interval.high)}
