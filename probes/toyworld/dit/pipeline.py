"""The pipeline of the toy world's diffusion transformers."""

from typing import Any

from diffusers import StableDiffusion3Pipeline
from torch import Tensor


class ToyTransformerPipeline(StableDiffusion3Pipeline):
    """Stable Diffusion 3's pipeline, whose T5 is given as many tokens as its tokenizer allows, and not 256."""

    def _get_t5_prompt_embeds(
        self,
        prompt: Any = None,
        num_images_per_prompt: int = 1,
        max_sequence_length: int = 256,
        **placing: Any,
    ) -> Tensor:
        length = min(max_sequence_length, self.tokenizer_3.model_max_length)
        return super()._get_t5_prompt_embeds(prompt, num_images_per_prompt, length, **placing)
