"""The attention layers of a denoiser: where they are, at which fraction of the latent's size, with how many heads.

Everything here is known before it runs, so that memory can be reckoned before. Imports no torch.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from hooks.architectures.registry import architecture_of
from hooks.architectures.site import module_at
from hooks.errors import HookError

# Processors of diffusers that project with `to_q`, `to_k` (or their fused forms) and take a plain softmax.
READABLE_PROCESSORS = (
    "AttnProcessor",
    "AttnProcessor2_0",
    "SlicedAttnProcessor",
    "XFormersAttnProcessor",
    "FusedAttnProcessor2_0",
    "AttnProcessorNPU",
    "XLAFlashAttnProcessor2_0",
)


@dataclass(frozen=True)
class AttentionLayer:
    """One attention layer; `factor` is the side of the latent over the side of its grid: 1, 2, 4 or 8."""

    address: str
    factor: int
    heads: int
    module: Any = field(default=None, repr=False, compare=False)

    def size(self, height: int, width: int) -> tuple[int, int]:
        """Height and width of the layer's grid for a latent of this size; each halving rounds up."""
        factor = self.factor
        while factor > 1:
            factor, height, width = factor // 2, (height + 1) // 2, (width + 1) // 2
        return height, width


def attention_layers(pipe: Any, kind: str = "cross") -> list[AttentionLayer]:
    """The cross- or self-attentions of the denoiser, in the order in which they run."""
    architecture = architecture_of(pipe)
    architecture.require_readable(pipe)
    layers = []
    for site, factor in architecture.attentions(pipe, kind):
        module = module_at(pipe, site.module)
        layer = AttentionLayer(site.address, factor, int(module.heads), module)
        require_readable(layer, architecture.transformer)
        layers.append(layer)
    return layers


def matches(layer: AttentionLayer, globs: Iterable[str]) -> bool:
    """Whether a layer's address matches any of the globs."""
    return any(fnmatch.fnmatchcase(layer.address, glob) for glob in globs)


def require_readable(layer: AttentionLayer, transformer: bool) -> None:
    """Refuse an attention that may do more than a softmax: diffusers' own classes are known, none derived from them.

    A transformer's is read where it takes its softmax, a U-Net's off its projections.
    """
    module, processor = layer.module, type(getattr(layer.module, "processor", None))
    foreign = [kind for kind in (type(module), processor) if kind.__module__.split(".")[0] != "diffusers"]
    if transformer and not foreign:
        return
    normed = any(getattr(module, name, None) is not None for name in ("norm_q", "norm_k"))
    if normed and not transformer:
        raise HookError(
            f"{layer.address}: queries and keys are normalised after projection: leave attention maps off"
        )
    if not foreign and processor.__name__ in READABLE_PROCESSORS:
        return
    remedy = "call pipe.unet.set_attn_processor(AttnProcessor2_0()) of diffusers.models.attention_processor"
    if transformer:
        remedy = "load the pipeline again and leave it out"
    elif "IPAdapter" in processor.__name__:
        remedy = "call pipe.unload_ip_adapter()"
    raise HookError(
        f"{layer.address}: expected an attention of diffusers that is a softmax over queries and keys of the text, but "
        f"got {(foreign or [processor])[0].__name__}, which may weigh tokens otherwise: {remedy}, or leave attention "
        "maps off"
    )
