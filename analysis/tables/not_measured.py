"""Table ``not_measured``: what a run of one indicator, or of images that another program drew, cannot hold, and why.

It is the one place that says so: the report shows it, and the rows and columns themselves are not there or hold NaN.
"""

from __future__ import annotations

import pandas as pd

from probes.config.schema import Config

COLUMNS = ("what", "stands_in", "reason")
CLOSED = "the images were taken in as they are, and nothing saw the model draw them"
NO_MAPS = "a word guides an object where its heat map covers it, and there are no heat maps"
ALONE = "the run has one indicator, so that no two prompts differ in a word alone"
UNPAIRED = "the rows name no seeds, so that no two images are known to come from the same noise"

_CLOSED = (
    (
        "text embeddings (t), and every layer of the text encoder",
        "disparity, gap, word_gap: space `prompt`",
        CLOSED,
    ),
    (
        "latents (z₀), predictions and U-Net blocks along the steps, and the atlas of them",
        "disparity, gap: space `denoising`; timesteps",
        CLOSED,
    ),
    ("blocks of the image decoder", "disparity, gap: space `image`, sites but `image`", CLOSED),
    ("heat maps of words", "words/", CLOSED),
    (
        "dependency groups of objects (guided, independent)",
        "objects: column `group`; rows of groups in cooccurrence, object_tests, table_tests and the paper’s tables",
        NO_MAPS,
    ),
)
_ALONE = (
    (
        "similarity of two words’ images and activations, and the atlas of it",
        "disparity; image_similarities; timesteps",
        ALONE,
    ),
    (
        "gaps, their tests against 0 and against words, and what is said of them",
        "gap; word_gap; equivalence; gap_prompts; specifications; findings",
        ALONE,
    ),
    (
        "objects of two words: bias scores, similarity, chi-square and label swaps",
        "object_tests; object_claims; table_tests; table07_chi_square; figure04_bias_scores",
        ALONE,
    ),
    (
        "differences between words in audits",
        "dalleval_words; dalleval_absolute; gep_vector; gep_score; gep_contexts; gep_powered; gep_agreement",
        ALONE,
    ),
)
_UNPAIRED = (("pixels: SSIM, Diff. Pix.", "image_similarities; disparity, gap: space `image`", UNPAIRED),)


def lacks_some(config: Config) -> bool:
    """Return whether a run of a configuration has the table."""
    return not config.compares or config.images is not None


def left_out(config: Config) -> list[str]:
    """Return in words what a run cannot hold since it has one indicator."""
    return [] if config.compares else [what for what, _, _ in _ALONE]


def not_measured(config: Config) -> pd.DataFrame | None:
    """Return what a run cannot hold, one row per quantity with `COLUMNS`; None for one that can hold everything."""
    if not lacks_some(config):
        return None
    rows = [*(() if config.compares else _ALONE)]
    if config.images is not None:
        rows += _CLOSED
        rows += _UNPAIRED if config.compares and not config.paired else ()
    return pd.DataFrame(rows, columns=list(COLUMNS))
