"""Image-text alignment and image quality (DALL-Eval, appendix D) as a method: its tables, sentences and Table 19."""

from __future__ import annotations

from typing import Any

import pandas as pd

from analysis.methods.alignment.tables import ALL, SCALE, VECTORS
from analysis.tables.spec import Measured, MethodSpec, Pivot, TableSpec

NAMES = {
    **{f"bleu_{n}": f"BLEU-{n}" for n in range(1, 5)},
    **{"cider": "CIDEr", "meteor": "METEOR", "spice": "SPICE", "fid": "FID", "kid": "KID"},
    **{"fid_jackknife": "FID, jackknife", "kid_jackknife": "KID, jackknife"},
}
PRINTED = ("bleu_4", "meteor", "cider", "spice")  # columns of Table 19


def words(shown: Measured) -> dict[str, Any]:
    """Values of the templates: names of measures, and which of Table 19 could not be measured."""
    captions = shown.rows("alignment_captions")
    missing = captions[captions["metric"].isin(PRINTED) & captions["value"].isna()]["metric"]
    names = [NAMES[one] for one in PRINTED if one in set(missing)]
    return {"names": NAMES, "missing": names, "ALL": ALL}


def _table19(shown: Measured) -> pd.DataFrame:
    """The columns of Table 19 that were measured, a row for all images and one for each word."""
    captions = shown.rows("alignment_captions")
    captions = captions[captions["metric"].isin(PRINTED) & captions["value"].notna()]
    captions = captions.iloc[captions["metric"].map(PRINTED.index).argsort(kind="stable")]
    retrieval = shown.rows("alignment_retrieval")
    retrieval = retrieval.assign(
        value=SCALE * retrieval["r_precision"], head="R-precision (" + retrieval["features"] + ")"
    )
    quality = shown.rows("alignment_quality", "measure == 'fid'")
    feature = next((name for name in VECTORS if name in set(quality["features"])), "")
    quality = quality[quality["features"] == feature].assign(head=f"FID ({feature})")
    rows = pd.concat([captions.assign(head=captions["metric"].map(NAMES)), retrieval, quality])
    return rows.assign(name=rows["indicator"].map(lambda name: "" if name == ALL else f", {name}"))


_RETRIEVED = """
{% for row in rows if row.indicator == ALL %}
R-precision by {{ row.features }}: {{ number(row.r_precision) }} {{ interval(row.low, row.high) if defined(row.low) }}
{%- if row.reason %} ({{ row.reason }}){% endif %}, among {{ number(row.negatives, 0) }} other prompts
 with the same word; by chance {{ number(row.chance) }};
 {{ counted(row.n_images, "image") }} of {{ counted(row.n_prompts, "prompt") }}.

{% endfor %}
"""
_CAPTIONED = """
{% for row in rows if row.indicator == ALL %}
{{ names[row.metric] }} of captions by {{ row.captioner }}, times 100:
{%- if row.reason and not defined(row.value) %} {{ row.reason }}{% else %} {{ number(row.value, 1) }}
 {{ interval(row.low, row.high, 1) if defined(row.low) }}{% endif %}.

{% endfor %}
"""
_DISTANT = """
{% for row in rows if row.indicator == ALL %}
{{ names[row.measure] }} on {{ row.features }} against {{ row.reference }}: {{ number(row.value) }}
 {{ interval(row.low, row.high) if defined(row.low) }} of {{ row.n_images }} and
 {{ counted(row.n_reference, "image") }}{% if row.reason %} ({{ row.reason }}){% endif %}.

{% endfor %}
"""

METHOD = MethodSpec(
    needs="`triptych audit alignment`",
    title="Alignment and quality",
    anchor="alignment",
    intro="How well images fit their prompts, and how like reference images they are (Cho et al. 2023, appendix D)."
    " Intervals {{ over(unit) }}.",
    words=words,
    tables=(
        TableSpec(
            "alignment_retrieval",
            "an indicator, or all together: retrieval of prompts by CLIP",
            (
                *("indicator", "features", "r_precision", "low", "high", "chance", "negatives"),
                *("n_images", "n_missing", "n_prompts", "level", "reason", "version"),
            ),
            stage="",
            sentences=_RETRIEVED,
            pivots=(
                Pivot(
                    "{{ indicator }}, by {{ features }}",
                    {
                        "R-precision": "{{ number(r_precision) }} {{ interval(low, high) }}",
                        "by chance": "{{ number(chance) }}",
                        "images": "{{ n_images }}",
                        "missing": "{{ n_missing }}",
                    },
                    "How often an image’s prompt is nearest to it among others drawn at random.",
                    title="Is the prompt retrieved?",
                ),
                Pivot(
                    "{{ model }}{{ name }}",
                    {"{{ head }}": "{{ number(value, 1) }}"},
                    "Image-text alignment and image quality of {{ data }} on {{ model }}, with the columns of Table 19"
                    " that were measured.",
                    latex="dalleval_table19_alignment",
                    frame=_table19,
                    note="Captions and R-precision times 100. FID is biased upward by the sample size and compares with"
                    " FID of as many images and the same features alone."
                    "{% if missing %} Not measured: {{ missing | join(', ') }}.{% endif %}",
                ),
            ),
        ),
        TableSpec(
            "alignment_quality",
            "an indicator, feature and measure: FID and KID",
            (
                *("indicator", "features", "reference", "measure", "value", "low", "high", "dimension"),
                *("n_images", "n_missing", "n_reference", "n_prompts", "level", "package", "reason"),
                *("version",),
            ),
            stage="",
            sentences=_DISTANT,
            pivots=(
                Pivot(
                    "{{ names[measure] }} on {{ features }}: {{ indicator }}",
                    {
                        "distance": "{{ number(value) }} {{ interval(low, high) }}",
                        "images": "{{ n_images }}",
                        "reference": "{{ n_reference }}",
                        "note": "{{ reason }}",
                    },
                    "Distances between features of the images and of the reference. FID grows as images become fewer:"
                    " compare the jackknife’s, never FID of other numbers of images or of other features.",
                    title="How far are the images from the reference?",
                ),
            ),
        ),
        TableSpec(
            "alignment_captions",
            "an indicator and measure: captions against the prompts",
            (
                *("indicator", "captioner", "metric", "value", "low", "high", "n_images", "n_missing"),
                *("n_prompts", "level", "package", "reason", "version"),
            ),
            stage="",
            sentences=_CAPTIONED,
            pivots=(
                Pivot(
                    "{{ names[metric] }}: {{ indicator }}",
                    {
                        "value": "{{ number(value, 1) }} {{ interval(low, high, 1) }}",
                        "images": "{{ n_images }}",
                        "missing": "{{ n_missing }}",
                    },
                    "Captions compared with the prompts; times 100.",
                    title="Does a caption of the image say what the prompt said?",
                    where="value == value",
                ),
            ),
        ),
    ),
)
