"""Audits of attributes (GEP) at the frequencies that Zhang et al. 2023 print: do intervals and tests hold?

An attribute is in an image where a normal variable falls below its frequency's quantile. The variable adds what the
context with the word gives, what a noise with the word gives (one that all contexts share, or none), what both words of
a noise share, and a rest. Frequencies are those of Tables 11 and 12; without a difference both words have their mean.
Labels are of so many images of each word and attribute, chosen at random from 16 contexts of five images.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import special

from analysis.methods.gep.evaluation import agreements, label_ceiling
from analysis.methods.gep.inference import infer
from analysis.methods.gep.scores import Audit, vector
from analysis.stats.multiplicity import adjust_p_values
from lab.papers.gep_floors import CONTEXTS, IMAGES, SEEDS, attribute_counts
from lab.templates import render
from lab.validate.statistics.simulation import ALPHA
from probes.config.schema import Measure

LABELLED = (15, 20, 40, 80)
PAIR = ("woman", "man")
CONTEXT, PAIRED = 0.15, 0.15  # variances: of a context with a word; of a noise, shared by its two images
MEASURE = Measure(permutations=200, bootstrap=100)
# contexts, images, noise, setting, variance that a noise and word share over all contexts
UNITS = (
    (1, 20, "own", "neutral", 0.0),
    (1, 20, "unpaired", "neutral", 0.0),
    (1, 20, "own", "explicit", 0.0),
    (8, 5, "own", "neutral", 0.0),
    (16, 5, "own", "neutral", 0.0),
    (16, 3, "shared", "neutral", 0.4),
    (16, 5, "shared", "neutral", 0.0),
    (16, 5, "shared", "neutral", 0.4),
    (16, 10, "shared", "neutral", 0.0),
    (16, 10, "shared", "neutral", 0.4),
)


def published() -> Iterator[tuple[str, NDArray[np.float64]]]:
    """Yield each setting and model with its frequencies, shape (2, n_attributes)."""
    for (setting, model), rows in attribute_counts().groupby(level=["setting", "model"], sort=False):
        yield f"{model}, {setting}", rows[list(PAIR)].to_numpy().T / IMAGES


def draw_images(
    frequency: NDArray[np.float64],
    contexts: int,
    images: int,
    rng: np.random.Generator,
    *,
    context: float = CONTEXT,
    seed: float = 0.0,
    paired: float = PAIRED,
) -> NDArray[np.float64]:
    """Return whether each attribute is in each image, shape (n_contexts, 2, n_images, n_attributes)."""
    attributes = frequency.shape[1]

    def normal(variance: float, *shape: int) -> NDArray[np.float64]:
        return np.sqrt(variance) * rng.standard_normal((*shape, attributes))

    latent = (
        normal(context, contexts, 2, 1) + normal(seed, 1, 2, images) + normal(paired, contexts, 1, images)
    )
    latent = latent + normal(1 - context - seed - paired, contexts, 2, images)
    return (latent < special.ndtri(frequency)[:, None]).astype(float)


def audit_of(values: NDArray[np.float64], setting: str = "neutral", noise: str = "own") -> Audit:
    """Return an audit of these values."""
    contexts, attributes = (tuple(map(str, range(values.shape[axis]))) for axis in (0, 3))
    return Audit(values, contexts, PAIR, attributes, setting, "human", noise)


def some_labels(values: NDArray[np.float64], n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return the labels of n images of each word and attribute, chosen at random; NaN elsewhere."""
    contexts, words, images, attributes = values.shape
    order = rng.random((words, contexts * images, attributes)).argsort(axis=1).argsort(axis=1)
    chosen = (order < n).reshape(words, contexts, images, attributes).swapaxes(0, 1)
    return np.where(chosen, values, np.nan)


def label_rows(
    *, simulations: int = 150, labelled: tuple[int, ...] = LABELLED, seed: int = 0
) -> pd.DataFrame:
    """Return how often intervals from labels alone hold the published scores, and how far scores and tau are off.

    A row per setting, model and number of labels; `raw` and `score` are means less the truth, `ceiling` what the labels
    say of tau.
    """
    rows = []
    for number, (world, frequency) in enumerate(published()):
        difference = frequency[0] - frequency[1]
        truth, rng = float(np.abs(difference).mean()), np.random.default_rng([seed, 1300 + number])
        for n in labelled:
            found = []
            for one in range(simulations):
                images = draw_images(frequency, CONTEXTS, SEEDS, rng)
                labels, whole = audit_of(some_labels(images, n, rng)), audit_of(images)
                got = infer(labels, *PAIR, MEASURE)
                known = np.isfinite(got.low)
                found.append(
                    {
                        "raw": got.score.raw - truth,
                        "score": got.score.score - truth,
                        "held": got.score.low <= truth <= got.score.high,
                        "width": got.score.high - got.score.low,
                        "vector": ((got.low <= difference) & (difference <= got.high))[known].mean(),
                        "tau": float(agreements([vector(labels, *PAIR)], [vector(whole, *PAIR)])[0][0]),
                        "ceiling": label_ceiling(labels, whole, *PAIR, seed=one),
                    }
                )
            table = pd.DataFrame(found).astype(float)
            table["tau"] = table["tau"].where(table["ceiling"].notna())  # of the audits that have a ceiling
            ceilings = float(table["ceiling"].notna().mean())
            rows.append({"world": world, "n": n, "truth": truth, **table.mean(), "ceilings": ceilings})
    return pd.DataFrame(rows)


def unit_rows(*, simulations: int = 150, seed: int = 0) -> pd.DataFrame:
    """Return how often scores and differences are significant at 5 % where the words have one frequency, by design.

    `any`: the smallest adjusted p-value; `over_contexts`: the score with contexts as the unit; `vector`: intervals that
    hold 0.
    """
    frequency = np.tile(dict(published())["Stable Diffusion, explicit"].mean(axis=0), (2, 1))
    rows = []
    for number, (contexts, images, noise, setting, shared) in enumerate(UNITS):
        rng, found = np.random.default_rng([seed, 1350 + number]), []
        for _ in range(simulations):
            variances = {
                "context": CONTEXT if contexts > 1 else 0.0,
                "seed": shared,
                "paired": 0.0 if noise == "unpaired" else PAIRED,
            }
            values = draw_images(frequency, contexts, images, rng, **variances)
            got = infer(audit_of(values, setting, noise), *PAIR, MEASURE)
            plain = np.nan
            if noise == "shared":
                plain = infer(audit_of(values, setting), *PAIR, MEASURE).score_p <= ALPHA
            known = np.isfinite(got.low)
            found.append(
                {
                    "score": got.score_p <= ALPHA,
                    "any": np.nanmin(got.p_adjusted) <= ALPHA,
                    "over_contexts": plain,
                    "vector": ((got.low <= 0) & (got.high >= 0))[known].mean(),
                }
            )
        design = {
            "contexts": contexts,
            "images": images,
            "noise": noise,
            "setting": setting,
            "shared": shared,
        }
        rows.append({**design, **pd.DataFrame(found).astype(float).mean()})
    return pd.DataFrame(rows)


def pages_rows(*, simulations: int = 200, seed: int = 0) -> pd.DataFrame:
    """Return how often a page of both settings says that attributes differ, by model and whether words do."""
    rows, settings = [], dict(published())
    for number, model in enumerate(dict.fromkeys(name.split(", ")[0] for name in settings)):
        for same in (True, False):
            rng, found = np.random.default_rng([seed, 1380 + number, same]), []
            for _ in range(simulations):
                scores = []
                for setting in ("neutral", "explicit"):
                    frequency = settings[f"{model}, {setting}"]
                    frequency = np.tile(frequency.mean(axis=0), (2, 1)) if same else frequency
                    got = infer(
                        audit_of(draw_images(frequency, CONTEXTS, SEEDS, rng), setting), *PAIR, MEASURE
                    )
                    scores.append(got.score_p)
                adjusted = adjust_p_values(scores, method="holm")
                found.append({"page": adjusted.min() <= ALPHA})
            rows.append({"model": model, "same": same, **pd.DataFrame(found).astype(float).mean()})
    return pd.DataFrame(rows)


def page_section(*, simulations: int = 200, seed: int = 0) -> str:
    """Return the part of ``docs/validation/statistics.md`` on labels, contexts and seeds of an audit, in Markdown."""
    labels = label_rows(simulations=simulations, seed=seed)
    near = labels[(labels["n"] < IMAGES) & (labels["ceilings"] > 0.9)]
    return render(
        "statistics_contexts",
        simulations=simulations,
        labels=labels.to_dict("records"),
        units=unit_rows(simulations=simulations, seed=seed).to_dict("records"),
        pages=pages_rows(simulations=2 * simulations, seed=seed).to_dict("records"),
        held=float(labels["held"].mean()),
        inside=int(labels["held"].between(0.93, 0.97).sum()),
        worst=float(labels["score"].abs().max()),
        within=int((labels["score"].abs() <= 0.005).sum()),
        off=float((near["ceiling"] - near["tau"]).abs().max()),
        error=float(np.sqrt(0.95 * 0.05 / simulations)),
    )
