"""Wu et al., Tables 7–9: what p-values alone tell of the chi-square tests behind them."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from lab.papers.tables import read_table

EXPLICIT = ("explicitly guided", "explicitly independent")


def p_values(folder: Path | None = None) -> pd.DataFrame:
    """Tables 7–9: model, dataset, comparison, group, op, p."""
    columns = ["model", "dataset", "comparison", "group", "op", "p"]
    return read_table("wu2025_tables7to9_chi_square", columns, numeric=["p"], folder=folder)


def chi_square_block(folder: Path | None = None) -> tuple[str, str, pd.DataFrame]:
    """The p-values counted."""
    table = p_values(folder)
    lines = []
    for group, of_group in table.groupby("group", sort=False):
        for name, chosen in (
            ("COCO", of_group[of_group["dataset"] == "COCO"]),
            ("others", of_group[of_group["dataset"] != "COCO"]),
        ):
            values = chosen["p"]
            lines.append(
                {
                    "group": group,
                    "datasets": name,
                    "p-values": str(len(chosen)),
                    "below 0.05": str(int((values < 0.05).sum())),
                    "0.05 to 0.95": str(int(((values >= 0.05) & (values <= 0.95)).sum())),
                    "above 0.95, below 1": str(int(((values > 0.95) & (values < 1)).sum())),
                    "1": str(int((values == 1).sum())),
                }
            )
    return (
        "P-values of Tables 7–9, counted",
        "Chi-square tests of section 5.2 on the counts of Eq. 3, by dependency group, over three models.",
        pd.DataFrame(lines),
    )


def chi_square_findings(folder: Path | None = None) -> list[str]:
    """Return what the p-values alone show."""
    table = p_values(folder)
    hidden = table[table["group"] == "hidden"]
    calm = table[table["group"].isin(EXPLICIT) & (table["dataset"] != "COCO")]
    alone = calm[calm["comparison"] == "triplet"]["p"]
    caps = calm[(calm["dataset"] == "TextCaps") & (calm["group"] == "explicitly guided")]["p"]
    repeated = []
    for (model, dataset, group), chosen in table[(table["op"] == "=") & (table["p"] < 1)].groupby(
        ["model", "dataset", "group"], sort=False
    ):
        twice = chosen["p"][chosen["p"].duplicated()]
        repeated += [f"{model} {dataset} {group} ({value:g})" for value in twice]
    return [
        f"Tables 7–9, hidden: all {int((hidden['p'] == 1).sum())} of {len(hidden)} p-values are 1. The "
        f"members of a triplet name the same nouns but for the word for the person, so their counts nearly "
        f"coincide by construction and the test has hardly anything to find.",
        f"Tables 7–9, explicit groups outside COCO: {len(calm)} p-values, none below {calm['p'].min():g}; "
        f"the smallest of the {len(alone)} triplet rows is {alone.min():g}. TextCaps, explicitly guided: "
        f"all {len(caps)} are at least {caps.min():g}. In uniform p-values {len(alone)} independent rows "
        f"would have a minimum of {alone.min():g} or more with probability "
        f"{(1 - alone.min()) ** len(alone):.2f}, and twelve of at least {caps.min():g} are not what "
        f"independent samples give: there the counts of the prompt sets agree more closely than that. "
        f"Members of a triplet share nouns and noise, while chi-square takes the prompt sets as "
        f"independent.",
        f"Tables 7–9: the same p-value stands twice in a block in {len(repeated)} places "
        f"({'; '.join(repeated)}). It can be chance or a slip of copying; the printed numbers do not tell.",
    ]
