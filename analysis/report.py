"""``report.html``: one self-contained page, and the figures for a paper, from the tables of a run.

Nothing is computed here: every number on the page stands in ``tables/``, and each is written with its full
value in a ``<data value=…>`` element beside the rounded text.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from analysis import gallery, record, wording
from analysis.figures import Drawn, draw_figures, draw_triplets, files, inline_svg
from analysis.naming import Indicator, Metric, contrasts, headline_metrics, indicators
from probes.parts import read_part, write_bytes

if TYPE_CHECKING:
    from probes.store import Run

LINES = ("gap-text-layers", "gap-steps", "similarity-steps", "gap-decoder")
SHEET_ROWS = 4  # rows of the figure `triplets`


def report(run: Run) -> Path:
    """Write ``figures/`` and ``report.html`` of a measured run.

    Parameters
    ----------
    run : probes.store.Run
        A run with ``samples/`` and the tables ``pairs``, ``disparity`` and ``gap``; ``words/`` may be
        missing.

    Returns
    -------
    Path
        Of ``report.html``, which needs no other file and no network.
    """
    # 1. Read
    config, people = run.config, indicators(run.config)
    reference, pairs_of_interest = config["reference"], contrasts(config)
    gap, disparity = run.table("gap"), run.table("disparity")
    steps = _timesteps(run.table("pairs"))
    samples = run.samples()
    metrics = headline_metrics(config.get("measure", {}).get("text_readout", "sequence"))

    # 2. Draw
    figures = draw_figures(
        gap, disparity, steps, metrics, pairs_of_interest, reference,
        _drawn_pairs(people, reference),
    )  # fmt: skip
    chosen = gallery.choose(samples, config.get("report", {}).get("gallery", 24))
    shown = samples[samples.set_index(["triplet", "seed"]).index.isin(chosen)]
    images = dict(zip(shown["sample_id"], run.images(shown["sample_id"])))
    sheet = _sheet(shown, images, chosen[:SHEET_ROWS], people)
    folder = run.path / "figures"
    folder.mkdir(exist_ok=True)
    for drawn in [*figures.values(), *([sheet] if sheet else [])]:
        for name, data in files(drawn).items():
            write_bytes(folder / name, data)

    # 3. Say
    level = float(config.get("measure", {}).get("level", 0.95))
    words = _words(run, set(shown["sample_id"]))
    cards, maps = gallery.build(shown, images, words, chosen, [p.name for p in people], reference)
    page = _environment().get_template("report.html.j2").render(
        name=config.get("name", run.path.name),
        model=config["model"],
        is_toyworld=str(config["model"]).startswith("toyworld"),
        reference=reference,
        people=people,
        controls=[p for p in people if p.control],
        level=level,
        n_images=len(samples),
        n_prompts=int(samples["triplet"].nunique()),
        n_seeds=int(samples["seed"].nunique()),
        summaries=summaries(gap, metrics, pairs_of_interest, reference, level),
        table=disparity_table(disparity, metrics, people, reference),
        figures=figures,
        atlases=[f for name, f in figures.items() if name.startswith("atlas-")],
        lines=[figures[name] for name in LINES if name in figures],
        rows=cards,
        n_rows=len(samples[["triplet", "seed"]].drop_duplicates()),
        has_maps=bool(maps),
        reduced=any(max(c["width"], c["height"]) > gallery.LARGEST for r in cards for c in r.cells),
        groups=record.groups(config, run.meta, samples),
        versions=record.versions(disparity, gap, words),
        data={
            "maps": maps,
            "chips": {row.key: row.chips for row in cards},
            "atlases": {name: _cells(f.cells) for name, f in figures.items() if f.cells},
        },
    )  # fmt: skip
    path = run.path / "report.html"
    write_bytes(path, page.encode())
    return path


def ordered_pairs(people: Sequence[Indicator], reference: str) -> list[tuple[str, list[str]]]:
    """Group all pairs as the table shows them: with the reference, between the others, with control words.

    Examples
    --------
    >>> people = [
    ...     Indicator("neutral", "person"),
    ...     Indicator("feminine", "woman"),
    ...     Indicator("masculine", "man"),
    ... ]
    >>> ordered_pairs(people, "neutral")[0]
    ('with the reference', ['neutral-feminine', 'neutral-masculine'])
    """
    grouped: dict[str, list[str]] = {
        "with the reference": [],
        "between the others": [],
        "with control words": [],
    }
    for first, second in combinations(people, 2):
        if first.control or second.control:
            group = "with control words"
        elif reference in (first.name, second.name):
            group = "with the reference"
        else:
            group = "between the others"
        grouped[group].append(f"{first.name}-{second.name}")
    return [(title, pairs) for title, pairs in grouped.items() if pairs]


def disparity_table(
    disparity: pd.DataFrame, metrics: list[Metric], people: Sequence[Indicator], reference: str
) -> dict:
    """Lay out ``tables/disparity`` as in the paper: a row a pair, a column a metric, a column group a space.

    Returns
    -------
    dict
        ``columns`` (list of Metric), ``spaces`` ((space, n_columns) in order), ``groups`` (title, rows),
        where each row has ``pair`` and ``cells``, and each cell is a row of the table as a dict, or None
        where the table has none; ``reasons`` why a value or an interval is undefined.
    """
    final = disparity[disparity["step"] == -1]
    columns = []
    values: dict[tuple[str, str], dict] = {}
    for metric in metrics:
        here = final[
            (final["space"] == metric.space)
            & (final["site"] == metric.site)
            & (final["metric"] == metric.metric)
        ]
        if len(here):
            columns.append(metric)
            values |= {(str(row["pair"]), metric.symbol): row for row in here.to_dict("records")}
    spaces: dict[str, int] = {}
    for metric in columns:
        spaces[metric.space] = spaces.get(metric.space, 0) + 1
    reasons = sorted({str(row["reason"]) for row in values.values() if row.get("reason")})
    groups = []
    for title, pairs in ordered_pairs(people, reference):
        rows = [
            {"pair": p.replace("-", ", "), "cells": [values.get((p, m.symbol)) for m in columns]}
            for p in pairs
        ]
        groups.append((title, rows))
    return {"columns": columns, "spaces": list(spaces.items()), "groups": groups, "reasons": reasons}


def summaries(
    gap: pd.DataFrame, metrics: list[Metric], pairs: list[tuple[str, str]], reference: str, level: float
) -> list[dict]:
    """Word the findings of every contrast; see `analysis.wording`."""
    found = []
    for contrast in pairs:
        here = gap[(gap["contrast"] == "-".join(contrast)) & (gap["step"] == -1)]
        findings = []
        for metric in metrics:
            row = here[
                (here["space"] == metric.space)
                & (here["site"] == metric.site)
                & (here["metric"] == metric.metric)
            ]
            if len(row):
                findings.append(wording.finding(row.iloc[0].to_dict(), metric, reference, contrast))
        text = wording.opening(findings, contrast, reference, level)
        found.append({"contrast": contrast, "opening": text, "findings": findings})
    return found


def _timesteps(pairs: pd.DataFrame) -> dict[int, float]:
    """Timestep of each call number; the calls of one run share their timesteps."""
    known = pairs[(pairs["step"] >= 0) & pairs["timestep"].notna()].drop_duplicates("step")
    return {int(step): float(time) for step, time in zip(known["step"], known["timestep"])}


def _words(run: Run, wanted: set[str]) -> pd.DataFrame | None:
    """The word maps of some samples, a part at a time: all maps of a large run need not fit in memory."""
    tables = []
    for file in run.parts("words"):
        table = read_part(file)
        tables.append(table.filter(pc.is_in(table["sample_id"], pa.array(sorted(wanted)))).to_pandas())
    return pd.concat(tables, ignore_index=True) if tables else None


def _sheet(
    samples: pd.DataFrame, images: dict, chosen: list[tuple[int, int]], people: Sequence[Indicator]
) -> Drawn | None:
    """The first rows of the gallery as a figure; controls are left out."""
    names = [person.name for person in people if not person.control]
    rows = []
    for triplet, seed in chosen:
        members = samples[(samples["triplet"] == triplet) & (samples["seed"] == seed)].set_index("indicator")
        if set(names) <= set(members.index):
            label = f"{members.loc[names[0], 'prompt']} (seed {seed})"
            rows.append((label, [images[members.loc[name, "sample_id"]] for name in names]))
    return draw_triplets(rows, names)


def _drawn_pairs(people: Sequence[Indicator], reference: str) -> list[str]:
    """The pairs that are drawn as lines: controls only beside the reference, or there would be too many."""
    controls = {person.name for person in people if person.control}
    pairs = [pair for _, pairs in ordered_pairs(people, reference) for pair in pairs]
    return [pair for pair in pairs if reference in pair.split("-") or not controls & set(pair.split("-"))]


def _cells(cells: dict) -> dict:
    """The atlas' matrices as lists, undefined cells as null, six significant digits."""

    def plain(value):
        if hasattr(value, "tolist"):
            value = value.tolist()
        if isinstance(value, list):
            return [plain(item) for item in value]
        if isinstance(value, float):
            return float(f"{value:.6g}") if math.isfinite(value) else None
        return value

    return {key: plain(value) for key, value in cells.items()}


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("analysis", "templates"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters["svg"] = lambda drawn: Markup(inline_svg(drawn))
    environment.filters["embed"] = _embed
    environment.globals |= {
        "number": wording.number,
        "interval": wording.interval,
        "p_value": wording.p_value,
        "counted": wording.counted,
        "listed": wording.listed,
        "quoted": lambda names: [f"“{name}”" for name in names],
        "where": wording.where,
        "defined": wording.defined,
        "spaces": {"prompt": "Prompt", "denoising": "Denoising", "image": "Image"},
    }
    return environment


def _embed(data: dict) -> Markup:
    """JSON that can stand inside a <script> element: no `<` can end it."""
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace("&", "\\u0026"))
