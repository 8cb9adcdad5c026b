"""Was an object asked for, and did a word of the prompt draw it? The prompt–image dependency groups.

Wu et al. 2025, section 6.2. *Explicit* (Definition 1): the object's lemma is among the prompt's nouns. *Guided*
(Definition 2): the mask of a word holds more than σ of the object's pixels, σ = 0.25 where both refer to humans (the
map of "woman" is often that of the face alone), else 0.7. Nouns of which no object was found are *hidden*. Which words
refer to humans is `probes.prompts.grammar.nouns.human_words`.

Word masks are those of `hooks.attention.maps`; masks of objects stay in COCO's run lengths, in which pixels are
counted. The paper leaves open whether the masks are those of the nouns or of all words ("each word n", where n stands
for a noun before): nouns by default.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from pycocotools import mask as coco

from hooks.attention.maps import mask
from probes.config.schema import Measure
from probes.errors import UserError
from probes.prompts.grammar.nouns import HumanWords, lemma
from probes.runs.images import run_lengths

_DEFAULTS = Measure()
SIGMA, SIGMA_HUMAN, THETA = _DEFAULTS.sigma, _DEFAULTS.sigma_human, _DEFAULTS.theta
VERSION = "dependency/2"  # 1: the long list of human words
GROUPS = (
    "explicitly_guided",
    "implicitly_guided",
    "explicitly_independent",
    "implicitly_independent",
    "hidden",
)
OBJECT_COLUMNS = (
    *("sample_id", "triplet", "seed", "indicator", "object", "label", "lemma", "human"),
    *("best_word", "best_word_index", "coverage", "best_human_coverage", "group"),
    *("sigma", "sigma_human", "theta", "mask_words", "human_words", "maps", "version", "reason"),
)
NO_MAPS = "no word maps of this image"
NO_NOUN = "no noun in the prompt"
EMPTY = "empty mask"


def coverages(objects: Sequence[str], words: Sequence[ArrayLike], size: tuple[int, int]) -> NDArray:
    r"""Part of each object that each word's mask holds, :math:`|m \cap a| / |m|`, ``(objects, words)``.

    `objects` are masks as COCO's compressed run lengths, `words` bool of shape `size`. 0 to 1; NaN for an object
    without a pixel. Source: Wu et al. 2025, Eq. 7; `pycocotools.mask.iou` with crowds.

    >>> from probes.runs.images import encode_mask
    >>> thing = encode_mask(np.array([[True, True], [True, True]]))
    >>> coverages([thing], [[[True, False], [False, False]], [[True, True], [True, False]]], (2, 2))
    array([[0.25, 0.75]])
    """
    if not len(objects) or not len(words):
        return np.empty((len(objects), len(words)))
    own = [{"size": list(size), "counts": counts.encode("ascii")} for counts in objects]
    drawn = [run_lengths(word) for word in words]
    # a crowd's union is the detection itself, so what COCO gives is intersection over the object
    found = np.asarray(coco.iou(own, drawn, [1] * len(words)), float).reshape(len(own), len(words))
    found[coco.area(own) == 0] = np.nan
    return found


def dependency_groups(
    images: pd.DataFrame,
    detections: pd.DataFrame,
    nouns: pd.DataFrame,
    maps: Iterable[pd.DataFrame],
    *,
    human: HumanWords,
    backend: str = "hanta",
    mask_words: str = "nouns",
    theta: float = THETA,
    sigma: float = SIGMA,
    sigma_human: float = SIGMA_HUMAN,
) -> pd.DataFrame:
    """Every detection with its group, and every noun without a detection as hidden, with `OBJECT_COLUMNS`.

    `images` are the observed ones, `detections` rows of ``objects/``, `nouns` those of
    `analysis.tables.objects.nouns.noun_table`, `maps` frames of rows of ``words/``, each with all words of its images.
    `theta` is the threshold of the masks of words, ``nouns`` or ``all``; an object is guided where a word covers more
    than `sigma` of it, or, if it is human, a human word more than `sigma_human`.

    ``object`` is -1 for a hidden noun, ``lemma`` its lemma. ``coverage`` is that by the best word,
    ``best_human_coverage`` that by the best word that refers to a human, NaN unless the object is human. ``group`` is
    empty, with a ``reason``, where an object cannot be grouped; ``coverage`` is NaN, with a reason, where no mask could
    guide.
    """
    found = _detections(images, detections, human, backend)
    prompt_noun = ("triplet", "indicator", "lemma")
    spoken = set(zip(*(nouns[name].to_list() for name in prompt_noun)))
    explicit = np.array(
        [key in spoken for key in zip(*(found[name].to_list() for name in prompt_noun))], bool
    )
    found = found.assign(**_measure(found, nouns, maps, mask_words, theta))
    found["group"] = _groups(found, explicit, sigma, sigma_human)
    hidden = _hidden(images, found, nouns)
    table = pd.concat([found, hidden], ignore_index=True)
    table = table.iloc[np.lexsort((np.arange(len(table)), table["place"]))].reset_index(drop=True)
    choices = {"mask_words": mask_words, "human_words": human.choice, "version": VERSION}
    table = table.assign(sigma=sigma, sigma_human=sigma_human, theta=theta, **choices)[list(OBJECT_COLUMNS)]
    whole = dict.fromkeys(("triplet", "object", "best_word_index"), "int32") | {"seed": "int64"}
    shares = dict.fromkeys(("coverage", "best_human_coverage", "sigma", "sigma_human", "theta"), "float64")
    return table.astype({**whole, **shares, "human": bool})


def _groups(
    objects: pd.DataFrame, explicit: NDArray, sigma: float, sigma_human: float
) -> NDArray[np.object_]:
    if not 0 <= sigma_human <= sigma <= 1:
        raise ValueError(f"sigma: expected 0 <= sigma_human <= sigma <= 1, got {sigma_human} and {sigma}")
    guided = (objects["coverage"] > sigma) | (
        objects["human"] & (objects["best_human_coverage"] > sigma_human)
    )
    place = 2 * (~guided).to_numpy(int) + (~explicit).astype(int)
    undefined = objects["reason"].isin([NO_MAPS, EMPTY])
    return np.where(undefined, "", np.array(GROUPS, object)[place])


def _detections(
    images: pd.DataFrame, detections: pd.DataFrame, human: HumanWords, backend: str
) -> pd.DataFrame:
    """The detections in the order of the images, with what is known of their images and their lemmas."""
    place = pd.Index(images["sample_id"]).get_indexer(detections["sample_id"])
    if (place < 0).any():
        name = detections["sample_id"].iloc[int((place < 0).argmax())]
        raise UserError(
            f"objects/: expected detections of images of this run, got {name!r}: run --stage observe again"
        )
    order = np.lexsort((detections["object"], place))
    found = (
        detections[["sample_id", "object", "label", "mask", "height", "width"]]
        .iloc[order]
        .reset_index(drop=True)
    )
    place = place[order]
    for name in ("triplet", "seed", "indicator"):
        found[name] = images[name].to_numpy()[place]
    singular = {label: lemma(label, backend=backend) for label in found["label"].unique()}
    found["lemma"] = found["label"].map(singular).astype(object)
    found["human"] = np.array([name in human for name in found["lemma"]], bool)
    return found.assign(place=place)


def _measure(
    found: pd.DataFrame, nouns: pd.DataFrame, maps: Iterable[pd.DataFrame], mask_words: str, theta: float
) -> dict[str, Any]:
    """Best word and coverages of each detection, with reasons."""
    n = len(found)
    guides = _guides(nouns)
    best, best_human = np.full((2, n), np.nan)
    word, index = np.full(n, "", object), np.full(n, -1)
    kind, reason = np.full(n, "", object), np.full(n, NO_MAPS, object)
    starts = np.flatnonzero(np.r_[True, np.diff(found["place"]) != 0]) if n else np.array([], int)
    rows_of = dict(zip(found["sample_id"].to_numpy()[starts], zip(starts, [*starts[1:], n])))
    masks, heights, widths = (found[name].to_numpy() for name in ("mask", "height", "width"))
    humans, triplets, names = (found[name].to_numpy() for name in ("human", "triplet", "indicator"))
    for part in maps:
        heats, heat_heights, heat_widths = (part[name].to_numpy() for name in ("heat", "height", "width"))
        words, indices, definitions = (part[name].to_numpy() for name in ("word", "word_index", "definition"))
        for sample, places in part.groupby("sample_id", sort=False).indices.items():
            if sample not in rows_of:
                continue
            start, end = rows_of[sample]
            of_prompt = guides.get((triplets[start], names[start]))
            prompt_nouns = of_prompt or {}
            kind[start:end], reason[start:end] = definitions[places[0]], ""
            chosen = [
                at
                for at in places[np.argsort(indices[places])]
                if mask_words == "all" or indices[at] in prompt_nouns
            ]
            if not chosen:
                reason[start:end] = NO_NOUN if of_prompt is None else NO_MAPS
                continue
            size = (int(heights[start]), int(widths[start]))
            drawn = [
                # turned, so that masks stand column by column, as COCO reads them
                mask(np.reshape(heats[at], (heat_heights[at], heat_widths[at])).T, size[::-1], theta)[0].T
                for at in chosen
            ]
            covered = coverages(masks[start:end], drawn, size)
            spoken = [prompt_nouns.get(indices[at], (words[at], False)) for at in chosen]
            first = covered.argmax(axis=1)
            best[start:end] = covered[np.arange(end - start), first]
            word[start:end] = [spoken[at][0] for at in first]
            index[start:end] = indices[chosen][first]
            own = np.array([of_human for _, of_human in spoken])
            if own.any():
                best_human[start:end] = np.where(humans[start:end], covered[:, own].max(axis=1), np.nan)
            empty = np.isnan(best[start:end])
            reason[start:end][empty], word[start:end][empty], index[start:end][empty] = EMPTY, "", -1
    return {
        **{"best_word": word, "best_word_index": index, "coverage": best, "best_human_coverage": best_human},
        **{"maps": kind, "reason": reason},
    }


def _guides(nouns: pd.DataFrame) -> Mapping[tuple, dict[int, tuple[str, bool]]]:
    """Return by prompt the nouns' places among the words, each with its noun and whether it is human."""
    guides: dict[tuple, dict[int, tuple[str, bool]]] = {}
    columns = (nouns[name].to_list() for name in ("triplet", "indicator", "word_index", "word", "human"))
    for triplet, indicator, index, word, human in zip(*columns):
        own = guides.setdefault((triplet, indicator), {})
        if index >= 0:
            known = own.get(index, ("", False))  # "man-horse" may be two nouns and one word
            own[index] = (known[0] or word, known[1] or human)
    return guides


def _hidden(images: pd.DataFrame, found: pd.DataFrame, nouns: pd.DataFrame) -> pd.DataFrame:
    """Nouns of which no object was found, once an image."""
    once = nouns.drop_duplicates(["triplet", "indicator", "lemma"])[
        ["triplet", "indicator", "word", "lemma", "human"]
    ]
    rows = images.assign(place=np.arange(len(images))).merge(once, on=["triplet", "indicator"], how="inner")
    seen = set(zip(found["sample_id"].to_list(), found["lemma"].to_list()))
    here = zip(rows["sample_id"].to_list(), rows["lemma"].to_list())
    missing = np.array([key not in seen for key in here], bool)
    empty = {"object": -1, "best_word": "", "best_word_index": -1, "maps": "", "reason": ""}
    nothing = dict.fromkeys(("coverage", "best_human_coverage"), np.nan)
    return rows[missing].assign(label=rows["word"][missing], group="hidden", **empty, **nothing)
