"""The world file: words, things, planted frequencies."""

from dataclasses import dataclass, field
from functools import cache
from importlib import resources

import yaml

from probes.errors import UserError

WHOLE_BODY = ("suit", "uniform", "dress")  # an upper garment that hides the lower one
GROUPS = ("neutral", "feminine", "masculine")
EVEN_SKINS = (1 / 3, 1 / 3, 1 / 3)


@dataclass(frozen=True)
class Profession:
    """Ground truth of a profession word."""

    lean: float  # probability of component b beside a neutral word; else the word's own
    skins: tuple[float, ...]  # probability of each of the palette's skins, beside any indicator word


@dataclass(frozen=True)
class World:
    """One world: the shared words and things, and one planted mixture."""

    name: str
    mixture: dict[str, float]  # probability of component b for each group of indicator words
    data: dict  # the parsed world file
    professions: dict[str, Profession] = field(default_factory=dict)

    @property
    def attributes(self) -> dict[str, dict]:
        """The 15 attributes: name to slot and phrase."""
        return self.data["attributes"]

    @property
    def objects(self) -> dict[str, dict]:
        """The objects: name to position and phrases."""
        return self.data["objects"]

    @property
    def places(self) -> dict[str, list[str]]:
        """The places: name to phrases."""
        return self.data["places"]

    @property
    def contexts(self) -> list[str]:
        """The 16 contexts of Zhang et al. 2023, Table 2."""
        return self.data["contexts"]

    def words(self, group: str, number: str = "singular") -> list[str]:
        """The interchangeable words of a group, the usual one first."""
        return self.data["indicators"][group][number]


@cache
def _data(file: str = "world.yaml") -> dict:
    return yaml.safe_load(resources.files(__package__).joinpath(file).read_text("utf-8"))


def load_world(name: str = "toyworld") -> World:
    """Load the ground-truth frequencies of the benchmark model of this name; other models have none of their own."""
    data, work = _data(), _data("professions.yaml")
    if name not in data["worlds"]:
        raise UserError(
            f"world.yaml: expected a model with planted frequencies ({', '.join(data['worlds'])}), got {name!r}:"
            " name one of them"
        )
    mixture = data["worlds"][name]
    professions = {}
    if name == work["world"]:
        planted = work["professions"].items()
        professions = {word: Profession(one["lean"], tuple(one["skins"])) for word, one in planted}
    elif name == work["control"]:
        professions = dict.fromkeys(work["professions"], Profession(mixture["neutral"], EVEN_SKINS))
    return World(name=name, mixture=mixture, data=data, professions=professions)


@cache
def group_of_words() -> dict[str, tuple[str, bool]]:
    """Map each indicator word to its group and whether it is plural."""
    table = {}
    for group, numbers in _data()["indicators"].items():
        for number, words in numbers.items():
            table.update({word: (group, number == "plural") for word in words})
    return table
