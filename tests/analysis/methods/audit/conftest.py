"""The folder of labelled pictures that tests of the audit share, and its audit."""

import pytest

import triptych
from tests.analysis.methods.audit.pictures import COUNTS, table_of, write_pictures


@pytest.fixture(scope="package")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures")
    write_pictures(folder, table_of(COUNTS))
    return folder


@pytest.fixture(scope="package")
def audit(folder):
    return triptych.audit(folder, folder / "labels.csv", resamples=50, permutations=2000)
