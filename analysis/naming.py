"""What sites, metrics and indicators are called on the page, and in which order they stand.

The tables carry addresses (``unet.down.0.attn.1.cross``) and metric keys (``diff_pix``). Figures and report
need them in network order, grouped, and under the names the paper uses. Nothing here computes a number.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

GROUPS = ("text", "in", "down", "mid", "up", "out", "decoder", "image", "other")
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
    higher_is_nearer : bool
        False for a distance such as Diff. Pix.
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
    higher_is_nearer: bool = True
    digits: int = 3
    unit: str = ""
    noun: str = "images generated from"

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
        Metric("image", "image", "diff_pix", "Diff. Pix.", higher_is_nearer=False, digits=2, unit="%"),
        Metric("image", "image", "resnet50", "ResNet"),
        Metric("image", "image", "clip", "CLIP"),
        Metric("image", "image", "dino", "DINO"),
        Metric("image", "image", "split_product", "Split-Product"),
    ]


@dataclass(frozen=True, order=True)
class Place:
    """Where a site stands in the network; sorts in the order in which data passes.

    ``group`` is one of `GROUPS`; ``label`` is what is written beside a row of that group.
    """

    rank: tuple[int, ...]
    group: str
    label: str


_BLOCK = re.compile(r"^unet\.(down|up)\.(\d+)(?:\.(.+))?$")
_MID = re.compile(r"^unet\.mid(?:\.(.+))?$")
_TEXT = re.compile(r"^text(?:_|\.)?(\d*)\.?(embeddings|layers\.(\d+)|final)$")
_INNER = re.compile(r"^(resnet|attn|block)\.(\d+)(?:\.(.+))?$")
_INNER_RANK = {"resnet": 0, "attn": 2, "block": 3}
_OUT = ("unet.conv_out", "noise_pred.unconditional", "noise_pred.conditional", "noise_pred.guided", "x0_pred")


def place(address: str) -> Place:
    """Find group, order and label of a site.

    Examples
    --------
    >>> place("unet.down.0.attn.1.cross").label
    '0 · attn 1 · cross'
    >>> sorted(["unet.up.0", "unet.mid", "unet.down.0", "unet.down.0.resnet.0"], key=place)
    ['unet.down.0.resnet.0', 'unet.down.0', 'unet.mid', 'unet.up.0']
    """
    if match := _TEXT.match(address):
        encoder = int(match[1] or 0)
        depth = {"embeddings": -1, "final": 9999}.get(match[2], int(match[3] or 0))
        label = match[2].replace("layers.", "layer ")
        return Place((0, encoder, depth), "text", f"{encoder} · {label}" if match[1] else label)
    if address in ("latent", "unet.conv_in"):
        return Place((1, int(address != "latent")), "in", address.removeprefix("unet."))
    if match := _BLOCK.match(address):
        group, block = match[1], int(match[2])
        rank, label = _inside_block(match[3])
        return Place((GROUPS.index(group), block, *rank), group, f"{block} · {label}")
    if match := _MID.match(address):
        rank, label = _inside_block(match[1])
        if match[1] and match[1].startswith("resnet"):
            rank = (rank[0], rank[1] - 1, 9)  # the middle block runs resnet 0, attention 0, resnet 1, …
        return Place((3, 0, *rank), "mid", label)
    if address in _OUT:
        return Place(
            (5, _OUT.index(address)), "out", address.removeprefix("unet.").replace("noise_pred.", "noise ")
        )
    if address == "latent.final":
        return Place((5, len(_OUT)), "out", "final latent")
    if address.startswith("vae."):
        return _decoder(address)
    if address == "image":
        return Place((7,), "image", "image")
    return Place((8, *map(ord, address)), "other", address)


def _inside_block(inner: str | None) -> tuple[tuple[int, int, int], str]:
    if inner is None:
        return (2, 0, 0), "block output"
    if match := _INNER.match(inner):
        kind, index, rest = match[1], int(match[2]), match[3]
        # cross-attention is inside the transformer, so it comes before the transformer's output
        rank = _INNER_RANK[kind] - (1 if rest else 0)
        return (0, index, rank), f"{kind} {index}" + (f" · {rest}" if rest else "")
    return (1, 0, 0), inner.replace(".", " ")


def _decoder(address: str) -> Place:
    name = address.removeprefix("vae.").removeprefix("decoder.")
    order = {"post_quant": (0,), "conv_in": (1,), "mid": (2,), "conv_out": (4,)}
    if match := re.match(r"^up\.(\d+)(.*)$", name):
        return Place((6, 3, int(match[1]), len(match[2])), "decoder", name.replace(".", " "))
    return Place((6, *order.get(name, (5,))), "decoder", name.replace("_", " ").replace(".", " "))


def readable(address: str) -> str:
    """Name a site in running text: its group, then its label."""
    where = place(address)
    if where.group in ("down", "up", "mid", "decoder"):
        return f"{where.group} {where.label}" if where.group != "mid" else f"mid · {where.label}"
    return where.label


LONGEST = 28  # characters of a label in a figure


def label(text: object, longest: int = LONGEST) -> str:
    r"""Return a name as a label shows it: control characters written out, and the middle left out where it is long.

    A label without end leaves a figure no room for its axes.

    Examples
    --------
    >>> label("umbrella"), label("a\x07b"), label("young woman with a red umbrella", 16)
    ('umbrella', 'a\\x07b', 'young woma…rella')
    """
    shown = "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii")
        for letter in str(text)
    )
    if len(shown) <= longest:
        return shown
    end = (longest - 1) // 3
    return f"{shown[: longest - 1 - end]}…{shown[len(shown) - end :]}"


@dataclass(frozen=True)
class Indicator:
    """A row of ``indicators:`` in ``triplets.yaml``: its role, its word, and for a control what it stands for."""

    name: str
    word: str
    control: str = ""  # the indicator with which it is interchangeable


def indicators(config: dict) -> list[Indicator]:
    """Read the indicators of a resolved configuration, in their order."""
    found = []
    for name, value in config["indicators"].items():
        if isinstance(value, dict):
            control = value.get("control") or ""
            of = config["reference"] if control is True else control
            found.append(Indicator(name, value.get("word") or name, of))
        else:
            found.append(Indicator(name, value or name))
    return found


def contrasts(config: dict) -> list[tuple[str, str]]:
    """Read the contrasts of a resolved configuration; the gap is positive towards the first of each."""
    return [(str(first), str(second)) for first, second in config.get("contrasts") or []]
