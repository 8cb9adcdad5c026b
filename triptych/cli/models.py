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
    from hooks.architectures.registry import architectures, generating_pipelines, supported_pipelines
    from probes.models import hub

    kinds = "; ".join(architecture.models for architecture in architectures() if architecture.layouts)
    files = "a single .safetensors or .ckpt file of Stable Diffusion 1.x, 2.x or XL"
    sections = {
        "bundled, with the share of named things that each draws (docs/validation/toyworld.md)": hub.bundled_rows(),
        f"a hub id or a folder of {kinds}; {files}; tested with": hub.pipeline_rows(),
        "published models that are known by name, and whether their weights were tried": hub.published_rows(),
    }
    for title, rows in sections.items():
        widths = [max(map(len, column)) for column in zip(*rows)]
        lines = [f"  {name:<{widths[0]}}  {tested:<{widths[1]}}  {about}" for name, tested, about in rows]
        print(f"{title}:", *lines, "", sep="\n")
    alone = [name for name in supported_pipelines() if name not in generating_pipelines()]
    print(f"`hooks.Probe` alone reads {', '.join(alone)}.")
    print("Everything else is refused by its name, before weights are read.")
