"""The paper's tables of a run as LaTeX, or of made-up tables."""

from types import SimpleNamespace

from analysis.report.section import documents, measured
from analysis.tables.registry import PAPER
from analysis.tables.spec import Measured


def printed(run):
    """Return the LaTeX of every table of Wu et al. 2025 that a run holds, by the name of its file."""
    return dict(documents(measured(PAPER, {run.config.model_name: run})))


def printed_tables(config, model="toy", missing=None, **tables):
    """Return the same of tables by name, as a run with a configuration would hold them."""
    run = SimpleNamespace(config=config, meta={"not_observed": missing or {}})
    shown = Measured(PAPER, {model: run}, tables)
    shown.words["model"] = model
    return dict(documents(shown))
