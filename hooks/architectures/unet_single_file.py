"""The original layout of Stable Diffusion, by the names and shapes of its tensors. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping

from hooks.architectures.layout import MisfitError, SingleFile

_PIPELINE, _XL = "StableDiffusionPipeline", "StableDiffusionXLPipeline"
_CONTEXT = "model.diffusion_model.input_blocks.{}.transformer_blocks.0.attn2.to_k.weight"
_PUBLISHED = {
    (_PIPELINE, 768): {"epsilon": "sd1"},
    (_PIPELINE, 1024): {"epsilon": "sd2-epsilon", "v_prediction": "sd2-v"},
    (_XL, 2048): {"epsilon": "sdxl"},
}


def single_file(shapes: Mapping[str, tuple[int, ...]], another: str) -> SingleFile:
    """Tell which pipeline a file holds, after its tensors' names and the channels that its U-Net takes.

    Refuses what is not a whole Stable Diffusion in the original layout; `another` says what to choose instead.
    """

    def holds(*prefixes: str) -> bool:
        return any(name.startswith(prefixes) for name in shapes)

    members = {
        "U-Net": holds("model.diffusion_model.input_blocks."),
        "VAE": holds("first_stage_model."),
        "text encoder": holds("cond_stage_model.", "conditioner.embedders."),
    }
    if not all(members.values()):
        inside = [name for name, there in members.items() if there]
        if not inside and holds("input_blocks.", "down_blocks.", "unet.down_blocks."):
            inside = ["U-Net"]
        if not inside and holds("encoder.", "decoder.", "vae."):
            inside = ["VAE"]
        named = f"{len(shapes)} tensors such as {[*shapes][:1]!s:.60}"
        raise MisfitError(
            "",
            "U-Net, VAE and text encoder of Stable Diffusion in one file",
            f"only {' and '.join(inside)}" if inside else named,
            "give the whole checkpoint or a diffusers folder",
        )
    xl = holds("conditioner.embedders.1.")
    if holds("conditioner.embedders.0.model.") and not xl:
        raise MisfitError("", f"{_PIPELINE} or {_XL}", "the refiner of XL", another)
    channels = shapes.get("model.diffusion_model.input_blocks.0.0.weight", (0, 4))[1]
    if channels != 4:
        remedy = f"{another}, not one for inpainting"
        raise MisfitError("", "4 channels of latents into the U-Net", f"{channels}", remedy)
    pipeline = _XL if xl else _PIPELINE
    width = shapes.get(_CONTEXT.format("4.1" if xl else "1.1"), (0, 0))[-1]
    expected = "the width of SD 1.x (768), 2.x (1024) or XL (2048) in cross-attention"
    return SingleFile(pipeline, width, expected, _PUBLISHED.get((pipeline, width), {}))
