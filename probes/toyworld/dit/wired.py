"""Wired transformers: `toyworld-dit`, in which only some of the text is that of the prompt, by construction.

The pipeline encodes each prompt as it stands and, unseen by hooks, with its indicator word replaced by the neutral one,
which has as many tokens. The transformer is given both and reads the channels that are wired from the first, all others
from the second, the difference of both times a gain. Of the channels it may read all tokens or those around the word
alone. Or one joint block alone is wired: the blocks up to it run on the text as it stands, unseen by hooks, and the
keys and values that the block makes of it are those with which it runs on the neutral text. In one model these may
also be those of a feminine or masculine word, which the image chooses (:mod:`probes.toyworld.dit.choosing`). No weight
differs from `toyworld-dit`'s.
"""

import copy
import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from diffusers import SD3Transformer2DModel
from torch import Tensor, nn

from hooks.prompt.spans import encode, tokens_of_words
from probes.errors import UserError
from probes.toyworld.dit.choosing import ChoosingBlock, Offered, TextProjection, projections
from probes.toyworld.dit.pipeline import ToyTransformerPipeline
from probes.toyworld.dit.truth import ALL, CHANNELS, REST, WiredModel
from probes.toyworld.world import group_of_words

STANDS_FOR = {  # in place of any indicator word, of one and of several
    "neutral": ("person", "people"),
    "feminine": ("woman", "women"),
    "masculine": ("man", "men"),
}
NEUTRAL, CHOICES = "neutral_text", "texts_to_choose"  # of `joint_attention_kwargs`


@cache
def _any_indicator() -> re.Pattern[str]:
    words = sorted(group_of_words(), key=len, reverse=True)
    return re.compile(rf"\b({'|'.join(words)})\b", re.IGNORECASE)


def reworded(prompt: str, group: str = "neutral") -> str:
    """Return a prompt with its indicator words replaced, such as by *person* and *people*; articles stay.

    Examples
    --------
    >>> reworded("a lady with two gentlemen"), reworded("a person", "masculine"), reworded("a hat")
    ('a person with two people', 'a man', 'a hat')
    """
    words = group_of_words()
    return _any_indicator().sub(lambda found: STANDS_FOR[group][words[found[0].lower()][1]], prompt)


def tokens_of_indicators(prompts: Sequence[str], tokenizer: Any, length: int) -> Tensor:
    """Return at which of its tokens each prompt has an indicator word, bool, shape (prompts, length)."""
    found = torch.zeros(len(prompts), length, dtype=torch.bool)
    for row, (_, offsets) in enumerate(encode(tokenizer, prompts, "prompt")):
        spans = [word.span() for word in _any_indicator().finditer(prompts[row])]
        found[
            row, [place for word in tokens_of_words(offsets, spans) for place in word if place < length]
        ] = True
    return found


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
        (one, name, getattr(one, name))
        for module in modules
        for one in module.modules()
        for name in ("_forward_hooks", "_forward_pre_hooks")
    ]
    try:
        for one, name, _ in kept:
            setattr(one, name, OrderedDict())
        yield
    finally:
        for one, name, hooks in kept:
            setattr(one, name, hooks)


class WiredTransformer(SD3Transformer2DModel):
    """A transformer that reads some of the text from the prompt and the rest from the neutral prompt.

    Beside what the transformer of Stable Diffusion 3 takes, ``joint_attention_kwargs`` holds `NEUTRAL`: states and
    pooled text of the neutral prompts, and which tokens are indicator words'. Without it, as in a call for shapes, the
    whole text is the prompt's. Where a block chooses it holds `CHOICES`, states of feminine and of masculine prompts.
    """

    clip_tokens = 0
    channels: tuple[str, ...] = CHANNELS
    positions: str = ALL
    block: int | None = None
    gain: float = 1.0

    @classmethod
    def of(
        cls, transformer: SD3Transformer2DModel, model: WiredModel, clip_tokens: int
    ) -> "WiredTransformer":
        """A transformer as one, with the same parameters; its wiring is a buffer, and so part of its weights' hash.

        Parameters
        ----------
        clip_tokens : int
            Positions of the text that are the CLIPs'; those behind them are T5's.
        """
        transformer.__class__ = cls
        assert isinstance(transformer, cls)
        transformer.channels, transformer.block, transformer.gain = model.channels, model.block, model.gain
        transformer.clip_tokens, transformer.positions = clip_tokens, model.positions
        if model.block is not None:
            attention = transformer.transformer_blocks[model.block].attn
            attention.add_k_proj = TextProjection.of(attention.add_k_proj)
            attention.add_v_proj = TextProjection.of(attention.add_v_proj)
        wired = [float(name in model.channels) for name in CHANNELS]
        wired += [-1.0 if model.block is None else model.block, model.gain]
        wired += [1.0] * (model.positions == REST)
        transformer.register_buffer("wiring", torch.tensor(wired))
        return transformer

    @property
    def chooses(self) -> bool:
        """Whether its block chooses what a neutral word is read as."""
        return self.block is not None and isinstance(self.transformer_blocks[self.block], ChoosingBlock)

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
        """Return the velocity, as the transformer of Stable Diffusion 3 does."""
        arguments = dict(joint_attention_kwargs or {})
        nowhere = encoder_hidden_states.new_zeros(encoder_hidden_states.shape[:2], dtype=torch.bool)
        texts = arguments.pop(NEUTRAL, (encoder_hidden_states, pooled_projections, nowhere))
        # of a further call with the conditional half alone the neutral text is the second half, too
        states, pooled, words = (text[-len(hidden_states) :] for text in texts)
        choices = [text[-len(hidden_states) :] for text in arguments.pop(CHOICES, (states, states))]
        if "pooled" in self.channels:
            pooled = self._louder(pooled, pooled_projections)
        own = states.clone()
        for name, where in (("clip", slice(self.clip_tokens)), ("t5", slice(self.clip_tokens, None))):
            if name in self.channels:
                own[:, where] = self._louder(states[:, where], encoder_hidden_states[:, where])
        if self.positions == REST:
            own = torch.where(words[..., None], states, own)
        call = {
            "hidden_states": hidden_states,
            "pooled_projections": pooled,
            "timestep": timestep,
            "joint_attention_kwargs": arguments,
        }
        if self.block is None:
            return super().forward(**call, encoder_hidden_states=own, return_dict=return_dict, **more)
        choices = [self._louder(states, one) for one in choices]
        return self._through_block(self.block, (own, states, *choices), call, return_dict, more)

    def _louder(self, of_neutral: Tensor, own: Tensor) -> Tensor:
        """The prompt's own text, its difference from the neutral prompt's times the gain."""
        return own if self.gain == 1 else of_neutral + self.gain * (own - of_neutral)

    def _through_block(
        self,
        block: int,
        texts: Sequence[Tensor],
        call: dict[str, Any],
        return_dict: bool,
        more: dict[str, Any],
    ) -> Any:
        """Run on neutral states with one block's keys and values of the prompt's own, which the hooks see come in.

        Parameters
        ----------
        texts : sequence of Tensor
            States of the prompt's own text, of the neutral one, and of the two that a block may choose.
        """
        chooser, entrance = self.transformer_blocks[block], self.context_embedder
        chooses = isinstance(chooser, ChoosingBlock)
        behind = [*range(block + 1, len(self.transformer_blocks))]
        seen = entrance  # by hooks, once
        made: list[list[Tensor]] = [[], []]
        for text in texts if chooses else texts[:1]:
            with unhooked(*(one for one in self.children() if one is not seen)):
                super().forward(**call, encoder_hidden_states=text, skip_layers=behind)
            for found, one in zip(made, projections(chooser), strict=True):
                found.append(one.made)
            seen = None
        try:
            if chooses:
                chooser.offered = tuple(Offered(*of_texts) for of_texts in made)
            else:
                for (own,), one in zip(made, projections(chooser), strict=True):
                    one.given = own
            with unhooked(entrance):
                return super().forward(
                    **call, encoder_hidden_states=texts[1], return_dict=return_dict, **more
                )
        finally:
            if chooses:
                chooser.offered = ()
            for one in projections(chooser):
                one.given = one.made = None


class WiredPipeline(ToyTransformerPipeline):
    """A pipeline whose transformer is given the neutral prompts beside the prompts; made by `of`."""

    unseen: ToyTransformerPipeline  # encodes the neutral prompts with the same weights, out of sight of hooks

    @classmethod
    def of(cls, parts: Mapping[str, Any]) -> "WiredPipeline":
        """A pipeline of the components of Stable Diffusion 3's, the transformer among them a `WiredTransformer`."""
        made = cls(**parts)
        towers = {name: twin(part) for name, part in parts.items() if name.startswith("text_encoder")}
        made.unseen = ToyTransformerPipeline(**{**parts, **towers, "transformer": None, "vae": None})
        return made

    def encode_prompt(
        self, prompt: str | list[str] | None, prompt_2: Any, prompt_3: Any, **settings: Any
    ) -> tuple[Tensor | None, ...]:
        """Return what Stable Diffusion 3's pipeline does; the transformer is given the same of the neutral prompts.

        Raises
        ------
        UserError
            Embeddings are given in place of prompts, or different prompts to each text encoder: nothing tells what
            they would be with the neutral word.
        """
        given = [name for name, value in settings.items() if name.endswith("_embeds") and value is not None]
        if prompt is None or given:
            raise UserError(
                "prompt: expected words, of which the neutral prompt is made, got embeddings: pass words"
            )
        negative = settings.get("negative_prompt") or ""
        others = [settings.get(f"negative_prompt_{number}") for number in (2, 3)]
        if any(one not in (None, prompt) for one in (prompt_2, prompt_3)) or any(
            one not in (None, negative) for one in others
        ):
            raise UserError("prompt: expected one for all text encoders, got several: pass `prompt` alone")
        found = super().encode_prompt(prompt, None, None, **settings)
        prompts = [prompt] if isinstance(prompt, str) else prompt
        negatives = [negative] * len(prompts) if isinstance(negative, str) else negative
        guided = settings.get("do_classifier_free_guidance", True)
        given_texts = [*negatives, *prompts] if guided else prompts
        states, pooled = self._unseen(given_texts, "neutral", settings)
        tokens = (self.tokenizer.model_max_length, states.shape[1] - self.tokenizer.model_max_length)
        words = torch.cat(
            [
                tokens_of_indicators(given_texts, tokenizer, length)
                for tokenizer, length in zip((self.tokenizer, self.tokenizer_3), tokens, strict=True)
            ],
            1,
        )
        images = settings.get("num_images_per_prompt", 1)
        self._joint_attention_kwargs = {
            **(getattr(self, "_joint_attention_kwargs", None) or {}),  # none outside of a call
            NEUTRAL: (states, pooled, words.repeat_interleave(images, 0).to(states.device)),
        }
        if self.transformer.chooses:
            self._joint_attention_kwargs[CHOICES] = tuple(
                self._unseen(given_texts, group, settings)[0] for group in ("feminine", "masculine")
            )
        return found

    def _unseen(
        self, prompts: Sequence[str], group: str, settings: Mapping[str, Any]
    ) -> tuple[Tensor, Tensor]:
        """States and pooled text of prompts with the words of a group, one row per image."""
        texts = [reworded(text, group) for text in prompts]
        once = list(dict.fromkeys(texts))  # so that those of a triplet are the same to the bit
        kept = ("device", "clip_skip", "max_sequence_length")
        states, _, pooled, _ = self.unseen.encode_prompt(
            once,
            None,
            None,
            do_classifier_free_guidance=False,
            **{name: settings[name] for name in kept if name in settings},
        )
        rows = [once.index(text) for text in texts for _ in range(settings.get("num_images_per_prompt", 1))]
        return states[rows], pooled[rows]
