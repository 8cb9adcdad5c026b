"""Fit what the self-attention of `toyworld-choice` reads: ``python -m lab.train.structures.choice``.

A direction of the block's normalised states, mean over pixels, and an offset: linear discriminant analysis of
renderings of both mixture components, with noise of all timesteps, in the coded null. At the highest noise there is
nothing to tell of them, and what is read depends on the noise alone.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
import torch
from numpy.typing import NDArray
from safetensors.torch import save
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.metrics import roc_auc_score

from lab.validate.tracing.coverage import templates
from probes import command_line
from probes.models import loading
from probes.runs.parts import write_bytes
from probes.toyworld import CHOICES, LOCATED, bundled_folder
from probes.toyworld.noised import renderings
from probes.toyworld.structures.truth import StructurePlace, choices
from probes.toyworld.work.assemble import DELTA

PROMPTS, RENDERINGS, ROUNDS, SEED = 48, 8, 5, 77
HELD_OUT = 4  # one prompt of so many
TIMES = ((0, 200), (200, 400), (400, 600), (600, 800), (800, 1000))
BATCH = 64
NEUTRAL = "person"


class _Read(Exception):
    """Ends a pass of the U-Net where all that is wanted has been read."""


@torch.no_grad()
def states(
    pipe: Any, place: StructurePlace, texts: Sequence[str], count: int, rounds: int, seed: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
    """Return what the place sees of renderings with noise of random timesteps.

    Parameters
    ----------
    texts : sequence of str
        Prompts.
    count : int
        Renderings of each prompt and mixture component.
    rounds : int
        Timesteps of each rendering, each with a noise of its own.

    Returns
    -------
    states : ndarray, shape (n, channels)
        Normalised states, mean over pixels.
    component, prompt, timestep : ndarray, shape (n,)
    """
    made = renderings(pipe, texts, count, seed=seed)
    encoded = pipe.encode_prompt(list(texts), pipe.device, 1, False)[0]
    clean, prompt = torch.from_numpy(made.latents), torch.from_numpy(made.prompt)
    random, found, times = torch.Generator().manual_seed(seed), [], []

    def read(module: Any, args: Any, output: torch.Tensor) -> None:
        found.append(output.double().mean(1))
        raise _Read

    hook = pipe.unet.get_submodule(f"{place.block}.norm1").register_forward_hook(read)
    for _ in range(rounds):
        when = torch.randint(0, pipe.scheduler.config.num_train_timesteps, (len(clean),), generator=random)
        noisy = pipe.scheduler.add_noise(clean, torch.randn(clean.shape, generator=random), when)
        times.append(when)
        for some in torch.arange(len(clean)).split(BATCH):
            with contextlib.suppress(_Read):
                pipe.unet(noisy[some], when[some], encoded[prompt[some]])
    hook.remove()
    return (
        torch.cat(found).numpy(),
        np.tile(made.component, rounds),
        np.tile(made.prompt, rounds),
        torch.cat(times).numpy(),
    )


def fit(values: NDArray[np.float64], component: NDArray[np.float64]) -> dict[str, torch.Tensor]:
    """Return ``direction`` ``(channels,)`` and ``offset`` ``(1,)`` whose sum tells the components, as log-odds."""
    found = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto", priors=[0.5, 0.5]).fit(
        values, component
    )
    parts = {"direction": found.coef_[0], "offset": found.intercept_}
    return {name: torch.from_numpy(part).half() for name, part in parts.items()}


def told(
    parts: dict[str, torch.Tensor],
    values: NDArray[np.float64],
    component: NDArray[np.float64],
    times: NDArray[np.int64],
) -> dict[str, float]:
    """Return by range of timesteps the area under the curve with which what is read tells the components."""
    read = values @ parts["direction"].double().numpy()
    within = {f"{low}-{high}": (times >= low) & (times < high) for low, high in TIMES}
    return {
        name: round(float(roc_auc_score(component[some], read[some])), 3) for name, some in within.items()
    }


def parser_of(prog: str, description: str, out: Path) -> argparse.ArgumentParser:
    """The options of a command that fits what an attention reads."""
    main = command_line.Parser(prog=prog, description=description.split("\n\n")[0])
    count = command_line.count
    main.add_argument("--prompts", type=count, default=PROMPTS, help="(default: %(default)s)")
    main.add_argument(
        "--renderings",
        type=count,
        default=RENDERINGS,
        help="of each prompt and component (default: %(default)s)",
    )
    main.add_argument(
        "--rounds", type=count, default=ROUNDS, help="noises of each rendering (default: %(default)s)"
    )
    main.add_argument("--seed", type=int, default=SEED, help="(default: %(default)s)")
    main.add_argument("--out", type=Path, default=out, help=f"folder of {DELTA} and recipe.json")
    return main


def parser() -> argparse.ArgumentParser:
    """The command line's options."""
    return parser_of("python -m lab.train.structures.choice", __doc__, bundled_folder(CHOICES[0]))


def store(options: argparse.Namespace, site: str, start: str, seen: Sequence[NDArray[Any]]) -> None:
    """Fit what an attention reads, and write it with its recipe.

    Parameters
    ----------
    site, start : str
        The attention, and the model whose weights it begins with.
    seen : four of ndarray
        What `states` returns.
    """
    values, component, prompt, times = seen
    held = prompt % HELD_OUT == 0
    parts = fit(values[~held], component[~held])
    recipe = {
        **{name: getattr(options, name) for name in ("prompts", "renderings", "rounds", "seed")},
        "site": site,
        "auc_held_out": told(parts, values[held], component[held], times[held]),
        "start": start,
        "versions": {"torch": torch.__version__, "sklearn": sklearn.__version__},
    }
    options.out.mkdir(parents=True, exist_ok=True)
    write_bytes(options.out / DELTA, save(parts))
    write_bytes(options.out / "recipe.json", (json.dumps(recipe, indent=1) + "\n").encode())
    print(options.out)


def work(options: argparse.Namespace) -> None:
    """Do what the command line asks."""
    command_line.writable(options.out, folder=True)
    pipe = loading.load(loading.resolve(LOCATED[0]), device="cpu").pipe
    (place,) = (place for place in choices()[CHOICES[0]].places if place.chooses)
    texts = [text.replace("{person}", NEUTRAL) for text in templates(options.prompts, seed=options.seed)]
    seen = states(pipe, place, texts, options.renderings, options.rounds, options.seed)
    store(options, place.site, LOCATED[0], seen)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    return command_line.run(work, parser(), argv)


if __name__ == "__main__":
    sys.exit(main())
