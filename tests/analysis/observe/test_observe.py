"""The observe stage: what it stores, going on after an interruption, images that cannot be read."""

import numpy as np
import pytest

from analysis.observe.objects.engines.choice import object_observer
from analysis.observe.objects.models.toyworld_checker import ToyworldChecker
from analysis.observe.stage import observe
from probes.config.schema import Config
from probes.errors import UserError
from probes.runs.directory import require_same
from probes.runs.images import decode_mask
from probes.runs.run import Run
from probes.runs.schemas import OBJECTS, OBSERVED
from probes.toyworld.checker import TAGS
from probes.toyworld.palette import INDEX, paint
from tests.analysis.observe.stored_images import image_run, renderings
from tests.probes.conftest import stored

PROMPTS = ["a person with a dog", "a woman in a dress with a cat", "a man with an umbrella"]
EMPTY = paint(np.full((64, 64), INDEX["park_wall"]))


@pytest.fixture(scope="module")
def pictures():
    return renderings(PROMPTS * 3)


@pytest.fixture
def run(tmp_path, pictures):
    return image_run(tmp_path / "run", pictures, PROMPTS)


def test_what_is_stored(run, pictures):
    observe(run, progress=False)
    objects, observed = run.read("objects"), run.read("observed")
    assert list(objects.columns) == OBJECTS.names
    assert list(observed.columns) == OBSERVED.names
    assert (observed["status"] == "ok").all() and (observed["reason"] == "").all()
    assert list(observed["tags"][0]) == list(TAGS)
    found = ToyworldChecker().detect(pictures, [()] * 9)
    for sample, one in zip(observed["sample_id"], found):
        rows = objects[objects["sample_id"] == sample]
        assert list(rows["object"]) == list(range(len(one.detections)))
        assert list(rows["label"]) == [detection.label for detection in one.detections]
        for row, detection in zip(rows.itertuples(), one.detections):
            mask = decode_mask(row.mask, row.height, row.width)
            np.testing.assert_array_equal(mask, detection.mask)
            assert (row.x0, row.y0, row.x1, row.y1) == detection.box
            assert (row.area, row.source) == (mask.sum(), "checker")
    assert (
        objects.groupby("sample_id").size().loc[observed["sample_id"]].tolist() == observed["kept"].tolist()
    )
    observer = Run.open(run.path).meta["observer"]
    assert observer["engine"] == "toyworld-checker"
    assert observer["counts"]["images"] == 9 and observer["counts"]["kept"] == len(objects)


def test_going_on_ends_with_the_same_bytes(run):
    observe(run, progress=False)
    before = stored(run.path)
    for name in ("objects/part-00001.parquet", "observed/part-00001.parquet", "observed/part-00002.parquet"):
        (run.path / name).unlink()
    kept = (run.path / "objects/part-00000.parquet").stat().st_mtime_ns
    observe(run, progress=False)
    assert stored(run.path) == before
    assert (run.path / "objects/part-00000.parquet").stat().st_mtime_ns == kept


def test_images_that_cannot_be_read_are_recorded_and_skipped(tmp_path, pictures):
    whole = image_run(tmp_path / "whole", pictures, PROMPTS)
    broken = [None, b"not an image", b"\x89PNG\r\n\x1a\n" + bytes(40), b""]
    images = [*pictures[:2], *broken, *pictures[6:]]
    run = image_run(tmp_path / "broken", images, PROMPTS)
    observe(whole, progress=False)
    observe(run, progress=False)
    observed = run.read("observed")
    assert set(observed["sample_id"][2:6]) == set(run.left_out())
    with pytest.raises(
        UserError, match=rf"{observed['sample_id'][3]}: expected an image, got `cannot identify"
    ):
        run.images(observed["sample_id"][3:7])
    assert list(observed["status"]) == ["ok"] * 2 + ["unreadable"] * 4 + ["ok"] * 3
    assert observed["reason"][2] == "no bytes are stored"
    assert "cannot identify image file" in observed["reason"][3]
    assert "0x" not in "".join(observed["reason"])
    assert Run.open(run.path).meta["observer"]["counts"]["unreadable"] == 4
    readable = observed["sample_id"][observed["status"] == "ok"]
    expected = whole.read("objects")
    expected = expected[expected["sample_id"].isin(readable)].reset_index(drop=True)
    assert run.read("objects").equals(expected)


def test_objects_made_in_another_way_are_refused(run, pictures):
    observe(run, progress=False)
    image_run(run.path, [EMPTY, *pictures[1:]], PROMPTS)
    with pytest.raises(UserError, match=r"was made with samples .* --stage observe --overwrite"):
        observe(Run.open(run.path), progress=False)


def test_a_damaged_part_is_made_again(run, capsys):
    observe(run, progress=False)
    part = run.part_path("objects", 1)
    before = part.read_bytes()
    part.write_bytes(before[: len(before) // 2])
    observe(run, progress=False)
    assert part.read_bytes() == before and str(part) in capsys.readouterr().err


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        (
            {},
            "groundingdino: boxes by toyworld, masks by toyworld, tags from vocabulary (39 tags); batches of 4",
        ),
        ({"observe": {"engine": "toyworld-checker"}}, "toyworld-checker, 39 things"),
        ({"observe": {"objects": False}}, "skipped: `observe.objects` is false"),
        (
            {"model": "some/model"},
            "skipped: no detector for the images of this model: write `detector: IDEA-Research/grounding-dino-tiny`"
            " and `segmenter: facebook/sam-vit-base` under `observe:`",
        ),
        ({"sampler": {"height": 128}}, "skipped: toyworld's detectors know images of 64 × 64"),
    ],
)
def test_the_plan_says_what_will_be_done(fields, text):
    observer, reason = object_observer(Config(prompts=["a {person}"], **fields))
    assert (str(observer) if observer else f"skipped: {reason}").startswith(text)


def test_the_record_says_what_was_used_and_agrees_with_what_was_left_open(tmp_path):
    """Of a benchmark model the vocabulary and 0.8 were used, whatever the file leaves open; a re-run of the file goes
    on."""
    as_passed = Config(prompts=["a {person}"])
    used = object_observer(as_passed)[0].resolved
    assert (used["tags"], used["vocabulary"], used["nms_iou"]) == (["vocabulary"], "toyworld", 0.8)
    assert (used["engine"], used["detector"]) == ("groundingdino", "toyworld")
    run = Run(tmp_path, {"config": {"resolved": {**as_passed.resolved(), "observe": used}}})
    (tmp_path / "observed").mkdir()
    (tmp_path / "observed" / "part-00000.parquet").touch()
    require_same(run, as_passed.resolved())
    require_same(run, run.resolved)
    assert object_observer(run.config)[0].fields() == object_observer(as_passed)[0].fields()  # the same parts
    other = Config(prompts=["a {person}"], observe={"tags": ["prompt"]})
    assert object_observer(other)[0].resolved["tags"] == [
        "prompt"
    ]  # said, so it holds for the bundled detectors too
    with pytest.raises(UserError, match=r"observe\.tags"):
        require_same(run, other.resolved())


def test_the_bundled_detectors_find_what_was_drawn(tmp_path, pictures):
    run = image_run(tmp_path / "run", pictures, PROMPTS, engine="auto")
    observe(run, progress=False)
    assert run.meta["observer"]["engine"] == "groundingdino"
    seen = {sample: set(own["label"]) for sample, own in run.read("objects").groupby("sample_id")}
    found = ToyworldChecker().detect(pictures, [()] * len(pictures))
    true = dict(zip(run.read("observed")["sample_id"], ({d.label for d in one.detections} for one in found)))
    both = sum(len(true[sample] & seen.get(sample, set())) for sample in true)
    assert both >= 0.85 * sum(map(len, true.values()))
    assert both >= 0.85 * sum(map(len, seen.values()))
