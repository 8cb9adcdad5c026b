"""Hold swaps between noises against `toyworld-dit-choice`: ``python -m lab.validate.tracing.dit_choice``.

As of the U-Net's choice (`lab.validate.tracing.choice`): pairs of noises of one neutral prompt that chose differently
at every step, activations patched between them both ways. What it finds is the model's certificate.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hooks import sites as site_table
from lab.validate.tracing.choice import certificate
from lab.validate.tracing.choice_swaps import KEYS_AND_VALUES, Swap, apart, noise_pairs, swapped
from probes import command_line
from probes.models import loading
from probes.runs.parts import write_bytes
from probes.toyworld import TRANSFORMERS, bundled_folder
from probes.toyworld.dit.truth import WiredModel, wired_models
from probes.toyworld.structures.truth import CERTIFICATE
from probes.toyworld.world import load_world

MODEL = "toyworld-dit-choice"
PROMPTS, PAIRS, STEPS = 24, 1, 5


def swaps_of(pipe: Any, model: WiredModel) -> list[Swap]:
    """Return the swaps of the certificate, by their names: of where is chosen and shown, then of all attentions."""
    joint = [site.address for site in site_table.attention_sites(pipe, "cross")]
    (shown,), place = model.sites, str(model.chooses)
    heads = next(one.heads for one in site_table.available(pipe) if one.address == f"{place}.heads")
    found = [
        Swap("choosing head", (place,), ("value",), (int(heads) - 1,)),
        Swap("showing place", (f"{shown}.text",), KEYS_AND_VALUES),
        Swap(
            "text keys and values, other blocks",
            tuple(f"{one}.text" for one in joint if one != shown),
            KEYS_AND_VALUES,
        ),
    ]
    for site in (*joint, place):
        found += [
            Swap("values", (site,), ("value",)),
            Swap("outputs", (site,)),
            Swap("outputs, first step", (site,), steps=(0,)),
        ]
    return [*found, *(Swap("text keys and values", (f"{site}.text",), KEYS_AND_VALUES) for site in joint)]


def run(prompts: int, pairs: int, steps: int) -> dict[str, Any]:
    """Return the certificate, with what `toyworld-dit` makes of the same noises."""
    model, world = wired_models()[MODEL], load_world()
    loaded, base = (loading.load(loading.resolve(name), device="cpu") for name in (MODEL, TRANSFORMERS[0]))
    pipe = loaded.pipe
    for one in (pipe, base.pipe):
        one.set_progress_bar_config(disable=True)
    attention = pipe.transformer.transformer_blocks[model.block].attn2
    chosen = noise_pairs(pipe, attention, prompts=prompts, pairs=pairs, steps=steps)
    swaps = swaps_of(pipe, model)
    verdicts, same = swapped(pipe, world, chosen, swaps, steps)
    of_base = apart(base.pipe, world, chosen, steps).reshape(-1, pairs).mean(1)
    return {
        "weight_hash": loaded.record["weight_hash"],
        **certificate(chosen, swaps, verdicts, same, steps),
        "base": {
            "mean": round(float(of_base.mean()), 4),
            "se": round(float(of_base.std(ddof=1) / len(of_base) ** 0.5), 4),
        },
    }


def parser() -> argparse.ArgumentParser:
    """The command line's options."""
    main = command_line.Parser(
        prog="python -m lab.validate.tracing.dit_choice", description=__doc__.split("\n\n")[0]
    )
    count = command_line.count
    main.add_argument(
        "--prompts", type=command_line.whole(2, 1000), default=PROMPTS, help="(default: %(default)s)"
    )
    main.add_argument("--pairs", type=count, default=PAIRS, help="of noises, a prompt (default: %(default)s)")
    main.add_argument("--steps", type=count, default=STEPS, help="of an image (default: %(default)s)")
    main.add_argument(
        "--out",
        type=Path,
        default=bundled_folder(MODEL) / CERTIFICATE,
        help="file that the certificate is written to",
    )
    return main


def work(options: argparse.Namespace) -> None:
    """Do what the command line asks."""
    command_line.writable(options.out)
    found = run(options.prompts, options.pairs, options.steps)
    write_bytes(options.out, (json.dumps(found, indent=1) + "\n").encode())
    print(options.out)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    return command_line.run(work, parser(), argv)


if __name__ == "__main__":
    sys.exit(main())
