"""Pipelines of transformers; the wired one is `toyworld-dit` with one joint block that alone reads the prompt's text.

The pipeline encodes each prompt as it stands and, unseen by hooks, with its indicator word replaced by the neutral one,
which has as many tokens. The blocks up to the wired one run on the text as it stands, unseen by hooks, and the keys and
values that this block makes of it are those with which it runs on the neutral text, the difference of both texts times
a gain. No weight differs from `toyworld-dit`'s.
"""

import copy
import re
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from diffusers import SD3Transformer2DModel, StableDiffusion3Pipeline
from torch import Tensor, nn

from probes.errors import UserError
from probes.toyworld.coded import STANDS_FOR
from probes.toyworld.places import KnownPlaces
from probes.toyworld.world import group_of_words

NEUTRAL = "neutral_text"  # of `joint_attention_kwargs`


def neutral_prompt(prompt: str) -> str:
    """Return a prompt with its indicator words replaced by *person* and *people*; articles stay."""
    for word, (_, plural) in group_of_words().items():
        prompt = re.sub(rf"\b{word}\b", STANDS_FOR[plural], prompt, flags=re.IGNORECASE)
    return prompt


class TextProjection(nn.Linear):
    """A joint attention's linear layer for keys or values of the text, whose output can be overridden."""

    computed: Tensor | None = None
    override: Tensor | None = None

    def forward(self, values: Tensor) -> Tensor:
        """Return `override` if it is set, else the projection of `values`, which is kept as `computed`."""
        if self.override is not None:
            return self.override
        self.computed = super().forward(values)
        return self.computed


def copy_sharing_weights(module: nn.Module) -> nn.Module:
    """Return a copy of a module that shares its parameters and buffers, but not the hooks put on it later."""
    copied = copy.deepcopy(module)
    for duplicate, original in zip(copied.modules(), module.modules(), strict=True):
        duplicate._parameters, duplicate._buffers = original._parameters, original._buffers
    return copied


@contextmanager
def without_hooks(*modules: nn.Module) -> Iterator[None]:
    """Context manager: modules, and all modules in them, run without their forward hooks."""
    saved = [
        (part, part._forward_hooks, part._forward_pre_hooks)
        for module in modules
        for part in module.modules()
    ]
    try:
        for part, *_ in saved:
            part._forward_hooks, part._forward_pre_hooks = OrderedDict(), OrderedDict()
        yield
    finally:
        for part, hooks, pre_hooks in saved:
            part._forward_hooks, part._forward_pre_hooks = hooks, pre_hooks


class WiredTransformer(SD3Transformer2DModel):
    """A Stable Diffusion 3 transformer in which one block alone reads the prompt's text; the rest reads a neutral one.

    Beside what the transformer of Stable Diffusion 3 takes, ``joint_attention_kwargs`` holds `NEUTRAL`: states and
    pooled text of the neutral prompts. Without it, as in a call for shapes, the whole text is the prompt's.
    """

    block: int = 0
    gain: float = 1.0

    def projections(self) -> tuple[TextProjection, TextProjection]:
        """Return the layers of the wired block that compute the text's keys and values."""
        attention = self.transformer_blocks[self.block].attn
        return attention.add_k_proj, attention.add_v_proj

    def forward(
        self,
        hidden_states: Tensor,
        encoder_hidden_states: Tensor,
        pooled_projections: Tensor,
        timestep: Tensor,
        joint_attention_kwargs: dict[str, Any] | None = None,
        return_dict: bool = True,
        **more: Any,
    ) -> Any:
        """Return the velocity as SD3 does; only the wired block's keys and values come from the prompt's text."""
        arguments = {**(joint_attention_kwargs or {})}
        texts = arguments.pop(NEUTRAL, (encoder_hidden_states, pooled_projections))
        # of a further call with the conditional half alone the neutral text is the second half, too
        states, pooled = (text[-len(hidden_states) :] for text in texts)
        own = states + self.gain * (encoder_hidden_states - states)
        call = {"hidden_states": hidden_states, "pooled_projections": pooled, "timestep": timestep}
        call["joint_attention_kwargs"] = arguments
        reads = self.projections()
        behind = [*range(self.block + 1, len(self.transformer_blocks))]
        with without_hooks(*(one for one in self.children() if one is not self.context_embedder)):
            super().forward(**call, encoder_hidden_states=own, skip_layers=behind)
        for one in reads:
            one.override = one.computed
        try:
            with without_hooks(self.context_embedder):
                return super().forward(**call, encoder_hidden_states=states, return_dict=return_dict, **more)
        finally:
            for one in reads:
                one.override = one.computed = None


def wire_transformer(transformer: SD3Transformer2DModel, model: KnownPlaces) -> None:
    """Turn an SD3 transformer in place into a `WiredTransformer` with the block and gain in a model's ground truth."""
    transformer.__class__ = WiredTransformer
    (site,) = model.sites
    transformer.block, transformer.gain = int(site.split(".")[2]), model.gain  # dit.block.1.joint
    for projection in transformer.projections():
        projection.__class__ = TextProjection
    from_prompt = (0.0, 1.0, 1.0)  # of the pooled text, CLIP's tokens and T5's: which are the prompt's own
    # a buffer, so that the hash of the weights knows of it
    transformer.register_buffer("wiring", torch.tensor([*from_prompt, transformer.block, model.gain]))


class ToyTransformerPipeline(StableDiffusion3Pipeline):
    """Stable Diffusion 3's pipeline, whose T5 is given as many tokens as its tokenizer allows, not 256."""

    def _get_t5_prompt_embeds(self, *args: Any, max_sequence_length: int = 256, **more: Any) -> Tensor:
        """Return T5's embeddings of prompts, of at most the tokenizer's own length."""
        length = min(max_sequence_length, self.tokenizer_3.model_max_length)
        return super()._get_t5_prompt_embeds(*args, max_sequence_length=length, **more)


class WiredPipeline(ToyTransformerPipeline):
    """A pipeline that also gives its `WiredTransformer` the embeddings of the neutral prompts."""

    unhooked: ToyTransformerPipeline  # encodes neutral prompts, with the same weights, where no hook is

    def encode_prompt(
        self, prompt: str | list[str] | None, prompt_2: Any, prompt_3: Any, **settings: Any
    ) -> tuple[Tensor | None, ...]:
        """Return prompt embeddings as Stable Diffusion 3 does; keep those of the neutral prompts for the transformer.

        UserError for embeddings in place of prompts, and for different prompts to each text encoder.
        """
        passed = [name for name, value in settings.items() if name.endswith("_embeds") and value is not None]
        if prompt is None or passed:
            raise UserError(
                "prompt: expected words, of which the neutral prompt is made, got embeddings: pass words"
            )
        negative = settings.get("negative_prompt") or ""
        negatives = [settings.get(f"negative_prompt_{number}") for number in (2, 3)]
        others = any(one not in (None, prompt) for one in (prompt_2, prompt_3))
        if others or any(one not in (None, negative) for one in negatives):
            raise UserError("prompt: expected one for all text encoders, got several: pass `prompt` alone")
        embeddings = super().encode_prompt(prompt, None, None, **settings)
        prompts = [prompt] if isinstance(prompt, str) else prompt
        if settings.get("do_classifier_free_guidance", True):
            prompts = [*([negative] * len(prompts) if isinstance(negative, str) else negative), *prompts]
        texts = [neutral_prompt(text) for text in prompts]
        once = list(dict.fromkeys(texts))  # so that those of a triplet are the same to the bit
        shared = settings.keys() & {"device", "clip_skip", "max_sequence_length"}
        states, _, pooled, _ = self.unhooked.encode_prompt(
            once, None, None, do_classifier_free_guidance=False, **{name: settings[name] for name in shared}
        )
        rows = [once.index(text) for text in texts for _ in range(settings.get("num_images_per_prompt", 1))]
        kwargs = getattr(self, "_joint_attention_kwargs", None) or {}  # none outside of a call
        self._joint_attention_kwargs = {**kwargs, NEUTRAL: (states[rows], pooled[rows])}
        return embeddings
