"""A small run with a planted lean, measured once for all tests of these tables."""

import pytest

from analysis.tables.stage import measure
from probes.runs.store import Run
from tests.analysis.melted import melted
from tests.analysis.synthetic_run import write_run


@pytest.fixture(scope="session")
def run(tmp_path_factory):
    run = Run.open(
        write_run(tmp_path_factory.mktemp("runs") / "planted", prompts=9, steps=4, part_triplets=4)
    )
    measure(run)
    return run


@pytest.fixture(scope="session")
def pairs(run):
    return melted(run)
