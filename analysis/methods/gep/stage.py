"""What the tables of an audit of attributes are made from: everything that read a run's images."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import pandas as pd

from analysis.methods.gep import clip, tables
from analysis.methods.gep import readings as gep_readings
from analysis.methods.gep.powered import Powered, powered
from analysis.methods.gep.scores import Audit
from analysis.observe.features.attribute_audit import places
from analysis.study import comparison
from analysis.tables.objects.detector_error import Checked, seen_by_checker
from analysis.tables.sharing import Sharing
from probes.runs.run import Run

LABELS = "gep_labels"  # the table of people's answers, written by `triptych labels`


class AuditReadings:
    """The readings of a run by source, laid out as audits; its tables share what takes long."""

    def __init__(self, run: Run, said: Mapping[str, pd.DataFrame]) -> None:
        self.run, self.said, self.config = run, said, run.config
        self.audits = [
            one for source, table in said.items() for one in gep_readings.lay_out(run, table, source)
        ]
        self.pairs = tables.pairs(comparison(run.config))

    @cached_property
    def readings(self) -> list[Powered]:
        """Labels and estimates together, by setting."""
        return powered(self.audits, self.config) if self.config.compares else []

    @property
    def everything(self) -> list[Audit]:
        """All audits, those of labels and estimates together at the end."""
        return [*self.audits, *(one.audit for one in self.readings)]

    @cached_property
    def inferred(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """``gep_vector`` and ``gep_score``."""
        return tables.adjust_page(*tables.inferred_tables(self.everything, self.pairs, self.config.measure))


def audit_readings(
    run: Run, sharing: Sharing | None = None, checked: Checked | None = None
) -> AuditReadings | None:
    """Return what a run whose prompts have contexts was read to hold; None of another run, or where nothing read it."""
    if not places(run.config):
        return None
    found = AuditReadings(run, read_sources(run, checked[1] if checked else seen_by_checker(run)))
    return found if found.audits else None


def read_sources(run: Run, seen: pd.DataFrame | None) -> dict[str, pd.DataFrame]:
    """Return what each source says of single images: ``sample_id``, ``attribute``, ``value``; of an audit alone."""
    if not places(run.config):
        return {}
    said: dict[str, pd.DataFrame] = {}
    if seen is not None:
        said["checker"] = gep_readings.from_checker(run, seen)
    if LABELS in run.tables():
        said["human"] = gep_readings.joined(run.table(LABELS))[0]
    if run.parts("objects") and run.config.observe.objects:
        said["detected"] = gep_readings.from_detections(run)
    return said | clip.clip_readings(run)
