"""The measure stage of a trace: outcomes of its images, and the tables of what its patches do to them.

A run without ``traced/`` has none of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from PIL import Image

from analysis.methods.tracing.cuts import cut_table
from analysis.methods.tracing.effects import effects, variant_table
from analysis.methods.tracing.logits import NETWORKS, logit_settings, require_networks
from analysis.methods.tracing.outcomes import TracedImages, chosen_outcomes, outcomes
from analysis.methods.tracing.registry import TRACE
from analysis.methods.tracing.shares import share_table, total_table
from analysis.methods.tracing.together import together_table
from analysis.study import contrasts
from analysis.tables.method import MeasuredMethod
from analysis.tables.registry import write
from analysis.tables.sharing import Sharing
from analysis.tables.similarities.similarities import by_unit
from probes.runs.images import read_image
from probes.runs.parts import read_part
from probes.runs.run import Run
from probes.stages.trace.variants import CUTS

KINDS = {  # of patches whose shares stand in one table
    "trace_shares": ("site", "complete", "position"),
    "trace_windows": ("window",),
    "trace_heads": ("head",),
}
_ABOUT = (
    *("triplet", "seed", "variant", "kind", "recipient", "donor", "floor", "sites", "part", "source"),
    *("positions", "heads", "first_step", "stop_step", "fault"),
)


def measure_trace(run: Run, sharing: Sharing) -> None:
    """Write the tables of a run's trace; nothing where the run holds no traced images."""
    if not run.parts("traced"):
        return
    names = outcomes_of(run)
    calls = [(part_outcomes, number, names) for number in range(len(run.parts("traced")))]
    found = pd.concat(sharing.results(calls), ignore_index=True)
    write(run, "trace_outcomes", found)
    made = trace_tables(run, found)
    for name, table in made.items():
        if len(table):
            write(run, name, table)


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


def trace_tables(run: Run, found: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return the tables of a run's trace by name, from its outcomes; those without a row are of what was not drawn."""
    options = run.config.measure
    sampling = {"level": options.level, "resamples": options.bootstrap, "seed": options.seed}
    names = [name for name in _ABOUT if name != "fault"]
    parts = [read_part(file, names).to_pandas().drop_duplicates("variant") for file in run.parts("traced")]
    variants = variant_table(pd.concat(parts, ignore_index=True))  # of some triplets one may be missing
    traced = effects(variants, by_unit(found, run.config), run.config.reference, contrasts(run.config)[0])
    return {
        "trace_total": total_table(traced, sampling),
        **{name: share_table(traced, kinds, sampling) for name, kinds in KINDS.items()},
        "trace_together": together_table(traced, sampling),
        "trace_cuts": cut_table(traced, variants, CUTS),
    }


MEASURED = MeasuredMethod(
    tables=TRACE,
    needs={"trace": "a run with a trace (`--stage trace`)"},
    require=require_outcomes,
    measure=lambda run, sharing, checked: measure_trace(run, sharing),
)
