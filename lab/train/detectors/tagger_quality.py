"""Quality of toyworld's tagger on unseen pictures, by the checker, tag by tag."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.observe.objects.tags.ram import RamTagger
from analysis.stats.proportions import wilson_interval
from lab.train.detectors.tagged_images import checked

BAR = 0.90  # of recall and of precision, of each tag
NOISE = 4.0  # standard deviation, of 255


def says(tagger: RamTagger, images: NDArray[np.uint8], batch: int = 32) -> NDArray[np.bool_]:
    """Return what the tagger says of pictures ``(n, 64, 64, 3)``: ``(n, tags)``, in the order of its list."""
    limits = np.array(tagger.files.thresholds)
    chunks = (tagger.probabilities(images[start : start + batch]) for start in range(0, len(images), batch))
    return np.concatenate([chunk > limits for chunk in chunks])


def agreement(said: NDArray[np.bool_], truth: NDArray[np.bool_], tags: tuple[str, ...]) -> dict[str, Any]:
    """Recall and precision of each tag ``(n, tags)`` against the checker's, and of all taken together.

    ``by_tag`` has both with their 95 % intervals by Wilson, and the images in which it is, by the checker and by the
    tagger. A recall of a tag that is in no image, or a precision of one that is said of none, is None, and so is its
    interval.
    """
    both, seen, named = ((table).sum(0) for table in (said & truth, truth, said))
    by_tag = {
        tag: {
            "recall": _share(both[number], seen[number]),
            "precision": _share(both[number], named[number]),
            "recall_interval": _interval(both[number], seen[number]),
            "precision_interval": _interval(both[number], named[number]),
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


def _interval(part: int, whole: int) -> list[float] | None:
    if not whole:
        return None
    return [round(float(end), 4) for end in wilson_interval(np.float64(part / whole), int(whole), 0.95)]


def _share(part: int, whole: int) -> float | None:
    return round(float(part / whole), 4) if whole else None


def tagger_quality(
    tagger: RamTagger, renderings: NDArray[np.uint8], drawn: NDArray[np.uint8]
) -> dict[str, Any]:
    """The agreement on ``renderings`` and on ``drawn`` images, the checker's reading of which is the truth.

    ``checker`` is how far the checker agrees with itself on the drawn images when noise that nobody sees (`NOISE`) is
    added to them: where its word hangs on a pixel, no tagger can tell it.
    """
    tags, truth = tagger.files.tags, checked(drawn)
    return {
        "renderings": agreement(says(tagger, renderings), checked(renderings), tags),
        "drawn": agreement(says(tagger, drawn), truth, tags),
        "checker": agreement(checked(disturbed(drawn)), truth, tags),
    }


def disturbed(images: NDArray[np.uint8], seed: int = 0) -> NDArray[np.uint8]:
    """Pictures with Gaussian noise on every value."""
    noise = np.random.default_rng(seed).normal(0, NOISE, images.shape)
    return (images + noise).round().clip(0, 255).astype(np.uint8)
