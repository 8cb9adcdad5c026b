"""The page on whether tests and intervals keep their word.

``python -m lab.validate.statistics.page --scale tests/benchmarks/results/statistics_scale.json --out
docs/statistics.md`` writes it. Every number of the page is simulated when it is made, as
`lab.validate.statistics.simulation` and `lab.validate.statistics.words` say, but for those on time and memory, which
are those of the file given.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.stats.worlds import ObjectWorld
from lab.validate.models.page_sections import sections
from lab.validate.statistics import objects as statistics_objects
from lab.validate.statistics.simulation import (
    gap_coverage,
    gap_rejections,
    misses,
    object_coverage,
    object_rejections,
)
from lab.validate.statistics.words import LEANING, WORD_WORLDS, word_rejections
from lab.validate.statistics.worlds import COVERAGE_WORLDS, OBJECT_WORLDS
from probes import command_line
from probes.errors import UserError
from probes.runs.parts import write_bytes

REJECTION = (0.035, 0.065)
COVERAGE = (0.93, 0.97)
HEAD = """# Do the tests and intervals keep their word?

Made by `python -m lab.validate.statistics.page --scale tests/benchmarks/results/statistics_scale.json
--out docs/statistics.md` from simulated worlds, seed {seed}. Each cell is a percentage of the simulations; the bracket
after it is its Monte Carlo standard error. A test at the 5 % level is to reject a true null in 3.5 to 6.5 % of cases;
tests marked † are exact, or conservative in some of the worlds, and may reject less often. An interval of 95 % is to
cover the truth in 93 to 97 % of cases. What misses is **bold**, and listed at the end where it is what the tables of a
run show. Tests of the papers, ways of counting that we advise against, and options that are not the default stand in
the same tables, under *for comparison*.

## What to use

The unit is the prompt: average over its seeds first (`analysis.stats.effects.prompt_means`). Of one prompt it is the
seed, and what is said is said of that prompt alone.

- Is the mean gap 0? `analysis.stats.sign_flips.sign_flip_test`, adjusted by max-T over sites and steps.
- Where prompts share their noise: `analysis.stats.crossed.crossed_mean`, from three seeds on.
- How large is it? `analysis.stats.intervals.bootstrap_interval` with the method `envelope`; without units
  `analysis.stats.effects.effect_sizes`.
- Is it more than the choice of words makes? `analysis.stats.word_test.word_test`. A claim of bias needs this one.
- Can a gap of δ or more be ruled out? `analysis.stats.equivalence.equivalence_test` with the method `envelope`, and
  `ruled_out` of `effect_sizes`, both with a `reach`; not where few prompts carry the variance
  (`analysis.stats.rare_changes`).
- Do the objects differ at all? `analysis.stats.table_tests.label_swap_test`.
- Which objects differ? `analysis.stats.object_tests.paired_presence_test`, then
  `analysis.stats.multiplicity.adjust_p_values` (Benjamini–Hochberg, Benjamini–Yekutieli, Holm).
- To which word does an object lean? `bias_scores` and `presence_differences` of `analysis.stats.bias_scores`, and the
  odds ratio of `analysis.stats.object_tests.cochran_mantel_haenszel`.
- How many prompts does it take? `triptych power`.
"""
OBJECTS = """
## Objects: rejections without any difference

{n_prompts} prompts, {n_seeds} seeds, three indicators that are alike. Tests of single objects: {objects} objects a
world; tests of whole tables: {tables} tables of 20 objects. Presence comes from a normal variable of variance 1; a
prompt, a prompt and indicator, and a seed's noise share these parts of it:

| world | prompt | prompt × indicator | noise | frequency | further detections |
|---|---:|---:|---:|---:|---:|
{worlds}

An undefined p-value (an object never seen, or no prompt at which the indicators differ) counts as no rejection.
"Any object": the smallest max-T-adjusted p-value of a table. With seeds that depend on each other within a prompt,
"seeds independent" is what its name says and no more.
"""
GAPS = """
## Gaps: rejections without any difference

Three seeds a prompt; {simulations} columns a world, and {families} families of 30 correlated columns for max-T and
Benjamini–Hochberg. Equivalence is tested at its bound, where it must claim in at most 5 % of cases.

Sign flips ask whether the two members of a contrast could have changed places: then differences are symmetric about
0, and the test is exact. In the skewed world the mean is 0 but the members could not have changed places; there
sign flips, Student's t and what is adjusted from them reject more often than 5 %, and rightly so for their own null,
but not as tests of the mean. The report therefore states a direction only where the `envelope` interval leaves out 0,
and equivalence by `envelope`; both hold in all worlds here. `p_value` and `p_adjusted` of the tables are sign flips and
max-T: read them as tests of exchange.
"""
GAP_COVERAGE = """
## Gaps: coverage of 95 % intervals

{simulations} columns a world, {resamples} resamples, three seeds a prompt. `envelope` is what the tables show: at each
end the outer one of Student's t, which is short where differences are skewed, and the studentized bootstrap, which is
short where they have heavy tails. d_z divides by a standard deviation that heavy tails (three degrees of freedom: no
fourth moment) leave uncertain in any sample; there read the probability of superiority.
"""
WORDS = """
## Gaps: rejections where words make gaps and nothing leans

{simulations} columns a world. A prompt with a word is a vector: what the prompt gives (length 1), what the side means,
the word's own, and a rest; similarity is the cosine. Each side has 2, 3 or 5 words. The reference is one word that
stands in the middle, or three that do on average. *Against 0* takes one word a side, as a run without control words
does: its gaps are real, and say nothing of what words mean. Where the sides have one word each, the reference's other
words can stand in for theirs; where sides mean something of their own these spread less, and the test rejects too
often: give each side a second word, better a third. In the last worlds the reference leans to the first side by a part
of the distance; there a high number is power.

| world | meaning | own | rest | lean |
|---|---:|---:|---:|---:|
{worlds}
"""
OBJECT_COVERAGE = """
## Objects: coverage of 95 % intervals

{objects} objects a world, {resamples} resamples, {n_prompts} prompts, {n_seeds} seeds; the object is 1.5 times as
frequent for the second word as for the first. Intervals that are undefined are left out of the rate; their number
stands in brackets. Bias scores with percentile and BCa intervals are undefined where one word never has the object.
"""
MISSES = """
## What misses

By the figure as it stands; of so many cells some lie outside, or inside, by Monte Carlo error alone.
"""
SCALE = """
## Time and memory

`python -m tests.benchmarks.statistics_scale` on {date}, {machine}, {cores} cores, {threads}; {part}. Wall is the time
that passed, processor what this process used of all cores together. The pandas loops did a few repeats; the time of all
is reckoned from these.

| what | size | repeats | wall, s | processor, s | peak memory, GiB |
|---|---|---:|---:|---:|---:|
"""
COMPARISON = (
    "Cochran–Mantel–Haenszel, seeds independent",
    *("binomial of pooled images", "chi-square of detections (paper)", "chi-square of presence"),
    *("Student's t", "Student's t on images", "Benjamini–Hochberg of t, any of 30", "against 0, sign flips"),
    "against 3 other words of the reference",
    *("sign flips, of runs without a warning", "the interval leaves out 0, of runs without a warning"),
    *("sign flips, prompts independent", "equivalence at its bound, no reach"),
    *(f"equivalence at its bound, {method}" for method in ("t", "sign_flip", "bootstrap")),
    *(f"mean, {method}" for method in ("percentile", "expanded", "bca", "studentized", "Student's t")),
    *(f"bias score of presence, {method}" for method in ("percentile", "bca")),
    *(f"difference of presence, {method}" for method in ("percentile", "bca")),
    *("bias score of detections, bca", "odds ratio, images independent"),
    *("mean gap, Student's t", "mean gap of all prompts, envelope"),
    *("share, Fieller", "share, bca"),
)


def cell(row: pd.Series, bounds: tuple[float, float]) -> str:
    """Rate in percent with its Monte Carlo error, bold where it misses the bounds."""
    if np.isnan(row["rate"]):
        return "—"
    error = np.sqrt(max(row["rate"] * (1 - row["rate"]), 1e-12) / row["simulations"])
    text = f"{100 * row['rate']:.1f} ({100 * error:.1f})"
    if any(True for _ in misses(pd.DataFrame([row]), *bounds)):
        text = f"**{text}**"
    return text + (f" [{row['undefined']}]" if row["undefined"] else "")


def block(table: pd.DataFrame, bounds: tuple[float, float]) -> str:
    """Tests as rows, worlds as columns; those for comparison last."""
    worlds = list(dict.fromkeys(table["world"]))
    tests = list(dict.fromkeys(table["test"]))
    lines = ["| | " + " | ".join(worlds) + " |", "|---|" + "---:|" * len(worlds)]
    chosen = [test for test in tests if test not in COMPARISON]
    for group, title in ((chosen, ""), ([t for t in tests if t in COMPARISON], "*for comparison*")):
        if title and group:
            lines.append(f"| {title} |" + " |" * len(worlds))
        for test in group:
            by_world = table[table["test"] == test].set_index("world")
            mark = " †" if by_world["exact"].any() else ""
            cells = [cell(by_world.loc[world], bounds) if world in by_world.index else "" for world in worlds]
            lines.append(f"| {test}{mark} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def missing(tables: Sequence[tuple[str, pd.DataFrame, tuple[float, float]]]) -> str:
    """What misses its bounds, of the tests and intervals that the project offers."""
    lines = []
    for name, table, bounds in tables:
        table = table[~table["test"].isin(COMPARISON)]
        missed = list(misses(table.dropna(subset="rate"), *bounds))
        lines.append(f"\n**{name}**: {len(missed)} of {len(table)} cells miss.\n")
        for row in missed:
            error = 100 * np.sqrt(row.rate * (1 - row.rate) / row.simulations)
            lines.append(f"- {row.test}, {row.world}: {100 * row.rate:.1f} % ± {error:.1f} %")
    return "\n".join(lines) + "\n"


def scale(result: dict) -> str:
    """The figures of `tests.benchmarks.statistics_scale`."""
    first, part = result["cases"][0], result["part"]
    threads = (
        "all threads"
        if first["threads"] == "all"
        else f"{first['threads']} thread{'s' * (str(first['threads']) != '1')} of the BLAS"
    )
    share = "the full size" if part == 1 else f"one {part}th of the triplets"
    lines = [
        SCALE.format(
            date=result["date"], machine=first["machine"], cores=first["cores"], threads=threads, part=share
        )
    ]
    for case in result["cases"]:
        names = ("triplets", "images", "detections", "labels", "prompts", "words", "columns")
        size = ", ".join(f"{case[name]:,} {name}" for name in names if name in case)
        lines.append(
            f"| **{case['case']}** | {size} | {case['repeats']:,} | {case['wall_seconds']:.1f} | "
            f"{case['processor_seconds']:.1f} | {case['peak_memory_gib']:.2f} |\n"
        )
        lines += [f"| {name} | | | {seconds:.1f} | | |\n" for name, seconds in case["seconds"].items()]
    return "".join(lines)


def _measured(path: Path) -> dict:
    """Read the figures of `tests.benchmarks.statistics_scale`."""
    remedy = "make it by python -m tests.benchmarks.statistics_scale"
    try:
        result = json.loads(path.read_text("utf-8"))
        scale(result)
    except OSError as error:
        raise UserError(f"--scale: {path}: cannot be read ({error.strerror}): {remedy}") from None
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise UserError(
            f"--scale: {path}: expected the figures of a measurement, got another file "
            f"({type(error).__name__}): {remedy}"
        ) from None
    return result


def page(
    *,
    columns: int = 4000,
    tables: int = 800,
    families: int = 600,
    resamples: int = 1000,
    runs: int = 200,
    seed: int = 0,
    scale_file: Path | None = None,
) -> str:
    """The page in Markdown."""
    measured = scale(_measured(scale_file)) if scale_file else None  # a fault is said before the simulations
    rejected = object_rejections(objects=columns, tables=tables, seed=seed)
    gaps = gap_rejections(simulations=columns, families=families, seed=seed)
    covered = gap_coverage(simulations=columns // 2, resamples=resamples, seed=seed)
    options = {"simulations": columns // 2, "seed": seed}
    words = word_rejections(**options)
    leaning = word_rejections(LEANING, **options)
    objects = object_coverage(objects=columns // 2, resamples=resamples, seed=seed)
    first, cover = OBJECT_WORLDS[0], COVERAGE_WORLDS[0]
    parts = [HEAD.format(seed=seed)]
    parts.append(
        OBJECTS.format(
            n_prompts=first.n_prompts,
            n_seeds=first.n_seeds,
            objects=columns,
            tables=tables,
            worlds="\n".join(_world(world) for world in OBJECT_WORLDS),
        )
    )
    parts += [block(rejected, REJECTION), GAPS.format(simulations=columns, families=families)]
    parts += [block(gaps, REJECTION), GAP_COVERAGE.format(simulations=columns // 2, resamples=resamples)]
    parts.append(block(covered, COVERAGE))
    worlds = [f"| {w.name} | {w.meaning} | {w.own} | {w.rest} | {w.lean} |" for w in (*WORD_WORLDS, *LEANING)]
    parts.append(WORDS.format(simulations=columns // 2, worlds="\n".join(worlds)))
    parts += [block(words, REJECTION), block(leaning, (0.0, 1.0))]
    added, results = sections(
        block,
        rejection=REJECTION,
        coverage=COVERAGE,
        simulations=columns // 2,
        resamples=resamples,
        seed=seed,
    )
    parts += added
    options = {"objects": columns // 2, "n_prompts": cover.n_prompts, "n_seeds": cover.n_seeds}
    parts.append(OBJECT_COVERAGE.format(resamples=resamples, **options))
    odds = objects["world"].str.startswith("odds")
    parts += [block(objects[~odds], COVERAGE), block(objects[odds], COVERAGE)]
    parts.append(statistics_objects.page_section(simulations=runs, seed=seed))
    parts.append(MISSES)
    both = (("Rejections, objects", rejected, REJECTION), ("Rejections, gaps", gaps, REJECTION))
    both += (("Rejections, words", words, REJECTION), ("Coverage, gaps", covered, COVERAGE))
    both += (("Coverage, objects", objects, COVERAGE), *results)
    parts.append(missing(both))
    if measured:
        parts.append(measured)
    return "\n".join(parts)


def _world(world: ObjectWorld) -> str:
    parts = f"{world.prompt} | {world.interaction} | {world.noise}"
    return f"| {world.name} | {parts} | {world.frequency} | {world.repeats} |"


def parser() -> argparse.ArgumentParser:
    """The command line's options."""
    main = command_line.Parser(
        prog="python -m lab.validate.statistics.page",
        description="Simulate how often tests reject and intervals cover, and write the page.",
    )
    add, whole = main.add_argument, command_line.whole
    add("--columns", type=whole(2, 1_000_000), default=4000, help="simulations of a test or interval")
    add("--tables", type=command_line.count, default=800, help="simulations of a test of a whole table")
    add("--families", type=command_line.count, default=600, help="simulations of an adjustment over a family")
    add("--resamples", type=command_line.count, default=1000, help="of each bootstrap")
    add("--runs", type=command_line.count, default=200, help="simulated runs a world of claims about objects")
    add("--seed", type=command_line.seed, default=0)
    add("--scale", type=command_line.file, dest="scale_file", help="statistics_scale.json")
    add("--out", type=Path, help="page to write; printed if not given")
    return main


def work(arguments: argparse.Namespace) -> None:
    """Do what the command line asks."""
    options = vars(arguments)
    out = options.pop("out")
    if out:
        command_line.writable(out)
    text = page(**options)
    if out:
        write_bytes(out, text.encode())
    print(out or text, end="\n" if out else "")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    return command_line.run(work, parser(), argv)


if __name__ == "__main__":
    sys.exit(main())
