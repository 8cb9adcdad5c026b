"""The page docs/validation/stopping.md and its figure, from what `lab.validate.stopping` stores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from analysis.report.figures.style import DASHES, DOUBLE, FAINT, INK, PALETTE, Drawn, new_figure, style
from lab.templates import render
from lab.validate.stopping.designs import (
    DESIGNS,
    EVERY,
    FEWEST,
    FIXED,
    FIXED_FEW,
    FIXED_MOST,
    GROUPS,
    MOST,
    PEEKING,
    STOPS,
    STOPS_BOUNDED,
)
from lab.validate.stopping.objects import DELTA as OBJECTS_DELTA
from lab.validate.stopping.simulation import WORDS_DELTA, WORDS_WIDTH
from lab.validate.stopping.stakes import FEW, PAIRS_DELTA, STAKES
from lab.validate.stopping.worlds import DELTA, REACH, SEEDS
from lab.validate.tracing.coverage import templates
from probes.prompts.plan import noise_seed

FIGURE = "stopping"
TYPE_I, COVERAGE = 0.055, 0.945  # what is missed is bold
ERROR = 0.05
INDEPENDENT = "independent"
APART = 4  # Monte Carlo errors of the mean gap of a world in which nothing leans, beyond which it is told
SHORT = {
    STOPS: "stops itself",
    STOPS_BOUNDED: "whole range",
    FIXED_FEW: FIXED_FEW,
    FIXED_MOST: FIXED_MOST,
    GROUPS: "O’Brien–Fleming",
    PEEKING: "peeking",
}
NORMAL = {0.0: "normal", DELTA: "normal, at δ", 0.5: "normal, d_z 0.5", 1.0: "normal, d_z 1"}
Result = Mapping[str, Any]


def rate(row: Mapping[str, int], name: str) -> dict[str, float | bool]:
    """Return the share of audits, its Monte Carlo error, and whether it is beyond what was promised."""
    share = row[name] / row["audits"]
    missed = {"wrong": share > TYPE_I, "covered": share < COVERAGE}.get(name, False)
    return {"share": share, "error": float(np.sqrt(share * (1 - share) / row["audits"])), "missed": missed}


def label_of(row: Mapping[str, Any]) -> str:
    """Return the name of a world, with the measure where it has several."""
    return ", ".join(str(row[key]) for key in ("world", "measure", "question") if key in row)


def chosen(result: Result, part: str, *, leaning: bool) -> list[dict[str, Any]]:
    """Return the rows of one part, of worlds in which something leans or nothing does."""
    return [row for row in result["rows"] if row["part"] == part and (row["truth"] != 0) == leaning]


def misses(result: Result) -> Iterator[dict[str, Any]]:
    """Yield each world in which audits that stop themselves are wrong, or do not cover, more often than promised."""
    for row in result["rows"]:
        if row["part"] == "stakes" or row.get("refused"):
            continue
        for design in (STOPS, STOPS_BOUNDED):
            for name in ("wrong", "covered"):
                if design in row["designs"]:
                    found = rate(row["designs"][design], name)
                    if found["missed"]:
                        yield {"world": row, "design": design, "of": name, **found}


def bars(result: Result) -> dict[str, Any]:
    """Return what real runs take: ranges over models that lean, and over those in which nothing does, in percent."""
    leaning, nulls = (chosen(result, "runs", leaning=leaning) for leaning in (True, False))
    if not (leaning and nulls):
        return {}
    designs = [row["designs"] for row in leaning]
    own = [100 * of[STOPS]["mean"] / FIXED for of in designs]
    few, found = (
        [100 * of[name]["leans"] / of[name]["audits"] for of in designs] for name in (FIXED_FEW, STOPS)
    )
    whole = [of[STOPS_BOUNDED]["mean"] / of[STOPS]["mean"] for of in designs]
    return {
        **{
            name: (min(some), max(some))
            for name, some in (
                *(("leaning", own), ("few", few), ("found", found), ("whole", whole)),
                ("wald", [fastest(row["d_z"]) for row in leaning]),
            )
        },
        "shared": _small([row for row in nulls if result["pools"][row["world"]]["noise"] != INDEPENDENT]),
        "independent": _small(
            [row for row in nulls if result["pools"][row["world"]]["noise"] == INDEPENDENT]
        ),
    }


def _small(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the least share of audits that are told to be small, and the range of prompts, in percent."""
    own = [row["designs"][STOPS] for row in rows]
    prompts = [100 * of["mean"] / FIXED for of in own] or [np.nan]
    return {
        "small": min((100 * of["small"] / of["audits"] for of in own), default=np.nan),
        "share": (min(prompts), max(prompts)),
    }


def fastest(d_z: float) -> float:
    """Return the mean prompts of Wald's sequential test of a direction, which knows effect and spread beforehand."""
    return float(2 * np.log(2 / ERROR) / d_z**2)


def noises() -> tuple[int, int]:
    """Return how many images of a word the longest run draws with the most seeds, and how many noises they have."""
    drawn = [(prompt, seed) for prompt in templates(MOST) for seed in range(max(SEEDS))]
    return len(drawn), len({noise_seed(*one) for one in drawn})


def page(result: Result) -> str:
    """Return the page."""
    some = next(row for row in result["rows"] if row["part"] == "prompts")
    return render(
        "stopping",
        parts={
            (part, leaning): chosen(result, part, leaning=leaning)
            for part in ("prompts", "seeds", "given", "words", "objects", "runs", "fresh")
            for leaning in (False, True)
        },
        asked={
            kind: [row for row in result["rows"] if row.get("question") == kind]
            for kind in ("direction", "interval")
        },
        compared=[row for row in result["rows"] if row["part"] == "stakes"],
        stakes=STAKES,
        noises=noises(),
        few=FEW,
        widths={"words": WORDS_WIDTH, "objects": OBJECTS_DELTA, "stakes": PAIRS_DELTA},
        designs=DESIGNS,
        short=SHORT,
        stops=(STOPS, STOPS_BOUNDED),
        looking=(STOPS, STOPS_BOUNDED, GROUPS, PEEKING),
        seeded=[name for name in DESIGNS if name != STOPS_BOUNDED],
        seeded_looking=(STOPS, GROUPS, PEEKING),
        rate=rate,
        label_of=label_of,
        misses=list(misses(result)),
        pools=result["pools"],
        bars=bars(result),
        apart=[row for row in result["rows"] if "gap" in row and abs(row["gap"][0]) > APART * row["gap"][1]],
        **{"fewest": FEWEST, "every": EVERY, "most": MOST, "fixed": FIXED, "delta": DELTA},
        **{"words_delta": WORDS_DELTA, "reach": REACH, "audits": some["designs"][STOPS]["audits"]},
    )


def draw_stopping(result: Result) -> Drawn:
    """Draw intervals of two audits as they go on, error rates of all worlds, and prompts by the size of an effect."""
    with style():
        figure = new_figure(DOUBLE, 2.6)
        paths, errors, prompts = figure.subplots(1, 3, width_ratios=(1.15, 1, 1))
        _paths(paths, result["paths"])
        _errors(errors, result["rows"])
        _prompts(prompts, {row["world"]: row for row in result["rows"] if row["part"] == "prompts"})
    caption = (
        "Left: the interval of one audit of each of two models at each look; a dot where it stopped. Middle: how often"
        " a direction is claimed in worlds in which nothing leans, a dot a world. Right: prompts that are expected, by"
        " the size of the effect, in normal worlds."
    )
    return Drawn(FIGURE, figure, "Audits that stop themselves, beside other designs", caption, wide=True)


def _paths(axes: Any, paths: Mapping[str, Mapping[str, Any]]) -> None:
    axes.axhline(0, color=INK, lw=0.6)
    for number, (name, path) in enumerate(paths.items()):
        n, gap, low, high = np.array(path["looks"], float).T
        drawn = np.isfinite(low) & np.isfinite(high)
        axes.fill_between(n[drawn], low[drawn], high[drawn], color=PALETTE[number], alpha=0.2, lw=0)
        axes.plot(n, gap, color=PALETTE[number], ls=DASHES[number], label=name)
        if path["stopped"]:
            at = list(n).index(path["stopped"])
            axes.plot(n[at], gap[at], "o", color=PALETTE[number], ms=5)
    axes.set_ylim(-0.3, 0.5)
    axes.set_xlabel("prompts")
    axes.set_ylabel("gap (z₀)")
    axes.legend(loc="upper right")


def _errors(axes: Any, rows: Sequence[Mapping[str, Any]]) -> None:
    axes.axvline(5, color=INK, lw=0.6)
    for place, design in enumerate(reversed(DESIGNS)):
        shares = sorted(
            100 * rate(row["designs"][design], "wrong")["share"]
            for row in rows
            if row["truth"] == 0
            and design in row["designs"]
            and row["part"] in ("prompts", "words", "objects")
        )
        lift = np.linspace(-0.22, 0.22, 5)[np.arange(len(shares)) % 5]
        axes.plot(
            shares,
            place + lift,
            "o",
            ms=3,
            mfc="none",
            mec=PALETTE[0 if design in (STOPS, STOPS_BOUNDED) else 1],
        )
    axes.set_yticks(range(len(DESIGNS)), [SHORT[design] for design in reversed(DESIGNS)])
    axes.set_xlim(left=-1)
    axes.set_xlabel("type I error, %")


def _prompts(axes: Any, rows: Mapping[str, Mapping[str, Any]]) -> None:
    for number, design in enumerate((STOPS, GROUPS, PEEKING)):
        means = [rows[name]["designs"][design]["mean"] for name in NORMAL.values()]
        axes.plot(
            list(NORMAL),
            means,
            marker="o",
            ms=3,
            color=PALETTE[number],
            ls=DASHES[number],
            label=SHORT[design],
        )
    axes.axhline(FIXED, color=FAINT, lw=0.8)
    axes.set_ylim(0, MOST)
    axes.set_xlabel("effect, standard deviations")
    axes.set_ylabel("prompts, mean")
    axes.legend(loc="upper right")
