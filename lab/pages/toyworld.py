"""The page on the benchmark models, from what was measured: ``python -m lab.pages.toyworld >
docs/validation/toyworld.md``."""

import json
import math
import sys
from collections.abc import Sequence

from lab.templates import render
from lab.train.located.page import located_section, wired_section
from lab.train.pages import null_section, transformers_section, work_section
from probes import command_line
from probes.toyworld import BENCHMARK_MODELS, SYNONYMS, WEIGHTS
from probes.toyworld.world import load_world


def quality_page() -> str:
    """Return the page in Markdown, from ``quality.json`` beside each benchmark model's weights."""
    figures = {name: json.loads((WEIGHTS / name / "quality.json").read_text()) for name in BENCHMARK_MODELS}
    trained = render(
        "toyworld",
        objects=len(load_world().objects),
        places=len(load_world().places),
        unet=figures["toyworld"]["unet_parameters"] / 1e6,
        figures=figures,
    )
    sections = (
        transformers_section,
        synonyms_section,
        work_section,
        null_section,
        located_section,
        wired_section,
    )
    return trained + "".join(section() for section in sections)


def synonyms_section() -> str:
    """Return the section on models whose synonyms draw different pictures, from ``quality.json`` of each."""
    models = {name: json.loads((WEIGHTS / name / "quality.json").read_text()) for name in SYNONYMS}
    first = models[SYNONYMS[0]]
    return render(
        "toyworld_synonyms",
        models=models,
        first=first,
        base=first["similarity_base"],
        size=(WEIGHTS / SYNONYMS[0] / "delta.safetensors").stat().st_size / 1000,
        chance=(2 / math.pi * 0.2 * 0.8 / first["images_a_word"]) ** 0.5,
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    parser = command_line.Parser(
        prog="python -m lab.pages.toyworld",
        description="Print the page on how well the benchmark models were taught.",
    )
    return command_line.run(lambda _: print(quality_page(), end=""), parser, argv)


if __name__ == "__main__":
    sys.exit(main())
