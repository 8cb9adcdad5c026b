"""A run directory: what is overwritten, what a crash leaves, what goes when a stage is done again."""

import json
import random
import shutil

import pandas as pd
import pytest

from probes.errors import UserError
from probes.runs import directory
from probes.runs.directory import claim
from probes.runs.run import Run
from probes.runs.schemas import OBSERVED_KINDS
from tests.probes.conftest import generated, settings

QUICK = {
    "prompts": ["a {person}"],
    "seeds": [0],
    "sampler": {"steps": 1},
    "capture": {"words": False, "sites": ["latent.final"]},
}


@pytest.fixture(scope="module")
def made(saved, tmp_path_factory):
    """A generated run of one triplet, with a table and a page as the stages write them."""
    run = generated(tmp_path_factory.mktemp("made") / "run", settings(saved(), **QUICK))
    with run.writing("measure"):
        run.write_table("gap", pd.DataFrame({"gap": [0.5]}))
    with run.writing("report"):
        run.write_file("figures/headline.png", b"a figure")
        run.write_file("report.html", b"a page")
    return run.path


@pytest.fixture
def run(made, tmp_path):
    return Run.open(shutil.copytree(made, tmp_path / "run"))


def files(path):
    """Every file and folder below a path, but the lock."""
    return {
        entry.relative_to(path).as_posix(): entry.read_bytes() if entry.is_file() else None
        for entry in path.rglob("*")
        if entry.name != ".lock"
    }


# --overwrite

FOREIGN = {
    "a paper's folders": {"figures/plot.pdf": "mine", "tables/results.csv": "mine"},
    "another program's record": {"run.json": '{"status": "done", "loss": 0.3}', "tables/results.csv": "mine"},
    "no record": {"run.json": "epoch 3\n", "samples/part-00000.parquet": "mine"},
}


@pytest.mark.parametrize("case", FOREIGN)
def test_what_was_never_a_run_is_refused_and_untouched(case, tmp_path):
    for name, text in FOREIGN[case].items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / ".tmp-of-another-program").write_text("mine")
    before = files(tmp_path)
    expected = r"expected (an empty folder or a run|the record of a run)"
    with pytest.raises(UserError, match=expected) as caught, claim(tmp_path) as run:
        directory.clear(run)
    assert "choose another --out" in str(caught.value)
    assert files(tmp_path) == before
    assert not (tmp_path / ".lock").exists()


def test_only_what_the_run_wrote_is_removed_and_the_rest_is_named(run, capsys):
    mine = {
        "notes.txt": "mine",
        "tables/results.csv": "mine",
        "figures/headline.pdf": "mine",
        "samples/part-of-my-thesis.parquet": "mine",
        "drafts/one.txt": "mine",
    }
    for name, text in mine.items():
        (run.path / name).parent.mkdir(exist_ok=True)
        (run.path / name).write_text(text)
    with claim(run.path) as held:
        directory.clear(held)
    left = {name: data for name, data in files(run.path).items() if data is not None}
    record = left.pop("run.json")
    assert left == {name: text.encode() for name, text in mine.items()}
    assert json.loads(record)["status"] == "generated"  # the folder is a run's until the next record is there
    (line,) = capsys.readouterr().err.splitlines()
    assert "left as they are" in line
    assert all(name.split("/one")[0] in line for name in mine)


def test_parts_that_the_record_does_not_list_are_the_users(run, capsys):
    """Beyond the number of its parts, in a folder of features of another name, in a folder that no kind has."""
    with claim(run.path) as held:
        held.write_meta(kinds={**held.meta["kinds"], "features/dino": 1})
    source, mine = (
        run.path / "samples" / "part-00000.parquet",
        [
            *(
                "samples/part-00099.parquet",
                "features/mine/part-00000.parquet",
                "observed/part-00000.parquet",
            ),
            *("features/dino/part-00001.parquet", "samples/deep/part-00000.parquet"),
        ],
    )
    own = ["features/dino/part-00000.parquet", "features/dino_texts/part-00000.parquet"]
    for name in (*mine, *own):
        (run.path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, run.path / name)
    with claim(run.path) as held:
        directory.remove_parts(held, OBSERVED_KINDS)
        assert held.meta["kinds"] == {"captures": 1, "samples": 1}
    assert not any((run.path / name).exists() for name in own) and source.exists()
    with claim(run.path) as held:
        directory.clear(held)
    left = {name for name, data in files(run.path).items() if data is not None}
    assert left == {*mine, "run.json"}
    assert "samples/part-00099.parquet" in capsys.readouterr().err


@pytest.mark.parametrize("linked", ["samples", "samples/part-00000.parquet", "tables", "report.html"])
def test_nothing_is_removed_through_a_link(linked, run, tmp_path):
    inside, outside = run.path / linked, tmp_path / "outside"
    if inside.exists():
        inside.rename(outside)
    else:
        outside.mkdir()
    inside.symlink_to(outside)
    before = files(tmp_path)
    expected = rf"{linked}: expected a file or folder of the run, got a link: what it leads to is not removed"
    with claim(run.path) as held:
        with pytest.raises(UserError, match=expected):
            directory.clear(held)
        assert held.meta["status"] == "generated"
        held.remove_files([linked, f"{linked}/gap.csv", f"{linked}/part-00000.parquet"])
    assert files(tmp_path) == before


def test_a_record_cannot_name_files_outside_the_run(run):
    (run.path.parent / "precious.txt").write_text("mine")
    (run.path / "notes.txt").write_text("mine")
    run.write_meta(written={"measure": ["../precious.txt", "notes.txt", "tables/../../precious.txt"], "x": 3})
    with claim(run.path) as held:
        directory.clear(held)
        held.meta = {"parts": 1, "kinds": {"features/../..": 1}}
        with pytest.raises(UserError, match="expected the record of a run"):
            directory.clear(held)
    assert (run.path.parent / "precious.txt").exists()
    assert (run.path / "notes.txt").exists()


# What goes when a stage is done again


def test_a_stage_removes_what_it_wrote_before_and_does_not_write_now(run):
    (run.path / "tables" / "results.csv").write_text("mine")
    with run.writing("measure"):
        run.write_table("disparity", pd.DataFrame({"mean": [0.5]}))
        run.write_file("tables/table11.tex", b"x")
    names = {name for name in files(run.path) if name.startswith("tables/")}
    assert names == {
        "tables/results.csv",
        "tables/disparity.csv",
        "tables/disparity.parquet",
        "tables/table11.tex",
    }
    assert (run.path / "report.html").exists()  # another stage's
    assert Run.open(run.path).written("measure") == sorted(names - {"tables/results.csv"})


# The record's checksum


def test_a_flipped_bit_in_the_record_is_noticed(run):
    file = run.path / "run.json"
    data, rng = file.read_bytes(), random.Random(0)
    places = [(where, bit) for where in range(len(data)) for bit in range(8)]
    key = data.index(b'"checksum"')
    places = [*rng.sample(places, 300), *((where, rng.randrange(8)) for where in range(key, key + 90))]
    for where, bit in places:
        damaged = bytearray(data)
        damaged[where] ^= 1 << bit
        file.write_bytes(damaged)
        with pytest.raises(UserError):
            Run.open(run.path)
    file.write_bytes(data)
    assert Run.open(run.path).meta == run.meta


def test_a_record_made_elsewhere_needs_no_checksum_and_an_edited_one_says_how_to_go_on(run):
    """An entry stands on a line, so that one can be changed or taken out."""
    file = run.path / "run.json"
    lines = file.read_text().replace('"seeds": [0]', '"seeds": [7]').splitlines()
    file.write_text("\n".join(lines))
    with pytest.raises(UserError, match="take its line `checksum` out"):
        Run.open(run.path)
    file.write_text("\n".join(line for line in lines if '"checksum"' not in line))
    assert Run.open(run.path).config.seeds == [7] and len(lines) <= 120
