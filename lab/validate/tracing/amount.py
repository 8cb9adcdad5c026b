"""The amount of an edit at which the neutral word leans to neither side, on captions that the page does not show.

``python -m lab.validate.tracing.amount --out docs/validation/mitigation_ridges.json`` makes the edit of
`docs/validation/mitigation.yaml` with the usual ridge and several amounts, and draws the attributes of GEP in the
edit's own contexts, none of which is GEP's, each amount from noise of its own. The lean is the reading of the neutral
word between those of the two explicit words of the same edited model, (p − p_a) / (p_b − p_a); a straight line through
the leans gives the amount. Beside it stands what the edit leaves over with several ridges: in its contexts, in each by
the others, and in captions of GEP.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from analysis.methods.mitigation.readings import judged
from lab.validate.tracing.edited import EDIT, WORDS, templates
from probes import command_line
from probes.models import edits
from probes.models.edits import Edit, closed_form
from probes.models.edits.applying import Edited
from probes.models.edits.states import text_states, written
from probes.prompts import sets
from probes.runs.parts import write_bytes
from probes.toyworld.checker import read_images
from probes.toyworld.world import World, load_world

MODEL = "toyworld"
AMOUNTS = (0.8, 1.1, 1.4, 1.8)
RIDGES = (0.0001, 0.001, 0.01, 0.1, 0.3, 1.0, 3.0)
GEP_CAPTIONS = 40  # in which it is said what an edit leaves over
STEPS, PROMPTS, SEED, NOISE = 6, 345, 0, 9_000_000
NEUTRAL, NONE, ALL = WORDS  # read between the second, of component a, and the third, of component b
TARGET = 0.5


def captions(edit: Edit, number: int = PROMPTS, seed: int = SEED) -> list[str]:
    """Every attribute of GEP in every context of the edit but GEP's own: so many of them, drawn at random."""
    axes = sets.read("gep")["axes"]
    tails = [context.removeprefix("a {person} ") for context in edit.contexts if context != "a {person}"]
    made = [
        f"a {{person}} {attribute} {tail}"
        for attribute in axes["attribute"].values()
        for tail in tails
        if tail not in axes["context"]
    ]
    return [made[place] for place in np.random.default_rng(seed).permutation(len(made))[:number]]


def read_amount(
    edited: Edited,
    amount: float,
    texts: Mapping[str, Sequence[str]],
    draw: Callable[[Sequence[str]], NDArray[np.uint8]],
    world: World,
) -> dict[str, Any]:
    """Return what is read with one amount: readings of each word, the lean between them, and what the edit costs.

    Parameters
    ----------
    edited : Edited
        The edit in force, for its record.
    amount : float
    texts : mapping of str to sequence of str
        Captions by word.
    draw : callable
        Draws prompts, an image of 64 x 64 each.
    """
    readings, named = {}, []
    for word, chosen in texts.items():
        prompts = [text.replace("{person}", word) for text in chosen]
        seen = judged(read_images(draw(prompts)), prompts, world)
        readings[word] = float((seen["verdict"] > 0).mean())
        named.append(seen["named"].to_numpy(float))
    return {
        "amount": amount,
        "readings": readings,
        "lean": (readings[NEUTRAL] - readings[NONE]) / (readings[ALL] - readings[NONE]),
        "named": float(np.nanmean(np.concatenate(named))),
        "change": max(edited.record["relative_change"].values()),
        "images": {word: len(chosen) for word, chosen in texts.items()},
    }


def amount_at(tried: Sequence[Mapping[str, Any]], target: float = TARGET) -> float:
    """Return where the straight line of least squares through the leans meets the target.

    Examples
    --------
    >>> round(amount_at([{"amount": 0.0, "lean": 0.7}, {"amount": 1.0, "lean": 0.3}]), 3)
    0.5
    """
    slope, start = np.polyfit([one["amount"] for one in tried], [one["lean"] for one in tried], 1)
    return float((target - start) / slope)


def by_ridge(pipe: Any, edit: Edit, ridges: Sequence[float] = RIDGES) -> list[dict[str, Any]]:
    """Return what an edit, all of the way, leaves over with each ridge.

    Returns
    -------
    list of dict
        ``ridge``, and by what it is of (``contexts``, ``held_out``: each context by the others, ``gep``: captions of
        GEP) the two numbers of `probes.models.edits.closed_form.left_over`.
    """
    wholly = {word: dict.fromkeys(shares, 1.0) for word, shares in edit.words.items()}
    edit = edit.model_copy(update={"words": wholly})
    captions_of_gep = edit.model_copy(update={"contexts": templates(GEP_CAPTIONS)})
    wanted, elsewhere = (_goal(pipe, one) for one in (edit, captions_of_gep))
    table = []
    for ridge in ridges:
        mapping = closed_form.solve(wanted, ridge, edit.keep_weight)
        table.append(
            {
                "ridge": ridge,
                "contexts": closed_form.left_over(wanted, mapping),
                "held_out": closed_form.left_over_held_out(wanted, ridge, edit.keep_weight),
                "gep": closed_form.left_over(elsewhere, mapping),
            }
        )
    return table


def _goal(pipe: Any, edit: Edit) -> closed_form.Goal:
    texts = written(edit, [pipe.tokenizer])
    return closed_form.goal(edit, texts, {word: text_states(pipe, one.texts) for word, one in texts.items()})


def parser() -> argparse.ArgumentParser:
    """The command line's options."""
    main = command_line.Parser(
        prog="python -m lab.validate.tracing.amount",
        description="Find the amount of an edit at which the neutral word leans to neither side.",
    )
    add = main.add_argument
    add("--out", type=Path, required=True, help="JSON")
    add("--amounts", nargs="+", type=float, default=list(AMOUNTS), help="to be tried (default: %(default)s)")
    add("--prompts", type=command_line.count, default=PROMPTS, help="captions of an amount, at most 345")
    return main


def work(options: argparse.Namespace) -> None:
    """Do what the command line asks."""
    from lab.train.base.measure import sample
    from probes.models import loading

    command_line.writable(options.out)
    options_of_edit = yaml.safe_load(EDIT.read_text("utf-8"))["edit"]
    edit = Edit(**{name: value for name, value in options_of_edit.items() if name != "ridge"})
    ((word, shares),) = edit.words.items()
    ((other, _),) = shares.items()
    loaded = loading.load(loading.resolve(MODEL), device="cpu")
    texts = captions(edit, options.prompts)
    chosen = {NEUTRAL: texts, NONE: texts[: len(texts) // 3], ALL: texts[: len(texts) // 3]}
    tried, ridges = [], by_ridge(loaded.pipe, edit)
    for number, amount in enumerate(options.amounts):

        def draw(prompts: Sequence[str], first: int = NOISE + 10_000 * number) -> NDArray[np.uint8]:
            noise = [first + place for place in range(len(prompts))]
            guidance = loaded.guidance_scale
            return sample(loaded.pipe, prompts, noise, steps=STEPS, guidance_scale=guidance, progress=False)

        with edits.apply(loaded.pipe, edit.model_copy(update={"words": {word: {other: amount}}})) as edited:
            tried.append(read_amount(edited, amount, chosen, draw, load_world()))
        print(f"{amount:g}: {tried[-1]['readings']}, {tried[-1]['lean']:.3f}", file=sys.stderr)
        stored = {
            "ridge": edit.ridge,
            "steps": STEPS,
            "tried": tried,
            "by_ridge": ridges,
            "gep_captions": GEP_CAPTIONS,
        }
        if len(tried) > 1:
            stored["amount"] = amount_at(tried)
        write_bytes(options.out, (json.dumps(stored, indent=1) + "\n").encode())
    print(options.out)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    return command_line.run(work, parser(), argv)


if __name__ == "__main__":
    sys.exit(main())
