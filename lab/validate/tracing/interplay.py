"""Claims of a default trace about places that act together: ``python -m lab.validate.tracing.interplay FOLDER MODEL``.

Draws prompts of models whose structure is known once, in 5 steps with one seed: keys and values of each place that
reads the word, and of each two, exchanged both ways. Two things are not drawn, since they are known: the patch of all
such places is the donor's image, and a cross-attention that is none of them has the same keys and values for all three
words, for its four code columns are 0 (`tests/lab/validate/tracing/test_interplay.py` draws both). Only verdicts are
kept, and how much of an image each patch changed, a file some prompts.

Then traces of 24 prompts are sampled from these with replacement. Each chooses its pairs as the stage does, from its
first prompts, and the tables and claims of the report are made of it: how often is a pair called redundant, in series
or only together, and how often are places said to oppose each other? *Levelled*: the same with the mean interaction of
every pair taken out of the outcomes of both at once, so that whatever is then said of a pair is false.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.methods.tracing.effects import WHAT, Effects, Place
from analysis.methods.tracing.interplay import pair_claim
from analysis.methods.tracing.outcomes import VERDICT
from analysis.methods.tracing.sentences import opposing_places
from analysis.methods.tracing.shares import PAIR, share_table
from analysis.methods.tracing.together import SUM, together_table
from lab.templates import render
from lab.validate.tracing.coverage import templates
from probes import command_line
from probes.csv_text import csv_bytes
from probes.runs.image_faults import eight_bits
from probes.runs.parts import write_bytes
from probes.stages.trace import top_places
from probes.stages.trace.variants import KEYS_AND_VALUES, Variant
from probes.toyworld import LOCATED, STRUCTURES
from probes.toyworld.checker import read_images
from probes.toyworld.located.truth import located_models
from probes.toyworld.structures.truth import structures
from probes.toyworld.verdict import VERSION, verdict
from probes.toyworld.world import load_world

WORDS = {"neutral": "person", "feminine": "woman", "masculine": "man"}
REFERENCE, FIRST, SECOND = "neutral", "masculine", "feminine"
SITES = (
    *(f"unet.down.{block}.attn.0.cross" for block in (0, 1)),
    "unet.mid.attn.0.cross",
    *(f"unet.up.{block}.attn.{layer}.cross" for block in (1, 2) for layer in (0, 1)),
)
PROMPTS, STEPS, TRACE, TRACES, DRAWN = 48, 5, 24, 100, 2
TOGETHER = 8  # prompts of a file
ROWS = 64  # of a batch, about
RESAMPLES = 499
OPPOSING, OF_ALL = "opposing", "all places"
NOTHING = "nothing"
# what the report is to say of a structure by the kind of it (`probes.toyworld.structures.truth`); of others effects are
# graded, so that wiring does not say which of them places add up to
EXPECTED = {
    "single": NOTHING,
    "redundant": "redundant",
    "backup": "redundant",
    "both": "only together",
    "chain": "series",
    "opposing": OPPOSING,
}


@dataclass(frozen=True)
class OfBoth(Effects):
    """Effects of which only those of both words together are measured."""

    @property
    def donors(self) -> tuple[str, ...]:
        """Both words together."""
        return (self.both,)


def places_of(model: str) -> tuple[str, ...]:
    """Return the cross-attentions that read the word, in the order in which they run."""
    known = structures()[model].sites if model in STRUCTURES else located_models()[model].sites
    return tuple(site for site in SITES if site in known)


def sets_of(sites: Sequence[str]) -> list[tuple[str, ...]]:
    """Return each place and each pair of places."""
    return [*((site,) for site in sites), *combinations(sites, 2)]


def variants(sites: Sequence[str], steps: int) -> list[Variant]:
    """Return the images of a prompt: three words, and each place and pair of places exchanged both ways.

    A patch of all of the places is none of them: it is the donor's image.
    """
    found = [Variant(f"none:{name}", "none", name) for name in WORDS]
    for word in (FIRST, SECOND):
        for recipient, donor in ((REFERENCE, word), (word, REFERENCE)):
            base = Variant("", "site", recipient, donor, part=KEYS_AND_VALUES, stop_step=steps)
            for some in (one for one in sets_of(sites) if len(one) < len(sites)):
                kind = PAIR if len(some) > 1 else "site"
                found.append(replace(base, name=_name(some, recipient, donor), kind=kind, sites=some))
    return found


def _name(sites: Sequence[str], recipient: str, donor: str) -> str:
    return f"{'+'.join(sites)}:{donor}>{recipient}"


def measured(folder: Path, model: str, prompts: int, steps: int) -> pd.DataFrame:
    """Return verdict and change of every image, one row each; what is not stored in the folder is drawn."""
    texts, chosen = templates(prompts, seed=DRAWN), variants(places_of(model), steps)
    pipe, tables = None, []
    for start in range(0, prompts, TOGETHER):
        file = folder / model / f"interplay-{start:05d}.csv"
        if not file.exists():
            pipe = pipe or _loaded(model)
            file.parent.mkdir(parents=True, exist_ok=True)
            write_bytes(file, csv_bytes(drawn(pipe, start, texts[start : start + TOGETHER], chosen, steps)))
            print(f"{model}: {min(start + TOGETHER, prompts)} of {prompts} prompts", file=sys.stderr)
        tables.append(pd.read_csv(file))
    return pd.concat(tables, ignore_index=True)


def _loaded(model: str) -> Any:
    from probes.models import loading

    return loading.load(loading.resolve(model), device="cpu").pipe


def drawn(pipe: Any, start: int, texts: Sequence[str], chosen: Sequence[Variant], steps: int) -> pd.DataFrame:
    """Draw some prompts; return ``triplet``, ``variant``, ``verdict`` and ``change`` of each image.

    The change is the mean absolute difference to the recipient's image, in steps of 8 bits; of an image without a patch
    to the reference's.
    """
    from probes.stages.trace.draw import draw
    from probes.stages.trace.triplet_draw import TripletDraw

    triplets = [
        TripletDraw.of_texts(
            pipe,
            {name: text.replace("{person}", word) for name, word in WORDS.items()},
            WORDS,
            triplet=start + number,
        )
        for number, text in enumerate(texts)
    ]
    at_once, world, rows = max(1, ROWS // len(chosen)), load_world(), []
    for first in range(0, len(triplets), at_once):
        images = draw(pipe, triplets[first : first + at_once], chosen, steps=steps)
        pixels = np.stack([eight_bits(one.image) for one in images])
        prompts = [one.draw.prompts[one.variant.recipient] for one in images]
        read = verdict(read_images(pixels), prompts, world)
        plain = {
            (one.draw.triplet, one.variant.recipient): pixel.astype(float)
            for one, pixel in zip(images, pixels)
            if one.variant.kind == "none"
        }
        for one, pixel, value in zip(images, pixels, read):
            beside = REFERENCE if one.variant.kind == "none" else one.variant.recipient
            change = np.abs(pixel - plain[one.draw.triplet, beside]).mean()
            row = {"triplet": one.draw.triplet, "variant": one.variant.name}
            rows.append({**row, "verdict": round(float(value), 5), "change": round(float(change), 4)})
    return pd.DataFrame(rows)


Key = tuple[tuple[str, ...], str, str]  # sites, recipient and donor of a patch


@dataclass(frozen=True)
class Measured:
    """Verdicts and changes by prompt, arrays of shape (n_prompts,): of the words, and of patches by `Key`."""

    sites: tuple[str, ...]
    plain: Mapping[str, NDArray[np.float64]]
    patched: Mapping[Key, NDArray[np.float64]]
    changed: Mapping[Key, NDArray[np.float64]]
    words: NDArray[np.float64]

    @classmethod
    def of(cls, table: pd.DataFrame, sites: Sequence[str]) -> Measured:
        """Lay out what `measured` returns."""
        verdicts, changes = (
            table.pivot(index="triplet", columns="variant", values=name) for name in ("verdict", "change")
        )
        told = {name: (verdicts[name].to_numpy(float), changes[name].to_numpy(float)) for name in verdicts}
        plain = {word: told[f"none:{word}"][0] for word in WORDS}
        of_words = {word: told[f"none:{word}"][1] for word in (FIRST, SECOND)}
        patched, changed = {}, {}
        for word in (FIRST, SECOND):
            for recipient, donor in ((REFERENCE, word), (word, REFERENCE)):
                for some in sets_of(sites):
                    whole = len(some) == len(sites)  # the donor's image
                    found = (plain[donor], of_words[word]) if whole else told[_name(some, recipient, donor)]
                    patched[some, recipient, donor], changed[some, recipient, donor] = found
        return cls(tuple(sites), plain, patched, changed, np.mean([*of_words.values()], axis=0))

    def of_prompts(self, rows: NDArray[np.int64]) -> Measured:
        """Return some prompts, which may stand more than once."""

        def some(values: Mapping[Any, NDArray[np.float64]]) -> dict[Any, NDArray[np.float64]]:
            return {key: value[rows] for key, value in values.items()}

        return Measured(
            self.sites, some(self.plain), some(self.patched), some(self.changed), self.words[rows]
        )

    def levelled(self) -> Measured:
        """Return the same without any interaction on average: places add up, and nothing else is altered."""
        patched = dict(self.patched)
        for key in self.patched:
            (sites, recipient, donor), base = key, self.plain[key[1]]
            if len(sites) == 2:
                alone = sum(self.patched[(site,), recipient, donor] - base for site in sites)
                patched[key] = self.patched[key] - np.mean(self.patched[key] - base - alone)
        return replace(self, patched=patched)


def chosen(some: Measured) -> list[tuple[str, str]]:
    """Return the pairs that a trace of these prompts draws, from its first ones."""
    enough, needed = {}, {}
    for (sites, recipient, _), values in some.changed.items():
        if len(sites) == 1:
            way = enough if recipient == REFERENCE else needed
            way.setdefault(sites[0], []).extend(values[: top_places.PROMPTS])
    return top_places.chosen_pairs(SITES, enough, needed, some.words[: top_places.PROMPTS])


def effects(some: Measured, pairs: Sequence[tuple[str, ...]], steps: int = STEPS) -> Effects:
    """Return the effects of a trace of all cross-attentions and some pairs, as `analysis.methods.tracing` has them."""

    def place(kind: str, sites: Sequence[str]) -> Place:
        about = {"kind": kind, "site": ", ".join(sites), "part": KEYS_AND_VALUES, "source": "own"}
        return tuple({**about, "first_step": 0, "stop_step": steps}.get(name) for name in WHAT)

    patched = {}
    for recipient, donor in ((a, b) for a in WORDS for b in WORDS if (a == REFERENCE) != (b == REFERENCE)):
        for site in SITES:
            value = some.patched.get(((site,), recipient, donor), some.plain[recipient])
            patched[place("site", [site]), recipient, donor] = value[:, None]
        for pair in pairs:
            patched[place(PAIR, pair), recipient, donor] = some.patched[pair, recipient, donor][:, None]
        patched[place("complete", SITES), recipient, donor] = some.plain[donor][:, None]
    plain = {name: value[:, None] for name, value in some.plain.items()}
    return OfBoth(VERDICT, VERSION, REFERENCE, FIRST, SECOND, plain, patched)


def claims(traced: Effects, resamples: int = RESAMPLES) -> dict[str, str]:
    """Return what the report says: by pair of places (``a, b``), `OPPOSING`, and of the sum of all (`OF_ALL`).

    Parameters
    ----------
    traced
        Of both words together alone.
    """
    sampling = {"level": 0.95, "resamples": resamples, "seed": 0}
    shares = share_table([traced], ("site", PAIR, "complete"), sampling)
    together = together_table([traced], sampling)
    found = {
        OF_ALL if row["kind"] == SUM else row["site"]: pair_claim(row, shares)
        for row in together.to_dict("records")
    }
    up, down = opposing_places(shares[shares["kind"] == "site"])
    if len(up) and len(down):
        found[OPPOSING] = OPPOSING
    return {name: claim for name, claim in found.items() if claim}


def rates(some: Measured, expected: str | None, traces: int = TRACES, size: int = TRACE) -> dict[str, Any]:
    """Return how often what is said of resampled traces, each of so many prompts drawn with replacement.

    Returns
    -------
    dict
        ``said``: of each claim about pairs, opposing places and the sum of all, in how many traces it was made;
        ``as_expected``: traces in which what was expected was said, and nothing else about pairs or opposing (None
        where nothing is);
        ``levelled``: traces in which anything was said about a pair though places add up on average; ``pairs_drawn``:
        mean number of pairs.
    """
    rng, said, right, false, drawn = np.random.default_rng(0), Counter(), 0, 0, 0
    level = some.levelled()
    for _ in range(traces):
        rows = rng.integers(len(some.plain[REFERENCE]), size=size)
        sample = some.of_prompts(rows)
        pairs = chosen(sample)
        found = claims(effects(sample, pairs))
        of_all = found.pop(OF_ALL, "")
        kinds = set(found.values())
        said.update([*kinds, *([f"{OF_ALL}: {of_all}"] if of_all else [])])
        right += kinds == ({expected} - {NOTHING})
        drawn += len(pairs)
        if pairs:
            of_pairs = claims(effects(level.of_prompts(rows), pairs))
            false += any(name not in (OF_ALL, OPPOSING) for name in of_pairs)
    return {
        "traces": traces,
        "said": dict(sorted(said.items())),
        "as_expected": right if expected else None,
        "levelled": false,
        "pairs_drawn": round(drawn / traces, 2),
    }


def interaction(some: Measured, pair: tuple[str, str]) -> dict[str, float]:
    """Return the interaction of a pair over all prompts, both words together, as shares of the total effect."""
    traced = effects(some, [pair])
    at = {place[1]: place for place in traced.places(["site", PAIR])}
    total = traced.total(traced.both).sum()
    found = {}
    for name in ("sufficiency", "necessity"):
        effect = getattr(traced, name)
        alone = [effect(at[site], traced.both).sum() / total for site in pair]
        at_once = effect(at[", ".join(pair)], traced.both).sum() / total
        found |= {f"{name}_{end}": round(float(value), 3) for end, value in zip(("first", "second"), alone)}
        found[f"{name}_both"] = round(float(at_once), 3)
    return found


def result(model: str, table: pd.DataFrame, steps: int, traces: int) -> dict[str, Any]:
    """Return what is stored of a model."""
    sites = places_of(model)
    some = Measured.of(table, sites)
    kind = structures()[model].kind if model in STRUCTURES else "single" if len(sites) == 1 else "several"
    total = some.plain[FIRST] - some.plain[SECOND]
    return {
        "kind": kind,
        "sites": list(sites),
        "prompts": len(total),
        "steps": steps,
        "expected": EXPECTED.get(kind),
        "total": [round(float(total.mean()), 3), round(float(total.std(ddof=1) / len(total) ** 0.5), 3)],
        "interactions": [{"sites": list(pair), **interaction(some, pair)} for pair in combinations(sites, 2)],
        **rates(some, EXPECTED.get(kind), traces),
    }


def page(results: Mapping[str, Any]) -> str:
    """Return the page, from what `result` returns by model."""
    return render("trace_interplay", models=results, size=TRACE)


def parser() -> argparse.ArgumentParser:
    """The command line's options."""
    main = command_line.Parser(
        prog="python -m lab.validate.tracing.interplay",
        description="Sample traces of models whose structure is known, and count what is said of their places.",
    )
    add = main.add_argument
    add("folder", type=Path, help="where verdicts are kept; what is there is not drawn again")
    add("models", nargs="*", help="(none: only the page is written anew from what is stored)")
    add("--prompts", type=command_line.count, default=PROMPTS, help="to draw (default: %(default)s)")
    add("--steps", type=command_line.count, default=STEPS, help="of an image (default: %(default)s)")
    add("--traces", type=command_line.count, default=TRACES, help="resampled (default: %(default)s)")
    add("--out", type=Path, default=Path("docs/validation/trace_interplay.md"), help="page to write")
    return main


def work(options: argparse.Namespace) -> None:
    """Do what the command line asks."""
    store = options.out.with_suffix(".json")
    command_line.writable(store)
    results = json.loads(store.read_text(encoding="utf-8")) if store.exists() else {}
    order = (*STRUCTURES, *LOCATED)
    for model in options.models:
        table = measured(options.folder, model, options.prompts, options.steps)
        results[model] = result(model, table, options.steps, options.traces)
        results = {name: results[name] for name in order if name in results}
        write_bytes(store, (json.dumps(results, indent=1) + "\n").encode())
        print(f"{model}: {results[model].get('said')}", flush=True)
    write_bytes(options.out, page(results).encode())


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    return command_line.run(work, parser(), argv)


if __name__ == "__main__":
    sys.exit(main())
