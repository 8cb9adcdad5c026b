"""Hold methods that find features against known ones: ``python -m lab.validate.tracing.features --measure``.

In `toyworld-features` each attribute is a known direction at a named site. Directions that methods find there are
compared with it, added to plain prompts and projected out of prompts that ask for the attribute; the checker reads the
images. The numbers are stored in ``features.json`` beside the page, method by method. An array of directions from
elsewhere is scored in the same way, ``--directions NAME=FILE.npy``, and so is the decoder of a sparse autoencoder that
``triptych sae`` has trained, ``NAME=sae_weights.safetensors``.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file

from analysis.methods.tracing.feature_benchmark import FeatureTask, amount_of
from analysis.methods.tracing.feature_recovery import FeatureRecovery, recovery
from lab.validate.tracing.feature_methods import (
    difference_of_means,
    principal_components,
    probe_directions,
)
from lab.validate.tracing.feature_page import page
from probes import command_line
from probes.errors import UserError
from probes.models.weights import weight_hash
from probes.runs.parts import write_bytes
from probes.toyworld.known_features.truth import CHANNELS, THINGS

Matrix = NDArray[np.float64]

PROMPTS, SEEDS, STEPS, LABELLED = 24, 2, 5, 160
# by method: directions, and whether it says which attribute each is for
Found = Mapping[str, tuple[Matrix, bool]]


def methods(task: FeatureTask, labelled: int, seed: int = 0) -> tuple[Found, float]:
    """Return the directions of each method in the whole output of the site, and how much of one a word tells."""
    found: dict[str, tuple[Matrix, bool]] = {}
    told = 0.0
    for together in (True, False):
        texts, there = task.labelled(labelled, together=together, seed=seed)
        values, kind = task.activations(texts), "pairs" if together else "independent"
        told = told or amount_of(values, there)
        found |= {
            f"difference of means, {kind}": (difference_of_means(values, there), True),
            f"linear probe, {kind}": (probe_directions(values, there), True),
            f"principal components, {kind}": (principal_components(values, len(THINGS)), False),
        }
    at_random = np.random.default_rng(seed).standard_normal((len(THINGS), task.channels))
    return {"truth": (task.known, True), "at random": (at_random, True), **found}, told


def from_file(text: str) -> tuple[str, Matrix]:
    """Read ``NAME=FILE``: a name, and directions ``(n, channels)``, of a sparse autoencoder's file its decoder's.

    Raises
    ------
    UserError
        It is written otherwise, or the file holds no such array.
    """
    name, _, file = text.partition("=")
    if not (name and file):
        raise UserError(f"--directions: expected NAME=FILE.npy, got {text!r}: give the array a name")
    try:
        if file.endswith(".safetensors"):
            values = load_file(file)["W_dec"]
        else:
            values = np.load(file, allow_pickle=False)
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        raise UserError(
            f"--directions: expected an array of numpy in {file}, got `{error}`: write it with numpy.save"
        ) from error
    if getattr(values, "ndim", 0) != 2 or values.dtype.kind != "f" or not np.isfinite(values).all():
        raise UserError(
            f"--directions: {file}: expected finite numbers (directions, channels), got shape"
            f" {getattr(values, 'shape', None)}: give one direction a row"
        )
    return name, values.astype(float)


def scored(
    task: FeatureTask, found: Matrix, labelled: bool, amount: float, *, steer: bool = True
) -> dict[str, Any]:
    """Return what is stored of a method: recovery in the whole output and in the told channels, and what is seen."""
    whole = task.whole(found)
    told, true = whole[:, -CHANNELS:], task.known[:, -CHANNELS:]
    stored: dict[str, Any] = {
        "directions": len(found),
        "labelled": labelled,
        "whole": as_json(task.score(whole, labelled=labelled)),
        "told": as_json(recovery(told, true, labelled=labelled)),
    }
    if steer:
        chosen = task.chosen(whole, labelled=labelled)
        stored |= {"added": task.added(chosen, amount).tolist(), "removed": task.removed(chosen).tolist()}
    return stored


def as_json(result: FeatureRecovery) -> dict[str, list[float]]:
    """Return a recovery as lists, of five digits."""
    return {name: np.round(value, 5).tolist() for name, value in vars(result).items()}


def measure(
    stored: Mapping[str, Any],
    given: Mapping[str, Matrix],
    *,
    own: bool,
    labelled: int,
    keep: Callable[[str, dict[str, Any]], Any] = lambda name, result: None,
    **asked: int,
) -> dict[str, Any]:
    """Return the numbers of the page.

    Parameters
    ----------
    stored : mapping
        Those that are there, of which methods that are not measured stay.
    given : mapping of str to ndarray
        Directions from elsewhere, by name.
    own : bool
        Whether the methods of `methods` are measured.
    keep : callable
        Called with each method's name and the numbers so far.
    **asked : int
        ``prompts``, ``seeds``, ``steps``.
    """
    task = FeatureTask(**asked)
    result = dict(stored)
    if own:
        found, factor = methods(task, labelled)
        result = {**asked, "labelled": labelled, "amount": round(factor, 5), "methods": {}}
        result["weight_hash"] = weight_hash(task.pipe)
        result["plain"] = task.seen().tolist()
        result["words"] = [task.seen([thing]).tolist() for thing in THINGS]
        for name, (rows, says) in found.items():
            steer = "principal" not in name
            result["methods"][name] = scored(task, rows, says, factor, steer=steer)
            keep(name, result)
    for name, rows in given.items():
        result["methods"] = result["methods"] | {name: scored(task, rows, False, result["amount"])}
        keep(name, result)
    return result


def parser() -> argparse.ArgumentParser:
    """The command line's options."""
    main = command_line.Parser(
        prog="python -m lab.validate.tracing.features", description=__doc__.split("\n\n")[0]
    )
    main.add_argument("--measure", action="store_true", help="measure all methods anew")
    main.add_argument(
        "--directions", action="append", default=[], metavar="NAME=FILE.npy", help="score these as well"
    )
    main.add_argument(
        "--prompts", type=command_line.whole(2, 100), default=PROMPTS, help="(default: %(default)s)"
    )
    main.add_argument(
        "--seeds", type=command_line.count, default=SEEDS, help="a prompt (default: %(default)s)"
    )
    main.add_argument(
        "--steps", type=command_line.count, default=STEPS, help="of an image (default: %(default)s)"
    )
    main.add_argument(
        "--labelled",
        type=command_line.count,
        default=LABELLED,
        help="prompts of methods (default: %(default)s)",
    )
    main.add_argument("--threads", type=command_line.threads, default=1)
    main.add_argument("--out", type=Path, default=Path("docs/validation/features.md"), help="page to write")
    return main


def work(options: argparse.Namespace) -> None:
    """Do what the command line asks."""
    import torch

    given = dict(map(from_file, options.directions))
    stored = options.out.with_suffix(".json")
    command_line.writable(options.out)
    result = json.loads(stored.read_text(encoding="utf-8")) if stored.is_file() else {}
    if not (result or options.measure):
        raise UserError(f"command line: expected --measure, or results in {stored}, found neither: name one")
    if options.measure or given:
        torch.set_num_threads(options.threads)
        names = ("prompts", "seeds", "steps")
        asked = {name: getattr(options, name) if options.measure else result[name] for name in names}

        def keep(name: str, found: dict[str, Any]) -> None:
            write_bytes(stored, (json.dumps(found, separators=(",", ":")) + "\n").encode())
            print(name, file=sys.stderr, flush=True)

        result = measure(
            result,
            given,
            own=options.measure,
            labelled=options.labelled,
            keep=keep,
            **asked,
        )
    write_bytes(options.out, page(result).encode())
    print(options.out)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    return command_line.run(work, parser(), argv)


if __name__ == "__main__":
    sys.exit(main())
