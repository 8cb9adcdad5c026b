"""Pages for readers who do not see them, have no mouse, or read in the dark."""

import re
from importlib.resources import files

import pytest

from analysis.report.page import report
from tests.analysis.access import colours, contrast, faults

CSS = files("analysis.report").joinpath("templates/report.css").read_text("utf-8")
LIGHT, DARK = colours(CSS)
TEXT = ("ink", "muted", "link", "first", "second", "open")


@pytest.mark.parametrize("scheme", [LIGHT, DARK], ids=["light", "dark"])
def test_text_stands_out_from_paper_and_panels(scheme):
    ratios = {
        (text, under): contrast(scheme[text], scheme[under]) for text in TEXT for under in ("paper", "panel")
    }
    assert all(ratio >= 4.5 for ratio in ratios.values()), ratios
    series = {name: contrast(colour, scheme["paper"]) for name, colour in scheme.items() if "series" in name}
    assert all(ratio >= 3 for ratio in series.values()), series  # marks of figures
    assert LIGHT["paper"] != DARK["paper"] and len(series) == 5 * (scheme is DARK)


def test_no_text_is_made_paler():
    rules = [
        one for one in re.findall(r"([^{}]+){([^{}]*)}", CSS) if re.search(r"[; ]opacity: ", " " + one[1])
    ]
    assert rules == []


def test_contrast_is_that_of_the_standard():
    assert contrast("#000", "#ffffff") == pytest.approx(21) and contrast("#777777", "#fff") == pytest.approx(
        4.48, abs=0.01
    )


def test_report_and_gallery_have_names_for_everything(measured):
    page = report(measured)
    for file in (page, page.parent / "gallery" / "index.html"):
        assert faults(file.read_text("utf-8")) == []


@pytest.mark.parametrize(
    ("page", "fault"),
    [
        ("<html>", "no language"),
        ("<img src=x>", "no alternative text"),
        ("<svg><path></path></svg>", "no alternative text"),
        ("<table><th>Model</th></table>", "no scope"),
        ("<h1>One</h1><h3>Three</h3>", "a level of headings is left out"),
        ("<button><b></b></button>", "no name"),
        ("<p>Find <input type=text></p>", "no name"),
        ("<i id=a></i><b id=a></b>", "id twice"),
    ],
)
def test_a_fault_is_found(page, fault):
    (found,) = faults(page)
    assert found.startswith(fault)
    assert (
        faults(
            '<label>Find <input></label><button><svg role="img" aria-label="Dots"><svg></svg></svg></button>'
        )
        == []
    )
