"""``report.html`` of a run whose prompts ask for skills: what was measured, images, the run's record."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from analysis.methods.skills.scores import VERSION
from analysis.report import gallery, record, section
from analysis.report.environment import environment
from analysis.tables.registry import read

if TYPE_CHECKING:
    from analysis.tables.spec import Measured, MethodSpec
    from probes.runs.run import Run

SHOWN = 24  # images on the page


def write_report(run: Run, method: MethodSpec) -> Path:
    """Write ``report.html`` and the LaTeX of a measured run; return the page."""
    images, accuracy = read(run, "skills_images"), read(run, "skills_accuracy")
    shown = section.measured(method, {run.config.model_name: run})
    with run.writing("report"):
        for name, text in section.documents(shown):
            run.write_file(f"tables/{name}.tex", text.encode())
        page = environment().get_template("analysis.methods.skills/page.html.j2")
        run.write_file("report.html", page.render(**_content(shown, images, accuracy)).encode())
    return run.path / "report.html"


def _content(shown: Measured, images: pd.DataFrame, accuracy: pd.DataFrame) -> dict[str, Any]:
    """Values of the page’s template."""
    run, config, entry = shown.run, shown.config, section.page_section(shown, {})
    samples, meta = run.samples(["sample_id", "triplet", "seed", "prompt"]), record.shown(run.meta)
    missing = accuracy.query(
        "split == 'all' and task == 'accuracy' and skill != 'average' and without_image > 0"
    )
    readable = images[~images["sample_id"].isin(list(run.left_out()))].merge(samples[["sample_id", "prompt"]])
    chosen = readable.groupby("skill").head(-(-SHOWN // max(readable["skill"].nunique(), 1)))
    pictures = run.images(list(chosen["sample_id"]))
    return {
        "section": entry,
        "shown": entry["shown"],
        "config": config,
        "is_toyworld": config.model.startswith("toyworld"),
        "n_images": len(samples),
        "n_prompts": samples["triplet"].nunique(),
        "n_seeds": samples["seed"].nunique(),
        "left_out": images.loc[images["reason"] != "", "reason"].value_counts().to_dict(),
        "without_image": dict(zip(missing["skill"], missing["without_image"])),
        "taken": meta.get("taken_in") if config.images is not None else None,
        "people": "skills_answers" in shown.tables,
        "images": [
            {**row, "src": gallery.encode(picture, gallery.LARGEST)}
            for row, picture in zip(chosen.to_dict("records"), pictures)
        ],
        "titles": shown.words["titles"],
        "groups": record.groups(meta),
        "version": VERSION,
    }
