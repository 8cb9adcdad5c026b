"""Registry of metrics: one row per metric, with its definition's version, its direction and range, and how it is shown.

Where a metric stands in the paper's Table 5 (Wu et al. 2025) its row names the space and the site that stand there: the
only place that says that ``z0`` of a configuration, z₀ of a page and ``latent.final:cosine`` of ``captures/`` are one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from probes.errors import UserError

if TYPE_CHECKING:
    import pandas as pd

SPACES = {"prompt": "Prompt", "denoising": "Denoising", "image": "Image"}
NO_STEP = -1  # of what has no steps: the end of each space
READOUTS = ("sequence", "eos", "words")  # of the text encoder, the default first
_READ = {
    "sequence": "the states of all positions, flattened",
    "eos": "the state of the end-of-text position",
    "words": "the states of the words that both prompts have",
}
_COSINE = "a·b / (‖a‖ ‖b‖)"
_WU = "Wu et al. 2025, section 4.1.3"


@dataclass(frozen=True)
class Metric:
    """Meaning of a metric's name, and its appearance in tables.

    Attributes
    ----------
    metric : str
        Its name, as in the column ``metric`` of every table.
    needs : {"captures", "pictures", "objects", "features"}
        What of a run it is computed from.
    symbol : str
        The paper's name for it; ``latex`` the same in LaTeX, where it is no plain text.
    space, site : str
        Where ``tables/disparity`` and ``tables/gap`` hold the value that the paper's Table 5 shows (``step`` is -1);
        without a site it stands in no column of that table.
    low, high : float
        The ends of its range.
    higher_is_nearer : bool
        False for a distance.
    digits, unit : int, str
        Decimal places shown, and ``"%"`` or nothing.
    key : str
        Its name in ``measure.primary`` and in the column ``measure`` of tables; by default `metric`.
    about : str
        Its definition on the page, where that has one.
    noun : str
        What is compared, to be followed by "<indicator> prompts".
    function : str
        Of a metric of pictures: the function of `analysis.metrics.pixels` that gives its score of two.
    formula, source : str
        Of two values a and b, or two images, as the page of metrics shows it; and where it is defined.
    least_delta : float
        δ at least, the smallest gap that matters, where a run states none: of measures of images 2 % of the way from
        unrelated to the same, which nobody would act on however alike the two sides are; of text embeddings, which no
        noise moves and which lie within a few hundredths of each other where one word differs, 0.2 %.
    optional : bool
        Whether a run holds it only where ``measure.pictures`` of its configuration asks for it; no headline metric.
    version : str
        Of its definition, by default its name and 1. Of which network the numbers of a run are its record says.
    """

    metric: str
    needs: Literal["captures", "pictures", "objects", "features"]
    symbol: str
    space: str = "image"
    site: str = "image"
    latex: str = ""
    low: float = -1.0
    high: float = 1.0
    higher_is_nearer: bool = True
    digits: int = 3
    unit: str = ""
    key: str = ""
    about: str = ""
    noun: str = "images generated from"
    function: str = ""
    formula: str = ""
    source: str = _WU
    least_delta: float = 0.02
    optional: bool = False
    version: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", self.key or self.metric)
        object.__setattr__(self, "version", self.version or f"{self.metric}/1")

    @property
    def place(self) -> tuple[str, str, str]:
        """Space, site and metric under which tables hold it, at `NO_STEP`."""
        return self.space, self.site, self.metric

    def rows_of(self, table: pd.DataFrame) -> pd.DataFrame:
        """Rows of a table that hold it: those of its `place`, and of `NO_STEP` where there are steps."""
        chosen = (table[["space", "site", "metric"]] == self.place).all(axis=1)
        return table[chosen & (table["step"] == NO_STEP)] if "step" in table else table[chosen]

    @property
    def sign(self) -> float:
        """1 where a higher value is nearer, else -1: times this a difference is positive towards the nearer."""
        return 1.0 if self.higher_is_nearer else -1.0

    @property
    def readout(self) -> str:
        """Readout of the text encoder that it compares (``measure.text_readout``); empty in the other spaces."""
        return self.metric.removeprefix("cosine_") if self.space == "prompt" else ""

    @property
    def scale(self) -> str:
        """What its values are, as a number of it is named."""
        return "cosine similarity" if "cosine" in self.formula or _COSINE in self.formula else self.symbol

    @property
    def gap_unit(self) -> str:
        """Unit of a difference: percentages differ by points."""
        return "points" if self.unit == "%" else self.unit

    @property
    def arrow(self) -> str:
        """Direction of nearness, as in the paper's Table 5."""
        return "↑" if self.higher_is_nearer else "↓"


def _of_text(readout: str) -> Metric:
    return Metric(
        metric=f"cosine_{readout}",
        needs="captures",
        symbol="t",
        space="prompt",
        site="text.final",
        latex="$\\mathbf{t}$",
        key="t",
        formula=f"{_COSINE} of {_READ[readout]}",
        source="Wu et al. 2025, Eq. 1",
        least_delta=0.002,
        about="The conditional text embeddings given to the U-Net; cosine similarity of the flattened sequence, of the"
        " end-of-text position, or of the shared words (Wu et al. 2025, Eq. 1).",
        digits=4,
        noun="text embeddings of",
    )


def _of_features(name: str, symbol: str, what: str, site: str = "image") -> Metric:
    return Metric(name, "features", symbol, site=site, formula=f"{_COSINE} of {what}")


_SSIM = Metric(
    metric="ssim",
    needs="pictures",
    symbol="SSIM",
    about="Structural similarity of the grey images, as scikit-image defines it (window 7, data range 255);"
    " 1 means the same.",
    function="ssim_score",
    formula="mean of SSIM over the pixels whose window of 7 × 7 lies inside the grey images",
    source="Wang et al. 2004; Wu et al. 2025, section 4.1.3",
)
_ROWS = (
    *map(_of_text, READOUTS),
    Metric(
        metric="cosine",
        needs="captures",
        symbol="z₀",
        space="denoising",
        site="latent.final",
        latex="$\\mathbf{z}_0$",
        key="z0",
        formula=f"{_COSINE} of the values of a site, flattened",
        source="Wu et al. 2025, Eq. 2",
        about="The last latent, before division by the VAE’s scaling factor; cosine similarity, flattened (Eq. 2).",
        noun="final latents generated from",
    ),
    _SSIM,
    Metric(
        metric="diff_pix",
        needs="pictures",
        symbol="Diff. Pix.",
        low=0.0,
        high=100.0,
        higher_is_nearer=False,
        digits=2,
        unit="%",
        least_delta=2.0,
        about="Percent of the image inside the outer contours (over 40 px) of where 1 − SSIM exceeds Otsu’s threshold,"
        " which is set for each pair anew.",
        function="diff_pix_score",
        formula="100 · area / image, of the filled outer contours (over 40 px) of 1 − SSIM above Otsu’s threshold",
    ),
    replace(
        _SSIM,
        metric="ssim_full",
        symbol="SSIM, all pixels",
        function="ssim_full_score",
        formula="mean of SSIM over all pixels; at the border the window sees the image mirrored",
        source=_WU,
        key="",
        version="",
        about="",
        optional=True,
    ),
    _of_features("resnet50", "ResNet", "the mean of ResNet-50’s last feature map"),
    _of_features("resnet50_logits", "ResNet logits", "ResNet-50’s 1000 outputs", site=""),
    _of_features("clip", "CLIP", "CLIP’s image embeddings"),
    _of_features("dino", "DINO", "DINO’s class tokens"),
    replace(
        _of_features("split_product", "Split-Product", ""),
        formula="largest cosine of corresponding patches, of DINO’s patch tokens",
        source=f"Somepalli et al. 2023; {_WU}",
    ),
    Metric(
        metric="cooccurrence",
        needs="objects",
        symbol="sₒ",
        site="",
        low=0.0,
        noun="objects in images generated from",
        formula=f"{_COSINE} of how often each object was detected in an image",
        source="Wu et al. 2025, Eq. 4",
    ),
)
METRICS: Mapping[str, Metric] = {row.metric: row for row in _ROWS}


def definition(metric: str) -> Metric:
    """Row of a metric that runs hold; a `ValueError` where no metric of that name is defined."""
    if metric not in METRICS:
        raise ValueError(f"metric: expected one of {', '.join(METRICS)}, got {metric!r}")
    return METRICS[metric]


def computed_from(source: str, requested: Collection[str] = ()) -> tuple[str, ...]:
    """Return the metrics computed from captures, pictures, features or objects, with the optional ones requested."""
    rows = (row for row in _ROWS if row.needs == source)
    return tuple(row.metric for row in rows if not row.optional or row.metric in requested)


def require_primary(key: str, place: str, *, opened: bool = True) -> Metric:
    """Return the measure that ``measure.primary`` names, or refuse what is no measure of a run.

    `place` is where it stands, for the message; of images of another program (not `opened`) nothing was captured.
    """
    rows = {metric.key: metric for metric in headline_metrics() if opened or metric.needs != "captures"}
    if key not in rows:
        *others, last = map(repr, rows)
        raise UserError(f"{place}: expected {', '.join(others)} or {last}, got {key!r}: name one of them")
    return rows[key]


def headline_metrics(text_readout: str = "sequence") -> list[Metric]:
    """Return the measures that the report leads with: the columns of the paper's Table 5, and those added to them.

    Those of Wu et al. 2025 stand in the order of their table, with one readout of the text encoder for **t**. Those of
    features a run holds where their weights were there.
    """
    shown = (row for row in _ROWS if row.site and not row.optional)
    return [row for row in shown if row.readout in ("", text_readout)]
