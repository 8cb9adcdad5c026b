"""The tables of `triptych audit alignment`, rows of `analysis.tables.registry`."""

from __future__ import annotations

from analysis.methods.alignment import tables
from analysis.tables.method import MeasuredMethod
from analysis.tables.table import Latex, Table

ALIGNMENT = (
    Table(
        "alignment_retrieval",
        "alignment",
        "an indicator, or all together: how often an image’s prompt is retrieved by CLIP among random ones",
        tables.RETRIEVAL_COLUMNS,
        stage="",
        printed=(
            Latex(
                "dalleval_table19_alignment",
                "alignment-quality",
                "Image-text alignment and image quality of {data} on {model}, with the columns of Table 19 that were"
                " measured.",
                "Captions and R-precision times 100. FID is biased upward by the sample size and compares with FID"
                " of as many images and the same features alone.",
            ),
        ),
    ),
    Table(
        "alignment_quality",
        "alignment",
        "an indicator, feature and measure: FID, FID of unlimited images, KID",
        tables.QUALITY_COLUMNS,
        stage="",
    ),
    Table(
        "alignment_captions",
        "alignment",
        "an indicator and measure: captions against the prompts, times 100; of a run whose images were captioned",
        tables.CAPTION_COLUMNS,
        stage="",
    ),
)

MEASURED = MeasuredMethod(tables=ALIGNMENT, needs={"alignment": "`triptych audit alignment`"})
