"""Are runs that stop by themselves wrong more often than promised? ``python -m lab.validate.statistics.stopping``.

Simulated audits look after 12 prompts and after every 8 more, at most 240, and stop once their question (to which side
does the gap lean, or is it smaller than δ?) is answered by the project's own interval. Writes
docs/validation/stopping.json and the page.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.methods.stopping.gaps import MEASURE, RUN, SequentialGap, gap_after
from analysis.methods.stopping.question import FIRST, GAP, OPEN, SECOND, StopQuestion
from analysis.stats.confidence_sequences import sequence_interval
from analysis.stats.word_test import prompt_gaps
from analysis.tables.similarities.word_gap import SideWords
from lab.templates import render
from lab.validate.statistics import worlds
from lab.validate.statistics.rates import AT_LEAST, AT_MOST, COLUMNS, lines, summaries
from lab.validate.statistics.worlds import CHANGED, NOISE, DrawnWords, GapWorld, draw_words
from probes import command_line
from probes.runs.parts import write_bytes

Array = NDArray[np.float64]
FEWEST, EVERY, MOST, LEVEL, FIXED = 12, 8, 240, 0.95, 24
LOOKS = (*range(FEWEST, MOST, EVERY), MOST)
STOPS, BOUNDED = "stops itself", "whole range"
DELTA, WORDS_DELTA = (
    0.3,
    0.02,
)  # the gap that matters: in standard deviations of a prompt's difference; of cosines
SIZES, REFERENCES = (3, 3, 0), 3  # words a side and of the reference, as in the default configuration
TOGETHER = 100  # audits of words that are drawn at a time
TRUTH = 4000  # audits over whose prompts the gap of a leaning world of words is the mean
# worlds whose number of prompts the page shows
TAKEN = (
    "normal",
    "lognormal",
    "5 % change, either way",
    "two sides, no lean",
    "near-synonyms",
    "all images differ",
)
TAKEN += (
    "normal, d_z 0.5",
    "normal, d_z 1",
    "5 % change by 1",
    "lean 0.3",
    "lean 0.6",
    "lean .4, all differ",
)


@dataclass(frozen=True)
class PromptWorld:
    """Differences of prompts with their standard deviation; ``reach``: no value is larger, where it is known."""

    name: str
    gaps: GapWorld
    sd: float
    reach: float | None = None


def _spread(kind: str) -> tuple[float, float, float | None]:
    """Of a kind of differences the noise of its seeds, the standard deviation of a prompt's, and its reach."""
    squares = {"normal": 1, "heavy tails (t, 3 degrees)": 3, "skewed (exponential)": 1}
    if kind in squares:
        return 0.5, float(np.sqrt(squares[kind] + 0.25)), None
    if kind.startswith("5 % change"):
        share = CHANGED if kind.endswith("either way") else CHANGED * (1 - CHANGED)
        return 0.0, float(np.sqrt(share + NOISE**2)), 1 + 10 * NOISE
    if kind.endswith("-1 or 1"):
        return 0.0, float(np.sqrt(float(kind.split()[0]) / 100)), 1.0
    return 0.0, float(np.sqrt((np.e - 1) * np.e if kind == "lognormal" else 4 / np.log(3))), None


def _world(kind: str, name: str = "", mean: float | None = None, d_z: float = 0.0) -> PromptWorld:
    seeds, sd, reach = _spread(kind)
    return PromptWorld(name or kind, GapWorld(kind, d_z * sd if mean is None else mean, seeds), sd, reach)


ORDER = (
    "normal|heavy tails (t, 3 degrees)|scales 1 to 3|skewed (exponential)|lognormal|5 % change, either way"
)
ORDER += "|5 % change, one way|2 % are -1 or 1|10 % are -1 or 1|50 % are -1 or 1"
PROMPT_WORLDS = (
    *map(_world, ORDER.split("|")),
    _world("normal", "normal, at δ", d_z=DELTA),
    _world("normal", "normal, d_z 0.5", d_z=0.5),
    _world("normal", "normal, d_z 1", d_z=1.0),
    _world("heavy tails (t, 3 degrees)", "heavy tails, d_z 0.5", d_z=0.5),
    _world("lognormal", "lognormal, d_z 0.5", d_z=0.5),
    _world("lognormal", "lognormal, d_z -0.5", d_z=-0.5),
    _world("5 % change, one way", "5 % change by 1", CHANGED),
)
WORD_WORLDS = (
    *(*worlds.WORDS, *worlds.HOSTILE, *worlds.ODD, *worlds.PICTURES),
    *(*worlds.LEANING, *worlds.ODD_LEANING, *worlds.PICTURES_LEANING),
)


@dataclass(frozen=True)
class PromptAudits:
    """Audits of differences of prompts; values of shape (n_prompts, n_audits)."""

    values: Array
    bound: float | None = None

    def after(self, audit: int, n: int, reach: str) -> SequentialGap:
        """What an audit that stops by itself knows after n prompts."""
        bound = self.bound if reach == MEASURE else None
        found = sequence_interval(self.values[:n, audit], level=LEVEL, reach=bound)
        ends = found.low, found.high
        return SequentialGap(n, found.mean, *ends, *ends, np.nan, found.e_value)


@dataclass(frozen=True)
class WordAudits:
    """Audits of gaps over several words a side, as of `analysis.stats.word_test` with the audits as a last axis."""

    sides: Sequence[NDArray]
    within: Sequence[NDArray]

    def after(self, audit: int, n: int, reach: str) -> SequentialGap:
        """What an audit that stops by itself knows after n prompts."""
        sizes = [self.sides[0].shape[1], self.sides[1].shape[1], self.sides[0].shape[0]]
        names = SideWords(*([f"{group}{k}" for k in range(size)] for group, size in zip("abr", sizes)))

        def near(one: str, other: str) -> Array:
            side = "ab".index(other[0])
            part = self.sides[side] if one[0] == "r" else self.within[side]
            return part[int(one[1:]), int(other[1:]), :n, audit, None].astype(np.float64)

        found = gap_after(n, near, names, np.arange(n), limit=2.0, level=LEVEL, reach=reach)
        assert found is not None
        return found


def outcomes(
    audits: PromptAudits | WordAudits, count: int, within: float, *, bounded: bool
) -> dict[str, list]:
    """Where each of so many audits ends under each design, by the design's name."""
    asked = StopQuestion(
        GAP, "z0", "cosine", ("masculine", "feminine"), within, LEVEL, FEWEST, EVERY, MOST, RUN
    )

    def ended(found: Iterator[SequentialGap]) -> SequentialGap:
        for look in found:
            if asked.answer(look) != OPEN:
                return look
        return look

    reaches = {STOPS: RUN} | ({BOUNDED: MEASURE} if bounded else {})
    return {
        name: [ended(audits.after(audit, n, reach) for n in LOOKS) for audit in range(count)]
        for name, reach in reaches.items()
    }


def counts(ends: Sequence[SequentialGap], truth: float, within: float) -> dict[str, float]:
    """Counts of wrong answers, intervals that hold the truth and answers of each kind, and prompts taken."""
    low = np.nan_to_num([end.low for end in ends], nan=-np.inf)
    high = np.nan_to_num([end.high for end in ends], nan=np.inf)
    leans = np.where(low > 0, FIRST, np.where(high < 0, SECOND, OPEN))
    small = (leans == OPEN) & (-within < low) & (high < within)
    wrong = leans != OPEN if truth == 0 else leans == (SECOND if truth > 0 else FIRST)
    if abs(truth) >= within:
        wrong = wrong | small
    prompts = np.array([end.n_prompts for end in ends])
    return {
        "audits": len(ends),
        "wrong": int(wrong.sum()),
        "covered": int(((low <= truth) & (truth <= high)).sum()),
        "leans": int((leans != OPEN).sum()),
        "small": int(small.sum()),
        "mean": round(float(prompts.mean()), 1),
        "q80": int(np.quantile(prompts, 0.8, method="inverted_cdf")),
    }


def of_prompts(number: int, audits: int) -> dict[str, Any]:
    """How each design answers in a world of differences of prompts."""
    world, rng = PROMPT_WORLDS[number], np.random.default_rng([0, 1100, number])
    values, within = world.gaps.draw(MOST, audits, rng)[:, 0], DELTA * world.sd
    ends = outcomes(PromptAudits(values, world.reach), audits, within, bounded=world.reach is not None)
    return _row("prompts", world.name, world.gaps.mean, within, ends)


def of_words(number: int, audits: int) -> dict[str, Any]:
    """How each design answers in a world of vectors of words."""
    world, ends = WORD_WORLDS[number], {}
    for part, start in enumerate(range(0, audits, TOGETHER)):
        some = min(TOGETHER, audits - start)
        drawn = _drawn(number, MOST, some, np.random.default_rng([0, 1200, number, part]))
        found = outcomes(WordAudits(drawn.sides, drawn.within), some, WORDS_DELTA, bounded=True)
        ends = {name: [*ends.get(name, []), *found[name]] for name in found}
    return _row("words", world.name, true_gap(number), WORDS_DELTA, ends)


def true_gap(number: int) -> float:
    """The gap of a world over other prompts and other words: 0 where no side is meant to be nearer."""
    if not WORD_WORLDS[number].lean:
        return 0.0
    rng, gaps = np.random.default_rng([0, 1200, number, TRUTH]), []
    for _ in range(0, TRUTH, TOGETHER):
        drawn = _drawn(number, FIXED, TOGETHER, rng)
        gaps.append(prompt_gaps(drawn.sides[0], drawn.sides[1], drawn.within[:2]).mean(axis=0))
    return float(np.concatenate(gaps).mean())


def _drawn(number: int, prompts: int, audits: int, rng: np.random.Generator) -> DrawnWords:
    return draw_words(WORD_WORLDS[number], SIZES, prompts, audits, rng, references=REFERENCES)


def _row(part: str, name: str, truth: float, within: float, ends: dict[str, Any]) -> dict[str, Any]:
    designs = {design: counts(found, truth, within) for design, found in ends.items()}
    return {
        "part": part,
        "world": name,
        "truth": round(truth, 5),
        "delta": round(within, 5),
        "designs": designs,
    }


def rate_rows(rows: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Rates of wrong answers where nothing leans, and coverage where a side is nearer (`rates.COLUMNS`)."""
    found = []
    for row in rows:
        kind, what, key = (
            (AT_LEAST, "coverage", "covered") if row["truth"] else (AT_MOST, "a lean claimed", "wrong")
        )
        for design, count in row["designs"].items():
            rate = count[key] / count["audits"]
            found.append((row["world"], f"{design}: {what}", kind, rate, count["audits"], 0))
    return pd.DataFrame(found, columns=list(COLUMNS)).sort_values(
        ["kind", "test"], ascending=False, kind="stable"
    )


def page(rows: Sequence[dict[str, Any]]) -> str:
    """The page, from the stored rows of all worlds."""
    return render(
        "stopping",
        rates=lines(summaries(rate_rows(rows))),
        taken=[row for row in rows if row["world"] in TAKEN],
        designs=(STOPS, BOUNDED),
        **{"fewest": FEWEST, "every": EVERY, "most": MOST, "delta": DELTA, "words_delta": WORDS_DELTA},
    )


def parser() -> argparse.ArgumentParser:
    """The command line's options."""
    main = command_line.Parser(
        prog="python -m lab.validate.statistics.stopping",
        description="Simulate runs that stop by themselves, and write the page.",
    )
    main.add_argument(
        "--audits",
        type=command_line.whole_number(0, 100_000),
        default=1000,
        help="of a world; of words half as many (default: %(default)s; 0: only the page)",
    )
    main.add_argument("--out", type=Path, default=Path("docs/validation/stopping.md"), help="page to write")
    return main


def measure(audits: int = 1000) -> list[dict[str, Any]]:
    """Simulate all worlds: hours at the default size."""
    parts = [(of_prompts, number, audits) for number in range(len(PROMPT_WORLDS))]
    parts += [(of_words, number, max(audits // 2, 1)) for number in range(len(WORD_WORLDS))]
    rows = []
    for measured, *about in parts:
        rows.append(measured(*about))
        print(rows[-1]["world"], file=sys.stderr, flush=True)
    return rows


def work(options: argparse.Namespace) -> None:
    """Simulate all worlds, store what was found, and write the page from it."""
    stored = command_line.writable(options.out).with_suffix(".json")
    if options.audits:
        rows = measure(options.audits)
        write_bytes(stored, ("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n").encode())
    write_bytes(options.out, page(json.loads(stored.read_text("utf-8"))).encode())


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    return command_line.run(work, parser(), argv)


if __name__ == "__main__":
    sys.exit(main())
