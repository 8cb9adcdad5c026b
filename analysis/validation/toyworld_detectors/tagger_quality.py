"""What toyworld's tagger says of pictures that no training saw, held against the checker tag by tag."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.observe.objects.ram import RamTagger
from analysis.validation.toyworld_detectors.tagger import Tagged

BAR = 0.90  # of recall and of precision, of each tag


def says(tagger: RamTagger, images: NDArray[np.uint8], batch: int = 32) -> NDArray[np.bool_]:
    """What the tagger says of pictures ``(n, 64, 64, 3)``: ``(n, tags)``, in the order of its list."""
    limits = np.array(tagger.files.thresholds)
    chunks = (tagger.probabilities(images[start : start + batch]) for start in range(0, len(images), batch))
    return np.concatenate([chunk > limits for chunk in chunks])


def agreement(said: NDArray[np.bool_], truth: NDArray[np.bool_], tags: tuple[str, ...]) -> dict[str, Any]:
    """Recall and precision of each tag, and of all taken together.

    Parameters
    ----------
    said, truth : numpy.ndarray
        ``(n, tags)`` bool: the tagger's word, and the checker's.

    Returns
    -------
    dict
        ``images``, ``recall``, ``precision``, ``lowest_recall``, ``lowest_precision`` and ``by_tag``; in this for each
        tag ``recall``, ``precision``, ``seen`` and ``said`` (images that it is in, by the checker and by the tagger).
        A recall of a tag that is in no image, or a precision of one that is said of none, is None.
    """
    both, seen, named = ((table).sum(0) for table in (said & truth, truth, said))
    by_tag = {
        tag: {
            "recall": _share(both[number], seen[number]),
            "precision": _share(both[number], named[number]),
            "seen": int(seen[number]),
            "said": int(named[number]),
        }
        for number, tag in enumerate(tags)
    }
    lowest = {
        f"lowest_{name}": min((row[name] for row in by_tag.values() if row[name] is not None), default=None)
        for name in ("recall", "precision")
    }
    pooled = {"recall": _share(both.sum(), seen.sum()), "precision": _share(both.sum(), named.sum())}
    return {"images": len(said), **pooled, **lowest, "by_tag": by_tag}


def _share(part: int, whole: int) -> float | None:
    return round(float(part / whole), 4) if whole else None


def tagger_quality(tagger: RamTagger, **pictures: NDArray[np.uint8]) -> dict[str, Any]:
    """The agreement on each set of pictures, the checker's reading of which is the truth."""
    tags = tagger.files.tags
    return {
        name: agreement(says(tagger, images), Tagged.of(images).truth, tags)
        for name, images in pictures.items()
    }
