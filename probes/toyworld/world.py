"""The world file: words, things, planted frequencies."""

from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import yaml

from probes.errors import UserError

WHOLE_BODY = ("suit", "uniform", "dress")  # an upper garment that hides the lower one
GROUPS = ("neutral", "feminine", "masculine")


@dataclass(frozen=True)
class Profession:
    """Ground truth of a profession word: its mixture and its skins."""

    lean: float  # probability of component b beside a neutral word; else the word's own
    skins: tuple[float, ...]  # probability of each of the palette's skins, beside any indicator word


@dataclass(frozen=True)
class World:
    """The shared words and things of the toy world, and the planted frequencies of one benchmark model."""

    name: str
    mixture: dict[str, float]  # probability of component b for each group of indicator words
    professions: dict[str, Profession]
    indicators: dict[
        str, dict[str, list[str]]
    ]  # interchangeable words by group and number, the usual one first
    slots: dict[str, dict[str, dict[str, float]]]  # probability of each value by slot and component
    attributes: dict[str, dict[str, str]]  # the 15 attributes: name to slot and phrase
    objects: dict[str, dict[str, Any]]  # name to position and phrases
    places: dict[str, list[str]]  # name to phrases
    poses: dict[str, str]  # by the first word of an action
    contexts: list[str]  # the 16 contexts of Zhang et al. 2023, Table 2

    def words(self, group: str, number: str = "singular") -> list[str]:
        """Return the interchangeable words of a group, such as ``neutral``, in ``singular`` or ``plural``."""
        return self.indicators[group][number]


@cache
def _read_yaml(file: str = "world.yaml") -> dict:
    """Return the data in a YAML file of this package."""
    return yaml.safe_load(resources.files(__package__).joinpath(file).read_text("utf-8"))


def load_world(name: str = "toyworld") -> World:
    """Return words, things and planted frequencies of a benchmark model by its name; UserError if it has none."""
    data, work = {**_read_yaml()}, _read_yaml("professions.yaml")
    worlds, professions = data.pop("worlds"), {}
    if name not in worlds:
        raise UserError(
            f"world.yaml: expected a model with planted frequencies ({', '.join(worlds)}), got {name!r}:"
            " name one of them"
        )
    if name == work["world"]:
        planted = work["professions"].items()
        professions = {word: Profession(one["lean"], tuple(one["skins"])) for word, one in planted}
    elif name == work["control"]:
        even = Profession(worlds[name]["neutral"], (1 / 3, 1 / 3, 1 / 3))
        professions = dict.fromkeys(work["professions"], even)
    return World(name, worlds[name], professions, **data)


@cache
def group_of_words() -> dict[str, tuple[str, bool]]:
    """Return (group, whether plural) by indicator word, such as ``{"women": ("feminine", True)}``."""
    table = {}
    for group, numbers in _read_yaml()["indicators"].items():
        for number, words in numbers.items():
            table.update({word: (group, number == "plural") for word in words})
    return table


@dataclass(frozen=True)
class SynonymStyle:
    """What a word draws of its own: a pose where the prompt names none, and where the figure stands (0, 1 or 2)."""

    pose: str
    shift: int


@cache
def synonym_styles() -> dict[str, SynonymStyle]:
    """Return what each word of the models with unlike synonyms draws of its own, by word."""
    return {word: SynonymStyle(**style) for word, style in _read_yaml("synonyms.yaml").items()}


def token_id(tokenizer: Any, word: str) -> int:
    """Return the token id of a word that is a single token of a CLIP tokenizer."""
    return tokenizer.convert_tokens_to_ids(f"{word}</w>")
