"""What may be said of objects, from rows of ``tables/object_tests``, ``table_tests`` and ``detector_error``.

An object that is more frequent for one word is *associated with* it. That none differs after adjustment does not show
that none does; a chi-square whose conditions fail is quoted as the paper's, not relied on.
"""

from __future__ import annotations

import pandas as pd

from analysis.wording import counted, defined, listed

SIGNIFICANT = 0.05
NAMED = 6  # objects named in a sentence


def differing(tests: pd.DataFrame) -> pd.DataFrame:
    """Objects whose paired difference of presence is significant after adjustment, the largest difference first."""
    found = tests[tests["p_bh"] < SIGNIFICANT]
    return found.iloc[(-found["difference"].abs()).argsort(kind="stable")]


def objects_opening(tests: pd.DataFrame, pair: tuple[str, str]) -> str:
    """Say how many objects differ between two indicators, and which.

    Parameters
    ----------
    tests : DataFrame
        Rows of ``tables/object_tests`` of one group and pair: ``object``, ``difference`` (second less first),
        ``p_value``, ``p_bh``.
    pair : (str, str)

    Examples
    --------
    >>> tests = pd.DataFrame(
    ...     {
    ...         "object": ["tie", "cup"],
    ...         "difference": [0.5, 0.0],
    ...         "p_value": [0.001, 1.0],
    ...         "p_bh": [0.002, 1.0],
    ...     }
    ... )
    >>> objects_opening(tests, ("feminine", "masculine"))
    'Of 2 objects that can be tested, 1 differs after adjustment. In more images generated from masculine prompts: tie.'
    """
    first, second = pair
    n, found = int(tests["p_value"].notna().sum()), differing(tests)
    if not n:
        return (
            f"No object can be tested: at every prompt each is in as many images generated from {first} as from "
            f"{second} prompts."
        )
    if found.empty:
        return (
            f"Of {counted(n, 'object')} that can be tested none differs between images generated from {first} and from "
            f"{second} prompts after adjustment. That does not show that there is no difference: it may be smaller "
            f"than these prompts can show."
        )
    verb = "differs" if len(found) == 1 else "differ"
    parts = [f"Of {counted(n, 'object')} that can be tested, {len(found)} {verb} after adjustment."]
    for name, side in ((second, found[found["difference"] > 0]), (first, found[found["difference"] < 0])):
        if len(side):
            more = len(side) - NAMED
            names = [*side["object"].head(NAMED), *([f"{more} more"] if more > 0 else [])]
            parts.append(f"In more images generated from {name} prompts: {listed(names)}.")
    return " ".join(parts)


def table_sentence(row: dict | None, pair: tuple[str, str]) -> str:
    """Say whether the objects as a whole differ, from a row of ``tables/table_tests`` (presence)."""
    first, second = pair
    if row is None or not defined(row["p_value"]):
        reason = f": {row['reason']}" if row and row["reason"] else ""
        return f"Whether the objects as a whole differ cannot be told{reason}."
    if row["p_value"] < SIGNIFICANT:
        return f"As a whole, the objects of images generated from {first} and from {second} prompts differ."
    return f"As a whole, the objects of {first} and {second} prompts’ images cannot be told apart."


def chi_square_sentence(row: dict | None) -> str:
    """Say what the paper's chi-square says and whether it holds, from a row of ``tables/table07_chi_square``."""
    if row is None or not defined(row["p_value"]):
        reason = f": {row['reason']}" if row and row["reason"] else ""
        return f"The paper’s chi-square test is undefined here{reason}."
    says = "rejects equality" if row["p_value"] < SIGNIFICANT else "does not reject equality"
    if row["warnings"]:
        return f"The paper’s chi-square test of pooled detections {says}, but does not hold here: {row['warnings']}."
    return f"The paper’s chi-square test of pooled detections {says}; nothing seen speaks against its conditions."


def detector_line(error: pd.DataFrame, check: pd.DataFrame, engine: str) -> str:
    """Say in a line what is known of the detector; the numbers stand in the card.

    Parameters
    ----------
    error, check : DataFrame
        ``tables/detector_error`` and ``tables/human_check``, or frames without rows.
    engine : str
    """
    if (error["quantity"] == "accuracy").any():
        return "The detector is the toyworld checker, so on these images it is its own truth."
    if len(error) or len(check):
        whom = "the toyworld checker" if len(error) else "people"
        return f"The detector ({engine}) was held against {whom}."
    return (
        f"Nobody has checked the detector ({engine}) on these images: if it sees less on those of one indicator, that "
        f"makes a difference of its own. `python -m analysis.objects sample` makes a sheet to check it with."
    )
