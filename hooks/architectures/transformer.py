"""Diffusion transformers: one class for all, what tells them apart is data (`TransformerRow`). Imports no torch."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hooks.architectures import latents
from hooks.architectures.base import Architecture
from hooks.architectures.site import (
    BY_STEP,
    Batch,
    Inputs,
    Site,
    branches_error,
    children,
    has_module,
    tensor_of,
)
from hooks.architectures.text_encoders import TEXT_ENCODERS, longest_text, text_sites
from hooks.architectures.transformer_rows import TransformerRow
from hooks.architectures.transformer_sites import PART, Stack, block_sites
from hooks.errors import HookError

if TYPE_CHECKING:
    from torch import Tensor

_AFTER = "it is read off what the transformer returned: write at a block, or at the latents"
# draw noise within `step` of a generator that pipelines do not pass
_DRAWING = ("FlowMatchLCMScheduler", "SCMScheduler", "CogVideoXDPMScheduler")
_SKIPPING = re.compile(
    "cache|fbc|pyramid|skip"
)  # names of diffusers' hooks that may leave out a block or an attention
# rows and columns of the image's tokens; positions are one object at every step, and reading them waits for the GPU
_grid = functools.lru_cache(maxsize=1)(
    lambda ids: [int(axis.max() - axis.min()) + 1 for axis in ids.flatten(0, -2).unbind(-1)[1:3]]
)
_POSITIONS = {"img_ids", "img_shapes", "position_ids"}  # arguments
# settings; the last stands beside others in some
_TEXT_WIDTHS = ("joint_attention_dim", "caption_channels", "cap_feat_dim", "text_hidden_dim")
_TEXT_WIDTHS += ("text_embed_dim", "cross_attention_dim")
_ENTRANCES = (  # the last that a transformer has
    ("dit.in.image", ("patch_embed", "pos_embed", "x_embedder", "img_in")),
    ("dit.in.text", ("caption_projection", "context_embedder", "txt_in")),
)


class Transformer(Architecture):
    """Architecture of a diffusion transformer (SD3, FLUX.1, …), as a `TransformerRow` describes it."""

    denoiser_name = "transformer"
    denoiser_part = PART
    transformer = True
    scheduler_methods = ("set_timesteps", "step")

    def __init__(self, row: TransformerRow) -> None:
        self.row = row
        self.name, self.models, self.predicts = row.name, row.models or row.name, row.predicts
        double = any(stack.role == "joint" and not stack.single for stack in row.stacks)
        self.readings = ("mass", "share", *(("output",) if double else ()))
        self.masked = bool(row.masks) or row.listed
        self.pipelines = (row.layout.pipeline, *row.layout.pipelines_of_pictures)
        self.layouts = (row.layout,)

    # What it is made of

    def require_readable(self, pipe: Any) -> None:
        """Raise a HookError for a pipeline that hooks cannot read: unsupported class, caches, fused projections, ..."""
        super().require_readable(pipe)
        denoiser, name = self.denoiser(pipe), f"{type(pipe).__name__}.{PART}"
        hooked = (getattr(module, "_diffusers_hook", None) for module in denoiser.modules())
        names = [key for registry in hooked if registry is not None for key in registry.hooks]
        caches = [*filter(_SKIPPING.search, names)]
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
        scheduler = pipe.scheduler
        config, kind = getattr(scheduler, "config", {}), type(scheduler).__name__
        draws = kind in _DRAWING or config.get("stochastic_sampling")
        draws = draws or str(config.get("algorithm_type", "")).startswith("sde-")
        if draws and not self.row.own_generator:
            raise HookError(
                f"{type(pipe).__name__}.scheduler: expected steps without noise of their own, but got {kind}, which "
                "draws it without the call's generator, so that images of one seed would not share it: use another"
            )

    def check_configuration(self, pipe: Any) -> None:
        """Raise a MisfitError if the VAE's scaling of latents or the transformer's `sample_size` is not usable."""
        if "sample_size" not in self.denoiser(pipe).config or self._is_packed(pipe):
            latents.check_scaling(pipe.vae.config)
        else:
            super().check_configuration(pipe)

    # Its sites

    def sites(self, pipe: Any) -> Iterator[Site]:
        """All sites of a pipeline with this transformer, in the order in which they run."""
        yield from text_sites(pipe, PART)
        if self.row.pooled is not None:
            yield Site("text.pooled", f"{PART}.{self.row.pooled_at}", read="input")
        yield _pipeline_site("latent", BY_STEP)
        for address, path in self.entrances(pipe).items():
            stream, more = address.rpartition(".")[2], {}
            if self.row.listed:  # rows are padded to one length
                more = {"read": "input", "stream": stream, "sequence": (stream,)}
            yield Site(address, f"{PART}.{path}", **more)
        yield from block_sites(self.denoiser(pipe), self.row.stacks)
        for branch in ("unconditional", "conditional", "guided"):
            yield _pipeline_site(f"noise_pred.{branch}", _AFTER)
        if self.why_unavailable(pipe, "x0_pred") is None:
            yield _pipeline_site("x0_pred", _AFTER)
        yield from latents.decoder_sites(pipe.vae)

    def entrances(self, pipe: Any) -> dict[str, str]:
        """Paths of the modules of the denoiser that embed image and text, by address: the usual ones, or the row's."""
        denoiser = self.denoiser(pipe)
        usual = {
            address: path for address, paths in _ENTRANCES for path in paths if has_module(denoiser, path)
        }
        return {**usual, **self.row.entrances}

    def attentions(self, pipe: Any, kind: str) -> Iterator[tuple[Site, int]]:
        """Sites of the attentions from image to text, each with the patch size; none if `kind` is "self"."""
        if kind != "cross":
            return
        ends = tuple(f".{stack.role}" for stack in self.row.stacks)
        for site in block_sites(self.denoiser(pipe), self.row.stacks):
            if site.address.endswith(ends):
                yield site, self.patch_size(pipe)

    def stack_of(self, address: str) -> Stack:
        """The stack (list of equal blocks) that a site's address lies in; StopIteration for one outside the blocks."""
        return next(stack for stack in self.row.stacks if address.startswith(f"{stack.address}."))

    def word_layers(self, pipe: Any) -> tuple[str, ...]:
        """Addresses of the attentions that word maps use by default: chosen for the family, else the first stack's."""
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
        """Timestep, latents and texts of a denoiser call's conditional rows, from its arguments; latents unpacked."""
        row, arguments = self.row, self._arguments_by_name(args, kwargs)
        lengths, states = self._text_lengths(arguments), stack_rows(arguments["encoder_hidden_states"])
        states = states.flatten(2)  # Krea 2's have an axis of layers
        if row.last_text is not None:
            states = join_texts(states, arguments[row.last_text[0]])
        latent = stack_rows(arguments["hidden_states"])
        channels = pipe.vae.config.latent_channels if row.layout.pictured else 0
        if 0 < channels < latent.shape[1] and not self._is_packed(pipe):  # behind it a mask and a picture
            latent = latent[:, :channels]
        branches = branches or self._pipeline_branches(pipe)
        if latent.shape[0] % len(branches):
            raise branches_error(pipe, branches, len(latent), "a number that they do not divide")
        rows = latent.shape[0] // len(branches)
        size = self._read_latent_size(pipe, {**arguments, "hidden_states": latent})
        batch = Batch(rows, branches, *size, self.patch_size(pipe), states.shape[1], lengths, row.multiple)
        pooled = None if row.pooled is None else batch.conditional(arguments[row.pooled[0]], "text.pooled")
        return Inputs(
            batch,
            arguments["timestep"],
            self.unpack_latents(batch.conditional(latent, "latent"), batch),
            batch.conditional(states, "text.final"),
            masked=False,  # masks are read with the attention
            pooled=pooled,
        )

    def branches_from_texts(
        self,
        pipe: Any,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        are_prompt_states: Callable[[Tensor], bool],
        encoder_runs: int,
    ) -> tuple[str, ...] | None:
        """Branches of guidance in a call's batch, by comparing texts; None for families where none is needed."""
        if self.row.branches != "text":
            return None
        states = self._arguments_by_name(args, kwargs)["encoder_hidden_states"]
        guided = len(states) % 2 == 0 and are_prompt_states(states[len(states) // 2 :])
        if guided and encoder_runs > 1:
            return self._branch_order(guided=True)
        if guided or are_prompt_states(states):  # negative states may have been passed in
            return self._branch_order(guided and not are_prompt_states(states))
        raise HookError(
            f"{type(pipe).__name__}: expected prompts, since the texts tell which rows are guided by them, but no text "
            "encoder in this block gave the denoiser its states: pass prompt, not prompt_embeds"
        )

    def _pipeline_branches(self, pipe: Any) -> tuple[str, ...]:
        """Branches of guidance in a denoiser call's batch, as the pipeline states them; else "conditional" alone."""
        if self.row.branches != "pipeline":
            return self._branch_order(guided=False)
        guided = getattr(pipe, "do_classifier_free_guidance", None)
        if guided is None:
            guided = self.is_guided(self.denoiser(pipe).config, getattr(pipe, "guidance_scale", 0.0))
        return self._branch_order(bool(guided))

    def _branch_order(self, guided: bool) -> tuple[str, ...]:
        """Names of the branches in a batch, in the order of this family; "conditional" alone without guidance."""
        if not guided:
            return ("conditional",)
        both = ("unconditional", "conditional")
        return both[::-1] if self.row.prompts_first else both

    def _read_latent_size(self, pipe: Any, arguments: Mapping[str, Any]) -> tuple[int, int]:
        """(height, width) of the latent, from its shape or, where it is packed, from the positions in `arguments`."""
        if not self._is_packed(pipe):
            return tuple(arguments["hidden_states"].shape[-2:])
        if "img_shapes" in arguments:
            return tuple(self.patch_size(pipe) * side for side in arguments["img_shapes"][0][0][-2:])
        if hasattr(pipe, "meta_latent_size"):  # without weights, positions have no values
            return pipe.meta_latent_size
        return tuple(
            self.patch_size(pipe) * int(side)
            for side in _grid(arguments[_POSITIONS.intersection(arguments).pop()])
        )

    def _is_packed(self, pipe: Any) -> bool:
        """Whether pipelines pass latents as a sequence of patches: those whose positions are passed, too."""
        return _takes_positions(type(self.denoiser(pipe)))

    def patch_size(self, pipe: Any) -> int:
        """Latent pixels per patch (image token), along a side."""
        own = self.row.patch or self.denoiser(pipe).config.get("patch_size", 1)
        return max(own, 2) if self._is_packed(pipe) else own

    def unpack_latents(self, values: Tensor, batch: Batch) -> Tensor:
        """Latents or predictions as (rows, channels, h, w); packed ones, (rows, patches, c), are unpacked."""
        if values.ndim == 3:
            (height, width), side = batch.grid, batch.patch
            values = values.unflatten(-1, (-1, side, side)).unflatten(1, (height, width))
            values = values.permute(0, 3, 1, 4, 2, 5).flatten(4).flatten(2, 3)
        return values

    def _arguments_by_name(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments of a transformer call by the names that most classes use for them, such as "hidden_states"."""
        arguments = {**dict(zip(self.row.arguments or ("hidden_states",), args)), **kwargs}
        return {self.row.arguments.get(name, name): value for name, value in arguments.items()}

    def _text_lengths(self, arguments: Mapping[str, Any]) -> tuple[int, ...]:
        """Number of each row's text tokens in the attention; empty for transformers that pad texts to one length.

        Raises a HookError for images of one prompt with masks of different prompts, as diffusers' Lumina2 gives them.
        """
        row = self.row
        if row.listed:
            return tuple(map(len, arguments["encoder_hidden_states"]))
        if row.own_lengths:
            states = arguments["encoder_hidden_states"]
            lengths = arguments[row.masks[0]].sum(dim=1).tolist()
            for k in range(1, len(lengths)):
                if lengths[k] != lengths[k - 1] and bool((states[k] == states[k - 1]).all()):
                    raise HookError(
                        "transformer: expected one mask for all images of a prompt, but the pipeline gives image"
                        f" {k} that of another prompt: repeat the prompts instead of num_images_per_prompt"
                    )
            return tuple(lengths)
        return ()

    def prediction(self, inputs: Inputs, output: Any) -> Tensor:
        """The prediction in a call's output, (rows of all branches, c, h, w), with the sign the scheduler expects."""
        values = self.unpack_latents(stack_rows(tensor_of(output)), inputs.batch)
        channels = inputs.latent.shape[1]
        values = values[:, :channels] if self.row.variance else values
        return -values if self.row.negated else values

    def predictions(self, inputs: Inputs, output: Any, second: bool = False) -> Iterator[tuple[str, Tensor]]:
        """(address, values) of each branch's noise prediction in a denoiser call; `second`: a step's second call."""
        if second and self.row.branches == "calls":
            yield "noise_pred.unconditional", self.prediction(inputs, output)
        yield from super().predictions(inputs, output, second)

    def planned_steps(self, pipe: Any) -> int | None:
        """Number of timesteps of the pipeline call in progress, from the pipeline or else its scheduler."""
        planned = super().planned_steps(pipe)
        return len(pipe.scheduler.timesteps) if planned is None else planned

    def exchange_texts(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], rows: Sequence[int]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments of a call in which batch row i has the token states, masks and pooled text of row `rows[i]`."""
        names, further = self.row.arguments, [*(self.row.pooled or ())[:1], *(self.row.last_text or ())[:1]]
        swapped = ("encoder_hidden_states", *self.row.masks, *further)

        def select_rows(name: str, value: Any) -> Any:
            """Return an argument with its rows exchanged, if it holds texts."""
            if names.get(name, name) not in swapped or value is None:
                return value
            return [value[row] for row in rows] if isinstance(value, list) else value[list(rows)]

        first = tuple(select_rows(name, value) for name, value in zip(names, args))
        return (*first, *args[len(first) :]), {
            name: select_rows(name, value) for name, value in kwargs.items()
        }

    def text_arguments(self, outputs: Sequence[Any]) -> dict[str, Any]:
        """Text arguments of a call, from the text encoders' outputs: joined token states, and CLIP's pooled text."""
        import torch

        *clip, last = outputs
        states = last[0] if hasattr(last, "last_hidden_state") else last.hidden_states[-1]
        if self.row.last_text is not None:
            return {"encoder_hidden_states": clip[0][0], self.row.last_text[0]: states}
        call = inspect.signature(self.row.layout.pipeline_class().__call__).parameters
        if "text_encoder_out_layers" in call:  # of FLUX.2, side by side
            layers = call["text_encoder_out_layers"].default
            states = torch.cat([last.hidden_states[layer] for layer in layers], -1)
        if len(clip) > 1:
            states = join_texts(torch.cat([output.hidden_states[-2] for output in clip], -1), states)
        arguments = {"encoder_hidden_states": states}
        if self.row.pooled is not None:
            pooled = [
                getattr(output, "text_embeds", getattr(output, "pooler_output", None)) for output in clip
            ]
            arguments[self.row.pooled[0]] = torch.cat(pooled, -1)
        return arguments

    def meta_text_arguments(self, pipe: Any, tokens: int) -> dict[str, Any]:
        """Text arguments of a call for one text of this many tokens, as meta tensors (shapes without values)."""
        import torch

        row, config = self.row, self.denoiser(pipe).config
        width = next(config[name] for name in _TEXT_WIDTHS if name in config)
        widths = {"encoder_hidden_states": (1, tokens, width)}
        if row.last_text is not None:
            last = self.tokens(pipe, self.joined_encoders()[-1])
            widths = {"encoder_hidden_states": (1, tokens - last, width)}
            widths[row.last_text[0]] = (1, last, config[row.last_text[1]])
        if row.pooled is not None:
            widths[row.pooled[0]] = (1, config[row.pooled[1]])
        return {name: torch.zeros(shape, device="meta") for name, shape in widths.items()}

    def meta_arguments(self, pipe: Any, size: tuple[int, int], text: Mapping[str, Any]) -> dict[str, Any]:
        """All arguments of a call for one latent of (height, width) `size` and `text`, as meta tensors."""
        import torch

        row, denoiser = self.row, self.denoiser(pipe)
        config, tokens = denoiser.config, text["encoder_hidden_states"].shape[1]
        shape: tuple[int, ...] = (1, config.in_channels, *size)
        arguments = {"timestep": torch.zeros(1, device="meta"), **text}
        blank = functools.partial(torch.zeros, dtype=torch.int64, device="meta")
        for name, shapes in row.blank.items():
            single = isinstance(shapes, tuple)
            arguments[name] = (
                blank(shapes) if single else {key: blank(shape) for key, shape in shapes.items()}
            )
        if row.last_text is not None:
            texts = (arguments["encoder_hidden_states"], arguments[row.last_text[0]])
            arguments |= {name: blank(text.shape[:2]) for name, text in zip(row.masks, texts)}
        if self._is_packed(pipe):
            pipe.meta_latent_size = size  # positions, which say it elsewhere, have no values here
            grid = [side // self.patch_size(pipe) for side in size]
            shape = (1, grid[0] * grid[1], config.in_channels)
            if "img_shapes" in inspect.signature(type(denoiser).forward).parameters:
                arguments["img_shapes"] = [[(1, *grid)]]
            elif "position_ids" in inspect.signature(type(denoiser).forward).parameters:  # of text and image
                arguments["position_ids"] = torch.zeros(
                    tokens + shape[1], len(config.axes_dims_rope), device="meta"
                )
            else:
                axes = len(config.axes_dims_rope)
                arguments["img_ids"] = torch.zeros(shape[1], axes, device="meta")
                arguments["txt_ids"] = torch.zeros(tokens, axes, device="meta")
        if layers := config.get("num_text_layers"):
            states = arguments["encoder_hidden_states"]
            arguments["encoder_hidden_states"] = states.unsqueeze(2).expand(-1, -1, layers, -1)
        if row.own_lengths:
            arguments[row.masks[0]] = _meta_mask_of_ones(tokens)
        if config.get("guidance_embeds"):
            arguments["guidance"] = torch.zeros(1, device="meta")
        arguments["hidden_states"] = torch.zeros(shape, device="meta")
        renamed = {name: arguments.pop(common) for name, common in row.arguments.items()}
        if row.listed:
            latent, _, states = renamed
            renamed[latent] = [image.unsqueeze(1) for image in renamed[latent]]
            renamed[states] = list(renamed[states])
        return {**renamed, **arguments}

    # Sizes

    def image_multiple(self, pipe: Any) -> int:
        """Pixels that an image's sides must be multiples of: those of one patch."""
        return self.latent_scale(pipe) * self.patch_size(pipe)

    def joined_encoders(self) -> list[str]:
        """Names, such as "text_3", of the text encoders whose tokens are concatenated into the transformer's text."""
        encoders = [*TEXT_ENCODERS][: len(self.row.layout.text_encoders)]
        return [encoders[tower] for tower in self.row.text_towers]

    def prompt_tokens(self, pipe: Any) -> int:
        """Number of token positions in the transformer's text: those of all concatenated text encoders."""
        return sum(self.tokens(pipe, encoder) for encoder in self.joined_encoders())

    def tokens(self, pipe: Any, encoder: str) -> int:
        """Number of tokens that a text encoder, such as "text_3", is given: the pipeline's or its own lower limit."""
        limit = self.row.layout.lengths[[*TEXT_ENCODERS].index(encoder)]
        tower = getattr(pipe, TEXT_ENCODERS[encoder], None)
        return min(limit, longest_text(tower) or limit) if tower else limit


def _pipeline_site(address: str, read_only: str) -> Site:
    """A site of values that the pipeline holds, such as the latent; `read_only` says why patches cannot write there."""
    return Site(address, PART, read="pipeline", read_only=read_only)


@functools.cache
def _takes_positions(transformer: type) -> bool:
    """Return whether a class of transformers is given the positions of its tokens."""
    return not _POSITIONS.isdisjoint(inspect.signature(transformer.forward).parameters)


def join_texts(first: Tensor, second: Tensor) -> Tensor:
    """The states of two texts, (rows, tokens, width), one after the other; narrower ones are filled with zeros."""
    import torch

    missing = second.shape[-1] - first.shape[-1]
    return torch.cat([torch.nn.functional.pad(first, (0, missing)), second], 1)


def stack_rows(values: Tensor | list[Tensor]) -> Tensor:
    """A list of rows as one tensor: text states are padded with 0, latents lose the frame axis; a tensor as it is."""
    if not isinstance(values, list):
        return values
    import torch

    if values[0].ndim == 2:
        return torch.nn.utils.rnn.pad_sequence(values, batch_first=True)
    return torch.stack(values).squeeze(2)


def _meta_mask_of_ones(tokens: int) -> Tensor:
    """A text mask of ones on the meta device, (1, tokens), whose `sum` is nevertheless a tensor with the value."""
    import torch

    class Ones(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            """Return the sum as a CPU tensor; any other operation runs as usual."""
            if func is torch.Tensor.sum:
                return torch.tensor([tokens], device="cpu")
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **(kwargs or {}))

    return torch.ones(1, tokens, dtype=torch.int64, device="meta").as_subclass(Ones)
