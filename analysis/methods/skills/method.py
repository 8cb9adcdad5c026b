"""Visual skills (PaintSkills, Cho et al. 2023) as a method: its tables, sentence and Table 2."""

from __future__ import annotations

from typing import Any

import pandas as pd

from analysis.methods.skills.detections import read_scored_images
from analysis.methods.skills.people import answered_images, people_table
from analysis.methods.skills.scores import ACCURACY, CLASSES, NUMBER, NUMBER_AND_CLASS
from analysis.methods.skills.tables import ALL, AVERAGE, accuracy_table, image_table
from analysis.tables.objects.detector_error import Checked
from analysis.tables.objects.human_answers import LABELS
from analysis.tables.sharing import Sharing
from analysis.tables.spec import Measured, MethodSpec, Pivot, TableSpec
from probes.prompts.prompt import asks_for_skills
from probes.runs.run import Run

TITLES = {
    "object": "Object",
    "count": "Count",
    "spatial": "Spatial relation",
    AVERAGE: "Mean of the three",
    ALL: "All",
}
TASK_NAMES = {
    f"object {ACCURACY}": "the object is there",
    f"count {ACCURACY}": "so many of the object",
    f"count {NUMBER}": "so many objects, of any class",
    f"count {NUMBER_AND_CLASS}": "so many, and all of the class",
    f"spatial {ACCURACY}": "both objects, in the relation",
    f"spatial {CLASSES}": "both objects",
    f"{AVERAGE} {ACCURACY}": "accuracy",
}


def skill_tables(
    run: Run, sharing: Sharing | None = None, checked: Checked | None = None
) -> dict[str, pd.DataFrame] | None:
    """Return the tables of a run by name, people's answers among them where people were asked; None of other runs."""
    if not asks_for_skills(run.config):
        return None
    scored, level = read_scored_images(run), run.config.measure.level
    made = {"skills_images": image_table(scored), "skills_accuracy": accuracy_table(scored, level)}
    if LABELS in run.tables():
        made["skills_answers"] = people_table(answered_images(run, scored), level)
    return made


def words(shown: Measured) -> dict[str, Any]:
    """Values of the templates: names of skills and tasks, and what judged the images by which rules."""
    rows = shown.rows("skills_accuracy")
    rules = rows[rows["skill"] != AVERAGE].drop_duplicates("skill").set_index("skill")["rule"]
    return {
        "titles": TITLES,
        "tasks": TASK_NAMES,
        "rules": ", ".join(f"{skill} {rule.replace('_', ' ')}" for skill, rule in rules.items()),
        "detector": rows["detector"].iloc[0],
        "threshold": rows["threshold"].iloc[0],
        "answered": "skills_answers" in shown.tables,
    }


_SHARE = "{{ number(100 * value, 1) }} {{ interval(100 * low, 100 * high, 1) if defined(low) else reason }}"
_SHUFFLED = "{{ number(100 * shuffled, 2) }}"
_ANSWER = """
{% set shares = namespace(found=[]) %}
{% for row in rows if row.split == "all" and row.task == "accuracy" and row.skill != "average" and defined(row.value) %}
{% set shares.found = shares.found + ["%.0f %% of the images for %s" | format(100 * row.value, row.skill)] %}
{% endfor %}
{% if shares.found %}
By the detector, {{ listed(shares.found) }} {{ "show" if shares.found | length > 1 else "shows" }} what was asked for.
{% else %}
No image could be judged.
{% endif %}

{% for row in rows if row.split == "all" and row.task == "accuracy" and row.skill != "average" %}
{% if row.left_out or row.without_image %}
Of {{ row.skill }}, {{ counted(row.left_out, "image") }} could not be judged, and
 {{ counted(row.without_image, "prompt") }} had no image: they are in no number here.
{% endif %}
{% endfor %}
"""


METHOD = MethodSpec(
    needs="a run whose prompts ask for skills (`prompts: {from: paintskills}`)",
    inputs=skill_tables,
    alone=asks_for_skills,
    title="Visual skills",
    anchor="skills",
    intro="Do images show the object, the number and the relation that a prompt asks for (PaintSkills, Cho et al."
    " 2023)? They do where the detector says so: what it misses or makes up counts for the model, and its accuracy on"
    " images that are known to be right is the upper bound.{% if not answered %} Nobody has looked at these images:"
    " `triptych labels sheet --about questions` asks people.{% endif %} What stands behind or within another has no"
    " relation.",
    words=words,
    tables=(
        TableSpec(
            "skills_images",
            "an image: what its prompt asks for, and whether it is there",
            (
                *("sample_id", "triplet", "seed", "skill", "template", "object", "count", "object_b"),
                *("relation", "detected", ACCURACY, NUMBER, NUMBER_AND_CLASS, CLASSES, "reason"),
            ),
        ),
        TableSpec(
            "skills_accuracy",
            "a skill, split, level and task: how often images show what was asked for",
            (
                *("skill", "split", "level", "task", "value", "low", "high", "n", "n_prompts", "left_out"),
                *("without_image", "shuffled", "chance", "rule", "threshold", "detector", "version"),
                *("reason",),
            ),
            sentences=_ANSWER,
            pivots=(
                Pivot(
                    "{{ titles[skill] }}: {{ tasks[skill ~ ' ' ~ task] }}",
                    {
                        "share": _SHARE,
                        "shuffled": _SHUFFLED,
                        "chance": "{{ number(100 * chance, 2) }}",
                        "images": "{{ n }}",
                        "prompts": "{{ n_prompts }}",
                    },
                    "Images of {{ model }} that show it in percent, with its interval {{ over(unit) }}. Shuffled: the"
                    " mean over all ways to deal the images out to the prompts of their skill. Chance: the same of"
                    " images that all show what was asked for. Detections by {{ detector }}, with a score above"
                    " {{ threshold }}; where the paper leaves a choice open, the rules are: {{ rules }}. A relation is"
                    " the longer part of the way between the centres of two boxes.",
                    title="Accuracy of skills",
                    latex="skills_table02",
                    where="split == 'all'",
                ),
                Pivot(
                    "{{ titles[skill] }}, {{ split.replace('_', ' ') }} {{ level }}",
                    {"share": _SHARE, "shuffled": _SHUFFLED, "images": "{{ n }}"},
                    "Images that show what was asked for, in percent.",
                    title="By object, number, relation and template",
                    where="split != 'all' and task == 'accuracy'",
                ),
            ),
        ),
        TableSpec(
            "skills_answers",
            "a skill and annotator: people's answers (`triptych labels`)",
            (
                *("skill", "annotator", "beside", "value", "low", "high", "other", "same", "kappa", "n"),
                *("n_prompts", "undecided", "reason", "version"),
            ),
            pivots=(
                Pivot(
                    "{{ titles[skill] }}: {{ annotator }} beside {{ beside }}",
                    {
                        "share": _SHARE,
                        "beside": "{{ number(100 * other, 1) }}",
                        "the same": "{{ number(100 * same, 1) }}",
                        "kappa": "{{ number(kappa, 2) }}",
                        "images": "{{ n }}",
                        "undecided": "{{ undecided }}",
                    },
                    "What people say of some of the images (as in the paper’s Table 3), beside the detector or another"
                    " annotator on the same ones: percent that show what was asked for, with its interval"
                    " {{ over(unit) }}; how often both say the same, and Cohen’s kappa.",
                    title="What people say",
                    where="value == value",
                ),
            ),
        ),
    ),
)
