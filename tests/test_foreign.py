"""Images of another program, as a user brings them: the command line on a drawn run that was exported as a folder."""

import csv
import io
import json
from html import unescape

import pytest
import yaml
from PIL import Image

from probes.runs.run import Run
from tests.runs import export_images, run_settings
from triptych.cli.main import main

SETTINGS = {
    "indicators": {
        "neutral": "person",
        "feminine": "woman",
        "masculine": "man",
    },
    "generate": {"workers": 1, "device": "cpu", "part_triplets": 1},
    "observe": {"engine": "toyworld-checker"},
    "measure": {"bootstrap": 50, "permutations": 64, "primary": "ssim"},
    "report": {"gallery": 1, "figures": False},
}
DRAWN = SETTINGS | {
    "prompts": ["a {person} in a hat", "an old {person} with a dog in the park"],
    "seeds": [0, 7],
    "sampler": {"steps": 3},
    "capture": {"sites": ["latent.final"], "words": False},
}
# whole tables that hang on the images, their prompts and their seeds alone
EQUAL = ("nouns", "object_claims")
PIXELS = ("disparity", "gap")
OF_PIXELS = ("ssim", "diff_pix", "resnet50", "clip", "dino", "split_product", "cooccurrence")
GROUPED = ("cooccurrence", "object_tests", "table_tests", "table07_chi_square", "figure04_bias_scores")
OF_MAPS = {"group", "reason", "coverage", "best_word", "best_word_index", "best_human_coverage", "maps"}


def export(run, folder, *, seeds=True):
    """A run's images as files with a table beside them."""
    columns = ["prompt", "indicator", *(["seed"] if seeds else [])]
    samples = run.samples(["sample_id", "prompt", "indicator", "seed", "image"])
    return export_images(samples.to_dict("records"), folder, columns)


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    folder = tmp_path_factory.mktemp("drawn")
    for stage in ("generate", "observe", "measure"):
        assert run_settings(folder, DRAWN, "--stage", stage) == 0
    return Run.open(folder / "run")


def lines(run, name, where=lambda row: True, without=()):
    """Rows of a table as their text, number by number."""
    rows = list(csv.DictReader(io.StringIO(run.table(name).to_csv(index=False))))
    return [{key: text for key, text in row.items() if key not in without} for row in rows if where(row)]


@pytest.fixture(scope="module")
def taken(drawn, tmp_path_factory):
    """The same images in the order in which they were drawn."""
    folder = tmp_path_factory.mktemp("taken")
    table = export(drawn, folder / "pictures") / "metadata.csv"
    table.write_text(table.read_text().replace("seed", "Seed ", 1))
    settings = {"model": "toyworld", "images": {"from": "pictures"}, "sampler": {"noise": "own"}}
    assert run_settings(folder, SETTINGS | settings) == 0
    return Run.open(folder / "run")


def test_tables_of_pixels_and_objects_are_those_of_the_run_that_drew_the_images(drawn, taken):
    for name in EQUAL:
        there = (drawn.path / "tables" / f"{name}.csv").read_bytes()
        assert there == (taken.path / "tables" / f"{name}.csv").read_bytes(), name
    assert drawn.table("image_similarities").equals(taken.table("image_similarities"))
    for name in PIXELS:
        of_pixels = lines(drawn, name, lambda row: row["metric"] in OF_PIXELS)
        assert of_pixels and of_pixels == lines(taken, name), name
    for name in GROUPED:
        of_all = [lines(one, name, lambda row: row["group"] == "all") for one in (drawn, taken)]
        assert of_all[0] and of_all[0] == of_all[1], name
    seen = [lines(one, "objects", without=OF_MAPS) for one in (drawn, taken)]
    assert len(seen[0]) > 12 and seen[0] == seen[1]


def test_samples_are_stored_as_drawn_ones_but_for_what_was_seen_inside(drawn, taken):
    columns = ["sample_id", "triplet", "template", "indicator", "word", "prompt", "seed"]
    columns += ["words", "word_spans", "image"]
    one, two = (run.samples(columns).to_dict("records") for run in (drawn, taken))
    assert repr(one) == repr(two)
    assert not taken.samples(["tokens"])["tokens"].str.len().any()
    assert len(taken.parts("samples")) == 4 and not taken.parts("captures")


def test_what_cannot_be_measured_is_said_once_in_table_and_report(taken):
    absent = taken.table("not_measured")
    assert len(absent) == 5 and absent["reason"].str.len().all()
    page = (taken.path / "report.html").read_text(encoding="utf-8")
    (note,) = taken.meta["taken_in"]["notes"]
    assert note == "metadata.csv: columns taken: 'Seed ' as seed"
    assert note.replace("'", "''") in unescape(page)  # the record is YAML
    assert page.count("Not measured: another program drew the images") == 1
    assert 'id="atlas"' not in page and "by the rows that came with them" in page
    assert not (taken.table("gap")["space"] != "image").any()
    assert (taken.table("objects").query("object >= 0")["group"] == "").all()
    assert "12 images of the 12 in" in " ".join(page.split())


def test_a_run_goes_on_and_ends_with_the_same_bytes(taken):
    files = {
        file: file.read_bytes() for kind in ("samples", "observed") for file in (taken.path / kind).iterdir()
    }
    for kind in ("samples", "observed"):
        (taken.path / kind / "part-00001.parquet").unlink()
    kept = (taken.path / "samples" / "part-00000.parquet").stat().st_mtime_ns
    assert main([str(taken.path), "--quiet", "--stage", "generate"]) == 0
    assert main([str(taken.path), "--quiet", "--stage", "observe"]) == 0
    assert files == {file: file.read_bytes() for file in files}
    assert (taken.path / "samples" / "part-00000.parquet").stat().st_mtime_ns == kept


def test_other_images_are_another_run_unless_it_is_replaced(drawn, tmp_path, capsys):
    pictures = export(drawn, tmp_path / "pictures")
    settings = SETTINGS | {"images": {"from": "pictures"}, "sampler": {"noise": "own"}}
    assert run_settings(tmp_path, settings, "--stage", "generate") == 0
    first, second = (pictures / f"t00000-s{seed}-neutral.png" for seed in (0, 7))
    first.write_bytes(second.read_bytes())
    assert run_settings(tmp_path, settings, "--stage", "generate") == 2
    assert "holds another run: images is" in capsys.readouterr().err
    assert run_settings(tmp_path, settings, "--stage", "generate", "--overwrite") == 0
    stored = Run.open(tmp_path / "run")
    assert stored.image("t00000-s0-neutral").tobytes() == stored.image("t00000-s7-neutral").tobytes()


def test_without_seeds_no_pixels_are_compared(drawn, tmp_path):
    export(drawn, tmp_path / "pictures", seeds=False)
    settings = SETTINGS | {"images": {"from": "pictures"}}
    del settings["measure"]
    assert run_settings(tmp_path, settings | {"measure": {"bootstrap": 20, "permutations": 20}}) == 0
    made = Run.open(tmp_path / "run")
    assert not made.config.paired and made.config.sampler.noise == "own"
    assert len(made.table("image_similarities")) == 0
    assert set(made.table("gap")["metric"]) <= {"cooccurrence"}
    assert "SSIM" in made.table("not_measured")["what"].iloc[-1]
    assert lines(made, "object_tests", lambda row: row["group"] == "all")
    assert "nothing pairs the images of a triplet" in (made.path / "report.html").read_text(encoding="utf-8")


def test_what_is_not_whole_is_left_out_and_counted(drawn, tmp_path, capsys):
    pictures = export(drawn, tmp_path / "pictures")
    rows = (pictures / "metadata.csv").read_text().splitlines()
    gone = [row for row in rows if "t00000-s0-neutral" not in row]
    (pictures / "metadata.csv").write_text(
        "\n".join([*gone, "t00000-s0-neutral.png,a person sings,neutral,0"])
    )
    Image.new("RGB", (32, 64)).save(pictures / "t00000-s7-feminine.png")
    (pictures / "t00001-s7-masculine.png").write_bytes(b"no image at all")
    Image.new("RGB", (64, 64)).save(pictures / "t00001-s0-neutral.png")
    Image.new("RGBA", (64, 64), "white").save(pictures / "t00001-s0-feminine.png")
    settings = SETTINGS | {"images": {"from": "pictures"}, "sampler": {"noise": "own"}}
    path = tmp_path / "triplets.yaml"
    path.write_text(yaml.safe_dump(settings, sort_keys=False))
    assert main([str(path), "--out", str(tmp_path / "run"), "--stage", "generate"]) == 0
    said = (
        "3 of 6 images are left out of every mean (unreadable: 1, black: 1, blank: 1): see the column `fault`"
    )
    assert said in capsys.readouterr().err
    assert main([str(path), "--out", str(tmp_path / "run"), "--stage", "observe"]) == 0
    assert "observe objects: 100%" in capsys.readouterr().err
    assert run_settings(tmp_path, settings, "--stage", "measure") == 0
    stored = Run.open(tmp_path / "run")
    faults = {
        "t00001-s0-neutral": "black",
        "t00001-s0-feminine": "blank",
        "t00001-s7-masculine": "unreadable",
    }
    assert stored.faults() == faults and stored.meta["faults"] == {"unreadable": 1, "black": 1, "blank": 1}
    compared = stored.table("image_similarities").set_index(["seed", "pair"])["ssim"]
    assert compared.index[compared.notna()].tolist() == [(7, "neutral-feminine")]
    reasons = dict(stored.read("observed", ["sample_id", "reason"]).itertuples(index=False))
    assert {name: reasons[name] for name in faults} == {
        "t00001-s0-neutral": "image left out: every pixel of it is black",
        "t00001-s0-feminine": "image left out: every pixel of it has the same color",
        "t00001-s7-masculine": "cannot identify image file",
    }
    assert stored.meta["taken_in"]["left_out"] == {
        "triplets without a prompt of every indicator": 1,
        "seeds of a triplet without an image of every indicator": 1,
        "seeds of a triplet whose images differ in size": 1,
    }
    assert len(stored.samples(["sample_id"])) == 6
    assert json.loads((tmp_path / "run" / "run.json").read_text())["images"] == 6
    assert run_settings(tmp_path, settings | {"measure": {"primary": "clip"}}, "--stage", "measure") == 2
    assert "got 'clip', of which it holds no features: choose another" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"prompts": ["a {person}"]}, "prompts: expected none beside `images`"),
        ({"capture": {"words": True}}, "capture: expected none beside `images`"),
        (
            {"measure": {"primary": "z0"}},
            "measure.primary: expected 'ssim', 'diff_pix', 'resnet50', 'clip', 'dino' or 'split_product', got 'z0'",
        ),
        (
            {"measure": {"primary": "clip"}},
            "primary: expected a measure that the run will hold, got 'clip', which cannot be observed (no weights on",
        ),
        (
            {"measure": {"primary": "clip"}, "observe": {"features": []}},
            "primary: expected a measure that the run will hold, got 'clip', which `observe.features` does not name",
        ),
        (
            {"images": {"from": "elsewhere"}},
            "images.from: expected a table or a folder of images, found none",
        ),
        ({"images": {}}, "images.from: expected this key"),
    ],
)
def test_faults_of_the_configuration_are_one_line(drawn, tmp_path, capsys, more, said):
    export(drawn, tmp_path / "pictures")
    assert run_settings(tmp_path, SETTINGS | {"images": {"from": "pictures"}} | more) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1
