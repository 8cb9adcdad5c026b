"""The measure stage of an audit of attributes: everything that read a run's images, and the tables of it."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from analysis.methods.gep import clip, predictions, tables
from analysis.methods.gep import readings as gep_readings
from analysis.methods.gep.artificial import agreement_of_examples, example_table
from analysis.methods.gep.page_tests import adjust_page
from analysis.methods.gep.powered import powered, powered_table
from analysis.methods.gep.registry import GEP
from analysis.methods.gep.scores import Audit
from analysis.observe.features.attribute_audit import places
from analysis.study import comparison
from analysis.tables.method import MeasuredMethod
from analysis.tables.objects.detector_error import Checked, seen_by_checker
from analysis.tables.registry import write
from analysis.tables.sharing import Sharing
from probes.runs.run import Run

LABELS = "gep_labels"  # the table of people's answers, written by `triptych labels`


def measure_gep(run: Run, seen: pd.DataFrame | None) -> None:
    """Write the tables of an audit, where a run's prompts have contexts and they were read.

    Of one indicator there are frequencies alone. `seen` is what the toyworld checker sees in each image.
    """
    said = read_sources(run, seen)
    audits = _laid_out(run, said)
    if not audits:
        return
    config, compared = run.config, tables.pairs(comparison(run.config))
    if not config.compares:
        write(run, "gep_frequencies", tables.frequency_table(audits))
        return
    readings = powered(audits, config)
    everything = [*audits, *(one.audit for one in readings)]
    vector, score = adjust_page(*tables.inferred_tables(everything, compared, config.measure))
    made = {
        "gep_frequencies": tables.frequency_table(everything),
        "gep_vector": vector,
        "gep_score": score,
        "gep_contexts": tables.context_table(everything, compared),
        "gep_agreement": tables.agreement_table(everything, compared, config.measure),
        "gep_auc": tables.auc_table(everything),
        "gep_predictions": predictions.prediction_table(run, said),
        "gep_ratio": predictions.ratio_table(audits, compared, config.measure),
    }
    if readings:
        made["gep_powered"] = powered_table(readings, compared, config)
    examples = example_table(audits, compared, config) if config.gep.examples else pd.DataFrame()
    if len(examples):
        made["gep_artificial"] = examples
        made["gep_artificial_agreement"] = agreement_of_examples(examples, config.measure)
    if len(fit := clip.clip_score(run)):
        made["gep_clip_score"] = fit
    for name, table in made.items():
        if len(table) or name != "gep_ratio":
            write(run, name, table)


def checker_readings(run: Run, checked: Checked | None) -> pd.DataFrame | None:
    """Return what the toyworld checker sees in each image, by ``sample_id``; None where it cannot read them."""
    if checked and checked[1] is not None:
        return checked[1]
    return seen_by_checker(run)


def read_audits(run: Run, seen: pd.DataFrame | None) -> list[Audit]:
    """Return what each source read, by setting: the checker, people, detections, and CLIP's three estimates."""
    return _laid_out(run, read_sources(run, seen))


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


def _laid_out(run: Run, said: Mapping[str, pd.DataFrame]) -> list[Audit]:
    return [one for source, table in said.items() for one in gep_readings.lay_out(run, table, source)]


def _measure(run: Run, sharing: Sharing, checked: Checked | None) -> None:
    if places(run.config):
        measure_gep(run, checker_readings(run, checked))


MEASURED = MeasuredMethod(
    tables=GEP,
    needs={"audit": "a run whose prompts have contexts (`prompts: {from: gep}`)"},
    measure=_measure,
)
