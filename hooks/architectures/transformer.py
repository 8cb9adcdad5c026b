"""Diffusion transformers: one class for all, what tells them apart is data (`TransformerRow`). Imports no torch.

=================================  =========================================================  ==================
address                            what is read                                               a row is
=================================  =========================================================  ==================
`text.pooled`                      the text as one vector, as the denoiser is given it        (c,)
`dit.in.image`, `dit.in.text`      embedded patches; embedded states of the text              (tokens, c)
`dit.block.<k>.image`              stream of the image after block k                          (h*w, c)
`dit.block.<k>.text`               stream of the text after it, where the text has one        (text tokens, c)
`dit.block.<k>.joint`              output of the joint attention where the image asks         (h*w, c)
`dit.block.<k>.joint.text` *       the same where the text asks                               (text tokens, c)
`dit.block.<k>.cross`              output of the cross-attention, where the text has no own   (h*w, c)
`dit.block.<k>.mod`                shifts, scales and gates of time and pooled text           (numbers,)
`dit.block.<k>.self` *             attention of the image alone; `.ff` the feed-forward       (h*w, c)
`dit.single.<k>.…`                 blocks that run both streams through the same weights      as above
=================================  =========================================================  ==================

Of attentions `.query`, `.key`, `.value` and `.heads` are there as in U-Nets, read where they are asked for; those of
the text's positions are `.joint.text.key` and so on. All other addresses are those of `hooks.sites`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hooks.architectures import decoder
from hooks.architectures.base import Architecture
from hooks.architectures.batch import Batch, Inputs
from hooks.architectures.layout import Layout
from hooks.architectures.places import DENOISING, GROUPS, Place, shared_place
from hooks.architectures.site import Site, children, module_at, tensor_of
from hooks.architectures.text_encoders import TEXT_ENCODERS, text_sites
from hooks.errors import HookError

if TYPE_CHECKING:
    from torch import Tensor

    from hooks.sampler import Step

PART = "transformer"
_ADDRESS = re.compile(r"^dit\.(block|single)\.(\d+)\.(.+)$")
_ATTENTION_PARTS = ("query", "key", "value", "heads")
_INNER = (
    "mod",
    "mod.text",
    *(
        f"{one}{part}"
        for one in ("joint", "joint.text", "self", "cross")
        for part in (*(f".{name}" for name in _ATTENTION_PARTS), "")
    ),
    "ff",
    "ff.text",
    "text",
    "image",
)
_IN = ("dit.in.image", "dit.in.text")
_BY_STEP = "the scheduler makes it: write it through the pipeline's callback_on_step_end"
_AFTER = "it is read off what the transformer returned: write at a block, or at the latents"
_SHARED = "its module runs over image and text at once: write at the streams of its block"
# draw noise within `step` of a generator that pipelines do not pass
_DRAWING = ("FlowMatchLCMScheduler", "SCMScheduler")


@dataclass(frozen=True)
class Stack:
    """Blocks of one kind, in a list.

    Attributes
    ----------
    address, path : str
        "dit.block"; the list's name in the transformer.
    attention : str
        Within a block, the attention by which the image reads the text.
    role : {"joint", "cross"}
        Whether both streams attend to both, or the image to the text alone.
    sequence : tuple of str
        Order of the streams in the joint attention; of cross-attention that of its keys, ("text",).
    streams : mapping of str to int
        Element of the block's output by stream.
    modules : mapping of str to str
        Other modules of a block by what their address ends in.
    single : bool
        Whether both streams run through the same weights, as one sequence.
    """

    address: str
    path: str
    attention: str
    role: str
    sequence: tuple[str, ...]
    streams: Mapping[str, int]
    modules: Mapping[str, str]
    single: bool = False


@dataclass(frozen=True)
class TransformerRow:
    """What tells one kind of diffusion transformer from another.

    Attributes
    ----------
    name, models : str
        As those of `Architecture`.
    layout : Layout
        Of a pipeline that draws from text alone.
    stacks : tuple of Stack
        In the order in which they run.
    entrances : mapping of str to str
        Modules that embed the image and the text.
    text_tokens : int
        Positions of the text that the published model is given.
    text_width : str
        Setting of the transformer that says how wide the states are.
    pooled : (str, str) or None
        Argument that takes the pooled text, and the setting that says how wide it is.
    pooled_at : str
        The module that is given the pooled text.
    masks : tuple of str
        Arguments that say which positions of the text are read.
    patch : int or None
        Side of a patch of the latent; None: the transformer's own setting.
    packed : bool
        Whether pipelines pass latents as a sequence of patches.
    branches : {"pipeline", "text", "calls"}
        How guidance runs: its branches in one batch where the pipeline says so; the same, but the pipeline does not say
        and the texts tell; in a second call.
    prompts_first : bool
        Whether the prompts' rows come first in the batch.
    predicts : tuple of str
        As those of `Architecture`.
    variance : bool
        Whether the second half of the output's channels may be a variance.
    own_generator : bool
        Whether pipelines pass their generator to the scheduler.
    word_layers : tuple of ((int, bool), tuple of int)
        Numbers of the blocks whose attention a word map takes, by number of blocks and whether any has a second
        attention; all blocks of the first stack where the model has another number.
    others : tuple of str
        Further pipeline classes that can be read.
    blank : mapping of str to mapping of str to shape
        Arguments that are mappings of tensors, and their shapes for one image.
    """

    name: str
    models: str
    layout: Layout
    stacks: tuple[Stack, ...]
    entrances: Mapping[str, str]
    text_tokens: int
    text_width: str
    pooled: tuple[str, str] | None = None
    pooled_at: str = "time_text_embed.text_embedder"
    masks: tuple[str, ...] = ()
    patch: int | None = None
    packed: bool = False
    branches: str = "pipeline"
    prompts_first: bool = False
    predicts: tuple[str, ...] = ("flow_prediction",)
    variance: bool = False
    own_generator: bool = False
    others: tuple[str, ...] = ()
    word_layers: tuple[tuple[tuple[int, bool], tuple[int, ...]], ...] = ()
    blank: Mapping[str, Mapping[str, tuple[int, ...]]] = field(default_factory=dict)


class Transformer(Architecture):
    """A diffusion transformer, as a row says."""

    denoiser_name = "transformer"
    denoiser_part = PART
    steps_at_scheduler = True
    final_attention = True
    word_maps = "joint-mass"
    scheduler_methods = ("set_timesteps", "step")

    def __init__(self, row: TransformerRow) -> None:
        self.row = row
        self.name, self.models, self.predicts = row.name, row.models, row.predicts
        self.pipelines = (row.layout.pipeline, *row.others)
        self.layouts = (row.layout,)

    # What it is made of

    def require_readable(self, pipe: Any) -> None:
        """Refuse what skips, splits or fuses the modules that are read, and noise that no generator of the run draws.

        Raises
        ------
        HookError
        """
        super().require_readable(pipe)
        denoiser, name = self.denoiser(pipe), f"{type(pipe).__name__}.{PART}"
        classes = self.row.layout.denoiser.classes
        if not any(base.__name__ in classes for base in type(denoiser).__mro__):
            raise HookError(f"{name}: expected a {' or '.join(classes)}, but got {type(denoiser).__name__}")
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
        """See `Architecture.check`; a transformer of packed latents has no size of its own."""
        if self.row.packed:
            decoder.check(self.decoder_part, self.decoder(pipe).config)
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

    def place(self, address: str) -> Place | None:
        """See `place`."""
        return place(address)

    def sites(self, pipe: Any) -> Iterator[Site]:
        """All sites, in the order in which they run."""
        yield from text_sites(pipe, PART, place)
        if self.row.pooled is not None:
            yield Site("text.pooled", f"{PART}.{self.row.pooled_at}", place("text.pooled"), read="input")
        yield _made("latent", _BY_STEP)
        for address, path in self.row.entrances.items():
            yield Site(address, f"{PART}.{path}", place(address))
        yield from self._block_sites(pipe)
        for branch in ("unconditional", "conditional", "guided"):
            yield _made(f"noise_pred.{branch}", _AFTER)
        if self._x0_unavailable(pipe.scheduler) is None:
            yield _made("x0_pred", _AFTER)
        yield from decoder.decoder_sites(self.decoder(pipe), place)

    def _block_sites(self, pipe: Any) -> Iterator[Site]:
        for stack in self.row.stacks:
            blocks = children(self.denoiser(pipe), stack.path)
            for k, block in enumerate(blocks):
                address, path = f"{stack.address}.{k}", f"{PART}.{stack.path}.{k}"
                for name, module in stack.modules.items():
                    if name.startswith("mod") and _has(block, module):
                        yield Site(f"{address}.{name}", f"{path}.{module}", place(f"{address}.{name}"))
                yield from _attention_sites(stack, address, path, block)
                for name, module in stack.modules.items():
                    if name in ("self", "ff", "ff.text") and _has(block, module):
                        where, inner = f"{address}.{name}", module_at(block, module)
                        if name == "self":
                            yield from _projections(where, f"{path}.{module}", inner, {})
                        yield Site(where, f"{path}.{module}", place(where), default=False)
                for stream, element in stack.streams.items():
                    if stream == "text" and _is_last_of_text(block):
                        continue
                    yield Site(f"{address}.{stream}", path, place(f"{address}.{stream}"), element=element)

    def attentions(self, pipe: Any, kind: str) -> Iterator[tuple[Site, int]]:
        """The attentions by which the image reads the text, on the grid of patches.

        Those of the image alone are not listed: their maps are not read.
        """
        if kind != "cross":
            return
        ends = tuple(f".{stack.role}" for stack in self.row.stacks)
        for site in self._block_sites(pipe):
            if site.address.endswith(ends):
                yield site, self.patch(pipe)

    def stack_of(self, address: str) -> Stack:
        """The stack that a site lies in."""
        return next(stack for stack in self.row.stacks if address.startswith(f"{stack.address}."))

    def word_layers(self, pipe: Any) -> tuple[tuple[str, float], ...]:
        """See `Architecture.word_layers`: those that the literature prefers."""
        stack = self.row.stacks[0]
        blocks = children(self.denoiser(pipe), stack.path)
        dual = (
            any(getattr(block, "attn2", None) is not None for block in blocks) and stack.attention == "attn"
        )
        chosen = dict(self.row.word_layers).get((len(blocks), dual), range(len(blocks)))
        return tuple((f"{stack.address}.{number}.{stack.role}", 1.0) for number in chosen)

    def unavailable(self, pipe: Any, address: str) -> str | None:
        """Return why `x0_pred` cannot be computed, where it cannot."""
        return self._x0_unavailable(pipe.scheduler) if address == "x0_pred" else None

    def _x0_unavailable(self, scheduler: Any) -> str | None:
        name, kind = type(scheduler).__name__, self.prediction_type(scheduler)
        if kind == "flow_prediction":
            return None if getattr(scheduler, "sigmas", None) is not None else f"{name} has no sigmas"
        if kind not in ("epsilon", "v_prediction", "sample"):
            return f"{name} has prediction_type {kind!r}"
        return (
            None
            if getattr(scheduler, "alphas_cumprod", None) is not None
            else f"{name} has no alphas_cumprod"
        )

    # A call of the denoiser

    def inputs(
        self,
        pipe: Any,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        branches: tuple[str, ...] | None = None,
    ) -> Inputs:
        """Return what the transformer is given; latents are unpacked."""
        row, given = self.row, _named(args, kwargs)
        latent, states = given["hidden_states"], given["encoder_hidden_states"]
        branches = branches or self._branches(pipe)
        if latent.shape[0] % len(branches):
            raise HookError(
                f"transformer: expected a multiple of {len(branches)} rows under guidance, but got {latent.shape[0]}"
            )
        rows = latent.shape[0] // len(branches)
        size = self._size(pipe, given)
        batch = Batch(rows, branches, *size, patch=self.patch(pipe), text_tokens=states.shape[1])
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
        states = _named(args, kwargs)["encoder_hidden_states"]
        half = len(states) // 2
        own = states[:half] if self.row.prompts_first else states[half:]
        guided = len(states) % 2 == 0 and of_prompts(own)
        if guided and runs > 1:
            return self._order(guided=True)
        if guided or of_prompts(states):  # negative states may have been passed in
            return self._order(guided and not of_prompts(states))
        raise HookError(
            f"{type(pipe).__name__}: expected prompts, since the texts tell which rows are guided by them, but no text "
            "encoder in this block gave the denoiser its states: pass prompt, not prompt_embeds"
        )

    def _branches(self, pipe: Any) -> tuple[str, ...]:
        guided = self.row.branches == "pipeline" and getattr(pipe, "do_classifier_free_guidance", False)
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

    def with_texts(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], rows: Sequence[int]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """States of the tokens, masks and pooled text of the rows named; all else stays each row's own."""
        names = ("encoder_hidden_states", *self.row.masks, *(self.row.pooled or ())[:1])
        swapped = {name: kwargs[name][list(rows)] for name in names if kwargs.get(name) is not None}
        return tuple(args), {**kwargs, **swapped}

    def prediction(self, inputs: Inputs, output: Any) -> Tensor:
        """See `Architecture.prediction`; without the variance behind it."""
        values = self.unpacked(tensor_of(output), inputs.batch)
        channels = inputs.latent.shape[1]
        return values[:, :channels] if self.row.variance else values

    def predictions(
        self, pipe: Any, inputs: Inputs, output: Any, wanted: Collection[str]
    ) -> Iterator[tuple[str, Tensor]]:
        """The prediction by branch."""
        values = self.prediction(inputs, output)
        for name in inputs.batch.branches:
            yield f"noise_pred.{name}", inputs.batch.branch(name, values, "noise_pred")

    def second_predictions(self, inputs: Inputs, output: Any) -> Iterator[tuple[str, Tensor]]:
        """See `Architecture.second_predictions`: that without the prompt, where guidance runs in a second call."""
        if self.row.branches == "calls":
            yield "noise_pred.unconditional", self.prediction(inputs, output)

    def step_predictions(
        self, pipe: Any, inputs: Inputs, step: Step, wanted: Collection[str]
    ) -> Iterator[tuple[str, Tensor]]:
        """See `Architecture.step_predictions`; x0 of a flow is the sample less sigma times the velocity."""
        from hooks.architectures.prediction import current_sigma, predict_x0, signal_level

        guided = self.unpacked(step.output, inputs.batch)
        yield "noise_pred.guided", guided
        if "x0_pred" not in wanted:
            return
        kind = self.prediction_type(pipe.scheduler)
        if kind == "flow_prediction":
            sigma = current_sigma(pipe.scheduler, step.timestep)
            x0 = step.sample.float() - sigma.float() * step.output.float()
            yield "x0_pred", self.unpacked(x0, inputs.batch)
        else:
            level = signal_level(pipe.scheduler, step.timestep, guided.device)
            yield "x0_pred", predict_x0(inputs.latent, guided, level, kind)

    def planned(self, pipe: Any) -> int | None:
        """See `Architecture.planned`; some pipelines do not say, but their scheduler does."""
        planned = super().planned(pipe)
        return len(pipe.scheduler.timesteps) if planned is None else planned

    def calls(self, pipe: Any, steps: int) -> int:
        """See `Architecture.calls`; how timesteps are shifted alters none of their number."""
        import copy

        scheduler = copy.deepcopy(pipe.scheduler)
        shift = {"mu": 1.0} if scheduler.config.get("use_dynamic_shifting") else {}
        scheduler.set_timesteps(steps, device="cpu", **shift)
        return len(scheduler.timesteps)

    def default_guidance(self, pipeline: type) -> float:
        """See `Architecture.default_guidance`; under the name that the pipeline has for it."""
        import inspect

        name = "true_cfg_scale" if self.row.layout.guidance == "true" else "guidance_scale"
        return float(inspect.signature(pipeline.__call__).parameters[name].default)

    def guided(self, config: Mapping[str, Any], scale: float) -> bool:
        """See `Architecture.guided`; a denoiser that was distilled from two branches runs one."""
        return scale > 1 and self.row.layout.guidance != "distilled"

    def takes_guidance(self, config: Mapping[str, Any]) -> bool:
        """See `Architecture.takes_guidance`; FLUX.1-schnell was distilled without a scale."""
        return self.row.layout.guidance != "distilled" or bool(config.get("guidance_embeds"))

    def call_arguments(self, pipe: Any, scale: float, negative: Sequence[str] | None) -> dict[str, Any]:
        """See `Architecture.call_arguments`."""
        layout, found = self.row.layout, dict(self.row.layout.fixed)
        if layout.guidance == "true":  # in force where a negative prompt is given, be it empty
            return {**found, "true_cfg_scale": scale, "negative_prompt": negative or ""}
        # some of the pipelines take an empty negative prompt for granted, and none at all for a fault
        return {**found, "guidance_scale": scale, **({"negative_prompt": negative} if negative else {})}

    # Sizes

    def latent_size(self, pipe: Any, height: int | None = None, width: int | None = None) -> tuple[int, int]:
        """See `Architecture.latent_size`; a transformer of packed latents has no size of its own, its pipelines 128."""
        if getattr(self.denoiser(pipe).config, "sample_size", None) is not None:
            return super().latent_size(pipe, height, width)
        scale = self.latent_scale(pipe)
        return (128 if height is None else height // scale, 128 if width is None else width // scale)

    def image_multiple(self, pipe: Any) -> int:
        """See `Architecture.image_multiple`: whole patches."""
        return self.latent_scale(pipe) * self.patch(pipe)

    def prompt_tokens(self, pipe: Any) -> int:
        """See `Architecture.prompt_tokens`."""
        return self.row.text_tokens

    def tokens(self, pipe: Any, encoder: str) -> int:
        """See `Architecture.tokens`."""
        return self.row.layout.lengths[list(TEXT_ENCODERS).index(encoder)]

    # Without weights

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
        """See `Architecture.blank_text`."""
        import torch

        config = self.denoiser(pipe).config
        widths = {"encoder_hidden_states": (1, tokens, config[self.row.text_width])}
        if self.row.pooled is not None:
            widths[self.row.pooled[0]] = (1, config[self.row.pooled[1]])
        return {name: torch.zeros(shape, device="meta") for name, shape in widths.items()}

    def blank_call(self, pipe: Any, size: tuple[int, int], text: Mapping[str, Any]) -> dict[str, Any]:
        """See `Architecture.blank_call`."""
        import torch

        config, row = self.denoiser(pipe).config, self.row
        shape: tuple[int, ...] = (1, config.in_channels, *size)
        given = {"timestep": torch.zeros(1, device="meta"), **text}
        for argument, shapes in row.blank.items():
            given[argument] = {key: torch.zeros(of, device="meta") for key, of in shapes.items()}
        if row.packed:
            grid = [side // self.patch(pipe) for side in size]
            shape = (1, grid[0] * grid[1], config.in_channels)
            given["img_ids"] = torch.zeros(shape[1], 3, device="meta")
            given["txt_ids"] = torch.zeros(text["encoder_hidden_states"].shape[1], 3, device="meta")
        if config.get("guidance_embeds"):
            given["guidance"] = torch.zeros(1, device="meta")
        return {"hidden_states": torch.zeros(shape, device="meta"), **given}

    def call_once(self, bare: Any, size: tuple[int, int], tokens: int) -> None:
        """See `Architecture.call_once`."""
        bare.blank_size = size
        super().call_once(bare, size, tokens)


def _named(args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of a transformer's call by name; the latents may come first."""
    return {**dict(zip(("hidden_states",), args)), **kwargs}


def _made(address: str, read_only: str) -> Site:
    return Site(address, PART, place(address), read="pipeline", read_only=read_only)


def _attention_sites(stack: Stack, address: str, path: str, block: Any) -> Iterator[Site]:
    """Sites of the attention by which the image reads the text."""
    module, where = module_at(block, stack.attention), f"{path}.{stack.attention}"
    image = f"{address}.{stack.role}"
    if stack.role == "cross":
        yield from _projections(image, where, module, {})
        yield Site(image, where, place(image))
        return
    text = f"{image}.text"
    if stack.single:
        for name, stream in ((image, "image"), (text, "text")):
            more = {"stream": stream, "sequence": stack.sequence, "read_only": _SHARED}
            yield from _projections(name, where, module, more)
            yield Site(name, where, place(name), default=stream == "image", **more)
        return
    yield from _projections(image, where, module, {})
    yield from _projections(text, where, module, {}, ("add_{}_proj", "to_add_out"))
    if not _is_last_of_text(block):
        yield Site(text, where, place(text), default=False, element=1)
    yield Site(image, where, place(image))


def _projections(
    address: str,
    path: str,
    module: Any,
    more: Mapping[str, Any],
    names: tuple[str, str] = ("to_{}", "to_out.0"),
) -> Iterator[Site]:
    for part in _ATTENTION_PARTS[:3]:
        name = names[0].format(part[0])
        if _has(module, name):
            yield Site(
                f"{address}.{part}", f"{path}.{name}", place(f"{address}.{part}"), default=False, **more
            )
    if _has(module, names[1]):
        where = f"{address}.heads"
        heads = int(module.heads)
        yield Site(where, f"{path}.{names[1]}", place(where), default=False, read="input", heads=heads)


def _is_last_of_text(block: Any) -> bool:
    """Return whether the stream of the text ends in this block."""
    return bool(getattr(block, "context_pre_only", False))


def _has(module: Any, path: str) -> bool:
    try:
        return module_at(module, path) is not None
    except AttributeError:
        return False


def _skips(hook: str) -> bool:
    """Return whether a hook of diffusers, by its name, may leave out a block or an attention."""
    return any(word in hook for word in ("cache", "fbc", "pyramid", "skip"))


def place(address: str) -> Place | None:
    """Return what an address says of a site of a transformer, of what stands before and behind it; None of any other.

    Examples
    --------
    >>> place("dit.single.7.joint").label, place("dit.block.3.image").space
    ('single 7 · joint', 'denoising')
    >>> sorted(["dit.block.10.mod", "dit.block.2.image", "dit.block.2.joint", "dit.in.text"], key=place)
    ['dit.in.text', 'dit.block.2.joint', 'dit.block.2.image', 'dit.block.10.mod']
    >>> place("unet.mid") is None
    True
    """
    if address in _IN:
        rank = (GROUPS.index("in"), 1, _IN.index(address))
        return Place(rank, "in", f"{address.rpartition('.')[2]} in", "denoising", DENOISING)
    match = _ADDRESS.match(address)
    if match is None or match[3] not in _INNER:
        return shared_place(address)
    rank = (GROUPS.index(match[1]), int(match[2]), _INNER.index(match[3]))
    label = f"{match[1]} {match[2]} · {match[3].replace('.', ' ')}"
    return Place(rank, match[1], label, "denoising", DENOISING)
