"""Summary of the findings that change with a choice, in lines of text."""

from __future__ import annotations

import pandas as pd

from analysis.report.format import interval, number, p_value


def summary(table: pd.DataFrame) -> str:
    """Return what changes, one line per choice and finding."""
    lines = []
    for choice, rows in table.groupby("choice", sort=False):
        settings = list(dict.fromkeys(rows["setting"]))
        other = rows[rows["changes"] != ""]
        groups = rows[(rows["kind"] == "groups") & ~rows["of_run"]]
        findings = rows.loc[rows["kind"] != "groups", ["kind", "what", "quantity"]].drop_duplicates()
        lines.append(
            f"{choice} ({', '.join(settings)}): {len(other)} of {(~rows['of_run']).sum() - len(groups)} values change, "
            f"{len(findings)} findings"
        )
        for row in groups.to_dict("records"):
            lines.append(f"  {row['setting']}: {row['value']:.0f} {row['reason']} are {row['quantity']}")
        for row in other.to_dict("records"):
            value = f"{number(row['value'], signed=True)} {interval(row['ci_low'], row['ci_high'])}"
            words = (
                f", against words {p_value(row['p_control'])}" if row["p_control"] == row["p_control"] else ""
            )
            lines.append(
                f"  {row['setting']}: {row['what']}, {row['quantity']}: {row['changes']}; {value}{words}"
            )
    return "\n".join(lines)
