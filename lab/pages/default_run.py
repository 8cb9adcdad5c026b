"""What pages show of the default run and of the first plan: ``python -m lab.pages.default_run RUN``.

Stores ``docs/validation/default_run.json`` from a finished run of ``triplets.yaml`` and from the plan of what
``triptych init`` writes, and puts its texts into the pages, each behind a comment with its name.
"""

import contextlib
import io
import json
import re
import sys
import tempfile
from argparse import Namespace
from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path

from analysis.loaded_run.run import load_run
from lab.pages.blocks import ROOT
from lab.templates import render
from lab.validate.models.gaps import headline_gaps
from lab.validate.runs import whole_run
from probes import command_line
from probes.config.schema import load_config
from probes.errors import UserError
from triptych.cli.main import main as triptych

STORED = ROOT / "docs/validation/default_run.json"
PLACES = {  # which text stands on which page
    "z0": "README.md",
    "gaps": "docs/explanation/reading_the_report.md",
    "plan": "docs/start/first_run.md",
}
# Behind its comment a text is a block or a table.
SHOWN = r"<!-- ?shown: {name} ?-->\n+(?:```\w*\n)?(?P<text>(?<=`text\n).*?(?=\n```$)|(?:^\|[^\n]*\n)+)"
# What is another machine's elsewhere: times, memory and speed with their units, workers, the device.
MEASURED = re.compile(
    r"\d+ workers? of \d+ threads?|[\d.,]+ (?:min|h|s|[GM]B|GFLOP/s)\b(?: [\d.,]+ (?:min|s)\b)*|\bon (?:cpu|cuda|mps)\b"
)


def found(page: str, name: str) -> re.Match[str]:
    """Where a page has the text behind the comment ``<!-- shown: name -->``; refused if there is none."""
    match = re.search(SHOWN.format(name=name), page, re.DOTALL | re.MULTILINE)
    if not match:
        raise UserError(
            f"page: expected <!-- shown: {name} --> before a block of text or a table, found none"
        )
    return match


def put(page: str, name: str, text: str) -> str:
    """Return a page with another text behind its comment."""
    start, end = found(page, name).span("text")
    return page[:start] + text + page[end:]


def first_plan() -> str:
    """Return what ``triptych plan`` prints of the file that ``triptych init`` writes."""
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as printed:
        path = str(Path(folder) / "triplets.yaml")
        triptych(["init", path])
        written = len(printed.getvalue())
        triptych(["plan", path, "--device", "cpu"])
    return printed.getvalue()[written:].rstrip("\n")


def texts(path: Path) -> dict[str, str]:
    """Return the texts by name."""
    run, default = whole_run(path), load_config(ROOT / "triplets.yaml")
    for name in ("model", "prompts", "indicators", "seeds", "sampler.steps"):
        if attrgetter(name)(run.config) != attrgetter(name)(default):
            raise UserError(f"{path}: {name}: expected that of triplets.yaml, got another: name its run")
    gaps = render("default_run_gaps", gaps=headline_gaps(run).to_dict("records")).rstrip("\n") + "\n"
    return {"z0": str(load_run(path).z0), "gaps": gaps, "plan": first_plan()}


def work(options: Namespace) -> None:
    """Store the texts and put them into the pages."""
    stored = texts(options.run)
    STORED.write_text(json.dumps(stored, indent=1, ensure_ascii=False) + "\n", "utf-8")
    for name, page in PLACES.items():
        path = ROOT / page
        path.write_text(put(path.read_text("utf-8"), name, stored[name]), "utf-8")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    parser = command_line.Parser(prog="python -m lab.pages.default_run", description=__doc__.split("\n\n")[0])
    parser.add_argument("run", type=command_line.run_directory, help="finished run of triplets.yaml")
    return command_line.run(work, parser, argv)


if __name__ == "__main__":
    sys.exit(main())
