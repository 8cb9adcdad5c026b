"""The picture of heat maps on the pages: ``python -m lab.pages.page_figure RUN docs/images/word_map.png``.

RUN is the finished run of ``triptych run triplets.yaml``.
"""

import io
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from PIL import Image

from analysis.loaded_run import load_run
from probes import command_line
from probes.runs.parts import write_bytes

TRIPLET, WORD = 10, "umbrella"
SIZE, MARGIN, COLOURS = 256, 16, 128


def work(options: Namespace) -> None:
    """Draw the images of a triplet, and below each the heat map of a word over it."""
    run = load_run(options.run)
    images = {name: run.image(TRIPLET, name) for name in list(run.run.config.indicators)[:3]}
    sheet = Image.new("RGB", ((SIZE + MARGIN) * len(images) - MARGIN, 2 * SIZE + MARGIN), "white")
    for column, (indicator, image) in enumerate(images.items()):
        large = image.resize((SIZE, SIZE), Image.NEAREST)
        heat = run.word_map(f"t{TRIPLET:05d}-s0-{indicator}", WORD).overlay(large)
        for row, shown in enumerate((large, heat)):
            sheet.paste(shown, (column * (SIZE + MARGIN), row * (SIZE + MARGIN)))
    png = io.BytesIO()
    sheet.quantize(COLOURS, dither=Image.Dither.NONE).save(png, "PNG", optimize=True)
    write_bytes(options.picture, png.getvalue())


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    parser = command_line.Parser(prog="python -m lab.pages.page_figure", description=__doc__.split("\n\n")[0])
    parser.add_argument("run", type=command_line.run_directory, help="finished run")
    parser.add_argument("picture", type=Path, help="file to write")
    return command_line.run(work, parser, argv)


if __name__ == "__main__":
    sys.exit(main())
