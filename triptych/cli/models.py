"""``triptych models``: what can be loaded, and how far it was tested."""

from __future__ import annotations

import argparse

from probes import command_line


def parser() -> command_line.Parser:
    """Return the argument parser of ``triptych models``."""
    return command_line.Parser(
        prog="triptych models",
        description="List what `model:` can name, and how far each was tested: models that come with the package,"
        " layouts of pipelines, published models. Nothing is fetched.",
        examples={"triptych models": "what is in the cache of this machine is said, too"},
    )


def work(options: argparse.Namespace) -> None:
    """Print bundled models, supported pipelines and published models, and how far each was tested."""
    from analysis.studies.models import models

    print(models())
