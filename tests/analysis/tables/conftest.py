"""A small run with a planted lean, measured once for all tests of these tables."""

import pytest

from analysis.report.page import report
from analysis.tables.stage import measure
from probes.runs.run import Run
from tests.analysis.melted import melted
from tests.analysis.synthetic_objects import add_objects
from tests.analysis.synthetic_run import configure, write_run


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


@pytest.fixture(scope="session")
def reported(tmp_path_factory):
    """A run that was measured and reported, with objects of another detector than the checker."""
    path = write_run(tmp_path_factory.mktemp("runs") / "run", seeds=1, steps=2)
    add_objects(path)
    run = Run.open(path)
    configure(run, measure={"bootstrap": 20, "permutations": 16}, report={"gallery": 1, "figures": False})
    measure(run)
    report(run)
    return run
