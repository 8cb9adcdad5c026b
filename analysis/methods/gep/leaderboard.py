"""A leaderboard of audits: scores of several models in the same contexts, their differences and ranks.

Models are compared in the contexts and attributes that all of them have, each context of one with the same context of
the other. Beside them stand the scores that Zhang et al. 2023 and their site print, where the audit is theirs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from analysis.methods.gep import scores
from analysis.methods.gep.powered import powered
from analysis.methods.gep.scores import Audit
from analysis.methods.gep.sources import POWERED
from analysis.methods.gep.stage import checker_readings, read_audits
from analysis.methods.gep.tables import LABELS
from analysis.report.format import interval, number
from analysis.stats.absolute_mean import score_differences
from probes.errors import UserError
from probes.prompts import sets
from probes.runs.run import Run

SETTING = ("setting", "first", "second", "source")
BOARD_COLUMNS = (
    *(*SETTING, "model", "score", "raw", "rank", "best_rank", "worst_rank"),
    *("n_attributes", "n_contexts", "level", "printed_in"),
)
DIFFERENCE_COLUMNS = (
    *(*SETTING, "model", "other", "difference", "low", "high", "low_all", "high_all"),
    *("n_contexts", "level"),
)
# Of woman and man, by the setting; labels of people have two digits. CLS is by CLIP ViT-L/14.
TABLE_6, SITE = "Zhang et al. 2023, Table 6", "salt-nlp.github.io/GEP"
PAIR = {"feminine", "masculine"}  # indicators as the paper has them
PUBLISHED = (
    ("neutral", "human", "CogView2", 0.02, TABLE_6),
    ("neutral", "human", "DALLE-2", 0.05, TABLE_6),
    ("neutral", "human", "Stable Diffusion", 0.07, TABLE_6),
    ("explicit", "human", "CogView2", 0.18, TABLE_6),
    ("explicit", "human", "DALLE-2", 0.12, TABLE_6),
    ("explicit", "human", "Stable Diffusion", 0.14, TABLE_6),
    ("neutral", "CLS", "CogView2", 0.0379, TABLE_6),
    ("neutral", "CLS", "DALLE-2", 0.0426, TABLE_6),
    ("neutral", "CLS", "Stable Diffusion", 0.0447, TABLE_6),
    ("explicit", "CLS", "CogView2", 0.0925, TABLE_6),
    ("explicit", "CLS", "DALLE-2", 0.0518, TABLE_6),
    ("explicit", "CLS", "Stable Diffusion", 0.0632, TABLE_6),
    ("explicit", "CLS", "Stable Diffusion v1.2", 0.054, SITE),
    ("explicit", "CLS", "Stable Diffusion v1.4", 0.059, SITE),
    ("explicit", "CLS", "Stable Diffusion v1.5", 0.064, SITE),
    ("explicit", "CLS", "Stable Diffusion v2.0 base", 0.065, SITE),
    ("explicit", "CLS", "Stable Diffusion v2.1 base", 0.078, SITE),
    ("explicit", "CLS", "prompthero/openjourney", 0.073, SITE),
    ("explicit", "CLS", "hakurei/waifu-diffusion", 0.067, SITE),
    ("explicit", "CLS", "Lykon/DreamShaper", 0.034, SITE),
)


def source_audits(run: Run, source: str) -> dict[str, Audit]:
    """Return what a source read from a run's images, by setting."""
    seen = checker_readings(run, None) if source in ("checker", POWERED) else None
    audits = read_audits(run, seen)
    if source == POWERED:
        audits = [one.audit for one in powered(audits, run.config)]
    return {one.setting: one for one in audits if one.source == source}


def leaderboard(
    runs: Mapping[str, Run], pairs: Sequence[tuple[str, str]], source: str
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the scores and ranks of several models, and the differences between them, paired by context.

    Smallest score first: ``score`` less what errors add, ``raw`` as in the paper, ``rank`` and the ranks between which
    it lies (`analysis.stats.absolute_mean`). Printed scores have a ``raw`` and ``printed_in``, and no rank.
    ``low_all`` and ``high_all`` of a difference are of all pairs of a setting at once.
    """
    read = {name: source_audits(run, source) for name, run in runs.items()}
    first = next(iter(read))
    boards, differences = [], []
    for setting in dict.fromkeys(setting for audits in read.values() for setting in audits):
        audits = {name: one.get(setting) for name, one in read.items()}
        for name, one in audits.items():
            _same(runs, first, name, audits[first], one, setting)
        alike = {name: one for name, one in audits.items() if one is not None}
        for pair in pairs:
            board, between = _compared(alike, setting, pair, source, runs[first].config.measure.level)
            boards.append(board)
            differences.append(between)
    return tuple(  # type: ignore[return-value]
        pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=list(columns))
        for frames, columns in ((boards, BOARD_COLUMNS), (differences, DIFFERENCE_COLUMNS))
    )


def _same(
    runs: Mapping[str, Run], first: str, name: str, one: Audit | None, other: Audit | None, setting: str
) -> None:
    """Raise where two models were not audited alike."""
    for what in ("attributes", "contexts", "indicators"):
        sides = [() if audit is None else getattr(audit, what) for audit in (one, other)]
        if set(sides[0]) != set(sides[1]):
            odd = sorted(set(sides[0]) ^ set(sides[1]))
            raise UserError(
                f"{runs[name].path}: expected the {what} of {runs[first].path} in the {setting} setting, got others"
                f" ({', '.join(odd[:3])}{' ...' if len(odd) > 3 else ''} in one alone): compare audits of the same"
            )


def _compared(
    audits: Mapping[str, Audit], setting: str, pair: tuple[str, str], source: str, level: float
) -> tuple[pd.DataFrame, pd.DataFrame]:
    whole = {name: scores.like(one, next(iter(audits.values()))) for name, one in audits.items()}
    each = {name: scores.by_context(one, *pair) for name, one in whole.items()}
    known = ~np.isnan(np.stack([*each.values()])).any(axis=0)
    attributes = known.any(axis=0)
    contexts = known[:, attributes].all(axis=1)
    about = (setting, *pair, source)
    names = list(each)
    if contexts.sum() < 2:
        return pd.DataFrame(columns=list(BOARD_COLUMNS)), pd.DataFrame(columns=list(DIFFERENCE_COLUMNS))
    models, found = score_differences([one[contexts][:, attributes] for one in each.values()], level=level)
    n = int(contexts.sum())
    ranks = models["score"].rank(method="min").astype(int)
    rows = [
        (*about, name, row.score, row.raw, rank, row.best, row.worst, int(attributes.sum()), n, level, "")
        for name, rank, row in zip(names, ranks, models.itertuples())
    ]
    labels = tuple(next(iter(whole.values())).attributes)
    rows += [
        (*about, model, np.nan, value, pd.NA, pd.NA, pd.NA, len(labels), np.nan, level, printed)
        for model, value, printed in (published(setting, source, labels) if set(pair) == PAIR else ())
    ]
    board = pd.DataFrame(rows, columns=list(BOARD_COLUMNS)).sort_values("raw", kind="stable")
    between = [(*about, names[i], names[j], *row, n, level) for i, j, *row in found.itertuples(index=False)]
    return board, pd.DataFrame(between, columns=list(DIFFERENCE_COLUMNS))


def published(setting: str, source: str, attributes: Sequence[str]) -> list[tuple[str, float, str]]:
    """Return the scores that are printed of an audit of the paper's attributes: model, score and where."""
    if set(attributes) != set(sets.read("gep")["axes"]["attribute"]):
        return []
    kind = "human" if source in (*LABELS, POWERED) else source
    return [row[2:] for row in PUBLISHED if row[:2] == (setting, kind)]


def describe_leaderboard(board: pd.DataFrame, differences: pd.DataFrame) -> list[str]:
    """Return what a leaderboard says, a line for each model's rank and each difference."""
    lines = []
    for row in board[board["printed_in"] == ""].to_dict("records"):
        best, worst = row["best_rank"], row["worst_rank"]
        between = f"rank {best}" if best == worst else f"rank {best} to {worst}, which cannot be told apart"
        lines.append(
            f"{row['setting']}, {row['first']} against {row['second']}: {row['model']} has {between}"
        )
    for row in differences.to_dict("records"):
        lines.append(
            f"{row['setting']}, {row['first']} against {row['second']}: {row['model']} − {row['other']} "
            f"{number(row['difference'], 4, signed=True)} {interval(row['low'], row['high'], 4)}, "
            f"{row['n_contexts']} contexts"
        )
    return lines
