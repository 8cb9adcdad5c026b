"""Sparse autoencoders of a run's activations: ``triptych sae RUN``.

Trains on the vectors of a site that the run keeps, prompts held out, and writes ``sae_weights.safetensors`` and
``cfg.json`` (the layout of SAELens), ``sae.csv`` (one row: scores on held-out prompts), ``sae_calls.csv`` (by call of
the denoiser), ``sae_latents.csv`` (one row per latent: how often it is active, and how much for each word) and a figure
as PDF and PNG.
"""

from __future__ import annotations

import argparse

import pandas as pd
from tqdm import tqdm

from analysis.methods.autoencoders import activations
from analysis.methods.autoencoders.figures import draw_scores
from analysis.methods.autoencoders.scores import HeldOutScores, scores
from analysis.report.figures import files
from analysis.report.format import number
from probes import command_line
from probes.csv_text import csv_bytes
from probes.execution import workers
from probes.models.autoencoder_training import Trained, Training, train
from probes.models.autoencoders import save_autoencoder
from probes.models.devices import pick_device
from probes.runs.parts import write_bytes
from probes.runs.store import Run


def work(options: argparse.Namespace) -> None:
    """Do what the command line asks."""
    run, out = Run.open(options.run), command_line.writable(options.out, folder=True)
    found = activations.read(
        run, options.site, most=options.vectors, share=options.held_out, seed=options.seed
    )
    training = Training(
        latents=options.latents or 4 * found.values.shape[1],
        k=options.k,
        steps=options.steps,
        batch=options.batch,
        rate=options.rate,
        seed=options.seed,
        device=str(pick_device(options.device, "--device")),
    )
    with workers.deterministic(1), tqdm(total=training.steps, desc="sae", disable=options.quiet) as bar:
        trained = train(found.values[~found.held_out], training, site=found.site, progress=bar.update)
        held_out = scores(trained.autoencoder, found.values[found.held_out], found.about[found.held_out])
    metadata = {
        "model_name": run.config.model,
        "dataset_path": str(run.config.name),
        "training_vectors": int((~found.held_out).sum()),
        "explained_variance_held_out": held_out.explained_variance,
    }
    save_autoencoder(trained.autoencoder, out, metadata)
    tables = {"sae": _row(found, training, trained, held_out)}
    tables |= {"sae_calls": held_out.calls, "sae_latents": held_out.latents}
    for name, table in tables.items():
        write_bytes(out / f"{name}.csv", csv_bytes(table))
    for name, data in files(draw_scores(held_out, trained.history, found.site)).items():
        write_bytes(out / name, data)
    prompts = found.about["triplet"][found.held_out].nunique()
    print(
        f"{found.site}: {training.latents} latents, k = {training.k}; {prompts} held-out prompts: explained variance"
        f" {number(held_out.explained_variance, 3)}, L0 {number(held_out.l0, 1)}, dead latents"
        f" {number(100 * held_out.dead, 1)} %"
    )
    print(f"weights, tables and a figure: {out}")


def _row(
    found: activations.KeptActivations, training: Training, trained: Trained, held_out: HeldOutScores
) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {
                "site": found.site,
                "channels": found.values.shape[1],
                "latents": training.latents,
                "k": training.k,
                "training_vectors": int((~found.held_out).sum()),
                "held_out_vectors": int(found.held_out.sum()),
                "explained_variance": held_out.explained_variance,
                "explained_variance_training": 1 - trained.history["unexplained"].iloc[-1],
                "l0": held_out.l0,
                "dead": held_out.dead,
                "dead_training": trained.history["dead"].iloc[-1],
            }
        ]
    )
