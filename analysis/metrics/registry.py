"""What is measured: every metric's version, direction and range, and the columns of the paper's Table 5."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Definition:
    """What a metric's name stands for: the version of its definition, its direction, and the range of its values."""

    version: str
    higher_is_nearer: bool = True
    least: float = -1.0
    most: float = 1.0


DEFINITIONS: Mapping[str, Definition] = {
    "cosine": Definition("cosine/1"),
    "cosine_sequence": Definition("cosine_sequence/1"),
    "cosine_eos": Definition("cosine_eos/1"),
    "cosine_words": Definition("cosine_words/1"),
    "ssim": Definition("ssim/1"),
    "diff_pix": Definition("diff_pix/1", higher_is_nearer=False, least=0.0, most=100.0),
    "cooccurrence": Definition("cooccurrence/1", least=0.0),
}


def definition(metric: str) -> Definition:
    """Return version and direction of a metric.

    Raises
    ------
    ValueError
        If no metric of that name is defined.
    """
    if metric not in DEFINITIONS:
        raise ValueError(f"metric: expected one of {', '.join(DEFINITIONS)}, got {metric!r}")
    return DEFINITIONS[metric]


SPACES = {"prompt": "Prompt", "denoising": "Denoising", "image": "Image"}


@dataclass(frozen=True)
class Metric:
    """A column of the disparity table.

    Attributes
    ----------
    space, site, metric : str
        Where the value stands in ``tables/disparity`` and ``tables/gap`` (``step`` is -1).
    symbol : str
        The paper's name for it.
    digits : int
        Decimal places shown.
    unit : str
        ``"%"`` or nothing.
    noun : str
        What is compared, to be followed by "<indicator> prompts".
    """

    space: str
    site: str
    metric: str
    symbol: str
    digits: int = 3
    unit: str = ""
    noun: str = "images generated from"

    @property
    def higher_is_nearer(self) -> bool:
        """False for a distance such as Diff. Pix.; a metric that no run holds yet is taken for a similarity."""
        known = DEFINITIONS.get(self.metric)
        return known is None or known.higher_is_nearer

    @property
    def key(self) -> str:
        """Its name in ``measure.primary``: ``t``, ``z0``, ``ssim``, ``diff_pix`` ..."""
        return {"prompt": "t", "denoising": "z0"}.get(self.space, self.metric)

    @property
    def gap_unit(self) -> str:
        """Unit of a difference: percentages differ by points."""
        return "points" if self.unit == "%" else self.unit

    @property
    def arrow(self) -> str:
        """Direction of nearness, as in the paper's Table 5."""
        return "↑" if self.higher_is_nearer else "↓"


def headline_metrics(text_readout: str = "sequence") -> list[Metric]:
    """Columns of the paper's Table 5 (Wu et al. 2025), the ones a run may hold, in its order.

    Parameters
    ----------
    text_readout : str
        Which readout of the text encoder stands for **t**: ``sequence``, ``eos`` or ``words``.
    """
    return [
        Metric("prompt", "text.final", f"cosine_{text_readout}", "t", digits=4, noun="text embeddings of"),
        Metric("denoising", "latent.final", "cosine", "z₀", noun="final latents generated from"),
        Metric("image", "image", "ssim", "SSIM"),
        Metric("image", "image", "diff_pix", "Diff. Pix.", digits=2, unit="%"),
        Metric("image", "image", "resnet50", "ResNet"),
        Metric("image", "image", "clip", "CLIP"),
        Metric("image", "image", "dino", "DINO"),
        Metric("image", "image", "split_product", "Split-Product"),
    ]
