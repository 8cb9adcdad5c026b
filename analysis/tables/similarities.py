"""How alike are two members of a triplet? One long table of every similarity that a run holds.

A row is one number: a space (prompt, denoising or image; Wu et al. 2025, section 4.1), a site, a step, a
metric, a triplet, a seed and a pair of indicators. Similarities inside the model were reduced while it ran
and are taken from ``captures/`` as they are; those of stored pictures are computed here. All statistics start
from this table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import union_categoricals
from PIL import Image

from analysis.metrics.pixels import diff_pix, ssim
from analysis.metrics.registry import definition
from hooks.architectures.addresses import has_steps, space
from probes.errors import UserError

NO_STEP = -1
COLUMNS = (
    *("space", "site", "step", "timestep", "metric", "triplet", "seed", "pair", "value"),
    *("reason", "version"),
)
_NAMES = ("space", "site", "metric", "pair", "reason", "version")
_KINDS = {
    "step": np.int32,
    "timestep": np.float32,
    "triplet": np.int32,
    "seed": np.int64,
    "value": np.float32,
}
FIXED = ("triplet", "seed", "pair", "first", "second", "timesteps")  # columns of captures/ that are no site


def pair_name(first: str, second: str, indicators: Sequence[str]) -> str:
    """Name a pair as the tables do: in the order of the indicators.

    Examples
    --------
    >>> pair_name("masculine", "neutral", ["neutral", "feminine", "masculine"])
    'neutral-masculine'
    """
    return "-".join(sorted((first, second), key=list(indicators).index))


def capture_pairs(captures: pd.DataFrame) -> pd.DataFrame:
    """Return the similarities that were reduced inside the model, one row each.

    Parameters
    ----------
    captures : DataFrame
        A row a (triplet, seed, pair), with a list of floats over calls in each column ``<site>:<metric>``.

    Returns
    -------
    DataFrame
        With the columns `COLUMNS`. Where a list is shorter than the column's longest, or missing, the value
        is NaN with a reason.

    Raises
    ------
    ValueError
        If a column is no ``<site>:<metric>`` with a site and a metric that are known.
    """
    timesteps = _rows(captures["timesteps"])
    return _table(_capture_blocks(captures, timesteps))


def image_pairs(
    samples: pd.DataFrame,
    load: Callable[[Sequence[str]], Sequence[Image.Image]],
    indicators: Sequence[str],
) -> pd.DataFrame:
    """Compare the pictures of each triplet and seed, two by two, by SSIM and Diff. Pix.

    Parameters
    ----------
    samples : DataFrame
        With ``sample_id``, ``triplet``, ``seed`` and ``indicator``.
    load : callable
        From a list of sample ids to the pictures.
    indicators : sequence of str
        In the order that names the pairs. An indicator without a picture makes no pair.

    Returns
    -------
    DataFrame
        With the columns `COLUMNS`.

    Raises
    ------
    UserError
        If two pictures cannot be compared, such as pictures of different size.
    """
    columns = ("triplet", "seed", "pair", "ssim", "diff_pix", "reason")
    numbers: dict[str, list] = {name: [] for name in columns}
    for (triplet, seed), rows in samples.groupby(["triplet", "seed"], sort=False):
        ids = dict(zip(rows["indicator"], rows["sample_id"]))
        present = [name for name in indicators if name in ids]
        pictures = dict(zip(present, load([ids[name] for name in present])))
        for first, second in combinations(present, 2):
            try:
                structure = ssim(pictures[first], pictures[second])
            except ValueError as error:
                raise UserError(f"samples: {ids[first]}, {ids[second]}: {error}: store them alike") from None
            difference = diff_pix(structure.map)
            row = (triplet, seed, f"{first}-{second}", structure.value, difference.value, difference.reason)
            for column, value in zip(numbers.values(), row):
                column.append(value)
    keys = {name: numbers[name] for name in ("triplet", "seed", "pair")}
    blocks = []
    for metric, reason in (("ssim", ""), ("diff_pix", numbers["reason"])):
        same = {"site": "image", "metric": metric, "step": NO_STEP, "timestep": np.nan}
        blocks.append({**same, **keys, "value": np.array(numbers[metric], np.float32), "reason": reason})
    return _table(blocks)


def concatenate(tables: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """Put tables of pairs below each other; the columns of names stay categories."""
    tables = list(tables)
    joined = {}
    for name in COLUMNS:
        if name in _NAMES:
            joined[name] = union_categoricals([table[name] for table in tables])
        else:
            joined[name] = np.concatenate([table[name].to_numpy() for table in tables])
    return pd.DataFrame(joined)


def _capture_blocks(captures: pd.DataFrame, timesteps: NDArray[np.float32]) -> Iterator[dict]:
    for key in captures.columns:
        if key in FIXED:
            continue
        site, separator, metric = key.rpartition(":")
        if not separator:
            raise ValueError(f"captures: expected a column <site>:<metric>, got {key!r}")
        values = _rows(captures[key])
        calls = values.shape[1]
        times = np.full(values.shape, np.nan, np.float32)
        if has_steps(site):
            known = min(calls, timesteps.shape[1])
            times[:, :known] = timesteps[:, :known]
        elif calls > 1:
            raise ValueError(f"captures: {key}: expected one value per pair, got {calls}")
        yield {
            "site": site,
            "metric": metric,
            "step": np.tile(np.arange(calls), len(values)) if has_steps(site) else NO_STEP,
            "timestep": times.ravel(),
            **{name: np.repeat(captures[name].to_numpy(), calls) for name in ("triplet", "seed", "pair")},
            "value": values.ravel(),
            "reason": np.where(np.isnan(values.ravel()), "not captured", ""),
        }


def _rows(column: pd.Series) -> NDArray[np.float32]:
    """Lists as the rows of a matrix; what is missing at the end of a list, or altogether, is NaN."""
    lists = [np.asarray([] if value is None else value, np.float32) for value in column]
    width = max((len(row) for row in lists), default=0)
    matrix = np.full((len(lists), width), np.nan, np.float32)
    for i, row in enumerate(lists):
        matrix[i, : len(row)] = row
    return matrix


def _table(blocks: Iterable[dict]) -> pd.DataFrame:
    """Stack blocks of rows; in each, a column is one value for all rows or an array."""
    parts: dict[str, list] = {name: [] for name in COLUMNS}
    codes: dict[str, dict[str, int]] = {name: {} for name in _NAMES}
    for block in blocks:
        metric = {"space": space(block["site"]), "version": definition(block["metric"]).version}
        for name, value in {**block, **metric}.items():
            if name in _NAMES:
                found, uniques = pd.factorize(np.atleast_1d(np.asarray(value, object)))
                value = np.array([codes[name].setdefault(text, len(codes[name])) for text in uniques])[found]
            parts[name].append(np.broadcast_to(value, len(block["value"])))
    table = {}
    for name, arrays in parts.items():
        if name in _NAMES:
            code = np.concatenate([np.empty(0, np.int64), *arrays]).astype(np.int32)
            table[name] = pd.Categorical.from_codes(code, list(codes[name]))
        else:
            kind = _KINDS[name]
            table[name] = np.concatenate([np.empty(0, kind), *arrays]).astype(kind)
    return pd.DataFrame(table)
