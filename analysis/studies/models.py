"""What can be loaded, and how far each was tested: the result of ``triptych models``."""

from __future__ import annotations

from functools import partial

import pandas as pd

from analysis.report.figures.dots import draw_dots
from analysis.report.figures.style import Drawn
from analysis.report.result import Result
from hooks.architectures.registry import architectures, generating_pipelines, supported_pipelines
from probes.models import hub

COLUMNS = ("kind", "name", "tested", "about")


def models() -> Result:
    """Return what ``model:`` can name, and how far each was tested; nothing is fetched.

    Returns
    -------
    Result
        ``table`` has a row for each bundled model, layout of a pipeline and published model: ``kind``, ``name``,
        ``tested``, ``about``.

    Examples
    --------
    >>> found = models().table
    >>> found[found["kind"] == "bundled"]["name"].head(3).to_list()
    ['toyworld', 'toyworld-mirror', 'toyworld-null']
    """
    kinds = "; ".join(architecture.models for architecture in architectures() if architecture.layouts)
    files = "a single .safetensors or .ckpt file of Stable Diffusion 1.x, 2.x or XL"
    sections = {
        "bundled": (
            "bundled, with the share of named things that each draws (docs/validation/toyworld.md)",
            hub.bundled_rows(),
        ),
        "pipeline": (f"a hub id or a folder of {kinds}; {files}; tested with", hub.pipeline_rows()),
        "published": (
            "published models that are known by name, and whether their weights were tried",
            hub.published_rows(),
        ),
    }
    lines = []
    for title, rows in sections.values():
        widths = [max(map(len, column)) for column in zip(*rows)]
        lines += [f"{title}:"]
        lines += [f"  {name:<{widths[0]}}  {tested:<{widths[1]}}  {about}" for name, tested, about in rows]
        lines += [""]
    alone = [name for name in supported_pipelines() if name not in generating_pipelines()]
    lines += [
        f"`hooks.Probe` alone reads {', '.join(alone)}.",
        "Everything else is refused by its name, before weights are read.",
    ]
    rows = [(kind, *row) for kind, (_, rows) in sections.items() for row in rows]
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    return Result("\n".join(lines), table, partial(_draw, table))


def _draw(table: pd.DataFrame) -> Drawn:
    """How well the bundled models draw what a prompt names."""
    rows = table[table["kind"] == "bundled"]
    share = rows["tested"].str.extract(r"(\d+)%", expand=False).astype(float)
    dots = pd.DataFrame({"label": rows["name"], "value": share})
    caption = (
        "Of the nouns of a prompt, the share that is found in the images: see docs/validation/toyworld.md."
    )
    return draw_dots(
        "models", "Bundled models", caption, dots, "named things that are drawn, percent", noun="model"
    )
