"""The page docs/tracing.md, in Markdown, from the numbers of `lab.validate.tracing.ranking`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.methods.tracing.localisation import (
    Localisation,
    entering_steps,
    localisation,
    overlap,
    true_ranks,
)
from analysis.report.format import fixed
from analysis.stats.shares import shares
from lab.train.located.page import is_control, measured_quality
from lab.validate.tracing.methods import METHODS, PlaceScores
from lab.validate.tracing.ranking import DONOR, OF_HEADS, OF_STEPS, RECIPIENT, from_json
from probes.toyworld.located.truth import Specimen, specimens

RESAMPLES, SEED, LEVEL = 1000, 0, 0.95
ENDS = ((1 - LEVEL) / 2, (1 + LEVEL) / 2)
NOTHING = 1e-6  # a score below it is none: what rounding leaves
LABELS = {method.name: method.label for method in METHODS} | {"probe": "probe separability"}


def page(results: Mapping[str, Any], covered: Sequence[Mapping[str, Any]] = ()) -> str:
    """Return the page.

    Parameters
    ----------
    results : mapping
        By specimen, of `lab.validate.tracing.ranking.rank`.
    covered : sequence of mapping
        Rows of `lab.validate.tracing.coverage.coverage`.
    """
    some = next(iter(results.values()))
    head = HEAD.format(
        prompts=some["prompts"],
        steps=some["steps"],
        recipient=RECIPIENT,
        donor=DONOR,
    )
    sections = (_effects, _ranks, _methods, _controls, _heads, _windows, _positions)
    lines = [head, *(line for section in sections for line in section(results)), *_covered(covered)]
    return "\n".join(lines) + "\n"


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _header(texts: Sequence[str], numbers: Sequence[str]) -> list[str]:
    return [_row(*texts, *numbers), f"|{'---|' * len(texts)}{'---:|' * len(numbers)}"]


def _short(name: str) -> str:
    return f"`{name.removeprefix('toyworld-')}`"


def total(result: Mapping[str, Any]) -> tuple[float, float]:
    """Mean change of the verdict by the word itself, and its standard error over prompts."""
    totals = np.array(result["methods"]["keys_values"]["totals"])
    return float(totals.mean()), float(totals.std(ddof=1) / np.sqrt(len(totals)))


def control(name: str) -> bool:
    """Whether a specimen's published total effect is below half of toyworld's."""
    return is_control(measured_quality(name), measured_quality())


def located(
    results: Mapping[str, Any], controls: bool = False
) -> Iterator[tuple[Specimen, Mapping[str, Any]]]:
    """Specimens whose word enters at cross-attentions and has an effect; those kept as controls on request."""
    for name, result in results.items():
        specimen = specimens()[name]
        mean, error = total(result)
        enters = any(site.endswith(".cross") for site in specimen.sites)
        if enters and mean > 2 * error and (controls or not control(name)):
            yield specimen, result


def _truth(specimen: Specimen, places: Sequence[Any]) -> NDArray[np.bool_]:
    return np.array([place in specimen.sites for place in places])


def _found(scores: PlaceScores, specimen: Specimen) -> Localisation:
    return localisation(np.abs(scores.by_place()), _truth(specimen, scores.places))


def resampled(scores: PlaceScores) -> NDArray[np.float64]:
    """Scores of all places in resamples of the prompts, shape (resamples, places)."""
    number = len(scores.values)
    return np.abs(scores.by_place(np.random.default_rng(SEED).integers(0, number, (RESAMPLES, number))))


def _effects(results: Mapping[str, Any]) -> Iterator[str]:
    yield from ("", "## The specimens", "", EFFECTS)
    yield from ("", *_header(["specimen", "the word enters at"], ["total effect (s.e.)"]))
    for name, result in results.items():
        specimen, (mean, error) = specimens()[name], total(result)
        enters = ", ".join(f"`{site}`" for site in specimen.sites) or "nowhere"
        wire = specimen.wires[0] if specimen.wires else None
        if specimen.kind == "head" and wire:
            enters += f", head {', '.join(map(str, wire.heads))}"
        if specimen.kind == "window" and wire:
            enters += f", timesteps {wire.times[0]} to {wire.times[1] - 1}"
        weak = " (control)" if control(name) else ""
        yield _row(_short(name) + weak, enters, f"{fixed(mean, 2)} ({fixed(error, 2)})")


def _ranks(results: Mapping[str, Any]) -> Iterator[str]:
    chosen = list(located(results, controls=True))
    names = _names(results)
    yield from ("", "## Where the true place ranks", "", RANKS)
    yield from ("", *_header(["specimen"], [LABELS[name] for name in names]))
    for specimen, result in chosen:
        cells = []
        for name in names:
            scores = from_json(result["methods"][name])
            found = _found(scores, specimen)
            ends = np.quantile(true_ranks(resampled(scores), _truth(specimen, scores.places)), ENDS)
            here = np.abs(scores.by_place())[_truth(specimen, scores.places)].max()
            spread = "" if ends[0] == ends[1] else f", {ends[0]:.0f} to {ends[1]:.0f}"
            cells.append(f"**{found.rank:.0f}** ({fixed(here, 2)}{spread})")
        yield _row(_short(specimen.name) + (" (control)" if control(specimen.name) else ""), *cells)


def _names(results: Mapping[str, Any]) -> list[str]:
    there = set.intersection(*(set(result["methods"]) for result in results.values()))
    return [name for name in LABELS if name in there]


def _methods(results: Mapping[str, Any]) -> Iterator[str]:
    chosen = list(located(results))
    yield from ("", "## What each method is worth", "", WORTH)
    yield from (
        "",
        *_header(
            ["method"], ["first is true", "MRR", "true among the best", "AUROC", "largest off the truth"]
        ),
    )
    for name in _names(results):
        found = [_found(from_json(result["methods"][name]), specimen) for specimen, result in chosen]
        low, high = np.quantile(
            np.mean([1 / ranks for ranks in _resampled_ranks(name, chosen)], axis=0), ENDS
        )
        off = [
            one.leakage / np.abs(from_json(result["methods"][name]).by_place()).max()
            for one, (_, result) in zip(found, chosen, strict=True)
        ]
        yield _row(
            LABELS[name],
            f"{sum(one.hit for one in found):.0f} of {len(found)}",
            f"{fixed(_mean('reciprocal_rank', found), 2)} [{fixed(low, 2)}, {fixed(high, 2)}]",
            fixed(_mean("recall", found), 2),
            fixed(_mean("auroc", found), 2),
            fixed(float(np.mean(off)), 2),
        )


def _resampled_ranks(
    name: str, chosen: Sequence[tuple[Specimen, Mapping[str, Any]]]
) -> Iterator[NDArray[np.int64]]:
    """Of each specimen the rank of the true site in each resample."""
    for specimen, result in chosen:
        scores = from_json(result["methods"][name])
        yield true_ranks(resampled(scores), _truth(specimen, scores.places))


def _mean(name: str, found: Sequence[Localisation]) -> float:
    return float(np.mean([getattr(one, name) for one in found]))


def _controls(results: Mapping[str, Any]) -> Iterator[str]:
    names = _names(results)
    yield from ("", "## Where nothing is decided", "", CONTROLS)
    yield from ("", *_header(["specimen"], [LABELS[name] for name in names]))
    for name, result in results.items():
        if specimens()[name].sites:
            continue
        cells = []
        for method in names:
            scores = from_json(result["methods"][method])
            values = np.abs(scores.by_place())
            at = str(scores.places[int(values.argmax())]).removeprefix("unet.")
            cells.append("nothing" if values.max() <= NOTHING else f"`{at}` ({fixed(values.max(), 2)})")
        yield _row(_short(name), *cells)


def _parts(
    results: Mapping[str, Any], key: str, kinds: Sequence[str]
) -> Iterator[tuple[Specimen, str, PlaceScores]]:
    for name, result in results.items():
        specimen = specimens()[name]
        for site, stored in result.get(key, {}).items():
            if specimen.kind in kinds:
                yield specimen, site, from_json(stored)


def _heads(results: Mapping[str, Any]) -> Iterator[str]:
    yield from ("", "## Heads", "", HEADS)
    rows = list(_parts(results, "heads", OF_HEADS))
    yield from ("", *_header(["specimen", "site"], [f"head {n}" for n in range(4)] + ["true head first"]))
    for specimen, site, scores in rows:
        values, true = scores.by_place(), specimen.wires[0].heads
        first = "–" if not specimen.sites else ("yes" if int(np.abs(values).argmax()) in true else "no")
        yield _row(
            _short(specimen.name),
            f"`{site}`",
            *(_with_interval(scores, n) for n in range(len(values))),
            first,
        )


def _with_interval(scores: PlaceScores, place: int) -> str:
    """A share with its interval over prompts."""
    found = shares(scores.values[:, [place]], scores.totals, level=LEVEL)
    if np.isnan(found.share[0]):
        return "–"
    ends = "" if np.isnan(found.low[0]) else f" [{fixed(found.low[0], 2)}, {fixed(found.high[0], 2)}]"
    return fixed(found.share[0], 2) + ends


def _windows(results: Mapping[str, Any]) -> Iterator[str]:
    rows = list(_parts(results, "windows", OF_STEPS))
    yield from ("", "## Windows of steps", "", STEPS)
    if not rows:
        return
    yield from (
        "",
        *_header(
            ["specimen"],
            [f"steps {a} to {b - 1}" for a, b in rows[0][2].places] + ["steps that are open", "overlap"],
        ),
    )
    for specimen, _, scores in rows:
        steps = max(stop for _, stop in scores.places)
        true = set(specimen.wires[0].steps(results[specimen.name]["timesteps"][:steps]))
        by_window = shares(scores.values, scores.totals, level=LEVEL)
        found = entering_steps(by_window.low, by_window.high, scores.places)
        share = fixed(overlap(found, true), 2) if specimen.kind == "window" else "–"
        open_at = f"{min(true)} to {max(true)}" if true else "none"
        yield _row(
            _short(specimen.name),
            *(_with_interval(scores, n) for n in range(len(scores.places))),
            open_at,
            share,
        )


def _covered(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if not rows:
        return
    yield from ("", "## Whether intervals cover", "", COVERED.format(prompts=rows[0]["prompts"]))
    yield from (
        "",
        *_header(
            ["keys and values of", "donor"],
            [
                *("share", "traces with an interval", "coverage", "interval ends below", "begins above"),
                "median width",
            ],
        ),
    )
    for row in rows:
        yield _row(
            f"`{row['site']}`",
            row["donor"],
            fixed(row["share"], 3),
            f"{row['traces'] - row['undefined']} of {row['traces']}",
            f"{row['coverage']:.1%}",
            str(row["below"]),
            str(row["above"]),
            fixed(row["width"], 2),
        )


def _positions(results: Mapping[str, Any]) -> Iterator[str]:
    rows = [
        (specimens()[name], from_json(result["positions"]))
        for name, result in results.items()
        if specimens()[name].sites and total(result)[0] > 2 * total(result)[1]
    ]
    yield from ("", "## Token positions", "", POSITIONS)
    if rows:
        yield from ("", *_header(["specimen"], [str(place) for place in rows[0][1].places]))
    for specimen, scores in rows:
        yield _row(_short(specimen.name), *(_with_interval(scores, n) for n in range(len(scores.places))))


HEAD = """# Which methods find the place?

Nobody knows where a real model decides what a person looks like, so nobody can say whether a method of localisation
finds it. In the located specimens the place is known by wiring (`probes/toyworld/located/specimens.yaml`): the words
differ in four channels of the text that only the weights named there can read. On this page every method is held
against them. It is written by `python -m lab.validate.tracing`, which draws {prompts} captions of toyworld in
{steps} steps, *{recipient}* and *{donor}* from the same noise. The outcome is the verdict (exact log-odds of the
planted mixture component, from what the checker sees and the prompt does not name); a share is the change of the
verdict by a swap over that by the word itself, a ratio of sums over prompts; intervals are over prompts, 95 %.

What is planted is planted: it says nothing about how anybody looks. That a method finds these places does not show
that it finds those of a model that was trained at large; what misses them here has no claim to be believed there."""
EFFECTS = """The total effect is the mean verdict of *man* less that of *woman* on this page's prompts. *Control*: where
the effect that is published with a specimen (docs/toyworld.md, on more prompts) is below half of toyworld's."""
RANKS = """In bold the rank of the true cross-attention among all (1 is found; ties count against the method), in
brackets the score there, a share for swaps, and the 95 % range of the rank over resampled prompts where it moves.
Swaps of keys and values are the positive control: the word can reach the U-Net in no other way. *Gradient attribution*
estimates such a swap to first order, on the final latent; *cosine atlas* is the mean distance of the two words' outputs
over steps; *attention contribution* is the share of the output that comes through the word; *probe separability* is the
AUC of a linear probe less its control's."""
WORTH = """Over the specimens above that are no controls. *True among the best*: share of the true places among as many
best ones. *Largest off the truth*: over the largest score at all, mean over specimens; 1 means that a false place has
the largest. MRR: mean reciprocal rank, with an interval over prompts for these specimens. Most methods find a single
entry, the atlas among them: before it nothing differs, and behind it the difference is spread. That is easier than a
trained model, where the word enters everywhere; what tells the methods apart is what they say where nothing
is decided."""
CONTROLS = """The place a method names where no place decides: its largest score, and where. In `coded-null` nothing
reads the code; in `decoy` one head's keys and values do and nothing reads that head. Probes are held against outputs
here; of the decoy's keys and values they read the code ([decoding.md](decoding.md)). Readable is not used."""
HEADS = """Keys and values of one head alone at the cross-attention that reads the code. In `head` the code reaches
one of four and decides through it; in `decoy` one of four, and nothing reads it."""
STEPS = """Keys and values at the true cross-attention in one window of steps alone. The window of a specimen that reads
the code at some timesteps only is known; a step counts as found where the interval of its window's share does not hold
0: a swap in any other step changes no bit. Elsewhere all steps are open, and the shares say when the verdict is
decided."""
POSITIONS = """Keys and values of all cross-attentions at some token positions alone. The code stands at the word's
position and nowhere else; `embedding` differs in the embedding of the word, which all later positions can read."""
COVERED = """`python -m lab.validate.tracing.coverage` draws {prompts} captions of `toyworld` once, and takes 200
traces of 24 prompts from them. A share's interval (95 %) is held against the share over 2,000 of the other prompts. By
chance alone 200 such intervals cover in 92 to 98 %."""
