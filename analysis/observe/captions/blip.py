"""Captions by BLIP (Li et al. 2022) or BLIP-2 (Li et al. 2023) in transformers' classes, from a folder or the hub.

DALL-Eval captions by VL-T5, which no maintained package holds; which network captioned stands beside every number.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from PIL import Image

from analysis.observe.text_generation import NETWORKS, TextGenerator
from probes.config.observation import Captions
from probes.models.pretrained import readable


class BlipCaptioner(TextGenerator):
    """Captions images; see :class:`analysis.observe.captions.observer.CaptionObserver`."""

    field, kinds = "observe.captions.model", (*NETWORKS,)
    libraries = ("torch", "transformers")

    def __init__(self, settings: Captions):
        assert settings.model is not None, "it is asked for by name"
        super().__init__(settings.model, settings)

    @torch.inference_mode()
    def captions(self, images: Sequence[np.ndarray]) -> list[str]:
        """A caption of each image, without the prompt that it goes on from."""
        pictures = [Image.fromarray(image) for image in images]
        text = [self.search.prompt] * len(pictures) if self.search.prompt else None
        with readable(f"{self.field}: {self.path}", "a model that captions"):
            inputs = self._processor(images=pictures, text=text, return_tensors="pt").to(self._model.device)
            inputs["pixel_values"] = inputs["pixel_values"].to(self._model.dtype)
        texts = self._texts(self._generate(**inputs))
        return [one.removeprefix(self.search.prompt.strip()).strip() for one in texts]
