"""The page docs/gep_audits.md, in Markdown, from the results of `lab.validate.gep.result`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from analysis.report.format import fixed, p_number
from lab.validate.gep.readings import CHECKER, ESTIMATES, READ, UNNAMED
from lab.validate.gep.result import OURS, SHOWN

MEASURES = {
    "tau": "τ-b",
    "mcc": "MCC",
    "mcc_without_zeros": "MCC without zeros",
    "pearson": "Pearson",
    "auc": "AUC",
}
POWERED = "CLS, prediction-powered"


def page(results: Mapping[str, Any]) -> str:
    """Return the page.

    Parameters
    ----------
    results : mapping
        By specimen, of `lab.validate.gep.result.specimen_result`.
    """
    some = next(iter(results.values()))
    head = HEAD.format(
        images=some["images"], steps=some["steps"], dtype=some["dtype"], shown=SHOWN, drawn=_drawn(results)
    )
    sections = (_scores, _agreement, _areas, _vectors, _ours, _nearest)
    return "\n".join([head, *(line for section in sections for line in section(results))]) + "\n"


def _drawn(results: Mapping[str, Any]) -> str:
    """How often specimens draw what is named, as text."""
    shares = {}
    for specimen, result in results.items():
        named = result["settings"]["explicit"]["frequencies"].values()
        shares[specimen] = sum(map(sum, named)) / sum(map(len, named))
    return ", ".join(f"{_percent(share)} by `{specimen}`" for specimen, share in shares.items())


def _cells(results: Mapping[str, Any], settings: Sequence[str] = READ) -> Iterator[tuple[str, str, Any]]:
    for specimen, result in results.items():
        for setting in settings:
            yield specimen, setting, result["settings"][setting]


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _header(texts: Sequence[str], numbers: Sequence[str]) -> list[str]:
    return [_row(*texts, *numbers), f"|{'---|' * len(texts)}{'---:|' * len(numbers)}"]


def _with_ends(value: Sequence[float | None], digits: int = 2) -> str:
    middle, low, high = (fixed(one, digits) for one in value)
    return f"{middle} ({low} to {high})"


def _scores(results: Mapping[str, Any]) -> Iterator[str]:
    yield SCORES
    yield from _header(
        ["specimen", "setting", "read by"], ["score", "floor", "p", "without its own error", "95 % interval"]
    )
    for specimen, setting, cell in _cells(results):
        for source in (CHECKER, *ESTIMATES, OURS):
            row = cell["score"][source]
            floor, p = (fixed(row["floor"], 4), p_number(row["p_value"])) if "floor" in row else ("", "")
            interval = f"{fixed(row['low'], 4)} to {fixed(row['high'], 4)}"
            yield _row(
                specimen,
                setting,
                source,
                fixed(row["score"], 4),
                floor,
                p,
                fixed(row["debiased"], 4),
                interval,
            )
    yield ""


def _agreement(results: Mapping[str, Any]) -> Iterator[str]:
    yield AGREEMENT
    yield from _header(["specimen", "setting", "estimate"], [*MEASURES.values()])
    for specimen, setting, cell in _cells(results):
        for source, row in cell["agreement"].items():
            yield _row(specimen, setting, source, *(_with_ends(row[name]) for name in MEASURES))
        powered = cell["drawn"].get(str(SHOWN), {}).get("agreement", {}).get(POWERED)
        if powered:
            yield _row(
                specimen,
                setting,
                OURS,
                *(_with_ends(powered[name]) if name in powered else "" for name in MEASURES),
            )
    yield DIFFERENCES
    yield from _header(["specimen", "setting", "difference"], [*MEASURES.values()])
    for specimen, setting, cell in _cells(results):
        for pair, row in cell["differences"].items():
            yield _row(
                specimen, setting, pair.replace("-", "−"), *(_with_ends(row[name]) for name in MEASURES)
            )
    yield ""


def _areas(results: Mapping[str, Any]) -> Iterator[str]:
    yield AREAS
    yield from _header(
        ["attribute"], [f"{specimen}: {source}" for specimen in results for source in ESTIMATES]
    )
    for attribute in _attributes(results):
        areas = [
            result["settings"][UNNAMED]["auc"][source].get(attribute, [None] * 3)
            for result in results.values()
            for source in ESTIMATES
        ]
        yield _row(attribute, *map(_with_ends, areas))
    yield ""


def _attributes(results: Mapping[str, Any]) -> list[str]:
    return list(next(iter(results.values()))["settings"][UNNAMED]["frequencies"])


def _vectors(results: Mapping[str, Any]) -> Iterator[str]:
    yield VECTORS
    sources = (CHECKER, *ESTIMATES, OURS)
    for specimen, setting, cell in _cells(results, ("neutral",)):
        yield f"### {specimen}, {setting}\n"
        yield from _header(["attribute"], sources)
        for attribute in _attributes(results):
            yield _row(attribute, *(_with_ends(cell["vector"][source][attribute]) for source in sources))
        yield ""


def _ours(results: Mapping[str, Any]) -> Iterator[str]:
    some = next(_cells(results))[2]["drawn"]
    yield OURS_NOTE.format(audits=next(iter(some.values()))["held"][POWERED]["audits"])
    yield from _header(
        ["specimen", "setting"],
        [
            "labels a word",
            "score held",
            "95 % interval",
            "differences held",
            "width",
            "error",
            "labels alone",
        ],
    )
    for specimen, setting, cell in _cells(results):
        for n, drawn in cell["drawn"].items():
            held = drawn["held"][POWERED]
            yield _row(
                *(specimen, setting, n, _percent(held["score"])),
                f"{_percent(held['low'])} to {_percent(held['high'])}",
                *(
                    _percent(held["vector"]),
                    *(fixed(held[name], 4) for name in ("width", "error", "labels_alone")),
                ),
            )
    yield ""


def _nearest(results: Mapping[str, Any]) -> Iterator[str]:
    yield NEAREST
    ways = [
        *ESTIMATES,
        *(f"{name}, scaled by labels" for name in ESTIMATES),
        "labels alone",
        *(f"{name}, prediction-powered" for name in ESTIMATES),
    ]
    for what in ("score", "vector"):
        yield f"Of the {what}:\n"
        yield from _header(["specimen", "setting"], ["labels a word", *ways])
        for specimen, setting, cell in _cells(results):
            for n, drawn in cell["drawn"].items():
                yield _row(specimen, setting, n, *(fixed(drawn["rmse"][way][what], 4) for way in ways))
        yield ""


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


HEAD = """# Audits of the specimens

Made by `python -m lab.validate.gep` from audits of the three specimens by `docs/gep_audit.yaml`: the 32
neutral and 480 explicit prompts of Zhang et al. 2023, all of which the toy world's grammar has, with five images each,
{images:,} images a specimen ({steps} steps, {dtype}). Labels are the exact checker's. Differences are those of images
generated from prompts with *woman* less those with *man*.

Three settings: **neutral** and **explicit** as in the paper, and **unnamed**, the explicit images read for the 14
attributes that their prompt does not name. What its prompt names is in nearly every image
({drawn}),
so that the explicit setting holds hardly a difference to be estimated.

*ours* is the prediction-powered estimate (`analysis.stats.prediction_powered`) from CLS and the labels of {shown}
images of each word, chosen by lot.
"""
SCORES = """## Scores

Each score beside its floor, the mean that it has where the words of a context could have changed places, and the
p-value of a score as large. C, CC and CLS are each on a scale of their own. *Without its own error* has its interval
over contexts; that of *ours* is about the labels that were not given, for just these images. In `toyworld-null` a score
of C, CC or CLS can be above its floor all the same, by some ten-thousandths: its two words mean the same and still have
two embeddings, so that images hardly differ to the eye and the checker, but a little to CLIP.
"""
AGREEMENT = """## Which estimate follows the checker

Kendall's tau-b, Matthews' correlation of the signs (0 counted as positive, as in the paper; and with differences that
are 0 by the checker left out) and Pearson's correlation of the vectors, and the area under the ROC curve of the images,
averaged over the attributes that some images have and some have not. In parentheses the 95 % interval over 2,000 draws
of contexts; of *ours* the mean and the middle 95 % of the audits that are drawn below. By image ours is CLS's reading
times a weight, and has its area. In the neutral and unnamed settings CC is C less a number that an image has for all
attributes, so that both have the same order of differences there, but for images that were not read for one.
"""
DIFFERENCES = """
One estimate less another, on the same draws of contexts:
"""
AREAS = """## Area under the ROC curve by attribute

In the unnamed setting, with 95 % intervals over contexts.
"""
VECTORS = """## Vectors

In the neutral setting: 80 images of each word. Intervals are over contexts; of *ours* over labelled images.
"""
OURS_NOTE = """## Does the interval of ours hold?

{audits} audits are drawn from the images of each: images anew in every cell of context and word, then those that are
labelled, by lot. The truth is what labels of all images of that audit give. *Score held*: the share of audits whose
95 % interval of the score holds it, with its interval by Clopper and Pearson; *differences held* the same of the
attributes' differences, *width* that of the score's interval. *Error* is the mean standard error of a difference,
beside that of *labels alone*.
"""
NEAREST = """## Is it nearer?

Root mean squared error against the truth, over the same audits. *Scaled by labels*: the estimate's difference times
its weight, which the labels give. *Labels alone* and *prediction-powered* are unbiased, and their score is less its own
error.
"""
