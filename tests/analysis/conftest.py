"""What several rooms test on: made once."""

import pytest

from tests.analysis.object_frames import SMALL, compared, frame
from tests.analysis.synthetic_run import configure


@pytest.fixture(scope="session")
def audit(tmp_path_factory):
    """A made-up audit of six professions, three words and four seeds, read by two readers and measured."""
    from tests.analysis.dalleval_parts import measure_audit, write_audit

    path = tmp_path_factory.mktemp("audit") / "run"
    run = write_audit(path, whole=False, readers=("toyworld-checker", "toyworld-vqa"))
    configure(run, measure={"bootstrap": 100, "permutations": 200})
    return measure_audit(run)


@pytest.fixture
def small():
    """Images and objects of two prompts, and who is compared with whom."""
    images, objects = frame(SMALL)
    return images, objects, compared()
