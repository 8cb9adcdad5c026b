"""The sites of the decoder of latents (diffusers' AutoencoderKL), behind denoisers of any architecture.

Imports no torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from hooks.architectures.base import Site, children
from hooks.architectures.places import Place

if TYPE_CHECKING:
    from torch import Tensor

_RESCALED = "it is rescaled before it is decoded: write at vae.post_quant, or pass other latents to the VAE"
_LAST = "nothing runs after it: change the image that the pipeline returns"


def latent_scale(vae: Any) -> int:
    """Pixels of the image to one of the latent, along a side: every level of the VAE but the last halves."""
    return 2 ** (len(vae.config.block_out_channels) - 1)


def decoder_sites(vae: Any, place: Callable[[str], Place]) -> Iterator[Site]:
    """The final latent, the decoder's sites and the image, in the order in which they run.

    Parameters
    ----------
    place : callable
        Of the architecture.
    """
    decoder = vae.decoder

    def site(address: str, path: str, default: bool = False) -> Site:
        return Site(f"vae.{address}", f"vae.{path}", place(f"vae.{address}"), default=default)

    def inside(address: str, path: str, module: Any) -> Iterator[Site]:
        for i in range(len(children(module, "resnets"))):
            yield site(f"{address}.resnet.{i}", f"{path}.resnets.{i}")
            if i < len(children(module, "attentions")) and module.attentions[i] is not None:
                yield site(f"{address}.attn.{i}", f"{path}.attentions.{i}")
        if children(module, "upsamplers"):
            yield site(f"{address}.upsample", f"{path}.upsamplers.0")
        yield site(address, path, default=True)

    has_post_quant = getattr(vae, "post_quant_conv", None) is not None
    entrance = "vae.post_quant_conv" if has_post_quant else "vae.decoder"
    yield Site("latent.final", entrance, place("latent.final"), read="pipeline", read_only=_RESCALED)
    if has_post_quant:
        yield site("post_quant", "post_quant_conv", default=True)
    if hasattr(decoder, "conv_in"):
        yield site("decoder.conv_in", "decoder.conv_in")
    if getattr(decoder, "mid_block", None) is not None:
        yield from inside("decoder.mid", "decoder.mid_block", decoder.mid_block)
    for b, module in enumerate(children(decoder, "up_blocks")):
        yield from inside(f"decoder.up.{b}", f"decoder.up_blocks.{b}", module)
    yield Site("image", "vae.decoder", place("image"), read_only=_LAST)


def final_latent(pipe: Any, given: Tensor) -> Tensor:
    """z0, before division by the VAE's scaling factor, from what the decoder is given; both (rows, channels, h, w)."""
    config = pipe.vae.config
    mean, std = getattr(config, "latents_mean", None), getattr(config, "latents_std", None)
    if "XL" in type(pipe).__name__ and mean is not None and std is not None:
        mean, std = (given.new_tensor(v).view(1, -1, 1, 1) for v in (mean, std))
        return (given - mean) * config.scaling_factor / std
    return given * config.scaling_factor
