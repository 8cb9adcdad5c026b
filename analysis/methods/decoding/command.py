"""Linear probes of a model's activations: ``triptych decode triplets.yaml`` (or a run).

Draws the prompts with the words of the run's first contrast, words of the same meaning and the reference, keeps the
activations' means (into ``run`` of the output folder, and goes on there when it is called again), and fits probes to
every site and step. Writes ``decoding.csv`` (one row per site, group of token positions and step),
``decoding_steps.csv`` (from which step on), ``decoding_sites.csv`` (sites ranked by separability), on toyworld's models
``decoding_reader.csv`` (how early anybody could read it) and figures as PDF and PNG. Readable is not used: probes stand
beside interventions (``trace``), never instead.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from tqdm import tqdm

from analysis.methods.decoding import fit, places
from analysis.methods.decoding import scores as numbers
from analysis.methods.decoding.defaults import NOT_USED, SITES
from analysis.methods.decoding.figures import draw_positions, draw_steps
from analysis.methods.decoding.generate import generate, pipeline
from analysis.methods.decoding.reader import reference
from analysis.methods.tracing.outcomes import (
    VERDICT,
    TracedImages,
    by_checker,
    chosen_outcomes,
    outcomes,
)
from analysis.report.figures import files
from analysis.report.format import interval, number
from probes import command_line
from probes.config.schema import Config, load_config
from probes.csv_text import csv_bytes
from probes.runs.parts import write_bytes
from probes.runs.run import Run


def measure(
    run: Run, choice: numbers.Choice = numbers.USUAL, *, sites: Sequence[str] = (), progress: bool = False
) -> dict[str, pd.DataFrame]:
    """Tables ``decoding``, ``decoding_steps``, ``decoding_sites`` and, of a bundled model, ``decoding_reader``.

    A UserError where the run has no pooled activations, no contrast or too few prompts.
    """
    config, chosen = run.config, places.roles(run.config)
    found = places.read(run, sites)
    places.require_prompts(str(run.path), found.samples["triplet"].nunique())
    outcome = outcome_labels(run, found, chosen)
    total = sum(values.shape[1] for values in found.values.values())
    with tqdm(total=total, desc="decode", unit="probe", disable=not progress) as bar:
        table = fit.decoding(found, chosen, outcome, choice, bar.update)
    tables = {
        "decoding": table,
        "decoding_steps": fit.steps(table),
        "decoding_sites": fit.separability(table),
    }
    per_step = table[table["step"] >= 0].drop_duplicates("step").sort_values("step")
    if by_checker(config.model) and len(per_step):
        texts = run.samples(["prompt", "indicator"])
        texts = texts[texts["indicator"] == chosen.reference]["prompt"].drop_duplicates().tolist()
        tables["decoding_reader"] = reference(pipeline(run), texts, per_step["timestep"].tolist(), choice)
    return tables


def outcome_labels(run: Run, found: places.Activations, chosen: places.Roles) -> NDArray[np.float64]:
    """Outcome of the reference's images: 1 where one is like the first word's, 0 like the second's, else NaN.

    By the verdict on toyworld's models, else by the gap of pictures (`analysis.methods.tracing.outcomes`).
    """
    names = (chosen.reference, chosen.first, chosen.second)
    samples = run.samples(["sample_id", "triplet", "seed", "indicator", "prompt", "fault"])
    samples = samples[samples["indicator"].isin(names)].reset_index(drop=True)
    rows = samples.rename(columns={"indicator": "recipient"}).assign(
        variant=samples["sample_id"], kind="none"
    )
    (name,) = chosen_outcomes(None, run.config.model, prompts=samples["prompt"].unique())
    left_out = run.left_out()
    readable = [sample for sample in samples["sample_id"] if sample not in left_out]
    pictures = dict(zip(readable, run.images(readable)))
    images = [pictures.get(sample) for sample in samples["sample_id"]]
    table = outcomes(TracedImages(rows, images, chosen.first, chosen.second), [name])
    sign = _direction(run.config, chosen) if name == VERDICT else 1.0
    value = sign * found.samples["sample_id"].map(table.set_index("variant")["value"]).to_numpy(float)
    return np.where(np.isnan(value) | (value == 0), np.nan, (value > 0).astype(float))


def _direction(config: Config, chosen: places.Roles) -> float:
    """The sign by which a verdict, positive for masculine words, speaks for the first word of the contrast."""
    from probes.toyworld.world import group_of_words

    group, _ = group_of_words().get(config.indicators[chosen.first].word, ("masculine", False))
    return -1.0 if group == "feminine" else 1.0


def summary(tables: dict[str, pd.DataFrame], chosen: places.Roles) -> str:
    """The main findings, a line each."""
    table, steps = tables["decoding"], tables["decoding_steps"]
    lines = []
    for row in tables["decoding_sites"].head(3).to_dict("records"):
        cell = table[
            (table["site"] == row["site"]) & (table["group"] == row["group"]) & (table["step"] == row["step"])
        ].iloc[0]
        at = f" at {row['group']}" if row["group"] else ""
        when = f", step {row['step']}" if row["step"] >= 0 else ""
        lines.append(
            f"{row['site']}{at}{when}: AUC {number(cell['auc'], 3)} {interval(cell['auc_low'], cell['auc_high'], 3)},"
            f" accuracy {number(cell['accuracy'], 3)}, selectivity {number(cell['selectivity'], 3, signed=True)},"
            f" synonyms {number(cell['synonyms'], 3)}, outcome {number(cell['outcome'], 3)}"
        )
    space = steps[steps["group"] == ""]
    if len(space):
        begun = space["decoding_step"].dropna()
        middle = (
            f"; median step {number(float(begun.median()), 0)}, first {int(begun.min())}"
            if len(begun)
            else ""
        )
        lines.append(
            f"{len(begun)} of {len(space)} sites of the denoiser tell {chosen.second} from"
            f" {chosen.first} at some step{middle}"
        )
    if "decoding_reader" in tables:
        reader = tables["decoding_reader"]
        known = reader[reader["step"] >= 0]
        first = numbers.decoding_step(known["auc"], known["auc_low"])
        clean = reader[reader["step"] < 0].iloc[0]
        lines.append(
            f"reference reader: from step {'none' if first is None else int(known['step'].iloc[first])} on,"
            f" AUC {number(clean['auc'], 3)} without noise"
        )
    return "\n".join([*lines, NOT_USED])


def work(options: argparse.Namespace) -> None:
    """Do what the command line asks."""
    run, out = _run(options), options.out
    choice = numbers.Choice(options.folds, options.strength, options.resamples, options.level, options.seed)
    tables = measure(run, choice, sites=options.sites, progress=not options.quiet)
    for name, table in tables.items():
        write_bytes(out / f"{name}.csv", csv_bytes(table))
    chosen = places.roles(run.config)
    words = [run.config.indicators[name].word for name in (chosen.first, chosen.second)]
    drawn = (
        draw_steps(tables["decoding"], tables["decoding_steps"], tables.get("decoding_reader"), *words),
        draw_positions(tables["decoding"], *words),
    )
    for figure in drawn:
        for name, data in files(figure).items() if figure else ():
            write_bytes(out / name, data)
    print(summary(tables, chosen))
    print(f"tables and figures: {out}")


def _run(options: argparse.Namespace) -> Run:
    """The run to fit probes to: the target, where it has pooled activations; else one that is drawn."""
    target = options.target
    command_line.writable(options.out, folder=True)
    if target.is_dir():
        there = Run.open(target)
        if there.parts("pooled"):
            return there
        config = there.config
    else:
        config = load_config(target)
    return generate(
        config,
        options.out / "run",
        seeds=options.seeds,
        sites=options.sites or SITES,
        limit=options.limit,
        quiet=options.quiet,
        stages=options.stages,
    )
