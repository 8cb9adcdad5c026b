"""Prompts of PaintSkills (Cho et al. 2023, DALL-Eval, section 3): an object, a number of it, or a relation of two.

A prompt carries the levels ``skill``, ``template`` (as Table 10 prints it), ``object`` (``<objA>``), and by its skill
``count``, or ``object_b`` (``<objB>``, what stands there) and ``relation``. Nobody is named in it, so a run of such
prompts has one indicator, ``prompt``, and compares no words: see `apply_skill_defaults`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count, zip_longest
from typing import Any

from probes.fields.types import fail
from probes.prompts.grammar.english import article, fit_article, plural
from probes.prompts.grids import slug
from probes.prompts.prompt import SKILL, Prompt
from probes.toyworld import MODELS

INDICATOR = "prompt"
SKILLS = ("object", "count", "spatial")
SPLITS = ("train", "test")
AXES = {"object": ("object",), "count": ("object", "count"), "spatial": ("object", "object_b", "relation")}
_MARKS = {"object": "<objA>", "object_b": "<objB>", "relation": "<rel>"}
_NUMBERS = ("<N>", "<N_EN>")
_GOLDEN = (math.sqrt(5) - 1) / 2
_WHERE = {"above": "above", "below": "below", "left": "left of", "right": "right of"}
_ASKS = "how many "  # of which number it asks it does not know


@dataclass(frozen=True)
class SkillRequest:
    """What a prompt asks for: `count` of an `object`, or an `object_b` in a `relation` to an `object`."""

    skill: str
    object: str
    template: str = ""  # as it is printed; empty where nobody said it
    count: int = 1
    object_b: str = ""
    relation: str = ""

    @property
    def levels(self) -> dict[str, str]:
        """The levels of the prompt in a run: skill, template if known, and what the skill asks for (`AXES`)."""
        axes = {name: str(getattr(self, name)) for name in AXES[self.skill]}
        return {"skill": self.skill, **({"template": self.template} if self.template else {}), **axes}


def requested_skills(config: Any) -> list[SkillRequest]:
    """Return the `SkillRequest` of each prompt of a run's configuration, read from the prompt's levels."""
    result = []
    for prompt in config.prompts[: config.limit]:
        names = (SKILL, "template", *AXES[prompt.levels[SKILL]])
        levels: dict[str, Any] = {name: prompt.levels[name] for name in names if name in prompt.levels}
        result.append(SkillRequest(**{**levels, "count": int(levels.get("count", 1))}))
    return result


def check_skill_prompts(prompts: Sequence[Prompt], indicators: Sequence[str]) -> None:
    """Raise an error for several indicators, a prompt without a skill, and missing or invalid levels of its skill."""
    if len(indicators) > 1:
        raise fail(
            f"expected one, since the prompts ask for skills and name nobody, got {indicators}: keep one",
            at=("indicators",),
        )
    for index, prompt in enumerate(prompts):
        at, levels = ("prompts", index, "levels"), prompt.levels
        if SKILL not in levels:
            raise fail("expected a skill as of the other prompts, found none: take it out", at=at[:2])
        skill, number, relation = levels[SKILL], levels.get("count", "1"), levels.get("relation", "left")
        if skill not in SKILLS:
            raise fail(f"expected a skill of {', '.join(SKILLS)}, got {skill!r}: choose one", at=at)
        if missing := next((name for name in AXES[skill] if name not in levels), None):
            raise fail(f"expected the level `{missing}` of the skill {skill}, found none: add it", at=at)
        if not (number.isdecimal() and 1 <= int(number) <= 100):
            raise fail(f"expected a count from 1 to 100, got {number!r}: write a whole number", at=at)
        if relation not in _WHERE:
            raise fail(f"expected above, below, left or right, got {relation!r}: choose one", at=at)


def apply_skill_defaults(data: Mapping[str, Any], set_data: Mapping[str, Any]) -> dict[str, Any]:
    """Return configuration data with missing fields (indicator, seeds, ...) filled in for prompts on visual skills.

    That is one indicator, no contrast, neither word maps nor features, toyworld's images read by its exact
    reader, and the seeds of the split, a scene each.
    """
    result, source = dict(data), data["prompts"]
    if "indicators" not in data:
        result |= {"indicators": {INDICATOR: {"word": INDICATOR}}, "reference": INDICATOR, "contrasts": []}
        exact = {"engine": "toyworld-scenes"} if data.get("model", MODELS[0]) in MODELS else {}
        for section, default in (("capture", {"words": False}), ("observe", {"features": [], **exact})):
            configured = data.get(section, {})
            result[section] = {**default, **configured} if isinstance(configured, Mapping) else configured
    skills, split = source.get("skill") or list(SKILLS), source.get("split") or "test"
    known = isinstance(skills, list) and all(skill in SKILLS for skill in skills) and split in SPLITS
    if "seeds" in data or not known:  # what is unknown is reported elsewhere
        return result
    numbers = {skill: set_data["skills"][skill]["scenes"][split] for skill in skills}
    if len(set(numbers.values())) > 1:
        listed = ", ".join(f"{skill} {number}" for skill, number in numbers.items())
        raise fail(
            f"the skills have different numbers of scenes a prompt ({listed}): name `skill: [...]` of one number,"
            " or write `seeds`",
            at=("seeds",),
        )
    return {**result, "seeds": {"count": next(iter(numbers.values()))}}


def prompts(
    set_data: Mapping[str, Any], skills: Sequence[str] | None = None, objects: Sequence[str] | None = None
) -> list[Prompt]:
    """Return the prompts of a set on visual skills (`set_data`: its file), by default for all skills and objects.

    They stand in an order of which any beginning (``limit``) holds skills, templates, objects, counts and relations
    about equally often.

    >>> from probes.prompts import sets
    >>> first, second, third, *_ = prompts(sets.read("paintskills"))
    >>> [prompt.texts["prompt"] for prompt in (first, second, third)]
    ['airplane', '1 airplane', 'an airplane is above an airplane']
    """
    rounds = zip_longest(
        *(skill_requests(skill, set_data, objects) for skill in SKILLS if skills is None or skill in skills)
    )
    result = []
    for number, request in filter(None, chain.from_iterable(rounds)):
        place = " ".join(str(getattr(request, name)) for name in AXES[request.skill])
        identifier = slug(f"{request.skill} {number:02d} {place}")
        result.append(
            Prompt({INDICATOR: prompt_text(request, set_data)}, id=identifier, levels=request.levels)
        )
    return result


def skill_requests(
    skill: str, set_data: Mapping[str, Any], objects: Sequence[str] | None = None
) -> list[tuple[int, SkillRequest]]:
    """Return (template number from 1, request) for each prompt on a skill in a set, in the order of `prompts`."""
    templates = list(enumerate(set_data["skills"][skill]["templates"], start=1))
    names = list(objects or set_data["objects"])
    axes: dict[str, list[Any]] = {
        "object": names,
        "count": [int(number) for number in set_data["counts"]],
        "object_b": names,
        "relation": list(set_data["relations"]),
    }
    cells = []
    for (number, template), *place in spread_combinations([templates, *(axes[name] for name in AXES[skill])]):
        cells.append((number, SkillRequest(skill, template=template, **dict(zip(AXES[skill], place)))))
    return cells


def spread_combinations(axes: Sequence[Sequence[Any]]) -> Iterator[tuple[Any, ...]]:
    """Yield all combinations of the axes' levels, in an order whose beginnings hold each level about equally often."""
    total = math.prod(map(len, axes))
    step = next(number for number in count(round(total * _GOLDEN)) if math.gcd(number, total) == 1)
    for index in range(total):
        rest, place = index * step % total, []
        for axis in reversed(axes):
            rest, level = divmod(rest, len(axis))
            place.append(axis[level])
        yield tuple(reversed(place))


def prompt_text(request: SkillRequest, set_data: Mapping[str, Any]) -> str:
    """Return the text of a prompt: the request's template with its objects, count and relation filled in.

    A noun is plural where its number is not 1, and after *how many*; articles go by sound; all else, *there are* before
    1 included, is as printed. The paper prints no sample with 1 and does not say.

    >>> from probes.prompts import sets
    >>> content = sets.read("paintskills")
    >>> prompt_text(SkillRequest("count", "umbrella", "there are <N_EN> <objA> in the photo", 3), content)
    'there are three umbrellas in the photo'
    """
    text, number = request.template, str(request.count)
    for mark, numeral in zip(_NUMBERS, (number, set_data["counts"].get(number, number))):
        text = text.replace(mark, numeral)
    nouns = {
        "object": request.object,
        "object_b": request.object_b,
        "relation": set_data["relations"].get(request.relation),
    }
    for name, mark in _MARKS.items():
        while mark in text:
            before, after = text.split(mark, 1)
            noun = str(nouns[name])
            if request.skill == "count" and (request.count != 1 or before.endswith(_ASKS)):
                noun = plural(noun)
            text = fit_article(before, noun) + noun + after
    return text


def question(request: SkillRequest) -> str:
    """Return a question for people about an image, by the prompt's skill, that does not give away count or relation.

    >>> question(SkillRequest("object", "dog")), question(SkillRequest("count", "dog", count=3))
    ('Is there a dog?', 'How many dogs are there?')
    """
    if request.skill == "object":
        return f"Is there {article(request.object)} {request.object}?"
    if request.skill == "count":
        return f"How many {plural(request.object)} are there?"
    if request.object == request.object_b:
        return f"Where is one {request.object}, as seen from another (left or right: beside it)?"
    return f"Where is the {request.object_b}, as seen from the {request.object}?"
