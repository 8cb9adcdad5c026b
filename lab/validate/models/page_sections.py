"""Sections of docs/statistics.md on the default design, rare changes, a noise that prompts share, and one prompt."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd

from lab.validate.statistics.rare import design_gaps, rare_equivalence, rare_widths, shared_noise_rejections
from lab.validate.statistics.seeds import page_section
from lab.validate.statistics.shares import (
    ENTRIES,
    PLACES,
    SIZES,
    STEPS,
    floor_rejections,
    half_step_coverage,
    share_coverage,
)
from lab.validate.statistics.words import HOSTILE, LEANING, design_rejections, spread_rejections

Bounds = tuple[float, float]
Results = list[tuple[str, pd.DataFrame, Bounds]]
DESIGN = """
## Gaps at the default design

24 prompts, one seed, three words a side, three reference words; {simulations} columns a world. Nothing leans.

**Differences of prompts.** Sign flips test exchange, so they reject more often where differences are skewed about a
mean of 0; a direction is claimed from the interval. A lognormal difference is too skewed for 24 prompts: the interval
leaves out 0 too often, and `warning`, which the table of gaps and the card show, says so of most such runs. *Without a
warning* counts the runs, among all, that are wrong and say nothing; *of runs without a warning* takes these alone,
whose samples happen to look symmetric. Where 5 % of the prompts change and all others lean a little the other
way, three runs in ten see no changed prompt at all: no method can know, and each card states how much can be missed
(`unseen`).
"""
REFERENCE = """
**Words.** As above; in the first two worlds each reference word has a part of its own. One reference word of its own is
found to lean because it does: the claim is then about that word alone, and the row says so (`n_references`, `warning`).
Two reference words keep the level but for parts twice as long, three keep it always, at the price of power: two have
one degree of freedom, three have two. *One side's words are odder*: the words of the second side have six times more
of their own, so that they lie farther from any word. That is no lean, and no test here can tell it from one; what
tells is that they lie farther from each other, and the row says so. The number before "against" is of the first side.

| world | meaning | own | rest | reference | second side | register |
|---|---:|---:|---:|---:|---:|---:|
{worlds}
"""
SPREADS = """
Where the words of a side spread unequally about one mean, sides of three words keep the level nearly; a smaller side
that spreads more does not, and the row warns of sides of unequal size.
"""
POWER = """
Power where the reference leans, so that a high number is good. Two reference words cost most.
"""
RARE = """
## Gaps where few prompts change

One word changes the image of a prompt with a small probability, by 1 (or by a lognormal length of mean 1), and
otherwise by 0.01; equivalence is tested at δ = the true mean gap, so it must be claimed in at most 5 % of
{simulations} simulations. *No reach* is the `envelope` alone, withheld where few prompts carry the variance. With a
*reach*, the largest difference that any two words of the run show at any prompt, the test allows for rare changes that
were not drawn (`analysis.stats.rare_changes`). With all nine words of the default design some word has changed some
prompt, unless changes are as rare as 1 % and prompts as few as 24; with three words of a run there is less to learn
from. What remains is **bold**: where no word of the run changed any prompt, nothing in the data speaks of changes.
"""
WIDTHS = """
The interval of a gap of 24 prompts of which some changed by 1, either way, and the others by 0.01: it stays within the
reach, and below four effective prompts nothing is ruled out.

| changed | effective prompts, median | width, median | widest | runs in which something is ruled out, % |
|---:|---:|---:|---:|---:|
{rows}
"""
SHARED = """
## Noise that prompts share

`sampler.noise: shared`: 24 prompts; a prompt has 0.3 of the variance, the seeds the share given, and a rest. Sign flips
take prompts for independent, which they are not. Prompts and seeds as crossed samples keep the level from three seeds
on; with two they do not, and the tables give no interval and no p-value below three.
"""
SHARES = """
## Shares of a total effect (traces)

{simulations} traces a world, of verdicts as toyworld's images have them. A patch moves images some way towards the
donor's, or wholly at some prompts; its share is that of the effect of both words, or of the feminine word on a
reference that leans masculine. *Share* is what the tables show: the `envelope` of the linearised share, bounded where
few prompts carry it (`analysis.stats.shares`); it is conservative where a patch decides few prompts wholly, or all but
a few. Fieller's interval is too short there. In brackets: traces without an interval, as no prompt has another share or
the total effect cannot be told from 0.
"""
HALF_STEPS = """
The half step of a decision curve of {steps} steps with {entries} entries, each prompt decided at a step of its own
(binomial); {simulations} traces.
"""
FLOORS = """
A place is called beyond the floor where it does more than a synonym, adjusted over {places} places by max-T; here a
synonym does as much, or five times as much, in {maps} maps.
"""


def sections(
    block: Callable[[pd.DataFrame, Bounds], str],
    *,
    rejection: Bounds,
    coverage: Bounds,
    simulations: int,
    resamples: int,
    seed: int,
) -> tuple[list[str], Results]:
    """Return the sections in Markdown, and the tables whose misses are listed, each with its name and bounds."""
    options = {"simulations": simulations, "seed": seed}
    rejected, covered = design_gaps(resamples=resamples, **options)
    shown = rejected["test"] == "a warning is shown"
    words, spread = design_rejections(**options), spread_rejections(**options)
    power = design_rejections(LEANING, sizes=((2, 2, 1), (3, 3, 1), (3, 3, 2), (3, 3, 3)), **options)
    rare = rare_equivalence(resamples=resamples, **options)
    shared = shared_noise_rejections(**options)
    worlds = "\n".join(
        f"| {w.name} | {w.meaning} | {w.own} | {w.rest} | {'—' if w.reference is None else w.reference} | "
        f"{w.own if w.second is None else w.second} | {w.register} |"
        for w in HOSTILE
    )
    widths = "\n".join(
        f"| {row.changed} | {row.n_effective:.1f} | {row.width:.2f} | {row.widest:.2f} | {100 * row.ruled_out:.0f} |"
        for row in rare_widths(simulations=simulations // 2, resamples=resamples, seed=seed).itertuples()
    )
    parts = [DESIGN.format(simulations=simulations), block(rejected[~shown], rejection)]
    parts += [block(rejected[shown], (0.0, 1.0)), block(covered, coverage)]
    parts += [REFERENCE.format(worlds=worlds), block(words, rejection), SPREADS, block(spread, rejection)]
    parts += [POWER, block(power, (0.0, 1.0)), RARE.format(simulations=simulations), block(rare, rejection)]
    parts += [WIDTHS.format(rows=widths), SHARED, block(shared, rejection)]
    seeds, of_seeds = page_section(
        block, rejection=rejection, coverage=coverage, resamples=resamples, **options
    )
    traced, of_traces = trace_section(
        block, rejection=rejection, coverage=coverage, resamples=resamples, **options
    )
    return [*parts, *seeds, *traced], [
        ("Default design, gaps", rejected[~shown], rejection),
        ("Default design, words", pd.concat([words, spread]), rejection),
        ("Equivalence where few prompts change", rare, rejection),
        ("Noise that prompts share", shared, rejection),
        *of_seeds,
        *of_traces,
    ]


def trace_section(
    block: Callable[[pd.DataFrame, Bounds], str],
    *,
    rejection: Bounds,
    coverage: Bounds,
    simulations: int,
    resamples: int,
    seed: int,
) -> tuple[list[str], Results]:
    """Return the section on shares in Markdown, and its tables as `sections` does."""
    covered = share_coverage(simulations=simulations, resamples=resamples, seed=seed)
    few = max(2, simulations // 4)
    halves = half_step_coverage(simulations=few, resamples=resamples, seed=seed)
    floors = floor_rejections(maps=few, seed=seed)
    parts = [SHARES.format(simulations=simulations)]
    parts += [block(covered[covered["world"].str.contains(f"{n} prompts")], coverage) for n in SIZES]
    parts += [HALF_STEPS.format(steps=STEPS, entries=len(ENTRIES), simulations=few), block(halves, coverage)]
    parts += [FLOORS.format(places=PLACES, maps=few), block(floors, rejection)]
    return parts, [
        ("Shares of a total effect", pd.concat([covered, halves]), coverage),
        ("Beyond the floor", floors, rejection),
    ]
