"""The annotated picture of a report's first screen: ``python -m lab.pages.report_picture RUN``.

Chromium shows ``report.html``, numbered marks are laid over it, and the screen is stored as a PNG of few colours.
``docs/explanation/reading_the_report.md`` says what each number is.
"""

import io
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from PIL import Image

from probes import command_line
from probes.errors import UserError

WIDTH, HEIGHT = 1240, 1500
COLOURS = 200

# A CSS selector and where the mark stands in its first match: parts of its width and height.
MARKS = (
    ("header, body > p", 0.0, 0.5),
    ("h1", 0.0, 0.5),
    ("h1 + p", 0.0, 0.5),
    ("figure.trio", 0.0, 0.5),
    ("#headline", 0.02, 0.35),
    ("#headline", 0.68, 0.03),
    ("#untested", 0.0, 0.5),
    ("#measures table tbody tr", 0.0, 0.5),
    ("#measures table thead th:nth-child(3)", 0.5, -0.25),
    ("#measures table thead th:nth-child(4)", 0.5, -0.25),
    ("#measures table tbody td:last-child", 1.02, 0.5),
)

DRAW = """marks => marks.map(([selector, x, y], index) => {
    const found = document.querySelector(selector);
    if (!found) return selector;
    const box = found.getBoundingClientRect(), mark = document.createElement("div");
    mark.textContent = index + 1;
    const left = Math.max(4, box.left + box.width * x - 34 * (x <= 0)), top = box.top + scrollY + box.height * y - 13;
    mark.style.cssText = `position:absolute;z-index:99;width:26px;height:26px;border-radius:13px;background:#b3261e;
        color:#fff;font:bold 15px/26px sans-serif;text-align:center;left:${left}px;top:${top}px`;
    document.body.append(mark);
    return null;
}).filter(Boolean)"""


def annotated(report: Path) -> Image.Image:
    """Return the first screen of a report under its numbered marks.

    Raises `UserError` where there is no Chromium for playwright, or the report lacks a place that has a mark.
    """
    try:
        from playwright.sync_api import Error, sync_playwright  # in the extra `test` alone
    except ImportError as error:
        raise UserError("expected playwright: pip install 'triptych[test]'") from error
    system = Path("/usr/bin/chromium")
    options = {"executable_path": str(system)} if system.exists() else {}
    with sync_playwright() as play:
        try:
            browser = play.chromium.launch(args=["--no-sandbox", "--disable-gpu"], **options)
        except Error as error:
            raise UserError(f"Chromium does not start: {str(error).splitlines()[0]}") from error
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        page.goto(report.resolve().as_uri())
        page.wait_for_timeout(500)
        missing = page.evaluate(DRAW, [list(mark) for mark in MARKS])
        shot = page.screenshot()
        browser.close()
    if missing:
        raise UserError(
            f"{report}: expected a report as runs write it, found nothing at {', '.join(missing)}"
        )
    with Image.open(io.BytesIO(shot)) as image:
        return image.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)


def work(options: Namespace) -> None:
    report = options.run / "report.html"
    if not report.is_file():
        raise UserError(
            f"{report}: expected the report of a finished run, found none: run triptych report {options.run}"
        )
    picture = annotated(report)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    picture.save(options.out, optimize=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    parser = command_line.Parser(
        prog="python -m lab.pages.report_picture",
        description="Draw numbered marks on the first screen of a run's report.",
    )
    parser.add_argument("run", type=Path, help="directory of a finished run")
    parser.add_argument("--out", type=Path, default=Path("docs/images/report.png"), help="picture to write")
    return command_line.run(work, parser, argv)


if __name__ == "__main__":
    sys.exit(main())
