"""The report's section on attributes of a run without pairs: how often each is there, by all that read the images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from analysis.methods.gep.sources import ORDER, SOURCES
from analysis.tables.registry import read

if TYPE_CHECKING:
    from probes.runs.store import Run

FREQUENCIES = "gep_frequencies"


@dataclass(frozen=True)
class OneWord:
    """The frequencies of attributes in a run that compares no words."""

    frequencies: pd.DataFrame


def read_one_word(run: Run) -> OneWord | None:
    """Return the frequencies of a run that compares no words; None where there are none."""
    if run.config.compares or FREQUENCIES not in run.tables():
        return None
    return OneWord(read(run, FREQUENCIES))


def context(found: OneWord) -> dict[str, Any]:
    """Lay the section out: ``sources`` that read the images, and ``one_word``, a row for each setting and attribute."""
    table = found.frequencies
    sources = [name for name in ORDER if name in set(table["source"])]
    rows = [
        {
            "setting": setting,
            "attribute": attribute,
            "images": int(own["n_images"].max()),
            "by": own.drop_duplicates("source").set_index("source")["frequency"].to_dict(),
        }
        for (setting, attribute), own in table.groupby(["setting", "attribute"], sort=False)
    ]
    return {"sources": [SOURCES[name] for name in sources], "names": sources, "one_word": rows}
