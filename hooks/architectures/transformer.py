"""Diffusion transformers: one class for all, what tells them apart is data (`TransformerRow`). Imports no torch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from hooks.architectures import decoder
from hooks.architectures.batch import Inputs
from hooks.architectures.site import BY_STEP, Site, children, tensor_of
from hooks.architectures.text_encoders import TEXT_ENCODERS, longest_text, text_sites
from hooks.architectures.transformer_call import TransformerCall, stacked
from hooks.architectures.transformer_rows import TransformerRow
from hooks.architectures.transformer_sites import PART, Stack, block_sites
from hooks.errors import HookError

if TYPE_CHECKING:
    from torch import Tensor

_AFTER = "it is read off what the transformer returned: write at a block, or at the latents"
# draw noise within `step` of a generator that pipelines do not pass
_DRAWING = ("FlowMatchLCMScheduler", "SCMScheduler")


class Transformer(TransformerCall):
    """A diffusion transformer, as a row says."""

    denoiser_name = "transformer"
    denoiser_part = PART
    transformer = True
    scheduler_methods = ("set_timesteps", "step")

    def __init__(self, row: TransformerRow) -> None:
        self.row = row
        self.name, self.models, self.predicts = row.name, row.models, row.predicts
        double = any(stack.role == "joint" and not stack.single for stack in row.stacks)
        self.readings = ("mass", "share", *(("output",) if double else ()))
        self.masked = bool(row.masks) or row.listed
        self.pipelines = (row.layout.pipeline,)
        self.layouts = (row.layout,)

    # What it is made of

    def require_readable(self, pipe: Any) -> None:
        """Refuse what skips, splits or fuses modules that are read, and noise that no generator of the run draws."""
        super().require_readable(pipe)
        denoiser, name = self.denoiser(pipe), f"{type(pipe).__name__}.{PART}"
        hooked = (getattr(module, "_diffusers_hook", None) for module in denoiser.modules())
        caches = [key for registry in hooked if registry is not None for key in registry.hooks if _skips(key)]
        if getattr(denoiser, "is_cache_enabled", False) or caches:
            raise HookError(
                f"{name}: expected every block to run at every step, but got a cache"
                f"{f' ({caches[0]})' if caches else ''}: call pipe.{PART}.disable_cache()"
            )
        if getattr(denoiser, "_parallel_config", None) is not None:
            raise HookError(
                f"{name}: expected whole sequences, but got one that is split over devices: load it without parallelism"
            )
        if any(getattr(module, "fused_projections", False) for module in denoiser.modules()):
            raise HookError(
                f"{name}: expected queries, keys and values apart, but got fused projections: "
                f"call pipe.{PART}.unfuse_qkv_projections(), or load the pipeline again"
            )
        self._require_shared_noise(pipe)

    def check(self, pipe: Any) -> None:
        """See `Architecture.check`; some transformers have no size of their own."""
        if "sample_size" not in self.denoiser(pipe).config or self.row.packed:
            decoder.check(self.decoder(pipe).config)
        else:
            super().check(pipe)

    def _require_shared_noise(self, pipe: Any) -> None:
        scheduler = pipe.scheduler
        config, found = getattr(scheduler, "config", {}), type(scheduler).__name__
        draws = found in _DRAWING or config.get("stochastic_sampling")
        draws = draws or str(config.get("algorithm_type", "")).startswith("sde-")
        if draws and not self.row.own_generator:
            raise HookError(
                f"{type(pipe).__name__}.scheduler: expected steps without noise of their own, but got {found}, which "
                "draws it without the call's generator, so that images of one seed would not share it: use another"
            )

    # Its sites

    def sites(self, pipe: Any) -> Iterator[Site]:
        """All sites, in the order in which they run."""
        yield from text_sites(pipe, PART)
        if self.row.pooled is not None:
            yield Site("text.pooled", f"{PART}.{self.row.pooled_at}", read="input")
        yield _made("latent", BY_STEP)
        for address, path in self.row.entrances.items():
            stream, more = address.rpartition(".")[2], {}
            if self.row.listed:  # rows are padded to one length
                more = {"read": "input", "stream": stream, "sequence": (stream,)}
            yield Site(address, f"{PART}.{path}", **more)
        yield from block_sites(self.denoiser(pipe), self.row.stacks)
        for branch in ("unconditional", "conditional", "guided"):
            yield _made(f"noise_pred.{branch}", _AFTER)
        if self.unavailable(pipe, "x0_pred") is None:
            yield _made("x0_pred", _AFTER)
        yield from decoder.decoder_sites(self.decoder(pipe))

    def attentions(self, pipe: Any, kind: str) -> Iterator[tuple[Site, int]]:
        """The attentions by which the image reads the text, on the grid of patches; maps of no others are read."""
        if kind != "cross":
            return
        ends = tuple(f".{stack.role}" for stack in self.row.stacks)
        for site in block_sites(self.denoiser(pipe), self.row.stacks):
            if site.address.endswith(ends):
                yield site, self.patch(pipe)

    def stack_of(self, address: str) -> Stack:
        """The stack that a site lies in."""
        return next(stack for stack in self.row.stacks if address.startswith(f"{stack.address}."))

    def word_layers(self, pipe: Any) -> tuple[str, ...]:
        """See `Architecture.word_layers`: those that the literature prefers."""
        stack = self.row.stacks[0]
        blocks = children(self.denoiser(pipe), stack.path)
        dual = (
            any(getattr(block, "attn2", None) is not None for block in blocks) and stack.attention == "attn"
        )
        chosen = dict(self.row.word_layers).get((len(blocks), dual), range(len(blocks)))
        return tuple(f"{stack.address}.{number}.{stack.role}" for number in chosen)

    # A call of the denoiser

    def prediction(self, inputs: Inputs, output: Any) -> Tensor:
        """See `Architecture.prediction`; without the variance behind it, in the sign that the scheduler is given."""
        values = self.unpacked(stacked(tensor_of(output)), inputs.batch)
        channels = inputs.latent.shape[1]
        values = values[:, :channels] if self.row.variance else values
        return -values if self.row.negated else values

    def predictions(self, inputs: Inputs, output: Any, second: bool = False) -> Iterator[tuple[str, Tensor]]:
        """See `Architecture.predictions`; a second call may be that without the prompt."""
        if second and self.row.branches == "calls":
            yield "noise_pred.unconditional", self.prediction(inputs, output)
        yield from super().predictions(inputs, output, second)

    def planned(self, pipe: Any) -> int | None:
        """See `Architecture.planned`; some pipelines do not say, but their scheduler does."""
        planned = super().planned(pipe)
        return len(pipe.scheduler.timesteps) if planned is None else planned

    # Sizes

    def image_multiple(self, pipe: Any) -> int:
        """See `Architecture.image_multiple`: whole patches."""
        return self.latent_scale(pipe) * self.patch(pipe)

    def joined_encoders(self) -> list[str]:
        """Names of the text encoders whose positions follow one another in the text that the transformer is given."""
        return [[*TEXT_ENCODERS][tower] for tower in self.row.text_towers]

    def prompt_tokens(self, pipe: Any) -> int:
        """See `Architecture.prompt_tokens`."""
        return sum(self.tokens(pipe, encoder) for encoder in self.joined_encoders())

    def tokens(self, pipe: Any, encoder: str) -> int:
        """See `Architecture.tokens`; as many as the pipeline gives it, or as it has positions."""
        most = self.row.layout.lengths[[*TEXT_ENCODERS].index(encoder)]
        tower = getattr(pipe, TEXT_ENCODERS[encoder], None)
        return min(most, longest_text(tower) or most) if tower else most


def _made(address: str, read_only: str) -> Site:
    return Site(address, PART, read="pipeline", read_only=read_only)


def _skips(hook: str) -> bool:
    """Return whether a hook of diffusers, by its name, may leave out a block or an attention."""
    return any(word in hook for word in ("cache", "fbc", "pyramid", "skip"))
