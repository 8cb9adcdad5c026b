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


def reworded(prompt: str) -> str:
    """Return a prompt with its indicator words replaced by *person* and *people*; articles stay."""
    for word, (_, plural) in group_of_words().items():
        prompt = re.sub(rf"\b{word}\b", STANDS_FOR[plural], prompt, flags=re.IGNORECASE)
    return prompt


class TextProjection(nn.Linear):
    """The keys or values that a joint attention makes of the text, or those that it is given in their place."""

    made: Tensor | None = None
    given: Tensor | None = None

    def forward(self, values: Tensor) -> Tensor:
        """Return what is given, else what is made of the text."""
        if self.given is not None:
            return self.given
        self.made = super().forward(values)
        return self.made


def twin(module: nn.Module) -> nn.Module:
    """Return a copy of a module: hooks of its own, the same parameters and buffers, whatever becomes of them."""
    made = copy.deepcopy(module)
    for ours, theirs in zip(made.modules(), module.modules(), strict=True):
        ours._parameters, ours._buffers = theirs._parameters, theirs._buffers
    return made


@contextmanager
def unhooked(*modules: nn.Module) -> Iterator[None]:
    """Run modules without the forward hooks that are registered at them or at what they are made of."""
    kept = [
        (one, one._forward_hooks, one._forward_pre_hooks) for module in modules for one in module.modules()
    ]
    try:
        for one, *_ in kept:
            one._forward_hooks, one._forward_pre_hooks = OrderedDict(), OrderedDict()
        yield
    finally:
        for one, hooks, pre_hooks in kept:
            one._forward_hooks, one._forward_pre_hooks = hooks, pre_hooks


class WiredTransformer(SD3Transformer2DModel):
    """A transformer one block of which reads the prompt's own text; all else reads that of the neutral prompt.

    Beside what the transformer of Stable Diffusion 3 takes, ``joint_attention_kwargs`` holds `NEUTRAL`: states and
    pooled text of the neutral prompts. Without it, as in a call for shapes, the whole text is the prompt's.
    """

    block: int = 0
    gain: float = 1.0

    def projections(self) -> tuple[TextProjection, TextProjection]:
        """The keys' and the values' projection of the text in the wired block."""
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
        """Return the velocity, as the transformer of Stable Diffusion 3 does.

        It runs on neutral states, with the wired block's keys and values of the prompt's own, which the hooks see come
        in.
        """
        arguments = {**(joint_attention_kwargs or {})}
        texts = arguments.pop(NEUTRAL, (encoder_hidden_states, pooled_projections))
        # of a further call with the conditional half alone the neutral text is the second half, too
        states, pooled = (text[-len(hidden_states) :] for text in texts)
        own = states + self.gain * (encoder_hidden_states - states)
        call = {"hidden_states": hidden_states, "pooled_projections": pooled, "timestep": timestep}
        call["joint_attention_kwargs"] = arguments
        reads = self.projections()
        behind = [*range(self.block + 1, len(self.transformer_blocks))]
        with unhooked(*(one for one in self.children() if one is not self.context_embedder)):
            super().forward(**call, encoder_hidden_states=own, skip_layers=behind)
        for one in reads:
            one.given = one.made
        try:
            with unhooked(self.context_embedder):
                return super().forward(**call, encoder_hidden_states=states, return_dict=return_dict, **more)
        finally:
            for one in reads:
                one.given = one.made = None


def wire(transformer: SD3Transformer2DModel, model: KnownPlaces) -> None:
    """Let one block of a transformer alone read the prompt's own text, in place.

    The wiring is a buffer, and so part of the weights' hash.
    """
    transformer.__class__ = WiredTransformer
    (site,) = model.sites
    transformer.block, transformer.gain = int(site.split(".")[2]), model.gain  # dit.block.1.joint
    for projection in transformer.projections():
        projection.__class__ = TextProjection
    own = (0.0, 1.0, 1.0)  # of the pooled text, CLIP's tokens and T5's: which are the prompt's own
    transformer.register_buffer("wiring", torch.tensor([*own, transformer.block, model.gain]))


class ToyTransformerPipeline(StableDiffusion3Pipeline):
    """Stable Diffusion 3's pipeline, whose T5 is given as many tokens as its tokenizer allows, and not 256."""

    def _get_t5_prompt_embeds(self, *args: Any, max_sequence_length: int = 256, **more: Any) -> Tensor:
        length = min(max_sequence_length, self.tokenizer_3.model_max_length)
        return super()._get_t5_prompt_embeds(*args, max_sequence_length=length, **more)


class WiredPipeline(ToyTransformerPipeline):
    """A pipeline whose transformer, a `WiredTransformer`, is given the neutral prompts beside the prompts."""

    unseen: ToyTransformerPipeline  # encodes neutral prompts, with the same weights, where no hook is

    def encode_prompt(
        self, prompt: str | list[str] | None, prompt_2: Any, prompt_3: Any, **settings: Any
    ) -> tuple[Tensor | None, ...]:
        """Return what Stable Diffusion 3's pipeline does; the transformer is given the same of the neutral prompts.

        Embeddings in place of prompts, and different prompts to each text encoder, are refused: nothing tells what they
        would be with the neutral word.
        """
        given = [name for name, value in settings.items() if name.endswith("_embeds") and value is not None]
        if prompt is None or given:
            raise UserError(
                "prompt: expected words, of which the neutral prompt is made, got embeddings: pass words"
            )
        negative = settings.get("negative_prompt") or ""
        negatives = [settings.get(f"negative_prompt_{number}") for number in (2, 3)]
        others = any(one not in (None, prompt) for one in (prompt_2, prompt_3))
        if others or any(one not in (None, negative) for one in negatives):
            raise UserError("prompt: expected one for all text encoders, got several: pass `prompt` alone")
        found = super().encode_prompt(prompt, None, None, **settings)
        prompts = [prompt] if isinstance(prompt, str) else prompt
        if settings.get("do_classifier_free_guidance", True):
            prompts = [*([negative] * len(prompts) if isinstance(negative, str) else negative), *prompts]
        texts = [reworded(text) for text in prompts]
        once = list(dict.fromkeys(texts))  # so that those of a triplet are the same to the bit
        kept = settings.keys() & {"device", "clip_skip", "max_sequence_length"}
        states, _, pooled, _ = self.unseen.encode_prompt(
            once, None, None, do_classifier_free_guidance=False, **{name: settings[name] for name in kept}
        )
        rows = [once.index(text) for text in texts for _ in range(settings.get("num_images_per_prompt", 1))]
        own = getattr(self, "_joint_attention_kwargs", None) or {}  # none outside of a call
        self._joint_attention_kwargs = {**own, NEUTRAL: (states[rows], pooled[rows])}
        return found
