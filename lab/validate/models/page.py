"""The page docs/calibration.md, and the README's table of gaps, in Markdown."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from analysis.metrics.registry import METRICS, computed_from, headline_metrics
from analysis.report.format import fixed, p_number
from analysis.study import indicators
from analysis.tables.similarities.stored import StoredSimilarities
from lab.validate.models import scores as models_scores
from lab.validate.models.frequencies import frequency_table, seen_and_planted
from lab.validate.models.gaps import claims_together, exchanged_p_values, headline_gaps, rejection_table
from probes.runs.store import Run
from probes.toyworld.world import GROUPS

NULL = "toyworld-null"
PValues = dict[str, tuple[np.ndarray, np.ndarray]]  # of `exchanged_p_values`


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
    """Return the calibration page in Markdown; ``scores`` are runs with independent samples of their specimens."""
    lines = [HEAD, *_gaps_section({run.config.model: headline_gaps(run) for run in runs})]
    null_runs = [run for run in runs if run.config.model == NULL]
    for run in null_runs:
        lines += _exchange_section(run)
    if not null_runs:
        lines.append(f"\nNo run of `{NULL}` was given.\n")
    lines.append("## Frequencies of what no caption names\n")
    for run in runs:
        lines += _frequency_section(run)
    if scores:
        lines.append(SCORES_NOTE)
        lines += [models_scores.section(run, sample) for run, sample in scores]
    return "\n".join(lines) + "\n"


def _gaps_section(gaps: dict[str, pd.DataFrame]) -> list[str]:
    """Lines on the main gaps of each specimen, beside those of ``toyworld`` if it is among them."""
    lines = [
        "## Gaps\n",
        "| specimen | quantity | gap | 95 % interval | p against 0 | over words | 95 % interval | p against words "
        "| gap / toyworld's | prompts |\n|---|---|---:|---|---:|---:|---|---:|---:|---:|",
    ]
    reference = gaps["toyworld"].set_index("quantity")["gap"] if "toyworld" in gaps else {}
    for model, table in gaps.items():
        for _, row in table[~table["quantity"].isin(_of_features())].iterrows():
            beside = reference.get(row["quantity"])
            ratio = abs(row["gap"] / beside) if beside else np.nan
            lines.append(
                f"| {model} | {row['quantity']} | {fixed(row['gap'], 4)} | {_ends(row, 'ci')} | "
                f"{p_number(row['p_value'])} | {fixed(row['word_gap'], 4)} | {_ends(row, 'word')} | "
                f"{p_number(row['p_control'])} | {fixed(ratio, 2)} | {int(row['n_prompts'])} |"
            )
    return [*lines, GAPS_NOTE]


def _of_features() -> list[str]:
    """Symbols of the measures that have a section of their own."""
    return [METRICS[name].symbol for name in computed_from("features") if METRICS[name].site]


def features_section(runs: Sequence[Run]) -> str:
    """Return the section on gaps by features: those of each specimen, and how often words of one meaning differ.

    Parameters
    ----------
    runs : sequence of Run
        Of the specimens, on the same prompts.
    """
    symbols = _of_features()
    lines = [
        FEATURES_NOTE.format(prompts=max(int(run.samples(["triplet"])["triplet"].nunique()) for run in runs))
    ]
    for run in runs:
        table = headline_gaps(run)
        lines += [
            f"| {run.config.model} | {row['quantity']} | {fixed(row['gap'], 4)} | {_ends(row, 'ci')} | "
            f"{p_number(row['p_value'])} | {fixed(row['word_gap'], 4)} | {_ends(row, 'word')} | "
            f"{p_number(row['p_control'])} | {int(row['n_prompts'])} |"
            for _, row in table[table["quantity"].isin(symbols)].iterrows()
        ]
    for run in runs:
        if run.config.model == NULL:
            p_values = exchanged_p_values(StoredSimilarities(run), [m.name for m in indicators(run.config)])
            lines += ["\n" + EXCHANGED_FEATURES, *_rejections(p_values, symbols), _together(p_values)]
    return "\n".join(lines) + "\n"


def _exchange_section(run: Run) -> list[str]:
    """Lines on how often the tests reject in the null world, over all choices of words."""
    names = [member.name for member in indicators(run.config)]
    p_values = exchanged_p_values(StoredSimilarities(run), names)
    shown = [symbol for symbol in p_values if symbol not in _of_features()]
    return [EXCHANGE_NOTE.format(words=len(names)), *_rejections(p_values, shown), _together(p_values)]


def _rejections(p_values: PValues, shown: Sequence[str]) -> list[str]:
    return [
        f"| {row.quantity} | {100 * row.against_0:.1f} % of {row.gaps:,} | "
        f"{100 * row.against_words:.1f} % of {row.sides:,} |"
        for row in rejection_table(p_values).itertuples()
        if row.quantity in shown
    ]


def _together(p_values: PValues) -> str:
    """The sentence on at least one of all measures that were tested."""
    alone, together = claims_together(p_values)
    *some, last = [metric.symbol for metric in headline_metrics() if metric.symbol in p_values]
    measures = f"{', '.join(some)} and {last}" if some else last
    return TOGETHER_NOTE.format(measures=measures, alone=100 * alone, together=100 * together)


def _frequency_section(run: Run) -> list[str]:
    """Lines on how often each thing that no caption names was planted and seen."""
    samples = run.samples(["sample_id", "triplet", "seed", "indicator", "prompt"])
    table = seen_and_planted(samples, list(run.images(samples["sample_id"])), run.config.model)
    frequencies = frequency_table(table)
    named = table[table["named"]]
    near = np.concatenate(
        [(frequencies[f"{g} planted"] - frequencies[f"{g} seen"]).abs() <= 0.10 for g in GROUPS]
    )
    different = frequencies.index[frequencies["p adjusted"] < 0.05]
    lines = [
        f"### {run.config.model}\n",
        f"What a caption names is drawn in {100 * named['seen'].mean():.1f} % of cases ({len(named)}). What no "
        f"caption names comes within 0.10 of the planted frequency in {100 * near.mean():.1f} % of {len(near)} "
        f"(indicator, thing) cells. Images generated from feminine and from masculine prompts differ, after "
        f"adjustment, in {len(different)} of {len(frequencies)} things"
        + (f": {', '.join(different)}." if len(different) else ".")
        + f" {models_scores.significant(run)}\n",
        "| thing | "
        + " | ".join(f"{group}: planted | seen" for group in GROUPS)
        + " | images | p adjusted |\n|---|"
        + "---:|" * (2 * len(GROUPS) + 2),
    ]
    for thing, row in frequencies.iterrows():
        cells = " | ".join(f"{row[f'{g} planted']:.2f} | {row[f'{g} seen']:.2f}" for g in GROUPS)
        lines.append(f"| {thing} | {cells} | {int(row['images'])} | {p_number(row['p adjusted'])} |")
    return [*lines, ""]


HEAD = """# Calibration: the instrument held against a known answer

Made by `python -m lab.validate.models.calibrate` from runs of `docs/calibration.yaml` on the three toyworld specimens. Planted
frequencies are planted, not how anybody looks. *Seen* is what the exact checker reads in the generated images.
"""
GAPS_NOTE = """
gap = s(neutral, masculine) − s(neutral, feminine), signed so that positive means nearer to masculine,
with its interval over prompts and the sign flips' p. *Over words* is the same gap between all words of the two sides,
seen from all reference words, *p against words* the test that it is more than the choice among words of one meaning
makes (`analysis.stats.word_test`): only that speaks of a lean. *gap / toyworld's* is the absolute ratio to the same
quantity in `toyworld`.
"""
FEATURES_NOTE = """## Gaps by features

The same gaps by the small networks of `docs/features.md`, from the first {prompts} prompts of `docs/calibration.yaml`
(`python -m lab.validate.models.calibrate --features RUN ...`). Signs and tests are as above.

| specimen | quantity | gap | 95 % interval | p against 0 | over words | 95 % interval | p against words | prompts |
|---|---|---:|---|---:|---:|---|---:|---:|"""
EXCHANGED_FEATURES = """In the null world, over all ways to give out the words' parts, so often significant at 5 %:

| quantity | against 0 | against words |
|---|---:|---:|"""
EXCHANGE_NOTE = """## Do the tests keep their word where nothing leans?

In the null world all {words} words mean the same. Any of them may be the reference, any others the two sides, and no
choice has anything to find. So often is a gap significant at 5 %, over all choices: by the test against 0 a word
against a word, seen from a third; by the test against words three words against three, seen from the other three.

| quantity | against 0 | against words |
|---|---:|---:|"""

TOGETHER_NOTE = """
At least one of {measures}
is beyond words in **{alone:.1f} %** of these choices where each is tested by itself, and in **{together:.1f} %** where
z₀ is the primary measure and the others are adjusted for one another and tested only after it, as the report does
(`analysis.stats.multiplicity.gatekept`).
"""
SCORES_NOTE = """## Bias scores against the specimen's own

The score is masculine / (feminine + masculine), Wu et al. 2025, Eq. 5: what a run of `docs/calibration_scores.yaml`
says of each object, with the interval over prompts, beside the score of the specimen itself, which the checker reads in
the images of many other prompts by the same lot (`python -m lab.train.base.independent`), and beside the score if
every prompt were drawn as planted. Where no prompt has the object for one of the words only, there is no interval to
lie in ("none").
"""
