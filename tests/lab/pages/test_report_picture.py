"""The annotated picture of a report: its marks are explained on the page that shows it.

That each has its place in a report that is written now, `tests/analysis/report/test_page_in_chromium.py` sees.
"""

import re

from lab.pages.blocks import ROOT
from lab.pages.report_picture import MARKS, main

PAGE = (ROOT / "docs/explanation/reading_the_report.md").read_text("utf-8")


def test_every_mark_is_explained_and_the_picture_is_small():
    assert re.findall(r"(?m)^\| (\d+) \|", PAGE) == [str(number + 1) for number in range(len(MARKS))]
    assert (ROOT / "docs/images/report.png").stat().st_size <= 150_000


def test_a_run_without_a_report_is_one_line(tmp_path, capsys):
    assert main([str(tmp_path)]) == 2
    assert "expected the report of a finished run" in capsys.readouterr().err
