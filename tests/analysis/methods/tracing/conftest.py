"""A trace with everything on, measured: one place, one head and one step of each prompt decide its image."""

import pytest

from analysis.methods.tracing.method import METHOD
from analysis.methods.tracing.outcomes import VERDICT
from analysis.tables.registry import write_method
from analysis.tables.sharing import Sharing
from probes.execution.processes import Helpers
from tests.analysis.synthetic_run import configure, write_run
from tests.analysis.traced_parts import STEPS, add_trace

PROMPTS = 18


def measured_trace(run):
    with Helpers() as helpers:
        write_method(run, METHOD, METHOD.inputs(run, Sharing(run, helpers, 1), None))
    return run


@pytest.fixture(scope="package")
def run(tmp_path_factory):
    found = add_trace(
        write_run(tmp_path_factory.mktemp("runs") / "run", prompts=PROMPTS, seeds=1, steps=STEPS)
    )
    configure(found, measure={"bootstrap": 400, "permutations": 100, "outcomes": [VERDICT, "tie"]})
    return measured_trace(found)
