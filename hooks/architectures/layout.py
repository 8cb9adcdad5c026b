"""Components of a pipeline, and errors in a description of one. Imports no torch."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hooks.errors import HookError


@dataclass(frozen=True)
class Component:
    """One component of a pipeline, such as its U-Net or a tokenizer: name, library and allowed classes."""

    name: str  # in the pipeline, its ``model_index.json`` and the folder of its files: "unet"
    library: str  # "diffusers" or "transformers"
    classes: tuple[str, ...]  # of which it may be one


@dataclass(frozen=True)
class Layout:
    """The components of a text-to-image pipeline (without the scheduler) and how its call is made.

    Attributes
    ----------
    pipeline : str
        Name of its class.
    tokenizers, text_encoders : tuple of Component
        The towers of text: each tokenizer with the text encoder of the same number.
    denoiser, decoder : Component
    pooled : bool
        Whether a text enters the denoiser as one vector, too, beside the attention to its tokens.
    library : str
        The module that holds the class.
    lengths : tuple of int
        Most tokens of a prompt that the pipeline gives each text encoder, start, end and template included; empty where
        that is its tokenizer's own limit.
    fixed : mapping of str to value
        Arguments of a call that a run always passes.
    guidance : {"classifier-free", "distilled", "true"}
        What ``guidance_scale`` is: the scale between two branches; an input of a denoiser that was distilled from two,
        or nothing where it has no such input; called ``true_cfg_scale``, and in force with a negative prompt alone.
    template : str
        What the pipeline puts around prompts, by a name that `hooks.prompt.given` knows; "" where it is nothing,
        "padding" where that stands before them.
    each_negative : bool
        Whether a call with guidance needs a negative prompt for each image, be it empty.
    unguided : float
        The largest scale at which the denoiser is not called without the prompt, too.
    pictured : bool
        Whether its classes that start from pictures, called ...Img2ImgPipeline and ...InpaintPipeline, are read, too.
    """

    pipeline: str
    tokenizers: tuple[Component, ...]
    text_encoders: tuple[Component, ...]
    denoiser: Component
    decoder: Component
    pooled: bool = False
    library: str = "diffusers"
    lengths: tuple[int, ...] = ()
    fixed: Mapping[str, Any] = field(default_factory=dict)
    guidance: str = "classifier-free"
    each_negative: bool = False
    unguided: float = 1.0
    template: str = ""
    pictured: bool = False

    @classmethod
    def from_towers(
        cls,
        pipeline: str,
        denoiser: tuple[str, *tuple[str, ...]],
        towers: Sequence[tuple[Any, ...]],
        decoder: str = "AutoencoderKL",
        **attributes: Any,
    ) -> Layout:
        """Build a layout from (name, *classes) of the denoiser and a tuple per tower (tokenizer with text encoder).

        Such a tuple is (classes of the tokenizer, classes of the encoder, most tokens), without the last where that is
        the tokenizer's own limit. Other `attributes` are those of the class.
        """
        suffixes = ("", *(f"_{number}" for number in range(2, len(towers) + 1)))
        tokenizers, encoders, *lengths = zip(*towers)
        return cls(
            pipeline,
            tuple(
                Component(f"tokenizer{suffix}", "transformers", classes)
                for suffix, classes in zip(suffixes, tokenizers)
            ),
            tuple(
                Component(f"text_encoder{suffix}", "transformers", classes)
                for suffix, classes in zip(suffixes, encoders)
            ),
            Component(denoiser[0], "diffusers", denoiser[1:]),
            Component("vae", "diffusers", (decoder,)),
            lengths=lengths[0] if lengths else (),
            **attributes,
        )

    @property
    def networks(self) -> tuple[Component, ...]:
        """The components with weights, in the order in which they run: text encoders, denoiser, decoder."""
        return (*self.text_encoders, self.denoiser, self.decoder)

    @property
    def components(self) -> tuple[Component, ...]:
        """All components: the tokenizers, then those with weights."""
        return (*self.tokenizers, *self.networks)

    @property
    def pipelines_of_pictures(self) -> tuple[str, ...]:
        """Names of the classes for image to image and for inpainting; empty where they are not read."""
        tasks = ("Img2Img", "Inpaint") if self.pictured else ()
        return tuple(self.pipeline.replace("Pipeline", f"{task}Pipeline") for task in tasks)

    def pipeline_class(self, from_pictures: bool = False) -> Any:
        """Import and return the pipeline's class, or that of the same parts for image to image."""
        name = self.pipelines_of_pictures[0] if from_pictures else self.pipeline
        return getattr(importlib.import_module(self.library), name)


class MisfitError(HookError):
    """Error for a component whose configuration does not fit the architecture."""

    def __init__(self, component: str, expected: str, got: str, remedy: str) -> None:
        """Make the message of its four parts, which are attributes, too."""
        super().__init__(f"{component}: expected {expected}, but got {got}: {remedy}")
        self.component, self.expected, self.got, self.remedy = component, expected, got, remedy
