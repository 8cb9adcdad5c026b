"""Ground truth of the wired transformers: where the indicator enters (:file:`wired_models.yaml`)."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

import yaml


@dataclass(frozen=True)
class WiredModel:
    """Ground truth of a wired transformer."""

    name: str
    sites: tuple[str, ...]  # at which the word enters the transformer
    block: int  # whose keys and values of the text are the prompt's own; all else reads the neutral prompt's
    gain: float  # of the difference of the prompt's own text from the neutral prompt's


@cache
def wired_models() -> Mapping[str, WiredModel]:
    """Return the wired transformers by name, from :file:`wired_models.yaml`."""
    data = yaml.safe_load(resources.files(__package__).joinpath("wired_models.yaml").read_text("utf-8"))
    return {name: WiredModel(name, tuple(entry.pop("sites")), **entry) for name, entry in data.items()}
