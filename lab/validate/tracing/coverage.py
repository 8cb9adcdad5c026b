"""Coverage of intervals of shares, on images of a model, not in a simulated world.

``python -m lab.validate.tracing.coverage FOLDER`` draws 2,200 prompts of toyworld's captions in 5 steps:
*person*, *woman* and *man*, and *person* with the keys and values of either at each of two cross-attentions. Only the
verdicts are kept, a file some prompts, so that a command that was stopped goes on where it was. Then 200 traces of 24
prompts are drawn from them, and the interval of each share is compared with the share over 2,000 of the other prompts.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.methods.tracing.effects import Effects, effects, variant_table
from analysis.methods.tracing.outcomes import VERDICT, TracedImages, outcomes
from analysis.stats.shares import shares
from lab.train.base.captions import random_caption
from probes import command_line
from probes.csv_text import csv_bytes
from probes.runs.image_faults import eight_bits
from probes.runs.parts import write_bytes
from probes.stages.trace.variants import KEYS_AND_VALUES, Variant
from probes.toyworld.world import load_world

SITES = ("unet.mid.attn.0.cross", "unet.down.1.attn.0.cross")
WORDS = {"neutral": "person", "feminine": "woman", "masculine": "man"}
REFERENCE, FIRST, SECOND = "neutral", "masculine", "feminine"
PROMPTS, OTHERS, STEPS, TRACE, TRACES = 2200, 2000, 5, 24, 200
TOGETHER = 8  # prompts of a batch and of a file
RESAMPLES = 999


def templates(number: int, seed: int = 0) -> list[str]:
    """So many different captions of toyworld, each with ``{person}`` in the place of one word for a person."""
    rng, world, found = np.random.default_rng(seed), load_world(), dict[str, None]()
    while len(found) < number:
        caption, named = random_caption(world, rng)
        words = "|".join(word for group in WORDS for word in world.words(group))
        if not named.plural:
            found[re.sub(rf"\ban? ({words})\b", "a {person}", caption, count=1)] = None
    return list(found)


def variants(sites: Sequence[str], steps: int) -> list[Variant]:
    """The images of a prompt: three words, and the reference with either word's keys and values at each site."""
    plain = [Variant(f"none:{name}", "none", name) for name in WORDS]
    patched = [
        Variant(
            f"site:{site}:{donor}>{REFERENCE}",
            "site",
            REFERENCE,
            donor,
            sites=(site,),
            part=KEYS_AND_VALUES,
            stop_step=steps,
        )
        for site in sites
        for donor in (FIRST, SECOND)
    ]
    return [*plain, *patched]


def drawn(
    folder: Path, texts: Sequence[str], chosen: Sequence[Variant], model: str, steps: int
) -> Iterator[pd.DataFrame]:
    """Verdicts of every prompt, a table a file; those that are not stored yet are drawn with a model."""
    loaded: Any = None
    for start in range(0, len(texts), TOGETHER):
        file = folder / f"verdicts-{start:05d}.csv"
        if not file.exists():
            loaded = loaded or _loaded(model)
            table = _verdicts(loaded, start, texts[start : start + TOGETHER], chosen, steps)
            write_bytes(file, csv_bytes(table))
        yield pd.read_csv(file, keep_default_na=False, na_values=["nan", ""], dtype={"reason": str})


def _loaded(model: str) -> Any:
    from probes.models import loading

    return loading.load(loading.resolve(model), device="cpu")


def _verdicts(
    loaded: Any, start: int, texts: Sequence[str], chosen: Sequence[Variant], steps: int
) -> pd.DataFrame:
    """Draw some prompts and read their images."""
    from PIL import Image

    from probes.stages.trace.draw import draw
    from probes.stages.trace.triplet_draw import TripletDraw

    triplets = [
        TripletDraw.of_texts(
            loaded.pipe,
            {name: text.replace("{person}", word) for name, word in WORDS.items()},
            WORDS,
            triplet=start + number,
        )
        for number, text in enumerate(texts)
    ]
    images = draw(loaded.pipe, triplets, chosen, steps=steps, guidance_scale=loaded.guidance_scale)
    rows = pd.DataFrame(
        [
            {
                "triplet": one.draw.triplet,
                "seed": one.draw.seed,
                "prompt": one.draw.prompts[one.variant.recipient],
                "fault": one.fault,
                **one.variant.row(),
            }
            for one in images
        ]
    )
    pixels = [Image.fromarray(eight_bits(one.image)) for one in images]
    return outcomes(TracedImages(rows, pixels, FIRST, SECOND), [VERDICT])


def laid_out(tables: Sequence[pd.DataFrame], chosen: Sequence[Variant]) -> Effects:
    """Effects of all prompts."""
    about = variant_table(pd.DataFrame([one.row() for one in chosen]))
    (found,) = effects(about, pd.concat(tables, ignore_index=True), REFERENCE, (FIRST, SECOND))
    return found


def coverage(
    traced: Effects,
    *,
    traces: int = TRACES,
    size: int = TRACE,
    others: int = OTHERS,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> pd.DataFrame:
    """Return how often the interval of a trace holds the share over other prompts: one row per place and donor.

    Parameters
    ----------
    traced : Effects
        Of more than ``size + others`` prompts.
    traces, size : int
        Resampled traces, and the prompts of each.
    others : int
        Prompts whose share an interval is compared with, none of them in the trace.

    Returns
    -------
    DataFrame
        ``site``, ``donor``, ``share`` (over all prompts), ``traces``, ``undefined`` (traces without a share, and those
        without an interval), ``below`` and ``above`` (intervals that end below, or begin above, the others' share),
        ``coverage`` (of those that are defined), ``width`` (their median).
    """
    rows = []
    for place in traced.places(["site"]):
        for donor in traced.donors:
            effect, total = traced.sufficiency(place, donor), traced.total(donor)
            known = np.flatnonzero(~np.isnan(effect + total))
            rng = np.random.default_rng(seed)
            orders = np.array([rng.permutation(known)[: size + others] for _ in range(traces)])
            inside, outside = orders[:, :size].T, orders[:, size:].T
            found = shares(effect[inside], total[inside], resamples=resamples, seed=seed)
            with np.errstate(invalid="ignore", divide="ignore"):  # without a total effect there is no share
                truth = effect[outside].sum(axis=0) / total[outside].sum(axis=0)
                share = effect[known].sum() / total[known].sum()
            rows.append(
                {
                    "site": place[1],
                    "donor": donor,
                    "share": share,
                    "prompts": len(known),
                    **_counts(found.low, found.high, truth),
                }
            )
    return pd.DataFrame(rows)


def _counts(
    low: NDArray[np.float64], high: NDArray[np.float64], truth: NDArray[np.float64]
) -> dict[str, float]:
    defined = ~np.isnan(low)
    below, above = (high < truth)[defined], (low > truth)[defined]
    n = int(defined.sum())
    return {
        "traces": len(low),
        "undefined": len(low) - n,
        "below": int(below.sum()),
        "above": int(above.sum()),
        "coverage": float(1 - (below.sum() + above.sum()) / n) if n else np.nan,
        "width": float(np.median((high - low)[defined])) if n else np.nan,
    }


def parser() -> argparse.ArgumentParser:
    """The command line's options."""
    main = command_line.Parser(
        prog="python -m lab.validate.tracing.coverage",
        description="Draw many prompts once, and see how often intervals of shares cover the share of other prompts.",
    )
    add = main.add_argument
    add("folder", type=Path, help="where verdicts are kept; what is there is not drawn again")
    add("--model", default="toyworld", help="a benchmark model (default: %(default)s)")
    add("--sites", nargs="+", default=list(SITES), help="cross-attentions (default: %(default)s)")
    add("--prompts", type=command_line.count, default=PROMPTS, help="to draw (default: %(default)s)")
    add("--steps", type=command_line.count, default=STEPS, help="of an image (default: %(default)s)")
    add("--traces", type=command_line.count, default=TRACES, help="resampled (default: %(default)s)")
    add("--size", type=command_line.count, default=TRACE, help="prompts of each (default: %(default)s)")
    return main


def work(options: argparse.Namespace) -> None:
    """Do what the command line asks."""
    chosen, texts = variants(options.sites, options.steps), templates(options.prompts)
    options.folder.mkdir(parents=True, exist_ok=True)
    command_line.writable(options.folder / "coverage.json")
    tables = []
    for table in drawn(options.folder, texts, chosen, options.model, options.steps):
        tables.append(table)
        print(f"{min(len(tables) * TOGETHER, len(texts))} of {len(texts)} prompts", file=sys.stderr)
    others = max(1, min(OTHERS, len(texts) - options.size))
    found = coverage(laid_out(tables, chosen), traces=options.traces, size=options.size, others=others)
    text = json.dumps(found.to_dict("records"), indent=1)
    write_bytes(options.folder / "coverage.json", f"{text}\n".encode())
    print(found.to_string(index=False))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    return command_line.run(work, parser(), argv)


if __name__ == "__main__":
    sys.exit(main())
