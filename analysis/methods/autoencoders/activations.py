"""Activations of a run for training: some of its vectors, and prompts that are held out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from probes.errors import UserError
from probes.runs.kept import kept_vectors
from probes.runs.store import Run


@dataclass(frozen=True)
class KeptActivations:
    """Vectors of a site.

    Attributes
    ----------
    site : str
    about : DataFrame
        One row per vector, see `probes.runs.kept.Vectors`.
    values : ndarray of float32, shape (n_vectors, channels)
    held_out : ndarray of bool, shape (n_vectors,)
        Vectors of the prompts that are not trained on.
    """

    site: str
    about: pd.DataFrame
    values: NDArray[np.float32]
    held_out: NDArray[np.bool_]


def read(run: Run, site: str, *, most: int, share: float, seed: int) -> KeptActivations:
    """Read vectors of a site, a random choice of about `most` where there are more.

    Parameters
    ----------
    run : Run
    site : str
        An address; empty for the one that the run keeps.
    most : int
    share : float
        Of the prompts, that is held out: at least one.
    seed : int
        Of which vectors and prompts.

    Raises
    ------
    UserError
        The run keeps no activations of the site, or has one prompt.
    """
    sizes = pd.concat([table.to_pandas() for table in run.part_tables("kept", ["site", "shape"])])
    site = site or _only(run, sorted(sizes["site"].unique()))
    random = np.random.default_rng(seed)
    abouts, values = [], []
    total = _count(sizes[sizes["site"] == site]["shape"], site)
    for part in kept_vectors(run, site):
        chosen = slice(None) if total <= most else random.random(len(part.values)) < most / total
        abouts.append(part.about[chosen])
        values.append(part.values[chosen])
    about = pd.concat(abouts, ignore_index=True)
    prompts = np.unique(about["triplet"])
    if len(prompts) < 2:
        raise UserError(
            f"{run.path}: expected at least 2 prompts, of which some are held out, got 1: add some"
        )
    out = random.permutation(prompts)[: min(len(prompts) - 1, max(1, round(share * len(prompts))))]
    return KeptActivations(site, about, np.concatenate(values), np.isin(about["triplet"], out))


def _count(shapes: pd.Series, site: str) -> int:
    """Vectors in tensors of these shapes, see `probes.runs.kept`: calls x places x channels, or as they are."""
    return int(sum(_places(tuple(shape), site) for shape in shapes))


def _places(shape: tuple[int, ...], site: str) -> int:
    places = shape[2:] if len(shape) == 4 and not site.endswith(".heads") else shape[1:2]
    return int(shape[0] * np.prod(places if len(shape) > 2 else ()))


def _only(run: Run, sites: list[str]) -> str:
    if len(sites) != 1:
        raise UserError(
            f"{run.path / 'kept'}: expected one site, found {', '.join(sites)!s:.200}: name one of them (--site)"
        )
    return sites[0]
