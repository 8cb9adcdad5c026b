"""Captions of toyworld's images: what the toyworld checker reads, in the form of the world's captions.

It is no captioning network: it needs no weights, and names exactly what is seen. Who is seen is *a person*, whatever
the prompt says: no drawing shows what a word for a person means.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from analysis.observe.objects.models.toyworld_checker import ToyworldChecker, require_size
from analysis.observe.observer import ImageModel
from probes.toyworld.checker import PERSON, PLACES, VERSION, read_images
from probes.toyworld.world import load_world

CAPTIONS_VERSION = f"{VERSION}, captions/1"


class CheckerCaptioner(ImageModel):
    """Puts what is read into a sentence; see :class:`analysis.observe.captions.observer.CaptionObserver`."""

    libraries = ("numpy", "pandas")

    def __str__(self) -> str:
        return f"{CAPTIONS_VERSION} (no captioning network)"

    def identity(self) -> Mapping[str, Any]:
        """Versions of the checker and of its sentences."""
        return {"version": CAPTIONS_VERSION}

    def captions(self, images: Sequence[np.ndarray]) -> list[str]:
        """A sentence about each image of 64 × 64 pixels."""
        require_size(images, "observe.captions: toyworld-checker", "name a captioning network")
        seen = ToyworldChecker().detect(images, [()] * len(images))
        places = read_images(np.stack(images))[list(PLACES)].to_numpy()
        return [
            sentence({one.label for one in found.detections}, PLACES[int(place.argmax())])
            for found, place in zip(seen, places)
        ]


def sentence(things: set[str], place: str) -> str:
    """Return a caption of what is seen, each thing with the first of its phrases in the world file, in its order.

    >>> sentence({"person", "dog", "boots"}, "beach"), sentence(set(), "studio")
    ('a person in boots with a dog on the beach', 'an empty picture')
    """
    world = load_world()
    phrases = [one["phrase"] for name, one in world.attributes.items() if name in things]
    phrases += [one["phrases"][0] for name, one in world.objects.items() if name in things]
    phrases += [world.places[place][0]] if place in world.places else []
    subject = "a person" if PERSON in things else "an empty picture"
    return " ".join([subject, *phrases])
