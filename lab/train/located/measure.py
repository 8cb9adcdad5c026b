"""Quality of the located and wired benchmark models: ``python -m lab.train.located.measure toyworld-cross-4 ...``.

The total effect of the words, by the verdict on images of the same noise, and how often a named noun is still drawn.
Where the word enters needs no measuring: it holds by wiring.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from diffusers import DiffusionPipeline

from lab.train.base.measure import nouns_drawn, sample
from probes import command_line
from probes.models import loading
from probes.toyworld import BENCHMARK_MODELS, TRANSFORMERS, WEIGHTS
from probes.toyworld.checker import read_images
from probes.toyworld.places import known_places
from probes.toyworld.verdict import VERSION, verdict
from probes.toyworld.world import GROUPS, World, load_world

REFERENCE = BENCHMARK_MODELS[0]
# where nothing is said, each model's quality lies beside what is stored of it, and a reference's beside theirs
GROUPS_OF_MODELS = {
    "located": (REFERENCE, *known_places("located")),
    "structures": tuple(known_places("structures")),
    "wired": (TRANSFORMERS[0], *known_places("wired")),
}
RESAMPLES = 10_000


def endings(world: World) -> list[str]:
    """Return what follows the subject of the 43 prompts: nothing, each place, context and object, in a phrase each."""
    phrases = [phrases[0] for phrases in world.places.values()]
    phrases += [*world.contexts, *(entry["phrases"][0] for entry in world.objects.values())]
    return ["", *(f" {phrase}" for phrase in dict.fromkeys(phrases))]


def verdicts(
    pipeline: DiffusionPipeline,
    world: World,
    *,
    seeds: int = 2,
    first_seed: int = 400_000,
    steps: int = 10,
) -> tuple[dict[str, np.ndarray], float]:
    """Verdicts of images by group ``(prompts, seeds)``, and how often all three words of a prompt drew the same image.

    The noise is the same for all three.
    """
    tails = [ending for ending in endings(world) for _ in range(seeds)]
    noise = range(first_seed, first_seed + len(tails))
    images, values = {}, {}
    for group in GROUPS:
        prompts = [f"a {world.words(group)[0]}{ending}" for ending in tails]
        images[group] = sample(pipeline, prompts, noise, steps=steps, progress=False)
        values[group] = verdict(read_images(images[group]), prompts, world).reshape(-1, seeds)
    same = [(images[group] == images["neutral"]).all((1, 2, 3)) for group in ("feminine", "masculine")]
    return values, float(np.mean(same[0] & same[1]))


def total_effect(values: Mapping[str, np.ndarray], seed: int = 0) -> dict[str, object]:
    """The mean verdict on images generated from masculine prompts less that on those from feminine ones.

    ``interval`` (95 %) is of percentiles of a bootstrap over prompts.
    """
    of_prompt = (values["masculine"] - values["feminine"]).mean(1)
    drawn = np.random.default_rng(seed).integers(len(of_prompt), size=(RESAMPLES, len(of_prompt)))
    ends = np.quantile(of_prompt[drawn].mean(1), [0.025, 0.975])
    return {
        "mean": round(float(of_prompt.mean()), 3),
        "se": round(float(of_prompt.std(ddof=1) / len(of_prompt) ** 0.5), 3),
        "interval": [round(float(end), 3) for end in ends],
        "prompts": len(of_prompt),
        "seeds": values["masculine"].shape[1],
    }


def quality(name: str, *, seeds: int, images: int, steps: int) -> dict[str, object]:
    """Return what is published of a benchmark model; see the page it is written for (`lab.pages.toyworld`)."""
    loaded, world = loading.load(loading.resolve(name), device="cpu"), load_world()
    values, same = verdicts(loaded.pipe, world, seeds=seeds, steps=steps)
    nouns = nouns_drawn(loaded.pipe, world, seeds=images, steps=steps, progress=False)
    return {
        "weight_hash": loaded.record["weight_hash"],
        "verdict": VERSION,
        "steps": steps,
        "total_effect": total_effect(values),
        "means": {group: round(float(value.mean()), 3) for group, value in values.items()},
        "same_image": round(same, 4),
        "images_a_noun": images,
        "nouns_mean": round(float(nouns.mean()), 4),
        "nouns": {noun: round(float(share), 4) for noun, share in nouns.items()},
    }


def parser() -> argparse.ArgumentParser:
    """The command line's options."""
    main = command_line.Parser(
        prog="python -m lab.train.located.measure", description=__doc__.split("\n\n")[0]
    )
    main.add_argument("model", nargs="+", choices=[one for some in GROUPS_OF_MODELS.values() for one in some])
    main.add_argument("--out", type=Path, default=WEIGHTS, help="folder of GROUP/NAME/quality.json")
    main.add_argument("--seeds", type=command_line.count, default=2, help="a prompt")
    main.add_argument("--images", type=command_line.count, default=4, help="a noun")
    main.add_argument("--steps", type=command_line.whole_number(1, 1000), default=10)
    main.add_argument("--threads", type=command_line.threads, default=1)
    return main


def work(options: argparse.Namespace) -> None:
    """Do what the command line asks."""
    command_line.writable(options.out, folder=True)
    torch.set_num_threads(options.threads)
    for name in options.model:
        measured = quality(name, seeds=options.seeds, images=options.images, steps=options.steps)
        group = next(group for group, names in GROUPS_OF_MODELS.items() if name in names)
        folder = options.out / group / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "quality.json").write_text(json.dumps(measured, indent=1) + "\n")
        print(f"{name}: total effect {measured['total_effect']}", flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    return command_line.run(work, parser(), argv)


if __name__ == "__main__":
    sys.exit(main())
