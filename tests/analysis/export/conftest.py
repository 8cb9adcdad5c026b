"""A finished made-up run with three words a side and objects; read, never written to."""

import pytest

from analysis.tables.stage import measure
from probes.runs.run import Run
from tests.analysis.synthetic_objects import add_objects
from tests.analysis.synthetic_run import NINE, configure, write_run

OPTIONS = {"prompts": 8, "seeds": 1, "steps": 2, "indicators": NINE, "part_triplets": 4}
WEIGHTS = "5e" * 32
COMPLETE = "2026-11-25T08:41:53+00:00"


def make(path, **options) -> Run:
    """A measured run that says it is complete; its objects have the lemmas of `synthetic_objects`."""
    options = OPTIONS | options
    run = Run.open(add_objects(write_run(path, **options), **options))
    configure(run, report={"gallery": 3}, measure={"bootstrap": 100, "permutations": 200})
    measure(run)
    model = {"id": "toyworld", "kind": "bundled", "weight_hash": WEIGHTS}
    versions = {"triptych": "0.1.0", "diffusers": "0.36.0"}
    run.write_meta(status="complete", model=model, versions=versions, times={"complete": COMPLETE})
    return run


@pytest.fixture(scope="package")
def finished(tmp_path_factory) -> Run:
    return make(tmp_path_factory.mktemp("export") / "first-light")
