"""A run of an earlier format is refused in a line, whatever is asked for, and is left as it is."""

import shutil

import pytest

from probes.errors import UserError
from probes.runs.store import Run
from tests.probes.conftest import generated, settings, stored


@pytest.fixture(scope="module")
def whole(saved, tmp_path_factory):
    return generated(tmp_path_factory.mktemp("runs") / "whole", settings(saved()))


@pytest.fixture
def earlier(whole, tmp_path):
    """The same run as format 2."""
    run = Run.open(shutil.copytree(whole.path, tmp_path / "earlier"))
    run.write_meta(format=2)
    return run.path


@pytest.mark.parametrize("overwrite", [False, True])
def test_it_is_neither_read_nor_gone_on_with(overwrite, earlier, saved):
    before = stored(earlier)
    line = (
        f"{earlier / 'run.json'}: expected a run of format 3, got one of format 2, which an earlier triptych wrote:"
        " run its triplets.yaml again with another --out, or read it with the version that wrote it"
    )
    with pytest.raises(UserError) as caught:
        generated(earlier, settings(saved()), overwrite=overwrite)
    assert str(caught.value) == line
    with pytest.raises(UserError) as caught:
        Run.open(earlier)
    assert str(caught.value) == line and stored(earlier) == before
