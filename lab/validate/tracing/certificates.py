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

from lab.validate.tracing.methods import GUIDANCE, WORDS, Subject, templates, verdicts
from probes import command_line
from probes.models import loading
from probes.runs.parts import write_bytes
from probes.stages.trace.seeded_triplet import SeededTriplet
from probes.stages.trace.variants import KEYS_AND_VALUES, Variant
from probes.toyworld import WEIGHTS
from probes.toyworld.places import CERTIFICATE, KnownPlaces, known_places
from probes.toyworld.verdict import VERSION
from probes.toyworld.world import load_world

PROMPTS, SEEDS, STEPS, DRAWN = 24, 2, 5, 1
DONORS = ("feminine", "masculine")


def subsets(places: int) -> list[tuple[int, ...]]:
    """All sets of places but the empty one, by their numbers, small ones first."""
    return [some for size in range(1, places + 1) for some in combinations(range(places), size)]


def name_of(some: Iterable[int]) -> str:
    """Name of a set of places in a certificate: ``0+2``."""
    return "+".join(map(str, some))


def seeded_triplets(pipe: Any, prompts: int, seeds: int) -> list[SeededTriplet]:
    """The prompts and noises of certificates, each prompt with so many seeds."""
    return [
        SeededTriplet.from_prompts(
            pipe,
            {name: text.replace("{person}", word) for name, word in WORDS.items()},
            WORDS,
            number=number,
            seed=seed,
        )
        for number, text in enumerate(templates(prompts, seed=DRAWN))
        for seed in range(seeds)
    ]


def variants_of(structure: KnownPlaces, steps: int) -> list[Variant]:
    """The unpatched images, then those of sufficiency and of necessity: donor by donor, subset by subset."""
    found = [Variant(f"none:{name}", "none", name) for name in WORDS]
    for estimand in ("sufficiency", "necessity"):
        for donor in DONORS:
            pair = ("neutral", donor) if estimand == "sufficiency" else (donor, "neutral")
            for some in subsets(len(structure.places)):
                sites = tuple(structure.sites[place] for place in some)
                patch = {"sites": sites, "part": KEYS_AND_VALUES, "stop_step": steps}
                found.append(Variant(f"{estimand}:{donor}:{name_of(some)}", "site", *pair, **patch))
    return found


def certificate(
    structure: KnownPlaces, values: NDArray[np.float64], *, steps: int, seeds: int
) -> dict[str, Any]:
    """The effects of all subsets, from the verdicts of triplets that are prompt by prompt, seed by seed.

    ``total`` is the mean and standard error over prompts of the difference of the verdict, masculine less feminine;
    ``sufficiency`` and ``necessity`` have the same of its change by subset.
    """
    of_prompt = values.reshape(-1, seeds, values.shape[1]).mean(1)
    by_name = dict(zip([one.name for one in variants_of(structure, steps)], of_prompt.T, strict=True))
    total = by_name["none:masculine"] - by_name["none:feminine"]
    effects: dict[str, dict] = {"sufficiency": {}, "necessity": {}}
    for some in map(name_of, subsets(len(structure.places))):
        enough, without = (
            by_name[f"{estimand}:masculine:{some}"] - by_name[f"{estimand}:feminine:{some}"]
            for estimand in effects
        )
        effects["sufficiency"][some], effects["necessity"][some] = _mean(enough), _mean(total - without)
    about = {"verdict": VERSION, "prompts": len(of_prompt), "seeds": seeds, "steps": steps}
    return {**about, "guidance_scale": GUIDANCE, "total": _mean(total), **effects}


def _mean(values: NDArray[np.float64]) -> dict[str, float]:
    error = values.std(ddof=1) / len(values) ** 0.5 if len(values) > 1 else float("nan")
    return {"mean": round(float(values.mean()), 4), "se": round(float(error), 4)}


def parser() -> argparse.ArgumentParser:
    """The command line's options."""
    main = command_line.Parser(
        prog="python -m lab.validate.tracing.certificates", description=__doc__.split("\n\n")[0]
    )
    add = main.add_argument
    add("models", nargs="+", choices=list(known_places("structures")), help="causal structures")
    add("--out", type=Path, default=WEIGHTS / "structures", help="folder of NAME/certificate.json")
    return main


def work(options: argparse.Namespace) -> None:
    """Do what the command line asks."""
    command_line.writable(options.out, folder=True)
    for name in options.models:
        loaded, structure = (
            loading.load(loading.resolve(name), device="cpu"),
            known_places("structures")[name],
        )
        loaded.pipe.set_progress_bar_config(disable=True)
        triplets = seeded_triplets(loaded.pipe, PROMPTS, SEEDS)
        subject = Subject(loaded.pipe, triplets, "neutral", DONORS[0], STEPS, load_world(structure.world))
        found = certificate(
            structure, verdicts(subject, variants_of(structure, STEPS)), steps=STEPS, seeds=SEEDS
        )
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
