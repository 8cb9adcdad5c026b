"""Hold the instrument against the toyworld specimens: ``python -m analysis calibrate RUN [RUN ...] --out PAGE``.

Each run is one specimen on the same prompts. The page says what was planted, what the checker finds in the images,
and what the gaps say: their sign, their interval, whether they are more than words of one meaning differ among
themselves, and how large they are beside those of the null world. In the null world all words mean the same, so that
any of them may play any part: over all ways to give out the parts, both tests of a gap are held against the rate they
promise. With ``--repeated`` it says what the reports of several runs of each specimen claim.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image

from analysis.metrics.registry import definition, headline_metrics
from analysis.report.format import fixed, p_number
from analysis.report.notebook import load_run
from analysis.stats.effects import prompt_means
from analysis.stats.multiplicity import gatekept
from analysis.stats.sign_flips import sign_flip_test
from analysis.stats.word_test import word_test
from analysis.study import contrasts, indicators
from analysis.tables.similarities import Similarities, similarities
from analysis.tables.stored_similarities import StoredSimilarities
from analysis.validation import object_findings, repeated, specimen_scores
from probes import command_line
from probes.errors import UserError
from probes.parts import write_bytes
from probes.store import Run
from probes.toyworld import SPECIMENS
from probes.toyworld.checker import THINGS, read_images
from probes.toyworld.scene import parse
from probes.toyworld.truth import planted
from probes.toyworld.world import GROUPS, load_world

QUANTITIES = {(metric.space, metric.site, metric.metric): metric.symbol for metric in headline_metrics()} | {
    ("denoising", "x0_pred", "cosine"): "x̂₀ at the last step"
}
NULL = "toyworld-null"


def headline_gaps(run: Run, contrast: str = "masculine-feminine") -> pd.DataFrame:
    """The run's main gaps, a row a quantity: ``quantity`` and the columns of ``tables/gap``."""
    gap = load_run(run.path).gap
    gap = gap[gap["contrast"] == contrast]
    rows = []
    for (space, site, metric), label in QUANTITIES.items():
        found = gap[(gap["space"] == space) & (gap["site"] == site) & (gap["metric"] == metric)]
        if len(found):
            rows.append({"quantity": label} | found.sort_values("step").iloc[-1].to_dict())
    return pd.DataFrame(rows)


def exchanged_parts(
    pairs: Similarities | pd.DataFrame, names: Sequence[str], *, size: int = 3, permutations: int = 2000
) -> pd.DataFrame:
    """How often both tests of a gap reject when words that all mean the same change parts.

    Parameters
    ----------
    pairs : Similarities or pandas.DataFrame
        Of a run whose words are all interchangeable; a tidy table has the columns of
        `analysis.tables.similarities.COLUMNS`.
    names : sequence of str
        Its indicators, in their order.
    size : int
        Words of a side, and of the reference.
    permutations : int
        Of the sign flips.

    Returns
    -------
    pandas.DataFrame
        A row a quantity: ``against_0`` is the part of all choices of a reference and two other words whose gap is
        significant at 5 % by sign flips, ``against_words`` that of all choices of `size` reference words and two sides
        of `size` words by `analysis.stats.word_test.word_test`; ``gaps`` and ``sides`` are the numbers of choices.
    """
    return parts_table(exchanged_p_values(pairs, names, size=size, permutations=permutations))


def parts_table(p_values: dict[str, tuple[np.ndarray, np.ndarray]]) -> pd.DataFrame:
    """Return the table of `exchanged_parts` from its p-values."""
    rows = []
    for label, (flips, words) in p_values.items():
        rates = {"against_0": (flips < 0.05).mean(), "gaps": len(flips)}
        rows.append({"quantity": label, **rates, "against_words": (words < 0.05).mean(), "sides": len(words)})
    return pd.DataFrame(rows)


def exchanged_p_values(
    pairs: Similarities | pd.DataFrame, names: Sequence[str], *, size: int = 3, permutations: int = 2000
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return for each quantity the p-values against 0 and against words over all choices of `exchanged_parts`."""
    found = {}
    for (space, site, metric), label in QUANTITIES.items():
        family = similarities(pairs).family(space, site, metric)
        if family is None:
            continue
        sign = 1 if definition(metric).higher_is_nearer else -1
        last = int(family.columns["step"].argmax())
        near = {
            (a, b): sign * prompt_means(family.pair(a, b, names)[..., [last]])[:, 0]
            for a in names
            for b in names
            if a != b
        }
        there = ~np.all([np.isnan(value) for value in near.values()], axis=0)  # prompts with any value
        near = {key: value[there] for key, value in near.items()}
        gaps, parts = [], [[], []]
        for reference in names:
            others = [name for name in names if name != reference]
            gaps += [near[reference, a] - near[reference, b] for a, b in combinations(others, 2)]
        for own in combinations(names, size):
            for sides in _two_sides([name for name in names if name not in own], size):
                for part, side in zip(parts, sides):
                    part.append([[near[reference, name] for name in side] for reference in own])
        flips = sign_flip_test(np.array(gaps).T, permutations=permutations).p_value
        words = word_test(*(np.array(part).transpose(1, 2, 3, 0) for part in parts)).p_value
        found[label] = flips, words
    return found


def claims_together(
    p_values: dict[str, tuple[np.ndarray, np.ndarray]], primary: str = "z₀"
) -> tuple[float, float]:
    """How often at least one headline measure is beyond words at 5 %: each by itself, and as the report adjusts them.

    Parameters
    ----------
    p_values : dict
        Of `exchanged_p_values`.
    primary : str
        The measure that is tested first.

    Examples
    --------
    >>> p_values = {"z₀": (None, np.array([0.2, 0.01])), "SSIM": (None, np.array([0.01, 0.5]))}
    >>> claims_together(p_values)
    (1.0, 0.5)
    """
    labels = [metric.symbol for metric in headline_metrics() if metric.symbol in p_values]
    words = np.array([p_values[label][1] for label in labels])
    gate = labels.index(primary) if primary in labels else None
    adjusted = np.array([gatekept(column, gate) for column in words.T])
    return float((words < 0.05).any(axis=0).mean()), float((adjusted < 0.05).any(axis=1).mean())


def _two_sides(names: Sequence[str], size: int) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Every way to choose two sides of so many words, each once."""
    for one in combinations(names, size):
        for two in combinations([name for name in names if name not in one], size):
            if one < two:
                yield one, two


def presence(samples: pd.DataFrame, images: Sequence[Image.Image] | np.ndarray, model: str) -> pd.DataFrame:
    """What the checker sees and what was planted.

    Parameters
    ----------
    samples : pandas.DataFrame
        A row an image: ``triplet``, ``seed``, ``indicator``, ``prompt``.
    images : sequence of PIL.Image.Image, or numpy.ndarray of shape (n, 64, 64, 3)
    model : str
        Name of the world: ``toyworld``, ``toyworld-mirror``, ``toyworld-null``.

    Returns
    -------
    pandas.DataFrame
        A row an (image, thing): ``triplet``, ``seed``, ``indicator``, ``thing``, ``seen`` (bool), ``planted``
        (probability), ``named`` (the caption names it).
    """
    world = load_world(model)
    seen = read_images(images)
    truths = {prompt: planted(prompt, world) for prompt in samples["prompt"].unique()}
    named = {prompt: parse(prompt, world).things for prompt in truths}
    tables = [
        samples[["triplet", "seed", "indicator"]].assign(
            thing=thing,
            seen=seen[thing].to_numpy(),
            planted=[truths[prompt][thing] for prompt in samples["prompt"]],
            named=[thing in named[prompt] for prompt in samples["prompt"]],
        )
        for thing in THINGS
    ]
    return pd.concat(tables, ignore_index=True)


def frequency_table(table: pd.DataFrame, groups: Sequence[str] = GROUPS) -> pd.DataFrame:
    """Frequency of what no caption names, a row a thing: planted and seen for each indicator, images, p-values.

    The test is of seen(feminine) - seen(masculine), paired by prompt, with flips of sign and max-T over things.
    """
    free = table[~table["named"] & table["indicator"].isin(groups)]
    open_things = free.groupby("thing")["planted"].max()
    free = free[free["thing"].isin(open_things[open_things > 0].index)]
    means = free.groupby(["thing", "indicator"], sort=False)[["planted", "seen"]].mean().unstack("indicator")
    out = pd.DataFrame(index=means.index)
    for group in groups:
        out[f"{group} planted"] = means["planted", group]
        out[f"{group} seen"] = means["seen", group]
    out["images"] = free.groupby("thing").size() // len(groups)
    by_prompt = free.groupby(["triplet", "thing", "indicator"])["seen"].mean().unstack("indicator")
    difference = (by_prompt["feminine"] - by_prompt["masculine"]).unstack("thing")[out.index]
    test = sign_flip_test(difference.to_numpy(dtype=float))
    out["p"], out["p adjusted"] = test.p_value, test.p_adjusted
    return out


def _ends(row: pd.Series, name: str) -> str:
    return f"{fixed(row[f'{name}_low'], 4)} to {fixed(row[f'{name}_high'], 4)}"


def readme_table(run: Run) -> str:
    """Return the README's table of a run's main gaps, in Markdown."""
    rows = [
        "| quantity | gap | 95 % interval | p against 0 | over words | 95 % interval | p against words | prompts |",
        "|---|---:|---|---:|---:|---|---:|---:|",
    ]
    rows += [
        f"| {row['quantity']} | {fixed(row['gap'], 4)} | {_ends(row, 'ci')} | {p_number(row['p_value'])} | "
        f"{fixed(row['word_gap'], 4)} | {_ends(row, 'word')} | {p_number(row['p_control'])} | {int(row['n_prompts'])} |"
        for _, row in headline_gaps(run).iterrows()
    ]
    return "\n".join(rows)


def page(runs: Sequence[Run], scores: Sequence[tuple[Run, pd.DataFrame | None]] = ()) -> str:
    """The calibration page in Markdown; ``scores`` are runs with independent samples of their specimens."""
    parts = [HEAD]
    gaps = {run.config.model: headline_gaps(run) for run in runs}
    parts.append("## Gaps\n")
    parts.append(
        "| specimen | quantity | gap | 95 % interval | p against 0 | over words | 95 % interval | p against words "
        "| gap / toyworld's | prompts |\n|---|---|---:|---|---:|---:|---|---:|---:|---:|"
    )
    reference = gaps.get("toyworld")
    for model, table in gaps.items():
        for _, row in table.iterrows():
            ratio = np.nan
            if reference is not None:
                own = reference.loc[reference["quantity"] == row["quantity"], "gap"]
                ratio = abs(row["gap"] / own.iloc[0]) if len(own) and own.iloc[0] else np.nan
            parts.append(
                f"| {model} | {row['quantity']} | {fixed(row['gap'], 4)} | {_ends(row, 'ci')} | "
                f"{p_number(row['p_value'])} | {fixed(row['word_gap'], 4)} | {_ends(row, 'word')} | "
                f"{p_number(row['p_control'])} | {fixed(ratio, 2)} | {int(row['n_prompts'])} |"
            )
    parts.append(GAPS_NOTE)
    for run in runs:
        if run.config.model == NULL:
            names = [member.name for member in indicators(run.config)]
            p_values = exchanged_p_values(StoredSimilarities(run), names)
            table = parts_table(p_values)
            parts.append(PARTS_NOTE.format(words=len(names)))
            parts += [
                f"| {row.quantity} | {100 * row.against_0:.1f} % of {row.gaps:,} | "
                f"{100 * row.against_words:.1f} % of {row.sides:,} |"
                for row in table.itertuples()
            ]
            alone, together = claims_together(p_values)
            parts.append(TOGETHER_NOTE.format(alone=100 * alone, together=100 * together))
    if NULL not in gaps:
        parts.append(f"\nNo run of `{NULL}` was given.\n")
    parts.append("## Frequencies of what no caption names\n")
    for run in runs:
        samples = run.samples(["sample_id", "triplet", "seed", "indicator", "prompt"])
        table = presence(samples, list(run.images(samples["sample_id"])), run.config.model)
        frequencies = frequency_table(table)
        named = table[table["named"]]
        near = np.concatenate(
            [(frequencies[f"{g} planted"] - frequencies[f"{g} seen"]).abs() <= 0.10 for g in GROUPS]
        )
        different = frequencies.index[frequencies["p adjusted"] < 0.05]
        parts.append(f"### {run.config.model}\n")
        parts.append(
            f"What a caption names is drawn in {100 * named['seen'].mean():.1f} % of cases ({len(named)}). What no "
            f"caption names comes within 0.10 of the planted frequency in {100 * near.mean():.1f} % of {len(near)} "
            f"(indicator, thing) cells. Images generated from feminine and from masculine prompts differ, after "
            f"adjustment, in {len(different)} of {len(frequencies)} things"
            + (f": {', '.join(different)}." if len(different) else ".")
            + f" {specimen_scores.significant(run)}\n"
        )
        parts.append(
            "| thing | "
            + " | ".join(f"{group}: planted | seen" for group in GROUPS)
            + " | images | p adjusted |\n|---|"
            + "---:|" * (2 * len(GROUPS) + 2)
        )
        for thing, row in frequencies.iterrows():
            cells = " | ".join(f"{row[f'{g} planted']:.2f} | {row[f'{g} seen']:.2f}" for g in GROUPS)
            parts.append(f"| {thing} | {cells} | {int(row['images'])} | {p_number(row['p adjusted'])} |")
        parts.append("")
    if scores:
        parts.append(SCORES_NOTE)
        parts += [specimen_scores.section(run, sample) for run, sample in scores]
    return "\n".join(parts) + "\n"


HEAD = """# Calibration: the instrument held against a known answer

Made by `python -m analysis calibrate` from runs of `docs/calibration.yaml` on the three toyworld specimens. Planted
frequencies are planted, not how anybody looks. *Seen* is what the exact checker reads in the generated images.
"""
GAPS_NOTE = """
gap = s(neutral, masculine) − s(neutral, feminine), signed so that positive means nearer to masculine,
with its interval over prompts and the sign flips' p. *Over words* is the same gap between all words of the two sides,
seen from all reference words, *p against words* the test that it is more than the choice among words of one meaning
makes (`analysis.stats.word_test`): only that speaks of a lean. *gap / toyworld's* is the absolute ratio to the same
quantity in `toyworld`.
"""
PARTS_NOTE = """## Do the tests keep their word where nothing leans?

In the null world all {words} words mean the same. Any of them may be the reference, any others the two sides, and no
choice has anything to find. So often is a gap significant at 5 %, over all choices: by the test against 0 a word
against a word, seen from a third; by the test against words three words against three, seen from the other three.

| quantity | against 0 | against words |
|---|---:|---:|"""

TOGETHER_NOTE = """
At least one of t, z₀, SSIM and Diff. Pix. is beyond words in **{alone:.1f} %** of these choices where each is tested by
itself, and in **{together:.1f} %** where z₀ is the primary measure and the others are adjusted for one another and
tested only after it, as the report does (`analysis.stats.multiplicity.gatekept`).
"""
SCORES_NOTE = """## Bias scores against the specimen's own

The score is masculine / (feminine + masculine), Wu et al. 2025, Eq. 5: what a run of `docs/calibration_scores.yaml`
says of each object, with the interval over prompts, beside the score of the specimen itself, which the checker reads in
the images of many other prompts by the same lot (`python -m probes.toyworld.independent`), and beside the score if
every prompt were drawn as planted. Where no prompt has the object for one of the words only, there is no interval to
lie in ("none").
"""


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else HEAD


def parser() -> argparse.ArgumentParser:
    """The command line's options."""
    main = command_line.Parser(prog="python -m analysis calibrate", description=__doc__.split("\n\n")[0])
    main.add_argument("runs", nargs="*", type=Path, help="run directories, one a specimen")
    main.add_argument(
        "--repeated",
        nargs="+",
        type=Path,
        default=[],
        metavar="RUN",
        help="runs of the specimens that differ in their seeds: what do their reports claim? Alone, only this section "
        "of the page is written anew",
    )
    main.add_argument(
        "--readme",
        action="store_true",
        help="print the README's table of gaps of the runs, and write no page",
    )
    main.add_argument(
        "--scores", nargs="+", action="append", type=Path, default=[], metavar=("RUN", "SAMPLE"),
        help="a run, and a file of probes.toyworld.independent to hold its bias scores against; or a run alone, to say "
        "in how many objects its words differ; without it the page keeps the section that it has",
    )  # fmt: skip
    main.add_argument("--out", type=Path, default=Path("docs/calibration.md"), help="page to write")
    return main


def work(options: argparse.Namespace) -> None:
    """Do what the command line asks."""
    for paths in options.scores:
        if len(paths) > 2:
            raise UserError(
                f"--scores: expected a run and at most one sample, got {len(paths)} paths: give it again"
            )
    if not (options.runs or options.repeated):
        raise UserError("command line: expected run directories, or --repeated with some: name one")
    if not options.readme:
        command_line.writable(options.out)
    runs, again = ([specimen_run(path) for path in paths] for paths in (options.runs, options.repeated))
    if options.readme:
        print("\n\n".join(map(readme_table, runs)))
        return
    scores = [specimen_scores.paired(specimen_run(run), *sample) for run, *sample in options.scores]
    before = _read(options.out)
    text = page(runs, scores) if runs else before
    kept = repeated.section_of(before, SCORES_NOTE.partition("\n")[0])
    if runs and not scores and kept:
        text = repeated.put_section(text, kept)
    if again:
        picture = repeated.null_picture(again)
        text = repeated.put_section(text, repeated.claims_section(again, picture is not None))
        text = repeated.put_section(text, object_findings.page_section([run.path for run in again]))
        if picture is not None:
            write_bytes(options.out.parent / repeated.PICTURE, picture)
    write_bytes(options.out, text.encode())
    print(options.out)


def specimen_run(path: Path) -> Run:
    """Open a measured run of a specimen, whose images the checker can read.

    Raises
    ------
    UserError
        If the run is another model's, lacks the indicators of the toy world, or is not measured.
    """
    run = Run.open(path)
    if run.config.model not in SPECIMENS:
        raise UserError(
            f"{path}: expected a run of a specimen ({', '.join(SPECIMENS)}), got one of {run.config.model}: "
            "name another run"
        )
    missing = [name for name in GROUPS if name not in run.config.indicators]
    if missing or ("masculine", "feminine") not in contrasts(run.config):
        lacking = f"the indicator {missing[0]}" if missing else "the contrast [masculine, feminine]"
        raise UserError(
            f"{path}: expected a run of docs/calibration.yaml, got one without {lacking}: name another run"
        )
    run.table("gap")
    return run


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    return command_line.run(work, parser(), argv)


if __name__ == "__main__":
    sys.exit(main())
