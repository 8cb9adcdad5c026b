"""The page on word maps, from its figures: ``python -m lab.pages.word_maps > docs/word_maps.md``."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from probes import command_line

FIGURES = Path(__file__).parents[2] / "docs" / "word_maps.json"
HEAD = """# Word maps held against the truth

A heat map of cross-attention is often read as "where the word is in the image". On toyworld that can be checked: the
checker knows which pixels of a generated image are which thing. `python -m lab.validate.word_maps` draws {prompts}
random captions with each specimen ({steps} steps), takes every noun that was named and drawn, resizes its word map to
the image, stretches it to 0…1, cuts it at a threshold and compares it with the checker's mask: intersection over union
(IoU). Clothes and objects count; places, for which the checker has no mask, do not.

The even prompts of the first specimen ({tuning} nouns) are for tuning: the single threshold that is best on them, for
each definition, and the definition itself, out of {tried} that differ in layers, steps, way of combining layers, weight
of the token after the word, power, and spreading along self-attention. What is reported comes from its odd prompts, and
from the other specimens, which had no part in it.

## Mean IoU

| specimen | definition | nouns | best threshold (tuned) | IoU there | at 0.35 | at 0.40 | over `daam` (95 % interval) |
|---|---|---:|---:|---:|---:|---:|---:|
"""
MIDDLE = """
`{name}` (version {version}): the geometric mean h, over the cross-attentions of the up blocks, of each layer's map
(mean over heads and calls), where a word's map is the weighted mean of its tokens' (1) and of the token that follows
(0.5): the text encoder is causal, so the token after a word has read it. h is stretched to a largest value of 1, raised
to the sixth power and spread along the self-attention of the up blocks (each pixel takes the mean of the pixels it
looks at, over calls, heads and the layers of one grid); the result is multiplied by the root of h. Pixels of one thing
look at one another, so the map takes the thing's outline. On larger models the grid is the finest of at most 32 × 32.
A probe gives these maps with `Probe(pipe, word_maps="{name}")`, a run with `capture: {{definition: {name}}}`. The
definition was chosen by this search on the tuning prompts of these weights.
`decoder-product` needs no self-attention: the same geometric mean with the following token at 1, squared. It was found
on earlier weights.
`chosen here` is what the search finds on this page's own tuning prompts: {label}.

The interval is a bootstrap over prompts of the difference at each definition's own best threshold.

## One change at a time

Held-out prompts of the first specimen; the layers' rows are one layer alone.

| what enters | best threshold (tuned) | IoU there | at 0.35 | at 0.40 |
|---|---:|---:|---:|---:|
"""
NOUNS = """
## By noun

At each definition's best threshold, held-out prompts of the first specimen. Maps have 16 × 16 cells of 4 × 4 pixels, so
small things cannot be outlined.

| noun | images | pixels | `daam` | `{name}` |
|---|---:|---:|---:|---:|
"""


def word_maps_page(figures: dict) -> str:
    """The page in Markdown, from the figures of `lab.validate.word_maps.report`."""
    settings, ours = figures["settings"], figures["ours"]
    parts = [
        HEAD.format(
            prompts=settings["prompts"],
            steps=settings["steps"],
            tuning=settings["nouns_tuning"],
            tried=settings["tried"],
        )
    ]
    for row in figures["rows"]:
        over = ""
        if "over_daam" in row:
            low, high = row["over_daam_interval"]
            over = f"{row['over_daam']:+.3f} ({low:+.3f} to {high:+.3f})"
        parts.append(
            f"| {row['specimen']} | {_code(row['definition'])} | {row['n']} | {row['threshold']:.3f} | "
            f"{row['held']:.3f} | {row['held_0.35']:.3f} | {row['held_0.4']:.3f} | {over} |\n"
        )
    parts.append(MIDDLE.format(name=ours["name"], version=ours["version"], label=figures["chosen"]["label"]))
    parts += [
        f"| {row['what']} | {row['threshold']:.3f} | {row['held']:.3f} | {row['held_0.35']:.3f} | "
        f"{row['held_0.4']:.3f} |\n"
        for row in figures["one_by_one"]
    ]
    parts.append(NOUNS.format(name=ours["name"]))
    parts += [
        f"| {row['noun']} | {row['n']} | {row['pixels']:.0f} | {row['daam']:.2f} | {row['ours']:.2f} |\n"
        for row in figures["by_noun"]
    ]
    return "".join(parts)


def _code(name: str) -> str:
    return name if " " in name else f"`{name}`"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    parser = command_line.Parser(
        prog="python -m lab.pages.word_maps", description="Print the page on word maps."
    )
    return command_line.run(work, parser, argv)


def work(_: argparse.Namespace) -> None:
    """Print the page."""
    print(word_maps_page(json.loads(FIGURES.read_text("utf-8"))), end="")


if __name__ == "__main__":
    sys.exit(main())
