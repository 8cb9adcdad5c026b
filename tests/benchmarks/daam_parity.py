"""Are our word maps DAAM's? ``python -m tests.benchmarks.daam_parity --daam-python /path/to/daam/bin/python``

Draws prompts with pipelines of the Stable Diffusion 1.x and 2.x layout (random weights,
`tests.benchmarks.architectures`) with the probe on, saves the pipelines, lets daam 0.2.0 draw the same prompts from the
same noise in an environment of its own (`tests/benchmarks/daam_side.py`), and compares every token's and every word's
map. Three comparisons:

- `drawn`: each side draws with its own diffusers and torch, so a difference may come from the latents, whose own
  difference is printed beside it;
- `replayed`: daam's side is given the very U-Net inputs of ours, call by call; what is left is the maps' own;
- `words`: maps of words as daam computes them against the means of our maps, where daam's matching of
  words to tokens is right. Where it is not (it finds "woman" inside "saleswoman"), only the count is given, and the
  tokens' maps hold.

Left out, since daam 0.2.0 cannot: several prompts at once, images that are not square, no guidance (it drops half
of the heads), and prompts of more than one image.

The environment: ``python3.11 -m venv daam; daam/bin/pip install torch==2.4.1 diffusers==0.21.2 transformers==4.30.2
accelerate==0.23.0 'huggingface_hub<0.26' 'numpy<2' pandas matplotlib scikit-image joblib numba nltk inflect ftfy spacy;
daam/bin/pip install --no-deps daam==0.2.0`` (gradio, which daam also names, serves its demonstration only).
"""

from __future__ import annotations

import argparse
import datetime
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hooks import Probe
from tests.benchmarks import architectures
from tests.benchmarks.daam_side import versions

TOLERANCE = 1e-5
GUIDANCE_SCALE = 7.5
PROMPTS = (
    "a woman holding an umbrella on the beach",
    "a photo of a rhinoceros and a rhinoceros in the park",
    "a saleswoman and a woman in the office",
    "A Dog, a cat and a DOG!",
    "a skateboarder riding a skateboard down a sidewalk",
    "the doctor and the doctor's dog",
    "a black cat on a black chair at a black table",
    "an archaeologist reading a book in the library",
    "a man in a tie and a woman in a dress",
    "three engineers, two nurses, one teacher",
    "a person playing the saxophone under the sun",
    "a teacup in a cup by a teapot",
    "dog dog dog",
    "a firefighter with a hat, a hat and another hat",
    "her laptop and his laptop near their house",
    "a photograph of an extraterrestrial on the street",
    "people working in a garden of sunflowers",
    "a chef holding a strawberry cake in the kitchen",
    "a red bicycle beside a green bicycle",
    "an astronaut riding a horse",
)


def word_positions(tokenizer: Any, prompt: str) -> dict[str, list[int]]:
    """Token positions of every word of a prompt, all its occurrences together, by character offsets."""
    offsets = tokenizer(prompt, return_offsets_mapping=True, truncation=True)["offset_mapping"]
    found: dict[str, list[int]] = {}
    for match in re.finditer(r"[^\W_]+", prompt.lower()):
        inside = [
            position
            for position, (start, end) in enumerate(offsets)
            if start < end and start >= match.start() and end <= match.end()
        ]
        found.setdefault(match.group(), []).extend(inside)
    return found


def draw(pipe: Any, prompt: str, scheduler: str, seed: int, size: int, steps: int) -> dict[str, np.ndarray]:
    """One prompt with the probe on: maps, first and last latents, and what the U-Net was given at each call."""
    pipe.scheduler = architectures.scheduler(scheduler, pipe.scheduler.config.prediction_type)
    noise = torch.randn(1, 4, size // 8, size // 8, generator=torch.Generator().manual_seed(seed))
    calls: list[tuple[np.ndarray, float, np.ndarray]] = []

    def keep(module: Any, args: Any, kwargs: dict[str, Any]) -> None:
        states = kwargs["encoder_hidden_states"].numpy()
        calls.append((args[0].numpy().copy(), float(args[1]), states))

    handle = pipe.unet.register_forward_pre_hook(keep, with_kwargs=True)
    try:
        with Probe(pipe, sites="latent", word_maps=True, map_tokens="all") as probe:
            final = pipe(
                prompt,
                num_inference_steps=steps,
                guidance_scale=GUIDANCE_SCALE,
                latents=noise,
                height=size,
                width=size,
                output_type="latent",
            ).images
    finally:
        handle.remove()
    return {
        "ids": np.array(pipe.tokenizer(prompt).input_ids),
        "noise": noise.numpy(),
        "final": final.numpy(),
        "heat": probe.maps.heat(0),
        "samples": np.stack([sample for sample, _, _ in calls]),
        "timesteps": np.array([timestep for _, timestep, _ in calls]),
        "states": calls[0][2],
    }


def compare(folder: Path, jobs: list[dict[str, Any]]) -> dict[str, Any]:
    """Largest differences of one case, from the files of both sides."""
    worst = dict.fromkeys(("drawn", "replayed", "words", "latents", "largest_value"), 0.0)
    right = wrong = 0
    for job in jobs:
        ours = np.load(folder / f"{job['name']}.npz")
        daams = np.load(folder / f"{job['name']}.daam.npz")
        words = json.loads((folder / f"{job['name']}.daam.json").read_text())
        if not np.array_equal(ours["ids"], daams["ids"]):
            raise SystemExit(
                f"{job['prompt']!r}: expected the same tokens from both tokenizers, "
                f"but got {ours['ids'].tolist()} and {daams['ids'].tolist()}"
            )
        tokens = len(daams["heat"])
        heat = ours["heat"][:tokens]

        def note(kind: str, left: np.ndarray, right: np.ndarray) -> None:
            worst[kind] = max(worst[kind], float(np.abs(left - right).max()))

        worst["largest_value"] = max(worst["largest_value"], float(heat.max()))
        note("drawn", heat, daams["heat"])
        note("replayed", heat, daams["replayed"])
        note("latents", ours["samples"][-1], daams["sample"])
        for number, (word, positions) in enumerate(words):
            expected = job["words"].get(word)
            if positions is not None and sorted(positions) == sorted(expected):
                right += 1
                note("words", heat[list(expected)].mean(axis=0), daams[f"word{number}"])
            else:
                wrong += 1
    return worst | {"words_compared": right, "words_daam_matches_otherwise": wrong}


def main(argv: Sequence[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.daam_parity", description=__doc__.split("\n\n")[0]
    )
    parser.add_argument("--daam-python", type=Path, required=True, help="interpreter that has daam 0.2.0")
    parser.add_argument("--width", type=float, default=0.25, help="factor on the number of channels")
    parser.add_argument("--sizes", type=int, nargs="+", default=[512, 768], help="pixels")
    parser.add_argument("--architectures", nargs="+", default=["sd14", "sd21"], choices=["sd14", "sd21"])
    parser.add_argument("--schedulers", nargs="+", default=list(architectures.SCHEDULERS))
    parser.add_argument("--prompts", type=int, default=len(PROMPTS))
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--out", type=Path, help="where to write the figures as JSON")
    options = parser.parse_args(argv)
    torch.set_num_threads(options.threads)
    rows = []
    for architecture in options.architectures:
        for size in options.sizes:
            with tempfile.TemporaryDirectory() as folder:
                row = {"architecture": architecture, "size": size} | _case(
                    Path(folder), architecture, size, options
                )
            rows.append(row)
            print(json.dumps(row), flush=True)
    largest = max(row[kind] for row in rows for kind in ("drawn", "replayed", "words"))
    print(f"largest difference {largest:.2e}; allowed {TOLERANCE:.0e}")
    if options.out:
        settings = {
            key: value for key, value in vars(options).items() if key not in ("daam_python", "out", "threads")
        }
        found = {
            "benchmark": "daam_parity",
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "versions": versions(),
            "settings": settings,
            "cases": rows,
        }
        options.out.write_text(json.dumps(found, indent=1) + "\n")
    return 0 if largest <= TOLERANCE else 1


@torch.inference_mode()
def _case(folder: Path, architecture: str, size: int, options: argparse.Namespace) -> dict[str, Any]:
    pipe = architectures.build(architecture, width=options.width, size=size)
    architectures.save(pipe, folder / "pipeline")
    jobs = []
    for number, prompt in enumerate(PROMPTS[: options.prompts]):
        scheduler = options.schedulers[number % len(options.schedulers)]
        name = f"{number:02d}-{scheduler}"
        found = draw(pipe, prompt, scheduler, 1000 + number, size, options.steps)
        np.savez(folder / f"{name}.npz", **found)
        words = word_positions(pipe.tokenizer, prompt)
        jobs.append({"name": name, "prompt": prompt, "scheduler": scheduler, "words": words})
    made = [
        architectures.scheduler(name, pipe.scheduler.config.prediction_type) for name in options.schedulers
    ]
    call = {
        "size": size,
        "steps": options.steps,
        "guidance_scale": GUIDANCE_SCALE,
        "threads": options.threads,
        "schedulers": {
            name: (type(one).__name__, dict(one.config)) for name, one in zip(options.schedulers, made)
        },
        "jobs": jobs,
    }
    (folder / "call.json").write_text(json.dumps(call, default=str))
    side = Path(__file__).with_name("daam_side.py")
    done = subprocess.run([options.daam_python, side, folder], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"daam's side failed:\n{done.stderr[-3000:]}")
    sides = json.loads((folder / "versions.json").read_text())
    return compare(folder, jobs) | {"draws": len(jobs), "daam_side": sides}


if __name__ == "__main__":
    sys.exit(main())
