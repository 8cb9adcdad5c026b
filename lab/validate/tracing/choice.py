"""Where no word decides: hold swaps and ICM against `toyworld-choice`: ``python -m lab.validate.tracing.choice``.

``swaps`` draws pairs of noises that chose differently and exchanges activations between them; that is the model's
certificate, too. ``probes`` trains ICM's probes and steers along their directions. The numbers of every prompt are
stored in ``choice.json`` beside the page, a section of which is written from them.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hooks import sites as site_table
from lab.validate.tracing.choice_probes import accuracy, probed_images, steered
from lab.validate.tracing.choice_swaps import (
    SIDES,
    NoisePair,
    Swap,
    apart,
    chooser,
    effects,
    noise_pairs,
    swapped,
    swaps_of,
)
from lab.validate.tracing.methods import GUIDANCE
from lab.validate.tracing.options import require_known
from lab.validate.tracing.structures import write_page
from probes import command_line
from probes.errors import UserError
from probes.models import loading
from probes.runs.parts import write_bytes
from probes.toyworld import CHOICES, LOCATED, bundled_folder
from probes.toyworld.structures.truth import CERTIFICATE, choices
from probes.toyworld.verdict import VERSION
from probes.toyworld.world import load_world

PROMPTS, PAIRS, STEPS = 24, 2, 5
PROBED_PROMPTS, PROBED_SEEDS = 48, 8
STAGES = ("swaps", "probes")
STORED = "choice.json"
(MODEL,) = CHOICES


def certificate(
    pairs: Sequence[NoisePair],
    swaps: Sequence[Swap],
    verdicts: NDArray[np.float64],
    same: NDArray[np.bool_],
    steps: int,
) -> dict[str, Any]:
    """Return the effects of all swaps as means and standard errors over prompts, and the noises with their verdicts."""
    each = len(pairs) // len({pair.prompt for pair in pairs})
    total, moved = effects(verdicts, each)
    found: dict[str, Any] = {
        "verdict": VERSION,
        "prompts": len(total),
        "pairs": each,
        "steps": steps,
        "guidance_scale": GUIDANCE,
        "total": _mean(total),
        "swaps": {},
        "noises": [
            {
                "text": pair.text,
                "seeds": dict(zip(SIDES, pair.seeds, strict=True)),
                "verdicts": dict(zip(SIDES, values[0].round(4).tolist(), strict=True)),
                swaps[0].name: dict(zip(SIDES, values[1].round(4).tolist(), strict=True)),
            }
            for pair, values in zip(pairs, verdicts, strict=True)
        ],
    }
    for number, one in enumerate(swaps):
        effect = {**_mean(moved[:, number]), "bit_identical": bool(same[number])}
        found["swaps"].setdefault(one.name, {})[", ".join(one.sites)] = effect
    return found


def _mean(values: NDArray[np.float64]) -> dict[str, float]:
    error = values.std(ddof=1) / len(values) ** 0.5 if len(values) > 1 else float("nan")
    return {"mean": round(float(values.mean()), 4), "se": round(float(error), 4)}


def run_swaps(pipe: Any, options: argparse.Namespace) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what is stored of swaps, and the certificate."""
    structure, world = choices()[MODEL], load_world()
    pairs = noise_pairs(
        pipe, chooser(pipe, structure), prompts=options.prompts, pairs=options.pairs, steps=options.steps
    )
    swaps = swaps_of(pipe, structure)
    verdicts, same = swapped(pipe, world, pairs, swaps, options.steps)
    total, moved = effects(verdicts, options.pairs)
    null = _loaded(LOCATED[0]).pipe
    values: dict[str, dict[str, Any]] = {}
    for number, one in enumerate(swaps):
        values.setdefault(one.name, {})[", ".join(one.sites)] = moved[:, number].round(5).tolist()
    stored = {
        **{name: getattr(options, name) for name in ("prompts", "pairs", "steps")},
        "total": total.round(5).tolist(),
        "null": apart(null, world, pairs, options.steps).reshape(-1, options.pairs).mean(1).round(5).tolist(),
        "swaps": values,
        "noises": [[pair.text, *pair.noise_seeds] for pair in pairs],
    }
    return stored, certificate(pairs, swaps, verdicts, same, options.steps)


def run_probes(pipe: Any, options: argparse.Namespace, swapped: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is stored of ICM: the accuracy of its probes, and what steering does in the images of the pairs."""
    sites, world = [one.address for one in site_table.attention_sites(pipe, "self")], load_world()
    found = probed_images(
        pipe,
        world,
        sites,
        prompts=options.probed_prompts,
        seeds=options.probed_seeds,
        steps=options.steps,
    )
    first = swapped["noises"][:: swapped["pairs"]]  # of each prompt one pair
    texts = [text for text, *_ in first for _ in SIDES]
    seeds = [seed for _, *both in first for seed in both]
    moved = steered(pipe, world, found, texts, seeds, options.steps)
    return {
        "images": len(found.label),
        "masculine": round(float(found.label.mean()), 4),
        "accuracy": dict(zip(sites, accuracy(found).round(4).tolist(), strict=True)),
        "steering": dict(
            zip(sites, moved.reshape(len(first), -1, len(sites)).mean(1).T.round(5).tolist(), strict=True)
        ),
    }


def parser() -> argparse.ArgumentParser:
    """The command line's options."""
    main = command_line.Parser(
        prog="python -m lab.validate.tracing.choice", description=__doc__.split("\n\n")[0]
    )
    count = command_line.count
    main.add_argument(
        "stages",
        nargs="*",
        help=f"of {' and '.join(STAGES)} (none: only the page is written anew from what is stored)",
    )
    main.add_argument("--prompts", type=count, default=PROMPTS, help="(default: %(default)s)")
    main.add_argument("--pairs", type=count, default=PAIRS, help="of noises, a prompt (default: %(default)s)")
    main.add_argument("--steps", type=count, default=STEPS, help="of an image (default: %(default)s)")
    main.add_argument(
        "--probed-prompts", type=count, default=PROBED_PROMPTS, help="of probes (default: %(default)s)"
    )
    main.add_argument(
        "--probed-seeds", type=count, default=PROBED_SEEDS, help="of probes, a prompt (default: %(default)s)"
    )
    main.add_argument(
        "--certificate",
        type=Path,
        default=bundled_folder(MODEL) / CERTIFICATE,
        help="file that swaps write the certificate to",
    )
    main.add_argument("--out", type=Path, default=Path("docs/validation/structures.md"), help="page to write")
    return main


def work(options: argparse.Namespace) -> None:
    """Do what the command line asks."""
    require_known(options.stages, STAGES, "stages")
    stored, beside = options.out.with_name(STORED), options.out.with_suffix(".json")
    if not beside.is_file():
        raise UserError(
            f"command line: expected {beside}, of which the rest of the page is made, found none: "
            "run python -m lab.validate.tracing.structures"
        )
    command_line.writable(options.out)
    command_line.writable(options.certificate)
    results = json.loads(stored.read_text(encoding="utf-8")) if stored.is_file() else {}
    if "swaps" not in results and "swaps" not in options.stages:
        raise UserError(
            f"command line: expected the stage swaps, or its results in {stored}, found neither: name the stage"
        )
    if options.stages:
        loaded = _loaded(MODEL)
    if "swaps" in options.stages:
        results["swaps"], found = run_swaps(loaded.pipe, options)
        found = {"weight_hash": loaded.record["weight_hash"], **found}
        write_bytes(options.certificate, (json.dumps(found, indent=1) + "\n").encode())
        _store(stored, results)
    if "probes" in options.stages:
        results["probes"] = run_probes(loaded.pipe, options, results["swaps"])
        _store(stored, results)
    write_page(options.out)
    print(options.out)


def _loaded(name: str) -> Any:
    loaded = loading.load(loading.resolve(name), device="cpu")
    loaded.pipe.set_progress_bar_config(disable=True)
    return loaded


def _store(path: Path, results: Mapping[str, Any]) -> None:
    write_bytes(path, (json.dumps(results, separators=(",", ":")) + "\n").encode())


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    return command_line.run(work, parser(), argv)


if __name__ == "__main__":
    sys.exit(main())
