"""Gaps of the headline metrics when a choice moves: readout, seeds, words, and the seed of resamples."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from analysis.metrics.registry import headline_metrics
from analysis.studies.sensitivity.setting import Setting
from analysis.study import contrasts, indicators
from analysis.tables.similarities.families import shares_noise
from analysis.tables.similarities.gap import gap
from analysis.tables.similarities.similarities import Similarities
from analysis.tables.similarities.specifications import AS_RUN, READOUTS, specifications
from analysis.tables.similarities.stored import StoredSimilarities
from probes.runs.store import Run

DRAWS = (0, 1, 2)  # seeds of resamples and sign flips


def gap_settings(run: Run) -> Iterator[Setting]:
    """Gaps of the headline metrics under every setting that the run leaves room for."""
    config, pairs = run.config, StoredSimilarities(run).by_unit()
    readout = config.measure.text_readout
    symbols = {metric.place: metric.symbol for name in READOUTS for metric in headline_metrics(name)}
    pairs = pairs.only(symbols)
    other_readouts = [f"cosine_{name}" for name in READOUTS if name != readout]
    main = pairs.select(lambda space, site, metric: metric not in other_readouts)
    controls = {member.name: member.control for member in indicators(config) if member.control}
    if not pairs.keys or not contrasts(config):
        return

    def gaps(chosen: Similarities, **options: int) -> pd.DataFrame:
        sampling = {"level": config.measure.level, "resamples": config.measure.bootstrap}
        table = gap(
            chosen,
            indicators=[member.name for member in indicators(config)],
            reference=config.reference,
            contrasts=contrasts(config),
            controls=controls,
            permutations=config.measure.permutations,
            shared_noise=shares_noise(config),
            **{"seed": config.measure.seed} | sampling | options,
        )
        return _findings(table, symbols)

    for name in READOUTS:
        chosen = pairs.select(lambda space, site, metric: metric == f"cosine_{name}")  # noqa: B023
        if chosen.keys:
            yield Setting("readout of prompt space", name, name == readout, gaps(chosen))
    seeds = main.seeds if config.unit == "prompt" else []  # one of a thousand moves nothing
    if len(seeds) > 1:
        yield Setting("seeds", "all", True, gaps(main))
        for seed in seeds:
            yield Setting("seeds", f"{seed} alone", False, gaps(main.select(seeds=[seed])))
        for seed in seeds if len(seeds) > 2 else ():
            others = [other for other in seeds if other != seed]
            yield Setting("seeds", f"without {seed}", False, gaps(main.select(seeds=others)))
    if controls:
        table = specifications(
            pairs,
            indicators={member.name: member.word for member in indicators(config)},
            reference=config.reference,
            contrasts=contrasts(config),
            controls=controls,
            text_readout=readout,
            level=config.measure.level,
            fewest=1,
            shared_noise=shares_noise(config),
        )
        table = _findings(table, symbols).rename(columns={"low": "ci_low", "high": "ci_high"})
        table = table.drop(columns=["gap", "of_run"])
        without = [name for name in table["specification"].unique() if name.startswith("without “")]
        for name in (AS_RUN, *without):
            yield Setting("words", name, name == AS_RUN, table[table["specification"] == name])
    for draw in dict.fromkeys((config.measure.seed, *DRAWS)):
        yield Setting("resamples", f"seed {draw}", draw == config.measure.seed, gaps(main, seed=draw))


def _findings(table: pd.DataFrame, symbols: dict[tuple[str, str, str], str]) -> pd.DataFrame:
    """Rows of a table of gaps as findings, by the symbols of their metrics."""
    quantity = [symbols[key] for key in zip(table["space"], table["site"], table["metric"])]
    return table.assign(kind="gap", what=table["contrast"], quantity=quantity, value=table["gap"])
