"""What tells the rows of similarities apart: triplet, seed and pair; and which of them are of an image at fault."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from probes.errors import UserError
from probes.runs.run import Run

INDEX = ("triplet", "seed", "pair")


@dataclass(frozen=True)
class SimilarityRows:
    """What tells the rows of ``captures/``, or of the similarities of pictures, from each other."""

    triplet: NDArray[np.int64]
    seed: NDArray[np.int64]
    pair: NDArray[np.int64]  # place in `names`
    names: list[str]

    @classmethod
    def of(cls, table: pd.DataFrame, where: str) -> SimilarityRows:
        """Read them from a table with the columns `INDEX`; `where` it stands is named if a row stands twice."""
        twice = table[table.duplicated(list(INDEX))]
        if len(twice):
            triplet, seed, pair = twice[list(INDEX)].iloc[0]
            raise UserError(
                f"{where}: expected every triplet, seed and pair once, got triplet {triplet}, seed {seed}, {pair}"
                " twice: delete the part that does not belong here"
            )
        pair, names = pd.factorize(table["pair"])
        triplet, seed = (table[name].to_numpy(np.int64) for name in ("triplet", "seed"))
        return cls(triplet, seed, pair, [str(name) for name in names])

    def with_any(self, images: pd.DataFrame, members: Mapping[str, Collection[str]]) -> NDArray[np.bool_]:
        """Tell for each row whether an image of the pair is among these (``triplet``, ``seed``, ``indicator``)."""
        among = np.full(len(self.seed), False)
        if images.empty or not len(among):
            return among
        draws = pd.MultiIndex.from_arrays([self.triplet, self.seed])
        for indicator, own in images.groupby("indicator"):
            with_it = np.array([indicator in members.get(name, ()) for name in self.names])
            among |= with_it[self.pair] & draws.isin(pd.MultiIndex.from_frame(own[["triplet", "seed"]]))
        return among


def faulty_images(run: Run, samples: pd.DataFrame | None = None) -> pd.DataFrame:
    """The images of a run that were at fault when they were drawn, see `probes.runs.images.WHY`.

    `samples`, where they were read already, have the columns ``triplet``, ``seed``, ``indicator`` and ``fault``.
    """
    columns = ["triplet", "seed", "indicator", "fault"]
    if samples is None:
        samples = run.samples(columns) if run.parts("samples") else pd.DataFrame(columns=columns)
    return samples.loc[samples["fault"].notna(), columns]
