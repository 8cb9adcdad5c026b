"""Sites at which a pipeline can be read: stable addresses, and the modules behind them.

================================  ==========================================================  ===============
address                           what is read                                                a row is
================================  ==========================================================  ===============
`text.embeddings`                 token and position embeddings                               (tokens, width)
`text.layers.<k>`                 residual stream after layer k, before the final layer norm  (tokens, width)
`text.layers.<k>.middle` *        residual stream between attention and MLP                   (tokens, width)
`text.layers.<k>.attn` *          attention's output; `.mlp` the MLP's                        (tokens, width)
`text.layers.<k>.attn.heads` *    each head's output, before the output projection            (tokens, heads, d)
`text_2.…`                        the same of SDXL's second text encoder                      (tokens, width)
`text.final`                      the conditional `encoder_hidden_states` of the denoiser     (tokens, width)
`unet.conv_in`                    first convolution                                           (c, h, w)
`unet.down.<b>.resnet.<i>`        residual block; also `unet.mid.…`, `unet.up.<b>.…`          (c, h, w)
`unet.down.<b>.attn.<i>`          transformer; also `unet.mid.…`, `unet.up.<b>.…`             (c, h, w)
`unet.down.<b>.attn.<i>.update` * what it adds: its output less its input                     (c, h, w)
`unet.down.<b>.attn.<i>.cross`    its cross-attention (`attn2`); `.cross.<k>` where the       (h*w, c)
                                  transformer has several blocks, as in SDXL
`….attn.<i>.self` *               its self-attention (`attn1`)                                (h*w, c)
`….attn.<i>.ff` *                 its feed-forward network                                    (h*w, c)
`….attn.<i>.block` *              residual stream after the transformer block                 (h*w, c)
`….cross.heads`, `.self.heads` *  each head's output, before the output projection            (h*w, heads, d)
`….cross.query` *                 projections; also `.key`, `.value`, and of `.self`          (h*w or tokens, c)
`unet.down.<b>.downsample`        downsampling; `unet.up.<b>.upsample`                        (c, h, w)
`unet.down.<b>`                   the whole block; `unet.mid`, `unet.up.<b>`                  (c, h, w)
`latent`                          x_t as the denoiser gets it (scaled, for sigma schedulers)  (4, h, w)
`latent.final`                    z0, before division by the VAE scaling factor               (4, h, w)
`noise_pred.conditional`          its output; also `.unconditional` and `.guided`,            (4, h, w)
                                  and `.image` of InstructPix2Pix
`x0_pred`                         the image latent predicted from `noise_pred.guided`         (4, h, w)
`vae.post_quant`                  what the decoder is given                                   (4, h, w)
`vae.decoder.mid`                 decoder's mid block                                         (c, h, w)
`vae.decoder.up.<b>`              decoder's upsampling blocks                                 (c, H, W)
`vae.decoder.up.<b>.resnet.<i>` * their residual blocks; also `.upsample`, and of the mid     (c, H, W)
                                  block, with its `.attn.0`; `vae.decoder.conv_in`
`image`                           decoder's output, float, about -1 to 1                      (3, H, W)
================================  ==========================================================  ===============

Sites marked * are read only where they are asked for: a pattern chooses among the others; where it matches
none of those (`unet.*.ff`), or begins with `+` (`+unet.mid.*`), it chooses among all.

Those of diffusion transformers (`dit.block.3.joint`, `text.pooled`) are listed in
`hooks.architectures.transformer_sites`. Where guidance runs several branches in a batch, only the rows of the prompts
are read. This module imports no torch.
"""

from __future__ import annotations

import difflib
import fnmatch
import functools
from collections.abc import Iterable
from typing import Any

from hooks.architectures import latents
from hooks.architectures.registry import architecture_of, supported_pipelines
from hooks.architectures.site import Batch, Site
from hooks.architectures.site import module_at as module_at
from hooks.architectures.text_encoders import TEXT_ENCODERS, text_config
from hooks.errors import HookError

DEFAULT_SITES = "*"  # a pattern chooses among the default sites


def __getattr__(name: str) -> Any:
    """Return `SUPPORTED_PIPELINES`, which is made at its first use; AttributeError for any other name."""
    if name == "SUPPORTED_PIPELINES":
        return supported_pipelines()
    raise AttributeError(f"module 'hooks.sites' has no attribute {name!r}")


def available(pipe: Any) -> list[Site]:
    """All sites of a pipeline, in the order in which they run; a HookError for an unsupported pipeline."""
    architecture = architecture_of(pipe)
    architecture.require_readable(pipe)
    return list(architecture.sites(pipe))


def attention_sites(pipe: Any, kind: str) -> list[Site]:
    """Sites of the denoiser's attentions of a kind ("cross" or "self"), in the order in which they run."""
    architecture = architecture_of(pipe)
    architecture.require_readable(pipe)
    return [site for site, _ in architecture.attentions(pipe, kind)]


def resolve(pipe: Any, patterns: str | Iterable[str]) -> list[Site]:
    """The sites of a pipeline whose addresses match any of the glob patterns, in the order in which they run.

    Patterns are shell globs whose `*` also matches dots: `unet.*` is everything inside the UNet, `latent`
    only the site of that name, `latent*` also `latent.final`. A pattern chooses among the default sites;
    where it matches none of them, or begins with `+`, among all.

    Raises
    ------
    HookError
        If a pattern matches nothing (the message lists the nearest addresses), or there is no pattern.
    """
    patterns = [patterns] if isinstance(patterns, str) else list(patterns)
    if not patterns:
        raise HookError("sites: expected at least one address or pattern, but got none")
    sites = available(pipe)
    wanted: set[str] = set()
    for pattern in map(str, patterns):
        glob = pattern.removeprefix("+")
        matched = [site for site in sites if fnmatch.fnmatchcase(site.address, glob)]
        if not matched:
            raise HookError(_no_match_message(glob, sites, pipe))
        if glob == pattern:
            matched = [site for site in matched if site.default] or matched
        wanted |= {site.address for site in matched}
    return [site for site in sites if site.address in wanted]


def table(pipe: Any, height: int | None = None, width: int | None = None) -> str:
    """A printable table of a pipeline's sites: one line each with address and shape of the values of one image.

    Parameters
    ----------
    height, width : int, optional
        Size of the image in pixels; the model's default if omitted.
    """
    row_shapes = shapes(pipe, height, width)
    lines = [("address", "row", "")]
    for site in available(pipe):
        shape = "(" + ", ".join(map(str, row_shapes[site.address])) + ")"
        lines.append((site.address, shape, "" if site.default else "*"))
    widths = [max(len(line[column]) for line in lines) for column in (0, 1)]
    text = [f"{a:<{widths[0]}}  {b:<{widths[1]}}  {c}".rstrip() for a, b, c in lines]
    return "\n".join([*text, "* read only where asked for"])


def shapes(pipe: Any, height: int | None = None, width: int | None = None) -> dict[str, tuple[int, ...]]:
    """Shape of one image's values at each site, by address; the image size in pixels defaults to the model's.

    Denoiser and decoder are built anew without weights (torch's meta device) and run once with the hooks that a
    probe attaches; a text encoder's shapes follow from its configuration.
    """
    import torch

    architecture = architecture_of(pipe)
    bare = architecture.without_weights(pipe)
    row: dict[str, tuple[int, ...]] = {}
    batches: list[Batch] = []

    def record_inputs(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Record the batch, and the shapes of the tensors that the denoiser is given."""
        inputs = architecture.inputs(bare, args, kwargs)
        batches.append(inputs.batch)
        tensors = {"latent": inputs.latent, "text.final": inputs.text, "text.pooled": inputs.pooled}
        row.update({name: tuple(values.shape[1:]) for name, values in tensors.items() if values is not None})

    def record_shape(site: Site, values: Any) -> None:
        """Record the shape of one image's values at a site."""
        row[site.address] = tuple((site.stream_tokens(values, batches[0]) if batches else values).shape[1:])

    architecture.denoiser(bare).register_forward_pre_hook(record_inputs, with_kwargs=True)
    for site in architecture.sites(bare):
        if site.read != "pipeline":
            site.attach_reader(bare, functools.partial(record_shape, site))
    size = architecture.latent_size(pipe, height, width)
    with torch.no_grad():
        text = architecture.meta_text_arguments(bare, architecture.prompt_tokens(pipe))
        latents.decode(bare.vae, architecture.meta_prediction(bare, size, text))
    for site in architecture.sites(pipe):
        if site.address in row:
            continue
        row[site.address] = row["latent"]  # of predictions and the final latent
        if site.space == "prompt":
            name = site.address.partition(".")[0]
            wide = text_config(getattr(pipe, TEXT_ENCODERS[name])).hidden_size
            channels = (wide,) if site.heads is None else (site.heads, wide // site.heads)
            row[site.address] = (architecture.tokens(pipe, name), *channels)
    return row


def _no_match_message(pattern: str, sites: list[Site], pipe: Any) -> str:
    """Error message for a pattern that matches no site: why it is unavailable, or the nearest addresses."""
    reason = architecture_of(pipe).why_unavailable(pipe, pattern)
    if reason is not None:
        return f"sites: {pattern!r} cannot be computed, {reason}: leave it out"
    addresses = [site.address for site in sites]
    near = difflib.get_close_matches(pattern, addresses, n=4, cutoff=0.4)
    if not near:
        first = pattern.split(".")[0]
        near = [a for a in addresses if a.split(".")[0] == first][:4] or addresses[:2] + addresses[-2:]
    return f"sites: {pattern!r} matches no site of {type(pipe).__name__}: the nearest are {', '.join(near)}"
