"""Diffusion transformers: one class for all, what tells them apart is data (`TransformerRow`). Imports no torch."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hooks.architectures import latents
from hooks.architectures.base import Architecture
from hooks.architectures.site import BY_STEP, Batch, Inputs, Site, children, other_branches, tensor_of
from hooks.architectures.text_encoders import TEXT_ENCODERS, longest_text, text_sites
from hooks.architectures.transformer_rows import TransformerRow
from hooks.architectures.transformer_sites import PART, Stack, block_sites
from hooks.errors import HookError

if TYPE_CHECKING:
    from torch import Tensor

_AFTER = "it is read off what the transformer returned: write at a block, or at the latents"
# draw noise within `step` of a generator that pipelines do not pass
_DRAWING = ("FlowMatchLCMScheduler", "SCMScheduler")


class Transformer(Architecture):
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
            latents.check(pipe.vae.config)
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
        yield from latents.decoder_sites(pipe.vae)

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

    def inputs(
        self,
        pipe: Any,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        branches: tuple[str, ...] | None = None,
    ) -> Inputs:
        """Return what the transformer is given; latents are unpacked."""
        row, given = self.row, self._named(args, kwargs)
        lengths = self._text_lengths(given)
        latent, states = stacked(given["hidden_states"]), stacked(given["encoder_hidden_states"])
        branches = branches or self._branches(pipe)
        if latent.shape[0] % len(branches):
            raise other_branches(pipe, branches, len(latent), "a number that they do not divide")
        rows = latent.shape[0] // len(branches)
        size = self._size(pipe, {**given, "hidden_states": latent})
        batch = Batch(rows, branches, *size, self.patch(pipe), states.shape[1], lengths, row.multiple)
        pooled = None if row.pooled is None else batch.conditional(given[row.pooled[0]], "text.pooled")
        return Inputs(
            batch,
            given["timestep"],
            self.unpacked(batch.conditional(latent, "latent"), batch),
            batch.conditional(states, "text.final"),
            masked=False,  # masks are read with the attention
            pooled=pooled,
        )

    def branches(
        self,
        pipe: Any,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        of_prompts: Callable[[Tensor], bool],
        runs: int,
    ) -> tuple[str, ...] | None:
        """See `Architecture.branches`."""
        if self.row.branches != "text":
            return None
        states = self._named(args, kwargs)["encoder_hidden_states"]
        guided = len(states) % 2 == 0 and of_prompts(states[len(states) // 2 :])
        if guided and runs > 1:
            return self._order(guided=True)
        if guided or of_prompts(states):  # negative states may have been passed in
            return self._order(guided and not of_prompts(states))
        raise HookError(
            f"{type(pipe).__name__}: expected prompts, since the texts tell which rows are guided by them, but no text "
            "encoder in this block gave the denoiser its states: pass prompt, not prompt_embeds"
        )

    def _branches(self, pipe: Any) -> tuple[str, ...]:
        if self.row.branches != "pipeline":
            return self._order(guided=False)
        guided = getattr(pipe, "do_classifier_free_guidance", None)
        if guided is None:
            guided = getattr(pipe, "guidance_scale", 0.0) > self.row.layout.unguided
        return self._order(bool(guided))

    def _order(self, guided: bool) -> tuple[str, ...]:
        if not guided:
            return ("conditional",)
        both = ("unconditional", "conditional")
        return both[::-1] if self.row.prompts_first else both

    def _size(self, pipe: Any, given: Mapping[str, Any]) -> tuple[int, int]:
        """Height and width of the latent."""
        if not self.row.packed:
            return tuple(given["hidden_states"].shape[-2:])
        if "img_shapes" in given:
            return tuple(self.patch(pipe) * side for side in given["img_shapes"][0][0][-2:])
        if hasattr(pipe, "blank_size"):  # without weights, positions have no values
            return pipe.blank_size
        last = given["img_ids"].flatten(0, -2)[-1].tolist()
        return tuple(self.patch(pipe) * (int(place) + 1) for place in last[-2:])

    def patch(self, pipe: Any) -> int:
        """See `Architecture.patch`."""
        return self.row.patch or self.denoiser(pipe).config.patch_size

    def unpacked(self, values: Tensor, batch: Batch) -> Tensor:
        """Latents or predictions as a picture, shape (rows, c, h, w); a variance behind the channels is left out."""
        if self.row.packed:
            (height, width), side = batch.grid, batch.patch
            values = values.unflatten(-1, (-1, side, side)).unflatten(1, (height, width))
            values = values.permute(0, 3, 1, 4, 2, 5).flatten(4).flatten(2, 3)
        return values

    def _named(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments of a call by their common names; the latents may come first."""
        given = {**dict(zip(self.row.arguments or ("hidden_states",), args)), **kwargs}
        return {self.row.arguments.get(name, name): value for name, value in given.items()}

    def _text_lengths(self, given: Mapping[str, Any]) -> tuple[int, ...]:
        """Positions that each row's text takes in the attention; empty where all rows have the same number.

        Refuses images of one prompt with masks of different prompts, as Lumina2's pipeline of diffusers gives them.
        """
        row = self.row
        if row.listed:
            return tuple(map(len, given["encoder_hidden_states"]))
        if row.own_lengths:
            lengths, states = given[row.masks[0]].sum(dim=1).tolist(), given["encoder_hidden_states"]
            for one in range(1, len(lengths)):
                if lengths[one] != lengths[one - 1] and bool((states[one] == states[one - 1]).all()):
                    raise HookError(
                        "transformer: expected one mask for all images of a prompt, but the pipeline gives image"
                        f" {one} that of another prompt: repeat the prompts instead of num_images_per_prompt"
                    )
            return tuple(lengths)
        return ()

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

    def with_texts(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], rows: Sequence[int]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """States of the tokens, masks and pooled text of the rows named; all else stays each row's own."""
        row = self.row
        swapped = ("encoder_hidden_states", *row.masks, *(row.pooled or ())[:1])

        def of_rows(name: str, value: Any) -> Any:
            if row.arguments.get(name, name) not in swapped or value is None:
                return value
            return [value[one] for one in rows] if isinstance(value, list) else value[list(rows)]

        given = tuple(of_rows(name, value) for name, value in zip(row.arguments, args))
        return (*given, *args[len(given) :]), {name: of_rows(name, value) for name, value in kwargs.items()}

    def text_arguments(self, outputs: Sequence[Any]) -> dict[str, Any]:
        """The last encoder's last states; before them those of two encoders of CLIP, and the pooled text of CLIP's."""
        import torch

        *clip, last = outputs
        states = last[0] if hasattr(last, "last_hidden_state") else last.hidden_states[-1]
        if len(clip) > 1:
            joined = torch.cat([output.hidden_states[-2] for output in clip], -1)
            missing = states.shape[-1] - joined.shape[-1]
            states = torch.cat([torch.nn.functional.pad(joined, (0, missing)), states], 1)
        given = {"encoder_hidden_states": states}
        if self.row.pooled is not None:
            pooled = [getattr(one, "text_embeds", getattr(one, "pooler_output", None)) for one in clip]
            given[self.row.pooled[0]] = torch.cat(pooled, -1)
        return given

    def blank_text(self, pipe: Any, tokens: int) -> dict[str, Any]:
        """Arguments that say a text of so many tokens, on the meta device."""
        import torch

        row, config = self.row, self.denoiser(pipe).config
        widths = {"encoder_hidden_states": (1, tokens, config[row.text_width])}
        if row.pooled is not None:
            widths[row.pooled[0]] = (1, config[row.pooled[1]])
        return {name: torch.zeros(shape, device="meta") for name, shape in widths.items()}

    def blank_call(self, pipe: Any, size: tuple[int, int], text: Mapping[str, Any]) -> dict[str, Any]:
        """All arguments of a call on the meta device, for one image with a latent of this size, by their own names."""
        import torch

        row, denoiser = self.row, self.denoiser(pipe)
        config, tokens = denoiser.config, text["encoder_hidden_states"].shape[1]
        shape: tuple[int, ...] = (1, config.in_channels, *size)
        given = {"timestep": torch.zeros(1, device="meta"), **text}
        for argument, shapes in row.blank.items():
            given[argument] = {key: torch.zeros(of, device="meta") for key, of in shapes.items()}
        if row.packed:
            pipe.blank_size = size  # positions, which say it elsewhere, have no values here
            grid = [side // self.patch(pipe) for side in size]
            shape = (1, grid[0] * grid[1], config.in_channels)
            if "img_shapes" in inspect.signature(type(denoiser).forward).parameters:
                given["img_shapes"] = [[(1, *grid)]]
            else:
                given["img_ids"] = torch.zeros(shape[1], 3, device="meta")
                given["txt_ids"] = torch.zeros(tokens, 3, device="meta")
        if row.own_lengths:
            given[row.masks[0]] = _known_ones(tokens)
        if config.get("guidance_embeds"):
            given["guidance"] = torch.zeros(1, device="meta")
        given["hidden_states"] = torch.zeros(shape, device="meta")
        own = {name: given.pop(common) for name, common in row.arguments.items()}
        if row.listed:
            latent, _, states = own
            own[latent] = [one.unsqueeze(1) for one in own[latent]]
            own[states] = list(own[states])
        return {**own, **given}

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


def stacked(values: Tensor | list[Tensor]) -> Tensor:
    """Rows as one tensor: states with 0 behind the shorter ones, latents without their one frame."""
    if not isinstance(values, list):
        return values
    import torch

    if values[0].ndim == 2:
        return torch.nn.utils.rnn.pad_sequence(values, batch_first=True)
    return torch.stack(values).squeeze(2)


def _known_ones(tokens: int) -> Tensor:
    """A mask of ones on the meta device whose sum is known, which models ask for that cut texts to their length."""
    import torch

    class Ones(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func is torch.Tensor.sum:
                return torch.tensor([tokens], device="cpu")
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **(kwargs or {}))

    return torch.ones(1, tokens, dtype=torch.int64, device="meta").as_subclass(Ones)
