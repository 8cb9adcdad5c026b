"""Table ``not_measured``: what a run of images that another program drew cannot hold, and why.

It is the one place that says so: the report shows it, and the rows and columns themselves are not there or hold NaN.
"""

from __future__ import annotations

import pandas as pd

from probes.config.schema import Config

COLUMNS = ("what", "stands_in", "reason")
CLOSED = "the images were taken in as they are, and nothing saw the model draw them"
NO_MAPS = "a word guides an object where its heat map covers it, and there are no heat maps"
UNPAIRED = "the rows name no seeds, so that no two images are known to come from the same noise"

_CLOSED = (
    ("text embeddings (t), and every layer of the text encoder", "disparity, gap: space `prompt`", CLOSED),
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
_UNPAIRED = (("pixels: SSIM, Diff. Pix.", "image_similarities; disparity, gap: space `image`", UNPAIRED),)


def not_measured(config: Config) -> pd.DataFrame | None:
    """Return what a run cannot hold, one row per quantity with `COLUMNS`; None for a run that was drawn here.

    Examples
    --------
    >>> not_measured(Config(prompts=["a {person}"])) is None
    True
    """
    if config.images is None:
        return None
    rows = _CLOSED if config.images.paired else (*_CLOSED, *_UNPAIRED)
    return pd.DataFrame(list(rows), columns=list(COLUMNS))
