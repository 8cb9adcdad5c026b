"""The measure stage of an audit of attributes: everything that read a run's images, and the tables of it."""

from __future__ import annotations

import pandas as pd

from analysis.metrics.gep import Audit
from analysis.study import comparison
from analysis.tables import gep, gep_clip, gep_readings
from analysis.tables.detector_error import Checked, seen_by_checker
from analysis.tables.registry import write
from probes.prompts.audit import places
from probes.store import Run

LABELS = "gep_labels"  # the table of people's answers, written by `python -m analysis gep`
TABLES = ("gep_frequencies", "gep_vector", "gep_score", "gep_contexts", "gep_agreement", "gep_auc")


def measure_gep(run: Run, seen: pd.DataFrame | None) -> None:
    """Write the tables of an audit (`analysis.tables.gep`), where a run's prompts have contexts and they were read.

    Parameters
    ----------
    run : Run
    seen : DataFrame, optional
        What the toyworld checker sees in each image, by ``sample_id``.
    """
    audits = read_audits(run, seen)
    if not audits:
        return
    compared, measure = gep.pairs(comparison(run.config)), run.config.measure
    made = (
        gep.frequency_table(audits),
        gep.vector_table(audits, compared, measure),
        gep.score_table(audits, compared, measure),
        gep.context_table(audits, compared),
        gep.agreement_table(audits, compared, measure),
        gep.auc_table(audits),
    )
    for name, table in zip(TABLES, made):
        write(run, name, table)


def checker_readings(run: Run, checked: Checked | None) -> pd.DataFrame | None:
    """Return what the toyworld checker sees in each image, by ``sample_id``; None where it cannot read a run's images.

    Parameters
    ----------
    run : Run
    checked : tuple of DataFrame, optional
        Of `analysis.tables.detector_error.checked_images`, where they were read before.
    """
    if checked and checked[1] is not None:
        return checked[1]
    return seen_by_checker(run)


def read_audits(run: Run, seen: pd.DataFrame | None) -> list[Audit]:
    """Return what each source read, by setting: the checker, people, detections, and CLIP's three estimates."""
    if not places(run.config):
        return []
    said: dict[str, pd.DataFrame] = {}
    if seen is not None:
        said["checker"] = gep_readings.from_checker(run, seen)
    if LABELS in run.tables():
        said["human"] = gep_readings.joined(run.table(LABELS))[0]
    if run.parts("objects") and run.config.observe.objects:
        said["detected"] = gep_readings.from_detections(run)
    said |= gep_clip.clip_readings(run)
    return [one for source, table in said.items() for one in gep_readings.lay_out(run, table, source)]
