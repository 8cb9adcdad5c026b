"""A trace as its tables are made of it: outcomes of its images, and the effects of its patches on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from PIL import Image

from analysis.methods.tracing.effects import Effects, effects, variant_table
from analysis.methods.tracing.logits import require_networks
from analysis.methods.tracing.outcomes import chosen_outcomes, outcomes
from analysis.methods.tracing.shares import share_table
from analysis.study import contrasts
from analysis.tables.sharing import Sharing
from analysis.tables.similarities.similarities import by_unit
from probes.runs.images import read_image
from probes.runs.parts import read_part
from probes.runs.run import Run

_VARIANT = (
    *("variant", "kind", "recipient", "donor", "floor", "sites", "part", "source"),
    *("positions", "heads", "first_step", "stop_step"),
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
        return share_table(self.effects, kinds, self.sampling)


def read_trace(run: Run, sharing: Sharing, checked: object = None) -> TraceInputs | None:
    """Return the trace of a run; None of a run without traced images."""
    if not (files := run.parts("traced")):
        return None
    names, config = outcomes_of(run), run.config
    result = pd.concat(
        sharing.results([(part_outcomes, number, names) for number in range(len(files))]), ignore_index=True
    )
    parts = [read_part(file, _VARIANT).to_pandas().drop_duplicates("variant") for file in files]
    variants = variant_table(pd.concat(parts, ignore_index=True))  # of some triplets one may be missing
    traced = effects(variants, by_unit(result, config), config.reference, contrasts(config)[0])
    options = config.measure
    sampling = {"level": options.level, "resamples": options.bootstrap, "seed": options.seed}
    return TraceInputs(result, variants, traced, sampling)


def part_outcomes(run: Run, number: int, names: Sequence[str]) -> pd.DataFrame:
    """Return the outcomes of the images of one part of ``traced/``."""
    columns = ["triplet", "seed", "variant", "kind", "recipient", "fault", "image"]
    rows = read_part(run.parts("traced")[number], columns).to_pandas()
    samples = run.samples(["triplet", "indicator", "prompt"]).drop_duplicates(["triplet", "indicator"])
    rows = rows.merge(samples.rename(columns={"indicator": "recipient"}), on=["triplet", "recipient"])
    images = [_decoded((image or {}).get("bytes")) for image in rows["image"]]
    return outcomes(rows, images, names, run.config)


def outcomes_of(run: Run) -> list[str]:
    """Return the outcomes that a run asks for, or the default of its model and prompts."""
    prompts = run.samples(["prompt"])["prompt"].unique()
    return chosen_outcomes(run.config.measure.outcomes, run.config.model, prompts=prompts)


def require_outcomes(run: Run) -> None:
    """Refuse outcomes that are not to be had of a run's trace, before anything is measured."""
    if run.parts("traced"):
        require_networks(outcomes_of(run), run.config)


def _decoded(data: bytes | None) -> Image.Image | None:
    """An image, or None where it cannot be read."""
    try:
        return read_image(data)
    except ValueError:
        return None
