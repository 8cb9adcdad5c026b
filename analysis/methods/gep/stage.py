"""What the tables of an audit of attributes are made from: everything that read a run's images."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property

import pandas as pd

from analysis.methods.gep import clip, tables
from analysis.methods.gep import readings as gep_readings
from analysis.methods.gep.artificial import example_table
from analysis.methods.gep.page_tests import adjust_page
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
        self.run, self.said = run, said
        self.audits = laid_out(run, said)
        self.pairs = tables.pairs(comparison(run.config))

    @cached_property
    def readings(self) -> list[Powered]:
        """Labels and estimates together, by setting."""
        return powered(self.audits, self.run.config) if self.run.config.compares else []

    @property
    def everything(self) -> list[Audit]:
        """All audits, those of labels and estimates together at the end."""
        return [*self.audits, *(one.audit for one in self.readings)]

    @cached_property
    def inferred(self) -> tuple[pd.DataFrame | None, pd.DataFrame | None]:
        """``gep_vector`` and ``gep_score``; None of a run that compares no words."""
        if not self.run.config.compares:
            return None, None
        return adjust_page(*tables.inferred_tables(self.everything, self.pairs, self.run.config.measure))

    @cached_property
    def examples(self) -> pd.DataFrame | None:
        """``gep_artificial``; None where nothing can be put together."""
        if not (self.run.config.compares and self.run.config.gep.examples):
            return None
        return none_if_empty(example_table(self.audits, self.pairs, self.run.config))

    def comparing(self, make: Callable[..., pd.DataFrame], *arguments: object) -> pd.DataFrame | None:
        """Return a table of pairs; None of a run that compares no words, or without rows."""
        return none_if_empty(make(*arguments)) if self.run.config.compares else None


def none_if_empty(table: pd.DataFrame) -> pd.DataFrame | None:
    """Return a table, or None without rows."""
    return table if len(table) else None


def audit_readings(
    run: Run, sharing: Sharing | None = None, checked: Checked | None = None
) -> AuditReadings | None:
    """Return what a run whose prompts have contexts was read to hold; None of another run, or where nothing read it."""
    if not places(run.config):
        return None
    found = AuditReadings(run, read_sources(run, checker_readings(run, checked)))
    return found if found.audits else None


def checker_readings(run: Run, checked: Checked | None) -> pd.DataFrame | None:
    """Return what the toyworld checker sees in each image, by ``sample_id``; None where it cannot read them."""
    return checked[1] if checked else seen_by_checker(run)


def read_audits(run: Run, seen: pd.DataFrame | None) -> list[Audit]:
    """Return what each source read, by setting: the checker, people, detections, and CLIP's three estimates."""
    return laid_out(run, read_sources(run, seen))


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


def laid_out(run: Run, said: Mapping[str, pd.DataFrame]) -> list[Audit]:
    """Return the audits of all sources."""
    return [one for source, table in said.items() for one in gep_readings.lay_out(run, table, source)]
