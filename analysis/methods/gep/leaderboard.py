"""A leaderboard of audits: scores of several models in the same contexts, their differences and ranks.

Models are compared in the contexts and attributes that all of them have, each context of one with the same context of
the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from analysis.methods.gep import scores
from analysis.methods.gep.scores import Audit
from analysis.methods.gep.sources import POWERED
from analysis.methods.gep.stage import AuditReadings, read_sources
from analysis.stats.absolute_mean import score_differences
from analysis.tables.objects.detector_error import seen_by_checker
from probes.errors import UserError
from probes.runs.run import Run


def source_audits(run: Run, source: str) -> dict[str, Audit]:
    """Return what a source read from a run's images, by setting."""
    seen = seen_by_checker(run) if source in ("checker", POWERED) else None
    readings = AuditReadings(run, read_sources(run, seen))
    return {one.setting: one for one in readings.everything if one.source == source}


def leaderboard(
    runs: Mapping[str, Run], pairs: Sequence[tuple[str, str]], source: str
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the scores and ranks of several models, and the differences between them, paired by context.

    Smallest score first: ``score`` less what errors add, ``raw`` as in the paper, ``rank`` and the ranks between which
    it lies (`analysis.stats.absolute_mean`). ``low_all`` and ``high_all`` of a difference are of all pairs of a setting
    at once. Models that were not audited alike are a UserError.
    """
    read = {name: source_audits(run, source) for name, run in runs.items()}
    boards, differences = [pd.DataFrame()], [pd.DataFrame()]
    for setting in dict.fromkeys(setting for audits in read.values() for setting in audits):
        audits = {name: one.get(setting) for name, one in read.items()}
        first = next(iter(audits))
        for name, one in audits.items():
            _same(runs[first], runs[name], audits[first], one, setting)
        alike = [scores.like(one, audits[first]) for one in audits.values()]
        for pair in pairs:
            about = {"setting": setting, "first": pair[0], "second": pair[1], "source": source}
            board, between = _compared([*audits], alike, about, runs[first].config.measure.level)
            boards.append(board)
            differences.append(between)
    return pd.concat(boards, ignore_index=True), pd.concat(differences, ignore_index=True)


def _same(run: Run, other_run: Run, one: Audit | None, other: Audit | None, setting: str) -> None:
    """Raise where two models were not audited alike."""
    for what in ("attributes", "contexts", "indicators"):
        sides = [set() if audit is None else {*getattr(audit, what)} for audit in (one, other)]
        if odd := sorted(sides[0] ^ sides[1]):
            raise UserError(
                f"{other_run.path}: expected the {what} of {run.path} in the {setting} setting, got others"
                f" ({', '.join(odd[:3])}{' ...' if len(odd) > 3 else ''} in one alone): compare audits of the same"
            )


def _compared(
    models: list[str], audits: Sequence[Audit], about: Mapping[str, str], level: float
) -> tuple[pd.DataFrame, pd.DataFrame]:
    each = np.stack([scores.by_context(one, about["first"], about["second"]) for one in audits])
    known = ~np.isnan(each).any(axis=0)
    attributes = known.any(axis=0)
    contexts = known[:, attributes].all(axis=1)
    if contexts.sum() < 2:
        return pd.DataFrame(), pd.DataFrame()
    board, between = score_differences(list(each[:, contexts][..., attributes]), level=level)
    size = {"n_attributes": int(attributes.sum()), "n_contexts": int(contexts.sum()), "level": level}
    board["rank"] = board["score"].rank(method="min").astype(int)
    board = board.assign(**about, model=models, **size).rename(
        columns={"best": "best_rank", "worst": "worst_rank"}
    )
    names = {
        name: [models[place] for place in between[side]]
        for name, side in (("model", "first"), ("other", "second"))
    }
    return board.sort_values("raw", kind="stable"), between.assign(**names).assign(**about, **size)
