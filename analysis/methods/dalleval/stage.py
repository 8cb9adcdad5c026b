"""Tables of an audit of professions, from the readings of a run's images."""

from __future__ import annotations

import pandas as pd

from analysis.methods.dalleval import agreement, mad, tables, words
from analysis.methods.dalleval.page_tests import adjust_page
from analysis.methods.dalleval.readings import read_all, readers
from analysis.methods.dalleval.scores import AuditDesign
from analysis.study import comparison
from analysis.tables.objects.detector_error import Checked
from analysis.tables.sharing import Sharing
from probes.prompts.diagnostic import is_diagnostic
from probes.runs.run import Run


def audit_tables(
    run: Run, sharing: Sharing | None = None, checked: Checked | None = None
) -> dict[str, pd.DataFrame] | None:
    """Return the tables of an audit that have rows, by name; None of other runs and where nothing read the images."""
    if not is_diagnostic(run.config) or not (readings := read_all(run)):
        return None
    config, compared = run.config, comparison(run.config)
    design = AuditDesign(
        compared.main,
        config.measure,
        words.compared(compared),
        bare=config.dalleval.bare,
        paired=config.paired,
        shared=config.sampler.noise == "shared",
    )
    professions = tables.profession_table(readings, design)
    deviations, differences, apart = adjust_page(
        mad.mad_table(readings, professions, design),
        words.between_table(readings, design),
        words.word_table(readings, design),
        config.reference,
        config.measure.alpha,
    )
    made = {
        "dalleval_professions": professions,
        "dalleval_distribution": tables.distribution_table(readings, design),
        "dalleval_attribute_tones": tables.attribute_tones(readings, design),
        "dalleval_mad": deviations,
        "dalleval_between": differences,
        "dalleval_words": apart,
        "dalleval_absolute": words.absolute_table(readings, design),
        "dalleval_agreement": agreement.agreement_table(readings, config.measure),
    }
    return {name: table for name, table in made.items() if len(table)}


def require(run: Run) -> None:
    """Refuse a run whose configuration names a reader that nobody has."""
    if is_diagnostic(run.config):
        readers(run)
