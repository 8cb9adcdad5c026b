"""The page on the benchmark models, from what was measured: ``python -m lab.pages.toyworld >
docs/validation/toyworld.md``."""

import json
import sys
from collections.abc import Sequence

from lab.templates import render
from lab.train.dit.page import transformers_section
from lab.train.located.page import located_section, wired_section
from lab.train.work.page import null_section, work_section
from probes import command_line
from probes.toyworld import BENCHMARK_MODELS, WEIGHTS
from probes.toyworld.world import load_world


def quality_page() -> str:
    """Return the page in Markdown, from ``quality.json`` beside each benchmark model's weights."""
    figures = {name: json.loads((WEIGHTS / name / "quality.json").read_text()) for name in BENCHMARK_MODELS}
    trained = render(
        "toyworld",
        objects=len(load_world().objects),
        places=len(load_world().places),
        unet=figures["toyworld"]["unet_parameters"] / 1e6,
        history=json.loads((WEIGHTS / "recipe.json").read_text())["history"],
        figures=figures,
    )
    sections = (transformers_section, work_section, null_section, located_section, wired_section)
    return trained + "".join(section() for section in sections)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    parser = command_line.Parser(
        prog="python -m lab.pages.toyworld",
        description="Print the page on how well the benchmark models were taught.",
    )
    return command_line.run(lambda _: print(quality_page(), end=""), parser, argv)


if __name__ == "__main__":
    sys.exit(main())
