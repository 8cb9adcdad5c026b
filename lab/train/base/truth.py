"""Ground truth: the exact probability of everything that a caption does not name."""

import itertools

from probes.toyworld.scene import IN_VIEW, OBJECT_SLOTS, SKINS, WORN, CaptionContent, chance_of_b, parse
from probes.toyworld.world import WHOLE_BODY, World


def _component(named: CaptionContent, world: World, component: str) -> dict[str, float]:
    table = {slot: dict(choices[component]) for slot, choices in world.slots.items()}
    chance: dict[str, float] = {}
    upper = {named.slots["upper"]: 1.0} if "upper" in named.slots else table["upper"]
    if "lower" in named.slots and "upper" not in named.slots:
        upper = {name: weight for name, weight in upper.items() if name in IN_VIEW}
    total = sum(upper.values())
    upper = {name: weight / total for name, weight in upper.items()}
    chance |= upper
    open_front = 1.0 - sum(upper.get(name, 0.0) for name in WHOLE_BODY)
    lower = {named.slots["lower"]: 1.0} if "lower" in named.slots else table["lower"]
    chance |= {name: weight * open_front for name, weight in lower.items()}
    for slot in WORN[2:]:
        chance |= {named.slots[slot]: 1.0} if slot in named.slots else table[slot]
    for slot in OBJECT_SLOTS:
        if slot in named.objects:
            chance[named.objects[slot]] = 1.0
        elif slot in table:
            chance |= table[slot]
    chance |= {named.place: 1.0} if named.place else table["place"]
    chance["side:left"] = table["side"]["left"]
    return chance


def planted(caption: str, world: World) -> dict[str, float]:
    """Planted probability of each thing in a picture drawn for a caption; 1 of what the caption names.

    Every attribute, object and place (0 where it cannot appear), ``side:left``: the probability that the object on the
    ground, if there is one, stands at the left, and ``skin_1`` to ``skin_3``.

    >>> from probes.toyworld.world import load_world
    >>> chance = planted("a woman in the park", load_world())
    >>> round(chance["dress"], 3), chance["park"], chance["umbrella"]
    (0.55, 1.0, 0.0)
    """
    return planted_for(parse(caption, world), world)


def planted_for(named: CaptionContent, world: World) -> dict[str, float]:
    """As :func:`planted`, for what a caption names."""
    weight = chance_of_b(named, world)
    parts = [(1.0 - weight, _component(named, world, "a")), (weight, _component(named, world, "b"))]
    things = itertools.chain(world.attributes, world.objects, ("studio",), world.places, ("side:left",))
    chances = {thing: sum(share * chance.get(thing, 0.0) for share, chance in parts) for thing in things}
    return chances | {f"skin_{number}": chance for number, chance in enumerate(skins_of(named, world), 1)}


def skins_of(named: CaptionContent, world: World) -> tuple[float, ...]:
    """Return the true probability of each skin of the palette: the profession's, or equal where none is named."""
    if named.profession is None:
        return (1 / SKINS,) * SKINS
    return world.professions[named.profession].skins


def component_groups(world: World) -> dict[str, str]:
    """Return the group of words that stands for each mixture component; none in a world where no word does."""
    certain = {0.0: "a", 1.0: "b"}
    return {certain[chance]: group for group, chance in world.mixture.items() if chance in certain}
