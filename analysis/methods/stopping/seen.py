"""What a question may ask of single images: an object that a detector looks for, and whether an image shows it."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

import pandas as pd

from analysis.observe.early import required
from analysis.observe.objects.observer import ObjectObserver
from analysis.study import comparison
from analysis.tables.objects.objects import observed_images
from probes.config.schema import Config
from probes.errors import UserError
from probes.prompts.grammar.nouns import lemma
from probes.runs.store import Run

OBJECT = "object"
OBJECTS = "objects"  # the observer


def object_asked(config: Config, name: str) -> str:
    """Return an object's name as tables have it, once it is known to be looked for in every image.

    Raises
    ------
    UserError
        It is not, it is a word for the persons of the prompts, or nobody looks for objects.
    """
    observer = required(config, OBJECTS)
    assert isinstance(observer, ObjectObserver)
    asked, chosen = lemma(name, backend=config.measure.nouns), comparison(config)
    if asked in chosen.individuals:
        raise UserError(
            f"stop.of.object: expected a thing, got {name!r:.60}, a word for persons, which tests of objects leave out:"
            " name another"
        )
    known = list(dict.fromkeys(lemma(tag, backend=config.measure.nouns) for tag in observer.plan.everywhere))
    if asked not in known:
        raise UserError(
            f"stop.of.object: expected an object that is looked for in every image, {_got(name, known)}"
        )
    return asked


def _got(name: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, known, 1)
    if not known:
        return f"got {name!r:.60}, and no list of any: name observe.vocabulary"
    remedy = f"did you mean {close[0]}?" if close else "add it to observe.vocabulary, or name one of these"
    return f"such as {', '.join(known[:3])}, got {name!r:.60}: {remedy}"


def object_values(run: Run, name: str) -> pd.DataFrame:
    """Return whether an object was detected, 1 or 0, of each image in which objects were looked for.

    Returns
    -------
    DataFrame
        ``triplet``, ``seed``, ``indicator`` and ``value``.
    """
    images, found = observed_images(run), run.objects(["sample_id", "label"])
    backend = run.config.measure.nouns
    labels = [label for label in found["label"].unique() if lemma(label, backend=backend) == name]
    there = set(found.loc[found["label"].isin(labels), "sample_id"])
    value = images["sample_id"].isin(there).astype(float)
    return images[["triplet", "seed", "indicator"]].assign(value=value)
