"""A finished run that lost part files: what is missing is named, and nothing lost counts as nothing found."""

import io
import json
import shutil
from contextlib import redirect_stderr

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import analysis
from probes.runs.store import Run
from tests.runs import TINY, run_here, saved_yaml
from triptych.cli.run import main

PARTS = len(TINY["prompts"])
GENERATED, OBJECTS = ("samples", "captures", "words"), ("objects", "observed")
NESTED = ("features/dino", "features/split_product", "attributes/toyworld-checker", "attributes/captions")
KINDS = (*GENERATED, "kept", "pooled", *OBJECTS, *NESTED, "traced")


@pytest.fixture(scope="module")
def without_first(tiny, tmp_path_factory):
    """A run that never had the first prompt: a noise is drawn by its seed alone, so its images are the same."""
    folder = tmp_path_factory.mktemp("fewer")
    file = saved_yaml(folder, TINY, "fewer.yaml", prompts=TINY["prompts"][1:])
    for stage in ("generate", "observe", "trace", "measure"):
        assert run_here(file, folder / "run", "--stage", stage) == 0
    return folder / "run"


def lose(path, kind, *numbers):
    for number in numbers:
        (path / kind / f"part-{number:05d}.parquet").unlink()
    if len(numbers) == PARTS:
        (path / kind).rmdir()


def stage(path, name):
    return main([str(path), "--quiet", "--stage", name])


def tables(path):
    """The result tables, with prompts numbered from the first that there is; captures say of themselves which."""
    run, found = Run.open(path), {}
    first = run.samples(["triplet"])["triplet"].min()
    for name in run.tables():
        if name in ("unfinished", "findings", "not_measured"):
            continue
        table = run.table(name)
        for column in {"triplet", "prompt"} & {*table}:
            if pd.api.types.is_integer_dtype(table[column]):
                table[column] -= first
        if "sample_id" in table:
            rest = table["sample_id"].str[6:]
            table["sample_id"] = (table["sample_id"].str[1:6].astype(int) - first).astype(str) + rest
        found[name] = table
    return found


def same(one, two, names=None):
    assert {*one} == {*two}
    for name in names or one:
        # ids count the prompts of a run
        first, second = (table.drop(columns="prompt_id", errors="ignore") for table in (one[name], two[name]))
        pd.testing.assert_frame_equal(first, second, check_dtype=False, obj=name)


def line_of(path, kind, *numbers):
    more = f" (and {len(numbers) - 1} more)" if len(numbers) > 1 else ""
    made = {"traced": "trace"}.get(kind, "generate" if kind in GENERATED else "observe")
    command = f"triptych run {path} makes {'them' if more else 'it'}"
    return f"missing {kind}/part-{numbers[0]:05d}.parquet{more} (stage {made}): {command}"


@pytest.mark.slow
def test_the_record_says_which_parts_there_are(tiny):
    assert Run.open(tiny.run).meta["kinds"] == dict.fromkeys(sorted(KINDS), PARTS)


@pytest.mark.parametrize(("kind", "numbers"), [("features/dino", (0, 1, 2)), ("traced", (1,))])
def test_a_lost_part_is_named(kind, numbers, tiny_copy, capsys):
    """By a report of tables that were measured before, by the stage that measures what is left, and on the page."""
    lose(tiny_copy, kind, *numbers)
    named, gone = line_of(tiny_copy, kind, *numbers), len(numbers) == PARTS
    assert stage(tiny_copy, "report") == (0 if gone else 2)
    assert named in capsys.readouterr().err
    assert ("Lost since the run was measured:" in (tiny_copy / "report.html").read_text()) == gone
    assert stage(tiny_copy, "measure") == 0
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1 and named in captured.err
    assert "the run is not finished: measure over" in captured.out
    assert stage(tiny_copy, "report") == 0
    page, noted = (tiny_copy / "report.html").read_text(), Run.open(tiny_copy).meta["unfinished"]
    assert (
        "The run is not finished:" in page and f"Missing: {kind}/part-" in page and "Lost since" not in page
    )
    assert noted["images"] == [12, 12] and (noted.get("without") == [kind]) == gone
    if not gone:
        assert noted["traced"] == [2, 3] and "trace: 2 of 3 parts" in page


def test_without_any_image_nothing_is_measured(tiny_copy, capsys):
    lose(tiny_copy, "samples", *range(PARTS))
    for name in ("report", "measure"):
        assert stage(tiny_copy, name) == 2
        captured = capsys.readouterr()
        assert captured.err.count("\n") == 1 and "without images: run --stage generate" in captured.err


def test_numbers_are_those_of_a_run_over_the_other_images(tiny_copy, without_first, capsys):
    lose(tiny_copy, "samples", 0)
    assert stage(tiny_copy, "measure") == 0 and line_of(tiny_copy, "samples", 0) in capsys.readouterr().err
    assert Run.open(tiny_copy).meta["unfinished"]["images"] == [8, 12]
    found, expected = tables(tiny_copy), tables(without_first)
    assert len(found) > 20 and {"gap", "disparity", "objects", "trace_total", "cooccurrence"} <= {*found}
    same(found, expected)


OF_OBJECTS = ("cooccurrence", "object_tests", "table_tests", "figure04_bias_scores")


def test_lost_detections_and_features_are_no_images_without(tiny_copy, tiny, without_first):
    """Until the parts are there again, and the run is measured again."""
    lose(tiny_copy, "objects", 0)
    lose(tiny_copy, "features/dino", 0)
    assert stage(tiny_copy, "measure") == 0
    run = Run.open(tiny_copy)
    assert run.meta["unfinished"]["observed"] == [8, 12]
    assert run.meta["unfinished"]["others"] == {"features/dino": 8}
    assert {*run.objects(["triplet"])["triplet"]} == {*run.observed(["triplet"])["triplet"]} == {1, 2}
    found, fewer, full = (tables(path) for path in (tiny_copy, without_first, tiny.run))
    dino, others = (
        lambda table: table[table["metric"] == "dino"].reset_index(drop=True),
        lambda table: table[table["metric"] != "dino"].reset_index(drop=True),
    )
    pd.testing.assert_frame_equal(others(found["gap"]), others(full["gap"]))
    pd.testing.assert_frame_equal(*(dino(one["gap"])[["contrast", "gap"]] for one in (found, fewer)))
    images = run.table("image_similarities")
    assert (images["dino"].isna() == (images["triplet"] == 0)).all()
    for name in OF_OBJECTS:
        pd.testing.assert_frame_equal(found[name], fewer[name], check_dtype=False, obj=name)
    for kind in ("objects", "features/dino"):
        shutil.copy(tiny.run / kind / "part-00000.parquet", tiny_copy / kind)
    assert len(Run.open(tiny_copy).parts("objects")) == 2  # as it was measured
    assert stage(tiny_copy, "measure") == 0
    assert "unfinished" not in {*Run.open(tiny_copy).meta, *Run.open(tiny_copy).tables()}
    same(tables(tiny_copy), full)


def test_the_same_command_makes_them_again(tiny_copy, tiny, capsys):
    """One part of each kind: of some parts the images are there and what was seen in them is not."""
    for number, kind in enumerate(KINDS):
        lose(tiny_copy, kind, number % PARTS)
    assert run_here(tiny.yaml, tiny_copy) == 0
    assert "missing" not in capsys.readouterr().err
    run = Run.open(tiny_copy)
    assert run.status == "complete" and "unfinished" not in run.meta
    for one in KINDS:
        for file in (tiny.run / one).iterdir():
            assert (tiny_copy / one / file.name).read_bytes() == file.read_bytes()
    same(tables(tiny_copy), tables(tiny.run))


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


def test_a_part_that_was_cut_is_refused(tiny_copy, capsys):
    with open(tiny_copy / "words" / "part-00001.parquet", "r+b") as damaged:
        damaged.truncate(100)
    assert stage(tiny_copy, "measure") == 2
    assert "expected a whole part, got a damaged file" in capsys.readouterr().err


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
    assert "the run is not finished: over" in told
    assert {*run.run.objects(["triplet"])["triplet"]} <= {1, 2}
    assert len(run.samples) == (12 if kind == "objects" else 8)
    assert (tiny_copy / "run.json").read_bytes() == before


def test_tables_alone_can_be_opened(tiny_copy, capsys):
    for kind in KINDS:
        shutil.rmtree(tiny_copy / kind)
    assert len(analysis.load_run(tiny_copy).gap()) and "missing samples/part-00000" in capsys.readouterr().err


def test_of_a_record_that_does_not_say_its_kinds_nothing_is_missing(tiny_copy):
    """As of one that another program wrote: what is there is all that is spoken of."""
    meta = json.loads((tiny_copy / "run.json").read_text())
    del meta["kinds"], meta["checksum"]
    (tiny_copy / "run.json").write_text(json.dumps(meta))
    lose(tiny_copy, "words", 0)
    with redirect_stderr(io.StringIO()) as said:
        analysis.load_run(tiny_copy)
    assert said.getvalue() == ""


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
    assert said.getvalue() == "" and np.isfinite(run.gap()["n"]).all() and len(run.samples) == 12
