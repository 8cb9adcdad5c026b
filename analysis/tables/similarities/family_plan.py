"""What a family of similarities is made of: columns of ``captures/`` and metrics of pictures, before they are read."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from analysis.metrics.registry import definition
from hooks.architectures.addresses import has_steps, space


class Key(NamedTuple):
    """What is compared, and how: a column of captures, or a metric of pictures."""

    space: str
    site: str
    metric: str
    captured: bool = True

    @property
    def column(self) -> str:
        """Its column of ``captures/``."""
        return f"{self.site}:{self.metric}"


def captured_key(column: str) -> Key:
    """Return the key of a column of ``captures/``.

    Raises
    ------
    ValueError
        If it is no ``<site>:<metric>`` with a site and a metric that are known.
    """
    site, separator, metric = column.rpartition(":")
    if not separator:
        raise ValueError(f"captures: expected a column <site>:<metric>, got {column!r}")
    definition(metric)  # raises where there is none
    return Key(space(site), site, metric)


class FamilyPlan(NamedTuple):
    """What a family is made of: the keys of its sites, its pairs, and the prompts and seeds of all that was chosen."""

    space: str
    metric: str
    keys: list[Key]
    pairs: list[str]
    prompts: NDArray[np.int64]
    seeds: NDArray[np.int64]

    def shares(self, number: int) -> list[FamilyPlan]:
        """Cut it by sites into at most so many; a family without steps is small and stays whole."""
        if not any(has_steps(key.site) for key in self.keys):
            return [self]
        width = -(-len(self.keys) // number)
        return [self._replace(keys=self.keys[at : at + width]) for at in range(0, len(self.keys), width)]
