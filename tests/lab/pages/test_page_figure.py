"""Pictures of the pages: each is small, shown, and drawn from a run."""

from PIL import Image

from lab.pages.blocks import PAGES, ROOT
from lab.pages.page_figure import PICTURES, heat_maps, main


def test_every_picture_is_small_and_shown_with_a_text():
    pages = "".join(page.read_text("utf-8") for page in PAGES)
    for name in PICTURES:
        assert (ROOT / "docs/images" / name).stat().st_size <= 150_000
        assert f"](../images/{name})" in pages and f"![](../images/{name})" not in pages


def test_an_unknown_picture_is_one_line(tmp_path, capsys):
    assert main([str(tmp_path), "x.png"]) == 2
    assert "x.png" in capsys.readouterr().err


def test_a_heat_map_lies_below_its_image():
    class Heat:
        def overlay(self, image):
            return Image.new("RGB", image.size, "red")

    class Run:
        def triplet(self, number):
            return dict.fromkeys("abcd", Image.new("RGB", (2, 2), "blue"))

        def word_map(self, sample, word):
            assert (sample[:8], word) == ("t00007-s", "hat")
            return Heat()

    sheet = heat_maps(Run(), 7, "hat", size=4, margin=2)
    assert sheet.size == (16, 10)
    assert sheet.getpixel((6, 0)) == (0, 0, 255) and sheet.getpixel((6, 6)) == (255, 0, 0)
