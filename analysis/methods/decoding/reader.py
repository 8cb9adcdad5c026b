"""The reference reader: how early could anybody read the mixture component off a noisy latent?

It is fitted to forward-noised renderings (`probes.toyworld.noised`), whose component is known, and reads whole latents
where probes of a model have means over space. What a probe reads earlier than the reader, it reads of the word; what
it reads no earlier, it may read of the picture.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from analysis.methods.decoding.scores import USUAL, VERSION, Choice, PlaceRows, held_out
from probes.toyworld import noised

RENDERINGS = 15  # of each prompt and component
# Of 1e-4, 1e-3 and 1e-2 the one that reads best at middle noise (AUC 0.942, 0.943, 0.934 at timestep 599); the latents
# have 1,024 channels, for which C = 1 is too weak a penalty.
STRENGTH = 1e-3
CLEAN = -1  # step of the row without noise


def reference(
    pipe: Any, prompts: Sequence[str], timesteps: Sequence[float], choice: Choice = USUAL
) -> pd.DataFrame:
    """Accuracy and AUC of the reference reader at every timestep of a run; the first row, step -1, is without noise.

    The strength of `choice` is not used: a whole latent asks for a penalty of its own.
    """
    clean, component, prompt = noised.encode_renderings(pipe, prompts, RENDERINGS, seed=choice.seed)
    rows = []
    noisy = noised.add_noise(pipe, clean, timesteps, seed=choice.seed)
    for step, timestep in enumerate([np.nan, *timesteps], start=CLEAN):
        latents = clean if step == CLEAN else next(noisy)
        told = PlaceRows(
            latents.reshape(len(latents), -1).astype(float), prompt, np.zeros_like(prompt), component
        )
        accuracy, auc = held_out(told, replace(choice, strength=STRENGTH))
        rows.append(
            {
                "step": step,
                "timestep": timestep,
                **{"accuracy": accuracy.value, "accuracy_low": accuracy.low, "accuracy_high": accuracy.high},
                **{"auc": auc.value, "auc_low": auc.low, "auc_high": auc.high},
                "n_prompts": len(prompts),
                "n": auc.n,
                "version": VERSION,
            }
        )
    return pd.DataFrame(rows)
