"""Damaged part files: each is read as it was, or refused in one line; never a traceback."""

import contextlib
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from probes.errors import UserError
from probes.execution import loop
from probes.execution.loop import Part
from probes.runs import parts
from probes.runs.run import Run
from tests.analysis.synthetic_objects import add_objects
from tests.analysis.synthetic_run import DEFAULT_INDICATORS, write_run

KINDS = ("samples", "captures", "words", "objects", "observed")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A small run with objects, in two parts of each kind."""
    path = write_run(
        tmp_path_factory.mktemp("runs") / "run",
        **{"prompts": 2, "seeds": 1, "steps": 1, "size": 32, "part_triplets": 1},
        indicators={name: entry for name, entry in DEFAULT_INDICATORS.items() if not entry["control"]},
    )
    add_objects(path, size=32)
    return path


def test_columns_in_another_order_and_types_that_hold_the_same(finished, tmp_path):
    copy = shutil.copytree(finished, tmp_path / "copy")
    before = Run.open(copy).samples()
    file = copy / "samples" / "part-00000.parquet"
    table = parts.read_part(file).replace_schema_metadata(None)
    wide = table.set_column(1, "triplet", table["triplet"].cast(pa.int64()))
    pq.write_table(wide.select(wide.column_names[::-1]), file)
    after = Run.open(copy).samples()
    assert after["triplet"].dtype == before["triplet"].dtype
    assert set(after) == set(before) and after["sample_id"].tolist() == before["sample_id"].tolist()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda t: t.drop_columns(["prompt"]),
            "expected a column `prompt`, got none: mend this file, or delete it",
        ),
        (lambda t: t.append_column("seed", t["seed"]), "expected a column `seed`, got several"),
        (
            lambda t: t.set_column(1, "triplet", pa.array(["x"] * len(t))),
            "expected `triplet` as int32, got string",
        ),
    ],
)
def test_columns_that_are_not_there_or_of_another_type(change, message, finished, tmp_path):
    copy = shutil.copytree(finished, tmp_path / "copy")
    file = copy / "samples" / "part-00001.parquet"
    pq.write_table(change(parts.read_part(file).replace_schema_metadata(None)), file)
    with pytest.raises(UserError) as caught:
        Run.open(copy).samples()
    assert message in str(caught.value)


def test_parts_of_a_kind_have_the_same_columns(finished, tmp_path):
    copy = shutil.copytree(finished, tmp_path / "copy")
    file = copy / "captures" / "part-00001.parquet"
    table = parts.read_part(file).replace_schema_metadata(None)
    pq.write_table(table.drop_columns([table.column_names[-1]]), file)
    with pytest.raises(
        UserError, match=r"part-00001.*: expected the columns of part-00000\.parquet, got others"
    ):
        Run.open(copy).read("captures")


def columns_of(file):
    """The columns of a file with the bytes where they lie; of a nested one each of those in it."""
    with pq.ParquetFile(file) as part:
        group, names = part.metadata.row_group(0), part.schema_arrow.names
    for place in range(group.num_columns):
        stored = group.column(place)
        start = stored.dictionary_page_offset or stored.data_page_offset
        path = f"{stored.path_in_schema}."
        name = max((name for name in names if path.startswith(f"{name}.")), key=len)
        yield name, range(start, start + stored.total_compressed_size)


def looked_through(path):
    """Whether the stage that made a part takes it for finished, and what it says of it."""
    part = Part({path.parent.name: path}, parts.read_identity(path), 1, [])
    todo, damaged = loop.unfinished_parts([part], AssertionError)
    return not todo, damaged


@pytest.mark.parametrize("kind", KINDS)
def test_a_bit_of_any_column(kind, finished, tmp_path):
    """The stage that made the part finds it, and so does who reads that column; others may be read.

    Of many columns some twenty stand for all.
    """
    path = tmp_path / kind / "part-00000.parquet"
    path.parent.mkdir()
    shutil.copyfile(finished / kind / path.name, path)
    whole, data = parts.read_part(path), path.read_bytes()
    assert looked_through(path) == (True, [])
    columns = list(columns_of(path))
    for name, place in columns[:: len(columns) // 20 or 1]:
        damaged = bytearray(data)
        damaged[place[-1]] ^= 4  # of the values: what goes before them says how they are stored
        path.write_bytes(damaged)
        finished_still, (found,) = looked_through(path)
        assert not finished_still and str(found).startswith(f"{path}: expected a whole part"), name
        with pytest.raises(parts.DamagedPartError):
            parts.read_part(path, [name])
        others = [other for other in whole.column_names if other != name]
        assert parts.read_part(path, others).equals(whole.select(others)), name
        for index in range(place[0], place[-1], len(place) // 4 or 1):
            damaged = bytearray(data)
            damaged[index] ^= 16
            path.write_bytes(damaged)
            with contextlib.suppress(UserError):  # some bits are of what nobody reads
                assert parts.read_part(path).equals(whole), (name, index)
