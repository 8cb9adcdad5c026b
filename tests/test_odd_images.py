"""Images of every size and kind among good ones: each is taken, or left out by name, when it is taken in, for good."""

import csv
import io
import struct
import sys
import warnings
import zlib
from contextlib import redirect_stderr, redirect_stdout

import numpy as np
import pytest
import yaml
from PIL import Image

from probes.runs.images import RATIO, SIDE, SIZE, UNREADABLE, read_header, read_image
from probes.runs.run import Run
from probes.stages.external_images.stage import OTHER_SIZE
from triptych.cli.main import main

WORDS = {"neutral": "person", "feminine": "woman", "masculine": "man"}
DRAW = np.random.default_rng(0)
POSTSCRIPT = (
    b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 64 64\n%%EndComments\n(%pipe%touch touched) (w) file\n"
)


def picture(width=64, height=64):
    return Image.fromarray(DRAW.integers(0, 255, (height, width, 3), dtype=np.uint8))


def encoded(image, kind="png", **options):
    data = io.BytesIO()
    image.save(data, kind, **options)
    return data.getvalue()


def sideways(width=64, height=64):
    """A JPEG of a camera that was held on its side."""
    exif = Image.Exif()
    exif[0x0112] = 6
    return encoded(picture(width, height), "jpeg", exif=exif)


def bomb(width, height):
    """A PNG that says that it is large, and holds a kilobyte."""

    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    size = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = (b"IHDR", size), (b"IDAT", zlib.compress(bytes(1000))), (b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*one) for one in chunks)


def gif():
    frames = [picture().quantize() for _ in range(3)]
    return encoded(frames[0], "gif", save_all=True, append_images=frames[1:])


# one a triplet: an image, and what is at fault with it
IMAGES = {
    "1x1": (encoded(picture(1, 1)), SIZE),
    "1x2000": (encoded(picture(1, 2000)), SIZE),
    "too long": (encoded(picture(64 * RATIO + 1, 64)), SIZE),
    "large": (bomb(12_000, 10_000), SIZE),
    "larger": (bomb(50_000, 50_000), UNREADABLE),
    "truncated": (encoded(picture())[:900], UNREADABLE),
    "text": (b"no image", UNREADABLE),
    "PostScript": (POSTSCRIPT, UNREADABLE),
    "32 bits": (encoded(Image.fromarray(DRAW.random((64, 64)).astype(np.float32)), "tiff"), UNREADABLE),
    "animated": (gif(), None),
    "16 bits": (encoded(Image.fromarray(DRAW.integers(0, 65535, (64, 64)).astype(np.uint16))), None),
    "CMYK": (encoded(picture().convert("CMYK"), "jpeg"), None),
    "palette": (encoded(picture().quantize(), transparency=bytes(range(256))), None),
    "grey and alpha": (encoded(picture().convert("LA")), None),
    "sideways": (sideways(), None),
}
OTHER = {
    "7x7": encoded(picture(SIDE, SIDE)),
    "100x64": encoded(picture(100, 64)),
}  # can be looked at, not compared


WHOLE = "all of 1x2000"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two good triplets, one a kind in which the second image is odd, and one that is odd altogether."""
    folder = tmp_path_factory.mktemp("odd")
    (folder / "pictures").mkdir()
    rows = []
    odd = {"good": None, "better": None, **{name: data for name, (data, _) in IMAGES.items()}}
    odd |= OTHER | {WHOLE: IMAGES["1x2000"][0]}
    for number, (kind, data) in enumerate(odd.items()):
        for name, word in WORDS.items():
            file = f"{number}-{name}.png"
            chosen = (
                data if data is not None and (name == "feminine" or kind == WHOLE) else encoded(picture())
            )
            (folder / "pictures" / file).write_bytes(chosen)
            rows.append((file, f"a {word} in {number} hats", name, 0))
    with open(folder / "pictures" / "metadata.csv", "w", newline="") as file:
        csv.writer(file).writerows([("file", "prompt", "indicator", "seed"), *rows])
    settings = {
        "indicators": WORDS,
        "images": {"from": "pictures"},
        "generate": {"workers": 1, "device": "cpu"},
        "observe": {
            "engine": "groundingdino",
            "detector": "toyworld",
            "segmenter": "toyworld",
            "features": ["clip"],
            "feature_weights": {"clip": "toyworld"},
            "skin_tone": {"region": "image"},
        },
        "measure": {"bootstrap": 20, "permutations": 20},
        "report": {"gallery": 1, "figures": False},
    }
    (folder / "odd.yaml").write_text(yaml.safe_dump(settings, sort_keys=False))
    return folder


@pytest.fixture(scope="module")
def taken(folder):
    """What the command line says while it takes the images in, warnings included, which pytest would keep."""

    def shown(message, category, *more):
        print(f"{category.__name__}: {message}", file=sys.stderr)

    with (
        warnings.catch_warnings(),
        pytest.MonkeyPatch.context() as patch,
        redirect_stdout(io.StringIO()) as out,
        redirect_stderr(io.StringIO()) as err,
    ):
        warnings.simplefilter("default")
        patch.setattr(warnings, "showwarning", shown)
        status = main([str(folder / "odd.yaml"), "--out", str(folder / "run"), "--stage", "generate"])
    assert status == 0, err.getvalue()
    return out.getvalue() + err.getvalue()


def test_odd_images_are_left_out_by_name_when_they_are_taken_in(folder, taken):
    run = Run.open(folder / "run")
    wanted = {f"t{n:05d}-s0-feminine": fault for n, (_, fault) in enumerate(IMAGES.values(), 2) if fault}
    last = 1 + len(IMAGES) + len(OTHER) + 1
    assert run.faults() == wanted | {f"t{last:05d}-s0-{name}": SIZE for name in WORDS}
    assert run.meta["faults"] == {"unreadable": 5, "size": 7}
    assert run.meta["taken_in"]["left_out"] == {OTHER_SIZE: len(OTHER)}
    assert "12 of 54 images are left out of every mean (unreadable: 5, size: 7): see" in taken
    assert "`fault` of samples/ (t00002-s0-feminine, t00003-s0-feminine, " in taken
    assert not (folder / "pictures" / "touched").exists()
    for library in ("Warning", "site-packages", ".py", "PIL"):  # no warning of one reaches the terminal
        assert library not in taken


@pytest.mark.slow
def test_every_later_stage_goes_through(folder, taken, capfd):
    for stage in ("observe", "measure", "report"):
        assert (
            main([str(folder / "odd.yaml"), "--out", str(folder / "run"), "--stage", stage, "--quiet"]) == 0
        )
    assert "Warning" not in capfd.readouterr().err
    run = Run.open(folder / "run")
    reasons = dict(run.read("observed", ["sample_id", "reason"]).itertuples(index=False))
    left_out = run.left_out()
    assert len(left_out) == 12
    assert {sample for sample, reason in reasons.items() if reason} >= {*left_out}
    compared = run.table("image_similarities").set_index(["triplet", "pair"])["ssim"]
    for number, (_, fault) in enumerate(IMAGES.values(), 2):
        assert np.isnan(compared[number, "neutral-feminine"]) == bool(fault)
        assert np.isfinite(compared[number, "neutral-masculine"])  # the other images of the triplet stay


@pytest.mark.parametrize("name", [name for name, (_, fault) in IMAGES.items() if fault is None])
def test_what_can_be_read_is_read_as_a_viewer_shows_it(name):
    data, _ = IMAGES[name]
    image = read_image(data)
    assert (image.mode, image.size) == ("RGB", (64, 64)) == ("RGB", read_header(data)[1])
    assert len(np.unique(np.asarray(image))) > 50  # not clipped to one value


def test_a_camera_held_sideways_and_sixteen_bits():
    data = sideways(128, 64)
    assert read_header(data) == ("jpeg", (64, 128)) and read_image(data).size == (64, 128)
    with Image.open(io.BytesIO(data)) as stored:
        turned = np.rot90(np.asarray(stored.convert("RGB")), -1)
    assert (np.asarray(read_image(data)) == turned).all()
    grey = np.arange(65536, dtype=np.uint16).reshape(256, 256)
    shown = np.asarray(read_image(encoded(Image.fromarray(grey))))[:, :, 0]
    assert (shown == grey >> 8).all()
    with Image.open(io.BytesIO(gif())) as frames:
        assert frames.n_frames == 3
