"""Claims of a trace about places that act together: ``python -m lab.validate.tracing.interplay``.

Takes what swaps of keys and values do to each prompt of the causal structures with two places, both ways at every
cross-attention, as ``structures.json`` has it (`lab.validate.tracing.structures`), and samples traces of 24 prompts
from it with replacement. Of each the tables and claims of the report are made: how often is the pair called redundant,
in series or only together, and how often are places said to oppose each other? No image is drawn anew. The pair is that
of the two places that change an image, which is what the pilot of `probes.stages.trace.top_places` chooses. Both at
once do what the word does, since it reaches the image by no other way (the certificates have it as measured).

*Levelled*: the same with the mean interaction taken out of the effect of both at once, so that whatever is then said of
the pair is false.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.methods.tracing.effects import JOIN, WHAT, Effects, Place
from analysis.methods.tracing.interplay import interplay, pair_claim
from analysis.methods.tracing.outcomes import VERDICT
from analysis.methods.tracing.sentences import opposing_places
from analysis.methods.tracing.shares import PAIR, share_table
from analysis.methods.tracing.smallest import ENOUGH, NEEDED, smallest_set
from analysis.methods.tracing.together import SUM, together_table
from lab.templates import render
from probes import command_line
from probes.errors import UserError
from probes.runs.parts import write_bytes
from probes.stages.trace.variants import KEYS_AND_VALUES
from probes.toyworld import STRUCTURES
from probes.toyworld.structures.truth import structures
from probes.toyworld.verdict import VERSION

REFERENCE, FIRST, SECOND = "neutral", "masculine", "feminine"
TRACE, TRACES = 24, 100
SAMPLING = {"level": 0.95, "resamples": 499, "seed": 0}
OPPOSING, OF_ALL = "opposing", "all places"
# what the report is to say of a structure, by the kind of it
EXPECTED = {"redundant": "redundant", "opposing": OPPOSING}


@dataclass(frozen=True)
class OfBoth(Effects):
    """Effects of which only those of both words together are measured."""

    @property
    def donors(self) -> tuple[str, ...]:
        """Both words together."""
        return (self.both,)


@dataclass(frozen=True)
class PlaceEffects:
    """Effects of both words together on each prompt, in units of the outcome.

    Attributes
    ----------
    sites : tuple of str
        All places, in the order of the sweep.
    pair : tuple of str
        The two that are patched together.
    total : ndarray of float64, shape (n_prompts,)
    enough, needed : ndarray of float64, shape (n_prompts, n_sites)
        Of each place alone.
    enough_both, needed_both : ndarray of float64, shape (n_prompts,)
        Of the pair.
    """

    sites: tuple[str, ...]
    pair: tuple[str, str]
    total: NDArray[np.float64]
    enough: NDArray[np.float64]
    needed: NDArray[np.float64]
    enough_both: NDArray[np.float64]
    needed_both: NDArray[np.float64]

    @classmethod
    def of(cls, entry: Mapping[str, Any], pair: Sequence[str]) -> PlaceEffects:
        """Lay out an entry of ``structures.json``; Shapley values add up to the total effect."""
        methods = entry["methods"]
        enough, needed, parts = (
            np.array(methods[name], float) for name in ("sufficiency", "necessity", "shapley")
        )
        total = parts.sum(1)
        return cls(tuple(entry["sites"]), tuple(pair), total, enough, needed, total, total)

    def of_prompts(self, rows: NDArray[np.int64]) -> PlaceEffects:
        """Return some prompts, which may stand more than once."""
        names = ("total", "enough", "needed", "enough_both", "needed_both")
        return replace(self, **{name: getattr(self, name)[rows] for name in names})

    def levelled(self) -> PlaceEffects:
        """Return the same without any interaction on average, both ways."""
        at = [self.sites.index(site) for site in self.pair]
        return replace(
            self,
            enough_both=self.enough_both - np.mean(self.enough_both - self.enough[:, at].sum(1)),
            needed_both=self.needed_both - np.mean(self.needed_both - self.needed[:, at].sum(1)),
        )


def effects(some: PlaceEffects) -> OfBoth:
    """Return the effects as `analysis.methods.tracing` has them: as outcomes, those of the feminine word all 0."""

    def place(kind: str, sites: Sequence[str]) -> Place:
        about = {"kind": kind, "site": JOIN.join(sites), "part": KEYS_AND_VALUES, "source": "own"}
        return tuple({**about, "first_step": 0, "stop_step": 1}.get(name) for name in WHAT)

    columns = [
        (place("site", [site]), some.enough[:, at], some.needed[:, at]) for at, site in enumerate(some.sites)
    ]
    columns.append((place(PAIR, some.pair), some.enough_both, some.needed_both))
    columns.append((place("complete", some.sites), some.total, some.total))
    nothing, patched = np.zeros((len(some.total), 1)), {}
    for where, enough, needed in columns:
        patched[where, REFERENCE, FIRST] = enough[:, None]
        patched[where, FIRST, REFERENCE] = (some.total - needed)[:, None]
        patched[where, REFERENCE, SECOND] = patched[where, SECOND, REFERENCE] = nothing
    plain = {REFERENCE: nothing, SECOND: nothing, FIRST: some.total[:, None]}
    return OfBoth(VERDICT, VERSION, REFERENCE, FIRST, SECOND, plain, patched)


def shares_of(traced: OfBoth) -> pd.DataFrame:
    """Return the table ``trace_shares`` of places, pairs and all at once."""
    return share_table([traced], ("site", PAIR, "complete"), SAMPLING)


def claims(traced: OfBoth, shares: pd.DataFrame) -> dict[str, str]:
    """Return what the report says: of the pair (`PAIR`), opposing places (`OPPOSING`), the sum of all (`OF_ALL`)."""
    together = together_table([traced], SAMPLING).to_dict("records")
    found = {OF_ALL if row["kind"] == SUM else PAIR: pair_claim(row, shares) for row in together}
    up, down = opposing_places(shares[shares["kind"] == "site"])
    if len(up) and len(down):
        found[OPPOSING] = OPPOSING
    return {name: claim for name, claim in found.items() if claim}


def says_of_pair(traced: OfBoth) -> bool:
    """Return whether the report says anything of how the pair acts together."""
    together = together_table([traced], SAMPLING)
    return interplay(together[together["kind"] == PAIR].iloc[0]) != ""


def rates(
    some: PlaceEffects,
    expected: str | None,
    sets: Mapping[str, Sequence[Sequence[str]]],
    traces: int = TRACES,
    size: int = TRACE,
) -> dict[str, Any]:
    """Return how often what is said of resampled traces, each of so many prompts drawn with replacement.

    Returns
    -------
    dict
        ``said``: by claim, in how many traces it was made, of the pair or opposing places; ``of_all``: of the sum of
        all; ``as_expected``: traces in which what was expected was said of pair and opposing, and nothing else;
        ``levelled``: traces in which anything was said of the pair though places add up;
        ``sets``: by estimand, traces whose smallest set of places is one of the true `sets` (None without any).
    """
    rng, said, of_all, right, false = np.random.default_rng(0), Counter(), Counter(), 0, 0
    true = {estimand: set(map(frozenset, sets[estimand])) for estimand in sets}
    found_sets = dict.fromkeys(true, 0)
    level = some.levelled()
    for _ in range(traces):
        rows = rng.integers(len(some.total), size=size)
        traced = effects(some.of_prompts(rows))
        shares = shares_of(traced)
        found, own = claims(traced, shares), shares[shares["donor"] == traced.both]
        for estimand in true:
            smallest = smallest_set(own, estimand)
            found_sets[estimand] += smallest is not None and frozenset(smallest.sites) in true[estimand]
        of_all.update([found.pop(OF_ALL)] if OF_ALL in found else [])
        said.update(set(found.values()))
        right += set(found.values()) == {expected}
        false += says_of_pair(effects(level.of_prompts(rows)))
    return {
        "traces": traces,
        "said": dict(sorted(said.items())),
        "of_all": dict(sorted(of_all.items())),
        "as_expected": right if expected else None,
        "levelled": false,
        "sets": {estimand: found_sets[estimand] if true[estimand] else None for estimand in true},
    }


def result(name: str, entry: Mapping[str, Any], traces: int) -> dict[str, Any]:
    """Return what is stored of a structure with two places."""
    structure = structures()[name]
    some, expected = PlaceEffects.of(entry, structure.sites), EXPECTED[structure.kind]
    total, at = some.total, [some.sites.index(site) for site in structure.sites]
    return {
        "kind": structure.kind,
        "prompts": len(total),
        **{key: entry[key] for key in ("seeds", "steps")},
        "total": [round(float(total.mean()), 2), round(float(total.std(ddof=1) / len(total) ** 0.5), 2)],
        "enough": some.enough[:, at].mean(0).round(2).tolist(),
        "needed": some.needed[:, at].mean(0).round(2).tolist(),
        "expected": expected,
        "smallest": {ENOUGH: _said(structure.sufficient), NEEDED: _said(structure.needed)},
        **rates(some, expected, {ENOUGH: structure.sufficient, NEEDED: structure.needed}, traces),
    }


def _said(sets: Sequence[Sequence[str]]) -> str:
    """Return sets of one size in words."""
    return ("both" if len(sets[0]) == 2 else "either") if sets else ""


def page(results: Mapping[str, Any]) -> str:
    """Return the page, from what `result` returns by structure."""
    return render("trace_interplay", models=results, size=TRACE)


def parser() -> argparse.ArgumentParser:
    """The command line's options."""
    main = command_line.Parser(
        prog="python -m lab.validate.tracing.interplay",
        description="Sample traces of causal structures, and count what is said of their places.",
    )
    docs = Path("docs/validation")
    main.add_argument("--effects", type=Path, default=docs / "structures.json", help="of every prompt")
    main.add_argument("--traces", type=command_line.count, default=TRACES, help="(default: %(default)s)")
    main.add_argument("--out", type=Path, default=docs / "trace_interplay.md", help="page to write")
    return main


def work(options: argparse.Namespace) -> None:
    """Do what the command line asks."""
    if not options.effects.is_file():
        raise UserError(
            f"{options.effects}: expected effects of every prompt, found no file: run python -m"
            " lab.validate.tracing.structures first"
        )
    stored = json.loads(options.effects.read_text(encoding="utf-8"))
    command_line.writable(options.out)
    chosen = [name for name in STRUCTURES if name in stored]
    results = {}
    for name in chosen:
        results[name] = result(name, stored[name], options.traces)
        print(f"{name}: {results[name]['said']}", flush=True)
    write_bytes(options.out.with_suffix(".json"), (json.dumps(results, indent=1) + "\n").encode())
    write_bytes(options.out, page(results).encode())


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    return command_line.run(work, parser(), argv)


if __name__ == "__main__":
    sys.exit(main())
