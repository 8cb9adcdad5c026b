"""Images of a trace on the first screen of its report."""

from __future__ import annotations

from typing import Any

from analysis.report.first_screen import ends_and_middle
from analysis.report.format import number
from analysis.report.section import Example, ExamplePicture
from analysis.tables.registry import read
from analysis.tables.spec import Measured
from probes.runs.images import read_image
from probes.runs.parts import read_part
from probes.runs.run import Run


def examples(shown: Measured) -> list[Example]:
    """Triplets with the smallest, the middle and the largest total effect, with the outcome of each image.

    The last image is the reference's with the first word's activations at the place that moves the outcome most.
    """
    run, reference, words = shown.run, shown.config.reference, shown.words
    if not run.parts("traced"):  # the tables may be all that is left of it
        return []
    variants = {name: f"none:{name}" for name in (words["second"], reference, words["first"])}
    if words["ranked"]:
        best = words["ranked"][0]
        label = f"{reference}, patched at {best['place']}"
        variants[label] = f"site:{best['site']}:{words['first']}>{reference}"
    outcomes = read(run, "trace_outcomes")
    outcomes = outcomes[outcomes["outcome"] == words["shown"]]
    wide = outcomes.pivot(index=["triplet", "seed"], columns="variant", values="value")
    if not set(variants.values()) <= set(wide):
        return []
    wide = wide[list(variants.values())].dropna()
    total = (wide[f"none:{words['first']}"] - wide[f"none:{words['second']}"]).sort_values(kind="stable")
    chosen = [total.index[index] for index in ends_and_middle(len(total)).values()]
    images = _images(run, {(*key, variant) for key in chosen for variant in variants.values()})
    samples = run.samples(["triplet", "indicator", "prompt"])
    samples = samples[samples["indicator"] == reference].drop_duplicates("triplet")
    prompts = dict(zip(samples["triplet"], samples["prompt"]))
    result = []
    for key in chosen:
        prompt, value = prompts[key[0]], float(total[key])
        pictures = [
            ExamplePicture(images[*key, variant], prompt, name, number(wide.at[key, variant], 2, signed=True))
            for name, variant in variants.items()
        ]
        result.append(Example("total effect", value, number(value, 2, signed=True), prompt, pictures))
    return result


def _images(run: Run, wanted: set[tuple[int, int, str]]) -> dict[tuple[int, int, str], Any]:
    """Images of a trace by triplet, seed and variant."""
    result = {}
    for file in run.parts("traced"):
        keys = [tuple(key.values()) for key in read_part(file, ["triplet", "seed", "variant"]).to_pylist()]
        rows = [row for row, key in enumerate(keys) if key in wanted]
        if rows:
            stored = read_part(file, ["image"]).take(rows)["image"].to_pylist()
            result |= {keys[row]: read_image(one["bytes"]) for row, one in zip(rows, stored)}
    return result
