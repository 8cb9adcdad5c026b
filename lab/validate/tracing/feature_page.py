"""The page docs/validation/features.md, from what `lab.validate.tracing.features` stores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.stats.effects import student_interval
from lab.templates import render
from probes.toyworld.known_features.truth import ATTRIBUTES, SITE, THINGS, directions

LEVEL = 0.95
TRUTH = "truth"
Matrix = NDArray[np.float64]
OWN = np.eye(len(THINGS), dtype=bool)


def page(result: Mapping[str, Any]) -> str:
    """Return the page."""
    methods = result["methods"]
    changes = {name: _changes(result, one) for name, one in methods.items() if "added" in one}
    ceiling = changes[TRUTH]
    return render(
        "features",
        **{name: result[name] for name in ("prompts", "seeds", "steps", "labelled", "amount")},
        site=SITE,
        gram=[
            (THINGS[row], ["1" if row == column else _third(value) for column, value in enumerate(values)])
            for row, values in enumerate(directions() @ directions().T)
        ],
        things=THINGS,
        attributes=[_attribute(result, place) for place in range(len(THINGS))],
        recovery=[_recovered(name, one) for name, one in methods.items()],
        steering=[{"name": name, **steering(*found)} for name, found in changes.items()],
        against=[
            {"name": name, **against(found, ceiling, len(changes) - 1)}
            for name, found in changes.items()
            if name != TRUTH
        ],
        cells=int((~OWN).sum()),
    )


def _third(value: float) -> str:
    return "0" if abs(value) < 1e-9 else "−1/3"


def _changes(result: Mapping[str, Any], method: Mapping[str, Any]) -> tuple[Matrix, Matrix]:
    """Change of the share of images that show each attribute, ``(prompts, steered, read)``: added, and removed."""
    plain, words = np.array(result["plain"], float), np.array(result["words"], float)
    added, removed = np.array(method["added"], float) - plain, np.array(method["removed"], float) - words
    return tuple(values.transpose(1, 0, 2) / result["seeds"] for values in (added, removed))


def steering(added: Matrix, removed: Matrix) -> dict[str, Any]:
    """Return the scores of a method: change of the attribute itself, and of others.

    Parameters
    ----------
    added, removed : ndarray, shape (prompts, steered, read)
        Change of the share of images that show an attribute.

    Returns
    -------
    dict
        ``added`` and ``removed``: mean change of the steered attribute with its interval over prompts. ``side``: mean
        absolute change of the others, over both. ``largest``: the largest, with the attributes and an interval that
        holds for all cells at once (Bonferroni). ``told``: how many of these intervals do not hold 0.
    """
    both = np.concatenate([added, removed], 1)  # (prompts, 16, 8)
    side = np.concatenate([~OWN, ~OWN])
    ends = student_interval(both[:, side], level=1 - (1 - LEVEL) / side.sum())
    largest = int(np.abs(ends.mean).argmax())
    steered, read = np.argwhere(side)[largest]
    return {
        "added": interval(added[:, OWN].mean(1)),
        "removed": interval(removed[:, OWN].mean(1)),
        "side": float(np.abs(ends.mean).mean()),
        "largest": {
            "mean": ends.mean[largest],
            "low": ends.low[largest],
            "high": ends.high[largest],
            "way": "added" if steered < len(THINGS) else "removed",
            "steered": THINGS[steered % len(THINGS)],
            "read": THINGS[read],
        },
        "told": int(((ends.low > 0) | (ends.high < 0)).sum()),
    }


def against(found: tuple[Matrix, Matrix], ceiling: tuple[Matrix, Matrix], others: int) -> dict[str, Any]:
    """Return how far a method's effect stays behind the truth's, paired by prompt, at once for so many methods."""
    level = 1 - (1 - LEVEL) / (2 * others)
    apart = [(one - best)[:, OWN].mean(1) for one, best in zip(found, ceiling, strict=True)]
    return {"added": interval(apart[0], level), "removed": interval(apart[1], level)}


def interval(values: Matrix, level: float = LEVEL) -> dict[str, float]:
    """Return a mean over prompts with its interval (Student's t)."""
    ends = student_interval(values[:, None], level=level)
    return {"mean": ends.mean[0], "low": ends.low[0], "high": ends.high[0]}


def _recovered(name: str, method: Mapping[str, Any]) -> dict[str, Any]:
    row: dict[str, Any] = {"name": name, "directions": method["directions"]}
    for part in ("whole", "told"):
        cosine, other, near = (np.array(method[part][key]) for key in ("cosine", "other", "near"))
        row[part] = {
            "mean": cosine.mean(),
            "least": cosine.min(),
            "other": other.max(),
            "found": int((near > 0).sum()),
            "split": int((near > 1).sum()),
        }
    return row


def _attribute(result: Mapping[str, Any], place: int) -> dict[str, Any]:
    """Return how often images show an attribute: plain, by its word, by its direction, and with that taken out."""
    truth, whole = result["methods"][TRUTH], result["prompts"] * result["seeds"]
    counts = {
        "plain": np.array(result["plain"])[:, place],
        "word": np.array(result["words"])[place, :, place],
        "added": np.array(truth["added"])[place, :, place],
        "removed": np.array(truth["removed"])[place, :, place],
    }
    shares = {name: values.sum() / whole for name, values in counts.items()}
    return {"thing": THINGS[place], "word_of": list(ATTRIBUTES)[place], **shares}
