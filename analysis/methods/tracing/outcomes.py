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
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from PIL import Image

from analysis.methods.tracing.logits import CLIP, NETWORKS, LogitSettings, different, logits
from analysis.metrics import pixels
from analysis.metrics.registry import METRICS, computed_from, definition
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


@dataclass(frozen=True)
class TracedImages:
    """Images of some triplets and seeds, in the order of the rows; None where one cannot be read.

    ``kind`` is "none" where nothing is patched, ``prompt`` the recipient's. A gap is positive towards `first`, like a
    verdict towards the masculine word.
    """

    rows: pd.DataFrame
    images: Sequence[Image.Image | None]
    first: str
    second: str

    def faults(self) -> NDArray[np.object_]:
        """Return why each image has no outcome; empty where it has one."""
        stored = [fault_reason(fault) if isinstance(fault, str) else "" for fault in self.rows["fault"]]
        unread = [fault_reason(UNREADABLE) if image is None else "" for image in self.images]
        return np.array([one or other for one, other in zip(stored, unread)] + [None], object)[:-1]


def by_checker(model: str) -> bool:
    """Return whether the checker reads a model's images: those of toyworld's benchmark models."""
    return model in MODELS


def chosen_outcomes(
    asked: Sequence[str] | None, model: str, prompts: Iterable[str] | None = None
) -> list[str]:
    """The outcomes of a run's trace: those asked for, else the default of its model.

    The default is the verdict where the checker reads the model's images and any of the prompts (all, where none is
    given), else a gap. A UserError where one is not known, or not to be had of this model.
    """
    checked = by_checker(model)
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
    traced: TracedImages, names: Sequence[str], networks: LogitSettings | None = None
) -> pd.DataFrame:
    """The outcomes of images, one row per outcome and image: ``value``, or NaN with the ``reason``.

    In natural logarithms (verdict: positive for masculine; logits: for the first of the contrast), 0 or 1 (presence),
    or the unit of the metric (gap: positive where nearer to the first of the contrast).
    """
    faults = traced.faults()
    keys = traced.rows[["triplet", "seed", "variant"]].reset_index(drop=True)
    tables = []
    for name in names:
        values, why, version = _value(traced, name, faults == "", networks)
        why = np.where(faults == "", why, faults)
        value = np.where(why == "", values, np.nan)
        tables.append(keys.assign(outcome=name, value=value, reason=why, version=version))
    return pd.concat(tables, ignore_index=True)[list(COLUMNS)]


def _value(
    traced: TracedImages, name: str, fine: NDArray[np.bool_], networks: LogitSettings | None
) -> Values:
    """Values, reasons and version of an outcome of images that are without fault."""
    if name in NETWORKS:
        assert networks is not None, "a logit is asked for with its network"
        value, rows = np.full(len(fine), np.nan), np.flatnonzero(fine)
        value[rows], version = logits(name, [traced.images[row] for row in rows], networks)
        return value, np.full(len(fine), "", object), version
    if name in METRICS:
        return _gap(traced, name, fine)
    return _checked(traced, name, fine)


def _checked(traced: TracedImages, name: str, fine: NDArray[np.bool_]) -> Values:
    """An outcome that the checker reads."""
    prompts = traced.rows["prompt"].to_numpy(object)
    named = {prompt: _named(prompt) for prompt in set(prompts)}
    readable = fine & np.array([named[prompt] is not None for prompt in prompts], bool)
    value, why = np.full(len(fine), np.nan), np.where(fine & ~readable, UNREAD, "").astype(object)
    rows = np.flatnonzero(readable)
    once, which = different([traced.images[row] for row in rows])
    seen = read_images(once).iloc[which].reset_index(drop=True) if once else None
    if name == VERDICT:
        if seen is not None:
            value[rows] = verdict(seen, [named[prompts[row]] for row in rows], load_world())
        return value, why, VERDICT_VERSION
    if seen is not None:
        value[rows] = seen[name].to_numpy(float)
        why[[row for row in rows if name in _things(named[prompts[row]])]] = NAMED
    return value, why, CHECKER_VERSION


def _named(prompt: str):
    """The scene that a prompt names; None where it cannot be read."""
    try:
        return parse(prompt, load_world())
    except ValueError:
        return None


def _things(named) -> set[str]:
    return {*named.slots.values(), *named.objects.values()}


def _gap(traced: TracedImages, name: str, fine: NDArray[np.bool_]) -> Values:
    """How much nearer each image is to that of the first word than to that of the second, of its triplet and seed."""
    known = definition(name)
    score: Callable[[pixels.PicturePair], pixels.Score] = getattr(pixels, known.function)
    sign = 1.0 if known.higher_is_nearer else -1.0
    value, why = np.full(len(fine), np.nan), np.full(len(fine), "", object)
    rows = traced.rows.reset_index(drop=True)
    for _, group in rows.groupby(["triplet", "seed"], sort=False):
        plain = group[(group["kind"] == "none") & fine[group.index]]
        sides = dict(zip(plain["recipient"], plain.index))
        if not {traced.first, traced.second} <= set(sides):
            why[group.index] = NO_PAIR
            continue
        first, second = (pixels.grey(traced.images[sides[word]]) for word in (traced.first, traced.second))
        for row in group.index[fine[group.index]]:
            picture = pixels.grey(traced.images[row])
            try:
                near = [score(pixels.PicturePair(picture, side)) for side in (first, second)]
            except ValueError as error:
                raise UserError(f"traced: {group['variant'][row]}: {error}: store them alike") from None
            value[row] = sign * (near[0].value - near[1].value)
            why[row] = near[0].reason or near[1].reason
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
