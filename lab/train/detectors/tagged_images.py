"""Training and test images of toyworld's tagger: renderings and drawn images, and what the checker sees in them."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from analysis.observe.objects.models.toyworld_checker import ToyworldChecker
from lab.train.base.captions import random_caption
from lab.train.base.measure import benchmark_pipeline, sample
from lab.train.detectors.pictures import WORLD, Pictures, reconstructed
from probes.toyworld import BENCHMARK_MODELS, WEIGHTS
from probes.toyworld.checker import PERSON, TAGS, read_images
from probes.toyworld.draw import draw
from probes.toyworld.palette import RGB
from probes.toyworld.scene import sample_scene
from probes.toyworld.world import World, load_world

TAG_NAMES: tuple[str, ...] = (*TAGS, *load_world().places)
BARE = 0.05  # share of renderings without a figure: else every picture has one
TRAINING = 100_000  # first seed of what is trained on
THROUGH_VAE = 0.25
DRAWN_STEPS, REPEATS = 12, 3  # of images drawn for the training
HELD_BACK = 5  # every so many images, for the thresholds
RARE_STEPS, RARE_DTYPE = (
    5,
    torch.bfloat16,
)  # as docs/validation/gep_audit.yaml draws, and says how near that is
LOTS = 40  # captions of which one is taken


def tagged(images: NDArray[np.uint8]) -> Pictures:
    """Pictures with what the checker sees in them, ``truth`` in the order of `TAG_NAMES`."""
    return Pictures(images, truth=checked(images))


def checked(images: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Return what the checker sees of each of `TAG_NAMES` in pictures ``(n, 64, 64, 3)``: ``(n, tags)``."""
    frame = read_images(images)
    seen = ToyworldChecker().detect(list(images), [()] * len(images))
    frame[PERSON] = [any(one.label == PERSON for one in some.detections) for some in seen]
    return frame[list(TAG_NAMES)].to_numpy(bool)


def make_tagged_images(count: int, drawn_count: int, seed: int, rare: int = 0) -> tuple[Pictures, Pictures]:
    """Pictures to train on, and pictures held back for the thresholds: a fifth of the last.

    ``count`` renderings, a quarter of them through the autoencoder; ``drawn_count`` images of each benchmark model,
    which are repeated; and images drawn in few steps from captions that name every tag ``rare`` times.
    """
    rendered = tagged(renderings(count, TRAINING + seed, through_vae=THROUGH_VAE))
    taken, held_back = [rendered], rendered.rows(slice(0))
    if drawn_count:
        taken += [tagged(drawn(drawn_count, 5 * TRAINING + seed, steps=DRAWN_STEPS))] * REPEATS
    if rare:
        more = tagged(drawn(0, 8 * TRAINING + seed, steps=RARE_STEPS, each=rare, dtype=RARE_DTYPE))
        back = np.arange(len(more)) % HELD_BACK == 0
        taken, held_back = [*taken, more.rows(~back)], more.rows(back)
    return Pictures.together(taken), held_back


def renderings(count: int, seed: int, *, through_vae: float = 0.5) -> NDArray[np.uint8]:
    """Renderings, a few without a figure, the last `through_vae` of them as the autoencoder gives them back."""
    world, rng = load_world(WORLD), np.random.default_rng(seed)
    scenes = (sample_scene(random_caption(world, rng)[1], world, rng) for _ in range(count))
    images = RGB[np.stack([draw(scene, figures=bool(rng.random() >= BARE)) for scene in scenes])]
    return reconstructed(images, through_vae, seed)


def drawn(
    count: int, seed: int, *, steps: int, each: int = 0, dtype: torch.dtype = torch.float32
) -> NDArray[np.uint8]:
    """Images drawn by the three benchmark models, one after the other, from the captions of `random_captions`."""
    images = []
    for number, model in enumerate(BENCHMARK_MODELS):
        first = seed + 10_000 * number
        captions = random_captions(load_world(model), count, first, each)
        pipeline, scale = benchmark_pipeline(WEIGHTS / model, dtype=dtype)
        seeds, options = first + np.arange(len(captions)), {"steps": steps, "guidance_scale": scale}
        images.append(sample(pipeline, captions, seeds, batch_size=64, progress=False, **options))
    return np.concatenate(images)


def random_captions(world: World, count: int, seed: int, each: int = 0) -> list[str]:
    """So many random captions, and then more until every attribute, object and place is named at least `each` times.

    Of every `LOTS` random captions the one is added that names most of what is named too seldom so far, so that a
    rare thing takes few captions.
    """
    rng = np.random.default_rng(seed)
    drawn_captions = [random_caption(world, rng) for _ in range(count)]
    missing = dict.fromkeys((*world.attributes, *world.objects, *world.places), each)

    def count_off(things: set[str]) -> None:
        for thing in things:
            missing[thing] = max(0, missing[thing] - 1)

    for _, named in drawn_captions:
        count_off(named.things)
    while any(missing.values()):
        more = [random_caption(world, rng) for _ in range(LOTS)]
        drawn_captions.append(max(more, key=lambda lot: sum(missing[thing] for thing in lot[1].things)))
        count_off(drawn_captions[-1][1].things)
    return [caption for caption, _ in drawn_captions]
