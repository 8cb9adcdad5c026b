"""The measure stage of an audit of professions: what every reader says of a run's images, and the tables of it."""

from __future__ import annotations

from analysis.methods.dalleval import agreement, mad, tables, words
from analysis.methods.dalleval.page_tests import adjust_page
from analysis.methods.dalleval.readings import read_all, require_readers
from analysis.methods.dalleval.registry import DALLEVAL
from analysis.methods.dalleval.scores import AuditDesign
from analysis.study import comparison
from analysis.tables.method import MeasuredMethod
from analysis.tables.registry import write
from probes.prompts.diagnostic import is_diagnostic
from probes.runs.run import Run


def measure_professions(run: Run) -> None:
    """Write the tables of an audit, where prompts have professions and something read the images."""
    if not is_diagnostic(run.config):
        return
    readings = read_all(run)
    if not readings:
        return
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
    for table in DALLEVAL:
        if len(made[table.name]):
            write(run, table.name, made[table.name][list(table.columns)])


def _require(run: Run) -> None:
    if is_diagnostic(run.config):
        require_readers(run)


MEASURED = MeasuredMethod(
    tables=DALLEVAL,
    needs={
        "professions": "a run whose prompts have professions (`prompts: {from: dalleval}`), where readers read the"
        " images"
    },
    require=_require,
    measure=lambda run, sharing, checked: measure_professions(run),
)
