"""What a race found: who is left and why, in words, as a table, as a figure and on a page."""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.methods.stopping.race.columns import LEFT, race_table
from analysis.methods.stopping.race.figures import draw_race
from analysis.methods.stopping.race.looks import RaceLook
from analysis.methods.stopping.race.question import RaceQuestion
from analysis.report.environment import environment
from analysis.report.figures.style import Drawn, files, inline_svg
from analysis.report.format import amount, counted, listed, with_interval
from analysis.stats.elimination import TIED, WON
from probes.csv_text import csv_bytes
from probes.runs.parts import write_bytes
from probes.runs.tables import table_bytes

PAGE, TABLE = "race.html", "race"


@dataclass(frozen=True, repr=False)
class Race:
    """A race that has ended. Jupyter shows its figure and its answer.

    Attributes
    ----------
    path : pathlib.Path
        Folder of the page; the run of each entrant is a folder beside it, by its name.
    question : RaceQuestion
    looks : list of RaceLook
    reference : str
        The indicator from which gaps are seen.
    images : int
        Images that all entrants would have, drawn to the end.
    """

    path: Path
    question: RaceQuestion
    looks: list[RaceLook]
    reference: str
    images: int

    @property
    def table(self) -> pd.DataFrame:
        """One row per look and entrant that was left before it."""
        return race_table(self.question, self.looks)

    @property
    def ended(self) -> str:
        """How it ended: ``won``, ``tied``, or empty where all was drawn and more than one is left."""
        return self.looks[-1].standing.ended

    @property
    def remaining(self) -> list[str]:
        """Names of the entrants that are left."""
        return [self.question.entrants[one].name for one in self.looks[-1].standing.remaining]

    @property
    def drawn(self) -> int:
        """Images that were drawn of all entrants."""
        return sum(row["n_images"] for row in self._last())

    @property
    def of_these_words(self) -> bool:
        """Whether nothing is said of other words of the same meaning."""
        gaps = [gap for gap in self.looks[-1].gaps.values() if gap is not None]
        return self.question.these_words or all(pd.isna(gap.words_half) for gap in gaps)

    @property
    def answer(self) -> str:
        """The answer, in words."""
        asked, metric = self.question.asked, self.question.asked.shown
        so_many = f"{counted(self.looks[-1].standing.look, asked.unit)} of at most {asked.most:,}"
        these = ["words"] if self.of_these_words else []
        these += ["prompts"] if asked.given else []
        alone = f" (of these {' and '.join(these)} alone)" if these else ""
        if self.ended == WON:
            row = next(row for row in self._last() if row["state"] == WON)
            ahead = with_interval(row["lead"], row["lead_low"], row["lead_high"], metric.digits, True)
            who = f"{row['entrant']} {self.question.leading()}{alone}"
            said = f"Answered after {so_many}: {who}, ahead of {row['rival']} by {ahead}."
        elif self.ended == TIED:
            within = amount(asked.within, metric)
            said = (
                f"A tie after {so_many}: {listed(self.remaining)} are within {within} of each other{alone}."
            )
        else:
            everything = counted(asked.most, asked.unit)
            said = f"Not answered by all {everything}: {listed(self.remaining)} are still in{alone}."
        return f"{said} {self.drawn:,} images were drawn, of {self.images:,} that all would have."

    def plot(self) -> Drawn:
        """Draw the gap of each entrant as prompts, or seeds, were drawn, and where it left."""
        asked = self.question.asked
        return draw_race(self.table, asked.most, asked.shown.symbol, asked.unit)

    def report(self) -> str:
        """Return the page as HTML in one file."""
        return (
            environment()
            .get_template("analysis.methods.stopping.race/page.html.j2")
            .render(
                race=self,
                question=self.question,
                about=self.question.about(self.reference, self.question.asked.shown),
                digits=self.question.asked.shown.digits,
                sha256=self.question.record()["sha256"][:12],
                entrants=self._last(),
                rows=self.table.to_dict("records"),
                figure=self.plot(),
            )
        )

    def write(self) -> Path:
        """Write page, table and figure beside the runs; return the path of the page."""
        table, page = self.table, self.path / PAGE
        write_bytes(self.path / f"{TABLE}.csv", csv_bytes(table))
        write_bytes(self.path / f"{TABLE}.parquet", table_bytes(TABLE, table))
        for name, data in files(self.plot()).items():
            write_bytes(self.path / name, data)
        write_bytes(page, self.report().encode())
        return page

    def _last(self) -> list[dict]:
        """The last row of each entrant: who is left first, then who left latest."""
        last = self.table.drop_duplicates("entrant", keep="last")
        return last.sort_values("look", ascending=False, kind="stable").to_dict("records")

    @staticmethod
    def outcome(row: Mapping[str, Any]) -> str:
        """Return what became of an entrant by its last row, in words."""
        ends = {WON: "ahead of all", TIED: "tied", LEFT: f"out, {row['rival']} is ahead"}
        return ends.get(row["state"], "not decided")

    def __repr__(self) -> str:
        metric = self.question.asked.shown
        lines = [self.question.text(), self.question.about(self.reference, metric), self.answer]
        for row in self._last():
            gap = with_interval(row["gap"], row["low"], row["high"], metric.digits, True)
            so_many = counted(row["n_prompts"], self.question.asked.unit)
            lines.append(f"{row['entrant']}: {self.outcome(row)}, {so_many}; gap {gap}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return f"<div>{inline_svg(self.plot())}</div><pre style='white-space: pre-wrap'>{html.escape(repr(self))}</pre>"
