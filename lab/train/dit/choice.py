"""Fit what the image's self-attention of `toyworld-dit-choice` reads: ``python -m lab.train.dit.choice``.

As for the U-Net (`lab.train.structures.choice`): a direction of the block's normalised states, mean over the image, and
an offset, by linear discriminant analysis of renderings of both mixture components with noise of all times, in
`toyworld-dit` with neutral prompts.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from lab.train.structures.choice import BATCH, NEUTRAL, parser_of, store
from lab.validate.tracing.coverage import templates
from probes import command_line
from probes.models import loading
from probes.toyworld import TRANSFORMERS, bundled_folder
from probes.toyworld.dit.truth import wired_models
from probes.toyworld.noised import renderings

MODEL = "toyworld-dit-choice"


class _Read(Exception):
    """Ends a pass of the transformer where all that is wanted has been read."""


@torch.no_grad()
def states(
    pipe: Any, block: int, texts: Sequence[str], count: int, rounds: int, seed: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64], NDArray[np.float64]]:
    """Return what a block sees of renderings with noise of random times.

    Parameters
    ----------
    block : int
    texts : sequence of str
        Prompts.
    count : int
        Renderings of each prompt and mixture component.
    rounds : int
        Times of each rendering, each with a noise of its own.

    Returns
    -------
    states : ndarray, shape (n, channels)
        Normalised states of the image in front of the block, mean over its tokens.
    component, prompt : ndarray, shape (n,)
    time : ndarray, shape (n,)
        From 0 to 1,000, all noise.
    """
    made = renderings(pipe, texts, count, seed=seed)
    encoded, _, pooled, _ = pipe.encode_prompt(list(texts), None, None, do_classifier_free_guidance=False)
    clean, prompt = torch.from_numpy(made.latents), torch.from_numpy(made.prompt)
    random, found, times = torch.Generator().manual_seed(seed), list[torch.Tensor](), list[torch.Tensor]()

    def read(module: Any, args: Any, call: dict[str, torch.Tensor]) -> None:
        image = call["hidden_states"]
        found.append(F.layer_norm(image, image.shape[-1:], eps=1e-6).double().mean(1))
        raise _Read

    hook = pipe.transformer.transformer_blocks[block].register_forward_pre_hook(read, with_kwargs=True)
    for _ in range(rounds):
        noise = torch.rand(len(clean), generator=random)
        share = noise[:, None, None, None]
        noisy = (1 - share) * clean + share * torch.randn(clean.shape, generator=random)
        times.append(1000 * noise)
        for some in torch.arange(len(clean)).split(BATCH):
            with contextlib.suppress(_Read):
                pipe.transformer(
                    noisy[some],
                    encoder_hidden_states=encoded[prompt[some]],
                    pooled_projections=pooled[prompt[some]],
                    timestep=1000 * noise[some],
                )
    hook.remove()
    return (
        torch.cat(found).numpy(),
        np.tile(made.component, rounds),
        np.tile(made.prompt, rounds),
        torch.cat(times).numpy(),
    )


def parser() -> argparse.ArgumentParser:
    """The command line's options."""
    return parser_of("python -m lab.train.dit.choice", __doc__, bundled_folder(MODEL))


def work(options: argparse.Namespace) -> None:
    """Do what the command line asks."""
    command_line.writable(options.out, folder=True)
    pipe = loading.load(loading.resolve(TRANSFORMERS[0]), device="cpu").pipe
    truth = wired_models()[MODEL]
    assert truth.block is not None and truth.chooses is not None
    texts = [text.replace("{person}", NEUTRAL) for text in templates(options.prompts, seed=options.seed)]
    seen = states(pipe, truth.block, texts, options.renderings, options.rounds, options.seed)
    store(options, truth.chooses, TRANSFORMERS[0], seen)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    return command_line.run(work, parser(), argv)


if __name__ == "__main__":
    sys.exit(main())
