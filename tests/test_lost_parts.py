"""A run that lacks part files: what is missing is named, and nothing lost counts as nothing found."""

import io
import shutil
from contextlib import redirect_stderr

import numpy as np
import pyarrow.parquet as pq
import pytest

import analysis
from probes.runs.run import Run
from tests.runs import TINY, run_here
from triptych.cli.main import main

PARTS = len(TINY["prompts"])
GENERATED, OBJECTS = ("samples", "captures", "words"), ("objects", "observed")
NESTED = ("features/dino", "features/split_product", "attributes/toyworld-checker", "attributes/captions")
KINDS = (*GENERATED, "kept", "pooled", *OBJECTS, *NESTED, "traced")


def lose(path, kind, *numbers):
    for number in numbers:
        (path / kind / f"part-{number:05d}.parquet").unlink()


def stage(path, name):
    return main([str(path), "--quiet", "--stage", name])


def line_of(path, kind, *numbers):
    more = f" (and {len(numbers) - 1} more)" if len(numbers) > 1 else ""
    made = {"traced": "trace"}.get(kind, "generate" if kind in GENERATED else "observe")
    command = f"triptych run {path} makes {'them' if more else 'it'}"
    return f"missing {kind}/part-{numbers[0]:05d}.parquet{more} (stage {made}): {command}"


@pytest.mark.slow
def test_the_record_says_which_parts_there_are(tiny):
    assert Run.open(tiny.run).meta["kinds"] == dict.fromkeys(sorted(KINDS), PARTS)


@pytest.mark.parametrize(
    ("kind", "numbers"),
    [("samples", (0,)), ("words", (2,)), ("objects", (0, 1)), ("features/dino", (0, 1, 2)), ("traced", (1,))],
)
def test_a_run_without_a_part_is_neither_measured_nor_reported(kind, numbers, tiny_copy, capsys):
    lose(tiny_copy, kind, *numbers)
    before = {file: file.read_bytes() for file in tiny_copy.rglob("*.*") if file.is_file()}
    for name in ("measure", "report"):
        assert stage(tiny_copy, name) == 2
        captured = capsys.readouterr()
        assert captured.err.count("\n") == 1 and captured.out == ""
        expected = f"{tiny_copy}: expected all parts of the run: {line_of(tiny_copy, kind, *numbers)}"
        assert expected in captured.err
    assert {file: file.read_bytes() for file in tiny_copy.rglob("*.*") if file.is_file()} == before


def test_images_are_observed_once_they_are_all_there(tiny_copy, capsys):
    lose(tiny_copy, "captures", 1)
    assert stage(tiny_copy, "observe") == 2
    assert line_of(tiny_copy, "captures", 1) in capsys.readouterr().err


def test_activations_that_no_table_is_made_of_are_named_alone(tiny_copy, capsys):
    lose(tiny_copy, "kept", 1)
    assert stage(tiny_copy, "measure") == 0
    assert "missing kept/part-00001.parquet (stage generate)" in capsys.readouterr().err


def test_without_any_image_nothing_is_measured(tiny_copy, capsys):
    lose(tiny_copy, "samples", *range(PARTS))
    for name in ("report", "measure"):
        assert stage(tiny_copy, name) == 2
        captured = capsys.readouterr()
        assert captured.err.count("\n") == 1 and "without images: run --stage generate" in captured.err


def test_the_same_command_makes_them_again(tiny_copy, tiny, capsys):
    """One part of each kind: of some parts the images are there and what was seen in them is not."""
    for number, kind in enumerate(KINDS):
        lose(tiny_copy, kind, number % PARTS)
    assert run_here(tiny.yaml, tiny_copy) == 0
    assert "missing" not in capsys.readouterr().err
    assert Run.open(tiny_copy).status == "complete"
    files = [file for kind in (*KINDS, "tables") for file in (tiny.run / kind).iterdir()]
    assert all((tiny_copy / file.relative_to(tiny.run)).read_bytes() == file.read_bytes() for file in files)


# A part that is there and is not of these images


def test_a_part_of_other_images_is_refused(tiny_copy, tiny, capsys):
    for kind in ("captures", "words", *OBJECTS, *NESTED):
        file = tiny_copy / kind / "part-00001.parquet"
        shutil.copy(tiny_copy / kind / "part-00000.parquet", file)
        assert stage(tiny_copy, "measure") == 2
        captured = capsys.readouterr()
        assert captured.err.count("\n") == 1 and captured.out == ""
        expected = f"{file}: expected what belongs to samples/part-00001.parquet, got those of part 0:"
        assert expected in captured.err
        shutil.copy(tiny.run / kind / "part-00001.parquet", file)


def test_a_part_of_another_program_that_lacks_rows_is_refused(tiny_copy, tiny, capsys):
    """It does not say what it was made from, so its rows are counted."""
    for kind, got in (("words", "rows of 0 of 4"), ("objects", " detections in ")):
        file = tiny_copy / kind / "part-00001.parquet"
        pq.write_table(pq.read_table(file).slice(0, 0).replace_schema_metadata(None), file)
        assert stage(tiny_copy, "measure") == 2
        said = capsys.readouterr().err
        assert said.count("\n") == 1 and f"{file}: expected what belongs to " in said and got in said
        shutil.copy(tiny.run / kind / "part-00001.parquet", file)


# Studies, and the notebook


@pytest.mark.parametrize("kind", ["samples", "objects"])
def test_who_opens_a_run_is_told(kind, tiny_copy, capsys):
    lose(tiny_copy, kind, 0)
    before = (tiny_copy / "run.json").read_bytes()
    run = analysis.load_run(tiny_copy)
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and line_of(tiny_copy, kind, 0) in told
    assert len(run.samples) == (12 if kind == "objects" else 8)
    assert (tiny_copy / "run.json").read_bytes() == before


def test_tables_alone_can_be_opened(tiny_copy, capsys):
    for kind in KINDS:
        shutil.rmtree(tiny_copy / kind)
    assert len(analysis.load_run(tiny_copy).gap()) and "missing samples/part-00000" in capsys.readouterr().err


def test_a_lost_part_of_a_run_on_a_damaged_record_is_one_line(tiny_copy, capsys):
    for wrong in ({"kinds": {"samples": 3, "../else": 2}}, {"kinds": {"words": 10**12}}, {"parts": 10**15}):
        meta = {**Run.open(tiny_copy).meta, **wrong}
        Run(tiny_copy, {}).write_meta(**meta)
        assert stage(tiny_copy, "measure") == 2
        assert "expected the record of a run, got a damaged file" in capsys.readouterr().err
        meta |= {"kinds": dict.fromkeys(KINDS, PARTS), "parts": PARTS}
        Run(tiny_copy, {}).write_meta(**meta)


def test_nothing_is_said_of_a_whole_run(tiny_copy):
    """Nor of parts beyond those of its record."""
    for kind in KINDS:
        shutil.copy(tiny_copy / kind / "part-00000.parquet", tiny_copy / kind / "part-00099.parquet")
    with redirect_stderr(io.StringIO()) as said:
        run = analysis.load_run(tiny_copy)
    assert said.getvalue() == "" and np.isfinite(run.gap()["n_prompts"]).all() and len(run.samples) == 12
