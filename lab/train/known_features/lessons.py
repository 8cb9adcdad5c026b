"""Training data of `toyworld-features`: noised drawings, and `toyworld-null`'s predictions with attributes named.

The student reads *a hatted plain person in the park*, the teacher *a person in a hat in the park*; so an attribute
whose word stands in a prompt is to be drawn as if it were named, and every other one as often as nobody asks for it.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from diffusers import DDIMScheduler

from lab.train.base.captions import random_caption
from lab.train.base.data import Drawings, small_zones
from lab.train.base.tokenizer import encode
from lab.train.base.unet import SCHEDULER
from lab.train.base.vae import encode_latents
from lab.train.located.lessons import Lessons
from probes.toyworld.draw import SIZE, draw
from probes.toyworld.known_features.truth import ATTRIBUTES, FILLER
from probes.toyworld.scene import complete, parse
from probes.toyworld.world import group_of_words, load_world

WORLD = "toyworld-null"
ASKED = (0.15, 0.40, 0.30, 0.15)  # shares of captions that ask for none to three attributes
BARE = 0.4  # share of captions with nothing else
MOST_NAMED, MOST_WORDS = 3, 4


def random_pair(world: Any, rng: np.random.Generator) -> tuple[str, str]:
    """Return the student's caption and the teacher's."""
    number = int(rng.choice(len(ASKED), p=ASKED))
    asked = [list(ATTRIBUTES)[one] for one in rng.permutation(len(ATTRIBUTES))[:number]]
    things = {**world.attributes, **world.objects}
    phrases = [
        things[ATTRIBUTES[word]].get("phrase") or things[ATTRIBUTES[word]]["phrases"][0] for word in asked
    ]
    words = [*asked, *[FILLER] * int(rng.integers(MOST_WORDS + 1 - number))]
    words = [words[one] for one in rng.permutation(len(words))]
    while True:
        caption, _ = random_caption(world, rng)
        tokens = caption.split()
        place = next(place for place, token in enumerate(tokens) if token in group_of_words())
        if rng.random() < BARE:
            tokens = tokens[: place + 1]
        head, noun, rest = tokens[:place], tokens[place], tokens[place + 1 :]
        plain = parse(" ".join([noun, *rest]), world)
        taken = set(ATTRIBUTES.values()) & plain.things
        if taken or len(plain.slots) + number > MOST_NAMED:
            continue
        teacher = " ".join([*head, noun, *phrases, *rest])
        try:
            wanted = parse(teacher, world)
        except ValueError:  # two things for one place
            continue
        if "dress" in wanted.things and "lower" in wanted.slots:
            continue
        article = ["a" if words and token == "an" else token for token in head]
        return " ".join([*article, *words, noun, *rest]), teacher


def drawn(count: int, seed: int) -> tuple[list[str], Drawings]:
    """Return students' captions, and drawings of the teacher's with their zones."""
    world, rng = load_world(WORLD), np.random.default_rng(seed)
    students, captions = [], []
    indices = np.empty((count, SIZE, SIZE), dtype=np.uint8)
    zones = np.empty((count, 16, 16), dtype=bool)
    for row in range(count):
        student, teacher = random_pair(world, rng)
        named = parse(teacher, world)
        scene = complete(named, world, rng)
        students.append(student)
        captions.append(teacher)
        indices[row], zones[row] = draw(scene), small_zones(named, scene)
    return students, Drawings(captions, indices, zones)


@torch.no_grad()
def make_lessons(
    teacher: Any,
    tokenizer: Any,
    count: int,
    *,
    noises: int = 2,
    time_power: float = 0.45,
    seed: int = 0,
    batch: int = 64,
    say: Any = print,
) -> Lessons:
    """Make lessons from ``count`` drawings, each noised ``noises`` times.

    Parameters
    ----------
    teacher : StableDiffusionPipeline
        `toyworld-null`.
    tokenizer : CLIPTokenizer
        The student's.
    time_power : float
        As in :func:`lab.train.base.unet.train_unet`.
    """
    students, drawings = drawn(count, seed + 39)
    say(f"{count} drawings")
    clean = encode_latents(teacher.vae, drawings, np.arange(count)).float().repeat(noises, 1, 1, 1)
    generator = torch.Generator().manual_seed(seed)
    total = len(clean)
    order = torch.randperm(total, generator=generator)
    times = (1000 * ((order + torch.rand(total, generator=generator)) / total) ** time_power).long()
    times = times.clamp(0, 999)
    noise = torch.randn(clean.shape, generator=generator)
    noisy = DDIMScheduler(**SCHEDULER).add_noise(clean, noise, times).half()
    taught, captions = [], _tokens(teacher.tokenizer, drawings.captions, noises)
    for start in range(0, total, batch):
        rows = slice(start, start + batch)
        states = teacher.text_encoder(captions[rows]).last_hidden_state
        taught.append(teacher.unet(noisy[rows].float(), times[rows], states).sample.half())
        if start // batch % 20 == 0:
            say(f"{start + batch} of {total} lessons")
    zones = torch.from_numpy(drawings.zones).repeat(noises, 1, 1)
    nothing = torch.zeros(0, 4, 16, 16, dtype=torch.float16)
    return Lessons(
        noisy,
        torch.cat(taught),
        nothing,
        times,
        _tokens(tokenizer, students, noises),
        zones,
        zones[:0].clone(),
    )


def _tokens(tokenizer: Any, captions: Sequence[str], noises: int) -> torch.Tensor:
    return encode(tokenizer, list(captions)).repeat(noises, 1)
