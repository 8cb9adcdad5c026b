"""``report.html`` of a run whose prompts ask for skills: accuracies, a figure, images, the run's record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from analysis.methods.skills.figures import draw_skills
from analysis.methods.skills.scores import ACCURACY, CLASSES, NUMBER, NUMBER_AND_CLASS, TASKS
from analysis.methods.skills.tables import ALL, AVERAGE, OWN
from analysis.report import gallery, record
from analysis.report.environment import environment
from analysis.report.figures import saved
from analysis.report.format import counted, defined, listed
from analysis.report.latex import cell, latex
from analysis.report.method import Lead, ReportedMethod
from analysis.tables.registry import TABLES, read
from probes.prompts.prompt import asks_for_skills

if TYPE_CHECKING:
    from probes.config.schema import Config
    from probes.runs.run import Run

TASK_NAMES = {
    ("object", ACCURACY): "the object is there",
    ("count", ACCURACY): "so many of the object",
    ("count", NUMBER): "so many objects, of any class",
    ("count", NUMBER_AND_CLASS): "so many, and all of the class",
    ("spatial", ACCURACY): "both objects, in the relation",
    ("spatial", CLASSES): "both objects",
}
TITLES = {"object": "Object", "count": "Count", "spatial": "Spatial relation", AVERAGE: "Mean of the three"}
HEADS = ("Object", "Count", "Spatial", "Average")
SHOWN = 24  # images


def write_report(run: Run) -> Path:
    """Write ``report.html``, the figure and the LaTeX of a measured run; return the page."""
    images, accuracy = read(run, "skills_images"), read(run, "skills_accuracy")
    drawn = draw_skills(accuracy) if run.config.report.figures else None
    written = saved({drawn.name: drawn} if drawn else {}, run.config.report.figures)
    with run.writing("report"):
        for figure in written.values():
            for name, data in figure.files.items():
                run.write_file(f"figures/{name}", data)
        for name, text in documents(run, accuracy):
            run.write_file(f"tables/{name}.tex", text.encode())
        run.write_file("report.html", _page(run, images, accuracy, drawn, written).encode())
    return run.path / "report.html"


def documents(run: Run, accuracy: pd.DataFrame) -> Iterator[tuple[str, str]]:
    """Return the LaTeX of Table 2 of Cho et al. 2023 for a run, with its name."""
    whole = accuracy[(accuracy["split"] == ALL) & (accuracy["task"] == ACCURACY)].set_index("skill")
    whole = whole.reindex([*TASKS, AVERAGE])
    rows = [
        (name, [cell(100 * value, 1) for value in whole[column]])
        for name, column in ((run.config.model_name, "value"), ("shuffled", "shuffled"), ("chance", "chance"))
    ]
    detector = str(accuracy["detector"].iloc[0]) if len(accuracy) else ""
    for entry in TABLES["skills_accuracy"].printed:
        caption = entry.caption.format(model=run.config.model_name, detector=detector)
        yield entry.name, latex(caption, HEADS, rows, entry.label, entry.note)


def _page(
    run: Run, images: pd.DataFrame, accuracy: pd.DataFrame, drawn: Any, written: Mapping[str, Any]
) -> str:
    templates, config = environment(written), run.config
    whole = accuracy[accuracy["split"] == ALL].to_dict("records")
    samples = run.samples(["sample_id", "triplet", "seed", "prompt"])
    reasons = images.loc[images["reason"] != "", "reason"].value_counts()
    meta = record.shown(run.meta)
    return templates.get_template("analysis.methods.skills/page.html.j2").render(
        name=config.name,
        model=config.model_name,
        is_toyworld=config.model.startswith("toyworld"),
        level=config.measure.level,
        unit=config.unit,
        n_images=len(samples),
        n_prompts=int(samples["triplet"].nunique()),
        n_seeds=int(samples["seed"].nunique()),
        detector=accuracy["detector"].iloc[0],
        threshold=float(accuracy["threshold"].iloc[0]),
        rules={row["skill"]: row["rule"] for row in whole if row["skill"] != AVERAGE},
        rows=[
            {**row, "title": TITLES[row["skill"]], "said": TASK_NAMES.get((row["skill"], row["task"]), "")}
            for row in whole
        ],
        splits=_splits(accuracy),
        left_out=[f"{counted(number, 'image')}: {reason}" for reason, number in reasons.items()],
        without_image=_without_image(whole),
        taken=meta.get("taken_in") if config.images is not None else None,
        figure=drawn,
        lead=Lead("Does an image show what was asked for?", _answer(whole), [drawn.name] if drawn else []),
        untested=_not_tested(config, _people(run)),
        shown=_shown(run, images, samples),
        people=_people(run),
        groups=record.groups(meta),
        version=accuracy["version"].iloc[0],
    )


def _answer(whole: Sequence[Mapping[str, Any]]) -> str:
    """Return the accuracy of every skill in one sentence of at most thirty words."""
    shares = [
        f"{100 * row['value']:.0f} % of the images for {row['skill']}"
        for row in whole
        if row["task"] == ACCURACY and row["skill"] in TASKS and defined(row["value"])
    ]
    if not shares:
        return "No image could be judged."
    return f"By the detector, {listed(shares)} {'show' if len(shares) > 1 else 'shows'} what was asked for."


def _not_tested(config: Config, people: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what the run says nothing about, a short line each."""
    lines = [] if people else ["The detector: nobody has looked at these images."]
    lines.append("Other prompts, samplers and weights than those of this run.")
    lines.append("Depth: what stands behind or within another has no relation.")
    if config.model.startswith("toyworld"):
        lines.append(f"Photographs: {config.model} is a benchmark model with scenes of its own.")
    return lines


def _without_image(whole: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return how many prompts of each skill have no image."""
    missing = {row["skill"]: row["without_image"] for row in whole if row["task"] == ACCURACY}
    return [
        f"{counted(missing[skill], 'prompt')} of the skill {skill}" for skill in TASKS if missing.get(skill)
    ]


def _splits(accuracy: pd.DataFrame) -> list[tuple[str, list[dict[str, Any]]]]:
    """Return what stands in the tables that open on demand: of each skill and axis its levels."""
    by_split = accuracy[(accuracy["split"] != ALL) & (accuracy["task"] == ACCURACY)]
    groups = by_split.groupby(["skill", "split"], sort=False)
    return [
        (f"{TITLES[skill]} by {split.replace('_', ' ')}", rows.to_dict("records"))
        for (skill, split), rows in groups
    ]


def _people(run: Run) -> list[dict[str, Any]]:
    """What people said of some images, beside the detector, of the images' own prompts: by statements, then openly."""
    rows = []
    for name, how in (("skills_people", "statements"), ("skills_answers", "open questions")):
        if name in run.tables():
            own = read(run, name)
            own = own[(own["asked"] == OWN) & own["people"].notna()]
            rows += [
                {**row, "how": how, "title": TITLES.get(row["skill"], "All")}
                for row in own.to_dict("records")
            ]
    return rows


def _shown(run: Run, images: pd.DataFrame, samples: pd.DataFrame) -> list[dict[str, Any]]:
    """The first images of every skill, as many of each."""
    readable = images[~images["sample_id"].isin(list(run.left_out()))]
    present = [skill for skill in TASKS if (readable["skill"] == skill).any()]
    each = -(-SHOWN // max(len(present), 1))
    chosen = pd.concat([readable[readable["skill"] == skill].head(each) for skill in present] or [readable])
    prompts = samples.set_index("sample_id")["prompt"]
    pictures = run.images(list(chosen["sample_id"]))
    return [
        {
            "skill": TITLES[row["skill"]],
            "prompt": prompts[row["sample_id"]],
            "right": row[ACCURACY],
            "reason": row["reason"],
            "src": gallery.encode(picture, gallery.LARGEST),
        }
        for row, picture in zip(chosen.to_dict("records"), pictures)
    ]


REPORTED = ReportedMethod(alone=asks_for_skills, page=write_report)
