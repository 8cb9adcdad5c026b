"""How many images of a run each labelled one stands for, where sheets were drawn one after the other.

A sheet that is drawn after labels shows some kinds of triplets more often than others. So that rates stay those of the
run, each image is weighted by the size of the stratum that it was drawn from (`analysis.stats.staged_sampling`). Images
of first sheets, and of all sheets where none was drawn after labels, weigh alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.stats.staged_sampling import SampleStage, stage_weights
from analysis.studies.human_check.labels import parse_drawn
from probes.errors import UserError

FIRST = (1, 1)  # sheet and stratum of what was drawn before any label


class LabelledUnits:
    """The triplets and seeds of a run that have labels, and how each was drawn.

    Parameters
    ----------
    labels : DataFrame
        ``sample_id``, ``unit`` (triplet and seed, as one key), ``drawn``; of all annotators.
    units : int
        Triplets and seeds of the run from which the first sheet was drawn.
    files : sequence of Path
        That the labels came from, for errors.

    Attributes
    ----------
    strata : DataFrame
        By sheet and stratum: ``size`` (units that it was drawn from), ``drawn`` (those with a label).
    place : dict
        Sheet and stratum of each unit.

    Raises
    ------
    UserError
        A sheet's own labels, or those of a sheet before it, are missing, or two sheets have one number.
    """

    def __init__(self, labels: pd.DataFrame, units: int, files: Sequence[Path] = ()):
        once = labels.drop_duplicates(["unit", "drawn"]).sort_values("drawn", kind="stable")
        once = once.drop_duplicates("unit", keep="last")  # of one that two sheets drew, the later
        texts = {text: parse_drawn(text) if text else (*FIRST, 1, units) for text in once["drawn"].unique()}
        self.place = {unit: texts[text][:2] for unit, text in zip(once["unit"], once["drawn"])}
        counts = once.groupby("drawn").size()
        rows = [(*texts[text], int(counts[text])) for text in texts]
        table = pd.DataFrame(rows, columns=["sheet", "stratum", "of", "size", "drawn"])
        _check_sheets(table, units, ", ".join(map(str, files)) or "labels")
        for sheet, of in table.groupby("sheet")["of"].first().items():
            have = set(table.loc[table["sheet"] == sheet, "stratum"])
            missing = [(sheet, s, of, 0, 0) for s in range(1, of + 1) if s not in have]
            table = pd.concat([table, pd.DataFrame(missing, columns=table.columns)])
        self.strata = table.astype(int).set_index(["sheet", "stratum"]).sort_index()[["size", "drawn"]]
        self.units = units
        self._fill_sizes()

    def _fill_sizes(self) -> None:
        """Give strata without labels what is left of the units that earlier sheets did not draw."""
        before = 0
        for _, rows in self.strata.groupby(level="sheet"):
            left = self.units - before - rows["size"].sum()
            empty = rows.index[rows["drawn"] == 0]
            self.strata.loc[empty, "size"] = max(left, len(empty)) / max(len(empty), 1)
            before += rows["drawn"].sum()

    @property
    def staged(self) -> bool:
        """Whether a sheet was drawn after labels."""
        return len(self.strata) > 1

    @property
    def sheets(self) -> int:
        """The number of the last sheet."""
        return int(self.strata.index.get_level_values("sheet").max())

    def stages(self, units: Sequence) -> list[SampleStage]:
        """Return the stages, with which of some units' labels count."""
        places = pd.MultiIndex.from_tuples([self.place[unit] for unit in units] or [FIRST], names=["s", "h"])
        answered = pd.Series(1.0 if len(units) else 0.0, places).groupby(level=[0, 1]).sum()
        answered = answered.reindex(self.strata.index, fill_value=0.0)
        return [
            SampleStage(
                *(part.to_numpy(float) for part in (rows["size"], rows["drawn"], answered.loc[rows.index]))
            )
            for _, rows in self.strata.groupby(level="sheet")
        ]

    def weights(self, images: pd.DataFrame) -> NDArray[np.float64]:
        """Return how many images of the run each of some labelled images stands for; one of each where all weigh alike.

        Parameters
        ----------
        images : DataFrame
            One row per image, or several: ``sample_id``, ``unit``, ``indicator``.

        Returns
        -------
        ndarray of float64
            One per row.
        """
        if not self.staged:
            return np.ones(len(images))
        weights = np.zeros(len(images))
        for _, rows in images.reset_index(drop=True).groupby("indicator"):
            units = rows["unit"].unique()
            of_strata = dict(zip(self.strata.index, np.concatenate(stage_weights(self.stages(units)))))
            of_units = {unit: of_strata[self.place[unit]] for unit in units}
            weights[rows.index] = [of_units[unit] for unit in rows["unit"]]
        return weights


def weighted(answers: pd.DataFrame, units: LabelledUnits | None) -> pd.DataFrame:
    """Return answers with ``weight``, that of their images among the images of them, where these do not weigh alike."""
    if units is None or not units.staged:
        return answers
    answers = answers.assign(weight=units.weights(answers))
    return answers[answers["weight"] > 0]


def unit_keys(table: pd.DataFrame) -> list[str]:
    """Return one key for ``triplet`` and ``seed`` of each row."""
    return [f"{triplet}/{seed}" for triplet, seed in zip(table["triplet"], table["seed"])]


def _check_sheets(table: pd.DataFrame, units: int, place: str) -> None:
    sheets = sorted(table["sheet"].unique())
    missing = next((s for s in range(1, sheets[-1] + 1) if s not in sheets), None)
    if missing:
        raise UserError(
            f"{place}: expected labels of sheet {missing}, after which sheet {sheets[-1]} was drawn, got none:"
            " name their file too"
        )
    two = table[
        table.duplicated(["sheet", "stratum"], keep=False)
        | (table.groupby("sheet")["of"].transform("nunique") > 1)
    ]
    if len(two):
        raise UserError(
            f"{place}: expected one sheet {two['sheet'].iloc[0]}, got two that were drawn after other labels: leave the"
            " file of one out"
        )
    of_sheet = table.groupby("sheet")["size"].sum().max()
    if of_sheet > units or (table["drawn"] > table["size"]).any():
        raise UserError(
            f"{place}: expected sheets of a run with {units} triplets and seeds, got one of {of_sheet}:"
            " name the run that it was made from"
        )
