"""Which way the gap at each place inside a benchmark model points, by one large run.

Nothing is planted inside a network that was trained: at a place of its own the gap may point the other way than in the
images. So a large run of other prompts and noises says which way it does, and a dot of the atlas is false where the
interval of that run leaves its direction out.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from analysis.report.figures.atlas import atlas_rows
from analysis.study import contrasts
from analysis.tables.registry import read
from probes.config.schema import Config
from probes.runs.parts import write_bytes
from probes.runs.store import Run

PLACES = Path(__file__).parent / "places.json"
DIGITS = 5


@dataclass(frozen=True)
class Places:
    """Gaps over all words in a large run.

    Attributes
    ----------
    model : str
    steps : int
        Denoising steps; of a run with others nothing is known.
    prompts : int
    seeds : tuple of int
    ends : dict of (str, int) to (float, float, float)
        By site and step: the gap over all words, and the ends of its 95 % interval.
    """

    model: str
    steps: int
    prompts: int
    seeds: tuple[int, ...]
    ends: dict[tuple[str, int], tuple[float, float, float]]

    def direction(self, site: str, step: int) -> int | None:
        """Return 1 or -1 where the interval lies on one side of 0; None where it does not, or nothing is known."""
        _, low, high = self.ends.get((site, step), (0.0, 0.0, 0.0))
        return 1 if low > 0 else -1 if high < 0 else None


def places_of(run: Run) -> Places:
    """Return the places of a run with one contrast."""
    (contrast,) = contrasts(run.config)
    rows = atlas_rows(read(run, "gap"), contrast).dropna(subset=["word_low", "word_high"])
    ends = {
        (row.site, int(row.step)): (row.word_gap, row.word_low, row.word_high) for row in rows.itertuples()
    }
    prompts = len(run.config.prompts[: run.config.limit])
    return Places(run.config.model, run.config.sampler.steps, prompts, tuple(run.config.seeds), ends)


def stored_places(config: Config, path: Path = PLACES) -> Places | None:
    """Return what is known of the places of a run's model at its number of steps; None where nothing is."""
    known = json.loads(path.read_text("utf-8"))
    if (config.model, config.sampler.steps) != (known["model"], known["steps"]):
        return None
    ends = {(site, step): tuple(values) for site, step, *values in known["places"]}
    return Places(known["model"], known["steps"], known["prompts"], tuple(known["seeds"]), ends)


def store(places: Places, path: Path = PLACES) -> None:
    """Write places as JSON, a line each."""
    head = {"model": places.model, "steps": places.steps, "prompts": places.prompts, "seeds": places.seeds}
    rows = [[*key, *(round(float(one), DIGITS) for one in values)] for key, values in places.ends.items()]
    lines = ",\n  ".join(json.dumps(row) for row in rows)
    text = json.dumps(head)[:-1] + f', "places": [\n  {lines}\n]}}\n'
    write_bytes(path, text.encode())
