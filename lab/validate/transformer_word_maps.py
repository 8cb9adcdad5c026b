"""Word maps of diffusion transformers compared with the truth: ``python -m lab.validate.transformer_word_maps``.

As `lab.validate.word_maps` does with U-Nets: random captions, exact masks of what was named and drawn, intersection
over union. The three definitions of joint attention are compared, over the default blocks and block by block. The
threshold of each is tuned on the even prompts of `toyworld-dit`; its odd prompts and the other two models only report.

Writes ``docs/validation/transformer_word_maps.json``, and ``word_maps.md`` from it and ``word_maps.json``.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from diffusers import DiffusionPipeline
from tqdm import tqdm

from hooks import Probe
from hooks.attention.definitions import JOINT_MASS, JOINT_SHARE, OUTPUT_SPACE, Definition
from lab.pages.word_maps import TRANSFORMER_FIGURES, page_of_stored
from lab.train.base.measure import benchmark_pipeline, model_folder
from lab.validate.word_maps import FIXED, THRESHOLDS, drawn_captions, interval, iou
from probes import command_line
from probes.runs.parts import write_bytes
from probes.toyworld import TRANSFORMERS, WEIGHTS
from probes.toyworld.checker import LEAST, VERSION, thing_masks

DEFINITIONS = (JOINT_MASS, JOINT_SHARE, OUTPUT_SPACE)
SEED = 800_000


@dataclass(frozen=True)
class Outlined:
    """One noun that was named and drawn.

    Attributes
    ----------
    prompt : int
    noun : str
    truth : numpy.ndarray, shape (64, 64), bool
    heat : numpy.ndarray, shape (h, w)
    """

    prompt: int
    noun: str
    truth: np.ndarray
    heat: np.ndarray


def of_block(definition: Definition, address: str) -> Definition:
    """Return a definition of one block's attention alone."""
    return replace(definition, name=f"{definition.name}, {address}", layers=((address, 1.0),))


def draw(
    pipe: DiffusionPipeline,
    definition: Definition,
    prompts: int,
    *,
    steps: int,
    guidance_scale: float,
    seed: int = SEED,
    batch_size: int = 24,
) -> list[Outlined]:
    """Draw random captions; return every noun of the checker's that was named and drawn, with its map."""
    sampling = {"steps": steps, "guidance_scale": guidance_scale, "seed": seed, "batch_size": batch_size}
    drawn = drawn_captions(pipe, prompts, **sampling, progress=False, word_maps=definition)
    return [one for probe, row, prompt, image in drawn for one in _outlined(probe, row, prompt, image)]


def _outlined(probe: Probe, row: int, prompt: int, image: np.ndarray) -> Iterator[Outlined]:
    for word in probe.words(row=row):
        if word.lower not in LEAST or word.cut_off:
            continue
        truth = thing_masks(image[None], word.lower)[0]
        if truth.any():
            yield Outlined(prompt, word.lower, truth, probe.word_map(word.text, row=row).values)


def table(outlined: Sequence[Outlined]) -> np.ndarray:
    """Return the IoU of every noun at every threshold, shape (thresholds, nouns)."""
    return iou([one.heat for one in outlined], np.stack([one.truth for one in outlined]), THRESHOLDS)


def figures(tuning: np.ndarray, held: np.ndarray) -> tuple[dict[str, float], np.ndarray]:
    """Return mean IoUs at the threshold best on the tuning nouns and at the fixed ones, and each noun's at the first.

    Parameters
    ----------
    tuning, held : numpy.ndarray, shape (thresholds, nouns)
    """
    best = int(tuning.mean(axis=1).argmax())
    fixed = {f"held_{theta}": held[int(np.abs(THRESHOLDS - theta).argmin())].mean() for theta in FIXED}
    numbers = {"threshold": THRESHOLDS[best], "held": held[best].mean(), **fixed}
    return {name: round(float(value), 4) for name, value in numbers.items()}, held[best]


def report(models: Sequence[str], weights: Path, prompts: int, steps: int) -> dict:
    """Draw, and return all figures as they go to ``transformer_word_maps.json``."""
    rows: list[dict] = []
    blocks: list[dict] = []
    tuned: dict[str, np.ndarray] = {}
    for number, model in enumerate(models):
        pipe, scale = benchmark_pipeline(model_folder(weights, model))
        sampling = {"steps": steps, "guidance_scale": scale, "seed": SEED + 10_000 * number}
        addresses = [f"dit.block.{block}.joint" for block in range(len(pipe.transformer.transformer_blocks))]
        single = (
            [of_block(one, address) for one in DEFINITIONS for address in addresses] if number == 0 else []
        )
        first = None
        for definition in tqdm([*DEFINITIONS, *single], desc=model):
            outlined = draw(pipe, definition, prompts, **sampling)
            odd = np.array([one.prompt % 2 == 1 for one in outlined])
            overlaps = table(outlined)
            if number == 0:
                tuned[definition.name] = overlaps[:, ~odd]
                overlaps = overlaps[:, odd]
                outlined = [one for one, is_odd in zip(outlined, odd, strict=True) if is_odd]
            numbers, values = figures(tuned[definition.name], overlaps)
            row = {"model": model, "definition": definition.name, **numbers, "n": len(outlined)}
            if definition in single:
                blocks.append(row)
                continue
            if first is None:
                first = values
            else:
                row["over_mass"] = round(float((values - first).mean()), 4)
                row["over_mass_interval"] = interval(
                    values - first, np.array([one.prompt for one in outlined])
                )
            rows.append(row)
    settings = {"prompts": prompts, "steps": steps, "seed": SEED, "checker": VERSION}
    return {"settings": settings, "rows": rows, "blocks": blocks}


def parser() -> argparse.ArgumentParser:
    """The command line's options."""
    main = command_line.Parser(
        prog="python -m lab.validate.transformer_word_maps", description=__doc__.split("\n\n")[0]
    )
    add = main.add_argument
    add("--models", nargs="+", choices=TRANSFORMERS, default=list(TRANSFORMERS), help="the first is tuned on")
    add("--weights", type=command_line.folder, default=WEIGHTS, help="folder that holds the benchmark models")
    add("--prompts", type=command_line.whole(2, 1_000_000), default=240, help="prompts a benchmark model")
    add("--steps", type=command_line.whole(1, 1000), default=20)
    add(
        "--out", type=Path, default=TRANSFORMER_FIGURES.parent, help="folder for the figures and word_maps.md"
    )
    return main


def work(options: argparse.Namespace) -> None:
    """Do what the command line asks."""
    command_line.writable(options.out, folder=True)
    torch.set_num_threads(1)
    numbers = report(options.models, options.weights, options.prompts, options.steps)
    text = json.dumps(numbers, indent=1) + "\n"
    write_bytes(options.out / TRANSFORMER_FIGURES.name, text.encode())
    write_bytes(options.out / "word_maps.md", page_of_stored(transformers=numbers).encode())


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    return command_line.run(work, parser(), argv)


if __name__ == "__main__":
    sys.exit(main())
