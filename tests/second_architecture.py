"""A second architecture, written as anybody would: a diffusion transformer with flow matching, its pipeline, its row.

It shares no class with Stable Diffusion's denoiser: PixArt's blocks read the text, the output is a velocity beside a
variance that is dropped, the prompts' rows come before the negative prompts', the scheduler matches flows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from diffusers import (
    AutoencoderKL,
    DiffusionPipeline,
    FlowMatchEulerDiscreteScheduler,
    PixArtTransformer2DModel,
)
from diffusers.image_processor import VaeImageProcessor
from diffusers.pipelines.pipeline_utils import ImagePipelineOutput
from torch import Tensor
from transformers import CLIPTextModel, CLIPTokenizer

from hooks.architectures import addresses, registry
from hooks.architectures.addresses import DENOISING, GROUPS, Place
from hooks.architectures.base import Architecture
from hooks.architectures.latents import decoder_sites
from hooks.architectures.layout import Component, Layout
from hooks.architectures.site import Batch, Inputs, Site
from hooks.architectures.text_encoders import text_sites
from tests.tiny import _enliven, tiny_components

PREDICTED = ("noise_pred.unconditional", "noise_pred.conditional", "noise_pred.guided", "x0_pred")
NOT_WRITTEN = "the pipeline makes it"


class TinyTransformerPipeline(DiffusionPipeline):
    """Draws with a transformer; guidance with the prompts' rows first."""

    def __init__(
        self,
        tokenizer: CLIPTokenizer,
        text_encoder: CLIPTextModel,
        transformer: PixArtTransformer2DModel,
        vae: AutoencoderKL,
        scheduler: FlowMatchEulerDiscreteScheduler,
    ) -> None:
        super().__init__()
        self.register_modules(
            tokenizer=tokenizer,
            text_encoder=text_encoder,
            transformer=transformer,
            vae=vae,
            scheduler=scheduler,
        )

    def encode(self, texts: Sequence[str]) -> Tensor:
        """States of the text encoder, shape (texts, tokens, width)."""
        length = self.tokenizer.model_max_length
        ids = self.tokenizer(
            texts, padding="max_length", truncation=True, max_length=length, return_tensors="pt"
        )
        return self.text_encoder(ids.input_ids.to(self.device))[0]

    @torch.no_grad()
    def __call__(
        self,
        prompt: list[str],
        negative_prompt: list[str] | None = None,
        generator: list[torch.Generator] | None = None,
        num_inference_steps: int = 8,
        guidance_scale: float = 3.0,
        height: int | None = None,
        width: int | None = None,
        output_type: str = "np",
        callback_on_step_end: Any = None,
    ) -> ImagePipelineOutput:
        """Draw one image of each prompt."""
        self.guidance_scale, self.guided = guidance_scale, guidance_scale > 1
        states = self.encode(prompt)
        if self.guided:
            states = torch.cat([states, self.encode(negative_prompt or [""] * len(prompt))])
        own, scale = self.transformer.config.sample_size, 2 ** (len(self.vae.config.block_out_channels) - 1)
        size = (height // scale if height else own, width // scale if width else own)
        latents = torch.cat([torch.randn(1, 4, *size, generator=one) for one in generator])
        self.scheduler.set_timesteps(num_inference_steps)
        self.num_timesteps = len(self.scheduler.timesteps)
        for index, time in enumerate(self.scheduler.timesteps):
            given = torch.cat([latents] * 2) if self.guided else latents
            made = self.transformer(
                hidden_states=given, encoder_hidden_states=states, timestep=time.expand(len(given))
            )
            velocity = made.sample.chunk(2, dim=1)[0]
            if self.guided:
                with_text, without = velocity.chunk(2)
                velocity = without + guidance_scale * (with_text - without)
            latents = self.scheduler.step(velocity, time, latents, return_dict=False)[0]
            if callback_on_step_end is not None:
                callback_on_step_end(self, index, time, {"latents": latents})
        decoded = self.vae.decode(latents / self.vae.config.scaling_factor).sample
        return ImagePipelineOutput(images=VaeImageProcessor().postprocess(decoded, output_type=output_type))


def _block(number: str, cross: str | None) -> Place:
    """Place of a block, or of its cross-attention."""
    rank = (GROUPS.index("mid"), int(number), 0 if cross else 1)
    return Place(rank, "mid", f"block {number}" + (" · cross" if cross else ""), "denoising", DENOISING)


ADDRESSES = (r"transformer\.(\d+)(\.cross)?", _block)


class TinyTransformer(Architecture):
    """Its architecture."""

    name, models, denoiser_name, denoiser_part = "Tiny", "the tiny transformer", "transformer", "transformer"
    pipelines = ("TinyTransformerPipeline",)
    layouts = (
        Layout(
            "TinyTransformerPipeline",
            (Component("tokenizer", "transformers", ("CLIPTokenizer",)),),
            (Component("text_encoder", "transformers", ("CLIPTextModel",)),),
            Component("transformer", "diffusers", ("PixArtTransformer2DModel",)),
            Component("vae", "diffusers", ("AutoencoderKL",)),
            library=__name__,
        ),
    )
    predicts = ("flow_prediction",)
    scheduler_methods = ("set_timesteps", "step")

    def sites(self, pipe: Any) -> Iterator[Site]:
        """Of the text, each block, the predictions and the decoder."""
        yield from text_sites(pipe, "transformer")
        yield self._read("latent")
        for number in range(len(pipe.transformer.transformer_blocks)):
            address, path = f"transformer.{number}", f"transformer.transformer_blocks.{number}"
            yield Site(f"{address}.cross", f"{path}.attn2")
            yield Site(address, path)
        yield from map(self._read, PREDICTED)
        yield from decoder_sites(pipe.vae)

    def _read(self, address: str) -> Site:
        return Site(address, "transformer", read="pipeline", read_only=NOT_WRITTEN)

    def attentions(self, pipe: Any, kind: str) -> Iterator[tuple[Site, int]]:
        """The cross-attentions, on a grid of patches."""
        for site in self.sites(pipe):
            if kind == "cross" and site.address.endswith(".cross"):
                yield site, pipe.transformer.config.patch_size

    def inputs(self, pipe: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Inputs:
        """All by name."""
        latents, guided = kwargs["hidden_states"], getattr(pipe, "guided", False)
        branches = ("conditional", "unconditional") if guided else ("conditional",)
        batch = Batch(len(latents) // len(branches), branches, *latents.shape[-2:])
        text = batch.conditional(kwargs["encoder_hidden_states"], "text.final")
        return Inputs(batch, kwargs["timestep"][0], batch.conditional(latents, "latent"), text, masked=False)

    def exchange_texts(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], rows: Sequence[int]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """By the states of the tokens."""
        return tuple(args), {**kwargs, "encoder_hidden_states": kwargs["encoder_hidden_states"][list(rows)]}

    def prediction(self, inputs: Inputs, output: Any) -> Tensor:
        """The velocity, without the variance behind it."""
        return output.sample.chunk(2, dim=1)[0]

    def image_multiple(self, pipe: Any) -> int:
        """Whole patches."""
        return self.latent_scale(pipe) * pipe.transformer.config.patch_size

    def text_arguments(self, outputs: Sequence[Any]) -> dict[str, Any]:
        """The encoder's last states."""
        return {"encoder_hidden_states": outputs[0][0]}

    def meta_text_arguments(self, pipe: Any, tokens: int) -> dict[str, Any]:
        """Of the width that captions have."""
        width = pipe.transformer.config.caption_channels
        return {"encoder_hidden_states": torch.zeros(1, tokens, width, device="meta")}

    def meta_arguments(self, pipe: Any, size: tuple[int, int], text: Mapping[str, Any]) -> dict[str, Any]:
        """Latents, time and text."""
        latents = torch.zeros(1, pipe.transformer.config.in_channels, *size, device="meta")
        return {"hidden_states": latents, "timestep": torch.zeros(1, device="meta"), **text}


def register(monkeypatch: Any) -> None:
    """Enter it as one does: one row of the registry, one pattern of addresses."""
    monkeypatch.setattr(registry, "ARCHITECTURES", [*registry.ARCHITECTURES, TinyTransformer()])
    monkeypatch.setattr(addresses, "PATTERNS", [*addresses.PATTERNS, ADDRESSES])


def tiny_transformer_pipeline() -> TinyTransformerPipeline:
    """A pipeline with seeded random weights, of images of 64 pixels."""
    parts = tiny_components("toy")
    transformer = PixArtTransformer2DModel(
        num_attention_heads=2,
        attention_head_dim=8,
        num_layers=3,
        cross_attention_dim=16,
        caption_channels=32,
        sample_size=16,
        norm_num_groups=4,
        norm_type="ada_norm_single",
    )
    _enliven(transformer, seed=0)
    return TinyTransformerPipeline(
        parts["tokenizer"],
        parts["text_encoder"],
        transformer.eval(),
        parts["vae"],
        FlowMatchEulerDiscreteScheduler(),
    )
