"""What a race asks, of which entrants, and in words."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from typing import Any

from analysis.methods.stopping.question import RACE, StopQuestion
from analysis.metrics.registry import Metric
from analysis.report.format import amount, listed
from analysis.stats.elimination import FARTHEST, HIGHEST, LOWEST, NEAREST, level_of_each
from probes.config.schema import Config
from probes.errors import UserError, nearest
from probes.runs.identity import drawn_fields

MOST, LEAST = "most", "least"
_SAME = ("seeds", "indicators", "reference", "contrasts")
_SAME_PROMPTS = ("prompts", "limit")  # unless seeds are drawn: then each entrant has prompts of its own
_SAME_WITHIN = (("sampler", "noise"), ("generate", "part_triplets"))


@dataclass(frozen=True)
class Entrant:
    """One of the models of a race, or of the prompts of a race over seeds.

    Attributes
    ----------
    name : str
        Of its folder beside the others.
    model : str
        As its configuration names it.
    sha256 : str
        Of every field that alters its images.
    """

    name: str
    model: str
    sha256: str


@dataclass(frozen=True)
class RaceQuestion:
    """A question to several models, or about several prompts, as it is registered before the first image.

    Attributes
    ----------
    find : str
        ``most``: who leans most, whichever way; ``least``: who leans least; or a side of the contrast: who leans most
        towards it.
    these_words : bool
        Whether it is about these words alone; else other words of the same meaning are counted in.
    entrants : tuple of Entrant
    asked : StopQuestion
        What of the images it is about, which is the same of all of them.
    """

    find: str
    these_words: bool
    entrants: tuple[Entrant, ...]
    asked: StopQuestion

    @classmethod
    def of(cls, configs: Mapping[str, Config], find: str, *, these_words: bool = False) -> RaceQuestion:
        """Return what is asked of configurations, by the names of the entrants.

        Raises
        ------
        UserError
            They are fewer than two, differ in what must be the same, or there is no such side.
        """
        if len(configs) < 2:
            raise UserError(f"race: expected two or more models, got {len(configs)}: name another")
        (first, own), *others = configs.items()
        asked = replace(StopQuestion.of(own), question=RACE)
        for name, other in others:
            _require_same(first, own, name, other)
            if differing := _differing(asked, replace(StopQuestion.of(other), question=RACE)):
                raise _unequal(first, name, *differing)
        if find not in (MOST, LEAST, *asked.contrast):
            raise UserError(f"--find: {nearest('answer', find, (MOST, LEAST, *asked.contrast))}")
        entrants = tuple(Entrant(name, config.model, _drawn_hash(config)) for name, config in configs.items())
        return cls(find, these_words, entrants, asked)

    @property
    def aim(self) -> str:
        """What is looked for among the gaps, as `analysis.stats.elimination` names it."""
        first, second = self.asked.contrast
        return {first: HIGHEST, second: LOWEST, MOST: FARTHEST, LEAST: NEAREST}[self.find]

    @property
    def level_of_each(self) -> float:
        """The level of each of the sequences that its statements rest on."""
        return level_of_each(self.asked.level, len(self.entrants), self.aim)

    def record(self) -> dict[str, Any]:
        """Return what ``race.json`` keeps: the question, who is in it, and the hash by which it is known."""
        asked = {name: value for name, value in asdict(self.asked).items() if name != "question"}
        fields = {
            "find": self.find,
            "these_words": self.these_words,
            **asked,
            "contrast": list(self.asked.contrast),
            "level_of_each": self.level_of_each,
            "entrants": [asdict(one) for one in self.entrants],
        }
        return {**fields, "sha256": sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()}

    def leading(self) -> str:
        """Return what the one that is looked for does more than others, in words."""
        return {MOST: "leans most", LEAST: "leans least"}.get(self.find, f"leans most towards {self.find}")

    def text(self) -> str:
        """Return the question in words."""
        return f"Which {self.leading()}: {listed([one.name for one in self.entrants], 'or')}?"

    def about(self, reference: str, metric: Metric) -> str:
        """Return what it is asked of, and who ties, in words."""
        first, second = self.asked.contrast
        said = self.asked.seen and self.asked.seen.wording
        what = (
            f"{said.averages} {first} prompts less those of {second} prompts {said.counted}".rstrip()
            if said
            else f"{metric.noun} {reference} prompts, nearer to those of {first} or of {second} prompts"
        )
        within = amount(self.asked.within, metric)
        return f"Asked of {what}. Those within {within} of each other tie."


def _require_same(first: str, one: Config, name: str, other: Config) -> None:
    """Refuse configurations whose images cannot be held against each other prompt by prompt, or seed by seed."""
    sides = [config.resolved() for config in (one, other)]
    prompts = () if one.stops_over == other.stops_over == "seeds" else _SAME_PROMPTS
    for section, field in (*(("", field) for field in (*prompts, *_SAME)), *_SAME_WITHIN):
        own, theirs = ((side[section] if section else side).get(field) for side in sides)
        if own != theirs:
            raise _unequal(first, name, f"{section}.{field}".lstrip("."), own, theirs)


def _differing(one: StopQuestion, other: StopQuestion) -> tuple[str, Any, Any] | None:
    """The first field of a question that differs, with both values."""
    sides = [asdict(question) for question in (one, other)]
    name = next((name for name in sides[0] if sides[0][name] != sides[1][name]), None)
    if name is None:
        return None
    field = "number of prompts" if name == "given" else f"stop ({name})"
    return field, sides[0][name], sides[1][name]


def _unequal(first: str, name: str, field: str, own: Any, theirs: Any) -> UserError:
    if isinstance(own, list) and isinstance(theirs, list):
        place = next((k for k, (a, b) in enumerate(zip(own, theirs)) if a != b), min(len(own), len(theirs)))
        field, (own, theirs) = (
            f"{field}[{place}]",
            ((side[place] if place < len(side) else None) for side in (own, theirs)),
        )
    shown = [text if len(text := repr(side)) < 60 else text[:57] + "..." for side in (own, theirs)]
    return UserError(
        f"{field}: expected the same of all entrants, got {shown[0]} of {first} and {shown[1]} of {name}: make them"
        " equal"
    )


def _drawn_hash(config: Config) -> str:
    fields = drawn_fields(config.resolved())
    return sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()
