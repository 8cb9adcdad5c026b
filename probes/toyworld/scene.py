"""Scenes: what stands in a picture; what its caption names, and the rest at random.

A caption *sets* what it names; everything else is drawn from the planted frequencies of the mixture component that
the indicator word stands for. Naming a thing does not change the component (an intervention, not a conditioning), so
the planted frequency of everything that is not named is known exactly (`lab.train.base.truth`).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from probes.toyworld.world import WHOLE_BODY, World, group_of_words

WORN = ("upper", "lower", "feet", "head", "neck", "face", "hands")
IN_VIEW = ("none", "shirt", "jacket")  # upper garments that leave the lower one in view
OBJECT_SLOTS = ("ground", "held", "sky", "wide")
_Key = TypeVar("_Key")
SKINS = 3  # of the palette, all equally likely where no profession is named


@dataclass(frozen=True)
class CaptionContent:
    """Content that a caption names: indicator word, attributes, objects, place, pose and profession.

    ``slots`` maps an attribute slot to the attribute, ``objects`` maps a position to the object, ``place``, ``pose``
    and ``profession`` (a word of the world's) are names or None.
    """

    group: str
    plural: bool = False
    slots: dict[str, str] = field(default_factory=dict)
    objects: dict[str, str] = field(default_factory=dict)
    place: str | None = None
    pose: str | None = None
    profession: str | None = None

    @property
    def things(self) -> set[str]:
        """Names of all attributes, objects and the place that the caption names."""
        return set(self.slots.values()) | set(self.objects.values()) | ({self.place} - {None})


@dataclass(frozen=True)
class Scene:
    """Everything that the renderer draws in one picture.

    ``wears`` maps each attribute slot to an attribute or ``none``; ``objects`` maps an object to ``left``,
    ``right`` or ``centre``; ``looks`` holds what carries no meaning (skin, hair, jitter).
    """

    wears: dict[str, str]
    objects: dict[str, str]
    place: str
    pose: str
    plural: bool
    looks: tuple[int, int, int, int, int]

    @property
    def things(self) -> set[str]:
        """Names of all attributes and objects, and of the place, in the scene."""
        worn = {name for name in self.wears.values() if name != "none"}
        return worn | set(self.objects) | {self.place}


def _sample_key(rng: np.random.Generator, table: dict[_Key, float], allowed: Sequence[_Key] = ()) -> _Key:
    """Return a key of `table`, sampled by weight, of those `allowed` if any; evenly if all weights are 0."""
    names = [name for name in table if not allowed or name in allowed]
    weights = np.array([table[name] for name in names], dtype=float)
    if weights.sum() == 0:
        return names[rng.integers(len(names))]
    place = np.searchsorted(np.cumsum(weights / weights.sum()), rng.random(), side="right")
    return names[min(int(place), len(names) - 1)]


def chance_of_b(content: CaptionContent, world: World) -> float:
    """Return the planted probability that a caption's scene is of component *b*, the masculine mixture."""
    if content.profession is not None and content.group == "neutral":
        return world.professions[content.profession].lean
    return world.mixture[content.group]


def sample_scene(content: CaptionContent, world: World, rng: np.random.Generator) -> Scene:
    """Return a scene with a caption's content, and the rest sampled from the world's planted frequencies.

    An unnamed pose is ``stand``. A whole-body garment leaves the lower slot ``none``, even if one is named there.
    """
    component = "b" if rng.random() < chance_of_b(content, world) else "a"
    table = {slot: choices[component] for slot, choices in world.slots.items()}
    wears = {}
    for slot in WORN:
        if slot in content.slots:
            wears[slot] = content.slots[slot]
        else:
            over = slot == "upper" and "lower" in content.slots
            wears[slot] = _sample_key(rng, table[slot], IN_VIEW if over else ())
    if wears["upper"] in WHOLE_BODY:
        wears["lower"] = "none"
    side = _sample_key(rng, table["side"])
    other = "right" if side == "left" else "left"
    objects = {}
    for slot in OBJECT_SLOTS:
        thing = content.objects.get(slot) or (_sample_key(rng, table[slot]) if slot in table else "none")
        if thing != "none":
            objects[thing] = {"ground": side, "held": side, "sky": other, "wide": "centre"}[slot]
    place = content.place or _sample_key(rng, table["place"])
    looks = tuple(int(value) for value in rng.integers(0, (SKINS, 2, 2, 3, 3)))
    if content.profession is not None:
        skins = world.professions[content.profession].skins
        looks = (_sample_key(rng, dict(enumerate(skins))), *looks[1:])
    return Scene(wears, objects, place, content.pose or "stand", content.plural, looks)


def parse(caption: str, world: World) -> CaptionContent:
    """Return the content that a caption names; ValueError if no indicator word, or two things for one slot."""
    words = re.findall(r"[a-z]+", caption.lower())
    known = group_of_words()
    group, plural = next((known[word] for word in words if word in known), (None, False))
    if group is None:
        raise ValueError(f"caption {caption!r}: expected one of {sorted(known)}, got none of them")
    slots, objects, place, pose = {}, {}, None, None
    work = list(dict.fromkeys(word for word in words if word in world.professions))
    if len(work) > 1:
        raise ValueError(f"caption {caption!r}: expected one profession, got {work[0]!r} and {work[1]!r}")
    for word in words:
        if word in world.attributes:
            taken, slot = slots, world.attributes[word]["slot"]
        elif word in world.objects:
            taken, slot = objects, world.objects[word]["at"]
        else:
            place = word if word in world.places else place
            pose = world.poses.get(word, pose) if pose in (None, "stand") else pose
            continue
        if slot in taken:
            raise ValueError(
                f"caption {caption!r}: {word!r} and {taken[slot]!r} want the same place ({slot})"
            )
        taken[slot] = word
    return CaptionContent(group, plural, slots, objects, place, pose, work[0] if work else None)
