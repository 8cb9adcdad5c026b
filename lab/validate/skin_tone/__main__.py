"""Hold readings of skin tone against known colours: ``python -m lab.validate.skin_tone RUN --out PAGE``.

RUN is a generated run of toyworld whose first images are read beside renderings; the figure is put beside the page.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from lab.validate.skin_tone.card import LIGHTS, as_files, in_lights
from lab.validate.skin_tone.figure import figure
from lab.validate.skin_tone.page import page
from probes import command_line
from probes.errors import UserError
from probes.runs.parts import write_bytes
from probes.runs.run import Run
from probes.toyworld import MODELS


def parser() -> argparse.ArgumentParser:
    """The command line's options."""
    main = command_line.Parser(prog="python -m lab.validate.skin_tone", description=__doc__.split("\n\n")[0])
    main.add_argument(
        "run",
        type=command_line.run_directory,
        help="a generated run of toyworld, such as of docs/validation/gep_audit.yaml",
    )
    main.add_argument(
        "--images", type=command_line.count, default=100, help="of each kind (default: %(default)s)"
    )
    main.add_argument("--out", type=Path, default=Path("docs/validation/skin_tone.md"), help="page to write")
    return main


def work(options: argparse.Namespace) -> None:
    """Do what the command line asks."""
    from lab.validate.skin_tone.toyworld import generated, rendered

    run = Run.open(options.run)
    if run.config.model not in MODELS:
        raise UserError(
            f"{options.run}: expected a run of toyworld ({', '.join(MODELS)}), got one of {run.config.model}:"
            " name another run"
        )
    command_line.writable(options.out)
    kinds = {
        "renderings": rendered(options.images, through_vae=False),
        "through the autoencoder": rendered(options.images, through_vae=True),
        "generated": generated(run, options.images),
    }
    picture = options.out.with_name(f"{options.out.stem}_card.png")
    write_bytes(picture, figure(_shown()))
    write_bytes(options.out, page(kinds, picture.name, _said(run, len(kinds["generated"]))).encode())
    print(options.out)


def _shown() -> list:
    """The ways of seeing the card that the figure has."""
    files, lit = list(as_files()), {seen.name: seen for seen in in_lights("bradford")}
    lights = [lit[name] for light in LIGHTS for name in (light, f"{light}, set right")]
    return [files[0], files[-1], *lights]


def _said(run: Run, images: int) -> str:
    """Return how the generated pictures were drawn."""
    config = run.config
    return (
        f"The generated ones are the first {images} images of the run `{config.name}` of `{config.model}`"
        f" ({config.sampler.steps} steps, {config.generate.dtype})."
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    return command_line.run(work, parser(), argv)


if __name__ == "__main__":
    sys.exit(main())
