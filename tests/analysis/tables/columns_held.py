"""What a run's tables hold against what ``columns.csv`` says of their columns."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatch

import pandas as pd

from analysis.tables.registry import columns_of
from analysis.tables.spec import Column
from probes.runs.run import Run

INF = float("inf")
RANGES = {
    "0 to 1": (0, 1),
    "0 or 1": (0, 1),
    "-1 to 1": (-1, 1),
    "at most 1": (-1, 1),
    "percent": (0, 100),
    "0 to 100": (0, 100),
    "0 to ∞": (0, INF),
    "ratio, 1 to ∞": (1, INF),
    "times 100": (0, INF),
    "difference of frequencies": (-1, 1),
    "share": (0, 1),
    "share of images": (-1, 1),
}
COUNTS = ("counts", "detections", "images", "labels", "objects", "professions", "prompts", "steps")
ROUNDING = 1e-6


def misdescribed(run: Run) -> tuple[list[str], set[tuple[str, str]]]:
    """Return what does not fit, a line each, and the columns with values that were looked at, by table."""
    wrong, seen = [], set()
    for name in run.tables():
        table = run.table(name)
        known = columns_of(name)
        strange = {name for name in table if not any(fnmatch(name, column.name) for column in known)}
        if (
            run.config.unit == "seed"
            and list(table)[-1] == "unit"
            and set(table["unit"]) <= {"seed", "prompt"}
        ):
            strange.discard("unit")  # which the page of tables describes once for all
        wrong += [f"{name}: {column} is not described" for column in sorted(strange)]
        for column in known:
            values = table[column.name].dropna() if column.name in table else pd.Series([], dtype=object)
            if len(values):
                seen.add((name, column.name))
                wrong += [f"{name}.{column.name}: {line}" for line in wrong_values(values, column)]
    return wrong, seen


def wrong_values(values: pd.Series, column: Column) -> Iterator[str]:
    """Say in which way values without NaN are not those that are described."""
    numeric = pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values)
    if column.type == "true/false":
        if not values.isin([True, False]).all():
            yield f"expected true or false, got {values.iloc[0]!r}"
        return
    if numeric != (column.type != "text"):
        yield f"expected {column.type}, got {values.dtype}"
        return
    if column.type == "integer" and not (values == values.round()).all():
        yield f"expected whole numbers, got {values.iloc[0]!r}"
    counted = column.unit in COUNTS or (column.type == "integer" and column.unit)
    low, high = RANGES.get(column.unit, (0 if counted else -INF, INF))
    if numeric and not values.between(low - ROUNDING, high + ROUNDING).all():
        yield f"expected {column.unit}, got {values.min()} to {values.max()}"


ENDS_OF = {  # the estimate of intervals whose name is not the ends', or that stands elsewhere than before them
    "word_low": "word_gap",
    "images_low": "debiased",
    "average_images_low": "average",
    "gep_powered.low": "value",
}
NO_ESTIMATE = ("chance_low",)  # ranges of what else could have been seen


def outside(run: Run) -> tuple[list[tuple], set[tuple[str, str]]]:
    """Return rows whose estimate lies outside of its interval, and the intervals with ends that were looked at."""
    wrong, seen = [], set()
    for name in run.tables():
        table = run.table(name)
        columns = list(table.columns)
        for low in columns:
            if low.split("_")[-1] != "low" or low in NO_ESTIMATE:
                continue
            value = ENDS_OF.get(f"{name}.{low}", ENDS_OF.get(low, low.removesuffix("low").removesuffix("_")))
            value = value if value in columns else columns[columns.index(low) - 1]
            rows = table[[value, low, low.removesuffix("low") + "high"]].dropna().to_numpy(float)
            seen |= {(name, low)} if len(rows) else set()
            off = (rows[:, 0] < rows[:, 1] - 1e-9) | (rows[:, 0] > rows[:, 2] + 1e-9)
            wrong += [(name, low, *row) for row in rows[off].tolist()]
    return wrong, seen
