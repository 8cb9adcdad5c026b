"""Trace, edit, certificate: ``python -m lab.validate.tracing.frontier MODEL ... --runs FOLDER``.

Traces each model as a user would (24 prompts, both ways, the top places in pairs), takes the smallest sets of places
that the trace names, and edits the model there, at all cross-attentions, and at all others: several kinds of edit, in
several amounts. What each edit changes is read on captions that were not traced, with intervals that hold for all
numbers of a model at once. Writes ``traced_edits.json``, the page and the figure beside it.
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
from numpy.typing import NDArray

from analysis.methods.mitigation.readings import judged
from analysis.methods.tracing.smallest import ENOUGH, NEEDED, PlaceSet, smallest_set
from analysis.methods.tracing.stored import read_trace
from analysis.report.figures import files
from analysis.stats.ratio_sets import mean_sets
from hooks import sites
from lab.validate.tracing.coverage import templates
from lab.validate.tracing.edited import NOISE, WORDS
from lab.validate.tracing.edited import templates as held_out
from lab.validate.tracing.frontier_page import FIGURE, draw_frontier, page
from lab.validate.tracing.options import require_known
from probes import command_line
from probes.errors import UserError
from probes.models import edits, loading
from probes.models.edits import Edit
from probes.runs.parts import write_bytes
from probes.runs.store import Run
from probes.toyworld import CHOICES, FIGURES, STRUCTURES
from probes.toyworld.checker import read_images
from probes.toyworld.located.truth import located_models
from probes.toyworld.structures.truth import all_structures
from probes.toyworld.world import World, load_world

TRACED, ALL, ELSEWHERE = "traced", "all", "elsewhere"
PLACES = (TRACED, ALL, ELSEWHERE)
AMOUNTS = (0.5, 1.0)
LEAN, KEPT, OBEYED, NAMED = "lean", "kept", "obeyed", "named"  # what is read of each prompt
AIMS = {  # which set of places an edit is made at; None: the self-attentions whose probes are best
    "keys_and_values": ENOUGH,
    "project": NEEDED,
    "steer": ENOUGH,
    "steer_choice": None,
}
KINDS = tuple(AIMS)
PROMPTS, TRACE, STEPS, DRAWN = 48, 24, 5, 1
CONTEXTS = (
    "a photo of a {person}",
    "a {person} in a forest",
    "a {person} next to a car",
    "a {person} on a chair",
)
SAMPLING = {"level": 0.95, "resamples": 2000, "seed": 0}
Values = NDArray[np.float64]


def edit_of(kind: str, amount: float, where: Sequence[str]) -> Edit:
    """Return an edit of *person* towards *woman*, or of what parts *woman* from *man*, at some attentions."""
    asked: dict[str, Any] = {"kind": kind, "sites": list(where), "contexts": list(CONTEXTS)}
    if kind == "keys_and_values":
        return Edit(**asked, words={WORDS[0]: {WORDS[1]: amount}}, keep=list(WORDS[1:]))
    if kind == "steer":
        return Edit(**asked, words={WORDS[0]: {WORDS[1]: 1.0}}, keep=list(WORDS[1:]), amount=amount)
    if kind == "steer_choice":
        return Edit(**asked, words={WORDS[0]: dict(zip(WORDS[1:], (1.0, 0.0)))}, amount=amount)
    return Edit(**asked, direction=list(WORDS[1:]), amount=amount)


def traced_sets(model: str, folder: Path) -> tuple[dict[str, PlaceSet | None], dict[str, Any]]:
    """Return the smallest sets of places that a trace of the model names, and the total effect of the words there."""
    import triptych

    path = folder / model
    if not (path / "run.json").exists() or "trace_shares" not in Run.open(path).tables():
        triptych.run(
            {
                "model": model,
                "indicators": dict(zip(("neutral", "feminine", "masculine"), WORDS)),
                "contrasts": [["masculine", "feminine"]],
                "prompts": templates(TRACE, seed=DRAWN),
                "seeds": [0],
                "sampler": {"steps": STEPS},
                "capture": {"sites": ["latent.final"], "words": False},
                "observe": {"objects": False, "features": []},
                "trace": {"curve": 0, "cuts": False},
            },
            progress=False,
            out=str(path),
        )
    found = read_trace(Run.open(path))
    total = found.shown("trace_total").iloc[0]
    shares = found.shown("trace_shares")
    sets = {one: smallest_set(shares, one) if total["told_from_0"] else None for one in (ENOUGH, NEEDED)}
    return sets, {name: float(total[name]) for name in ("total", "total_low", "total_high")}


def readings(
    images: NDArray[np.uint8], plain: NDArray[np.uint8], texts: Sequence[str], world: World
) -> dict[str, Values]:
    """Return what is read of each prompt: of the neutral word its verdict, of the kept words what moved.

    Parameters
    ----------
    images, plain : ndarray of uint8, shape (words * prompts, 64, 64, 3)
        Of the edited and of the unedited model, word by word.
    texts
        Prompts with ``{person}``.

    Returns
    -------
    dict
        Arrays of shape (prompts,): `LEAN` is 1 where the verdict of *person* is for component b, else 0; `KEPT` the
        mean difference of the images of *woman* and *man* from the unedited ones, 0 to 1; `OBEYED` is 1 where *man*
        reads b and *woman* a, -1 where it is the other way round, else 0; `NAMED` the share of the named things that
        are drawn, over all words.
    """
    prompts = [text.replace("{person}", word) for word in WORDS for text in texts]
    seen = judged(read_images(images), prompts, world)
    is_b = (seen["verdict"].to_numpy(float) > 0).astype(float).reshape(len(WORDS), -1)
    apart = np.abs(images.astype(float) - plain.astype(float)).mean(axis=(1, 2, 3)) / 255
    named = pd.DataFrame(seen["named"].to_numpy(float).reshape(len(WORDS), -1))
    return {
        LEAN: is_b[0],
        KEPT: apart.reshape(len(WORDS), -1)[1:].mean(0),
        OBEYED: is_b[2] - is_b[1],
        NAMED: named.mean().to_numpy(),
    }


def frontier(
    pipe: Any,
    world: World,
    traced: Mapping[str, PlaceSet | None],
    texts: Sequence[str],
    draw: Callable[[Sequence[str]], NDArray[np.uint8]],
    *,
    kinds: Sequence[str] = KINDS,
    amounts: Sequence[float] = AMOUNTS,
    say: Callable[[str], Any] = lambda text: None,
) -> list[dict[str, Any]]:
    """Return what every edit changes: one row per kind, amount, place and measure, with an interval of all rows.

    Rows of the place ``all less traced`` are what the same edit at all cross-attentions changes beyond it.
    """
    addresses, inner = (
        [site.address for site in sites.attention_sites(pipe, which)] for which in ("cross", "self")
    )
    prompts = [text.replace("{person}", word) for word in WORDS for text in texts]
    plain = draw(prompts)
    before = readings(plain, plain, texts, world)
    rows, changes = [], []
    for kind in kinds:
        own = traced[aim] if (aim := AIMS[kind]) else None
        named = list(own.sites) if own else []
        where = {TRACED: named, ALL: addresses, ELSEWHERE: [one for one in addresses if one not in named]}
        if aim is None:
            where = {ALL: inner}
        for amount in amounts:
            found: dict[str, dict[str, Values]] = {}
            for place in PLACES:
                if where.get(place):
                    with edits.apply(pipe, edit_of(kind, amount, where[place])):
                        after = readings(draw(prompts), plain, texts, world)
                    found[place] = {name: after[name] - before[name] for name in after}
            for place, changed in found.items():
                for name, values in changed.items():
                    rows.append({"kind": kind, "amount": amount, "place": place, "measure": name})
                    changes.append(values)
            for name in before if TRACED in found else ():
                rows.append({"kind": kind, "amount": amount, "place": "all less traced", "measure": name})
                changes.append(found[ALL][name] - found[TRACED][name])
            say(f"{kind}, {amount:g}")
    sets = mean_sets(np.column_stack(changes), **SAMPLING)
    for number, row in enumerate(rows):
        ends = (sets.ratio[number], sets.joint_low[number], sets.joint_high[number])
        row |= {name: round(float(value), 5) for name, value in zip(("mean", "low", "high"), ends)}
    return rows


def true_sites(model: str) -> list[str] | None:
    """Return the places that take part by wiring; None where nobody knows."""
    if model in (*STRUCTURES, *CHOICES):
        return list(all_structures()[model].sites)
    return list(located_models()[model].sites) if model in located_models() else None


def parser() -> argparse.ArgumentParser:
    """The command line's options."""
    main = command_line.Parser(
        prog="python -m lab.validate.tracing.frontier",
        description="Trace models, edit them where the trace points and elsewhere, and read what that changes.",
    )
    add = main.add_argument
    add(
        "models", nargs="*", help="benchmark models (none: only the page is written anew from what is stored)"
    )
    add(
        "--runs",
        type=Path,
        default=Path("runs/traced_edits"),
        help="where traces are kept (default: %(default)s)",
    )
    add(
        "--prompts", type=command_line.count, default=PROMPTS, help="held-out captions (default: %(default)s)"
    )
    add("--out", type=Path, default=Path("docs/validation/traced_edits.md"), help="page to write")
    return main


def work(options: argparse.Namespace) -> None:
    """Do what the command line asks."""
    require_known(options.models, FIGURES, "benchmark models")
    stored = options.out.with_suffix(".json")
    command_line.writable(options.out)
    results = json.loads(stored.read_text("utf-8")) if stored.is_file() else {}
    if not (results or options.models):
        raise UserError(
            f"command line: expected benchmark models, or results in {stored}, found neither: name a model"
        )
    for name in options.models:
        results[name] = _result(name, options)
        write_bytes(stored, (json.dumps(results, indent=1) + "\n").encode())
    write_bytes(options.out, page(results).encode())
    write_bytes(options.out.with_name(f"{FIGURE}.png"), files(draw_frontier(results))[f"{FIGURE}.png"])
    print(options.out)


def _result(name: str, options: argparse.Namespace) -> Mapping[str, Any]:
    from lab.train.base.measure import sample

    traced, total = traced_sets(name, options.runs)
    loaded, texts = loading.load(loading.resolve(name), device="cpu"), held_out(options.prompts)

    def draw(prompts: Sequence[str]) -> NDArray[np.uint8]:
        noise = [NOISE + number % len(texts) for number in range(len(prompts))]
        scale = loaded.guidance_scale
        return sample(loaded.pipe, prompts, noise, steps=STEPS, guidance_scale=scale, progress=False)

    world = load_world(loaded.record["card"]["world"])
    rows = frontier(
        loaded.pipe,
        world,
        traced,
        texts,
        draw,
        say=lambda text: print(f"{name}: {text}", file=sys.stderr, flush=True),
    )
    return {
        **total,
        "traced": {name: None if one is None else _plain(one) for name, one in traced.items()},
        **{"true": true_sites(name), "prompts": len(texts), "steps": STEPS, "trace": TRACE},
        "rows": rows,
    }


def _plain(found: PlaceSet) -> dict[str, Any]:
    ends = {"low": round(found.low, 4), "high": round(found.high, 4)} if found.at_once else {}
    return {"sites": list(found.sites), "share": round(found.share, 4), **ends}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    return command_line.run(work, parser(), argv)


if __name__ == "__main__":
    sys.exit(main())
