"""A run of 6 prompts x 2 seeds x 5 indicators, measured once for the tests of page, gallery and figures."""

import pytest

from analysis.tables.stage import measure
from probes.runs.run import Run
from tests.analysis.synthetic_run import write_run


@pytest.fixture(scope="session")
def measured(tmp_path_factory) -> Run:
    run = Run.open(write_run(tmp_path_factory.mktemp("measured") / "run", prompts=6, steps=6))
    measure(run)
    return run
