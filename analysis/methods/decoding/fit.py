"""Probes of every place and step of a run, as tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from tqdm import tqdm

from analysis.methods.decoding.places import Activations, Roles
from analysis.methods.decoding.scores import (
    USUAL,
    VERSION,
    Choice,
    PlaceRows,
    cross_validated,
    decode,
    decoding_step,
)
from analysis.stats.auc import IntervalEstimate
from probes.toyworld import noised

OUTCOME, SYNONYMS = "outcome", "synonyms"
SCORES = ("accuracy", "auc", SYNONYMS, OUTCOME, "selectivity", "bits")
COLUMNS = [
    *("site", "group", "step", "timestep", "score", "value", "low", "high", "n", "n_prompts", "reason"),
    "version",
]
FEW = "rows of both words in fewer than two prompts"
NO_ROWS = "no such rows"
NO_STEP = "at no step surely above chance"
READER = "(anybody, from noised renderings)"
RENDERINGS = 15  # of each prompt and component
# Of 1e-4, 1e-3 and 1e-2 the one that reads best at middle noise (AUC 0.942, 0.943, 0.934 at timestep 599); the latents
# have 1,024 channels, for which C = 1 is too weak a penalty.
READER_STRENGTH = 1e-3
SITE_COLUMNS = [
    *("site", "group", "score", "low", "high", "step"),
    *("decoding_step", "timestep", "reason", "version"),
]


def decoding(
    found: Activations,
    chosen: Roles,
    outcome: NDArray[np.float64],
    choice: Choice = USUAL,
    *,
    progress: bool = False,
) -> pd.DataFrame:
    """Table ``decoding``: one row per place, call and score, in the order in which sites run.

    `outcome`, shape (n_samples,), is 1 where an image is like those of `first`, 0 like those of `second`, NaN unknown.
    """
    samples, names = found.samples, found.samples["indicator"]
    prompt = np.unique(samples["triplet"], return_inverse=True)[1].astype(np.int64)
    seed = samples["seed"].to_numpy(np.int64)
    labels = {
        "": names.map({chosen.first: 1.0, chosen.second: 0.0}).to_numpy(float),
        OUTCOME: np.where(names == chosen.reference, outcome, np.nan),
        SYNONYMS: names.map(chosen.synonyms).to_numpy(float),
    }
    tables = []
    calls = [(place, call) for place, values in found.values.items() for call in range(values.shape[1])]
    for place, call in tqdm(calls, "decode", unit="probe", disable=not progress):
        values, timestep = found.values[place], found.timesteps[place][call]
        # keys and values of a text are the same at each step
        if call == 0 or not np.array_equal(values[:, call], values[:, call - 1], equal_nan=True):
            rows, known = {}, np.isfinite(values[:, call]).all(axis=1)
            for kind, label in labels.items():
                kept = np.flatnonzero(known & ~np.isnan(label))
                rows[kind] = PlaceRows(
                    values[kept, call].astype(float), prompt[kept], seed[kept], label[kept]
                )
            rows_of_words = rows.pop("")
            scores = _scores(
                rows_of_words, {kind: one for kind, one in rows.items() if len(one.label)}, choice
            )
        step = call if np.isfinite(timestep) else -1
        tables.append(_table(*place, step, timestep, scores, len(np.unique(rows_of_words.prompt))))
    return pd.concat(tables, ignore_index=True)


def reader(
    pipe: Any, prompts: Sequence[str], timesteps: Sequence[float], choice: Choice = USUAL
) -> pd.DataFrame:
    """Rows of ``decoding`` of the reference reader: how early could anybody read the mixture component off a latent?

    It is fitted to forward-noised renderings (`probes.toyworld.noised`), whose component is known, and reads whole
    latents where probes of a model have means over space. What a probe reads earlier than the reader, it reads of the
    word; what it reads no earlier, it may read of the picture. Step -1 is without noise.
    """
    clean, component, prompt = noised.encode_renderings(pipe, prompts, RENDERINGS, seed=choice.seed)
    noisy = noised.add_noise(pipe, clean, timesteps, seed=choice.seed)
    tables = []
    for step, timestep in enumerate([np.nan, *timesteps], start=-1):
        latents = clean if step < 0 else next(noisy)
        x = latents.reshape(len(latents), -1).astype(float)
        rows_of_words = PlaceRows(x, prompt, np.zeros_like(prompt), component)
        scores = cross_validated(rows_of_words, replace(choice, strength=READER_STRENGTH))
        tables.append(_table(READER, "", step, timestep, scores, len(prompts)))
    return pd.concat(tables, ignore_index=True)


def _scores(
    rows_of_words: PlaceRows, other_rows: dict[str, PlaceRows], choice: Choice
) -> dict[str, IntervalEstimate]:
    both = [set(rows_of_words.prompt[rows_of_words.label == label].tolist()) for label in (0.0, 1.0)]
    none = IntervalEstimate(np.nan, np.nan, np.nan, 0, NO_ROWS)
    if len(both[0] & both[1]) < 2:
        return dict.fromkeys(SCORES, replace(none, reason=FEW))
    return dict.fromkeys(SCORES, none) | decode(rows_of_words, other_rows, choice)


def _table(
    site: str, group: str, step: int, timestep: float, scores: dict[str, IntervalEstimate], prompts: int
) -> pd.DataFrame:
    rows = pd.DataFrame([vars(one) | {"score": name} for name, one in scores.items()])
    place = {"site": site, "group": group, "step": step, "timestep": timestep, "n_prompts": prompts}
    return rows.assign(**place, version=VERSION)[COLUMNS]


def sites(table: pd.DataFrame) -> pd.DataFrame:
    """Table ``decoding_sites``: places by how well they are read, the best first, with the decoding step of each.

    ``score`` is the highest AUC over the steps, of held-out prompts, less ½. A place where the words can be told apart
    scores high whether or not the model makes use of it; the highest of several steps lies above 0 where nothing is to
    be read, too; its interval is that of the one step.
    """
    rows = []
    known = table[(table["score"] == "auc") & table["value"].notna() & (table["site"] != READER)]
    for (site, group), cell in known.groupby(["site", "group"], sort=False):
        best, each = cell.loc[cell["value"].idxmax()], cell[cell["step"] >= 0]
        score = [best[name] - 0.5 for name in ("value", "low", "high")]
        first = decoding_step(each["value"], each["low"])
        begun = (np.nan, np.nan) if first is None else each.iloc[first][["step", "timestep"]]
        reason = NO_STEP if first is None and len(each) else ""
        rows.append((site, group, *score, best["step"], *begun, reason, VERSION))
    ranked = pd.DataFrame(rows, columns=SITE_COLUMNS)
    return ranked.sort_values("score", ascending=False, kind="stable", ignore_index=True)
