"""The section ``measure:`` of ``triplets.yaml``: statistics, and how objects are put down to words."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from probes.fields.types import (
    Model,
    Positive,
    Resamples,
    Section,
    Seed,
    Share,
    Text,
    Unique,
    fail,
    option,
    takes,
)


class Logits(Section):
    """Networks whose logit is an outcome of traced images: CLIP between two texts, a classifier between two classes."""

    texts: Annotated[
        Annotated[Unique[Text], Field(min_length=2, max_length=2)] | None,
        option(null="*a photo of a* and the word", example=["a photo of a man", "a photo of a woman"]),
    ] = None
    """Two texts that CLIP (`clip` of `observe.feature_weights`) holds an image against, in the order of the
    first contrast's words."""
    classifier: Annotated[Model | None, option(null="none", example="weights/gender")] = None
    """A classifier of images: a folder or hub id in timm's layout."""
    classes: Annotated[
        list[
            Annotated[
                Annotated[int, Field(ge=0, le=10**6)] | Text, takes("the number or the name of a class")
            ]
        ],
        Field(min_length=2, max_length=2),
        option(unit="number of a class", example=["male", "female"]),
    ] = [0, 1]
    """Two classes of the classifier, by number or by name (`label_names` in its config.json), in the order of
    the words."""


class Measure(Section):
    """Statistics, what would matter, and how objects are put down to words."""

    bootstrap: Annotated[Resamples, option(unit="resamples", example=10000)] = 2000
    """Resamples of the prompts behind every bootstrap interval. Take 10,000 for a paper; time grows with it."""
    permutations: Annotated[Resamples, option(unit="permutations", example=100000)] = 10000
    """Random sign flips behind every p-value, where all of them would be too many. The smallest p is about one
    over it."""
    level: Annotated[float, Field(gt=0, lt=1), option(unit="share from 0 to 1", example=0.99)] = 0.95
    """Confidence level of intervals; tests are at one minus it."""
    seed: Annotated[Seed, option(unit="seed", example=1)] = 0
    """Seed of resampling. Change it to see how much of a number hangs on the resamples."""
    text_readout: Literal["sequence", "eos", "words"] = "sequence"
    """What of the text encoder's output is compared in prompt space: the whole sequence, its end token, or the
    words that all texts of a triplet share."""
    theta: Annotated[float, Field(ge=0, lt=1), option(unit="share from 0 to 1", example=0.4)] = 0.35
    """Share of a word map's maximum at which it is cut into a mask. Larger values make smaller masks."""
    sigma: Annotated[Share, option(unit="share from 0 to 1", example=0.6)] = 0.7
    """Share of an object's mask that a word's mask must cover to guide it (Wu et al. 2025, section 6.2)."""
    sigma_human: Annotated[Share, option(unit="share from 0 to 1", example=0.2)] = 0.25
    """The same where word and object both refer to humans, whose maps are smaller; at most `sigma`."""
    mask_words: Literal["nouns", "all"] = "nouns"
    """Whose masks can guide an object: the nouns of the prompt, or all its words."""
    nouns: Literal["hanta", "nltk"] = "hanta"
    """Which program finds the nouns of a prompt. `hanta` comes with the package; `nltk` is that of Wu et
    al. 2025."""
    compounds: bool = False
    """Whether two nouns side by side (*tennis racket*) are taken together, as one."""
    human_words: Literal["paper", "long"] = "paper"
    """Which words refer to humans: the six of Wu et al. 2025 and the run's own indicators (`paper`), or every
    human word that the package lists (`long`)."""
    min_count: Annotated[Positive, option(unit="images", example=20)] = 5
    """Images with an object that some word must have before its bias score is shown. Raise it with the number
    of images; the paper takes 20 of its large sets."""
    equivalence: Annotated[
        dict[str, Annotated[float, Field(gt=0)]], option(unit="of the metric", example={"ssim": 0.02})
    ] = {}
    """For a metric, the size of a gap that would matter in its own units. A gap shown to be smaller is called
    equivalent to none."""
    smallest_effect: Annotated[float, Field(gt=0, le=1), option(unit="share from 0 to 1", example=0.2)] = 0.1
    """The smallest gap that would matter, as a share of the distance between the two sides of a contrast.
    Choose it before you look; `triptych power` says how many prompts it takes."""
    primary: Annotated[str, Field(min_length=1), option(example="ssim")] = "z0"
    """The measure that the run is asked about first: t, z0, ssim, diff_pix or another metric. All others are
    secondary; choose it before you look."""
    pictures: Annotated[list[Literal["ssim_full", "diff_pix_scaled"]], option(example=["ssim_full"])] = []
    """Further comparisons of pictures: `ssim_full` is SSIM over all pixels, `diff_pix_scaled` has a smallest
    region in proportion to the image. Use them to compare with papers that do so."""
    outcomes: Annotated[
        Annotated[list[str], Field(min_length=1)] | None,
        option(null="verdict on toyworld's models, else ssim", example=["clip", "ssim"]),
    ] = None
    """Numbers of an image whose change is traced (docs/how_to/trace.md): verdict and presence of things on
    toyworld's models, a metric of pictures, `clip` and `classifier` on all. The report shows the first."""
    logits: Annotated[Logits, option(example={"texts": ["a photo of a man", "a photo of a woman"]})] = (
        Logits()
    )
    """The networks of the outcomes `clip` and `classifier`."""

    @property
    def alpha(self) -> float:
        """The level of significance of every test."""
        return round(1 - self.level, 12)

    @model_validator(mode="after")
    def _ordered(self) -> Measure:
        if self.sigma_human > self.sigma:
            raise fail(
                f"expected at most sigma ({self.sigma}), got {self.sigma_human}: lower it",
                at=("sigma_human",),
            )
        return self
