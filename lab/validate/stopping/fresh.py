"""Audits each of images of its own, drawn on a GPU: ``python -m lab.validate.stopping.fresh toyworld … --out FOLDER``.

The audits of a long run are orders of the same images. Here every audit has prompts and noise that no other has, so
that what they find is independent, and the gap of all of them is very nearly the truth. Only what is needed of the
images is stored: how near the final latents of the words of each prompt are to each other.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from analysis.tables.similarities.control_columns import SideWords
from lab.validate.stopping.designs import MOST
from lab.validate.stopping.pools import LONG_RUNS, NULL, STEPS, answered, pairs_of, word_audits
from lab.validate.tracing.coverage import templates
from probes import command_line
from probes.errors import UserError
from probes.models import loading

AUDITS = 60
TRANSFORMERS = {name: (name, "own") for name in ("toyworld-dit", "toyworld-dit-mirror", "toyworld-dit-null")}
DRAWN = {**LONG_RUNS, **TRANSFORMERS}  # the model and the noise of each
SIDES = {  # the words of triplets.yaml
    "first": {"masculine": "man", "gentleman": "gentleman", "male": "male"},
    "second": {"feminine": "woman", "lady": "lady", "female": "female"},
    "reference": {"neutral": "person", "human": "human", "figure": "figure"},
}


def words() -> SideWords:
    """Return the names of the words of both sides and of the reference."""
    return SideWords(*(list(SIDES[side]) for side in ("first", "second", "reference")))


def near_latents(latents: Tensor) -> NDArray[np.float32]:
    """Return how near the final latents of each pair of words are: cosines, as of `z0`.

    Parameters
    ----------
    latents : Tensor, shape (n_words, n_prompts, ...)
        In the order of `SIDES`.

    Returns
    -------
    ndarray, shape (n_pairs, n_prompts)
        In the order of `lab.validate.stopping.pools.pairs_of`.
    """
    names = [name for side in SIDES.values() for name in side]
    flat = torch.nn.functional.normalize(latents.flatten(2).double(), dim=-1)
    pairs = [tuple(map(names.index, pair)) for pair in pairs_of(words())]
    return np.stack([(flat[a] * flat[b]).sum(-1).cpu().numpy() for a, b in pairs]).astype(np.float32)


@torch.inference_mode()
def drawn(
    pipe: Any, texts: Sequence[str], noise: str, guidance_scale: float, seed: int, steps: int
) -> Tensor:
    """Return the final latents of every word of some prompts, shape (n_words, n_prompts, ...).

    Parameters
    ----------
    texts : sequence of str
        With ``{person}`` in the place of the word.
    noise : {"own", "independent"}
        Whether the words of a prompt begin with the same noise.
    seed : int
        Of the noise.
    """
    spoken = [word for side in SIDES.values() for word in side.values()]
    denoiser = getattr(pipe, "unet", None) or pipe.transformer
    shape = (denoiser.config.in_channels, denoiser.config.sample_size, denoiser.config.sample_size)
    generator = torch.Generator().manual_seed(seed)
    count = len(spoken) if noise == "independent" else 1
    start = torch.randn((count, len(texts), *shape), generator=generator)
    start = start.expand(len(spoken), *start.shape[1:]).flatten(0, 1)
    prompts = [text.replace("{person}", word) for word in spoken for text in texts]
    latents = pipe(
        prompts,
        latents=start.to(pipe.device),
        num_inference_steps=steps,
        guidance_scale=guidance_scale,
        output_type="latent",
    ).images
    return latents.unflatten(0, (len(spoken), len(texts)))


def audits_drawn(
    name: str, audits: int, *, device: str, seconds: float, prompts: int = MOST, steps: int = STEPS
) -> Iterator[NDArray[np.float32]]:
    """Yield the nearness of words of one audit after another, shape (n_pairs, n_prompts), while there is time."""
    model, noise = DRAWN[name]
    loaded = loading.load(loading.resolve(model), device=device)
    loaded.pipe.set_progress_bar_config(disable=True)
    pool, ends = templates(20 * prompts, seed=1), time.monotonic() + seconds
    for audit in range(audits):
        chosen = np.random.default_rng([audit, 1400]).choice(len(pool), prompts, replace=False)
        texts = [pool[place] for place in chosen]
        seed = 10_000 * list(DRAWN).index(name) + audit
        yield near_latents(drawn(loaded.pipe, texts, noise, loaded.guidance_scale, seed, steps))
        if time.monotonic() > ends:
            return


def answered_fresh(file: Path) -> dict[str, Any]:
    """Return how each design answers in the audits of a file, a row as of `lab.validate.stopping.pools.replayed`."""
    name = file.stem
    if name not in DRAWN:
        raise UserError(
            f"{file}: expected a name of {', '.join(DRAWN)}, got {name!r}: leave files as they are named"
        )
    with np.load(file) as kept:
        near = kept["near"].astype(np.float64)
    audits = word_audits(near, words(), "z0")
    null = DRAWN[name][0].endswith(NULL)
    return {"part": "fresh", "world": name, **answered(audits, "z0", null=null)}


def parser() -> argparse.ArgumentParser:
    """The command line's options."""
    main = command_line.Parser(
        prog="python -m lab.validate.stopping.fresh",
        description="Draw audits of benchmark models, each with prompts and noise of its own.",
    )
    add = main.add_argument
    add("models", nargs="*", metavar="MODEL", help=f"of {', '.join(DRAWN)} (default: all)")
    add("--audits", type=command_line.count, default=AUDITS, help="of each model (default: %(default)s)")
    add("--seconds", type=float, default=float("inf"), help="of each model, after which no audit begins")
    add("--device", default="cuda" if torch.cuda.is_available() else "cpu", help="(default: %(default)s)")
    add("--out", type=Path, required=True, help="folder for a file of each model")
    return main


def work(options: argparse.Namespace) -> None:
    """Do what the command line asks."""
    for name in options.models or DRAWN:
        if name not in DRAWN:
            raise UserError(f"command line: expected {', '.join(DRAWN)}, got {name!r}: name one of them")
        near = list(audits_drawn(name, options.audits, device=options.device, seconds=options.seconds))
        file = options.out / f"{name}.npz"
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("wb") as stream:
            np.savez_compressed(stream, near=np.stack(near, axis=-1))
        print(f"{name}: {len(near)} audits", flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    return command_line.run(work, parser(), argv)


if __name__ == "__main__":
    sys.exit(main())
