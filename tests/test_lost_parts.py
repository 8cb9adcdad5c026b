"""A finished run that lost part files: what is missing is named, and nothing lost counts as nothing found."""

import io
import json
import shutil
from contextlib import redirect_stderr

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import yaml

import analysis
from probes.runs import parts
from probes.runs.store import Run
from tests.remembered import leave_figures_out
from triptych.cli.run import main

PARTS = 3
CONFIG = {
    "name": "lost",
    "model": "toyworld",
    "indicators": {"neutral": "person", "feminine": "woman", "masculine": "man"},
    "prompts": [f"a {{person}} with {thing}" for thing in ("a dog", "an umbrella", "a ball")],
    "seeds": [0],
    "sampler": {"steps": 2},
    "capture": {"sites": ["text.final", "latent.final"], "keep": ["latent.final"], "pool": ["unet.mid"]},
    "generate": {"part_triplets": 1, "batch_triplets": 1, "device": "cpu", "workers": 1},
    "observe": {
        "features": ["dino", "split_product"],
        "questions": {"readers": ["toyworld-checker"]},
        "captions": {"model": "toyworld-checker"},
    },
    "measure": {"bootstrap": 20, "permutations": 20},
    "report": {"gallery": 2},
    "trace": {"sites": ["unet.mid.*.cross"], "curve": [1], "batch": 16},
}
DRAWN, OBJECTS, UNMEASURED = ("samples", "captures", "words"), ("objects", "observed"), ("kept", "pooled")
NESTED = ("features/dino", "features/split_product", "attributes/toyworld-checker", "attributes/captions")
KINDS = (*DRAWN, *UNMEASURED, *OBJECTS, *NESTED, "traced")
WHOLE = ("samples", "features/dino")
MORE = ("captures", "words", "objects", "attributes/captions", "traced")
LIKE = (
    "pooled",
    "features/split_product",
    "attributes/captions",
)  # in the default suite a kind above stands for each
SHOWN = ("samples", "words", *OBJECTS, "traced")  # on the page


def job(path, config=CONFIG, *options):
    file = path.parent / "triplets.yaml"
    file.write_text(yaml.safe_dump(config, sort_keys=False))
    return main([str(file), "--out", str(path), "--quiet", *options])


@pytest.fixture(scope="module", autouse=True)
def figureless():
    with pytest.MonkeyPatch.context() as patch:
        leave_figures_out(patch)
        yield


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "run"
    assert job(path) == 0
    return path


@pytest.fixture(scope="module")
def without_first(tmp_path_factory):
    """A run that never had the first prompt: a noise is drawn by its seed alone, so its images are the same."""
    path = tmp_path_factory.mktemp("fewer") / "run"
    assert job(path, {**CONFIG, "prompts": CONFIG["prompts"][1:]}) == 0
    return path


@pytest.fixture
def copy(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "run")


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
        first, second = (table.drop(columns="prompt_id", errors="ignore") for table in (one[name], two[name]))
        pd.testing.assert_frame_equal(
            first, second, check_dtype=False, obj=name
        )  # ids count the prompts of a run


def line_of(path, kind, *numbers):
    more = f" (and {len(numbers) - 1} more)" if len(numbers) > 1 else ""
    made = {"traced": "trace"}.get(kind, "generate" if kind in (*DRAWN, *UNMEASURED) else "observe")
    command = f"triptych run {path} makes {'them' if more else 'it'}"
    return f"missing {kind}/part-{numbers[0]:05d}.parquet{more} (stage {made}): {command}"


def test_the_record_says_which_parts_there_are(whole):
    assert Run.open(whole).meta["kinds"] == dict.fromkeys(sorted(KINDS), PARTS)


@pytest.mark.parametrize(
    ("kind", "numbers"),
    [
        *((kind, (1,)) for kind in KINDS if kind not in LIKE),
        ("traced", (0,)),
        *((kind, (0, 1, 2)) for kind in WHOLE),
        *(pytest.param(kind, (1,), marks=pytest.mark.slow) for kind in LIKE),
        *(pytest.param(kind, (0, 1, 2), marks=pytest.mark.slow) for kind in MORE),
    ],
    ids=str,
)
def test_a_lost_part_is_named_and_said(kind, numbers, copy, whole, capsys):
    lose(copy, kind, *numbers)
    named, gone = line_of(copy, kind, *numbers), len(numbers) == PARTS
    # the page alone, of tables that were measured before
    refused = kind == "samples" or (kind in SHOWN and not gone)
    assert stage(copy, "report") == (2 if refused else 0)
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and (named in said or "without images: run --stage generate" in said)
    page = (copy / "report.html").read_text()
    assert ("Lost since the run was measured:" in page) == (not refused and kind not in UNMEASURED)
    # measured over what is left
    assert stage(copy, "measure") == (2 if kind == "samples" and gone else 0)
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    if kind == "samples" and gone:
        assert "found it complete, without images: run --stage generate first" in captured.err
        return
    run = Run.open(copy)
    assert named in captured.err
    assert ("the run is not finished: measure over" in captured.out) == (kind not in UNMEASURED)
    assert stage(copy, "report") == 0
    capsys.readouterr()
    page = (copy / "report.html").read_text()
    assert ("The run is not finished:" in page) == (kind not in UNMEASURED) == ("unfinished" in run.tables())
    assert "Lost since" not in page
    if kind in UNMEASURED:
        same(tables(copy), tables(whole))
        return
    assert f"Missing: {kind}/part-" in page
    noted = run.meta["unfinished"]
    left = PARTS - len(numbers)
    assert noted["images"] == [3 * left if kind in DRAWN and not gone else 9, 9]
    assert ("without" in noted) == gone and (not gone or kind in noted["without"])
    if kind in NESTED and not gone:
        assert noted["others"] == {kind: 6} and f"{kind}: 6 of 9 images" in page
    if kind in OBJECTS:
        assert noted["observed"] == [3 * left, 9]
        assert any(name.startswith("cooccurrence") for name in run.tables()) == (not gone)
    if kind == "traced" and not gone:
        assert noted["traced"] == [2, 3] and "trace: 2 of 3 parts" in page


@pytest.mark.parametrize("kind", DRAWN)
def test_numbers_are_those_of_a_run_over_the_other_images(kind, copy, without_first):
    lose(copy, kind, 0)
    assert stage(copy, "measure") == 0
    found, expected = tables(copy), tables(without_first)
    assert len(found) > 25 and {"gap", "disparity", "objects", "trace_total", "cooccurrence"} <= {*found}
    same(found, expected)


OF_OBJECTS = ("cooccurrence", "object_tests", "table_tests", "figure04_bias_scores")


@pytest.mark.parametrize("kind", OBJECTS)
def test_lost_detections_are_no_images_without_objects(kind, copy, whole, without_first):
    lose(copy, kind, 0)
    assert stage(copy, "measure") == 0
    found, fewer, full = (tables(path) for path in (copy, without_first, whole))
    found["objects"] = found["objects"].assign(
        triplet=(found["objects"]["triplet"].astype(int) - 1).astype(str)
    )
    found["objects"]["sample_id"] = fewer["objects"]["sample_id"].to_numpy()
    same(found, full, ("gap", "disparity", "image_similarities"))
    for name in OF_OBJECTS:
        pd.testing.assert_frame_equal(found[name], fewer[name], check_dtype=False, obj=name)
    run = Run.open(copy)
    assert {*run.objects(["triplet"])["triplet"]} == {*run.observed(["triplet"])["triplet"]} == {1, 2}


def test_features_that_were_lost_are_no_values(copy, whole, without_first):
    lose(copy, "features/dino", 0)
    assert stage(copy, "measure") == 0
    found, fewer, full = (tables(path) for path in (copy, without_first, whole))
    dino, others = (
        lambda table: table[table["metric"] == "dino"].reset_index(drop=True),
        lambda table: table[table["metric"] != "dino"].reset_index(drop=True),
    )
    pd.testing.assert_frame_equal(others(found["gap"]), others(full["gap"]))
    columns = ["contrast", "gap"] if "gap" in found["gap"] else ["contrast"]
    pd.testing.assert_frame_equal(dino(found["gap"])[columns], dino(fewer["gap"])[columns])
    images = Run.open(copy).table("image_similarities")
    assert (images["dino"].isna() == (images["triplet"] == 0)).all()


def test_the_same_command_makes_them_again(copy, whole, capsys):
    """One part of each kind: of some parts the images are there and what was seen in them is not."""
    for number, kind in enumerate(KINDS):
        lose(copy, kind, number % PARTS)
    assert job(copy) == 0
    assert "missing" not in capsys.readouterr().err
    run = Run.open(copy)
    assert run.status == "complete" and "unfinished" not in run.meta
    for one in KINDS:
        for file in (whole / one).iterdir():
            assert (copy / one / file.name).read_bytes() == file.read_bytes()
    same(tables(copy), tables(whole))


def test_measuring_over_what_is_left_ends_with_the_next_measuring(copy, whole, capsys):
    lose(copy, "objects", 0)
    assert stage(copy, "measure") == 0 and "unfinished" in Run.open(copy).tables()
    shutil.copy(whole / "objects" / "part-00000.parquet", copy / "objects")
    assert len(Run.open(copy).parts("objects")) == 2  # as it was measured
    assert stage(copy, "measure") == 0
    assert "unfinished" not in {*Run.open(copy).meta, *Run.open(copy).tables()}
    same(tables(copy), tables(whole))


def test_who_cannot_look_again_does_not_measure_silently(copy, capsys):
    """On another machine the observers' weights may be missing, where the whole command skips them."""
    config = {**CONFIG, "observe": {**CONFIG["observe"], "features": ["dino"]}}
    lose(copy, "features/split_product", 0)
    assert job(copy, config) == 0
    captured = capsys.readouterr()
    assert "missing features/split_product/part-00000.parquet (stage observe)" in captured.err


# A part that is there and is not of these images


def rewritten(path, change):
    """As another program writes it."""
    pq.write_table(change(parts.read_part(path)).replace_schema_metadata(None), path)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("samples", "traced", *UNMEASURED)])
def test_a_part_of_other_images_is_refused(kind, copy, whole, capsys):
    file = copy / kind / "part-00001.parquet"
    shutil.copy(copy / kind / "part-00000.parquet", file)
    assert stage(copy, "measure") == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1 and captured.out == ""
    assert (
        f"{file}: expected what belongs to samples/part-00001.parquet, got those of part 0:" in captured.err
    )
    file.unlink()
    if kind == "objects":
        assert job(copy) == 0
        same(tables(copy), tables(whole))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("samples", "traced", *UNMEASURED)])
def test_a_part_of_fewer_rows_is_refused(kind, copy, capsys):
    file = copy / kind / "part-00001.parquet"
    if len(parts.read_part(file)) < 2:
        pytest.skip("too few rows")
    rewritten(file, lambda table: table.slice(0, 0))
    status = stage(copy, "measure")
    if kind == "features/split_product":  # pairs of images that cannot be read have no row
        assert status == 0
        return
    assert status == 2
    assert f"{file}: expected what belongs to " in capsys.readouterr().err
    with open(file, "r+b") as damaged:  # as this program says it
        damaged.truncate(100)
    assert stage(copy, "measure") == 2
    assert "expected a whole part, got a damaged file" in capsys.readouterr().err


def test_parts_beyond_those_of_the_record_are_not_the_runs(copy, whole):
    for kind in KINDS:
        shutil.copy(copy / kind / "part-00000.parquet", copy / kind / "part-00099.parquet")
    assert stage(copy, "measure") == 0
    same(tables(copy), tables(whole))
    assert "unfinished" not in Run.open(copy).meta


# Studies, and the notebook


@pytest.mark.parametrize("kind", ["samples", "objects", "words", "captures"])
def test_who_opens_a_run_is_told(kind, copy, capsys):
    lose(copy, kind, 0)
    before = (copy / "run.json").read_bytes()
    run = analysis.load_run(copy)
    told = capsys.readouterr().err
    assert (
        told.count("\n") == 1 and line_of(copy, kind, 0) in told and "the run is not finished: over" in told
    )
    assert {*run.run.objects(["triplet"])["triplet"]} <= {1, 2}
    assert len(run.samples) == (9 if kind == "objects" else 6)
    assert (copy / "run.json").read_bytes() == before


def test_tables_alone_can_be_opened(copy, capsys):
    for kind in KINDS:
        shutil.rmtree(copy / kind)
    assert len(analysis.load_run(copy).gap()) and "missing samples/part-00000" in capsys.readouterr().err


def test_of_a_record_that_does_not_say_its_kinds_nothing_is_missing(copy, capsys):
    """As of one that another program wrote: what is there is all that is spoken of."""
    meta = json.loads((copy / "run.json").read_text())
    del meta["kinds"], meta["checksum"]
    (copy / "run.json").write_text(json.dumps(meta))
    assert stage(copy, "measure") == 0 and "missing" not in capsys.readouterr().err


def test_a_lost_part_of_a_run_on_a_damaged_record_is_one_line(copy, capsys):
    for wrong in ({"kinds": {"samples": 3, "../else": 2}}, {"kinds": {"words": 10**12}}, {"parts": 10**15}):
        meta = {**Run.open(copy).meta, **wrong}
        Run(copy, {}).write_meta(**meta)
        assert stage(copy, "measure") == 2
        assert "expected the record of a run, got a damaged file" in capsys.readouterr().err
        meta |= {"kinds": dict.fromkeys(KINDS, PARTS), "parts": PARTS}
        Run(copy, {}).write_meta(**meta)


def test_nothing_is_said_of_a_whole_run(whole):
    with redirect_stderr(io.StringIO()) as said:
        run = analysis.load_run(whole)
    assert said.getvalue() == "" and np.isfinite(run.gap()["n"]).all()
