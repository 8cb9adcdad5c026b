"""Outcomes: the number of an image whose change a trace explains.

*verdict*: on toyworld's models, the exact log-odds that the image was drawn from the mixture component of masculine
words against that of feminine ones (`probes.toyworld.verdict`), by what the checker sees in it and the prompt does not
name. *Presence* of a thing (its name, such as ``tie``): 1 where the checker sees it, else 0. A *gap* (a metric of
pictures, such as ``ssim``): how much nearer the image is to the one of the contrast's first word than to that of the
second, both of the same prompt and noise and unpatched. A *logit* (``clip``, ``classifier``): the log-odds that a
network gives the image of the contrast's first word against the second (`analysis.methods.tracing.logits`).

On toyworld's models the checker says: it is exact, while a gap moves with every pixel, and a network errs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from PIL import Image

from analysis.methods.tracing.logits import CLIP, NETWORKS, logits
from analysis.metrics import pixels
from analysis.metrics.registry import METRICS, computed_from, definition
from analysis.study import contrasts
from probes.config.schema import Config
from probes.errors import UserError
from probes.runs.images import UNREADABLE, fault_reason
from probes.toyworld import MODELS
from probes.toyworld.checker import LEAST, read_images
from probes.toyworld.checker import VERSION as CHECKER_VERSION
from probes.toyworld.scene import parse
from probes.toyworld.verdict import VERSION as VERDICT_VERSION
from probes.toyworld.verdict import verdict
from probes.toyworld.world import load_world

VERDICT, DEFAULT_GAP = "verdict", "ssim"
GAP_VERSION = "gap_of_pictures/1"
NAMED, UNREAD = "the prompt names it", "the prompt cannot be read as one of toyworld"
NO_PAIR = "an image of the contrast's words is missing or at fault"
COLUMNS = ("triplet", "seed", "variant", "outcome", "value", "reason", "version")
Values = tuple[NDArray[np.float64], NDArray[np.object_], str]
_OPTIONAL = tuple(row.metric for row in METRICS.values() if row.optional and row.needs == "pictures")


def chosen_outcomes(
    asked: Sequence[str] | None, model: str, prompts: Iterable[str] | None = None
) -> list[str]:
    """The outcomes of a run's trace: those asked for, else the default of its model.

    The default is the verdict where the checker reads the model's images and any of the prompts (all, where none is
    given), else a gap. A UserError where one is not known, or not to be had of this model.
    """
    checked = model in MODELS
    gaps = computed_from("pictures", _OPTIONAL)
    known = [VERDICT, *LEAST, *gaps] if checked else [*gaps]
    for name in asked or ():
        if name not in (*known, *NETWORKS):
            some = f"{VERDICT}, a thing that the checker knows, " * checked + ", ".join(gaps)
            some += f", or {' or '.join(NETWORKS)}"
            other = "which the checker reads exactly" if checked else "whose images no checker reads"
            raise UserError(
                f"measure.outcomes: expected {some} (the model is {model}, {other}), got {name!r}: name one"
            )
    read = checked and (prompts is None or any(_named(prompt) is not None for prompt in prompts))
    return list(asked or [VERDICT if read else DEFAULT_GAP])


def outcomes(
    rows: pd.DataFrame, images: Sequence[Image.Image | None], names: Sequence[str], config: Config
) -> pd.DataFrame:
    """The outcomes of images, one row per outcome and image: ``value``, or NaN with the ``reason``.

    In natural logarithms (verdict: positive for masculine; logits: for the first of the contrast), 0 or 1 (presence),
    or the unit of the metric (gap: positive where nearer to the first of the contrast). Of the rows ``kind`` is "none"
    where nothing is patched, ``prompt`` the recipient's; an image is None where it cannot be read.
    """
    keys = rows[["triplet", "seed", "variant"]].reset_index(drop=True)
    unread = np.where([image is None for image in images], fault_reason(UNREADABLE), "")
    faults = np.where(rows["fault"].isna(), unread, [fault_reason(str(one)) for one in rows["fault"]])
    fine = np.flatnonzero(faults == "")
    shown, seen = rows.iloc[fine].reset_index(drop=True), [images[index] for index in fine]
    tables = []
    for name in names:
        if name in NETWORKS:
            why, (values, version) = "", logits(name, seen, config)
        else:
            values, why, version = (_gap if name in METRICS else _checked)(shown, seen, name, config)
        table = keys.assign(outcome=name, value=np.nan, reason=faults, version=version)
        table.loc[fine, "value"] = np.where(why == "", values, np.nan)
        table.loc[fine, "reason"] = why
        tables.append(table)
    return pd.concat(tables, ignore_index=True)[list(COLUMNS)]


def _checked(rows: pd.DataFrame, images: Sequence[Image.Image], name: str, config: Config) -> Values:
    """An outcome that the checker reads: values, reasons and version."""
    named = rows["prompt"].map({prompt: _named(prompt) for prompt in rows["prompt"].unique()})
    value, why = np.full(len(rows), np.nan), np.where(named.isna(), UNREAD, "").astype(object)
    fine = np.flatnonzero(named.notna())
    seen = read_images([images[index] for index in fine]) if len(fine) else None
    if name == VERDICT:
        if seen is not None:
            value[fine] = verdict(seen, named[fine].tolist(), load_world())
        return value, why, VERDICT_VERSION
    if seen is not None:
        value[fine] = seen[name].to_numpy(float)
        things = {index: {*named[index].slots.values(), *named[index].objects.values()} for index in fine}
        why[[index for index in fine if name in things[index]]] = NAMED
    return value, why, CHECKER_VERSION


def _named(prompt: str):
    """The scene that a prompt names; None where it cannot be read."""
    try:
        return parse(prompt, load_world())
    except ValueError:
        return None


def _gap(rows: pd.DataFrame, images: Sequence[Image.Image], name: str, config: Config) -> Values:
    """How much nearer each image is to that of the first word than to that of the second, of its triplet and seed."""
    known = definition(name)
    score: Callable[[pixels.PicturePair], pixels.Score] = getattr(pixels, known.function)
    value, why = np.full(len(rows), np.nan), np.full(len(rows), NO_PAIR, object)
    for _, group in rows.groupby(["triplet", "seed"], sort=False):
        plain = group[group["kind"] == "none"].reset_index().set_index("recipient")["index"]
        sides = [pixels.grey(images[plain[word]]) for word in contrasts(config)[0] if word in plain]
        for row in group.index if len(sides) == 2 else ():
            picture = pixels.grey(images[row])
            try:
                first, second = (score(pixels.PicturePair(picture, side)) for side in sides)
            except ValueError as error:
                raise UserError(f"traced: {group['variant'][row]}: {error}: store them alike") from None
            value[row] = (first.value - second.value) * (1.0 if known.higher_is_nearer else -1.0)
            why[row] = first.reason or second.reason
    return value, why, f"{GAP_VERSION}, {known.version}"


def outcome_words(outcome: str) -> str:
    """An outcome in running text: *verdict*, *gap of SSIM*, *presence of tie*, *logit of CLIP*."""
    if outcome == VERDICT:
        return "verdict"
    if outcome in NETWORKS:
        return "logit of CLIP" if outcome == CLIP else "logit of the classifier"
    if outcome in METRICS:
        return f"gap of {METRICS[outcome].symbol}"
    return f"presence of {outcome}"
