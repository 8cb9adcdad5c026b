"""Interface of an architecture: all that probes and runs ask of a kind of model. Imports no torch.

Another kind of model enters as a class derived from `Architecture`, in a file of its own, and a row in
`hooks.architectures.registry`.
"""

from __future__ import annotations

import copy
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from hooks.architectures import latents
from hooks.architectures.layout import Layout, MisfitError
from hooks.architectures.site import Batch, Inputs, Site, Step, tensor_of
from hooks.architectures.text_encoders import TEXT_ENCODERS, longest_text, prompt_tokens
from hooks.errors import HookError

if TYPE_CHECKING:
    from torch import Tensor

UNDER_SIGNAL_LEVELS = ("epsilon", "v_prediction", "sample")  # what `latents.predict_x0` takes
MOST_LATENTS = 1024  # along a side; beyond what any model has


class Architecture(ABC):
    """Interface to one kind of diffusion model: its components, sites, batches, sizes, guidance and predictions.

    A `pipe` is a pipeline of diffusers, or whatever has its components under the same names, with or without
    weights. What is not overridden holds for latent diffusion models as diffusers lays them out: a denoiser with
    ``sample_size`` in its configuration, behind it an ``AutoencoderKL``, one call of the denoiser at each timestep.

    Attributes
    ----------
    name : str
        What drives its schedulers, for messages.
    models : str
        The models that are of it, for messages.
    denoiser_name : str
        What its denoiser is called, for messages.
    denoiser_part : str
        Under which name pipelines have the denoiser.
    pipelines : tuple of str
        Names of the pipeline classes that can be read; their subclasses can, too.
    layouts : tuple of Layout
        The pipelines that a run can generate images with.
    predicts : tuple of str
        What its denoiser may have been trained to predict; the first holds where a scheduler says nothing.
    scheduler_methods : tuple of str
        What its pipelines call of a scheduler.
    transformer : bool
        Whether it is read as a diffusion transformer: a step is what lies between two calls of the scheduler's `step`,
        however many calls of the denoiser that are; word maps are read off the final
        queries and keys (`hooks.attention.final`). Of others every call is a step, and maps are read off projections.
    readings : tuple of str
        What its word maps may be read from: the `reading` of definitions that it takes (`hooks.attention.definitions`);
        the first of these where none is named.
    masked : bool
        Whether a call of the denoiser says which positions of the text are read, or how long it is, so that the states
        of a text alone, of another number of tokens, are not all of it.
    """

    name: str
    models: str
    denoiser_name: str
    denoiser_part: str
    pipelines: tuple[str, ...] = ()
    layouts: tuple[Layout, ...] = ()
    predicts: tuple[str, ...] = ("epsilon",)
    scheduler_methods: tuple[str, ...] = ("set_timesteps", "step", "scale_model_input")
    transformer: bool = False
    readings: tuple[str, ...] = ("probability",)
    masked: bool = False

    # What it is made of

    def denoiser(self, pipe: Any) -> Any:
        """The pipeline's denoiser, the module that runs at every step (U-Net or transformer)."""
        return getattr(pipe, self.denoiser_part)

    def require_readable(self, pipe: Any) -> None:
        """Raise a HookError if a module of the pipeline is compiled, or its denoiser is of an unsupported class."""
        name = type(pipe).__name__
        for part in (self.denoiser_part, "vae", *TEXT_ENCODERS.values()):
            modules = getattr(getattr(pipe, part, None), "modules", list)()
            names = (
                "_compiled_call_impl",
                "forward",
                "decode",
            )  # of what `compile` makes, or users put in place
            methods = (vars(module).get(name) for module in modules for name in names)
            compiled = (hasattr(method, "_torchdynamo_orig_callable") for method in methods)
            if hasattr(getattr(pipe, part, None), "_orig_mod") or any(compiled):
                raise HookError(
                    f"{name}.{part}: expected a plain module, but got a compiled one, into which no hook reaches: load"
                    " the pipeline again and leave compile out"
                )
        classes = list(dict.fromkeys(name for layout in self.layouts for name in layout.denoiser.classes))
        denoiser = type(getattr(pipe, self.denoiser_part, None))
        if classes and not any(base.__name__ in classes for base in denoiser.__mro__):
            raise HookError(
                f"{name}.{self.denoiser_part}: expected a {' or '.join(classes)}, but got {denoiser.__name__}"
            )

    def check_configuration(self, pipe: Any) -> None:
        """Raise a MisfitError if the denoiser's `sample_size` or the VAE's scaling of latents is not usable."""
        size = getattr(self.denoiser(pipe).config, "sample_size", None)
        sides = size if isinstance(size, (list, tuple)) else [size, size]
        if len(sides) != 2 or not all(type(side) is int and 0 < side <= MOST_LATENTS for side in sides):
            expected = f"`sample_size`, the latents' height and width, of 1 to {MOST_LATENTS}"
            got = "none" if size is None else f"{size!r:.40}"
            remedy = "add it, such as 64 for images of 512 pixels"
            raise MisfitError(self.denoiser_part, expected, got, remedy)
        latents.check_scaling(pipe.vae.config)

    # Its sites

    @abstractmethod
    def sites(self, pipe: Any) -> Iterator[Site]:
        """All sites of a pipeline, in the order in which they run."""

    @abstractmethod
    def attentions(self, pipe: Any, kind: str) -> Iterator[tuple[Site, int]]:
        """Sites of the "cross" or "self" attentions, each with (side of the latent / side of the attention's grid).

        In the order in which they run; the factor is 1, 2, 4 or 8.
        """

    def why_unavailable(self, pipe: Any, address: str) -> str | None:
        """The reason why the site "x0_pred" cannot be computed with the pipeline's scheduler; None if any other."""
        if address != "x0_pred":
            return None
        scheduler = pipe.scheduler
        name, kind = type(scheduler).__name__, self.prediction_type(scheduler)
        if kind not in (*UNDER_SIGNAL_LEVELS, *self.predicts):
            return f"{name} has prediction_type {kind!r}"
        needed = {"flow_prediction": "sigmas", "trigflow": "timesteps"}.get(kind, "alphas_cumprod")
        if getattr(scheduler, needed, None) is None:
            return f"{name} has no {needed}"
        if needed == "alphas_cumprod" and scheduler.config.get("use_flow_sigmas"):
            return f"{name} has use_flow_sigmas on"
        return None

    # A call of the denoiser

    @abstractmethod
    def inputs(self, pipe: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Inputs:
        """Timestep, latents and texts of the conditional rows, from the arguments of a denoiser call."""

    @abstractmethod
    def exchange_texts(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], rows: Sequence[int]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments of a denoiser call with the texts exchanged: batch row i gets that of row `rows[i]`."""

    def predictions(self, inputs: Inputs, output: Any, second: bool = False) -> Iterator[tuple[str, Tensor]]:
        """(address, values) of each guidance branch's noise prediction, from the output of a denoiser call.

        `second`: a further call within one step, with `inputs` of the step's first call; it yields nothing here.
        """
        values = None if second else self.prediction(inputs, output)
        for name in inputs.batch.branches if values is not None else ():
            yield f"noise_pred.{name}", inputs.batch.branch(name, values, "noise_pred")

    def branches_from_texts(
        self,
        pipe: Any,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        are_prompt_states: Callable[[Tensor], bool],
        encoder_runs: int,
    ) -> tuple[str, ...] | None:
        """Branches of guidance in the batch, where only the text states show them; None if the pipeline states them.

        A result that is not None is passed to `inputs` as `branches`. `are_prompt_states` returns whether states (rows,
        tokens, width) are the prompts'; `encoder_runs` is how often a text encoder has run before the denoiser.
        """
        return None

    def step_predictions(
        self, pipe: Any, inputs: Inputs, step: Step, wanted: Collection[str]
    ) -> Iterator[tuple[str, Tensor]]:
        """(address, values) of the guided prediction and, if in `wanted`, of "x0_pred" at one scheduler step.

        `inputs` are those of the step's first denoiser call. x0 of a flow is the sample less sigma times the
        velocity, of a TrigFlow rotated back by its angle; of others, see `hooks.architectures.latents`.
        """
        guided = self.unpack_latents(step.output, inputs.batch)
        yield "noise_pred.guided", guided
        kind = self.prediction_type(pipe.scheduler)
        if "x0_pred" not in wanted:
            return
        if kind == "flow_prediction":
            sigma = latents.current_sigma(pipe.scheduler, step.timestep)
            x0 = step.sample.float() - sigma.float() * step.output.float()
            yield "x0_pred", self.unpack_latents(x0, inputs.batch)
        elif kind == "trigflow":
            angle = step.timestep.flatten()[0]
            x0 = angle.cos() * step.sample - angle.sin() * step.output
            yield "x0_pred", x0 / pipe.scheduler.config.sigma_data
        else:
            level = latents.signal_level(pipe.scheduler, step.timestep, guided.device)
            yield "x0_pred", latents.predict_x0(inputs.latent, guided, level, kind)

    def unpack_latents(self, values: Tensor, batch: Batch) -> Tensor:
        """Latents or predictions in the shape (rows, channels, h, w); packed ones are unpacked."""
        return values

    def planned_steps(self, pipe: Any) -> int | None:
        """Number of timesteps of the pipeline call in progress; None if the pipeline does not state it."""
        return getattr(pipe, "num_timesteps", None)

    def word_layers(self, pipe: Any) -> tuple[str, ...]:
        """Address patterns of the attentions that word maps are made from by default."""
        return ("*",)

    def prediction(self, inputs: Inputs, output: Any) -> Tensor:
        """The prediction in the denoiser's output, shape (rows of all branches, channels, h, w)."""
        return tensor_of(output)

    def final_latent(self, pipe: Any, decoder_input: Tensor) -> Tensor:
        """The final latent z0 as the denoiser scales it, from the decoder's input; both (rows, channels, h, w)."""
        return latents.final_latent(pipe.vae, decoder_input)

    def denoiser_calls(self, pipe: Any, steps: int, strength: float | None = None) -> int:
        """Number of timesteps at which the denoiser is called in this many steps; second-order schedulers have more.

        Image to image takes the share `strength` of the steps, as its pipeline counts them.
        """
        scheduler = copy.deepcopy(pipe.scheduler)
        set_steps(scheduler, steps)
        if strength is None:  # of trigflow the last is the end
            return len(scheduler.timesteps) - (self.prediction_type(scheduler) == "trigflow")
        return len(type(pipe).get_timesteps(SimpleNamespace(scheduler=scheduler), steps, strength, "cpu")[0])

    # Guidance and predictions

    def default_guidance(self, pipeline: type) -> float:
        """The guidance scale that a pipeline class uses by default, read from the signature of its call."""
        name = "true_cfg_scale" if self.layouts[0].guidance == "true" else "guidance_scale"
        return float(inspect.signature(pipeline.__call__).parameters[name].default)

    def is_guided(self, config: Mapping[str, Any], scale: float, true_scale: float | None = None) -> bool:
        """Return whether guidance at these scales also needs an unconditional prediction, given the denoiser's config.

        `true_scale` is the classifier-free scale of a model with distilled guidance. A distilled U-Net or Sana takes
        the scale as an input and needs none.
        """
        if self.layouts[0].guidance == "distilled":
            return true_scale is not None and true_scale > 1
        embedded = config.get("guidance_embeds") or config.get("time_cond_proj_dim") is not None
        return scale > self.layouts[0].unguided and not embedded

    def takes_guidance(self, config: Mapping[str, Any]) -> bool:
        """Return whether the guidance scale changes the images; False for FLUX.1-schnell, which has no such input."""
        return self.layouts[0].guidance != "distilled" or bool(config.get("guidance_embeds"))

    def takes_negative(self) -> bool:
        """Return whether the pipeline's call takes a negative prompt."""
        return "negative_prompt" in inspect.signature(self.layouts[0].pipeline_class().__call__).parameters

    def call_arguments(
        self,
        pipe: Any,
        scale: float,
        negative: Sequence[str],
        true_scale: float | None = None,
        steps: int | None = None,
    ) -> dict[str, Any]:
        """Arguments of the pipeline's call: guidance scales, negative prompts, and those that a run always passes.

        `negative` has a negative prompt for each image, "" for none; `true_scale`: see `is_guided`.
        """
        layout = self.layouts[0]
        if layout.guidance == "true":  # in force where a negative prompt is given, be it empty
            return {**layout.fixed, "true_cfg_scale": scale, "negative_prompt": list(negative)}
        arguments = {**layout.fixed, "guidance_scale": scale}
        if steps != 2 and "intermediate_timesteps" in inspect.signature(pipe.__call__).parameters:
            arguments["intermediate_timesteps"] = None  # Sana-Sprint's default is of two steps alone
        if true_scale is not None:
            arguments["true_cfg_scale"] = true_scale
        # some pipelines tell an empty negative prompt from none, or take none at all for a fault
        if any(negative) or true_scale is not None or layout.each_negative:
            arguments["negative_prompt"] = list(negative)
        return arguments

    def step_callback(
        self, pipe: Any, after_step: Callable[[Any, int, Any, dict[str, Any]], dict[str, Any]]
    ) -> dict[str, Any]:
        """Arguments of a pipeline's call that make it call `after_step` after each step.

        `after_step` gets the pipeline, the step number, the timestep and tensors by name, at least `latents`.
        """
        taken = inspect.signature(pipe.__call__).parameters
        if "callback" in taken and "callback_on_step_end" not in taken:  # PixArt's pipelines
            return {
                "callback": lambda step, time, latents: after_step(pipe, step, time, {"latents": latents})
            }
        if (
            "callback_on_step_end" not in taken
        ):  # LongCat-Image's, whose steps are seen at the scheduler alone
            return {}
        return {"callback_on_step_end": after_step}

    def prediction_type(self, scheduler: Any) -> str:
        """The `prediction_type` of a scheduler's configuration; if it has none, the first of `predicts`."""
        return scheduler.config.get("prediction_type", self.predicts[0])

    def decoding_dtype(self, pipe: Any, dtype: str) -> str:
        """The dtype in which a pipeline run in `dtype` decodes latents: the same, except for SDXL."""
        return dtype

    # Sizes

    def latent_scale(self, pipe: Any) -> int:
        """Pixels of the image per pixel of the latent, along a side."""
        return latents.latent_scale(pipe.vae)

    def latent_size(self, pipe: Any, height: int | None = None, width: int | None = None) -> tuple[int, int]:
        """(height, width) of the latent for an image of this size in pixels; None: the model's default size.

        The default of a transformer of packed latents is 128, as in its pipelines.
        """
        side, scale = getattr(self.denoiser(pipe).config, "sample_size", None) or 128, self.latent_scale(pipe)
        default_height, default_width = (side, side) if isinstance(side, int) else side
        return (
            default_height if height is None else height // scale,
            default_width if width is None else width // scale,
        )

    def patch_size(self, pipe: Any) -> int:
        """Latent pixels per position of the finest attention grid, along a side: 1, or a transformer's patch size."""
        return 1

    def prompt_tokens(self, pipe: Any) -> int:
        """Number of token positions in the text that the denoiser is given."""
        return prompt_tokens(pipe)

    def tokens(self, pipe: Any, encoder: str) -> int:
        """Number of token positions in the text that the text encoder "text", "text_2" or "text_3" is given."""
        return longest_text(getattr(pipe, TEXT_ENCODERS[encoder]))

    def image_size(self, pipe: Any, height: int | None = None, width: int | None = None) -> tuple[int, int]:
        """(height, width) of the image in pixels; a side that is None is the model's default."""
        default_height, default_width = self.latent_size(pipe)
        scale = self.latent_scale(pipe)
        return height or default_height * scale, width or default_width * scale

    @abstractmethod
    def image_multiple(self, pipe: Any) -> int:
        """Number of pixels of which an image's height and width must be multiples."""

    # Without weights

    def without_weights(self, pipe: Any) -> Any:
        """A namespace with the pipeline's scheduler, and its denoiser and VAE built without weights (meta device)."""
        networks = {name: getattr(pipe, name) for name in (self.denoiser_part, "vae")}
        copies = {name: build_on_meta(type(network), network.config) for name, network in networks.items()}
        return SimpleNamespace(scheduler=getattr(pipe, "scheduler", None), **copies)

    @abstractmethod
    def text_arguments(self, outputs: Sequence[Any]) -> dict[str, Any]:
        """Text arguments of a denoiser call (token states, pooled text), from the outputs of the text encoders."""

    @abstractmethod
    def meta_text_arguments(self, pipe: Any, tokens: int) -> dict[str, Any]:
        """Text arguments of a denoiser call for one text of this many tokens, as meta tensors (shapes, no values)."""

    @abstractmethod
    def meta_arguments(self, pipe: Any, size: tuple[int, int], text: Mapping[str, Any]) -> dict[str, Any]:
        """All arguments of a denoiser call for one latent of (height, width) `size` and `text`, as meta tensors."""

    def meta_prediction(self, pipe: Any, size: tuple[int, int], text: Mapping[str, Any]) -> Tensor:
        """The prediction for one latent of this size by a denoiser on the meta device: its shape, no values."""
        call = self.meta_arguments(pipe, size, text)
        return self.prediction(self.inputs(pipe, (), call), self.denoiser(pipe)(**call))


def set_steps(scheduler: Any, steps: int) -> None:
    """Set a scheduler's number of steps, with its timesteps on the CPU.

    Flow pipelines also pass a shift `mu` that depends on the image size; it does not change the number of steps.
    """
    options = {"mu": 1.0} if scheduler.config.get("use_dynamic_shifting") else {}
    if scheduler.config.get("prediction_type") == "trigflow" and steps != 2:
        options["intermediate_timesteps"] = None  # of two steps alone
    scheduler.set_timesteps(steps, device="cpu", **options)


def build_on_meta(kind: Any, config: Mapping[str, Any]) -> Any:
    """Build a network of class `kind` from its configuration on the meta device (no memory), in eval mode."""
    import torch

    with torch.device("meta"):
        if hasattr(kind, "config_class"):  # of transformers
            return kind(kind.config_class.from_dict(dict(config))).eval()
        return kind.from_config(config).eval()
