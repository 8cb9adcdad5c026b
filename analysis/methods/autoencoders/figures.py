"""How well a sparse autoencoder explains held-out prompts, by call of the denoiser; how often latents are active."""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.methods.autoencoders.scores import HeldOutScores
from analysis.report.figures.style import DOUBLE, INK, PALETTE, Drawn, new_figure, style
from analysis.report.format import number

_BINS = 24


def draw_scores(found: HeldOutScores, history: pd.DataFrame, site: str) -> Drawn:
    """Draw training, held-out scores by call, and frequencies of latents.

    Parameters
    ----------
    found : HeldOutScores
    history : DataFrame
        ``step``, ``unexplained``, ``dead``, of `probes.models.autoencoder_training`.
    site : str
    """
    with style():
        figure = new_figure(DOUBLE, 2.3)
        training, calls, often = figure.subplots(1, 3)
        training.plot(
            history["step"], 1 - history["unexplained"], color=PALETTE[0], label="explained variance"
        )
        training.plot(
            history["step"], history["dead"], color=PALETTE[1], ls=(0, (5, 1.6)), label="dead latents"
        )
        training.set(
            xlabel="step of training", ylabel="share", ylim=(min(0, 1 - history["unexplained"].max()), 1.02)
        )
        training.legend(loc="center right")
        training.set_title("training batches")
        calls.plot(
            found.calls["call"], found.calls["explained_variance"], color=PALETTE[0], marker="o", ms=2.5
        )
        calls.axhline(found.explained_variance, color=INK, lw=0.6, ls=(0, (2, 2)))
        low = float(np.nanmin([0.0, *found.calls["explained_variance"]]))
        calls.set(xlabel="call of the denoiser", ylabel="explained variance", ylim=(low, 1.02))
        calls.set_title("held-out prompts")
        alive = found.latents["frequency"][found.latents["frequency"] > 0]
        often.hist(np.log10(alive), bins=_BINS, color=PALETTE[5])
        often.set(xlabel="share of vectors (log10)", ylabel="latents")
        often.set_title("latents, held-out prompts")
    caption = (
        f"Sparse autoencoder of {site}. Left: explained variance and dead latents of each batch of training. Middle:"
        " explained variance of held-out prompts by call of the denoiser; dotted: of all calls,"
        f" {number(found.explained_variance, 3)}. Right: how often a latent is active in held-out prompts;"
        f" {number(100 * found.dead, 1)} % never are, and a vector has {number(found.l0, 1)} active latents on average"
        " (L0)."
    )
    return Drawn("sae", figure, f"Sparse autoencoder of {site}", caption, wide=True)
