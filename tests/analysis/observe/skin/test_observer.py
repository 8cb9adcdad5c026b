"""The observer of skin tone: what it stores, when it looks, and what it refuses."""

import numpy as np
import pandas as pd
import pytest
from skimage.draw import polygon2mask

from analysis.metrics.skin_tone import monk_colours, read_skin
from analysis.observe.observer import StoredImage
from analysis.observe.skin import observer as module
from analysis.observe.skin.faces import FaceSkin, cheek_mask
from analysis.observe.skin.observer import SkinToneObserver, skin_observer
from analysis.observe.skin.regions import ToyworldSkin
from analysis.observe.stage import observe
from probes.config.schema import Config
from probes.errors import UserError
from probes.runs.run import Run
from probes.runs.schemas import TONES
from probes.toyworld.draw import draw
from probes.toyworld.palette import COLOURS, INDEX, paint
from probes.toyworld.scene import Scene, parse, sample_scene
from probes.toyworld.world import load_world
from tests.analysis.observe.stored_images import image_run

PROMPTS = ["a person in a mask", "a woman in a dress with a dog", "a man sitting on a couch"]
AUDIT = [
    {"text": "a {person} who works as a baker", "levels": {"profession": "baker", "setting": "dalleval"}}
]


def scenes(count):
    world, rng = load_world(), np.random.default_rng(0)
    return [sample_scene(parse(PROMPTS[index % 3], world), world, rng) for index in range(count)]


def rows(run):
    return pd.concat([table.to_pandas() for table in Run.open(run.path).part_tables(module.KIND)])


def test_rows_of_toyworld_name_what_is_there(tmp_path):
    drawn = scenes(6)
    empty = paint(np.full((64, 64), INDEX["park_wall"]))
    covered = Scene(
        dict(
            upper="jacket", lower="jeans", feet="boots", head="hat", neck="none", face="none", hands="gloves"
        ),
        *({}, "park", "stand", False, (1, 0, 0, 1, 1)),
    )
    indices = draw(covered)
    indices[indices == INDEX["skin_2"]] = INDEX["hair_1"]
    images = [*(paint(draw(scene)) for scene in drawn), empty, b"not an image", paint(indices)]
    run = image_run(
        tmp_path / "run", images, PROMPTS, engine="toyworld-checker", objects=False, skin_tone={"look": True}
    )
    observe(run, progress=False)
    read = rows(run)
    assert list(read.columns) == TONES.names
    assert read["status"].tolist() == ["ok"] * 6 + ["no face", "unreadable", "no skin"]
    assert read["reason"].tolist()[6:] == [
        "no figure",
        "cannot identify image file",
        "0 pixels of skin, fewer than 15",
    ]
    for row, scene in zip(read.itertuples(), drawn):  # the renderer's pixels have the palette's colour
        expected = read_skin([COLOURS[f"skin_{scene.looks[0] + 1}"]])
        np.testing.assert_allclose((row.L, row.a, row.b), expected.lab)
        assert row.ita == pytest.approx(expected.ita) and row.tone == expected.tone
        assert (row.tone_ciede2000, row.tone_dalleval2023) == (
            expected.tone_ciede2000,
            expected.tone_dalleval2023,
        )
        assert 15 <= row.pixels <= (draw(scene) == INDEX[f"skin_{scene.looks[0] + 1}"]).sum()
    lost = read[6:]
    assert lost[["L", "ita", "tone", "tone_ciede2000"]].isna().all(axis=None) and (lost["pixels"] == 0).all()


def test_a_grey_picture_has_no_tone_and_is_counted(tmp_path):
    rng = np.random.default_rng(0)
    tones = monk_colours().astype(float)
    shaded = np.clip(rng.normal(1, 0.05, (10, 16, 16, 1)) * tones[:, None, None], 0, 255)
    luma = (shaded @ (0.299, 0.587, 0.114))[..., None] * np.ones(3)
    compressed = np.clip(luma + rng.integers(-1, 2, luma.shape), 0, 255)
    lit = np.clip(shaded * 0.6, 0, 255)  # in shade: tone 10 keeps differences of 5 levels
    pictures = [*shaded, *lit, *luma, *compressed]
    options = {"look": True, "region": "image"}
    run = image_run(
        tmp_path / "run",
        [np.rint(one).astype(np.uint8) for one in pictures],
        ["a person"],
        model="m",
        **{"objects": False, "features": [], "skin_tone": options},
    )
    observe(run, progress=False)
    read = rows(run)
    assert read["status"].tolist() == ["ok"] * 20 + ["grey"] * 20
    columns = ["L", "ita", "tone", "tone_ciede2000", "tone_dalleval2023"]
    assert read[20:][columns].isna().all(axis=None) and read[:20][columns].notna().all(axis=None)
    assert set(read["reason"][20:]) == {"grey: 99 % of the picture's pixels have no colour"}


def test_it_looks_in_an_audit_of_professions_or_where_it_is_asked_for(monkeypatch):
    monkeypatch.setattr(module, "FaceSkin", _lacking)

    def asked(prompts, model="toyworld", **options):
        config = Config(prompts=prompts, model=model, observe={"skin_tone": options})
        observer, reason = skin_observer(config)
        return observer and type(observer.model), reason

    assert asked(["a {person}"]) == (None, "")
    assert asked(["a {person}"], look=True) == (ToyworldSkin, "")
    assert asked(AUDIT) == (ToyworldSkin, "")
    assert asked(AUDIT, look=False) == (None, "")
    assert asked(AUDIT, model="some/model") == (None, "no library")
    with pytest.raises(UserError, match="no library"):
        asked(AUDIT, model="some/model", look=True)


def _lacking(*names):
    raise UserError("no library")


# the 68 landmarks of a face seen from the front, in a square of side 100
FACE = np.array(
    [
        *[(50 - 40 * np.cos(t), 40 + 50 * np.sin(t)) for t in np.linspace(0, np.pi, 17)],
        *[(x, 28) for x in (18, 24, 30, 36, 42)],
        *[(x, 28) for x in (58, 64, 70, 76, 82)],
        *[(50, y) for y in (36, 42, 48, 54)],
        *[(x, 58) for x in (43, 46, 50, 54, 57)],
        *[(24, 38), (28, 36), (34, 36), (38, 38), (34, 40), (28, 40)],
        *[(62, 38), (66, 36), (72, 36), (76, 38), (72, 40), (66, 40)],
        *[(36, 72), (42, 69), (47, 68), (50, 69), (53, 68), (58, 69), (64, 72)],
        *[(58, 77), (54, 79), (50, 80), (46, 79), (42, 77)],
        *[(39, 72), (47, 71), (50, 72), (53, 71), (61, 72), (53, 75), (50, 75), (47, 75)],
    ]
)


class GivenFaces(FaceSkin):
    """Finds the faces that it is given."""

    files = ()

    def __init__(self, *faces):
        self.given = faces

    def faces(self, image):
        return list(self.given)

    def identity(self):
        return {"landmarks": "told"}

    def load(self):
        pass


def test_the_cheeks_of_a_face_leave_out_eyes_brows_mouth_and_what_is_around():
    shape = (100, 100)
    mask = cheek_mask(FACE, shape)
    inside = polygon2mask(shape, FACE[[*range(17), *range(26, 16, -1)]][:, ::-1])
    features = [
        polygon2mask(shape, FACE[first:stop][:, ::-1]) for first, stop in ((36, 42), (42, 48), (48, 60))
    ]
    assert mask[inside].any() and not mask[~inside].any()
    assert not mask[np.any(features, axis=0)].any()
    assert mask[55, 25] and mask[55, 75] and not mask[62, 50]
    left, right = mask[:, :50].sum(), mask[:, 50:].sum()
    assert abs(left - right) < 0.15 * max(left, right)


def test_the_largest_face_is_read_and_what_is_none_is_counted():
    image = np.full((120, 120, 3), (0, 0, 255), np.uint8)
    image[cheek_mask(FACE, (120, 120))] = monk_colours()[6]
    config = Config(prompts=["a {person}"])

    def row(*faces):
        observer = SkinToneObserver(config, GivenFaces(*faces))
        return observer.observe([StoredImage({}, "", image)])[module.KIND][0]

    alone, several = row(FACE), row(FACE / 4, FACE)
    assert (alone["status"], alone["tone"], alone["reason"]) == ("ok", 7, "")
    assert (several["tone"], several["reason"]) == (7, "the largest of 2 faces")
    assert (row()["status"], row()["tone"]) == ("no face", None)
    outside = row(FACE + 500)
    assert (outside["status"], outside["pixels"]) == ("no skin", 0)
    bluish = row(FACE / 4)
    assert bluish["status"] == "no skin" and "no typology angle: b* is" in bluish["reason"]
    assert bluish["tone"] is None and bluish["ita"] is None and bluish["L"] > 0
