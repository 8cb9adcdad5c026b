"""Are runs that stop by themselves wrong more often than promised? ``python -m lab.validate.statistics.stopping``.

Simulated audits look after 12 prompts and after every 8 more, at most 240, and stop once their question (to which side
does the gap lean, or is it smaller than δ?) is answered by the project's own interval. Writes
docs/validation/stopping.json and the page.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.methods.stopping.gaps import MEASURE, RUN, SequentialGap, gap_after
from analysis.methods.stopping.question import FIRST, GAP, OPEN, SECOND, StopQuestion
from analysis.stats.confidence_sequences import sequence_interval
from analysis.stats.word_test import prompt_gaps
from analysis.tables.similarities.word_gap import SideWords
from lab.templates import render
from lab.validate.statistics import words
from lab.validate.statistics.rare import NOISE, draw_design
from lab.validate.statistics.worlds import GAP_WORLDS, draw_gaps
from probes import command_line
from probes.runs.parts import write_bytes

Array = NDArray[np.float64]
FEWEST, EVERY, MOST, LEVEL, FIXED = 12, 8, 240, 0.95, 24
LOOKS = (*range(FEWEST, MOST, EVERY), MOST)
STOPS, BOUNDED = "stops itself", "whole range"
TYPE_I, COVERAGE = 0.055, 0.945  # what is beyond is bold
DELTA, WORDS_DELTA = (
    0.3,
    0.02,
)  # the gap that matters: in standard deviations of a prompt's difference; of cosines
SIZES, REFERENCES = (3, 3, 0), 3  # words a side and of the reference, as in the default configuration
TOGETHER = 100  # audits of words that are drawn at a time
TRUTH = 4000  # audits over whose prompts the gap of a leaning world of words is the mean


@dataclass(frozen=True)
class PromptWorld:
    """Differences of prompts: `draw` gives values of mean 0 and standard deviation `sd`, shape (n_prompts, n_audits).

    ``reach``: no value is larger, where such a bound is known.
    """

    name: str
    draw: Callable[[int, int, np.random.Generator], Array]
    sd: float = 1.0
    mean: float = 0.0
    reach: float | None = None


def _gaps(name: str) -> Callable[..., Array]:
    return lambda n, audits, rng: draw_gaps(name, n, audits, rng, n_seeds=1)[:, 0]


def _binary(frequency: float, n: int, audits: int, rng: np.random.Generator) -> Array:
    return (rng.random((n, audits)) < frequency) * rng.choice([-1.0, 1.0], (n, audits))


def _scales(n: int, audits: int, rng: np.random.Generator) -> Array:
    """Normal values; prompts have standard deviations from 1 to 3, evenly in their logarithms."""
    return rng.standard_normal((n, audits)) * 3 ** rng.random((n, audits))


_NORMAL, _HEAVY, _SKEWED = (float(np.sqrt(square + 0.25)) for square in (1, 3, 1))
_LOGNORMAL = float(np.sqrt((np.e - 1) * np.e))
_CHANGED = 0.05  # what one prompt in so many changes, by at most
_REACH = 1 + 10 * NOISE
_EITHER, _ONE_WAY = (float(np.sqrt(square + NOISE**2)) for square in (_CHANGED, _CHANGED * (1 - _CHANGED)))
_one_way, _lognormal = partial(draw_design, "5 % change, one way"), partial(draw_design, "lognormal")
PROMPT_WORLDS = (
    PromptWorld("normal", _gaps(GAP_WORLDS[0]), _NORMAL),
    PromptWorld("heavy tails (t, 3 degrees)", _gaps(GAP_WORLDS[1]), _HEAVY),
    PromptWorld("scales 1 to 3", _scales, float(np.sqrt(4 / np.log(3)))),
    PromptWorld("skewed (exponential)", _gaps(GAP_WORLDS[2]), _SKEWED),
    PromptWorld("lognormal", _lognormal, _LOGNORMAL),
    PromptWorld(
        "5 % change, either way", partial(draw_design, "5 % change, either way"), _EITHER, reach=_REACH
    ),
    PromptWorld("5 % change, one way", _one_way, _ONE_WAY, reach=_REACH),
    *(
        PromptWorld(f"{100 * q:g} % are -1 or 1", partial(_binary, q), float(np.sqrt(q)), reach=1.0)
        for q in (0.02, 0.1, 0.5)
    ),
    PromptWorld("normal, at δ", _gaps(GAP_WORLDS[0]), _NORMAL, DELTA * _NORMAL),
    PromptWorld("normal, d_z 0.5", _gaps(GAP_WORLDS[0]), _NORMAL, 0.5 * _NORMAL),
    PromptWorld("normal, d_z 1", _gaps(GAP_WORLDS[0]), _NORMAL, _NORMAL),
    PromptWorld("heavy tails, d_z 0.5", _gaps(GAP_WORLDS[1]), _HEAVY, 0.5 * _HEAVY),
    PromptWorld("lognormal, d_z 0.5", _lognormal, _LOGNORMAL, 0.5 * _LOGNORMAL),
    PromptWorld("lognormal, d_z -0.5", _lognormal, _LOGNORMAL, -0.5 * _LOGNORMAL),
    PromptWorld("5 % change by 1", _one_way, _ONE_WAY, _CHANGED, _REACH),
)
WORD_WORLDS = (
    *(*words.WORD_WORLDS, *words.HOSTILE, *words.ODD, *words.PICTURES),
    *(*words.LEANING, *words.ODD_LEANING, *words.PICTURES_LEANING),
)


@dataclass(frozen=True)
class PromptAudits:
    """Audits of differences of prompts; values of shape (n_prompts, n_audits)."""

    values: Array
    bound: float | None = None

    def after(self, audit: int, n: int, reach: str) -> SequentialGap:
        """Return what an audit that stops by itself knows after n prompts."""
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
        """Return what an audit that stops by itself knows after n prompts."""
        sizes = [self.sides[0].shape[1], self.sides[1].shape[1], self.sides[0].shape[0]]
        names = SideWords(*([f"{group}{k}" for k in range(size)] for group, size in zip("abr", sizes)))

        def near(one: str, other: str) -> Array:
            side = "ab".index(other[0])
            part = self.sides[side] if one[0] == "r" else self.within[side]
            return part[int(one[1:]), int(other[1:]), :n, audit, None].astype(np.float64)

        found = gap_after(n, near, names, np.arange(n), limit=2.0, level=LEVEL, reach=reach)
        assert found is not None
        return found


Audits = PromptAudits | WordAudits


def outcomes(audits: Audits, count: int, within: float, *, bounded: bool) -> dict[str, list[SequentialGap]]:
    """Return where each of so many audits ends under each design, by the design's name."""
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
    """Return counts of wrong answers, intervals that hold the truth and answers of each kind, and prompts taken."""
    low, high = (np.nan_to_num([getattr(end, side) for end in ends], nan=inf) for side, inf in _ENDS)
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


_ENDS = (("low", -np.inf), ("high", np.inf))


def of_prompts(number: int, audits: int) -> dict[str, Any]:
    """Return how each design answers in a world of differences of prompts."""
    world = PROMPT_WORLDS[number]
    values = world.draw(MOST, audits, np.random.default_rng([0, 1100, number])) + world.mean
    within, bounded = DELTA * world.sd, world.reach is not None
    ends = outcomes(PromptAudits(values, world.reach), audits, within, bounded=bounded)
    return _row("prompts", world.name, world.mean, within, ends)


def of_words(number: int, audits: int) -> dict[str, Any]:
    """Return how each design answers in a world of vectors of words."""
    world, ends = WORD_WORLDS[number], {}
    for part, start in enumerate(range(0, audits, TOGETHER)):
        some = min(TOGETHER, audits - start)
        drawn = _drawn(number, MOST, some, part)
        found = outcomes(WordAudits(drawn.sides, drawn.within), some, WORDS_DELTA, bounded=True)
        ends = {name: [*ends.get(name, []), *found[name]] for name in found}
    return _row("words", world.name, true_gap(number), WORDS_DELTA, ends)


def true_gap(number: int) -> float:
    """Return the gap of a world over other prompts and other words: 0 where no side is meant to be nearer."""
    if not WORD_WORLDS[number].lean:
        return 0.0
    rng = np.random.default_rng([0, 1200, number, TRUTH])
    gaps = []
    for _ in range(0, TRUTH, TOGETHER):
        drawn = _drawn(number, FIXED, TOGETHER, rng=rng)
        gaps.append(prompt_gaps(drawn.sides[0], drawn.sides[1], drawn.within[:2]).mean(axis=0))
    return float(np.concatenate(gaps).mean())


def _drawn(
    number: int, prompts: int, audits: int, part: int = 0, rng: np.random.Generator | None = None
) -> words.DrawnWords:
    rng = rng or np.random.default_rng([0, 1200, number, part])
    return words.draw_words(WORD_WORLDS[number], SIZES, prompts, audits, rng, references=REFERENCES)


def _row(part: str, name: str, truth: float, within: float, ends: dict[str, Any]) -> dict[str, Any]:
    designs = {design: counts(found, truth, within) for design, found in ends.items()}
    return {
        "part": part,
        "world": name,
        "truth": round(truth, 5),
        "delta": round(within, 5),
        "designs": designs,
    }


def rate(row: dict[str, int], name: str) -> str:
    """Return the share of audits in percent with its Monte Carlo error, bold where it is beyond what was promised."""
    share = row[name] / row["audits"]
    mark = "**" if {"wrong": share > TYPE_I, "covered": share < COVERAGE}[name] else ""
    return f"{mark}{100 * share:.1f}{mark} ({100 * np.sqrt(share * (1 - share) / row['audits']):.1f})"


def page(rows: Sequence[dict[str, Any]]) -> str:
    """Return the page."""
    return render(
        "stopping",
        nulls=[row for row in rows if not row["truth"]],
        leaning=[row for row in rows if row["truth"]],
        designs=(STOPS, BOUNDED),
        rate=rate,
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


def work(options: argparse.Namespace) -> None:
    """Simulate all worlds, store what was found, and write the page from it."""
    stored = command_line.writable(options.out).with_suffix(".json")
    if options.audits:
        worlds = [(of_prompts, number, options.audits) for number in range(len(PROMPT_WORLDS))]
        worlds += [(of_words, number, max(options.audits // 2, 1)) for number in range(len(WORD_WORLDS))]
        rows = []
        for measured, *about in worlds:
            rows.append(measured(*about))
            print(rows[-1]["world"], file=sys.stderr, flush=True)
        write_bytes(stored, ("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n").encode())
    write_bytes(options.out, page(json.loads(stored.read_text("utf-8"))).encode())


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    return command_line.run(work, parser(), argv)


if __name__ == "__main__":
    sys.exit(main())
