"""Measuring in several processes: the same bytes as in one, whoever is killed, and the first call's error."""

from __future__ import annotations

import multiprocessing
import shutil

import pytest

from analysis.tables.object_tables import joined_objects, object_calls, objects_of
from analysis.tables.sharing import Sharing
from analysis.tables.stage import measure
from probes.errors import UserError
from probes.execution.processes import Helpers
from probes.runs.run import Run
from tests.analysis.synthetic_objects import add_objects
from tests.analysis.synthetic_run import write_run
from tests.analysis.tables.test_object_tables import quick


class Deadly(Helpers):
    """Helpers that are killed when the first call of a stage is done."""

    def results(self, *arguments, **options):
        for made in super().results(*arguments, **options):
            for helper in multiprocessing.active_children():
                helper.kill()
                helper.join()
            yield made


@pytest.fixture(scope="module")
def unmeasured(tmp_path_factory):
    path = write_run(tmp_path_factory.mktemp("runs") / "run", prompts=6, part_triplets=2)
    add_objects(path)
    quick(path)
    return path


@pytest.fixture(scope="module")
def alone(unmeasured, tmp_path_factory):
    """Measured by this process."""
    path = tmp_path_factory.mktemp("alone") / "run"
    shutil.copytree(unmeasured, path)
    measure(Run.open(path))
    return bytes_of(path / "tables")


def bytes_of(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir()}


@pytest.mark.slow
def test_a_killed_helper_ends_measuring_with_a_line_and_nothing_half_written(unmeasured, alone, tmp_path):
    path = tmp_path / "run"
    shutil.copytree(unmeasured, path)
    with (
        Deadly() as helpers,
        pytest.raises(UserError, match="worker processes to go on, found one ended") as error,
    ):
        measure(Run.open(path), helpers=helpers, processes=2)
    assert "\n" not in str(error.value)
    written = bytes_of(path / "tables") if (path / "tables").exists() else {}
    assert written.items() <= alone.items()  # each is whole, and the same
    measure(Run.open(path))
    assert bytes_of(path / "tables") == alone


def test_results_are_in_order_and_of_several_errors_the_first_is_told(unmeasured):
    run = Run.open(unmeasured)
    with Helpers() as helpers:
        sharing = Sharing(run, helpers, 2)
        calls = [(_seeds, number) for number in range(40)]
        assert sharing.results(calls) == [{number, 0, 1} for number in range(40)]
        with pytest.raises(TypeError, match="one"):
            sharing.results([*calls, (_seeds, "one", 1), (_seeds, "two", 1, 2)])
    assert Sharing(run).results([]) == []


def _seeds(run, first, *wrong):
    if wrong:
        raise TypeError(first)
    return {first, *run.samples(["seed"])["seed"]}


def test_objects_of_part_files_are_those_of_the_run(unmeasured):
    run = Run.open(unmeasured)
    calls = object_calls(run)
    assert len(calls) == 3
    whole = objects_of(run, [file.name for file in run.parts("samples")])
    for one, other in zip(joined_objects(Sharing(run).results(calls)), whole, strict=True):
        assert one.astype(object).equals(other.astype(object)) and len(one)


def test_a_part_with_objects_of_other_images_is_refused(unmeasured, tmp_path):
    path = tmp_path / "run"
    shutil.copytree(unmeasured, path)
    first, second = (path / "objects" / f"part-{number:05d}.parquet" for number in (0, 1))
    first.write_bytes(second.read_bytes())
    with pytest.raises(
        UserError, match="objects: expected rows of the images of samples/ in parts of the same"
    ):
        measure(Run.open(path))
