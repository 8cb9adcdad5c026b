"""Effect and cost of an edit at the place where the word enters, and elsewhere.

``python -m lab.validate.tracing.edited MODEL ...`` makes the edit of `docs/validation/mitigation.yaml` at
each cross-attention alone and at all of them, draws the same captions from the same noise, and holds what is drawn
against the unedited model's. Of located benchmark models (`probes/toyworld/places.yaml`) the place
is known by wiring.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml
from numpy.typing import NDArray

from analysis.stats.bootstrap import bootstrap_interval
from hooks import sites
from lab.templates import render
from probes import command_line
from probes.models import edits
from probes.models.edits import Edit
from probes.prompts import sets
from probes.prompts.forms import PromptSource
from probes.runs.parts import write_bytes
from probes.toyworld import MODELS
from probes.toyworld.checker import read_images
from probes.toyworld.places import known_places
from probes.toyworld.scene import parse
from probes.toyworld.verdict import verdict
from probes.toyworld.world import load_world

WORDS = ("person", "woman", "man")
NONE, ALL = "none", "all"
EDIT = Path(__file__).parents[3] / "docs/validation/mitigation.yaml"
PLACES = EDIT.with_name("mitigation_places.json")
STEPS, PROMPTS, SEED, NOISE = 6, 96, 0, 7_000_000
COLUMNS = (
    *("model", "site", "true", "word", "share_b", "share_b_low", "share_b_high"),
    *("change", "change_low", "change_high", "named", "pixels", "prompts"),
)


def templates(number: int, seed: int = SEED) -> list[str]:
    """So many of the 240 explicit captions of GEP, drawn at random."""
    source = PromptSource(**{"from": "gep", "setting": "explicit"})
    made = sets.prompts(source, {"neutral": ("person", "people")}, "neutral", "toyworld")
    return [made[place].template for place in np.random.default_rng(seed).permutation(len(made))[:number]]


def compared_with_truth(
    model: str,
    pipe: Any,
    edit: Edit,
    texts: Sequence[str],
    draw: Callable[[Sequence[str]], NDArray[np.uint8]],
    say: Callable[[str], Any] = lambda text: None,
) -> pd.DataFrame:
    """Images after the edit at each cross-attention and at all, beside the unedited model's: a row per place and word.

    The words of a sentence with ``{person}`` are drawn from the same noise. ``true``: whether the word enters there by
    wiring (None where nobody knows); ``share_b``: share of verdicts for planted component b; ``change``: its difference
    from the unedited model's; ``pixels``: the mean difference of the images from it, 0 to 1.
    """
    located = known_places("located").get(model)
    world = load_world(located.world if located else model)
    true = set(located.sites) if located else None
    addresses = [site.address for site in sites.available(pipe) if site.address.endswith(".cross")]
    prompts = [text.replace("{person}", word) for word in WORDS for text in texts]
    rows: list[dict[str, Any]] = []
    plain: tuple[NDArray, NDArray] | None = None
    for place in (NONE, *addresses, ALL):
        if place == NONE:
            images = draw(prompts)
        else:
            chosen = edit if place == ALL else edit.model_copy(update={"sites": [place]})
            with edits.apply(pipe, chosen):
                images = draw(prompts)
        seen = read_images(images)
        is_b = (verdict(seen, prompts, world) > 0).astype(float)
        things = [sorted(parse(prompt, world).things) for prompt in prompts]
        named = np.array([seen.loc[row, of].astype(float).mean() for row, of in enumerate(things)])
        plain = plain or (images.astype(float), is_b)
        apart = np.abs(images - plain[0]).mean(axis=(1, 2, 3)) / 255
        for word, at in zip(WORDS, np.split(np.arange(len(prompts)), len(WORDS))):
            rows.append(
                {
                    **{"model": model, "site": place, "word": word, "prompts": len(texts)},
                    "true": None if true is None or place in (NONE, ALL) else place in true,
                    **_with_ends("share_b", is_b[at]),
                    **_with_ends("change", (is_b - plain[1])[at]),
                    **{"named": float(named[at].mean()), "pixels": float(apart[at].mean())},
                }
            )
        say(f"{model}, {place}: person {rows[-len(WORDS)]['share_b']:.3f}")
    return pd.DataFrame(rows)[list(COLUMNS)]


def _with_ends(name: str, values: NDArray[np.float64]) -> Mapping[str, float]:
    """A mean with its 95 % interval over prompts."""
    interval = bootstrap_interval(values[:, None], reach=[1.0])
    return {
        name: float(interval.mean[0]),
        f"{name}_low": float(interval.low[0]),
        f"{name}_high": float(interval.high[0]),
    }


def parser() -> argparse.ArgumentParser:
    """The command line's options."""
    main = command_line.Parser(
        prog="python -m lab.validate.tracing.edited",
        description="Make one edit at each cross-attention alone and at all, and see what it mends and costs there.",
    )
    add = main.add_argument
    add("models", nargs="+", choices=MODELS, metavar="MODEL", help="such as toyworld-cross-4")
    add("--out", type=Path, default=PLACES, help="JSON, and a page beside it; the rows of other models stay")
    add("--prompts", type=command_line.count, default=PROMPTS, help="captions (default: %(default)s)")
    add("--steps", type=command_line.count, default=STEPS, help="of an image (default: %(default)s)")
    return main


def work(options: argparse.Namespace) -> None:
    """Do what the command line asks."""
    command_line.writable(options.out)
    edit = Edit(**yaml.safe_load(EDIT.read_text("utf-8"))["edit"])
    stored = json.loads(options.out.read_text("utf-8")) if options.out.exists() else {"rows": []}
    for name in options.models:
        found = _drawn(name, edit, options)
        kept = [row for row in stored["rows"] if row["model"] != name]
        stored = {
            "steps": options.steps,
            "words": edit.words,
            "ridge": edit.ridge,
            "rows": kept + found.to_dict("records"),
        }
        write_bytes(options.out, (json.dumps(stored, indent=1) + "\n").encode())
    page_file = options.out.with_name("mitigation.md")
    write_bytes(page_file, page(stored).encode())
    print(page_file)


def page(stored: Mapping[str, Any]) -> str:
    """Return the page, from what is stored."""
    rows = stored["rows"]
    return render(
        "mitigation",
        rows=[rows[at : at + len(WORDS)] for at in range(0, len(rows), len(WORDS))],
        **{name: stored[name] for name in ("words", "ridge", "steps")},
    )


def _drawn(name: str, edit: Edit, options: argparse.Namespace) -> pd.DataFrame:
    from lab.train.base.measure import sample
    from probes.models import loading

    loaded = loading.load(loading.resolve(name), device="cpu")

    texts = templates(options.prompts)

    def draw(prompts: Sequence[str]) -> NDArray[np.uint8]:
        noise = [NOISE + place % len(texts) for place in range(len(prompts))]
        guidance = loaded.guidance_scale
        return sample(
            loaded.pipe, prompts, noise, steps=options.steps, guidance_scale=guidance, progress=False
        )

    return compared_with_truth(
        name, loaded.pipe, edit, texts, draw, say=lambda text: print(text, file=sys.stderr)
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    return command_line.run(work, parser(), argv)


if __name__ == "__main__":
    sys.exit(main())
