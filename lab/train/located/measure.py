"""Quality of the located and wired benchmark models: ``python -m lab measure located toyworld-cross-4 ...``.

The total effect of the words, by the verdict on images of the same noise, and how often a named noun is still drawn.
Where the word enters needs no measuring: it holds by wiring.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated

import numpy as np
from diffusers import DiffusionPipeline

from lab.train.base.measure import nouns_drawn, sample
from probes.models import loading
from probes.toyworld import BENCHMARK_MODELS, TRANSFORMERS
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


def measure(
    model: Annotated[list[str], tuple(name for names in GROUPS_OF_MODELS.values() for name in names)],
    *,
    seeds: Annotated[int, "a prompt"] = 2,
    images: Annotated[int, "a noun"] = 4,
    steps: int = 10,
) -> Iterator[tuple[str, dict[str, object]]]:
    """Measure the total effect of the words, and how often a named noun is drawn."""
    for name in model:
        loaded, world = loading.load(loading.resolve(name), device="cpu"), load_world()
        values, same = verdicts(loaded.pipe, world, seeds=seeds, steps=steps)
        nouns = nouns_drawn(loaded.pipe, world, seeds=images, steps=steps, progress=False)
        group = next(group for group, names in GROUPS_OF_MODELS.items() if name in names)
        yield (
            f"{group}/{name}",
            {
                "weight_hash": loaded.record["weight_hash"],
                "verdict": VERSION,
                "steps": steps,
                "total_effect": total_effect(values),
                "means": {group: round(float(value.mean()), 3) for group, value in values.items()},
                "same_image": round(same, 4),
                "images_a_noun": images,
                "nouns_mean": round(float(nouns.mean()), 4),
                "nouns": {noun: round(float(share), 4) for noun, share in nouns.items()},
            },
        )
