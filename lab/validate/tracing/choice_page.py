"""The section of docs/validation/structures.md on a choice that no word makes, from `lab.validate.tracing.choice`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.methods.tracing.localisation import true_ranks
from analysis.stats.shares import shares
from probes.toyworld import CHOICES
from probes.toyworld.structures.truth import choices

RESAMPLES, SEED, LEVEL = 1000, 0, 0.95
SWAPS = ("values", "keys and values", "outputs", "outputs, first step")
OTHERS = "other cross-attentions"
(MODEL,) = CHOICES


def section(choice: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what the template is given; None where nothing is stored.

    Parameters
    ----------
    choice : mapping
        ``swaps`` and, where ICM was tried, ``probes``.
    """
    if not choice:
        return None
    swaps, place = choice["swaps"], choices()[MODEL].sites[0]
    total, sites = np.array(swaps["total"]), list(swaps["swaps"][SWAPS[0]])
    truth = np.array([site == place for site in sites])
    rows = []
    for name in SWAPS:
        values = np.array([swaps["swaps"][name][site] for site in sites]).T
        rows.append(_row(f"swap of {name}", values.mean(0) / total.mean(), truth, values))
    if probes := choice.get("probes"):
        accuracy = np.array([probes["accuracy"][site] for site in sites])
        steering = np.array([probes["steering"][site] for site in sites]).T
        rows += [
            _row("ICM: accuracy of a probe, best step", accuracy.max(1), truth),
            _row("ICM: accuracy of a probe, first step", accuracy[:, 0], truth),
            _row("ICM: steering along the probe, change of the verdict", steering.mean(0), truth, steering),
        ]
    outputs = swaps["swaps"]["outputs"]
    cross = [site for site in outputs if site not in sites]
    return {
        **{name: swaps[name] for name in ("prompts", "pairs", "steps")},
        "place": place,
        "shown": choices()[MODEL].sites[1],
        "sites": sites,
        "truth": truth.tolist(),
        "total": total.mean(),
        "error": total.std(ddof=1) / len(total) ** 0.5,
        "null": np.mean(swaps["null"]),
        "null_error": np.std(swaps["null"], ddof=1) / len(total) ** 0.5,
        "head": _share(swaps, "choosing head", place),
        "showing": _share(swaps, "showing place", choices()[MODEL].sites[1]),
        "others": max(map(abs, next(iter(swaps["swaps"][OTHERS].values())))),
        "cross": [(site, _two_digits(np.mean(outputs[site]) / total.mean())) for site in cross],
        "probed": probes,
        "rows": rows,
        "resamples": RESAMPLES,
    }


def _share(swaps: Mapping[str, Any], name: str, site: str) -> Any:
    return shares(np.array(swaps["swaps"][name][site])[:, None], swaps["total"], level=LEVEL)


def _two_digits(value: float) -> float:
    return float(value) if abs(value) >= 0.005 else 0.0  # none of them a negative nothing


def _row(
    label: str,
    means: NDArray[np.float64],
    truth: NDArray[np.bool_],
    values: NDArray[np.float64] | None = None,
) -> dict[str, Any]:
    """Return a line of the table: a number for each site, the rank of the true one, and how often it is the first."""
    first = None
    if values is not None:
        chosen = np.random.default_rng(SEED).integers(0, len(values), (RESAMPLES, len(values)))
        first = float((true_ranks(np.abs(values[chosen].mean(1)), truth) == 1).mean())
    rank = int(true_ranks(np.abs(means)[None], truth)[0])
    return {"label": label, "values": [_two_digits(one) for one in means], "rank": rank, "first": first}
