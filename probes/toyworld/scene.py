"""Scenes: what stands in a picture; what its caption names, and the rest at random.

A caption *sets* what it names; everything else is drawn from the planted frequencies of the mixture component that
the indicator word stands for. Naming a thing does not change the component (an intervention, not a conditioning), so
the planted frequency of everything that is not named is known exactly (`lab.train.base.truth`).
"""

import re
from dataclasses import dataclass, field

import numpy as np

from probes.toyworld.world import WHOLE_BODY, World, group_of_words

WORN = ("upper", "lower", "feet", "head", "neck", "face", "hands")
IN_VIEW = ("none", "shirt", "jacket")  # upper garments that leave the lower one in view
OBJECT_SLOTS = ("ground", "held", "sky", "wide")
SKINS = 3  # of the palette, all equally likely where no profession is named


@dataclass(frozen=True)
class Named:
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
        """Names of all attributes and objects, and of the place, that the caption names."""
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


def _sample_value(rng: np.random.Generator, table: dict[str, float], allowed=None):
    """Sample a name by its weight in `table`, of those `allowed` if given; evenly if all weights are 0."""
    names = [name for name in table if allowed is None or name in allowed]
    weights = np.array([table[name] for name in names], dtype=float)
    if weights.sum() == 0:
        return names[rng.integers(len(names))]
    place = np.searchsorted(np.cumsum(weights / weights.sum()), rng.random(), side="right")
    return names[min(int(place), len(names) - 1)]


def chance_of_b(named: Named, world: World) -> float:
    """Planted probability of the masculine component *b*: a profession's beside a neutral word, else the word's."""
    if named.profession is not None and named.group == "neutral":
        return world.professions[named.profession].lean
    return world.mixture[named.group]


def sample_scene(named: Named, world: World, rng: np.random.Generator) -> Scene:
    """Return a scene with what the caption names, and the rest sampled from the world's planted frequencies.

    An unnamed pose is ``stand``. A whole-body garment leaves the lower slot ``none``, even if one is named there.
    """
    component = "b" if rng.random() < chance_of_b(named, world) else "a"
    table = {slot: choices[component] for slot, choices in world.slots.items()}
    wears = {}
    for slot in WORN:
        if slot in named.slots:
            wears[slot] = named.slots[slot]
        else:
            over = slot == "upper" and "lower" in named.slots
            wears[slot] = _sample_value(rng, table[slot], IN_VIEW if over else None)
    if wears["upper"] in WHOLE_BODY:
        wears["lower"] = "none"
    side = _sample_value(rng, table["side"])
    other = "right" if side == "left" else "left"
    objects = {}
    for slot in OBJECT_SLOTS:
        thing = named.objects.get(slot) or (_sample_value(rng, table[slot]) if slot in table else "none")
        if thing != "none":
            objects[thing] = {"ground": side, "held": side, "sky": other, "wide": "centre"}[slot]
    place = named.place or _sample_value(rng, table["place"])
    looks = tuple(int(value) for value in rng.integers(0, (SKINS, 2, 2, 3, 3)))
    if named.profession is not None:
        skins = world.professions[named.profession].skins
        looks = (_sample_value(rng, dict(enumerate(skins))), *looks[1:])
    return Scene(wears, objects, place, named.pose or "stand", named.plural, looks)


def parse(caption: str, world: World) -> Named:
    """Return what a caption names; ValueError without an indicator word, or for two professions or things in a slot."""
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
    return Named(group, plural, slots, objects, place, pose, work[0] if work else None)
