"""The measure stage of a run whose prompts ask for skills: from its stored detections to its tables."""

from __future__ import annotations

from analysis.methods.skills.detections import read_scored_images
from analysis.methods.skills.tables import SKILLS, accuracy_table, image_table
from analysis.tables.method import MeasuredMethod
from analysis.tables.objects.human_answers import LABELS as ANSWERS
from analysis.tables.registry import write
from probes.prompts.prompt import asks_for_skills
from probes.runs.run import Run


def measure_skills(run: Run) -> None:
    """Write ``skills_images`` and ``skills_accuracy`` of a run, and ``skills_answers`` where people were asked."""
    scored = read_scored_images(run)
    write(run, "skills_images", image_table(scored))
    write(run, "skills_accuracy", accuracy_table(scored, run.config.measure.level))
    if ANSWERS in run.tables():
        from analysis.methods.skills.people import (
            answered_items,
            people_table,
        )  # which reads what is judged here

        write(run, "skills_answers", people_table(answered_items(run), run.config.measure.level))


MEASURED = MeasuredMethod(
    tables=SKILLS,
    needs={"skills": "a run whose prompts ask for skills (`prompts: {from: paintskills}`)"},
    measure=lambda run, sharing, checked: measure_skills(run),
    alone=asks_for_skills,
)
