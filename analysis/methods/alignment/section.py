"""The report's section on image-text alignment and image quality: what of the tables it shows, and as LaTeX."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd

from analysis.methods.alignment.registry import ALIGNMENT
from analysis.methods.alignment.tables import ALL
from analysis.report.latex import by_cells, latex, signed_cell
from analysis.report.method import ReportedMethod, ReportSection
from analysis.tables.registry import read

if TYPE_CHECKING:
    from probes.config.schema import Config
    from probes.runs.run import Run

Tables = Mapping[str, pd.DataFrame]
NAMES = {
    **{f"bleu_{n}": f"BLEU-{n}" for n in range(1, 5)},
    **{"cider": "CIDEr", "meteor": "METEOR", "spice": "SPICE", "fid": "FID", "fid_infinity": "FID∞"},
    **{"kid": "KID", "kid_jackknife": "KID, jackknife"},
}
PRINTED = ("bleu_4", "meteor", "cider", "spice")  # columns of Table 19
FID_FEATURES = ("inception", "clip", "clip_vit_l_14", "resnet50", "dino", "resnet50_logits")


def read_alignment(run: Run) -> Tables | None:
    """Return the tables of the section that a run holds, by name; None where `triptych audit alignment` was not run."""
    there = run.tables()
    return {row.name: read(run, row.name) for row in ALIGNMENT if row.name in there} or None


def section(tables: Tables, config: Config) -> dict[str, Any]:
    """Lay the section out: rows of ``retrieval``, ``captions`` and ``quality``, and who wrote the captions."""
    made = {
        name: tables.get(f"alignment_{name}", pd.DataFrame()).to_dict("records")
        for name in ("retrieval", "captions", "quality")
    }
    captioners = {row["captioner"] for row in made["captions"]}
    return {**made, "names": NAMES, "captioner": ", ".join(sorted(captioners))}


def documents(run: Run) -> Iterator[tuple[str, str]]:
    """Yield the columns of Table 19 that a run holds as LaTeX: one row for all images, and one for each word."""
    tables = read_alignment(run) or {}
    cells: dict[tuple[str, str], str] = {}
    captions, retrieval, quality = (
        tables.get(f"alignment_{name}", pd.DataFrame()) for name in ("captions", "retrieval", "quality")
    )
    for row in captions.to_dict("records"):
        if row["metric"] in PRINTED and row["value"] == row["value"]:
            cells[row["indicator"], NAMES[row["metric"]]] = signed_cell(row["value"], 1)
    for row in retrieval.to_dict("records"):
        cells[row["indicator"], f"R-precision ({row['features']})"] = signed_cell(100 * row["r_precision"], 1)
    there = set(quality["features"]) if len(quality) else set()
    feature = next((name for name in FID_FEATURES if name in there), None)
    for row in quality.to_dict("records"):
        if row["features"] == feature and row["measure"] == "fid":
            cells[row["indicator"], f"FID ({feature})"] = signed_cell(row["value"], 1)
    if not cells:
        return
    there = {head for _, head in cells}
    networks = sorted((head for head in there if "(" in head), reverse=True)  # R-precision first
    heads, found = by_cells(cells, [*(NAMES[one] for one in PRINTED if NAMES[one] in there), *networks])
    model = run.config.model_name
    rows = [(model if name == ALL else f"{model}, {name}", own) for name, own in found]
    [entry] = [one for row in ALIGNMENT for one in row.printed]
    caption = entry.caption.format(data=run.config.name, model=model)
    requested = set(captions["metric"]) if len(captions) else set()
    away = [NAMES[one] for one in PRINTED if one in requested and NAMES[one] not in heads]
    note = f"{entry.note} Not measured: {', '.join(away)}." if away else entry.note
    yield entry.name, latex(caption, heads, rows, entry.label, note)


REPORTED = ReportedMethod(
    section=ReportSection(
        "analysis.methods.alignment/section.html.j2",
        read=read_alignment,
        draw=lambda tables, config: {},
        context=section,
    ),
    documents=documents,
)
