"""A trace as its tables are made of it: outcomes of its images, and the effects of its patches on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from PIL import Image

from analysis.methods.tracing.effects import Effects, effects, variant_table
from analysis.methods.tracing.logits import NETWORKS, logit_settings, require_networks
from analysis.methods.tracing.outcomes import TracedImages, chosen_outcomes, outcomes
from analysis.methods.tracing.shares import share_table
from analysis.study import contrasts
from analysis.tables.sharing import Sharing
from analysis.tables.similarities.similarities import by_unit
from probes.runs.images import read_image
from probes.runs.parts import read_part
from probes.runs.run import Run

_ABOUT = (
    *("triplet", "seed", "variant", "kind", "recipient", "donor", "floor", "sites", "part", "source"),
    *("positions", "heads", "first_step", "stop_step", "fault"),
)


@dataclass(frozen=True)
class TraceInputs:
    """A trace as its tables are made of it."""

    outcomes: pd.DataFrame
    variants: pd.DataFrame
    effects: Sequence[Effects]  # one an outcome
    sampling: dict[str, Any]  # options of the intervals

    def shares(self, *kinds: str) -> pd.DataFrame | None:
        """The shares of patches of some kinds; None where none of them was generated."""
        table = share_table(self.effects, kinds, self.sampling)
        return table if len(table) else None


def read_trace(run: Run, sharing: Sharing, checked: object = None) -> TraceInputs | None:
    """Return the trace of a run; None of a run without traced images."""
    if not run.parts("traced"):
        return None
    numbers, names, config = range(len(run.parts("traced"))), outcomes_of(run), run.config
    calls = [(part_outcomes, number, names) for number in numbers]
    result = pd.concat(sharing.results(calls), ignore_index=True)
    about = [name for name in _ABOUT if name != "fault"]
    parts = [read_part(file, about).to_pandas().drop_duplicates("variant") for file in run.parts("traced")]
    variants = variant_table(pd.concat(parts, ignore_index=True))  # of some triplets one may be missing
    traced = effects(variants, by_unit(result, config), config.reference, contrasts(config)[0])
    options = config.measure
    sampling = {"level": options.level, "resamples": options.bootstrap, "seed": options.seed}
    return TraceInputs(result, variants, traced, sampling)


def part_outcomes(run: Run, number: int, names: Sequence[str]) -> pd.DataFrame:
    """Return the outcomes of the images of one part of ``traced/``."""
    table = read_part(run.parts("traced")[number])
    rows = table.select([name for name in _ABOUT if name in table.column_names]).to_pandas()
    samples = run.samples(["triplet", "indicator", "prompt"]).drop_duplicates(["triplet", "indicator"])
    prompts = dict(zip(zip(samples["triplet"], samples["indicator"]), samples["prompt"]))
    first, second = contrasts(run.config)[0]
    stored = [(image or {}).get("bytes") for image in table["image"].to_pylist()]
    decoded = {data: _decoded(data) for data in dict.fromkeys(stored)}  # variants may show the same image
    images = [decoded[data] for data in stored]
    networks = logit_settings(run.config) if set(NETWORKS) & set(names) else None
    rows = rows.assign(
        prompt=[prompts[int(one), word] for one, word in zip(rows["triplet"], rows["recipient"])]
    )
    return outcomes(TracedImages(rows, images, first, second), names, networks)


def outcomes_of(run: Run) -> list[str]:
    """Return the outcomes that a run asks for, or the default of its model and prompts."""
    prompts = run.samples(["prompt"])["prompt"].unique()
    return chosen_outcomes(run.config.measure.outcomes, run.config.model, prompts=prompts)


def require_outcomes(run: Run) -> None:
    """Refuse outcomes that are not to be had of a run's trace, before anything is measured."""
    if run.parts("traced"):
        names = outcomes_of(run)
        if set(NETWORKS) & set(names):
            require_networks(names, logit_settings(run.config))


def _decoded(data: bytes | None) -> Image.Image | None:
    """An image, or None where it cannot be read."""
    try:
        return read_image(data)
    except ValueError:
        return None
