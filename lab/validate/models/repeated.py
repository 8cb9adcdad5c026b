"""Claims of the report over several runs of the benchmark models, beside the ground truth.

Each run is read as its report reads it: the filled cells of the atlas, the cards that claim a direction
(`analysis.report.findings`), and the objects that are said to differ (`analysis.report.objects`).
"""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np
import pandas as pd
from PIL import Image

from analysis.report.figures import files
from analysis.report.figures.atlas import atlas_rows, beyond_words, draw_atlas
from analysis.report.findings import summaries
from analysis.report.objects import read_objects, section
from analysis.study import contrasts, indicators
from analysis.tables.objects.claims import HOLDS
from analysis.tables.registry import read
from analysis.tables.similarities.stored import timesteps
from lab.templates import render
from probes.runs.store import Run

TITLE = "## What the reports of several runs claim"
NULL = "toyworld-null"
PICTURE = "null_atlas.png"
WIDTH = 900  # pixels


def claims(run: Run) -> dict:
    """Return what the report of a run claims.

    Returns
    -------
    dict
        ``model``, ``run``, ``seeds``; ``filled`` of ``cells`` of the atlas (all contrasts); ``primary``:
        towards which indicator the primary measure leans, or ``""``; ``directions``: cards with a direction, of
        ``cards``, that on objects' co-occurrence among them; ``hedged``: those that are a hint or about two words;
        ``small``: cards that claim that nothing larger than δ is there; ``objects``: said to differ.
    """
    tables = [read(run, name) for name in ("gap", "specifications", "agreement")]
    shown = [atlas_rows(tables[0], contrast) for contrast in contrasts(run.config)]
    cards = [card for summary in summaries(*tables, run.config) for card in summary.findings]
    objects, differing = read_objects(run), 0
    if objects:
        about = section(objects, run.config, indicators(run.config))["contrasts"]
        cards += [card for entry in about for card in entry["findings"]]
        table = objects.tables["object_claims"]
        pairs = {frozenset(contrast) for contrast in contrasts(run.config)}
        held = table[table["claim"] == HOLDS]
        differing = sum(frozenset(pair) in pairs for pair in zip(held["first"], held["second"]))
    tops = [card for card in cards if card.primary and card.direction]
    return {
        "model": run.config.model,
        "run": run.path.name,
        "seeds": ", ".join(map(str, run.config.seeds)),
        "filled": sum(int(beyond_words(rows["p_control_adjusted"]).sum()) for rows in shown),
        "cells": sum(int(rows["gap"].notna().sum()) for rows in shown),
        "primary": ", ".join(card.contrast[0] if card.direction > 0 else card.contrast[1] for card in tops),
        "directions": sum(card.direction != 0 for card in cards),
        "hedged": sum(card.verdict.licence in ("hint", "two words") for card in cards),
        "small": sum(card.verdict.state == "small" for card in cards),
        "cards": len(cards),
        "objects": differing,
    }


def claims_section(runs: Sequence[Run], picture: bool = False) -> str:
    """Return the section of the calibration page, in Markdown: a line for each model and a row for each run."""
    table = pd.DataFrame([claims(run) for run in runs])
    return render(
        "calibration_claims",
        title=TITLE,
        models=[_model(name, own) for name, own in table.groupby("model", sort=False)],
        rows=table.to_dict("records"),
        picture=PICTURE if picture else None,
    )


def _model(name: str, runs: pd.DataFrame) -> dict:
    """Return what the reports of all runs of a model claim."""
    cells = runs["cells"].clip(lower=1)
    return {
        "name": name,
        "runs": len(runs),
        "share": 100 * runs["filled"].sum() / max(runs["cells"].sum(), 1),
        "most": np.max(100 * runs["filled"] / cells),
        "claiming": int(((runs["directions"] > 0) | (runs["objects"] > 0)).sum()),
        "sides": runs.loc[runs["primary"] != "", "primary"].value_counts().to_dict(),
    }


def null_picture(runs: Sequence[Run]) -> bytes | None:
    """Return the atlas of the first run of the null world as a small PNG; None where there is none."""
    for run in runs:
        if run.config.model != NULL or not run.config.contrasts:
            continue
        drawn = draw_atlas(run.table("gap"), timesteps(run), contrasts(run.config)[0], run.config.reference)
        if drawn is None:
            continue
        image = Image.open(io.BytesIO(files(drawn)[f"{drawn.name}.png"])).convert("RGB")
        image = image.resize((WIDTH, round(image.height * WIDTH / image.width)), Image.Resampling.LANCZOS)
        data = io.BytesIO()
        image.quantize(64).save(data, "png", optimize=True)
        return data.getvalue()
    return None


def put_section(page: str, section: str) -> str:
    r"""Return a page with its section of the same title (the first line) replaced, or with the section at its end.

    Examples
    --------
    >>> put_section("# A\n\n## B\n\nb\n\n## C\n", "## B\n\nnew\n")
    '# A\n\n## B\n\nnew\n\n## C\n'
    """
    title = section.partition("\n")[0]
    before, there, after = page.partition(title + "\n")
    if not there:
        return page.rstrip("\n") + "\n\n" + section
    rest = after.find("\n## ")
    return before + section + (after[rest:] if rest >= 0 else "")


def section_of(page: str, title: str) -> str:
    r"""Return a page's section of this title, or nothing.

    Examples
    --------
    >>> section_of("# A\n\n## B\n\nb\n\n## C\n", "## B")
    '## B\n\nb\n'
    """
    _, there, after = page.partition(title + "\n")
    rest = after.find("\n## ")
    return f"{title}\n{after[:rest] if rest >= 0 else after}".rstrip("\n") + "\n" if there else ""
