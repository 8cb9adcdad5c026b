"""Zhang et al. 2023 (GEP): Table 3 from Tables 11–14, the floors of its scores, and the smaller tables."""

from __future__ import annotations

import pandas as pd
from scipy import stats

from lab.papers.compare import Paper, PrintedTable, compared, paired
from lab.papers.gep_floors import IMAGES, SEEDS, attribute_counts, different_attributes, floors
from lab.papers.tables import read_table, read_values

AMPLIFIED = {"CogView2": 15, "DALLE-2": 9, "Stable Diffusion": 11}  # section 5, attributes of 15
SCORE, CONTEXT_CELLS = (
    ["setting", "model"],
    15 * SEEDS,
)  # a score's index; readings behind a score of one context


def paper() -> Paper:
    """Everything the page says of this paper."""
    tests, scores = different_attributes(), floors()
    shares = {key: one.floor / one.value for key, one in scores.items() if one.excess > 0}
    found = {
        "images": IMAGES,
        "floors": [
            (setting, model, one, int((tests.loc[(setting, model), "p_adjusted"] < 0.05).sum()))
            for (setting, model), one in scores.items()
        ],
        "differing": tests.loc[("neutral", "CogView2")].query("p_adjusted < 0.05").reset_index(),
        "least": min(shares, key=shares.get),
        "most": max(shares, key=shares.get),
        "shares": shares,
        "others": max(one.p_value for one in scores.values() if one.excess > 0),
    }
    return Paper("GEP (Zhang et al. 2023)", printed_tables(), found)


def printed_tables() -> list[PrintedTable]:
    """Every table that follows from another, with its recomputed cells."""
    counts = attribute_counts()
    difference = (counts["woman"] - counts["man"]) / IMAGES
    printed = read_values("gep2023_table3", *SCORE, "gep_human")
    vectors = read_values("gep2023_table13_14_gep_vectors", *SCORE, "attribute", "difference")
    average = read_values("gep2023_printed_averages", "model", "quantity", "average")
    mean = counts.groupby(level=SCORE, sort=False).mean() / IMAGES
    auc = read_values("gep2023_table16_auc_by_attribute", "estimator", "model", "auc")
    auc = auc.groupby(level=["estimator", "model"], sort=False).mean()
    table7 = read_values("gep2023_table7_auc", "estimator", "model", "auc")
    context = read_values("gep2023_table15_by_context", *SCORE, "context_number", "gep_human")

    def score(values: pd.Series) -> pd.Series:
        return values.abs().groupby(level=SCORE, sort=False).mean()

    size = (counts["woman"] - counts["man"]).abs().unstack("setting")
    amplified = (size["explicit"] > size["neutral"]).groupby(level="model").sum()
    frequencies = [
        ((model, setting, word), average[model, f"frequency, {setting}, {word}"], mean.loc[key, word])
        for key in mean.index
        for setting, model in [key]
        for word in ("woman", "man")
    ]
    aucs = [((m, e), average[m, f"AUC, {e}"], value) for (e, m), value in auc.items()]
    return [
        compared("GEP", "3 from 11, 12", "Eq. 1, 2", 2, paired(printed, score(difference))),
        compared("GEP", "3 from 13, 14", "Eq. 2", 2, paired(printed, score(vectors))),
        compared("attributes amplified", "section 5", "Eq. 2", 0, paired(pd.Series(AMPLIFIED), amplified)),
        compared("Kendall's tau with people", "6", "section 6", 3, _ranks()),
        compared("woman − man", "13, 14 from 11, 12", "Eq. 2", 2, paired(vectors, difference)),
        compared("average frequency", "11, 12", "Eq. 1", 2, frequencies),
        compared(
            "score of a context: nearest k/75",
            "15",
            "Eq. 2",
            2,
            paired(context, (context * CONTEXT_CELLS).round() / CONTEXT_CELLS),
        ),
        compared("average AUC", "16", "section 6", 2, aucs),
        compared("average AUC", "7 from 16", "section 6", 2, paired(table7.round(2), auc)),
    ]


def _ranks() -> list[tuple[str, float, float]]:
    """Kendall's tau of Table 6 from its own scores."""
    numeric = ["score", "rank", "estimator_kendall_tau"]
    table = read_table("gep2023_table6_scores", ["estimator", *SCORE, *numeric], numeric=numeric)
    by_estimator = {name: rows.set_index(SCORE) for name, rows in table.groupby("estimator", sort=False)}
    human = by_estimator.pop("GEP_human")["rank"]
    return [
        (
            name,
            rows["estimator_kendall_tau"].iloc[0],
            stats.kendalltau(rows["score"].rank(), human[rows.index]).statistic,
        )
        for name, rows in by_estimator.items()
    ]
