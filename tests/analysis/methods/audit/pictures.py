"""Small folders of pictures with labels, of chosen counts, for the tests of the audit."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from PIL import Image

PROMPTS = {"baseline": "A {} at work", "diverse": "A {} at work, any gender"}
LEVELS = ("nurse", "CEO", "pilot")
COUNTS = {
    ("a", "nurse", "baseline"): (10, 0, 0),
    ("a", "CEO", "baseline"): (0, 10, 0),
    ("a", "pilot", "baseline"): (3, 6, 1),
    ("a", "nurse", "diverse"): (7, 1, 2),
    ("a", "CEO", "diverse"): (10, 0, 0),
    ("a", "pilot", "diverse"): (5, 5, 0),
    ("b", "nurse", "baseline"): (5, 5, 0),
    ("b", "CEO", "baseline"): (6, 4, 0),
    ("b", "pilot", "baseline"): (4, 5, 1),
    ("b", "nurse", "diverse"): (6, 4, 0),
    ("b", "CEO", "diverse"): (5, 5, 0),
    ("b", "pilot", "diverse"): (0, 0, 10),
}


def table_of(counts: dict[tuple[str, str, str], tuple[int, int, int]]) -> pd.DataFrame:
    """Return labels of pictures: so many ``female``, ``male`` and ``both`` by model, profession and setting."""
    rows = []
    for (model, profession, setting), numbers in counts.items():
        answers = [
            answer for answer, n in zip(("female", "male", "both"), numbers, strict=True) for _ in range(n)
        ]
        rows += [
            {
                "model": model,
                "file": f"{model}/{profession}_{setting}_{number}.png",
                "prompt": PROMPTS[setting].format(profession),
                "profession": profession,
                "setting": setting,
                "read_as": answer,
            }
            for number, answer in enumerate(answers)
        ]
    return pd.DataFrame(rows)


def write_pictures(folder: Path, table: pd.DataFrame) -> Path:
    """Write a picture for each row, and the labels as ``labels.csv``; return its path."""
    for number, name in enumerate(dict.fromkeys(table["file"])):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (16, 16), (number % 256, 90, 120)).save(folder / name)
    table.to_csv(folder / "labels.csv", index=False)
    return folder / "labels.csv"
