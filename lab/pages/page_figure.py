"""Pictures of the pages, drawn from finished runs: ``python -m lab.pages.page_figure RUN docs/images/word_map.png``.

`PICTURES` says which run, and of which triplet and word the heat maps are shown.
"""

import io
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from PIL import Image

from analysis.loaded_run import load_run
from analysis.loaded_run.run import LoadedRun
from lab.pages.blocks import ROOT
from probes import command_line
from probes.errors import UserError
from probes.runs.parts import write_bytes

COLOURS = 128
# Picture: the command of its run, a triplet and a word of it.
PICTURES = {"word_map.png": ("triptych run triplets.yaml", 10, "umbrella")}


def heat_maps(run: LoadedRun, triplet: int, word: str, size: int = 256, margin: int = 16) -> Image.Image:
    """Return the images of a triplet, and below each the heat map of a word over it."""
    images = dict(list(run.triplet(triplet).items())[:3])
    sheet = Image.new("RGB", ((size + margin) * len(images) - margin, 2 * size + margin), "white")
    for column, (indicator, image) in enumerate(images.items()):
        heat = run.word_map(f"t{triplet:05d}-s0-{indicator}", word).overlay(
            image.resize((size, size), Image.NEAREST)
        )
        for row, shown in enumerate((image.resize((size, size), Image.NEAREST), heat)):
            sheet.paste(shown, (column * (size + margin), row * (size + margin)))
    return sheet


def work(options: Namespace) -> None:
    """Draw a picture of `PICTURES`."""
    if options.picture.name not in PICTURES:
        raise UserError(
            f"picture: expected one of {', '.join(PICTURES)}, got {options.picture.name}: name one"
        )
    _, triplet, word = PICTURES[options.picture.name]
    drawn = heat_maps(load_run(options.run), triplet, word)
    png = io.BytesIO()
    drawn.quantize(COLOURS, dither=Image.Dither.NONE).save(png, "PNG", optimize=True)
    write_bytes(options.picture, png.getvalue())


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    parser = command_line.Parser(prog="python -m lab.pages.page_figure", description=__doc__.split("\n\n")[0])
    parser.add_argument("run", type=command_line.run_directory, help="finished run")
    parser.add_argument("picture", type=Path, help=f"file to write, in {(ROOT / 'docs/images').name}/")
    return command_line.run(work, parser, argv)


if __name__ == "__main__":
    sys.exit(main())
