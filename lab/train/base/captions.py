"""Random captions in the form of the papers' prompts.

The forms are those of Zhang et al. 2023 ("a woman in boots sitting at a table") and ordinary captions in the manner of
Wu et al. 2025 ("a lady with a dog and a kite on the beach").
"""

from collections.abc import Mapping

import numpy as np

from probes.toyworld.scene import CaptionContent, parse
from probes.toyworld.world import GROUPS, World

NO_PLURAL = ("riding", "laying", "holding", "reading", "flying")


def article(noun: str) -> str:
    """Return ``a`` or ``an``."""
    return "an" if noun[0] in "aeiou" else "a"


def _pick(rng: np.random.Generator, items):
    return items[int(rng.integers(len(items)))]


def _attribute_phrases(world: World, rng: np.random.Generator, often: Mapping[str, int]) -> list[str]:
    count = rng.choice(4, p=[0.15, 0.35, 0.35, 0.15])
    names = [name for name in world.attributes for _ in range(often.get(name, 1))]
    chosen: list[str] = []
    for _ in range(count):
        name = _pick(rng, names)
        slots = {world.attributes[other]["slot"] for other in [*chosen, name]}
        hidden = {"upper", "lower"} <= slots and not {"shirt", "jacket"} & {*chosen, name}
        if len(slots) == len(chosen) + 1 and not hidden:
            chosen.append(name)
    phrases = [world.attributes[name]["phrase"] for name in chosen]
    if len(phrases) == 2 and phrases[0][:3] == phrases[1][:3]:
        phrases = [phrases[0] + " and" + phrases[1].removeprefix("in").removeprefix("with")]
    return phrases


def _object_phrases(
    world: World, rng: np.random.Generator, taken: set[str], often: Mapping[str, int]
) -> list[str]:
    count = rng.choice(3, p=[0.15, 0.45, 0.40])
    names = [
        name
        for name in world.objects
        if world.objects[name]["at"] not in taken
        for _ in range(often.get(name, 1))
    ]
    chosen: list[str] = []
    for _ in range(count):
        name = _pick(rng, names)
        if all(world.objects[name]["at"] != world.objects[other]["at"] for other in chosen):
            chosen.append(name)
    if len(chosen) == 2 and rng.random() < 0.5:
        return [f"with {article(chosen[0])} {chosen[0]} and {article(chosen[1])} {chosen[1]}"]
    return [_pick(rng, world.objects[name]["phrases"]) for name in chosen]


def random_caption(
    world: World, rng: np.random.Generator, often: Mapping[str, int] | None = None
) -> tuple[str, CaptionContent]:
    """Return a caption and what it names.

    Groups of indicator words, words in a group, attributes and objects are each drawn evenly, so no noun is rare.
    ``often`` gives nouns that come up so many times as often as the others. That alters what captions name, not how
    frequent what they do not name is.
    """
    often = often or {}
    group = _pick(rng, GROUPS)
    plural = rng.random() < 0.08
    word = _pick(rng, world.words(group, "plural" if plural else "singular"))
    subject = f"two {word}" if plural else f"{article(word)} {word}"
    while True:
        parts = _attribute_phrases(world, rng, often)
        if rng.random() < 0.3:
            context = _pick(rng, world.contexts)
            named = parse(f"person {context}", world)
            parts.append(context)
            if rng.random() < 0.3:
                parts += _object_phrases(world, rng, set(named.objects), often)[:1]
        else:
            parts += _object_phrases(world, rng, set(), often)
            named = None
        if (named is None or named.place is None) and rng.random() < 0.6:
            parts.append(_pick(rng, _pick(rng, list(world.places.values()))))
        if plural and any(verb in phrase for phrase in parts for verb in NO_PLURAL):
            continue
        caption = " ".join([subject, *parts])
        opening = rng.random()
        if opening < 0.1:
            caption = f"a photo of {caption}"
        try:
            return caption, parse(caption, world)
        except ValueError:  # two verbs brought things for one place: draw again
            continue
