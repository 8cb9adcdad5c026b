"""How well skills are judged, and how well drawn: ``python -m analysis.validation.toyworld_skills``.

On renderings of the test scenes, which show what is asked for, accuracy is that of the detector: the upper bound (the
paper's oracle). ``--pictures decoded`` passes them through the autoencoder first, as every image that a specimen draws
is; ``--weights`` draws the prompts with `toyworld-skills` instead.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from analysis.metrics.skills import COLUMNS, seen
from analysis.observe.objects.detection import Engine
from analysis.observe.objects.engines import engine_plan
from analysis.observe.objects.toyworld_scenes import ToyworldScenes
from analysis.tables.skills import ALL, Judged, accuracy_table
from probes import command_line
from probes.config import Config
from probes.parts import write_bytes
from probes.prompts import sets
from probes.prompts.paintskills import SKILLS
from probes.skills_options import Skills
from probes.toyworld import SHARED, WEIGHTS
from probes.toyworld.palette import paint
from probes.toyworld.skills.checker import VERSION
from probes.toyworld.skills.scenes import SET, SkillScene, draw_scene, objects, scenes

DETECTORS = {"exact": VERSION, "groundingdino": "toyworld's Grounding DINO"}
BATCH = 32


def engine(name: str) -> Engine:
    """Return what looks: the exact reader, or toyworld's own Grounding DINO."""
    if name == "exact":
        return ToyworldScenes()
    return engine_plan(Config.model_validate({"prompts": ["a {person}"]})).engine()


def judged(
    drawn: Sequence[SkillScene], pictures: np.ndarray, detector: str, rules: Skills | None = None
) -> Judged:
    """Return pictures with what a detector sees in them.

    Parameters
    ----------
    drawn : sequence of SkillScene
        What each picture was asked to show.
    pictures : ndarray of uint8, shape (n, 64, 64, 3)
    detector : str
        One of `DETECTORS`.
    """
    looking, rows = engine(detector), []
    for start in range(0, len(pictures), BATCH):
        some = list(pictures[start : start + BATCH])
        for place, found in enumerate(looking.detect(some, [list(objects())] * len(some))):
            rows += [(start + place, one.label, one.score, *one.box) for one in found.detections]
    asked = [one.asked for one in drawn]
    numbers = {one: place for place, one in enumerate(dict.fromkeys(asked))}
    samples = pd.DataFrame(
        {
            "sample_id": [str(number) for number in range(len(asked))],
            "triplet": [numbers[one] for one in asked],
            "seed": 0,
        }
    )
    detections = seen(pd.DataFrame(rows, columns=list(COLUMNS)), len(asked), list(sets.read(SET)["objects"]))
    return Judged(samples, asked, detections, [""] * len(asked), rules or Skills(), 0.0, DETECTORS[detector])


def some_scenes(number: int) -> list[SkillScene]:
    """Return so many scenes of the test split, the first of each skill: any beginning of them is even."""
    whole = {skill: list(scenes(skill, "test")) for skill in SKILLS}
    total = sum(map(len, whole.values()))
    return [one for drawn in whole.values() for one in drawn[: round(min(number / total, 1) * len(drawn))]]


def rendered(drawn: Sequence[SkillScene]) -> np.ndarray:
    """Return the renderings of scenes, ``(n, 64, 64, 3)`` uint8."""
    return paint(np.stack([draw_scene(one) for one in drawn]))


@torch.no_grad()
def decoded(pictures: np.ndarray) -> np.ndarray:
    """Return pictures passed through the autoencoder that all specimens share."""
    from diffusers import AutoencoderKL

    vae = AutoencoderKL.from_pretrained(WEIGHTS / SHARED / "vae", torch_dtype=torch.float32).eval()
    made = []
    for start in range(0, len(pictures), BATCH):
        pixels = torch.from_numpy(pictures[start : start + BATCH]).permute(0, 3, 1, 2).float() / 127.5 - 1
        image = vae.decode(vae.encode(pixels).latent_dist.mean).sample.clamp(-1, 1)
        made.append(((image + 1) * 127.5).round().to(torch.uint8).permute(0, 2, 3, 1).numpy())
    return np.concatenate(made)


def images_of(drawn: Sequence[SkillScene], folder: Path, steps: int, seed: int) -> np.ndarray:
    """Return what `toyworld-skills`, as it is stored in a folder, draws for the scenes' prompts."""
    from probes.toyworld.skills.assemble import skills_pipeline

    pipe = skills_pipeline(folder)
    pipe.set_progress_bar_config(disable=True)
    made = []
    for start in range(0, len(drawn), BATCH):
        some = drawn[start : start + BATCH]
        noise = [torch.Generator().manual_seed(seed + start + place) for place in range(len(some))]
        images = pipe(
            [one.caption for one in some],
            generator=noise,
            num_inference_steps=steps,
            guidance_scale=1.0,
            output_type="np",
        ).images
        made.append((images * 255).round().astype(np.uint8))
        print(f"{start + len(some)} of {len(drawn)} images", flush=True)
    return np.concatenate(made)


def lines(accuracy: pd.DataFrame) -> Iterator[str]:
    """Yield the accuracies over all and by count and relation, as text."""
    for row in accuracy[accuracy["split"].isin([ALL, "count", "relation"])].to_dict("records"):
        beside = "" if np.isnan(row["shuffled"]) else f", shuffled {100 * row['shuffled']:.2f}"
        beside += "" if np.isnan(row["chance"]) else f" (chance {100 * row['chance']:.2f})"
        yield (
            f"{row['skill']:8} {row['level']:6} {row['task']:17} {100 * row['value']:6.2f}"
            f" [{100 * row['low']:.2f}, {100 * row['high']:.2f}] of {row['n']}{beside}"
        )


def parser() -> argparse.ArgumentParser:
    """Return the command line's options."""
    main = command_line.Parser(
        prog="python -m analysis.validation.toyworld_skills",
        description=__doc__.split("\n\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = main.add_argument
    add("--detector", choices=list(DETECTORS), default="exact")
    add("--pictures", choices=("rendered", "decoded"), default="rendered", help="of the test scenes")
    add("--scenes", type=command_line.count, default=7185, help="of the test split, evenly over the skills")
    add(
        "--weights", type=Path, help="folder of toyworld-skills, which then draws the prompts of these scenes"
    )
    add("--steps", type=command_line.count, default=20, help="of the sampler")
    add("--seed", type=command_line.seed, default=0)
    add("--threads", type=command_line.threads, default=1)
    add("--out", type=Path, help="a JSON file for the table of accuracies")
    return main


def work(options: argparse.Namespace) -> None:
    """Do what the command line asks."""
    torch.set_num_threads(options.threads)
    if options.out:
        command_line.writable(options.out)
    drawn = some_scenes(options.scenes)
    if options.weights:
        pictures = images_of(drawn, options.weights, options.steps, options.seed)
    else:
        pictures = rendered(drawn)
        pictures = decoded(pictures) if options.pictures == "decoded" else pictures
    accuracy = accuracy_table(judged(drawn, pictures, options.detector), 0.95)
    if options.out:
        rows = json.loads(accuracy.to_json(orient="records"))
        write_bytes(options.out, (json.dumps(rows, indent=1) + "\n").encode())
    for line in lines(accuracy):
        print(line)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    return command_line.run(work, parser(), argv)


if __name__ == "__main__":
    sys.exit(main())
