"""Linear probes of a model's activations: ``triptych decode triplets.yaml`` (or a run).

Generates the prompts with the words of the run's first contrast, words of the same meaning and the reference, keeps the
activations' means (into ``run`` of the output folder, and resumes there when it is called again), and fits probes to
every site and step. Writes ``decoding.csv`` (a score of a site, group of token positions and step), on toyworld's
models with how early anybody could read it, ``decoding_sites.csv`` (sites ranked by how well they are read, and from
which step on) and a figure as PDF and PNG. Readable is not used: probes stand beside interventions (``trace``).
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.methods.decoding import NOT_USED, fit, places
from analysis.methods.decoding.figures import draw_scores
from analysis.methods.decoding.generate import generate
from analysis.methods.decoding.scores import USUAL, Choice
from analysis.methods.tracing.outcomes import VERDICT, chosen_outcomes, outcomes
from analysis.report.figures.style import files
from analysis.report.format import with_interval
from probes import command_line
from probes.config.schema import load_config
from probes.csv_text import csv_bytes
from probes.models.loading import load, resolve
from probes.runs.parts import write_bytes
from probes.runs.run import Run
from probes.toyworld import MODELS
from probes.toyworld.world import group_of_words


def measure(
    run: Run, choice: Choice = USUAL, *, sites: Sequence[str] = (), progress: bool = False
) -> dict[str, pd.DataFrame]:
    """Tables ``decoding`` (of a bundled model with the reference reader) and ``decoding_sites``.

    A UserError where the run has no pooled activations, no contrast or too few prompts.
    """
    chosen, found = places.roles(run.config), places.read(run, sites)
    places.require_prompts(str(run.path), found.samples["triplet"].nunique())
    outcome = outcome_labels(run, found, chosen)
    table = fit.decoding(found, chosen, outcome, choice, progress=progress)
    per_step = table[table["step"] >= 0].drop_duplicates("step").sort_values("step")
    if run.config.model in MODELS and len(per_step):
        texts = run.samples(["prompt", "indicator"])
        texts = texts[texts["indicator"] == chosen.reference]["prompt"].drop_duplicates().tolist()
        model, sampler = run.config.model, run.config.sampler
        pipe = load(resolve(model), scheduler=sampler.scheduler, steps=sampler.steps).pipe
        read = fit.reader(pipe, texts, per_step["timestep"].tolist(), choice)
        table = pd.concat([table, read], ignore_index=True)
    return {"decoding": table, "decoding_sites": fit.sites(table)}


def outcome_labels(run: Run, found: places.Activations, chosen: places.Roles) -> NDArray[np.float64]:
    """Outcome of the reference's images: 1 where one is like the first word's, 0 like the second's, else NaN.

    By the verdict on toyworld's models, else by the gap of pictures (`analysis.methods.tracing.outcomes`).
    """
    rows = run.samples(["sample_id", "triplet", "seed", "indicator", "prompt", "fault"])
    rows = rows[rows["indicator"].isin([chosen.reference, chosen.first, chosen.second])]
    rows = rows.rename(columns={"sample_id": "variant", "indicator": "recipient"}).assign(kind="none")
    (name,) = chosen_outcomes(None, run.config.model, prompts=rows["prompt"].unique())
    left_out = run.left_out()
    readable = [sample for sample in rows["variant"] if sample not in left_out]
    pictures = dict(zip(readable, run.images(readable)))
    images = [pictures.get(sample) for sample in rows["variant"]]
    rows = rows.reset_index(drop=True)
    table = outcomes(rows, images, [name], run.config)
    # a verdict is positive for masculine words
    group, _ = group_of_words().get(run.config.indicators[chosen.first].word, ("masculine", False))
    sign = -1.0 if name == VERDICT and group == "feminine" else 1.0
    value = sign * found.samples["sample_id"].map(table.set_index("variant")["value"]).to_numpy(float)
    return np.where(np.isnan(value) | (value == 0), np.nan, (value > 0).astype(float))


def summary(sites: pd.DataFrame, chosen: places.Roles) -> str:
    """The main findings, a line each."""
    lines = []
    for best in sites.head(3).to_dict("records"):
        group = f" at {best['group']}" if best["group"] else ""
        step = f", step {best['step']}" if best["step"] >= 0 else ""
        auc, low, high = (0.5 + best[name] for name in ("score", "low", "high"))
        lines.append(f"{best['site']}{group}{step}: AUC {with_interval(auc, low, high)}")
    denoiser = sites[(sites["group"] == "") & (sites["step"] >= 0)]
    begun = denoiser["decoding_step"].dropna()
    steps = f"; median step {begun.median():g}, first {begun.min():g}" if len(begun) else ""
    lines.append(
        f"{len(begun)} of {len(denoiser)} sites of the denoiser tell {chosen.second} from {chosen.first} at some"
        f" step{steps}"
    )
    return "\n".join([*lines, NOT_USED])


def work(options: argparse.Namespace) -> None:
    """Do what the command line asks."""
    out, target = options.out, options.target
    command_line.writable(out, folder=True)
    run = Run.open(target) if target.is_dir() else None
    if run is None or not run.parts("pooled"):
        run = generate(run.config if run else load_config(target), options)
    choice = Choice(options.folds, options.strength, options.resamples, options.level, options.seed)
    tables = measure(run, choice, sites=options.sites, progress=not options.quiet)
    for name, table in tables.items():
        write_bytes(out / f"{name}.csv", csv_bytes(table))
    chosen = places.roles(run.config)
    words = " or ".join(run.config.indicators[name].word for name in (chosen.second, chosen.first))
    figure = draw_scores(tables["decoding"], tables["decoding_sites"], words)
    for name, data in files(figure).items() if figure else ():
        write_bytes(out / name, data)
    print(summary(tables["decoding_sites"], chosen))
    print(f"tables and figure: {out}")
