"""Certificates of causal structures: ``python -m lab.validate.tracing.certificates [MODEL ...]``.

The effects of all subsets of a structure's places, by patched images: the truth that methods are scored against. Keys
and values of a subset are exchanged between images of the same noise, in the neutral word's image (sufficiency) and in
the others' (necessity).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lab.validate.tracing.coverage import templates
from lab.validate.tracing.methods import GUIDANCE
from probes import command_line
from probes.models import loading
from probes.runs.image_faults import eight_bits
from probes.runs.parts import write_bytes
from probes.stages.trace.draw import draw
from probes.stages.trace.triplet_draw import TripletDraw
from probes.stages.trace.variants import KEYS_AND_VALUES, Variant
from probes.toyworld import STRUCTURES, WEIGHTS
from probes.toyworld.checker import read_images
from probes.toyworld.structures.truth import CERTIFICATE, CausalStructure, structures
from probes.toyworld.verdict import VERSION, verdict
from probes.toyworld.world import World, load_world

PROMPTS, SEEDS, STEPS, DRAWN = 24, 2, 5, 1
WORDS = {"neutral": "person", "feminine": "woman", "masculine": "man"}
DONORS = ("feminine", "masculine")
ROWS = 64  # of a batch, about


def subsets(places: int) -> list[tuple[int, ...]]:
    """Return all sets of places but the empty one, by their numbers, small ones first."""
    return [some for size in range(1, places + 1) for some in combinations(range(places), size)]


def name_of(some: Iterable[int]) -> str:
    """Return what a set of places is called in a certificate: ``0+2``."""
    return "+".join(map(str, some))


def triplet_draws(pipe: Any, prompts: int, seeds: int) -> list[TripletDraw]:
    """Return the prompts and noises of certificates, each prompt with so many seeds."""
    texts = templates(prompts, seed=DRAWN)
    return [
        TripletDraw.of_texts(
            pipe,
            {name: text.replace("{person}", word) for name, word in WORDS.items()},
            WORDS,
            triplet=number,
            seed=seed,
        )
        for number, text in enumerate(texts)
        for seed in range(seeds)
    ]


def variants_of(structure: CausalStructure, steps: int) -> list[Variant]:
    """Return the unpatched images, then those of sufficiency and of necessity: donor by donor, subset by subset."""
    found = [Variant(f"none:{name}", "none", name) for name in WORDS]
    for estimand in ("sufficiency", "necessity"):
        for donor in DONORS:
            recipient, source = ("neutral", donor) if estimand == "sufficiency" else (donor, "neutral")
            for some in subsets(len(structure.places)):
                sites = tuple(structure.sites[place] for place in some)
                found.append(
                    Variant(
                        f"{estimand}:{donor}:{name_of(some)}",
                        "site",
                        recipient,
                        source,
                        sites=sites,
                        part=KEYS_AND_VALUES,
                        stop_step=steps,
                    )
                )
    return found


def verdicts(
    pipe: Any,
    world: World,
    draws: Sequence[TripletDraw],
    variants: Sequence[Variant],
    steps: int,
) -> NDArray[np.float64]:
    """Return the verdict of every image, ``(draws, variants)``."""
    found, at_once = [], max(1, ROWS // len(variants))
    for start in range(0, len(draws), at_once):
        some = draws[start : start + at_once]
        images = draw(pipe, some, variants, steps=steps, guidance_scale=GUIDANCE)
        prompts = [one.draw.prompts[one.variant.recipient] for one in images]
        pixels = np.stack([eight_bits(one.image) for one in images])
        found.append(verdict(read_images(pixels), prompts, world).reshape(len(some), len(variants)))
    return np.concatenate(found)


def certificate(
    structure: CausalStructure, values: NDArray[np.float64], *, steps: int, seeds: int
) -> dict[str, Any]:
    """Return the effects of all subsets, from `verdicts` of draws that are prompt by prompt, seed by seed.

    Returns
    -------
    dict
        ``total``: mean and standard error over prompts of the difference of the verdict, masculine less feminine;
        ``sufficiency`` and ``necessity``: by subset (``0+1``, numbers of `CausalStructure.places`) the
        same of its change.
    """
    of_prompt = values.reshape(-1, seeds, values.shape[1]).mean(1)
    names = [one.name for one in variants_of(structure, steps)]
    by_name = dict(zip(names, of_prompt.T, strict=True))
    total = by_name["none:masculine"] - by_name["none:feminine"]
    found: dict[str, Any] = {
        "verdict": VERSION,
        "prompts": len(of_prompt),
        "seeds": seeds,
        "steps": steps,
        "guidance_scale": GUIDANCE,
        "total": _mean(total),
        "sufficiency": {},
        "necessity": {},
    }
    for some in map(name_of, subsets(len(structure.places))):
        enough, without = (
            by_name[f"{estimand}:masculine:{some}"] - by_name[f"{estimand}:feminine:{some}"]
            for estimand in ("sufficiency", "necessity")
        )
        found["sufficiency"][some] = _mean(enough)
        found["necessity"][some] = _mean(total - without)
    return found


def _mean(values: NDArray[np.float64]) -> dict[str, float]:
    error = values.std(ddof=1) / len(values) ** 0.5 if len(values) > 1 else float("nan")
    return {"mean": round(float(values.mean()), 4), "se": round(float(error), 4)}


def parser() -> argparse.ArgumentParser:
    """The command line's options."""
    main = command_line.Parser(
        prog="python -m lab.validate.tracing.certificates", description=__doc__.split("\n\n")[0]
    )
    main.add_argument("models", nargs="+", choices=STRUCTURES, help="causal structures")
    main.add_argument(
        "--out", type=Path, default=WEIGHTS / "structures", help="folder of NAME/certificate.json"
    )
    main.add_argument("--prompts", type=command_line.count, default=PROMPTS, help="(default: %(default)s)")
    main.add_argument(
        "--seeds", type=command_line.count, default=SEEDS, help="a prompt (default: %(default)s)"
    )
    main.add_argument(
        "--steps", type=command_line.count, default=STEPS, help="of an image (default: %(default)s)"
    )
    return main


def work(options: argparse.Namespace) -> None:
    """Do what the command line asks."""
    command_line.writable(options.out, folder=True)
    for name in options.models:
        loaded, structure = loading.load(loading.resolve(name), device="cpu"), structures()[name]
        loaded.pipe.set_progress_bar_config(disable=True)
        draws = triplet_draws(loaded.pipe, options.prompts, options.seeds)
        variants, world = variants_of(structure, options.steps), load_world(structure.world)
        values = verdicts(loaded.pipe, world, draws, variants, options.steps)
        found = certificate(structure, values, steps=options.steps, seeds=options.seeds)
        path = options.out / name / CERTIFICATE
        path.parent.mkdir(parents=True, exist_ok=True)
        found = {"weight_hash": loaded.record["weight_hash"], **found}
        write_bytes(path, (json.dumps(found, indent=1) + "\n").encode())
        print(f"{name}: total effect {found['total']['mean']} ({found['total']['se']})", flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    return command_line.run(work, parser(), argv)


if __name__ == "__main__":
    sys.exit(main())
