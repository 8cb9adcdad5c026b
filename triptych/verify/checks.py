"""The checks of ``triptych verify`` on a loaded pipeline: images, word maps, captures, tokens, patches, cost."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import re
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module, util
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from hooks.architectures.registry import architecture_of
from hooks.architectures.text_encoders import TEXT_ENCODERS, TOKENIZERS
from hooks.intervention import Intervention
from hooks.patch import Patch
from hooks.probe import Probe
from hooks.sites import attention_sites, available, module_at
from probes.models.loading import LoadedModel
from probes.models.weights import weight_hash
from probes.stages.batch_generation import call_pipeline
from triptych.cli.doctor import requirements, unmet_requirements, version_lines
from triptych.verify.softmax import EagerMaps, Places, UntestableError, listening, replaced

Outcome = tuple[bool, str, dict[str, Any]]  # whether it passed, a sentence, and numbers
WORDS = ("woman", "man", "person")  # one token in most tokenizers: rows of equal length can be exchanged
TEXT = "a {} holding an umbrella in the park"
KEPT = ("latent", "latent.final", "image", "noise_pred.*", "x0_pred", "text*")
ROUNDS = 3
GUIDED = 4.0  # guidance scale with two branches, where the model's own has one
STATUS, CLEAR = (
    Path("/proc/self/status"),
    Path("/proc/self/clear_refs"),
)  # of Linux: peak memory, and its reset


def digest(images: np.ndarray) -> str:
    """Return the SHA-256 of images as 8-bit pixels."""
    return hashlib.sha256((images * 255).round().astype("uint8").tobytes()).hexdigest()


class PipelineRecord:
    """What a pipeline itself computed in one call: steps of the scheduler, latents, encoded prompts, encoder calls."""

    def __init__(self) -> None:
        self.steps: list[tuple[Tensor, Any]] = []  # what the scheduler was given and what it returned
        self.latents: list[Tensor] = []  # after each step, scaled as the denoiser is given them
        self.final: Tensor
        self.encoded: list[tuple[Any, ...]] = []
        self.encoders: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {}

    @contextlib.contextmanager
    def recording(self, pipe: Any) -> Iterator[None]:
        """Record the next call of a pipeline."""
        step, encode = pipe.scheduler.step, pipe.encode_prompt

        @functools.wraps(step)  # pipelines ask which arguments it takes
        def record_step(output: Any, timestep: Any, sample: Any, *args: Any, **kwargs: Any) -> Any:
            result = step(output, timestep, sample, *args, **{**kwargs, "return_dict": True})
            self.steps.append((output, result))
            return result if kwargs.get("return_dict", True) else result.to_tuple()

        def record_encoded(*args: Any, **kwargs: Any) -> Any:
            self.encoded.append(encode(*args, **kwargs))
            return self.encoded[-1]

        def record_call(name: str) -> Callable[..., None]:
            return lambda module, args, kwargs: self.encoders.setdefault(name, (args, kwargs)) and None

        with contextlib.ExitStack() as stack:
            stack.enter_context(replaced(pipe.scheduler, "step", record_step))
            stack.enter_context(replaced(pipe, "encode_prompt", record_encoded))
            for name, part in TEXT_ENCODERS.items():
                if (encoder := getattr(pipe, part, None)) is not None:
                    hook = encoder.register_forward_pre_hook(record_call(name), with_kwargs=True)
                    stack.callback(hook.remove)
            yield

    def after_step(self, pipe: Any, index: int, tensors: dict[str, Any]) -> dict[str, Any]:
        """Record the latents after a step; a callback of pipelines."""
        self.final, times = tensors["latents"], pipe.scheduler.timesteps
        scale = getattr(pipe.scheduler, "scale_model_input", None)
        if scale is not None and index + 1 < len(times):
            self.latents.append(scale(self.final, times[index + 1]).clone())
        else:
            self.latents.append(self.final.clone())
        return {}


class Checks:
    """The checks of one loaded model; each public method of `NAMES` returns its outcome."""

    def __init__(self, loaded: LoadedModel, images: int, steps: int, size: int | None) -> None:
        self.loaded, self.pipe = loaded, loaded.pipe
        self.architecture = architecture_of(self.pipe)
        self.prompts = [TEXT.format(WORDS[row % len(WORDS)]) for row in range(images)]
        height, width = self.architecture.image_size(self.pipe, size, size)
        self.call = {
            "steps": steps,
            "guidance_scale": loaded.guidance_scale,
            "height": height,
            "width": width,
        }
        self.dtype = getattr(torch, loaded.dtype)
        self.images = self.generate()
        self.record = PipelineRecord()
        after_step = functools.partial(self.record.after_step, self.pipe)
        with self.record.recording(self.pipe), self.probe(word_maps=True, keep=KEPT) as self.seen:
            self.images_seen = self.generate(after_step=after_step)

    def generate(
        self,
        prompts: Sequence[str] | None = None,
        seeds: Sequence[int] | None = None,
        after_step: Callable[[int, dict[str, Any]], dict[str, Any]] = lambda index, tensors: {},
        **settings: Any,
    ) -> np.ndarray:
        """Return images (n, height, width, 3) from 0 to 1, by default of `prompts` from one and the same noise."""
        prompts, settings = list(self.prompts if prompts is None else prompts), {**self.call, **settings}
        seeds = list(seeds or [0] * len(prompts))
        return call_pipeline(self.pipe, prompts, seeds, after_step, **settings)[0]

    def probe(self, prompts: Sequence[str] | None = None, **options: Any) -> Probe:
        """Return a probe for a generation of the prompts, as a run makes it."""
        given = list(prompts or self.prompts) if self.architecture.transformer else None
        return Probe(self.pipe, prompts=given, pairs=[(0, 1)], **options)

    # What is there

    def versions(self) -> Outcome:
        """Versions of the packages; fails if a required one is missing or too old."""
        unmet = unmet_requirements(requirements())
        text = f"{'; '.join(version_lines())}{'; expected ' if unmet else ''}{', '.join(unmet)}"
        return not unmet, text, {}

    def device(self) -> Outcome:
        """Device and number format; fails if images are not finite."""
        finite = bool(np.isfinite(self.images).all())
        text = f"{self.device_name}, {self.loaded.dtype}; images are {'' if finite else 'not '}finite"
        return finite, text, {}

    @property
    def device_name(self) -> str:
        """Name of the device, with the threads of a CPU."""
        if self.on_gpu:
            return torch.cuda.get_device_name(self.loaded.device)
        return f"{self.loaded.device}, {torch.get_num_threads()} threads"

    @property
    def on_gpu(self) -> bool:
        """Whether the model is on a CUDA device."""
        return self.loaded.device.startswith("cuda")

    def weights(self) -> Outcome:
        """Hash of all weights; fails if it is another after the checks."""
        before, after = self.loaded.record["weight_hash"], weight_hash(self.pipe)
        return (
            before == after,
            f"SHA-256 {before}, {'the same' if before == after else 'another'} after all checks",
            {},
        )

    # Images

    def image(self) -> Outcome:
        """Images with and without the probe, bit for bit; all sites read, word maps summed."""
        again = self.generate()
        if not np.array_equal(self.images, again):
            raise UntestableError(
                "two generations without the probe differ, so bits cannot be compared on this device"
            )
        same = np.array_equal(self.images, self.images_seen)
        text = f"{len(self.images)} images without and with the probe are {'bit-identical' if same else 'different'}"
        return same, text, {"without": digest(self.images), "with": digest(self.images_seen)}

    def probe_changes_nothing(self) -> tuple[bool, np.ndarray]:
        """Return whether images with a probe are those without one, for the pipeline as it is now, and the images."""
        plain = self.generate()
        with self.probe(word_maps=True) as self.seen:
            return np.array_equal(plain, self.generate()), plain

    # Word maps

    @functools.cached_property
    def places(self) -> Places:
        """Where prompts, image and text stand in the attention, found by experiment."""
        first = next(iter(self.modules.values()))
        return Places.find(self.pipe, first, self.generate, len(self.prompts))

    @property
    def modules(self) -> dict[str, Any]:
        """Modules of the attentions that enter the word maps, by address."""
        sites = {site.address: site.module for site in attention_sites(self.pipe, "cross")}
        return {address: module_at(self.pipe, sites[address]) for address in self.seen.maps.layers}

    def maps(self) -> Outcome:
        """Word maps of the probe and an eager softmax in float32 of all queries and keys."""
        maps, columns = self.seen.maps, self.seen.maps.columns
        eager = EagerMaps(self.modules, self.places, columns)
        with listening(self.modules, eager.receive):
            self.generate()
        expected, rows = eager.maps(maps.values.shape[2:]).numpy(), range(len(columns))
        pairs = [(maps.values[row, : len(columns[row])], expected[row, : len(columns[row])]) for row in rows]
        difference = max(float(np.abs(one - other).max()) for one, other in pairs)
        peak = float(expected.max())
        bound = eager.relative_bound(self.dtype) * peak
        text = (
            f"max |difference| {difference:.2g}, at most {bound:.2g} by rounding; largest value {peak:.3g};"
            f" {maps.definition}, {len(maps.layers)} layers, {sum(map(len, columns))} tokens"
        )
        return (
            difference <= bound and peak > 0,
            text,
            {"difference": difference, "bound": bound, "largest": peak},
        )

    def daam(self) -> Outcome:
        """Word maps of the probe and of the package daam, of one image; U-Nets alone."""
        if self.architecture.transformer:
            raise UntestableError("daam reads U-Nets alone")
        if util.find_spec("daam") is None:
            raise UntestableError("daam is not installed")
        with self.probe(word_maps="daam") as probe:
            self.generate()
        tracer = import_module("daam").trace(self.pipe)
        with tracer:
            self.pipe(self.prompts[0], generator=torch.Generator().manual_seed(0), **_as_keywords(self.call))
            heat = tracer.compute_global_heat_map(self.prompts[0]).heat_maps.float().cpu().numpy()
        columns = probe.maps.columns[0]
        difference = float(np.abs(probe.maps.heat(0)[: len(columns)] - heat[list(columns)]).max())
        bound = 0.02 * float(heat.max())  # images of a batch of one and of several are rounded differently
        return (
            difference <= bound,
            f"max |difference| {difference:.2g}, expected at most 2 % of the largest value",
            {"difference": difference},
        )

    # Captures

    def latents(self) -> Outcome:
        """Latents that the probe kept, and what the pipeline's own callback was given; exact."""
        own, kept = self.record.latents, self.seen.kept["latent"].values
        pairs = [(kept[call + 1], own[call]) for call in range(min(len(own), len(kept) - 1))]
        guided = self.seen.kept["noise_pred.guided"].values
        predictions = [(one, output) for one, (output, _) in zip(guided, self.record.steps)]
        difference = max(self._difference(one, other) for one, other in pairs + predictions)
        text = (
            f"{len(pairs)} latents of callback_on_step_end and {len(predictions)} predictions that the scheduler was given:"
            f" max |difference| {difference:.2g}, expected 0"
        )
        return bool(pairs and predictions) and difference == 0, text, {"difference": difference}

    def x0(self) -> Outcome:
        """x₀ predicted at the last step, and the scheduler's own."""
        if "x0_pred" not in self.seen.kept:
            raise UntestableError(self.architecture.why_unavailable(self.pipe, "x0_pred") or "no such site")
        result, scheduler = self.record.steps[-1][1], self.pipe.scheduler
        own, sigmas = getattr(result, "pred_original_sample", None), getattr(scheduler, "sigmas", None)
        what = "pred_original_sample"
        if own is None and sigmas is not None and float(sigmas[-1]) == 0:
            own, what = result.prev_sample, "last latent, at sigma 0"
        if own is None:
            raise UntestableError(f"{type(scheduler).__name__} returns no x₀ of its own")
        return self._near(self.seen.kept["x0_pred"].values[-1], own, f"{type(scheduler).__name__}'s {what}")

    def decoded(self) -> Outcome:
        """Final latent and decoded image, and those of the pipeline."""
        latent = self._near(
            self.seen.kept["latent.final"].values[0], self.record.final, "the last callback's latents"
        )
        pixels = (self.seen.kept["image"].values[0] / 2 + 0.5).clamp(0, 1)
        own = torch.from_numpy(self.images_seen).movedim(-1, 1)
        image = self._near(pixels, own, "the pipeline's images")
        return latent[0] and image[0], f"z₀ {latent[1]}; image {image[1]}", {}

    def text(self) -> Outcome:
        """States of the text: those that `encode_prompt` returned, and each layer of each encoder called once more."""
        final, same = self.seen.kept["text.final"].values[0], []
        for states in (value for call in self.record.encoded for value in call):
            if isinstance(states, list) and states and isinstance(states[0], Tensor) and states[0].ndim == 2:
                states = pad_sequence(states, batch_first=True)
            if isinstance(states, Tensor) and states.shape == final.shape:
                same.append(torch.equal(states.float().cpu(), final))
        if not same:
            raise UntestableError("encode_prompt returns no states of the shape that the denoiser is given")
        layers, wrong = 0, []
        for name in self.record.encoders:
            for layer, states in enumerate(
                self.hidden_states(name)[1:-2]
            ):  # the last may have been normalised
                kept = self.seen.kept.get(f"{name}.layers.{layer}")
                if kept is not None and kept.values[0].shape == states.shape:
                    layers += 1
                    if not torch.equal(kept.values[0], states):
                        wrong.append(f"{name}.layers.{layer}")
        text = f"text.final is {'' if any(same) else 'not '}what encode_prompt returned; {layers} layers of "
        text += f"{', '.join(self.record.encoders)} compared with the encoders' own hidden states, {len(wrong)} differ"
        return any(same) and layers > 0 and not wrong, f"{text} {' '.join(wrong[:4])}".rstrip(), {}

    @torch.no_grad()
    def hidden_states(self, name: str) -> list[Tensor]:
        """Hidden states of a text encoder, those that it returns last, called again as the pipeline did first."""
        args, kwargs = self.record.encoders[name]
        encoder = getattr(self.pipe, TEXT_ENCODERS[name])
        output = encoder(*args, **{**kwargs, "output_hidden_states": True})
        hidden = [*(output.hidden_states or ())]
        hidden.append(getattr(output, "last_hidden_state", hidden[-1]))
        return [states.float().cpu() for states in hidden]

    def guidance(self) -> Outcome:
        """Rows of the batch: with prompts in reverse order their predictions are reversed, and the others stay."""
        scale, config = self.call["guidance_scale"], dict(self.architecture.denoiser(self.pipe).config)
        if not self.architecture.is_guided(config, scale) and self.architecture.is_guided(config, GUIDED):
            scale = GUIDED  # else there is one row an image, which no order mixes up
        probes = []
        for prompts in (self.prompts, self.prompts[::-1]):
            with self.probe(prompts, keep="noise_pred.*") as probe:
                self.generate(prompts, guidance_scale=scale)
            probes.append(probe)
        first = {
            name: [probe.kept[f"noise_pred.{name}"].values[:1] for probe in probes]
            for name in ("conditional", "unconditional")
        }
        one, other = first["conditional"]
        shift = float((one - other).abs().max())
        bound = 64 * torch.finfo(self.dtype).eps * float(one.abs().max())
        conditional = float((one.flip(1) - other).abs().max())
        one, other = first["unconditional"]
        stayed = float((one - other).abs().max()) if len(one) else 0.0
        branches = (
            "prompts and negative prompts"
            if len(one)
            else "prompts alone, it has no guidance by a second branch"
        )
        text = f"{branches} (scale {scale:g}); prompts exchanged: predictions differ by {shift:.2g}, exchanged back by {conditional:.2g}"
        text += f", without the prompt by {stayed:.2g}" if len(one) else ""
        return max(conditional, stayed) <= bound < shift, text, {"bound": bound}

    def tokens(self) -> Outcome:
        """Tokens of each prompt word: the ids that the text encoder was given at its positions spell it."""
        wrong, count, traced, start = [], 0, 0, 0
        for name, (args, kwargs) in self.record.encoders.items():
            ids = kwargs["input_ids"] if "input_ids" in kwargs else args[0]
            tokenizer = getattr(self.pipe, TOKENIZERS[name])
            words = [
                (row, word)
                for row in range(len(self.prompts))
                for word in self.seen.words(row)
                if word.encoder == name and not word.cut_off
            ]
            for row, word in words:
                spelled = tokenizer.decode(ids[row][list(word.positions)].tolist())
                count += 1
                if re.sub(r"\W", "", spelled).lower() != word.lower:
                    wrong.append(f"{name} row {row} {word.text!r}: {spelled!r}")
            states = self.hidden_states(name)
            traced += self._traced(words, states, start)
            start += states[0].shape[-1]
        text = f"{count} words in {', '.join(self.record.encoders)}, {len(wrong)} wrong {'; '.join(wrong[:3])}".rstrip()
        text += f"; in the denoiser's text, the encoder's states of {traced} are at the columns of their maps"
        return count > 0 and not wrong, text, {}

    def _traced(self, words: Sequence[tuple[int, Any]], layers: Sequence[Tensor], before: int) -> int:
        """Return the number of words if the columns of their maps hold their states of one layer, else 0.

        `before` is the width of the encoders before this one, beside which its states may stand.
        """
        final = self.seen.kept["text.final"].values[0]
        for states in (states.to(self.dtype).float() for states in layers):
            for part in (final[..., start : start + states.shape[-1]] for start in {0, before}):
                places = [
                    (row, self.seen.word_map(word, row).positions, word.positions) for row, word in words
                ]
                if all(torch.equal(part[row, [*one]], states[row, [*two]]) for row, one, two in places):
                    return len(words)
        return 0

    # Patches

    def patch_own(self) -> Outcome:
        """A row's own states written into it at every site leave the images bit-identical."""
        sites = [site for site in available(self.pipe) if site.default and site.read_only is None]
        patches = [Patch(site.address, source=1, into=1) for site in sites if not site.decoded]
        with Intervention(self.pipe, patches):
            images = self.generate()
        same = np.array_equal(images, self.images)
        text = f"{len(patches)} sites, row 1 into row 1: images {'bit-identical' if same else 'differ'}"
        return same, text, {"with": digest(images)}

    def patch_other(self) -> Outcome:
        """All text states of row 0 in row 1, from the same noise, give the image of row 0."""
        encoders = [name for name in TEXT_ENCODERS if f"{name}.embeddings" in self.seen.kept]
        patches = [Patch(f"{name}.embeddings", source=0, into=1) for name in encoders]
        with Intervention(self.pipe, patches):
            images = self.generate()
        difference = float(np.abs(images[1] - self.images[0]).max())
        before = float(np.abs(self.images[1] - self.images[0]).max())
        text = f"embeddings of {', '.join(encoders)}, row 0 into row 1: images of the rows differ by {difference:.2g}"
        text += f", before by {before:.2g}; expected at most one grey level"
        return difference <= 1 / 255 < before, text, {"difference": difference, "before": before}

    # Cost

    def cost(self) -> Outcome:
        """Time and peak memory with the probe over those without, medians of three rounds; images stay the same."""
        ratios: dict[str, list[float]] = {"time": [], "memory": []}
        same = True
        for _ in range(ROUNDS):
            with _Measured(self.loaded.device) as plain:
                images = self.generate()
            with _Measured(self.loaded.device) as probed, self.probe(word_maps=True):
                images_seen = self.generate()
            same &= np.array_equal(images, self.images) and np.array_equal(images_seen, self.images)
            ratios["time"].append(probed.seconds / plain.seconds)
            if plain.peak and probed.peak:
                ratios["memory"].append(probed.peak / plain.peak)
        values = {name: round(statistics.median(values), 3) for name, values in ratios.items() if values}
        text = f"time {values['time']:.2f} times that without the probe, peak memory "
        text += f"{values['memory']:.2f} times" if "memory" in values else "not measurable here"
        text += f" (three rounds; last without {plain.seconds:.2f} s"
        text += f", {plain.peak / 1e6:.0f} MB)" if plain.peak else ")"
        return same, f"{text}; images {'the same' if same else 'differ'}", values

    def _difference(self, kept: Tensor, own: Tensor) -> float:
        """Return the largest difference of kept and own values; packed ones are unpacked by the pipeline, or sorted."""
        kept, own = kept.float().cpu(), own.float().cpu()
        if kept.shape != own.shape and own.ndim == 3 and hasattr(self.pipe, "_unpack_latents"):
            with contextlib.suppress(TypeError):
                scale = self.pipe.vae_scale_factor
                own = self.pipe._unpack_latents(own, self.call["height"], self.call["width"], scale)
        own = own.squeeze(2) if own.ndim == 5 else own
        if kept.shape != own.shape:
            kept, own = (values.flatten(1).sort(dim=1).values for values in (kept, own))
        return float((kept - own).abs().max()) if kept.shape == own.shape else float("inf")

    def _near(self, kept: Tensor, own: Tensor, what: str) -> Outcome:
        """The outcome of comparing values that two ways of rounding make; bound: 16 units of the largest value."""
        difference = self._difference(kept, own)
        bound = 16 * torch.finfo(self.dtype).eps * max(1.0, float(own.abs().max()))
        text = f"against {what}: max |difference| {difference:.2g}, at most {bound:.2g}"
        return difference <= bound, text, {"difference": difference, "bound": bound}


class _Measured:
    """Seconds and peak memory (bytes; 0 if it cannot be measured here) of a block."""

    def __init__(self, device: str) -> None:
        self._gpu = device if device.startswith("cuda") else ""
        self.seconds, self.peak = 0.0, 0

    def __enter__(self) -> _Measured:
        if self._gpu:
            torch.cuda.synchronize(self._gpu)
            torch.cuda.reset_peak_memory_stats(self._gpu)
        else:
            with contextlib.suppress(OSError):
                CLEAR.write_text("5")
        self._began = time.perf_counter()
        return self

    def __exit__(self, *error: Any) -> None:
        if self._gpu:
            torch.cuda.synchronize(self._gpu)
            self.peak = torch.cuda.max_memory_allocated(self._gpu)
        elif CLEAR.exists() and (found := re.search(r"VmHWM:\s+(\d+) kB", STATUS.read_text())):
            self.peak = int(found[1]) * 1024
        self.seconds = time.perf_counter() - self._began


def _as_keywords(call: dict[str, Any]) -> dict[str, Any]:
    """Return settings of a call under the names of diffusers."""
    return {"num_inference_steps": call["steps"], **{k: v for k, v in call.items() if k != "steps"}}
